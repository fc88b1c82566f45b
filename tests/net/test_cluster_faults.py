"""Programs on a cluster whose hosts crash, stop, and hear nothing of each other, one run for each seed."""

import asyncio
import contextlib
import dataclasses
import functools
from types import SimpleNamespace

import numpy as np
import pytest

import aioflow as af
from aioflow.testing import Chaos, on_host
from tests.support.cluster_runs import every_fourth_seed, every_seed, failed, new_graph, survives, together

PS, FIRST, SECOND = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"
WEATHER = Chaos(seconds=5.0, lasting=(0.05, 5.0))
NO_CRASHES = Chaos(seconds=5.0, lasting=(0.05, 5.0), crashes=0.0)


# A counter on the parameter server


@functools.cache
def counter():
    with new_graph() as graph:
        by = af.placeholder(af.int32, [])
        with af.device(PS):
            count = af.Variable(0)
        with af.device(FIRST):
            there = by + 1
        with af.device(SECOND):
            back = there - 1
        add = count.assign_add(back)
    return SimpleNamespace(graph=graph, by=by, count=count, add=add)


async def counts(run):
    """What steps have added is what was counted, but for those that failed, which may have added or not."""
    model, done, tried = counter(), [], 0
    async with run.session(model.graph) as session:
        begun = not failed(await run.step(session, model.count.initializer))
        anew = run.cluster.starts("ps0")
        for _ in range(run.random.randint(2, 5)):
            outcomes = await together(
                *[
                    run.step(session, model.add, {model.by: 1}, limit=run.random.choice([1.0, 3.0, None]))
                    for _ in range(run.random.randint(1, 3))
                ]
            )
            done += [int(outcome) for outcome in outcomes if not failed(outcome)]
            tried += len(outcomes)
            await run.at_random(0.6)
        await run.calm()
        found = await run.counted(session, model.count)
        if found is None:
            await run.until(session, model.count.initializer)
            assert await run.until(session, model.count) == 0
        elif begun:
            assert run.cluster.starts("ps0") == anew
            assert len(done) <= found <= tried
            assert len(set(done)) == len(done), "two steps counted as one"


@every_seed
def test_a_step_that_adds_is_done_once_if_it_gives_a_value_and_at_most_once_if_it_fails(seeds):
    survives(seeds, counts, chaos=WEATHER)


# A queue on the parameter server, filled and emptied by the workers


@functools.cache
def line_of_numbers():
    with new_graph() as graph:
        number = af.placeholder(af.int32, [])
        with af.device(PS):
            queue = af.FIFOQueue(4, af.int32, shapes=[[]], name="numbers")
        with af.device(FIRST):
            sent = number * 1
        put, size = queue.enqueue(sent), queue.size()
        with af.device(SECOND):
            taken = queue.dequeue() * 1
    return SimpleNamespace(graph=graph, number=number, put=put, taken=taken, size=size)


async def conserves(run):
    """No element comes out twice, and one that was put in is lost only with its server or with a step that took it."""
    model = line_of_numbers()
    given, taken, failures = [], [], 0
    async with run.session(model.graph) as near, run.session(model.graph, "worker", 1) as far:

        async def produce():
            for number in range(8):
                if not failed(await run.step(near, model.put, {model.number: number})):
                    given.append(number)
                await run.at_random(0.5)

        async def consume():
            nonlocal failures
            for _ in range(6):
                outcome = await run.step(far, model.taken)
                if failed(outcome):
                    failures += 1
                else:
                    taken.append(int(outcome))
                await run.at_random(0.5)

        await together(produce(), consume())
        await run.calm()
        while await run.until(near, model.size):
            taken.append(int(await run.until(far, model.taken)))
        assert len(set(taken)) == len(taken), f"an element came out twice: {taken}"
        if run.cluster.starts("ps0") == 1:
            lost = set(given) - set(taken)
            assert len(lost) <= failures, f"{lost} are lost, and {failures} steps that take failed"
            assert set(taken) <= set(range(8))


@every_seed
def test_a_queue_loses_no_element_but_to_a_step_that_took_it_and_gives_none_twice(seeds):
    survives(seeds, conserves, chaos=WEATHER)


# A loop and a branch over two tasks


@functools.cache
def spanning():
    with new_graph() as graph:
        x, limit = af.placeholder(af.float32, []), af.placeholder(af.int32, [])

        def body(i, y):
            with af.device(FIRST):
                y = y * 2.0
            with af.device(SECOND):
                return i + 1, af.cond(y > 10.0, lambda: y - 10.0, lambda: y + 1.0)

        with af.device(FIRST):
            _, found = af.while_loop(lambda i, y: i < limit, body, [0, x])
    return SimpleNamespace(graph=graph, x=x, limit=limit, found=found)


