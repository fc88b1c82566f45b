"""One step on several devices: it gives what one gives, sends no more than it must, and leaves nothing behind."""

import asyncio
import contextlib
import re
import weakref
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aioflow as af
from aioflow.devices.device import DeviceAttributes, attributes_of, local_devices
from aioflow.plan.pipeline import Signature, make_plan
from aioflow.plan.placement.colocation import is_state
from aioflow.plan.placer import Placer
from aioflow.rendezvous import LocalRendezvous
from aioflow.testing import Gate, VirtualTimeLoop, faulty_kernel, no_pending_tasks
from tests.support.doubles import gated, light, waiting
from tests.support.graphs import built_graphs
from tests.support.handmade import constant_in, loop
from tests.support.programs import START, blocks, built
from tests.support.scale import amount, some

DEVICES = [f"/device:CPU:{index}" for index in range(4)]
EXECUTORS = ["tokens", "regions"]
CHOICES = st.lists(st.integers(0, 4), min_size=1, max_size=40)


def many(**options):
    """A session's configuration with four devices."""
    return af.Config(device_count={"CPU": 4}, **options)


def one(**options):
    """The same with one, on which all runs, whatever device it asks for."""
    return af.Config(device_count={"CPU": 1}, allow_soft_placement=True, **options)


def scattered(choices):
    """A device function: operations ask for the devices of that list, over and over; 4 is no request.

    Those that work on state ask for none, so that they can be beside it.
    """
    count = iter(range(10**9))

    def device(operation):
        if any(is_state(tensor.spec) for tensor in [*operation.inputs, *operation.outputs]):
            return ""
        return [*DEVICES, ""][choices[next(count) % len(choices)]]

    return device


def virtual(coroutine):
    """What the coroutine comes to, in virtual time; nothing of it is left."""

    async def run():
        with no_pending_tasks():
            return await coroutine

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(run())


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture(params=EXECUTORS)
def executor(request):
    return request.param


@pytest.fixture
async def session(graph, executor):
    async with af.Session(graph=graph, config=many(executor=executor)) as session:
        yield session


@pytest.fixture
def sent(monkeypatch):
    """The keys of all that is sent from device to device, in order."""
    keys, send = [], LocalRendezvous.send

    def note(self, key, value):
        keys.append(key)
        send(self, key, value)

    monkeypatch.setattr(LocalRendezvous, "send", note)
    return keys


def edges(sent):
    """How often each edge was used, by the name of the tensor that was sent and the number of the target."""
    return Counter((key.edge.name.split(" ", 1)[1], key.edge.target[-1]) for key in sent)


def parts_of(fetches, feeds=(), targets=()):
    """The parts of a call, by the number of the device."""
    config = many()
    placer = Placer(config, [attributes_of(device) for device in local_devices(config)])
    plan = make_plan(Signature(tuple(feeds), tuple(fetches), tuple(targets)), placer.split)
    return {part.device[-1]: part.flow for part in plan.parts}


def types_of(flow):
    """How many nodes of each type there are."""
    return Counter(node.definition.name for node in flow.nodes)


# The same values


def agree(found, expected):
    """Bit for bit."""
    assert len(found) == len(expected)
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(value, wanted, strict=True)


async def _program(program, config):
    """All values, derivatives and states that a random program comes to."""
    async with af.Session(graph=program.graph, config=config) as session:
        await session.run(program.init)
        found = await session.run([*program.results, *program.derivatives], {program.x: START})
        assert not session._state.steps
        return found + await session.run([state.read_value() for state in program.states])


def check_program(block, order, choices):
    """A program is the same on four devices as on one, in each executor, optimised and as it was built."""
    program = built(block, order, scattered(choices))
    for options in ({"executor": "tokens", "optimize": False}, {"optimize": False}, {}):
        agree(virtual(_program(program, many(**options))), virtual(_program(program, one(**options))))


@settings(max_examples=amount(4, 40))
@given(blocks(), CHOICES)
def test_branches_loops_and_state_are_the_same_on_four_devices(block, choices):
    check_program(block, 0, choices)


