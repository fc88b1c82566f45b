"""Reports of steps that wait for each other, of loops under way, and of holders of locks."""

import asyncio
import functools
import itertools
import random
import threading

import numpy as np
import pytest

import aioflow as af
from aioflow.plan import op_cost
from aioflow.testing import Gate, VirtualTimeLoop, cluster
from tests.support.doubles import gated, light, waiting
from tests.support.scale import some

SECTION = {"exclusive_resource_access": False}


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def turns(count=30):
    for _ in range(count):
        await asyncio.sleep(0)


async def cycles_of(session, *fetches):
    """The report of a session, some time after it began these runs; then the runs are cancelled."""
    tasks = [asyncio.create_task(session.run(fetch)) for fetch in fetches]
    try:
        await asyncio.sleep(100)
        return await session.explain()
    finally:
        await ended(*tasks)


async def ended(*tasks):
    for task in tasks:
        task.cancel()
    return await asyncio.gather(*tasks, return_exceptions=True)


def queue(name, **more):
    return af.FIFOQueue(1, [af.float32], shapes=[[]], name=name, **more)


def ring(count):
    """Operations each of which takes from one queue and puts into the next."""
    queues = [queue(f"queue{place}") for place in range(count)]
    taken = [each.dequeue(name=f"take{place}") for place, each in enumerate(queues)]
    return queues, [queues[(place + 1) % count].enqueue(each, name=f"put{place}") for place, each in enumerate(taken)]


def operations(report):
    return [sorted(edge.operation for edge in cycle.edges) for cycle in report.cycles]


# Queues


@pytest.mark.parametrize("executor", ["regions", "tokens"])
@pytest.mark.parametrize("count", [1, 2, 5])
async def test_steps_that_wait_on_each_others_queues_are_a_cycle_with_operations_and_lines(graph, count, executor):
    _, puts = ring(count)
    async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:
        report = await cycles_of(session, *puts)
    assert operations(report) == [[f"take{place}" for place in range(count)]]
    (cycle,) = report.cycles
    assert {edge.step for edge in cycle.edges} == set(range(1, count + 1))
    assert all("test_deadlocks.py" in edge.line for edge in cycle.edges)
    assert all("take an element of" in edge.what for edge in cycle.edges)
    assert str(report).startswith("deadlock: ")
    assert "which needs 'put" in str(report)


async def test_steps_that_wait_on_each_others_full_queues_are_a_cycle(graph):
    one, two = queue("one"), queue("two")

    def swap(first, second, name):
        with af.control_dependencies([first.enqueue(1.0, name=f"put {name}".replace(" ", "_"))]):
            return second.dequeue(name=f"take_{name}")

    steps = [swap(one, two, "a"), swap(two, one, "b")]
    async with af.Session(graph=graph) as session:
        await asyncio.gather(session.queue(one).put(0.0), session.queue(two).put(0.0))
        assert operations(await cycles_of(session, *steps)) == [["put_a", "put_b"]]


async def test_a_ring_of_steps_that_has_lost_its_token_is_a_cycle(graph):
    queues, puts = ring(2)
    with af.control_dependencies([puts[0]]):
        both = queues[1].dequeue(name="take_back")
    async with af.Session(graph=graph) as session:
        assert operations(await cycles_of(session, both, puts[1])) == [["take0", "take1"]]


async def test_a_step_deep_inside_loops_and_branches_is_in_a_cycle(graph):
    one, two = queue("one"), queue("two")

    def nested(first, second, depth):
        if not depth:
            with af.control_dependencies([second.enqueue(first.dequeue(name="taken"))]):
                return af.constant(1)

        def inner():
            return nested(first, second, depth - 1)

        if depth % 2:
            return af.cond(af.placeholder_with_default(True, []), inner, lambda: af.constant(0))
        return af.while_loop(lambda i: i < 3, lambda i: i + inner(), [0])

    steps = [nested(one, two, 4), nested(two, one, 3)]
    async with af.Session(graph=graph) as session:
        (cycle,) = (await cycles_of(session, *steps)).cycles
    assert len(cycle.edges) == 2
    assert all("taken" in edge.operation for edge in cycle.edges)


async def test_staging_areas_that_wait_for_each_other_are_a_cycle(graph):
    areas = [af.StagingArea([af.float32], shapes=[[]], capacity=1) for _ in range(2)]
    steps = [areas[1 - place].put(areas[place].get()) for place in range(2)]
    async with af.Session(graph=graph) as session:
        report = await cycles_of(session, *steps)
    assert len(report.cycles) == 1
    assert {edge.op_type for edge in report.cycles[0].edges} == {"unstage"}