def spanned(x, limit):
    for _ in range(limit):
        x = x * 2 - 10 if x * 2 > 10 else x * 2 + 1
    return x


async def loops(run):
    """A loop gives what it has to give, or an error."""
    model = spanning()
    async with run.session(model.graph) as session:

        async def once():
            x, limit = float(run.random.randint(0, 9)), run.random.randint(0, 4)
            outcome = await run.step(session, model.found, {model.x: x, model.limit: limit})
            assert failed(outcome) or outcome == spanned(x, limit)

        for _ in range(2):
            await together(once(), once())
            await run.at_random(1.5)
        await run.calm()
        assert await run.until(session, model.found, {model.x: 3.0, model.limit: 2}) == spanned(3.0, 2)


@every_seed
def test_a_loop_with_a_branch_over_two_tasks_gives_its_value_or_an_error(seeds):
    survives(seeds, loops, spec={"worker": 2}, chaos=WEATHER)


# Large arrays, which travel in pieces beside everything else


@functools.cache
def large():
    with new_graph() as graph:
        x = af.placeholder(af.float32, [None])
        with af.device(PS):
            weights = af.Variable(np.zeros(100_000, np.float32))
        with af.device(FIRST):
            scaled = x * 1.0
        with af.device(SECOND):
            seen = weights * 1.0
        push = weights.assign_add(scaled).op
    return SimpleNamespace(graph=graph, x=x, weights=weights, push=push, seen=seen)


async def pulls(run):
    """Whatever is pulled while others push is an array as it was at one moment."""
    model, ones = large(), np.ones(100_000, np.float32)
    async with run.session(model.graph) as near, run.session(model.graph, "worker", 1) as far:
        await run.step(near, model.weights.initializer)

        async def push():
            for _ in range(3):
                await run.step(near, model.push, {model.x: ones})
                await run.at_random(1.0)

        async def pull():
            for _ in range(3):
                outcome = await run.step(far, model.seen, limit=run.random.choice([0.01, 3.0]))
                assert failed(outcome) or uniform(outcome)
                await run.at_random(1.0)

        await together(push(), pull())
        await run.calm()
        await run.until(near, model.weights.initializer)
        await run.until(far, model.push, {model.x: ones})
        assert uniform(await run.until(near, model.seen))


def uniform(array):
    return array.shape == (100_000,) and array.min() == array.max()


@every_fourth_seed
def test_a_large_array_that_is_pulled_while_others_push_is_whole(seeds):
    survives(seeds, pulls, chaos=WEATHER, bandwidth=1e8)


# Many steps at a time, of which some are cancelled and others have too little time


@functools.cache
def many():
    with new_graph() as graph:
        x = af.placeholder(af.float32, [])
        with af.device(PS):
            never = af.FIFOQueue(1, af.float32, shapes=[[]]).dequeue()
        with af.device(SECOND):
            doubled, waits = x * 2.0, never * 2.0
        with af.device(FIRST):
            found, stuck = doubled + 1.0, waits + 1.0
    return SimpleNamespace(graph=graph, x=x, found=found, stuck=stuck)


