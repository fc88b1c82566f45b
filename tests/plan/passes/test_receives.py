"""Receives are started just before they are needed."""

import asyncio
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioflow as af
from aioflow.kernels.control import control_flow
from aioflow.plan.passes.flow import Flow, Node, verify
from aioflow.plan.passes.receives import delay_receives, received_bytes
from tests.support.parts import DEVICES, A, B, World, flows_of, parts_of

LARGE = (256, 1024)
SIZE = 256 * 1024 * 4


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def transfer(size: int, source: str, target: str) -> float:
    return 1e-5 + size / 1e9


def seconds(node: Node, device: str) -> float:
    return 1e-2 if node.definition.name in ("tanh", "reduce_sum") else 1e-6


def early(count: int, steps_between: int = 1) -> tuple[list[af.Tensor], af.Tensor, af.Tensor, dict[af.Operation, str]]:
    """Values that A has at once, and a long computation of B's that needs one after the other."""
    x = af.placeholder(af.float32, LARGE, name="x")
    values = [af.multiply(x, float(k), name=f"early_{k}") for k in range(count)]
    built = set(af.get_default_graph().get_operations())
    total = af.placeholder(af.float32, [], name="start")
    first = total
    for value in values:
        for _ in range(steps_between):
            total = af.tanh(total)
        total = total + af.reduce_sum(value)
    places = {op: A if op in built else B for op in af.get_default_graph().get_operations()}
    return values, first, total, places


def waits(flows: dict[str, Flow]) -> dict[str, list[str]]:
    """What the receives of all parts wait for."""
    return {
        node.name: [control.name for control in node.controls]
        for flow in flows.values()
        for node in flow.nodes
        if node.definition.name == "recv" and node.controls
    }


async def run(parts, flows, feeds, fused=True):
    """The fetched values, the most bytes that were received at a time, and how long it took."""
    world = World(transfer, seconds)
    begin = asyncio.get_running_loop().time()
    values = await world.run(parts, flows, 1, feeds, fused)
    return values, world.memory.peak, asyncio.get_running_loop().time() - begin


@pytest.mark.parametrize("fused", [pytest.param(False, marks=pytest.mark.long), True], ids=["tokens", "regions"])
async def test_64_values_that_are_there_early_take_a_fraction_of_the_memory_and_no_more_time(fused):
    values, first, total, places = early(64)
    parts = parts_of([total], [values[0].op.inputs[0], first], places)
    before = flows_of(parts)
    after = delay_receives(before, transfer, seconds)
    for flow in after.values():
        verify(flow)
    assert received_bytes(before, transfer, seconds)[B] >= 60 * SIZE
    assert received_bytes(after, transfer, seconds)[B] <= 4 * SIZE
    feeds = [np.full(LARGE, 1e-9, np.float32), np.float32(0.5)]
    expected, peak, duration = await run(parts, before, feeds, fused)
    found, lower, same = await run(parts, after, feeds, fused)
    assert found == expected
    assert peak >= 56 * SIZE
    assert lower <= 4 * SIZE
    assert same <= duration * 1.001


def test_small_values_and_steps_without_receives_stay_as_they_are():
    values, first, total, places = early(8)
    parts = parts_of([total], [values[0].op.inputs[0], first], places)
    flows = flows_of(parts)
    for options in ({"smallest": SIZE + 1}, {"worth": 8 * SIZE}):
        after = delay_receives(flows, transfer, seconds, **options)
        assert [after[device] is flow for device, flow in flows.items()] == [True, True]
    alone = {A: flows[A]}
    assert delay_receives(alone, transfer, seconds) == alone


def test_where_the_link_is_never_idle_nothing_is_held_back():
    values, first, total, places = early(16)
    parts = parts_of([total], [values[0].op.inputs[0], first], places)
    slow = delay_receives(flows_of(parts), lambda size, source, target: size * 1e-6, seconds)
    assert not waits(slow)


def test_a_value_whose_reader_may_be_late_comes_late():
    x, start = af.placeholder(af.float32, LARGE), af.placeholder(af.float32, [])
    values = [af.multiply(x, float(k)) for k in range(8)]
    slow = start
    for _ in range(4):
        slow = af.tanh(slow)  # A is busy, and B has nothing to do but to wait for it
    sent = af.get_default_graph().get_operations()
    beat = af.identity(start)
    ticks = [beat := af.square(beat) for _ in range(4)]
    sums = [af.reduce_max(value) for value in values]
    total = af.add_n([af.tanh(slow), *sums, *ticks])
    places = dict.fromkeys(af.get_default_graph().get_operations(), B) | dict.fromkeys(sent, A)

    def duration(node: Node, device: str) -> float:
        return {"tanh": 1e-2, "square": 5e-3, "reduce_max": 1e-4}.get(node.definition.name, 1e-6)

    flows = flows_of(parts_of([total], [x, start], places))
    after = delay_receives(flows, transfer, duration, worth=1)
    assert {name for names in waits(after).values() for name in names} == {ticks[-1].op.name}