@settings(max_examples=amount(2, 20))
@given(blocks(depth=2), CHOICES)
def test_gradients_are_the_same_on_four_devices(block, choices):
    check_program(block, 1, choices)


@st.composite
def scattered_graphs(draw):
    """A random graph without loops, scattered over four devices, and what is fed beside its placeholders."""
    graph = draw(built_graphs(device=scattered(draw(CHOICES))))
    return graph, draw(st.lists(st.sampled_from(graph.tensors), max_size=2, unique=True))


@settings(max_examples=amount(4, 40))
@given(scattered_graphs(), st.data())
def test_feeds_in_the_middle_and_partial_runs_are_the_same_on_four_devices(drawn, data):
    graph, inner = drawn
    feeds = [tensor for tensor in dict.fromkeys([*graph.feeds, *inner]) if graph.graph.is_feedable(tensor)]
    taken = data.draw(st.integers(0, len(graph.tensors) - 1))
    at_once = data.draw(st.integers(0, len(feeds)))

    async def run(config):
        async with af.Session(graph=graph.graph, config=config) as session:
            await session.run(graph.init)
            values = dict(zip(graph.tensors, await session.run(graph.tensors, graph.feeds), strict=True))
            fed = {tensor: graph.feeds.get(tensor, values[tensor]) for tensor in feeds}
            whole = await session.run(graph.tensors, fed)
            handle = await session.partial_run_setup(graph.tensors, feeds)
            await session.partial_run(handle, [], {tensor: fed[tensor] for tensor in feeds[:at_once]})
            rest = {tensor: fed[tensor] for tensor in feeds[at_once:]}
            part = await session.partial_run(handle, graph.tensors[:taken], rest)
            part += await session.partial_run(handle, graph.tensors[taken:])
            assert not session._state.steps
            return [*whole, *part]

    for executor in EXECUTORS:
        agree(virtual(run(many(executor=executor))), virtual(run(one(executor=executor))))


async def test_random_numbers_do_not_depend_on_the_device(graph, executor):
    af.set_random_seed(7)

    def body(i, x):
        with af.device(DEVICES[1]):
            noise = af.random_normal([3])
        with af.device(DEVICES[2]):
            return i + 1, x + noise + af.random_uniform([3], seed=3)

    with af.device(DEVICES[3]):
        fetches = [af.while_loop(lambda i, x: i < 4, body, [0, af.zeros([3])])[1], af.random_shuffle(af.range(9))]
    found = []
    for config in (many(executor=executor), one(executor=executor)):
        async with af.Session(graph=graph, config=config) as session:
            found.append([value for _ in range(3) for value in await session.run(fetches)])
    agree(*found)
    assert len({value.tobytes() for value in found[0]}) == 6


async def test_a_queue_carries_values_between_devices(session):
    with af.device(DEVICES[1]):
        queue = af.FIFOQueue(2, [af.float32], shapes=[[2]])
    with af.device(DEVICES[2]):
        x = af.placeholder(af.float32, [2]) * 2.0
    put = queue.enqueue(x)
    taken = queue.dequeue()
    with af.device(DEVICES[3]):
        total = taken + 1.0
    placeholder = x.op.inputs[0]
    takers = [asyncio.create_task(session.run(total)) for _ in range(4)]
    for i in range(4):
        await session.run(put, {placeholder: [i, i]})
    assert [value.tolist() for value in await asyncio.gather(*takers)] == [[2 * i + 1.0] * 2 for i in range(4)]


async def test_a_loop_in_one_piece_inside_of_one_that_spans_devices_keeps_the_order_of_its_updates(graph, executor):
    v = af.Variable(0.0)

    async def the_last_first(value):
        await asyncio.sleep(10.0 - float(value))
        return value

    def inner(j, _):
        return j + 1, v.assign(waiting(af.cast(j, af.float32), the_last_first))

    def outer(i, x):
        with af.device(DEVICES[1]):
            x = x + 1.0
        with af.device(DEVICES[2]):
            x = x + 1.0
        _, z = af.while_loop(lambda j, _: j < 3, inner, [0, x])
        return i + 1, z

    i, x = af.while_loop(lambda i, _: i < 2, outer, [0, 0.0])
    with af.control_dependencies([i, x]):
        last = v.read_value()
    init = af.global_variables_initializer()
    for config in (one(executor=executor), many(executor=executor)):
        async with af.Session(graph=graph, config=config) as session:
            await session.run(init)
            assert await session.run([x, last]) == [2.0, 2.0]
            assert await session.run(v.read_value()) == 2.0


