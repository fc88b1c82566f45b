"""Light shares of a step, which one coroutine runs, sends and receives included; and shares that need the executor."""

import asyncio

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import aioflow as af
from aioflow.program import assemble as assembling
from aioflow.testing import Gate, VirtualTimeLoop, no_pending_tasks
from tests.support.doubles import gated
from tests.support.scale import amount

DEVICES = 4


def config(**options):
    return af.Config(device_count={"CPU": DEVICES}, **options)


def on(device):
    return af.device(f"/device:CPU:{device}")


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def shares(monkeypatch):
    """The units of the devices, by the number of the device, as they are assembled."""
    found, assemble = {}, assembling.assemble

    def note(flow, context, **options):
        program = assemble(flow, context, **options)
        found[context.device.name[-1]] = program.units
        return program

    monkeypatch.setattr("aioflow.runtime.plan_cache.assemble", note)
    return found


def exchanging(units):
    """Whether that is one unit that sends or receives."""
    names = {node.definition.name for node in units[0].nodes}
    return len(units) == 1 and bool(names & {"send", "recv"}) and len(names) > 1


async def run(graph, fetches, feeds=None, **options):
    async with af.Session(graph=graph, config=config(**options)) as session:
        return await session.run(fetches, feeds)


async def both_ways(graph, fetches, feeds=None):
    fast, slow = [await run(graph, fetches, feeds, executor=executor) for executor in ("regions", "tokens")]
    np.testing.assert_array_equal(fast, slow, strict=True)
    return fast


async def test_a_device_that_reads_and_one_that_computes(graph, shares):
    x = af.placeholder(af.float32, [3])
    with on(1):
        twice = x * 2.0
    with on(0):
        result = twice + 1.0
    np.testing.assert_array_equal(await run(graph, result, {x: [1, 2, 3]}), [3, 5, 7])
    assert all(map(exchanging, shares.values()))
    assert [unit.waits for device in "10" for unit in shares[device]] == [False, True]
    await both_ways(graph, result, {x: [1, 2, 3]})


@pytest.mark.parametrize("turns", [2, 3, 20])
async def test_values_go_to_and_fro(graph, shares, turns):
    x = y = af.placeholder(af.float32, [2])
    for number in range(turns):
        with on(number % 3):
            y = y * 1.5 - 1.0
    await both_ways(graph, y, {x: [1, 2]})
    shares.clear()
    graph.memo.clear()  # else sessions share programs
    await run(graph, y, {x: [1, 2]})
    assert len(shares) == min(turns, 3)
    assert all(map(exchanging, shares.values()))  # of many turns, only the planner sees that each needs the last


@pytest.mark.parametrize("is_sent", [False, True])
async def test_a_send_does_not_wait_for_a_value_that_it_does_not_need(graph, shares, is_sent):
    """Device 0 receives a value that is late, and one from which another device waits for a result.

    One coroutine may receive the late value last, unless that leads to a send, too.
    """
    gate = Gate()
    with on(1):
        late = gated(af.constant(1.0), gate)
        late.set_shape([])
    with on(2):
        x = af.placeholder(af.float32, [])
        early = x * 2.0
    with on(0):
        first, second = late + 1.0, early + 1.0
    seen = asyncio.Event()

    async def tell(value):
        seen.set()
        return value

    with on(3):
        told = af.py_func(tell, [second], af.float32)
        first = af.identity(first) if is_sent else first
    async with af.Session(graph=graph, config=config()) as session:
        task = asyncio.ensure_future(session.run([first, told], {x: 2.0}))
        await gate.arrived()
        await seen.wait()
        assert not task.done()
        gate.open()
        assert await task == [2.0, 5.0]
    assert exchanging(shares["0"]) is not is_sent


def waiting(x):
    made = af.py_func(lambda value: value, [x], af.float32)
    made.set_shape([])
    return made


def wide(x):
    return af.add_n([x] * 300)


