"""Sessions of several devices as users meet them: what is there, what is refused and why, where state stays."""

import asyncio
import logging
import re

import numpy as np
import pytest

import aioflow as af
from aioflow.graph.op import REGISTRY
from aioflow.kernels.state.variables import read_variable
from aioflow.tensors import nest
from aioflow.tensors.dtypes import DeviceKind
from aioflow.testing import Gate, no_leaks
from tests.support.doubles import gated, light

HERE = "/job:localhost/replica:0/task:0"
CPUS = [f"{HERE}/device:CPU:{index}" for index in range(4)]


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def config(count=4, **options):
    """A session's configuration with so many CPU devices."""
    return af.Config(device_count={"CPU": count}, **options)


@pytest.fixture
def x():
    return af.placeholder(af.float32, [], name="x")


@pytest.fixture
async def session(graph):
    async with af.Session(graph=graph, config=config()) as session:
        yield session


async def places(session, fetches, *feeds):
    """The device of each operation that a call would run, by its number."""
    found = (await session.placement(fetches, feeds)).devices
    return {name: int(device.rpartition(":")[2]) for name, device in found.items()}


# What there is


def test_devices_are_listed_in_order_with_their_limits(graph):
    limits = {"CPU:1": 1 << 20}
    devices = af.Session(graph=graph, config=config(2, memory_limit=limits)).list_devices()
    assert [(each.name, each.device_type, each.memory_limit) for each in devices] == [
        (CPUS[0], "CPU", None),
        (CPUS[1], "CPU", 1 << 20),
    ]
    assert len({each.incarnation for each in devices}) == 2


def test_without_being_told_a_session_has_one_cpu(graph):
    devices = af.Session(graph=graph, config=af.Config(device_count={"GPU": 0})).list_devices()
    assert [each.name for each in devices] == CPUS[:1]