async def test_a_branch_whose_operations_are_pinned_away_from_its_variable_spans_devices(session):
    with af.device(DEVICES[0]):
        v, w = af.Variable(1.0), af.Variable(10.0)
    with af.device(DEVICES[1]):
        u = af.Variable(100.0)
    p = af.placeholder(af.bool_, [])

    def pinned():
        value = v.read_value()
        with af.device(DEVICES[2]):
            return af.square(value + 1.0)

    y = af.cond(p, pinned, lambda: af.convert_to_tensor(w.assign_add(1.0)) + u.read_value())
    await session.run(af.global_variables_initializer())
    assert await session.run(y, {p: True}) == 4.0
    assert await session.run(y, {p: False}) == 111.0
    assert await session.run(w.read_value()) == 11.0


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("trips", [0, 2])
async def test_a_branch_of_outer_values_in_a_loop_that_spans_devices_is_dead_after_the_last_iteration(
    session, constant, trips
):
    x, chosen, count = af.placeholder(af.float32, []), af.placeholder(af.bool, []), af.placeholder(af.int32, [])

    def body(i, v):
        with af.device(DEVICES[0]):
            made = af.cond(af.constant(False) if constant else chosen, lambda: v + 1.0, lambda: x * 2.0)
        with af.device(DEVICES[1]):
            return i + 1, af.tanh(made)

    y = af.while_loop(lambda i, v: i < count, body, [0, x])[1]
    expected = np.tanh(np.float32(0.6)) if trips else np.float32(0.3)
    for options in (None, af.RunOptions(trace=True)):
        found = await session.run(y, {x: 0.3, chosen: False, count: trips}, options, af.RunMetadata())
        np.testing.assert_allclose(found, expected, rtol=1e-6)


async def test_a_loop_in_a_branch_may_be_pinned_away_from_the_variable_it_updates(session):
    chosen = af.placeholder(af.bool, [])
    with af.device(DEVICES[0]):
        state = af.Variable(1.0)

    def updating():
        with af.device(DEVICES[1]):
            return af.while_loop(lambda i: i < 3.0, lambda i: i + 0.0 * state.assign_add(1.0) + 1.0, [0.0])

    y = af.cond(chosen, updating, lambda: af.constant(5.0))
    await session.run(state.initializer)
    assert await session.run(y, {chosen: True}) == 3
    assert await session.run(state) == 4


async def test_a_branch_over_state_on_two_devices_spans_them_though_nothing_in_it_is_pinned(session):
    with af.device(DEVICES[1]):
        v = af.Variable(1.0)
    with af.device(DEVICES[2]):
        w = af.Variable(10.0)
    p = af.placeholder(af.bool_, [])
    y = af.cond(p, lambda: v.read_value() + w.read_value(), lambda: af.convert_to_tensor(w.assign_add(1.0)))
    i, z = af.while_loop(lambda i, _: i < 3, lambda i, z: (i + 1, v.assign_add(1.0) + w.read_value() + z), [0, 0.0])
    await session.run(af.global_variables_initializer())
    assert await session.run(y, {p: True}) == 11.0
    assert await session.run(y, {p: False}) == 11.0
    assert await session.run([i, z]) == [3, 2.0 + 3.0 + 4.0 + 3 * 11.0]


# What is sent


async def test_a_value_is_sent_once_to_each_device_that_reads_it_and_stored_once(session, sent):
    with af.device(DEVICES[0]):
        x = af.negative(af.placeholder(af.float32, [1000]), name="x")
    received, results = [], []
    for device in DEVICES[1:3]:
        with af.device(device):
            results += [light(x, lambda value: received.append(weakref.ref(value)) or value) for _ in range(20)]
    await session.run(results, {x.op.inputs[0]: np.ones(1000, np.float32)})
    assert edges(sent)["x:0", "1"] == edges(sent)["x:0", "2"] == 1
    assert len(received) == 40
    assert len({id(reference()) for reference in received}) == 1
    flow = parts_of(results, [x.op.inputs[0]])["1"]
    assert types_of(flow)["recv"] == 1


