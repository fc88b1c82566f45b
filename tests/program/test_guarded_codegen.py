"""Branches and loops over devices, in each other too, as coroutines: they give what the executor gives node by node."""

import asyncio
import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import aioflow as af
from aioflow import errors
from aioflow.program import assemble as assembling
from aioflow.testing import VirtualTimeLoop, no_pending_tasks
from aioflow.testing.simulated_cluster import SimulatedCluster
from tests.support.device_programs import Branch, Loop, Mix, branches_of_loops, built, programs
from tests.support.scale import amount

DEVICES = 3
PLACES = [f"/device:CPU:{number}" for number in range(DEVICES)]


def config(**options):
    return af.Config(device_count={"CPU": DEVICES}, **options)


def on(device):
    return af.device(PLACES[device])


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def units(monkeypatch):
    """The units of the devices, by the number of the device, as they are assembled."""
    found, assemble = {}, assembling.assemble

    def note(flow, context, **options):
        program = assemble(flow, context, **options)
        found[context.device.name[-1]] = program.units
        return program

    monkeypatch.setattr("aioflow.runtime.plan_cache.assemble", note)
    return found


async def both_ways(graph, fetches, feeds):
    found = []
    for executor in ("regions", "tokens"):
        async with af.Session(graph=graph, config=config(executor=executor)) as session:
            found.append(await session.run(fetches, feeds))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    return found[0]


def on_virtual_time(coroutine):
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(coroutine)


CASES = [
    (Branch(0, 0, (Mix(1, 0, 0),), (Mix(2, 0, 0),)),),
    (Branch(1, 0, (Branch(2, 0, (Mix(0, 0, 0), Mix(1, 1, 2)), (Mix(2, 0, 0),)), Mix(0, 2, 1)), (Mix(1, 0, 0),)),),
    (Loop(0, 1, 0, 3, (Branch(2, 1, (Mix(1, 0, 1),), (Mix(2, 1, 0),)),)),),
    (Loop(0, 1, 0, 3, (Loop(2, 0, 1, 2, (Mix(1, 0, 2), Mix(2, 3, 1))), Mix(0, 1, 2))),),
    (Loop(0, 0, 0, 4, (Branch(1, 1, (Loop(2, 1, 1, 3, (Mix(0, 2, 0),)),), (Mix(2, 1, 1),)), Mix(1, 1, 2))),),
    (Loop(1, 0, 0, 0, (Loop(2, 1, 1, 3, (Mix(0, 2, 0),)),)),),
    (Branch(0, 0, (Loop(1, 2, 0, 3, (Mix(0, 1, 0),)),), (Mix(2, 0, 0),)), Mix(1, 1, 0)),
    (Loop(0, 0, 0, 4, (Branch(1, 1, (Mix(2, 1, 1),), (Loop(0, 1, 0, 3, (Mix(2, 2, 0),)),)),)),),
]


def with_cases(test):
    for case in CASES:
        test = example(case, 1.0)(test)
    return test


@settings(max_examples=amount(8, 600), deadline=None)
@given(programs(DEVICES) | branches_of_loops(DEVICES), st.sampled_from([-3.0, -0.25, 0.0, 1.0, 7.0]))
@with_cases
def test_values_are_those_of_single_nodes(program, value):
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [2])
        results = built(program, x, PLACES)

    async def run():
        with no_pending_tasks():
            await both_ways(graph, results, {x: [value, value / 2]})

    on_virtual_time(run())


