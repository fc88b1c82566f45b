"""Shares of a step that devices may run as one coroutine."""

import dataclasses

import pytest

import aioflow as af
from aioflow.devices.device import DeviceAttributes
from aioflow.plan.passes.relink import in_place
from aioflow.plan.passes.share_order import is_marked, mark_shares, share_order
from aioflow.plan.passes.timeline import estimated
from aioflow.plan.pipeline import Signature, make_plan
from aioflow.plan.placer import Placer

DEVICES = [f"/job:localhost/replica:0/task:0/device:CPU:{number}" for number in range(2)]


def flows_of(fetches, feeds):
    """The flows of the devices, by name, before shares are marked."""
    placer = Placer(af.Config(), [DeviceAttributes(name, "CPU", None, 7) for name in DEVICES])
    plan = make_plan(Signature(tuple(feeds), tuple(fetches), ()), placer.split)
    for node in transfers(flows := {part.device: part.flow for part in plan.parts}):
        node.attrs["section"] = ""
    return flows


def transfers(flows):
    return [node for flow in flows.values() for node in flow.nodes if node.definition.name in ("send", "recv")]


@pytest.mark.parametrize("delayed", [False, True])
def test_devices_that_would_wait_for_each_other_in_a_circle_run_node_by_node(delayed):
    """The first value that device 1 receives is asked for after the second one, to save memory."""
    with af.Graph().as_default():
        x = af.placeholder(af.float32, [4])
        with af.device(DEVICES[0]):
            first, second = x + 1.0, x + 2.0
        with af.device(DEVICES[1]):
            later = second * 2.0
            results = [later, later * first]
        flows = flows_of(results, [x])
    flow = flows[DEVICES[1]]
    if delayed:
        receives = [node for node in flow.nodes if node.definition.name == "recv"]
        (early,) = [node for node in receives if node.name.startswith(first.name)]
        early.controls = (next(node for node in flow.nodes if node.name == later.op.name),)
        flows[DEVICES[1]] = dataclasses.replace(flow, nodes=in_place(flow.nodes))
    mark_shares(flows, estimated)
    assert all(is_marked(node) is not delayed for node in transfers(flows))


def test_kernels_run_together_after_values_that_come_at_once():
    """The second value needs as much on its device as the first one, the third one much more."""
    with af.Graph().as_default():
        x = af.placeholder(af.float32, [600, 600])
        with af.device(DEVICES[0]):
            first, second = x[0] + 1.0, x[1] + 2.0
            third = af.matmul(x, x)[0]
        with af.device(DEVICES[1]):
            result = (first * 2.0) * second * third
        flows = flows_of([result], [x])
    mark_shares(flows, estimated)
    order = share_order(flows[DEVICES[1]].nodes)
    names = [node.definition.name for node in order if node.definition.name in ("recv", "multiply")]
    assert names == ["recv", "recv", "multiply", "multiply", "recv", "multiply"]