KIB, MIB = 1 << 10, 1 << 20
TASKS = [f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in range(3)]


def ways(fetches, feeds):
    """How values go from task to task: the beginnings of the names of their edges."""
    placer = Placer(af.Config(), [DeviceAttributes(name, "CPU", None, 7) for name in TASKS])
    plan = make_plan(Signature(tuple(feeds), tuple(fetches), ()), placer.split)
    edges = [node.attrs["edge"] for part in plan.parts for node in part.flow.nodes if node.definition.name == "send"]
    return [edge[0] if edge[0] in "!&" else "" for edge in edges]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([8, KIB, KIB + 1, MIB, MIB + 1], ["!", "!", "!", "!", ""]),
        ([MIB] * 9, [*"!" * 8, "&"]),
        ([MIB] * 8 + [KIB, KIB + 1], [*"!" * 9, "&"]),
    ],
)
def test_values_are_pushed_up_to_a_size_and_a_sum(sizes, expected):
    fed = [af.placeholder(af.uint8, [size]) for size in sizes]
    with af.device(TASKS[0]):
        made = [af.bitwise.invert(value) for value in fed]
    with af.device(TASKS[1]):
        assert ways([af.bitwise.invert(value) for value in made], fed) == expected


def test_the_values_that_several_tasks_push_to_one_count_together():
    size = (1 << 20) - 1
    fed = [af.placeholder(af.uint8, [size]) for _ in range(10)]
    made = []
    for place, value in enumerate(fed):
        with af.device(TASKS[place % 2]):
            made.append(af.bitwise.invert(value))
    with af.device(TASKS[2]):
        found = ways([af.bitwise.invert(value) for value in made], fed)
    assert sorted(found) == sorted("!" * 8 + "&" * 2)


@pytest.mark.parametrize(("depth", "size", "expected"), [(1, 8, "!"), (1, 64, "!"), (1, 512, "&"), (2, 64, "&")])
def test_in_loops_values_are_pushed_if_those_of_the_iterations_ahead_have_room(depth, size, expected):
    def body(x):
        if inner := depth > 1:
            x = af.while_loop(lambda x: x[0] < 5, there_and_back, [x])
        return x if inner else there_and_back(x)

    def there_and_back(x):
        with af.device(TASKS[0]):
            x = x + 1
        with af.device(TASKS[1]):
            return x + 1

    fed = af.placeholder(af.uint8, [size * KIB])
    with af.device(TASKS[1]):
        found = af.while_loop(lambda x: x[0] < 9, body, [fed])
    assert ("&" in ways([found], [fed])) is (expected == "&")


async def test_feeds_constants_and_handles_are_not_sent(session, sent):
    x = af.placeholder(af.float32, [2])
    c = af.constant([1.0, 2.0])
    results = []
    for device in DEVICES:
        with af.device(device):
            results.append(x * c + float(device[-1]))
    values = await session.run([*results, c, x], {x: [1.0, 1.0]})
    assert [value.tolist() for value in values[:4]] == [[1.0 + i, 2.0 + i] for i in range(4)]
    assert not sent
    assert len(parts_of(results, [x])) == 4


async def test_what_a_loop_reads_from_outside_crosses_once_in_a_step_and_not_in_each_iteration(session, sent):
    n = af.placeholder(af.int32, [])
    with af.device(DEVICES[1]):
        outside = af.negative(af.placeholder(af.float32, [2]), name="outside")

    def body(i, x):
        with af.device(DEVICES[2]):
            return i + 1, x + outside

    with af.device(DEVICES[0]):
        start = af.zeros([2]) + 0.0
    x = af.while_loop(lambda i, x: i < n, body, [0, start])[1]
    for count in (1, 7):
        sent.clear()
        value = await session.run(x, {outside.op.inputs[0]: [-1.0, -2.0], n: count})
        assert value.tolist() == [count, 2.0 * count]
        assert edges(sent)["outside:0", "2"] == 1