async def cancels(run):
    """Each of many steps gives its own value, is cancelled, or ends in time."""
    model = many()
    async with run.session(model.graph) as session:

        async def one(number):
            await run.at_random(3.0)
            if run.random.random() < 0.3:
                outcome = await run.step(session, model.stuck, limit=run.random.uniform(0.0, 2.0))
                assert failed(outcome)
            else:
                outcome = await run.step(session, model.found, {model.x: number})
                assert failed(outcome) or outcome == 2 * number + 1

        async def cancelled(number):
            task = asyncio.create_task(one(number))
            await run.at_random(4.0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

        await together(*[(cancelled if run.random.random() < 0.4 else one)(number) for number in range(12)])
        await run.calm()
        assert await run.until(session, model.found, {model.x: 1.0}) == 3


@every_seed
def test_each_of_many_steps_gives_its_own_value_is_cancelled_or_ends_in_time(seeds):
    survives(seeds, cancels, chaos=WEATHER)


# Clients, masters and workers that die


async def client_dies(run):
    """Of a client that has died nothing is left, and another one goes on."""
    model = many()
    async with run.session(model.graph, client="mortal") as lost:
        steps = [asyncio.create_task(run.step(lost, model.stuck, limit=60.0)) for _ in range(3)]
        steps += [asyncio.create_task(run.step(lost, model.found, {model.x: 1.0})) for _ in range(3)]
        await run.at_random(4.0)
        run.cluster.network.crash("mortal", silent=run.random.random() < 0.5)
        for step in steps:
            step.cancel()
        await asyncio.wait(steps)
    await run.calm()
    run.nothing_held()
    async with run.session(model.graph) as session:
        assert await run.until(session, model.found, {model.x: 1.0}) == 3


@every_seed
def test_of_a_client_that_has_died_nothing_is_left(seeds):
    survives(seeds, client_dies, chaos=NO_CRASHES, clients=("client", "mortal"))


async def master_dies(run):
    """Of a master that has died nothing is left on the workers, whether it is there again or not."""
    model = many()
    async with run.session(model.graph) as session:
        steps = [asyncio.create_task(run.step(session, model.stuck)) for _ in range(2)]
        steps += [asyncio.create_task(run.step(session, model.found, {model.x: 1.0})) for _ in range(2)]
        await run.at_random(2.0)
        await run.cluster.crash("worker", 0, silent=run.random.random() < 0.5)
        await asyncio.wait(steps)
        [step.result() for step in steps]
        await run.calm()
        await run.settled()  # a worker that has to tell it of a step that has failed dials it once more
        await run.cluster.start("worker", 0)
        assert await run.until(session, model.found, {model.x: 1.0}) == 3


@every_seed
def test_of_a_master_that_has_died_nothing_is_left_and_started_anew_it_is_used_again(seeds):
    survives(seeds, master_dies, chaos=NO_CRASHES)


def test_of_a_dead_master_that_a_worker_dials_twice_nothing_is_left():
    survives([3561144165], master_dies, chaos=NO_CRASHES)


@functools.cache
def incarnations():
    with new_graph() as graph:
        with af.device(SECOND):
            before = af.py_func("incarnation", [], af.int32, stateful=True)
        with af.device(PS):
            there = before + 0
        with af.device(SECOND), graph.control_dependencies([there]):
            after = af.py_func("incarnation", [], af.int32, stateful=True)
    return SimpleNamespace(graph=graph, both=[there, after])


async def worker_dies(run):
    """A step sees one incarnation of a worker only."""
    model = incarnations()
    async with run.session(model.graph) as session:

        async def look():
            for _ in range(5):
                outcome = await run.step(session, model.both)
                assert failed(outcome) or outcome[0] == outcome[1], "a step has mixed two incarnations"
                await run.at_random(0.5)

        async def restart():
            await run.at_random(2.0)
            await run.cluster.crash("worker", 1, silent=run.random.random() < 0.5)
            await run.at_random(1.0)
            await run.cluster.start("worker", 1)

        with on_host(""):
            restarting = asyncio.create_task(restart())
        await together(look(), look())
        await restarting
        await run.calm()
        assert await run.until(session, model.both) == [2, 2]


@every_seed
def test_a_step_never_mixes_two_incarnations_of_a_worker(seeds):
    survives(seeds, worker_dies, chaos=NO_CRASHES)


# Hosts whose loops do not turn for longer than the heartbeat timeout, though their processes live


async def blocks(run):
    """Once all hosts are connected, every step gives its value, though hosts are blocked for any time."""
    model = counter()
    async with run.session(model.graph) as session:
        for begin in (model.count.initializer, model.add, model.count.initializer):
            while failed(await run.step(session, begin, {model.by: 1}, limit=None)):
                pass
        for number in range(6):
            outcome = await run.step(session, model.add, {model.by: 1}, limit=None)
            assert not failed(outcome), outcome
            assert outcome == number + 1
            await run.at_random(4.0)
    await run.calm()


@every_seed
def test_blocked_hosts_fail_no_step(seeds):
    calm = Chaos(30.0, 0.002, 0.0, 0.01, resets=0.0, half_open=0.0, partitions=0.0, pauses=0.0, crashes=0.0, blocks=6.0)
    survives(seeds, blocks, chaos=dataclasses.replace(calm, lasting=(1.0, 20.0)))


# What is said of a run that fails


async def fails(run):
    raise ValueError("as it has to")


def test_a_run_that_fails_says_how_it_is_replayed():
    with pytest.raises(ValueError, match="as it has to") as caught:
        survives([5], fails)
    story, command = caught.value.__notes__
    assert story.startswith("in a simulated cluster, seed 5:")
    assert command == (
        "to replay this run: AIOFLOW_SEED=5 pytest "
        "'tests/net/test_cluster_faults.py::test_a_run_that_fails_says_how_it_is_replayed'"
    )