def test_nothing_waits_for_what_waits_for_a_queue_or_for_the_caller():
    async def later(value):
        return value

    x, start = af.placeholder(af.float32, LARGE), af.placeholder(af.float32, [])
    values = [af.multiply(x, float(k)) for k in range(8)]
    sent = af.get_default_graph().get_operations()
    total = af.py_func(later, [start], af.float32)
    total.set_shape([])
    for value in values:
        total = af.tanh(total) + af.reduce_sum(value * total)
    places = dict.fromkeys(af.get_default_graph().get_operations(), B) | dict.fromkeys(sent, A)
    assert not waits(delay_receives(flows_of(parts_of([total], [x, start], places)), transfer, seconds))

    values, first, total, places = early(8)
    flows = flows_of(parts_of([total], [values[0].op.inputs[0], first], places))
    assert waits(delay_receives(flows, transfer, seconds))
    assert not waits(delay_receives(flows, transfer, seconds, streamed=True))


def test_what_is_received_inside_of_a_frame_waits_for_its_frame_alone():
    """A loop whose body is on B, while A counts."""
    x = af.placeholder(af.float32, LARGE)
    count = af.constant(0)
    start = control_flow.enter(count, "loop")
    merged, _ = af.merge([start, start])
    limit = control_flow.enter(af.constant(3), "loop", is_constant=True)
    stop, going = af.switch(merged, af.loop_cond(merged < limit))
    large = control_flow.enter(x, "loop", is_constant=True) * af.cast(going, af.float32)
    merged.op.update_input(1, af.next_iteration(going + 1))
    on_a = set(af.get_default_graph().get_operations())
    far = af.tanh(af.reduce_sum(large))
    near = af.cast(far, af.int32)
    with af.control_dependencies([near]):
        done = af.exit(stop)
    places = {op: A if op in on_a or op is done.op else B for op in af.get_default_graph().get_operations()}
    flows = flows_of(parts_of([done], [x], places))
    assert any(node.definition.name == "recv" for node in flows[B].nodes)
    assert delay_receives(flows, transfer, seconds, smallest=1, worth=0) == flows


OPS = (af.tanh, af.square, af.negative, af.abs)


@st.composite
def programs(draw):
    """A random graph over four devices: x, the value fetched, and where each operation is."""
    graph = af.Graph()
    with graph.as_default():
        x = af.placeholder(af.float32, [8, 8])
        tensors, places = [x], {}
        for _ in range(draw(st.integers(5, 40))):
            first, second = draw(st.sampled_from(tensors[-12:])), draw(st.sampled_from(tensors))
            with graph.control_dependencies(draw(st.lists(st.sampled_from(tensors), max_size=1))):
                made = draw(st.sampled_from(OPS))(first) + second * 0.5
            device = draw(st.sampled_from(DEVICES))
            for op in itertools.islice(graph.get_operations(), len(places), None):
                places[op] = draw(st.sampled_from([device, device, A]))
            tensors.append(made)
        total = af.add_n(tensors[-4:])
    return graph, x, total, places | {total.op: A}, draw(st.integers(1, 1000)), draw(st.booleans())


@given(programs())
async def test_however_nodes_are_placed_every_step_ends_with_the_same_values(program):
    graph, x, total, places, salt, fused = program

    def duration(node: Node, device: str) -> float:
        return 1e-6 * (1 + hash((node.name, device, salt)) % 100)

    def moving(size: int, source: str, target: str) -> float:
        return 1e-6 * (1 + hash((source, target, salt)) % 20)

    with graph.as_default():
        parts = parts_of([total], [x], places)
    before = flows_of(parts)
    after = delay_receives(before, moving, duration, smallest=1, worth=-(1 << 40))
    for flow in after.values():
        verify(flow)
    value = [np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)]
    worlds = [World(moving, duration), World(moving, duration)]
    (expected,) = await worlds[0].run(parts, before, 1, value, fused)
    (found,) = await worlds[1].run(parts, after, 1, value, fused)
    np.testing.assert_array_equal(found, expected)