async def test_control_edges_to_one_device_share_a_pulse(session, sent):
    seen = []
    with af.device(DEVICES[0]):
        first = light(af.constant(1.0), lambda value: seen.append(0) or value, name="first")
    with af.device(DEVICES[1]), af.control_dependencies([first]):
        after = [light(af.constant(float(i)), lambda value: seen.append(1) or value) for i in range(5)]
    await session.run([each.op for each in after])
    assert seen == [0, 1, 1, 1, 1, 1]
    assert len(sent) == 1
    assert [types_of(flow)["pulse"] for flow in parts_of([], (), [each.op for each in after]).values()] == [1, 0]
    sent.clear()
    with af.device(DEVICES[1]), af.control_dependencies([first]):
        both = af.negative(first)
    assert await session.run(both) == -1.0
    assert len(sent) == 1  # the value itself tells that it is there


async def test_control_edges_of_a_node_from_one_device_are_one_message(session, sent):
    with af.device(DEVICES[1]):
        counts = [af.Variable(0, name=f"count_{number}") for number in range(4)]
        added = [count.assign_add(1) for count in counts]
    with af.device(DEVICES[2]):
        other = af.Variable(0)
        more = other.assign_add(1)
    with af.device(DEVICES[0]):
        both = af.group(*[each.op for each in added], more.op, name="both")
        with af.control_dependencies([both]):
            after = af.identity(7.0)
        with af.control_dependencies([added[0].op, added[2].op]):
            after_two = af.identity(8.0)
    await session.run(af.global_variables_initializer())
    sent.clear()
    assert await session.run([after, after_two]) == [7.0, 8.0]
    assert await session.run(counts) == [1, 1, 1, 1]
    assert sum(edges(sent).values()) == 3
    sent.clear()
    assert await session.run([after, added[0]]) == [7.0, 2]
    assert sum(edges(sent).values()) == 2


async def test_control_edges_between_devices_order_effects(session):
    with af.device(DEVICES[0]):
        v = af.Variable(1.0)
    with af.device(DEVICES[1]):
        w = af.Variable(1.0)
    assigned, gate = v.assign(5.0), Gate()
    with af.device(DEVICES[1]), af.control_dependencies([assigned]):
        held = gated(af.constant(0.0), gate)
    with af.control_dependencies([held]):
        added = w.assign_add(v.read_value())
    with af.control_dependencies([added]):
        again = v.assign(0.0)
    await session.run(af.global_variables_initializer())
    task = asyncio.create_task(session.run(again.op))
    await gate.arrived()
    assert await session.run([v.read_value(), w.read_value()]) == [5.0, 1.0]
    gate.open()
    await task
    assert await session.run([v.read_value(), w.read_value()]) == [0.0, 6.0]


@pytest.mark.parametrize("needed_by", ["a value", "a control edge", "itself"])
def test_an_identity_pinned_to_another_device_than_its_input_is_a_copy_and_stays(needed_by):
    with af.device(DEVICES[0]):
        x = af.identity(af.placeholder(af.float32, [2]))
        x = af.negative(x)
    with af.device(DEVICES[1]):
        copy = af.identity(x, name="copy")
    with af.device(DEVICES[0]), af.control_dependencies([copy] if needed_by == "a control edge" else []):
        y = af.square(copy if needed_by == "a value" else x)
    fetches = [copy] if needed_by == "itself" else [y]
    parts = parts_of(fetches, [x.op.inputs[0].op.inputs[0]])
    assert "copy" in [node.name for node in parts["1"].nodes if node.definition.name == "identity"]
    assert types_of(parts["1"])["recv"] == 1


@pytest.mark.parametrize("optimize", [True, False])
async def test_equal_operations_pinned_apart_are_both_run_where_they_are_pinned(graph, optimize):
    x = af.placeholder(af.float32, [])
    results = []
    for device in DEVICES[:2]:
        with af.device(device):
            results.append(af.exp(x))
    assert {number: types_of(flow)["exp"] for number, flow in parts_of(results, [x]).items()} == {"0": 1, "1": 1}