async def test_a_cycle_over_two_devices_is_found_through_their_sends(graph):
    one, two = queue("one"), queue("two")
    with af.device("/cpu:0"):
        x = one.dequeue(name="take_one")
    with af.device("/cpu:1"):
        y = af.negative(x)
    with af.device("/cpu:0"):
        first = two.enqueue(y)
        second = one.enqueue(two.dequeue(name="take_two"))
    async with af.Session(graph=graph, config=af.Config(device_count={"CPU": 2})) as session:
        (cycle,) = (await cycles_of(session, first, second)).cycles
    assert {"take_one", "take_two"} <= {edge.operation for edge in cycle.edges}


async def test_both_sessions_report_a_cycle_through_them():
    graphs = []
    for place in range(2):
        with af.Graph().as_default() as graph, graph.container("shared"):
            queues = [queue(f"queue{each}", shared_name=f"queue{each}") for each in range(2)]
            graphs.append((graph, queues[1 - place].enqueue(queues[place].dequeue(name=f"take{place}"))))
    async with af.Session(graph=graphs[0][0]) as one, af.Session(graph=graphs[1][0]) as two:
        tasks = [asyncio.create_task(session.run(op)) for session, (_, op) in zip((one, two), graphs, strict=True)]
        await turns()
        for session in (one, two):
            report = await session.explain()
            assert operations(report) == [["take0", "take1"]]
            assert sorted(edge.step for edge in report.cycles[0].edges) == [0, 1]
            assert "a step of another session" in str(report)
            assert len(report.waits) == 1
        await ended(*tasks)
    await af.reset(["shared"])


async def test_a_cycle_over_hosts_is_reported_with_the_sessions_step_numbers(graph):
    one, two = None, None
    with af.device("/job:worker/task:0"):
        one = queue("one")
        x = one.dequeue(name="take_one")
    with af.device("/job:worker/task:1"):
        two = queue("two")
        y = two.dequeue(name="take_two")
        put_two = two.enqueue(x + 1.0)
    with af.device("/job:worker/task:0"):
        put_one = one.enqueue(y + 1.0)
    async with (
        cluster({"worker": 2}) as simulated,
        af.Session(simulated.target("worker", 0), graph=graph) as session,
    ):
        tasks = [asyncio.create_task(session.run(each)) for each in (put_two, put_one)]
        await asyncio.sleep(5)
        report = await session.explain()
        (cycle,) = report.cycles
        assert {"take_one", "take_two"} <= {edge.operation for edge in cycle.edges}
        assert {edge.step for edge in cycle.edges} == {1, 2}
        assert {edge.place.split("/device")[0] for edge in cycle.edges} == {
            f"/job:worker/replica:0/task:{place}" for place in range(2)
        }
        await ended(*tasks)
        with pytest.raises(af.errors.DeadlineExceededError, match="take_two"):
            await session.run(put_one, options=af.RunOptions(timeout=3))


async def test_a_time_limit_on_a_cluster_names_the_other_steps_of_its_session(graph):
    with af.device("/job:worker/task:1"):
        one, two = queue("one"), queue("two")
        put_two = two.enqueue(one.dequeue(name="take_one"))
        put_one = one.enqueue(two.dequeue(name="take_two"))
    async with (
        cluster({"worker": 2}) as simulated,
        af.Session(simulated.target("worker", 0), graph=graph) as session,
    ):
        other = asyncio.create_task(session.run(put_two))
        await asyncio.sleep(1)
        with pytest.raises(af.errors.DeadlineExceededError) as caught:
            await session.run(put_one, options=af.RunOptions(timeout=3))
        await ended(other)
    told = str(caught.value)
    assert told.index("step 2, ") < told.index("a cycle of 2 operations") < told.index("step 1: 'take_one'")
    assert "another session" not in told


# No cycle


async def test_a_slow_producer_is_in_no_cycle(graph):
    """The slow producers: application code, a feed, a step that computes first, and a step that has run before."""
    one, two = queue("one"), queue("two")
    step, back = two.enqueue(one.dequeue(name="take_one")), one.enqueue(two.dequeue(name="take_two"))
    gate = Gate()
    computes = one.enqueue(gated(1.0, gate))
    seed = one.enqueue(5.0)
    async with af.Session(graph=graph) as session:
        assert len((await cycles_of(session, step, back)).cycles) == 1
        assert (await cycles_of(session, step, back, computes)).cycles == ()
        async with session.queue(one).feed(_never(), close=False):
            assert (await cycles_of(session, step, back)).cycles == ()
    async with af.Session(graph=graph) as session:
        await asyncio.gather(session.run(seed), session.run(step), session.run(back))
        await session.queue(one).take()
        assert (await cycles_of(session, step, back)).cycles == ()
    async with af.Session(graph=graph) as session:
        await asyncio.gather(session.queue(one).put(1.0), session.run(step))
        assert (await cycles_of(session, step)).cycles == ()