@settings(max_examples=amount(2, 60), deadline=None)
@given(programs(DEVICES, deepest=2) | branches_of_loops(DEVICES), st.sampled_from([-3.0, 1.0]))
@with_cases
def test_tasks_of_a_cluster_give_what_devices_of_a_process_give(program, value):
    places = [f"/job:worker/task:{number}" for number in range(DEVICES)]
    graphs = [af.Graph(), af.Graph()]
    calls = []
    for graph, where in zip(graphs, (places, PLACES), strict=True):
        with graph.as_default():
            x = af.placeholder(af.float32, [2])
            calls.append((built(program, x, where), {x: [value, value / 2]}))

    async def run():
        async with SimulatedCluster({"worker": DEVICES}, latency=1e-3) as cluster:
            async with af.Session(cluster.target("worker", 0), graph=graphs[0]) as session:
                found = [await session.run(*calls[0]) for _ in range(2)]
            for server in cluster.servers.values():
                assert not server._worker.step_table.open, f"{server} still has steps"
        async with af.Session(graph=graphs[1], config=config(executor="tokens")) as session:
            wanted = await session.run(*calls[1])
        for one, other in zip(found[0] + found[1], wanted * 2, strict=True):
            np.testing.assert_array_equal(one, other, strict=True)

    on_virtual_time(run())


def runs_primitives(units):
    """Whether a device leaves primitives of control flow to the executor."""
    return any(unit.role is not None for unit in units)


@pytest.mark.parametrize("program", [CASES[0], *CASES[2:7]])
async def test_no_primitives_are_left_to_the_executor(graph, units, program):
    x = af.placeholder(af.float32, [2])
    with on(0):
        result = af.identity(built(program, x, PLACES)[-1])
    async with af.Session(graph=graph, config=config()) as session:
        await session.run(result, {x: [1.0, 2.0]})
    assert len(units) == DEVICES
    assert not any(map(runs_primitives, units.values()))


@pytest.mark.parametrize("taken", [True, False])
async def test_a_device_that_waits_for_other_things_leaves_the_loop_in_a_branch_to_the_executor(graph, units, taken):
    x = af.placeholder(af.float32, [2])
    with on(1):
        other = af.py_func(lambda value: value, [x], af.float32)
        other.set_shape([2])
    branch = Branch(0, 0, (Loop(0, 1, 0, 3, (Mix(1, 0, 0), Mix(2, 1, 0))),), (Mix(2, 0, 0),))
    result = built((branch,), x, PLACES)[0]
    feeds = {x: [1.0, 2.0] if taken else [-1.0, -2.0]}
    await both_ways(graph, [result, other], feeds)
    units.clear()
    graph.memo.clear()  # else sessions share programs
    async with af.Session(graph=graph, config=config()) as session:
        await session.run([result, other], feeds)
    assert {device for device, found in units.items() if runs_primitives(found)} == {"1"}


def quotient_in_a_branch(x, end=9):
    """100 // (3 - i) on device 1, in the iterations in which device 2 finds i odd or x positive."""

    def divided(i, y):
        def yes():
            with on(1):
                return y // (3 - i)

        with on(2):
            chosen = af.logical_or(af.equal(i % 2, 1), x > 0)
        return af.cond(chosen, yes, lambda: y)

    def body(i, y):
        made = divided(i, y)
        with on(0):
            return i + 1, af.identity(made)

    with on(0):
        return af.while_loop(lambda i, y: i < end, body, [0, 100], name="divides")


async def test_an_error_in_a_branch_names_its_node_and_the_iteration(graph, units):
    x = af.placeholder(af.int32, [])
    result = quotient_in_a_branch(x)
    with no_pending_tasks():
        async with af.Session(graph=graph, config=config()) as session:
            with pytest.raises(errors.InvalidArgumentError) as raised:
                await session.run(result, {x: 0})
            assert await session.run(x + 1, {x: 1}) == 2
    assert raised.value.op_type == "floordiv"
    assert raised.value.device.endswith("CPU:1")
    assert any("iteration 3 of 'divides'" in note for note in raised.value.__notes__)
    assert not any(map(runs_primitives, units.values()))


async def test_an_error_in_an_inner_loop_names_both_iterations(graph):
    def inner(j, z):
        with on(1):
            quotient = z // (1 - j)
        with on(0):
            return j + 1, quotient

    def body(i, y):
        made = af.while_loop(lambda j, z: j < i, inner, [0, y], name="inner")[1]
        with on(0):
            return i + 1, made

    with on(0):
        result = af.while_loop(lambda i, y: i < 9, body, [0, 100], name="outer")
    async with af.Session(graph=graph, config=config()) as session:
        with pytest.raises(errors.InvalidArgumentError) as raised:
            await session.run(result)
    assert raised.value.op_type == "floordiv"
    notes = "\n".join(raised.value.__notes__)
    assert re.search(r"in iteration 1 of '[\w/]*inner', in iteration 2 of 'outer'", notes)