# Primitives by hand


@pytest.mark.parametrize("taken", [True, False])
async def test_a_branch_made_by_hand_spans_devices(session, sent, taken):
    p, x = af.placeholder(af.bool_, []), af.placeholder(af.float32, [])
    with af.device(DEVICES[0]):
        no, yes = af.switch(x, p)
    seen = []
    with af.device(DEVICES[1]):
        yes = light(yes, lambda value: seen.append("yes") or value * 2.0)
    with af.device(DEVICES[2]):
        no = light(no, lambda value: seen.append("no") or value * 3.0)
    with af.device(DEVICES[3]):
        value, index = af.merge([no, yes])
    assert await session.run([value, index], {p: taken, x: 1.0}) == ([2.0, 1] if taken else [3.0, 0])
    assert seen == ["yes" if taken else "no"]
    assert max(edges(sent).values()) == 1


async def test_a_loop_made_by_hand_spans_devices(session, sent):
    n = af.placeholder(af.int32, [])
    with af.device(DEVICES[3]):
        step = af.identity(af.constant(1.5) * 1.0, name="step")

    def body(i, x):
        with af.device(DEVICES[1]):
            y = af.square(x, name="squared")
        with af.device(DEVICES[2]):
            return i + 1, y * 0.5 + constant_in(step)

    with af.device(DEVICES[0]):
        i, x = loop(lambda i, x: i < constant_in(n), body, af.constant(0), af.constant(1.0))
        after = x + 0.0
    for count in (0, 1, 5):
        sent.clear()
        expected = np.float32(1.0)
        for _ in range(count):
            expected = expected * expected * np.float32(0.5) + np.float32(1.5)
        assert await session.run([i, after], {n: count}) == [count, expected]
        assert edges(sent)["squared:0", "2"] == count + 1  # the last time dead


async def test_a_loop_made_by_hand_inside_of_another_spans_devices(session):
    def inner(i):
        def body(j, x):
            with af.device(DEVICES[2]):
                return j + 1, x + constant_in(i, "inner")

        return loop(lambda j, _: j < constant_in(i, "inner"), body, af.identity(i * 0), i * 0, name="inner")

    def body(i, total):
        with af.device(DEVICES[1]):
            total = total + inner(i)[1]
        return i + 1, total

    result = loop(lambda i, _: i < 5, body, af.constant(0), af.constant(0), name="outer")
    assert await session.run(result) == [5, 0 + 1 + 4 + 9 + 16]


async def test_a_dead_loop_leaves_nothing_on_any_device(session, sent):
    p = af.placeholder(af.bool_, [])

    def looped():
        def body(i, x):
            with af.device(DEVICES[1]):
                x = x + 1.0
            with af.device(DEVICES[2]):
                return i + 1, x * 2.0

        return af.while_loop(lambda i, x: i < 3, body, [0, 1.0])[1]

    y = af.cond(p, looped, lambda: af.constant(0.0))
    assert await session.run(y, {p: False}) == 0.0
    assert max(edges(sent).values()) == 1
    assert await session.run(y, {p: True}) == 22.0


@pytest.mark.parametrize(("count", "expected"), [(0, [1.0, 2.0]), (2, [208.0, 344.0])])
async def test_a_loop_in_one_of_few_iterations_leaves_nothing_on_any_device(session, count, expected):
    """What the inner loop begins with is there in the last iteration, too, in which it does not run."""
    start = af.placeholder(af.float32, [2])
    with af.device(DEVICES[0]):
        v = af.Variable(1.0)

    def outer(i, x):
        with af.device(DEVICES[2]):
            x = x + v.read_value()

        def inner(j, y):
            with af.device(DEVICES[1]):
                y = y * 2.0
            with af.device(DEVICES[3]):
                return j + 1, y + x

        return i + 1, x + af.while_loop(lambda j, y: j < 3, inner, [0, start])[1]

    x = af.while_loop(lambda i, _: i < count, outer, [0, start])[1]
    await session.run(v.initializer)
    assert (await session.run(x, {start: [1.0, 2.0]})).tolist() == expected


# At the same time