@pytest.mark.parametrize("work", [waiting, wide])
async def test_other_shares_are_left_to_the_executor(graph, shares, work):
    x = af.placeholder(af.float32, [])
    with on(1):
        made = work(x)
    with on(0):
        result = made * 2.0
    await both_ways(graph, result, {x: 3.0})
    shares.clear()
    graph.memo.clear()  # else sessions share programs
    await run(graph, result, {x: 3.0})
    assert not exchanging(shares["1"])


@pytest.mark.parametrize("turns", [2, 3])
async def test_numpy_warns_of_nothing_in_a_share_that_waits(graph, shares, turns):
    x = y = af.placeholder(af.float32, [2])
    for number in range(turns):
        with on(number % 2):
            y = y / (y - y)
    with np.errstate(all="raise"):
        found = await both_ways(graph, y, {x: [1.0, 0.0]})
    assert np.isnan(found[1])
    assert shares


async def test_a_fetched_constant_of_a_share_that_waits(graph):
    x = af.placeholder(af.float32, [])
    with on(1):
        twice = x * 2.0
    with on(0):
        constant, result = af.constant(7.0), twice + 1.0
    assert await run(graph, [constant, result], {x: 1.0}) == [7.0, 3.0]


async def test_variables_keep_the_order_of_their_updates(graph):
    x = af.placeholder(af.float32, [])
    with on(1):
        count = af.Variable(0.0)
    with on(0):
        more = x + 1.0
    with on(1):
        added = count.assign_add(more)
    with on(0), af.control_dependencies([added]):
        seen = af.identity(x)
    with on(1), af.control_dependencies([seen]):
        again = count.assign_add(10.0)
    for executor in ("regions", "tokens"):
        async with af.Session(graph=graph, config=config(executor=executor)) as session:
            await session.run(count.initializer)
            assert await session.run([again, seen], {x: 1.0}) == [12.0, 1.0]


async def test_an_error_names_the_node_of_its_device_and_ends_the_step_on_all(graph):
    x = af.placeholder(af.int32, [])
    with on(1):
        wrong = af.constant([1, 2, 3])[x] // (x - 2)
    with on(0):
        result = wrong + 1
    with no_pending_tasks():
        async with af.Session(graph=graph, config=config()) as session:
            assert await session.run(result, {x: 1}) == -1
            with pytest.raises(af.errors.InvalidArgumentError) as caught:
                await session.run(result, {x: 2})
            assert caught.value.op_type == "floordiv"
            assert caught.value.device.endswith("CPU:1")
            assert await session.run(result, {x: 0}) == 0


async def test_a_waiting_share_is_explained_and_cancelled(graph):
    gate = Gate()
    with on(1):
        late = gated(af.constant(1.0), gate)
        late.set_shape([])
    with on(0):
        result = late + 1.0
    async with af.Session(graph=graph, config=config()) as session:
        task = asyncio.ensure_future(session.run(result))
        await gate.arrived()
        waits = (await session.explain()).waits
        assert {wait.op_type for wait in waits} >= {"recv"}
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@settings(max_examples=amount(15, 300), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12))
@example([(0, 0, 0)])
@example([(1, 0, 0), (0, 1, 1), (2, 2, 0), (1, 3, 1)])
def test_values_are_those_of_single_nodes(steps):
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [2])
        made = [x]
        for device, first, second in steps:
            with on(device):
                made.append(made[first % len(made)] * 0.5 + made[second % len(made)])

    async def work():
        with no_pending_tasks():
            return await both_ways(graph, made[-3:], {x: [1.0, -2.0]})

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(work())


@pytest.mark.parametrize("count", [2, 300])
async def test_work_before_and_after_a_node_with_many_inputs(graph, count):
    x = af.placeholder(af.float32, [2])
    total = af.add_n([af.tanh(x * float(number)) for number in range(count)]) * 2.0
    await both_ways(graph, [total], {x: [1.0, -2.0]})