async def test_a_branch_that_is_not_taken_computes_nothing(graph):
    """Its kernel would fail."""
    x = af.placeholder(af.int32, [])
    result = quotient_in_a_branch(x, end=3)
    assert (await both_ways(graph, result, {x: 1}))[0] == 3


async def cancelled_at(graph, result, feeds, turn):
    """Cancel a run after the given number of turns of the loop, and return whether it had ended."""
    with no_pending_tasks():
        async with af.Session(graph=graph, config=config()) as session:
            run = asyncio.ensure_future(session.run(result, feeds))
            for _ in range(turn):
                await asyncio.sleep(0)
            if run.done():
                await run
                return True
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            assert await session.run(af.constant(1, name=f"one{turn}")) == 1
            return False


@pytest.mark.parametrize(("case", "turns"), [(1, 4), (4, 10)])
async def test_a_cancel_at_any_await_ends_all_devices(graph, case, turns):
    x = af.placeholder(af.float32, [2])
    result = built(CASES[case], x, PLACES)[-1]
    turn = 0
    while not await cancelled_at(graph, result, {x: [1.0, 2.0]}, turn):
        turn += amount(3, 1)  # in a short run only every third
    assert turn > turns


def endless_nest(x, places=tuple(PLACES)):
    """An endless loop in an endless loop, in a branch, over all places."""

    def inner(j, z):
        with af.device(places[1]):
            half = z * 0.5
        with af.device(places[2]):
            return j + 1, half + 1.0

    def body(i, y):
        with af.device(places[1]):
            test = y > 0.0
        made = af.cond(test, lambda: af.while_loop(lambda j, z: z > 0.0, inner, [0, y], name="inner")[1], lambda: y)
        with af.device(places[0]):
            return i + 1, af.identity(made)

    with af.device(places[0]):
        return af.while_loop(lambda i, y: y > 0.0, body, [0, x], name="outer")


async def test_the_awaited_value_of_an_inner_loop_is_explained(graph):
    x = af.placeholder(af.float32, [])
    async with af.Session(graph=graph, config=config()) as session:
        run = asyncio.ensure_future(session.run(endless_nest(x), {x: 1.0}))
        for _ in range(500):
            await asyncio.sleep(0)
        text = str(await session.explain())
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert re.search(r"in iteration \d+ of '[\w/]*inner', in iteration 0 of 'outer'", text)


async def test_a_time_limit_ends_a_nest_of_loops_on_all_tasks(graph):
    x = af.placeholder(af.float32, [])
    result = endless_nest(x, [f"/job:worker/task:{number}" for number in range(DEVICES)])
    async with (
        SimulatedCluster({"worker": DEVICES}, latency=1e-3) as cluster,
        af.Session(cluster.target("worker", 0), graph=graph) as session,
    ):
        with pytest.raises(errors.DeadlineExceededError):
            await session.run(result, {x: 1.0}, options=af.RunOptions(timeout=2.0))
        await asyncio.sleep(0.1)
        assert not any(server._worker.step_table.open for server in cluster.servers.values())


async def test_a_traced_run_shows_the_nodes_of_every_device_and_gives_the_same_values(graph):
    x = af.placeholder(af.float32, [2])
    result = built(CASES[3], x, PLACES)[-1]
    metadata = af.RunMetadata()
    async with af.Session(graph=graph, config=config()) as session:
        plain = await session.run(result, {x: [1.0, 2.0]})
        traced = await session.run(result, {x: [1.0, 2.0]}, options=af.RunOptions(trace=True), metadata=metadata)
    np.testing.assert_array_equal(plain, traced)
    assert {stats.device[-1] for stats in metadata.step_stats} >= {"0", "1", "2"}