async def test_iterations_overlap_across_devices(graph, executor):
    """Two devices, each of which takes a second: five iterations are a pipeline of six seconds, not ten."""
    devices = {name: asyncio.Lock() for name in DEVICES[:2]}

    def busy(x, device):
        async def work(value):
            async with devices[device]:
                await asyncio.sleep(1.0)
            return value

        with af.device(device):
            return waiting(x, work)

    def body(i, x):
        made = busy(busy(af.cast(i, af.float32), DEVICES[0]), DEVICES[1])
        return i + 1, af.maximum(x, made)

    for parallel, seconds in ((10, 6.0), (1, 10.0)):
        with af.device(DEVICES[1]):
            result = af.while_loop(lambda i, _: i < 5, body, [0, 0.0], parallel_iterations=parallel)[1]
        async with af.Session(graph=graph, config=many(executor=executor)) as session:
            begin = asyncio.get_running_loop().time()
            assert await session.run(result) == 4.0
            assert asyncio.get_running_loop().time() - begin == seconds


@pytest.mark.parametrize("counting", DEVICES[:2])
@pytest.mark.parametrize("adding", DEVICES[:2])
async def test_a_variable_that_is_late_on_a_device_holds_up_nothing_else_there(session, counting, adding):
    """Ten iterations wait for a second each, all at the same time, though what they make is added up in order."""

    async def work(value):
        await asyncio.sleep(1.0)
        return value

    def body(i, total):
        with af.device(DEVICES[0]):
            made = waiting(af.cast(i, af.float32), work)
        with af.device(adding):
            total = total + made
        with af.device(counting):
            return i + 1, total

    total = af.while_loop(lambda i, _: i < 10, body, [0, 0.0])[1]
    begin = asyncio.get_running_loop().time()
    assert await session.run(total) == 45.0
    assert asyncio.get_running_loop().time() - begin == 1.0


async def test_devices_wait_at_the_same_time(session):
    async def sleep(value):
        await asyncio.sleep(1.0)
        return value

    ends = []
    for device in DEVICES:
        with af.device(device):
            ends.append(waiting(waiting(af.constant(1.0), sleep), sleep))
    await session.run(ends)
    assert asyncio.get_running_loop().time() == 2.0


# Ends


class Visits:
    """Counts those who come by, and does something to one of them."""

    def __init__(self):
        self.count = 0
        self.arrays = []
        self.at = None
        self.act = None

    async def __call__(self, value):
        self.count += 1
        value = value + 1.0
        self.arrays.append(weakref.ref(value))
        if self.count == self.at:
            await self.act()
        return value


def spanning(visits):
    """A loop over four devices that comes by in each iteration on each, beside waits that would last for a year."""
    start = af.placeholder(af.float64, [1000])

    async def year(value):
        await asyncio.sleep(3e7 if visits.at else 0.0)
        return value

    aside = []
    for device in DEVICES:
        with af.device(device):
            aside.append(waiting(start, year))

    def body(i, x):
        for device in DEVICES:
            with af.device(device):
                x = waiting(x, visits, name="visit")
        return i + 1, x * 0.5

    return start, [af.while_loop(lambda i, _: i < 3, body, [0, start])[1], *aside]