async def _never():
    await asyncio.Event().wait()
    yield 1.0


async def test_a_pipeline_that_waits_for_its_source_is_in_no_cycle(graph):
    queues = [queue(f"queue{place}") for place in range(5)]
    moves = [after.enqueue(before.dequeue()) for before, after in itertools.pairwise(queues)]
    async with af.Session(graph=graph) as session:
        assert (await cycles_of(session, *moves, queues[-1].dequeue())).cycles == ()


@pytest.mark.parametrize("seed", some(range(40), 8))
def test_a_step_that_is_reported_in_a_cycle_never_ends(seed):
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(_random_program(random.Random(seed)))


async def _random_program(rng):
    """Steps that take, pause and put in random order, and slow feeds."""

    async def dawdle(value):
        await asyncio.sleep(rng.randrange(1, 50))
        return value

    with af.Graph().as_default() as graph:
        queues = [queue(f"queue{place}") for place in range(rng.randrange(1, 5))]
        steps = []
        for _ in range(rng.randrange(1, 8)):
            last = []
            for _ in range(rng.randrange(1, 5)):
                with af.control_dependencies(last):
                    of = rng.choice(queues)
                    make = rng.choice([of.dequeue, functools.partial(of.enqueue, 1.0), lambda: waiting(1.0, dawdle)])
                    made = make()
                    last = [made if isinstance(made, af.Operation) else made.op]
            steps.append(last[0])
    async with af.Session(graph=graph) as session:
        tasks = {}
        for step in steps:
            task = asyncio.create_task(session.run(step))
            await turns(2)
            tasks[session._state.step_count] = task
        fed = [session.queue(each).feed(_slowly(rng), close=False) for each in queues if rng.random() < 0.3]
        for feed in fed:
            await feed.__aenter__()
        said = set()
        for _ in range(30):
            await asyncio.sleep(rng.randrange(1, 20))
            said |= {edge.step for cycle in (await session.explain()).cycles for edge in cycle.edges}
        await asyncio.sleep(10_000)
        assert [number for number in said if tasks[number].done()] == []
        for feed in fed:
            await feed.__aexit__(None, None, None)
        await ended(*tasks.values())


async def _slowly(rng):
    for _ in range(rng.randrange(4)):
        await asyncio.sleep(rng.randrange(1, 200))
        yield 1.0
    await asyncio.Event().wait()


# Critical sections


def sections(count):
    return [af.CriticalSection(name=f"section{place}") for place in range(count)]


def around(first, second, gate=None):
    """The second section is entered inside the first, after the gate is open."""

    def body():
        before = gated(1.0, gate)
        with af.control_dependencies([before]):
            return second.execute(lambda: af.add(before, 1.0), **SECTION)

    return first.execute(body, **SECTION)


@pytest.mark.parametrize("count", [2, 5])
async def test_critical_sections_entered_in_a_ring_are_a_cycle_that_names_locks_and_holders(graph, count):
    made, gate = sections(count), Gate()
    steps = [around(made[place], made[(place + 1) % count], gate) for place in range(count)]
    async with af.Session(graph=graph) as session:
        tasks = [asyncio.create_task(session.run(step)) for step in steps]
        await gate.arrived(count)
        gate.open()
        await asyncio.sleep(7)
        report = await session.explain()
        (cycle,) = report.cycles
        assert len(cycle.edges) == count
        assert {edge.op_type for edge in cycle.edges} == {"acquire_variable_lock"}
        assert {edge.step for edge in cycle.edges} == set(range(1, count + 1))
        for wait in report.waits:
            assert wait.op_type == "acquire_variable_lock"
            assert wait.holder.step == wait.step % count + 1
            assert wait.holder.op_type == "acquire_variable_lock"
            assert wait.holder.seconds == pytest.approx(7)
            assert "test_deadlocks.py" in wait.holder.line
        assert "held for 7.0 s by step 2: 'critical_section_execute_1/acquire'" in str(report)
        tasks[0].cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await tasks[0]
        assert "deadlock: a cycle of" in " ".join(caught.value.__notes__)
        assert await asyncio.gather(*tasks[1:]) == [2.0] * (count - 1)