NAMES = [
    "CPU:2", "cpu:2", "/cpu:2", "/CPU:2", "/device:CPU:2", CPUS[2], "/task:0/cpu:2", "/job:localhost/device:CPU:2",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
async def test_a_device_can_be_named_in_full_in_part_and_as_in_older_programs(session, x, name):
    with af.device(name):
        y = af.negative(x, name="y")
    assert await places(session, y, x) == {"y": 2}
    assert await session.run(y, {x: 1.0}) == -1.0


async def test_inner_blocks_refine_outer_ones_and_none_clears_them(session, x):
    with af.device("/job:localhost/device:CPU:1"):
        with af.device("/device:CPU:3"):
            a = af.exp(x, name="a")
        with af.device(None):
            free = af.square(a, name="free")
        b = af.exp(free, name="b")
    assert free.op.device == ""
    found = await places(session, b, x)
    assert (found["a"], found["b"]) == (3, 1)


async def test_what_is_asked_for_shows_in_the_report_and_in_the_log(graph, x, caplog):
    with af.device("/cpu:1"):
        y = af.exp(x, name="grown")
    z = af.square(y, name="squared")
    async with af.Session(graph=graph, config=config(2, log_device_placement=True)) as session:
        text = str(await session.placement(z, [x]))
        assert re.search(rf"grown +exp +{CPUS[1]} +asked for /device:CPU:1", text)
        assert re.search(rf"squared +square +{HERE}/device:CPU:[01] +\w", text)
        with caplog.at_level(logging.INFO, logger="aioflow.placement"):
            await session.run(z, {x: 1.0})
    assert caplog.messages == [text]


async def test_of_the_only_device_the_log_tells_too(graph, x, caplog):
    config = af.Config(device_count={"CPU": 1, "GPU": 0}, log_device_placement=True)
    async with af.Session(graph=graph, config=config) as session:
        with caplog.at_level(logging.INFO, logger="aioflow.placement"):
            await session.run(af.exp(x, name="grown"), {x: 1.0})
    (text,) = caplog.messages
    assert re.search(rf"grown +exp +{CPUS[0]} +the only device", text)


# What is refused


async def refused(session, fetches, feeds=None):
    """What the session says against a run."""
    with pytest.raises(af.errors.InvalidArgumentError) as caught:
        await session.run(fetches, feeds)
    assert not session._state.steps
    return caught.value


ABSENT = ["/cpu:4", "/gpu:0", "/job:worker", "/job:worker/task:1/cpu:0", "/replica:1", "/task:3/device:CPU:0"]


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("name", ABSENT)
async def test_a_device_that_is_not_there_is_refused_with_those_that_are(graph, name, count):
    with af.device(name):
        y = af.negative(af.constant(1.0), name="y")
    async with af.Session(graph=graph, config=config(count)) as session:
        error = await refused(session, y)
        assert error.op == "y"
        assert "test_devices.py" in error.line
        assert "there is no device" in error.message
        assert error.message.count("/device:CPU:") == count + ("CPU" in y.op.device)
        assert await session.run(af.constant(2.0) + 1.0) == 3.0


@pytest.mark.parametrize("name", ABSENT)
async def test_softly_placed_only_the_job_the_replica_and_the_task_must_be_there(graph, x, name):
    with af.device(name):
        y = af.negative(x, name="y")
    async with af.Session(graph=graph, config=config(allow_soft_placement=True)) as session:
        if name in ("/cpu:4", "/gpu:0"):
            assert await session.run(y, {x: 1.0}) == -1.0
            assert (await places(session, y, x))["y"] in range(4)
        else:
            assert (await refused(session, y, {x: 1.0})).op == "y"


@pytest.mark.parametrize("name", ["/cpu:x", "/device:CPU:0/device:CPU:1", "cpu2", "/job:", "/device:CPU:-1", 3])
def test_a_name_that_is_none_is_refused_where_it_is_given(name):
    with pytest.raises((ValueError, TypeError)), af.device(name):
        af.negative(af.constant(1.0))


def test_a_device_function_that_gives_no_name_is_refused_where_it_is_asked(graph):
    with pytest.raises(ValueError, match="nonsense"), graph.device(lambda operation: "nonsense"):
        af.constant(1.0)
    assert not graph.get_operations()


async def test_an_operation_in_a_loop_that_asks_for_an_absent_device_is_the_one_that_is_named(session):
    def body(i):
        with af.device("/cpu:7"):
            return af.add(i, 1, name="one_more")

    error = await refused(session, af.while_loop(lambda i: i < 3, body, [0]))
    assert error.op.endswith("one_more")
    assert error.line.endswith("in body")


@pytest.mark.parametrize("count", [1, 2])
async def test_without_a_kernel_on_any_allowed_device_those_that_have_one_are_listed(graph, monkeypatch, count):
    kernels = REGISTRY["negative"].kernels
    monkeypatch.setitem(kernels, DeviceKind.GPU, kernels[DeviceKind.CPU])
    monkeypatch.delitem(kernels, DeviceKind.CPU)
    with af.device("/cpu:0"):
        y = af.negative(af.constant(1.0), name="y")
    async with af.Session(graph=graph, config=config(count, optimize=False)) as session:
        with pytest.raises((af.errors.InvalidArgumentError, af.errors.UnimplementedError)) as caught:
            await session.run(y)
    assert caught.value.op == "y"
    assert "test_devices.py" in caught.value.line
    assert "negative has no kernel" in caught.value.message
    assert "GPU" in caught.value.message


async def test_operations_that_must_share_a_device_and_ask_for_two_are_both_named_with_their_lines(session, graph, x):
    with af.device("/cpu:1"):
        a = af.exp(x, name="a")
    with graph.colocate_with(a), af.device("/cpu:2"):
        b = af.negative(a, name="b")
    error = await refused(session, b, {x: 1.0})
    assert error.op == "b"
    assert "'a' (built at " in error.message
    assert "/device:CPU:1" in error.message
    assert "/device:CPU:2" in error.message
    assert "colocation" in error.message


async def test_with_soft_placement_the_colocation_is_kept(graph, x):
    with af.device("/cpu:1"):
        a = af.exp(x, name="a")
    with graph.colocate_with(a), af.device("/cpu:2"):
        b = af.negative(a, name="b")
    async with af.Session(graph=graph, config=config(allow_soft_placement=True)) as session:
        found = await places(session, b, x)
        assert found["a"] == found["b"]
        assert await session.run(b, {x: 0.0}) == -1.0


async def test_a_variable_pinned_away_from_what_works_on_it_is_refused(session):
    with af.device("/cpu:1"):
        v = af.Variable(1.0, name="v")
    with af.device("/cpu:2"):
        asked = read_variable(v.handle)
    error = await refused(session, asked)
    assert error.op == asked.op.name
    assert "test_devices.py" in error.line
    assert "'v' (built at " in error.message
    assert "/device:CPU:1" in error.message
    assert "/device:CPU:2" in error.message


async def test_reads_and_updates_are_where_their_variable_is_whatever_is_asked_for_around_them(session):
    with af.device("/cpu:1"):
        v = af.Variable(1.0, name="v")
    with af.device("/cpu:2"):
        y = v.assign_add(2.0)
        z = af.square(v.read_value(), name="z")
    await session.run(v.initializer)
    assert await session.run(y.op) is None
    assert await session.run(z) == 9.0
    assert await places(session, z) == {"v": 1, "read_variable": 1, "z": 2}


def queue():
    return af.FIFOQueue(3, [af.float32], [[]], name="state")


def number():
    return af.Variable(1, name="state")


def table():
    return af.Variable([[1.0], [2.0]], name="state")


WORK = [
    (number, lambda v: v.read_value()),
    (number, lambda v: v.initialized_value()),
    (number, lambda v: v + 1),
    (number, lambda v: v.assign(2)),
    (number, lambda v: af.assign_add(v, 2)),
    (number, lambda v: af.assign_mul(v, 2)),
    (number, lambda v: v.initializer),
    (number, af.is_variable_initialized),
    (number, lambda v: af.report_uninitialized_variables([v])),
    (number, lambda v: af.assert_variables_initialized([v])),
    (number, lambda v: af.count_up_to(v, 3)),
    (table, lambda v: v.sparse_read([0])),
    (table, lambda v: af.nn.embedding_lookup(v, [1])),
    (table, lambda v: v.scatter_add(af.IndexedSlices(af.constant([[5.0]]), af.constant([0])))),
    (table, lambda v: af.scatter_mul(v, [0], [[2.0]])),
    (table, lambda v: af.scatter_nd_update(v, [[0, 0]], [2.0])),
    (table, lambda v: af.train.AdamOptimizer().minimize(af.reduce_sum(v), var_list=[v])),
    (table, lambda v: af.train.ExponentialMovingAverage(0.9).apply([v])),
    (queue, lambda q: q.enqueue(1.0)),
    (queue, lambda q: q.enqueue_many([[1.0]])),
    (queue, lambda q: q.dequeue()),
    (queue, lambda q: q.dequeue_many(2)),
    (queue, lambda q: q.size()),
    (queue, lambda q: q.close()),
    (lambda: af.TextLineReader(name="state"), lambda r: r.num_records_produced()),
    (lambda: af.TextLineReader(name="state"), lambda r: r.serialize_state()),
    (lambda: af.TextLineReader(name="state"), lambda r: r.reset()),
    (lambda: af.ConditionalAccumulator(af.float32, [], name="state"), lambda a: a.num_accumulated()),
    (lambda: af.Barrier([af.float32], [[]], name="state"), lambda b: b.ready_size()),
    (lambda: af.StagingArea([af.float32], shared_name="state"), lambda s: s.size()),
]


@pytest.mark.parametrize(("made", "work"), WORK)
async def test_what_works_on_state_runs_where_that_is_whatever_is_asked_for_around_it(session, graph, x, made, work):
    with af.device("/cpu:2"):
        elsewhere = af.exp(x)
    with af.device("/cpu:1"):
        state = made()
    with af.device("/cpu:3"), graph.colocate_with(elsewhere):
        asked = work(state)
    after = [asked] if isinstance(asked, af.Operation) else list(nest.flatten(asked))
    with af.control_dependencies(after):
        done = af.no_op()
    taking = [node for node in (await session.placement(done)).nodes if REGISTRY[node.op_type].stateful]
    assert len(taking) > 1
    assert {node.device for node in taking} == {CPUS[1]}


async def test_what_asks_for_another_device_than_where_an_earlier_step_has_put_its_state_is_refused(session):
    v = af.Variable(1.0, name="v")
    await session.run(v.initializer)
    home = (await places(session, v.read_value()))["v"]
    with af.device(f"/cpu:{home + 1}"):
        asked = read_variable(v.handle)
    error = await refused(session, asked)
    assert "'v'" in error.message
    assert CPUS[home] in error.message
    assert "earlier step" in error.message
    assert await session.run(v.read_value()) == 1.0


async def test_memory_beyond_a_devices_limit_is_refused_and_the_largest_holders_are_named(graph, x):
    with af.device("/cpu:1"):
        small = af.fill([1000], x, name="small")
        large = af.fill([20_000], x, name="large")
        more = af.fill([30_000], large[0] + small[0], name="more")
    with af.device("/cpu:0"):
        free = af.fill([30_000], x)
    async with af.Session(graph=graph, config=config(2, memory_limit={"CPU:1": 180_000})) as session:
        with pytest.raises(af.errors.ResourceExhaustedError) as caught:
            await session.run([more, large, small], {x: 1.0})
        message = caught.value.message
        assert CPUS[1] in message
        assert "180,000" in message
        assert "'large' (80,000 bytes, built at " in message
        assert "test_devices.py" in message
        assert message.index("'large'") < message.index("'small'")
        del caught
        assert (await session.run(free, {x: 1.0})).shape == (30_000,)
        assert (await session.run(small, {x: 1.0})).shape == (1000,)


@pytest.mark.parametrize("executor", ["tokens", "regions"])
async def test_a_constant_that_a_device_has_no_room_for_is_blamed_with_its_device(graph, executor):
    y = af.sin(af.constant(np.ones(1000, np.float32)), name="y")
    async with af.Session(graph=graph, config=config(1, memory_limit={"CPU:0": 3999}, executor=executor)) as session:
        with pytest.raises(af.errors.ResourceExhaustedError) as caught:
            await session.run(y)
    assert (caught.value.op, caught.value.device) == ("y", CPUS[0])
    assert "test_devices.py" in caught.value.line


async def test_a_value_that_is_not_finite_is_blamed_with_the_device_that_made_it(session, x):
    with af.device("/cpu:2"):
        y = af.log(x - 1.0, name="bad")
    with pytest.raises(af.errors.InvalidArgumentError, match="bad:0 is not finite") as caught:
        await session.run(y, {x: 1.0}, af.RunOptions(check_numerics=True))
    assert caught.value.device == CPUS[2]


async def test_a_time_limit_names_the_devices_of_what_was_waited_for(session, x):
    waits = []
    for index in (1, 3):
        with af.device(f"/cpu:{index}"):
            waits.append(gated(x, Gate(), name=f"on{index}"))
    with pytest.raises(af.errors.DeadlineExceededError) as caught:
        await session.run(waits, {x: 1.0}, af.RunOptions(timeout=5))
    for index in (1, 3):
        assert f"'on{index}' (test_waiting) on {CPUS[index]}" in caught.value.message


@pytest.mark.parametrize("place", range(4))
async def test_a_kernel_that_fails_on_one_device_is_the_error_of_the_run(session, place):
    def unlucky(value):
        raise ValueError("bad luck")

    results = []
    for index in range(4):
        with af.device(f"/cpu:{index}"):
            x = light(af.constant(float(index)))
            results.append(light(x, unlucky, name="unlucky") if index == place else x)
    with no_leaks():
        error = await refused(session, af.add_n(results))
    assert (error.op, error.op_type, error.message) == ("unlucky", "test_light", "bad luck")
    assert error.device.endswith(f"/device:CPU:{place}")
    assert "test_devices.py" in error.line
    assert await session.run(results[place - 1]) == (place - 1) % 4


# Memory


async def test_a_session_tells_what_its_devices_hold_and_who_made_it(graph):
    x = af.placeholder(af.float32, [None])
    with af.device("/cpu:1"):
        v = af.Variable(np.zeros(1000, np.float32), name="v")
        update = v.assign(af.exp(x))
    async with af.Session(graph=graph, config=config(2, track_memory=True)) as session:
        assert await session.memory() == dict.fromkeys(CPUS[:2], af.MemoryUse(0, 0, None, ()))
        await session.run(update.op, {x: np.ones(1000)})
        used = await session.memory()
        assert [use.live for use in used.values()] == [0, 4000]
        assert used[CPUS[1]].peak >= 4000
        assert [(holder.op, holder.bytes) for holder in used[CPUS[1]].by_op] == [(update.op.name, 4000)]
    with pytest.raises(RuntimeError, match="the session is closed"):
        await session.memory()


async def test_only_devices_that_account_for_their_memory_tell_of_it(graph):
    """If one CPU has a limit, all account for theirs: an array that they share counts once, where it was made."""
    async with af.Session(graph=graph, config=config(2, memory_limit={"CPU:1": 7})) as session:
        assert await session.memory() == {
            CPUS[0]: af.MemoryUse(0, 0, None, ()),
            CPUS[1]: af.MemoryUse(0, 0, 7, ()),
        }
    async with af.Session(graph=graph, config=config(2)) as session:
        with pytest.raises(ValueError, match=r"open the session with af.Config\(track_memory=True\)"):
            await session.memory()


# State


async def test_placing_anew_leaves_variables_where_they_are(session):
    variables = [af.Variable(np.ones(100, np.float32), name=f"v{i}") for i in range(6)]
    with af.device("/cpu:2"):
        pinned = af.Variable(5.0, name="pinned")
    update = af.group(*[v.assign_add(v.read_value() * 2.0) for v in variables], pinned.assign_add(1.0))
    await session.run(af.global_variables_initializer())
    before = await places(session, update)
    await session.run(update, options=af.RunOptions(trace=True))
    await session.replan()
    assert not session.cached_plans
    after = await places(session, update)
    names = [*[v.op.name for v in variables], "pinned"]
    assert [before[name] for name in names] == [after[name] for name in names]
    assert after["pinned"] == 2
    await session.run(update)
    assert [value.tolist() for value in await session.run([v.read_value() for v in variables])] == [[9.0] * 100] * 6
    assert await session.run(pinned.read_value()) == 7.0


async def test_variables_on_several_devices_are_looked_at_where_each_is(session):
    variables = []
    for index in range(4):
        with af.device(f"/cpu:{index}"):
            variables.append(af.Variable(float(index), name=f"v{index}"))
    missing = af.report_uninitialized_variables(name="missing")
    await session.run([variables[0].initializer, variables[2].initializer])
    assert (await session.run(missing)).tolist() == [b"v1", b"v3"]
    assert (await session.run("missing:0")).tolist() == [b"v1", b"v3"]
    found = await places(session, missing)
    assert [found[f"v{index}"] for index in range(4)] == [0, 1, 2, 3]


@pytest.mark.parametrize("optimize", [True, False])
async def test_a_function_with_its_own_gradient_reads_variables_of_several_devices(graph, x, optimize):
    variables = []
    for index in (1, 2):
        with af.device(f"/cpu:{index}"):
            variables.append(af.Variable(float(index), name=f"v{index}"))

    @af.custom_gradient
    def scaled(given):
        def gradient(dy, variables):
            return dy * 10.0, [dy * 100.0 * v for v in variables]

        return given * variables[0] * variables[1], gradient

    with af.device("/cpu:3"):
        y = scaled(x)
    slopes = af.gradients(y, [x, *variables])
    async with af.Session(graph=graph, config=config(optimize=optimize)) as session:
        await session.run(af.global_variables_initializer())
        assert await session.run([y, slopes], {x: 3.0}) == [6.0, [10.0, 100.0, 200.0]]
        found = await places(session, [y, *slopes], x)
        assert (found["v1"], found["v2"], found[y.op.name]) == (1, 2, 3)


async def test_two_sessions_share_a_container_whatever_their_devices(graph):
    with graph.container("shared"):
        v = af.Variable(1.0, name="v")
    with af.device("/cpu:1"):
        y = af.square(v.read_value())
    add = v.assign_add(1.0)
    async with af.Session(graph=graph, config=config()) as one:
        await one.run(v.initializer)
        async with af.Session(graph=graph, config=config(1, allow_soft_placement=True)) as other:
            await other.run(add)
            assert await one.run(y) == await other.run(y) == 4.0
    await af.reset(["shared"])


async def test_operations_on_one_variable_keep_their_order_wherever_the_values_come_from(session, x):
    with af.device("/cpu:1"):
        v = af.Variable(1.0)
    with af.device("/cpu:2"):
        slow = light(x * 2.0)
    first = v.read_value()
    second = v.assign(slow)
    third = v.read_value()
    with af.device("/cpu:3"):
        total = first * 100.0 + third
    fourth = v.assign_add(1.0)
    await session.run(v.initializer)
    assert await session.run([fourth, total, second], {x: 4.0}) == [9.0, 108.0, 8.0]


@pytest.mark.parametrize("executor", ["tokens", "regions"])
async def test_values_of_several_devices_come_in_the_order_they_were_asked_for(graph, x, executor):
    made = []
    for index in (2, 0, 1, 3, 0, 2):
        with af.device(f"/cpu:{index}"):
            made.append(x + float(len(made)))
    async with af.Session(graph=graph, config=config(executor=executor)) as session:
        wanted = [made[index] for index in (5, 0, 3, 0, 1, 4, 2)]
        assert await session.run([*wanted, x], {x: 10.0}) == [15.0, 10.0, 13.0, 10.0, 11.0, 14.0, 12.0, 10.0]


async def test_of_a_loop_over_several_devices_each_has_as_many_iterations_under_way(session, graph):
    """A device that needs nothing of the others is at most twice as many iterations ahead of them."""
    gate, begun = Gate(), []

    def more(i, _):
        with af.device("/cpu:0"):
            return i < 30

    def body(i, total):
        with af.device("/cpu:0"):
            made = light(i, lambda value: begun.append(int(value)) or value)
            following = i + 1
        with af.device("/cpu:1"):
            return following, total + gated(made, gate)

    total = af.while_loop(more, body, [0, 0], parallel_iterations=2)[1]
    task = asyncio.create_task(session.run(total))
    await gate.arrived()
    await asyncio.sleep(1)
    assert 2 < len(begun) <= 2 + 2 * 2
    assert gate.entered <= 2
    gate.open()
    assert await task == sum(range(30))


async def test_steps_at_the_same_time_share_the_devices_and_nothing_else(session, x):
    def body(i, y):
        for device in range(4):
            with af.device(f"/cpu:{device}"):
                y = y * 2.0 + x
        return i + 1, y

    y = af.while_loop(lambda i, _: i < 3, body, [0, x])[1]
    alone = [await session.run(y, {x: float(i)}) for i in range(20)]
    together = await asyncio.gather(*[session.run(y, {x: float(i)}) for i in range(20)])
    assert together == alone