@pytest.mark.parametrize("at", some(range(1, 13), 4))  # on each of the devices, and in each of the iterations
@pytest.mark.parametrize("how", ["error", "cancel", "cancelled inside"])
async def test_however_a_step_ends_nothing_of_it_is_left_on_any_device(session, monkeypatch, at, how):
    visits, tables, running = Visits(), [], []
    start, fetches = spanning(visits)
    feeds = {start: np.zeros(1000)}

    class Table(LocalRendezvous):
        def __init__(self):
            super().__init__()
            tables.append(self)

    monkeypatch.setattr("aioflow.runtime.step.LocalRendezvous", Table)

    async def act():
        if how == "error":
            raise af.errors.DataLossError("a bit has flipped")
        if how == "cancelled inside":
            raise asyncio.CancelledError
        running.pop().cancel()
        await asyncio.sleep(1e9)

    expected = (await session.run(fetches, feeds))[0]
    visits.__init__()
    visits.at, visits.act = at, act
    begin = asyncio.get_running_loop().time()
    running.append(asyncio.create_task(session.run(fetches, feeds)))
    with pytest.raises((af.errors.OpError, asyncio.CancelledError)) as caught:
        await running[0]
    assert asyncio.get_running_loop().time() == begin
    if how == "error":
        assert type(caught.value) is af.errors.DataLossError
    if how != "cancel":
        assert caught.value.op.split("/")[-1].startswith("visit")
        assert re.fullmatch(r".*test_partition\.py:\d+ in body", caught.value.line)
    running.clear()
    del caught
    assert not session._state.steps
    assert all(not table.unreceived and not table.waiting for table in tables)
    await asyncio.sleep(0)  # until then the loop has the task that has ended
    assert all(reference() is None for reference in visits.arrays)
    visits.at = None
    np.testing.assert_array_equal((await session.run(fetches, feeds))[0], expected)


@settings(max_examples=amount(4, 40))
@given(blocks(depth=2), CHOICES, st.integers(0, 60), st.sampled_from(["cancel", "sin", "add", "less", "send", "recv"]))
def test_random_ends_of_random_programs_leave_the_session_as_it_was(block, choices, after, how):
    program = built(block, 0, scattered(choices))

    async def run(executor):
        async with af.Session(graph=program.graph, config=many(executor=executor)) as session:
            await session.run(program.init)
            with contextlib.ExitStack() as stack:
                if how != "cancel":
                    error = af.errors.DataLossError("a bit has flipped")
                    stack.enter_context(faulty_kernel(how, at=after + 1, error=error))
                await ended(session)
            assert not session._state.steps
            await session.replan()  # for kernels as they were
            await session.run(program.init)
            return await session.run(program.results, {program.x: START})

    async def ended(session):
        """A step that is ended, unless it is done before."""
        task = asyncio.create_task(session.run(program.results, {program.x: START}))
        if how == "cancel":
            for _ in range(after):
                await asyncio.sleep(0)
            task.cancel()
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
        if how == "cancel":
            assert isinstance(outcome, (asyncio.CancelledError, list))
        elif isinstance(outcome, BaseException):
            assert type(outcome) is af.errors.DataLossError
            assert outcome.op_type == how
            assert "programs.py" in outcome.line

    async def expected():
        async with af.Session(graph=program.graph, config=one()) as session:
            await session.run(program.init)
            return await session.run(program.results, {program.x: START})

    wanted = virtual(expected())
    for executor in EXECUTORS:
        session_has = virtual(run(executor))
        for value, each in zip(session_has, wanted, strict=True):
            np.testing.assert_allclose(value, each, rtol=1e-9)


async def test_of_errors_on_two_devices_one_is_raised_and_no_cancellation_hides_it(session):
    gate = Gate()
    results = []
    for device in DEVICES:

        async def fail(value, device=device):
            await gate.wait()
            raise af.errors.DataLossError(device)

        with af.device(device):
            results.append(waiting(af.constant(1.0), fail))
    task = asyncio.create_task(session.run(results))
    await gate.arrived(4)
    gate.open()
    with pytest.raises(af.errors.DataLossError) as caught:
        await task
    assert caught.value.message in DEVICES


async def test_a_step_over_devices_ends_with_its_time_limit_and_says_what_it_waits_for(session):
    with af.device(DEVICES[2]):
        late = gated(af.constant(1.0), Gate(), name="late")
    with af.device(DEVICES[1]):
        y = late + 1.0
    with pytest.raises(af.errors.DeadlineExceededError, match="'late'"):
        await session.run(y, options=af.RunOptions(timeout=5.0))
    assert not session._state.steps


async def test_closing_the_session_ends_a_step_on_every_device(graph, executor):
    gate, results = Gate(), []
    for device in DEVICES:
        with af.device(device):
            results.append(gated(af.constant(1.0), gate))
    session = af.Session(graph=graph, config=many(executor=executor))
    task = asyncio.create_task(session.run(results))
    await gate.arrived(4)
    await session.close()
    with pytest.raises(af.errors.CancelledError):
        await task
