"""Branches and loops whose nodes are on several workers."""

import asyncio
from collections import Counter

import numpy as np
import pytest

import aioflow as af
from tests.stories.witness import FIRST, LATENCY, PS, SECOND, elapsed, marked, settled


def on(device, x):
    """A node of a device's, which gives x."""
    with af.device(device):
        return marked(x)


async def test_a_branch_that_is_not_taken_runs_on_no_worker(session, world):
    """[P15 section 4.4] Switch and Merge skip a whole subgraph, by the value of one boolean."""
    x = af.placeholder(af.float32, [])
    y = af.cond(
        on(FIRST, x) > 0.0,
        lambda: on(PS, on(FIRST, x) + 1.0),
        lambda: on(SECOND, on(SECOND, x) - 1.0),
    )
    assert await session.run(y, {x: 1.0}) == 2
    assert world.ran == {"worker0": 2, "ps0": 1}
    world.ran.clear()
    assert await session.run(y, {x: -1.0}) == -2
    assert world.ran == {"worker0": 1, "worker1": 2}


async def test_a_dead_value_crosses_between_workers_and_ends_who_would_have_waited_for_it(session, world):
    """[P16 section 3.4] Switch gives a dead value to the branch not taken; it goes through Send and Recv to Merge."""
    x, forward = af.placeholder(af.float32, []), af.placeholder(af.bool, [])
    with af.device(FIRST):
        dead, live = af.switch(x, forward)
        here = marked(live)
    there = on(SECOND, on(PS, dead))
    with af.device(FIRST):
        merged, index = af.merge([there, here])
    assert await session.run([merged, index], {x: 5.0, forward: True}) == [5, 1]
    assert world.ran == {"worker0": 1}
    assert sum(sent.values for sent in world.witness.heard("PushTensors", source="worker0", target="ps0")) == 0
    world.ran.clear()
    assert await session.run([merged, index], {x: 5.0, forward: False}) == [5, 0]
    assert world.ran == {"ps0": 1, "worker1": 1}


def halving(x, n, devices):
    """A loop that halves x so many times, each half of its body on another device."""

    def body(i, y):
        with af.device(devices[0]):
            y = marked(y * 0.25)
        with af.device(devices[1]):
            y = marked(y * 2.0)
        return i + 1, y

    with af.device(devices[0]):
        _, y = af.while_loop(lambda i, y: i < n, body, [0, x])
    return y


async def test_a_loop_has_its_nodes_on_several_workers_and_ends_on_all(session, world):
    """[P15 section 4.4] A loop can contain nodes of many devices; that it has ended is known to all of them."""
    x, n = af.placeholder(af.float32, []), af.placeholder(af.int32, [])
    y = halving(x, n, (FIRST, SECOND))
    for count in (5, 0, 1):
        world.ran.clear()
        assert await session.run(y, {x: 32.0, n: count}) == 32 / 2**count
        assert world.ran == ({"worker0": count, "worker1": count} if count else {})
        await settled()
        assert world.steps == []


async def test_each_iteration_costs_each_worker_one_tiny_control_message(session, world):
    """[P15 section 4.4] For each iteration the device with the loop's predicate tells all that take part: a bool."""
    n = af.placeholder(af.int32, [])

    def body(i):
        results = [on(device, af.cast(i, af.float32)) for device in (PS, SECOND)]
        with af.control_dependencies(results):
            return [i + 1]

    with af.device(FIRST):
        end = af.while_loop(lambda i: i < n, body, [0])
    await session.run(end, {n: 1})
    for count in (10, 20):
        await settled()
        world.witness.forget()
        assert await session.run(end, {n: count}) == count
        told = world.witness.heard("PushTensors", source="worker0")
        sent = Counter()
        for message in told:
            sent[message.target] += message.values
        assert sent == dict.fromkeys(("ps0", "worker1"), 4 * count + count + 1)  # the counter, and what was decided
        assert len(told) <= 2 * (count + 2)