async def test_waiting_for_a_slow_section_is_no_cycle_and_the_time_limit_names_the_slow_operation(graph):
    (section,), gate = sections(1), Gate()
    slow = section.execute(lambda: gated(1.0, gate, name="slow"), **SECTION)
    quick = section.execute(lambda: af.constant(1.0) + 1.0, **SECTION)
    async with af.Session(graph=graph) as session:
        task = asyncio.create_task(session.run(slow))
        await gate.arrived()
        with pytest.raises(af.errors.DeadlineExceededError) as caught:
            await session.run(quick, options=af.RunOptions(timeout=3))
        text = str(caught.value)
        assert "slow' (test_waiting)" in text
        assert text.index("slow' (test_waiting)") < text.index("acquire' (acquire_variable_lock)")
        report = await session.explain()
        assert report.cycles == ()
        assert [wait.op_type for wait in report.waits] == ["test_waiting"]
        gate.open()
        await task


async def test_a_time_limit_names_the_computing_operation_of_another_step_before_the_waiting_queue(graph):
    one, gate = queue("one"), Gate()
    put = one.enqueue(gated(1.0, gate, name="slow"))
    take = one.dequeue(name="take")
    async with af.Session(graph=graph) as session:
        task = asyncio.create_task(session.run(put))
        await gate.arrived()
        for fetch in (take, [take, gated(1.0, opened())]):
            with pytest.raises(af.errors.DeadlineExceededError) as caught:
                await session.run(fetch, options=af.RunOptions(timeout=3))
            text = str(caught.value)
            assert text.index("'slow' (test_waiting)") < text.index("'take' (queue_dequeue)")
            assert "of step 1" in text
            assert "deadlock" not in text
        gate.open()
        await task


def opened():
    gate = Gate()
    gate.open()
    return gate


# Loops


async def test_a_compiled_loop_on_the_loop_is_a_running_step_with_its_iteration(graph, monkeypatch):
    monkeypatch.setattr("aioflow.waiting.tasks.SLICE", 0.0)
    monkeypatch.setattr("aioflow.program.control_codegen._CHECK_EVERY", 0.0)

    def body(i, value):
        return i + 1, light(value, lambda x: x, name="inner")

    result = af.while_loop(
        lambda i, value: i < 10_000_000, body, [0, af.placeholder_with_default(1.0, [])], name="outer"
    )
    async with af.Session(graph=graph) as session:
        task = asyncio.create_task(session.run(result[1]))
        seen = []
        for _ in range(5):
            await turns(5)
            report = await session.explain()
            (wait,) = report.waits
            assert wait.computes
            assert wait.operation.startswith("outer")
            assert "test_deadlocks.py" in wait.line
            seen.append(int(wait.iteration.split()[2]))
            assert f"computes in iteration {seen[-1]} of 'outer'" in str(report)
        assert seen == sorted(set(seen))
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert "was computing 'outer" in caught.value.__notes__[0]
        assert "in iteration" in caught.value.__notes__[0]


@pytest.mark.real
async def test_a_heavy_region_on_a_thread_is_reported_with_operation_and_iterations(graph, monkeypatch):
    monkeypatch.setattr(op_cost, "HEAVY", 0.0)
    monkeypatch.setattr(op_cost, "BRIEF", 0.0)
    monkeypatch.setattr(op_cost, "WAKE", 0.0)
    monkeypatch.setattr(op_cost, "BIG_KERNEL", 0.0)
    begun, go_on, calls = threading.Event(), threading.Event(), []

    def hold(value):
        calls.append(None)
        if len(calls) == 6:
            begun.set()
            assert go_on.wait(600)
        return value

    def inner(j, value):
        return j + 1, af.cond(value[0] < 9.0, lambda: light(value, hold, name="held"), lambda: value)

    def outer(i, value):
        return i + 1, af.while_loop(lambda j, value: j < 2, inner, [0, value], name="inner")[1]

    x = af.placeholder(af.float32, [None])
    result = af.while_loop(lambda i, value: i < 4, outer, [0, x], name="outer")[1]
    fed = {x: np.zeros(3, np.float32)}
    async with af.Session(graph=graph) as session:
        task = asyncio.create_task(session.run(result, fed))
        await asyncio.to_thread(begun.wait, 60)
        report = await session.explain()
        (wait,) = report.waits
        assert wait.operation.endswith("held")
        assert "in iteration 1 of" in wait.iteration
        assert "inner" in wait.iteration
        assert "in iteration 2 of 'outer'" in wait.iteration
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert f"was computing {wait.operation!r} (test_light) {wait.iteration} on" in caught.value.__notes__[0]
        assert len(session.detached_kernels) == 1
        go_on.set()
        await session._state.compute.drained()
