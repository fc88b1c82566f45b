"""A plan is shared by the sessions that would make an equal one, and by no other."""

import dataclasses

import numpy as np
import pytest

import aioflow as af
from aioflow.devices.device import DeviceAttributes
from aioflow.graph.memo import Memo
from aioflow.plan.cost_model import CostModel
from aioflow.plan.pipeline import Signature, make_flow, make_plan
from aioflow.plan.placer import Placer
from aioflow.tracing import NodeStats

DEVICES = [DeviceAttributes(f"/job:worker/replica:0/task:{task}/device:CPU:0", "CPU", None, 7) for task in range(2)]
LIMITED = [device._replace(memory_limit=1 << 20) for device in DEVICES]
STATS = NodeStats("matmul", "matmul", DEVICES[0].name, 0.0, 0.0, 9.0, 4, 1, False)


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def calls():
    """A step with a variable, and the initializer of another variable of 1 KB."""
    x = af.placeholder(af.float32, [None, 4], name="x")
    weights, other = af.Variable(np.ones((4, 4), np.float32)), af.Variable(np.ones(256, np.float32))
    y = af.matmul(af.lossy(x * 2.0, "top_k:0.5"), weights, name="matmul")
    return Signature((x,), (y,), ()), Signature((), (), (other.initializer,))


class Planner:
    """Plans calls by one placer, as a session does."""

    def __init__(self, memo, devices=DEVICES, container="", **settings):
        self.placer = Placer(af.Config(**settings), devices, container)
        self.memo, self.made = memo, 0

    def plan(self, signature, fed=None, meanwhile=lambda: None):
        def make():
            self.made += 1
            meanwhile()
            return make_plan(signature, lambda flow: self.placer.split(flow, fed=fed))

        return self.placer.shared(self.memo, signature, make_flow(signature), fed, make)

    def learn(self):
        self.placer.model.learn([], [STATS])


def test_equal_sessions_share_a_plan_and_the_homes_of_its_state(calls):
    memo = Memo()
    first, second = Planner(memo), Planner(memo)
    for signature in calls:
        assert first.plan(signature) is second.plan(signature)
    assert second.made == 0
    assert second.placer._homes == first.placer._homes
    assert len(second.placer._homes) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"devices": DEVICES[:1]},
        {"devices": DEVICES[::-1]},
        {"devices": LIMITED},
        {"devices": [DEVICES[0], DEVICES[1]._replace(incarnation=8)]},
        {"devices": [DEVICES[0], DeviceAttributes(DEVICES[1].name.replace("CPU", "GPU"), "GPU", None, 7)]},
        {"container": "of another session"},
        {"allow_soft_placement": True},
        {"order_for_memory": False},
        {"schedule_receives": False},
        {"recompute": True},
        {"swap_to_host": True},
        {"compression": "int8"},
        {"compression": {"devices": "int8"}},
        {"cost_model": CostModel(links={"network": af.Link(1.0, 1.0)})},
    ],
    ids=str,
)
def test_a_session_with_other_devices_settings_or_costs_has_a_plan_of_its_own(calls, other):
    memo = Memo()
    first, second = Planner(memo), Planner(memo, **other)
    assert first.plan(calls[0]) is not second.plan(calls[0])
    assert first.made == second.made == 1


def test_only_a_call_that_may_keep_a_residual_depends_on_the_container_of_its_session(calls):
    memo = Memo()
    one, other = Planner(memo, container="one"), Planner(memo, container="other")
    assert one.plan(calls[1]) is other.plan(calls[1])


def test_a_session_with_state_elsewhere_has_a_plan_of_its_own(calls):
    memo = Memo()
    first, second = Planner(memo), Planner(memo)
    plan = first.plan(calls[0])
    ((key, home),) = plan.split.homes.items()
    second.placer._homes[key] = next(device.name for device in DEVICES if device.name != home)
    assert second.plan(calls[0]).split.homes[key] != home


def test_measured_costs_are_those_of_one_session_and_one_lesson(calls):
    memo = Memo()
    first, second, third = Planner(memo), Planner(memo), Planner(memo)
    plan = first.plan(calls[0])
    first.learn()
    later = first.plan(calls[0])
    assert later is not plan
    assert first.plan(calls[0]) is later
    second.learn()
    assert second.plan(calls[0]) not in (plan, later)
    assert third.plan(calls[0]) is plan


def test_a_plan_during_which_its_session_learns_is_not_kept(calls):
    memo = Memo()
    first, second = Planner(memo), Planner(memo)
    plan = first.plan(calls[0], meanwhile=first.learn)
    assert second.plan(calls[0]) is not plan
    assert second.made == 1


def test_costs_do_not_matter_on_one_device_unless_values_are_recomputed_or_swapped(calls):
    memo = Memo()
    for settings, made in (({}, 0), ({"recompute": True}, 1), ({"swap_to_host": True}, 1)):
        first, second = (Planner(memo, DEVICES[:1], **settings) for _ in range(2))
        second.learn()
        first.plan(calls[0])
        second.plan(calls[0])
        assert second.made == made


def test_with_memory_limits_a_plan_depends_on_fed_shapes_other_plans_and_exceeded_limits(calls):
    memo = Memo()
    first, second = Planner(memo, LIMITED), Planner(memo, LIMITED)
    plan = first.plan(calls[0], [(2, 4)])
    assert second.plan(calls[0], [(2, 4)]) is plan
    assert dict(second.placer._expected) == dict(plan.split.peaks)
    assert second.plan(calls[0], [(3, 4)]) is not plan
    third = Planner(memo, LIMITED)
    third.plan(calls[1])
    assert third.plan(calls[0], [(2, 4)]) is not plan
    second.placer.ran_out(DEVICES[0].name)
    assert second.plan(calls[0], [(2, 4)]) is not plan


def test_every_setting_is_a_dependency_of_plans_or_is_known_to_be_none():
    of_devices = {"device_count", "gpus", "memory_limit", "track_memory", "device_filters", "cost_model"}
    of_splits = {
        "allow_soft_placement", "order_for_memory", "schedule_receives", "recompute", "swap_to_host", "compression",
    }  # fmt: skip
    of_calls, of_programs = {"optimize", "log_device_placement"}, {"executor", "fuse_elementwise", "fast_math"}
    none = {
        "operation_timeout", "plan_cache_size", "compute_threads", "blas_threads", "stall_report", "close_timeout",
        "heartbeat_timeout", "token_file", "ssl", "shared_memory", "busy_poll", "file_roots",
        "cuda_graphs",  # programs of GPUs are not shared
    }  # fmt: skip
    known = of_devices | of_splits | of_calls | of_programs | none
    assert {field.name for field in dataclasses.fields(af.Config)} == known