async def test_the_master_takes_no_part_in_iterations(session, world):
    """[P15 section 4.4] The workers coordinate a loop among themselves, by what partitioning adds to the graph."""
    x, n = af.placeholder(af.float32, []), af.placeholder(af.int32, [])
    y = halving(x, n, (FIRST, SECOND))
    await session.run(y, {x: 1.0, n: 1})
    said = []
    for count in (2, 50):
        await settled()
        world.witness.forget()
        await session.run(y, {x: 1.0, n: count})
        await settled()
        said.append(Counter(sent.verb for sent in world.witness.heard() if "master0" in (sent.source, sent.target)))
    assert said[0] == said[1]


async def test_iterations_overlap_on_several_workers(session):
    """[P16 section 3.4] Several iterations of a loop, on several devices, may be under way at a time."""
    n = af.placeholder(af.int32, [])

    def loop(limit):
        def body(i, total):
            with af.device(SECOND):
                far = on(PS, on(SECOND, af.cast(i, af.float32)))
            with af.device(FIRST):
                return i + 1, total + far

        with af.device(FIRST):
            return af.while_loop(lambda i, total: i < n, body, [0, 0.0], parallel_iterations=limit)[1]

    seconds = {}
    for limit in (1, 10):
        total = loop(limit)
        await session.run(total, {n: 1})
        seconds[limit] = await elapsed(session.run(total, {n: 40}))
        assert await session.run(total, {n: 40}) == sum(range(40))
    assert seconds[10] * 1.5 < seconds[1]


@pytest.mark.parametrize("devices", [(FIRST, SECOND), (SECOND, PS)])
async def test_loops_within_loops_and_branches_within_them_span_workers(session, devices):
    """[P16 section 3.4] Control flow nests: each loop has its frame, each iteration of it its own inner loop."""
    n = af.placeholder(af.int32, [])

    def inner(j, y):
        with af.device(devices[0]):
            y = y + 1.0
        with af.device(devices[1]):
            return j + 1, af.cond(y > 8.0, lambda: y * 0.5, lambda: y * 1.5)

    def outer(i, y):
        with af.device(devices[1]):
            y = y - 0.5
        _, y = af.while_loop(lambda j, y: j < i, inner, [0, y])
        return i + 1, y

    _, y = af.while_loop(lambda i, y: i < n, outer, [0, 1.0])
    expected = 1.0
    for i in range(6):
        expected -= 0.5
        for _ in range(i):
            expected += 1
            expected *= 0.5 if expected > 8 else 1.5
    np.testing.assert_allclose(await session.run(y, {n: 6}), expected, rtol=1e-5)


async def test_the_gradient_of_a_loop_over_workers_runs_over_them_backwards(session):
    """[P16 section 4.1] Gradients are taken of loops and branches too, from what the forward iterations have kept."""
    x, n = af.placeholder(af.float32, []), af.placeholder(af.int32, [])

    def body(i, y):
        with af.device(FIRST):
            y = y * x
        with af.device(SECOND):
            return i + 1, af.cond(y > 100.0, lambda: y * 0.1, lambda: y * 1.0)

    _, y = af.while_loop(lambda i, y: i < n, body, [0, x])
    [slope] = af.gradients(y, [x])
    found = await session.run([y, slope], {x: 3.0, n: 6})
    assert found == pytest.approx([3**7 * 0.1**2, 7 * 3**6 * 0.1**2], rel=1e-5)


async def test_a_loop_is_ended_everywhere_when_its_step_is(session, world):
    """[P15 section 4.4] Distributed termination: no worker goes on with iterations of a step that is over."""
    x = af.placeholder(af.float32, [])
    endless = halving(x, 2**31 - 1, (FIRST, SECOND))
    running = asyncio.ensure_future(session.run(endless, {x: 1.0}))
    await settled()
    assert world.ran["worker1"] > 10
    running.cancel()
    await asyncio.wait([running])
    await asyncio.sleep(10 * LATENCY)
    assert world.steps == []
    ran = dict(world.ran)
    await asyncio.sleep(60)
    assert world.ran == ran
