"""How failures are noticed, what they end, and what is left to go on with."""

import asyncio

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from tests.stories.witness import FIRST, LATENCY, PS, SECOND, elapsed, marked, settled

SILENCE = 5.0
"""Seconds after which a peer that says nothing is taken for lost, if nothing else is configured."""


def long_wait():
    """A value of the second worker that needs one of the parameter server's, and that one never comes."""
    with af.device(PS):
        never = af.FIFOQueue(1, af.float32, shapes=[[]]).dequeue()
    with af.device(FIRST):
        between = marked(never)
    with af.device(SECOND):
        return marked(between)


async def begun(session, fetches, feeds=None):
    """A step under way, everywhere."""
    running = asyncio.ensure_future(session.run(fetches, feeds))
    await settled()
    assert not running.done()
    return running


async def test_an_error_between_a_send_and_a_receive_ends_the_step(session, world):
    """[P15 section 3.3] Fault tolerance: failures are noticed by errors in the communication between such a pair."""
    running = await begun(session, long_wait())
    world.network.part("worker0", "worker1")  # the master can reach both
    with pytest.raises(errors.UnavailableError, match=r"/job:worker/replica:0/task:[01]"):
        await running
    await settled()
    assert world.steps == []


async def test_the_master_asks_each_worker_for_a_sign_of_life_while_nothing_else_is_said(session, world):
    """[P15 section 3.3] Fault tolerance: periodic health checks from the master to every worker."""
    running = await begun(session, long_wait())
    world.witness.forget()
    await asyncio.sleep(10 * SILENCE)
    assert world.witness.heard() == []
    for worker in ("ps0", "worker0", "worker1"):
        assert len(world.witness.heard("Ping", source="master0", target=worker)) >= 10
        assert len(world.witness.heard("Pong", source=worker, target="master0")) >= 10
    assert not running.done()
    running.cancel()
    await asyncio.wait([running])


async def test_a_worker_that_answers_no_health_check_ends_the_step_and_is_named(session, world):
    """[P15 section 3.3] Fault tolerance: a health check that fails is noticed where no communication would fail."""
    with af.device(SECOND):
        never = af.FIFOQueue(1, af.float32).dequeue()
    running = await begun(session, never)
    for other in ("master0", "ps0", "worker0"):
        world.network.part("worker1", other)
    with pytest.raises(errors.UnavailableError, match=r"/job:worker/replica:0/task:1.*silent"):
        await running
    for other in ("master0", "ps0", "worker0"):
        world.network.heal("worker1", other)
    await asyncio.sleep(2 * SILENCE)


async def test_health_checks_notice_a_silent_worker_within_seconds(session, world):
    """[P15 section 3.3] Fault tolerance: the checks are periodic, so the time to notice is bounded."""
    running = await begun(session, long_wait())
    world.network.part("worker1", "master0")
    seconds = await elapsed(asyncio.wait([running]))
    assert isinstance(running.exception(), errors.UnavailableError)
    assert seconds <= 1.3 * SILENCE
    world.network.heal("worker1", "master0")
    await asyncio.sleep(2 * SILENCE)


@pytest.mark.parametrize("host", ["ps0", "worker0", "worker1"])
async def test_when_any_worker_dies_the_whole_step_is_aborted_on_all_others(session, world, host):
    """[P15 section 3.3] Fault tolerance: when a failure is detected, the entire graph execution is aborted."""
    running = await begun(session, long_wait())
    assert sorted(world.steps) == ["ps0", "worker0", "worker1"]
    await world.crash(host.rstrip("01"), int(host[-1]))
    with pytest.raises(errors.UnavailableError, match=f"/job:{host[:-1]}/replica:0/task:{host[-1]}"):
        await running
    await asyncio.sleep(10 * LATENCY)
    assert world.steps == []


async def test_the_first_error_is_the_one_that_is_told_and_ends_what_runs_elsewhere(session, world):
    """[P15 section 3.3] Fault tolerance: one execution, one failure: what follows from it is not told instead."""
    x = af.placeholder(af.float32, [])
    with af.device(SECOND):
        checked = af.check_numerics(marked(x), "not a number", name="checked")
    both = af.stack([checked, long_wait()])
    with pytest.raises(errors.InvalidArgumentError, match="not a number") as caught:
        await session.run(both, {x: np.nan})
    assert caught.value.op == "checked"
    assert caught.value.task == "/job:worker/replica:0/task:1"
    await asyncio.sleep(10 * LATENCY)
    assert world.steps == []


async def test_what_was_aborted_is_run_again_from_its_beginning(session, world):
    """[P15 section 3.3] Fault tolerance: an execution that was aborted is restarted from scratch."""
    with af.device(FIRST):
        x = marked(2.0)
    with af.device(PS):
        queue = af.FIFOQueue(1, af.float32, shapes=[[]])
        y = queue.dequeue() + x
    with af.device(SECOND):
        z = marked(y)
    running = await begun(session, z)
    await world.crash("worker", 1)
    with pytest.raises(errors.UnavailableError):
        await running
    await world.start("worker", 1)
    await session.run(queue.enqueue(3.0))
    assert await session.run(z) == 5
    assert world.ran == {"worker0": 2, "worker1": 1}


async def test_state_on_tasks_that_live_outlasts_the_failure_of_another(session, world):
    """[P16 section 4.3] Workers that compute may be preempted: what the parameter servers have is not lost by it."""
    with af.device(PS):
        count = af.Variable(1.0)
    with af.device(SECOND):
        delta = marked(1.0)
    add = count.assign_add(delta)
    await session.run(count.initializer)
    await session.run(add)
    await world.crash("worker", 1)
    with pytest.raises(errors.UnavailableError, match="/job:worker/replica:0/task:1"):
        await session.run(add)
    assert await session.run(count) == 2
    await world.start("worker", 1)
    await session.run(add)
    assert await session.run(count) == 3


async def test_state_that_died_with_its_task_is_missed_and_never_made_up(session, world):
    """[P16 section 4.3] A task that restarts has no state until that is restored or initialised again."""
    with af.device(PS):
        weights = af.Variable(5.0)
    with af.device(FIRST):
        twice = weights * 2.0
    await session.run(weights.initializer)
    await world.crash("ps", 0)
    await world.start("ps", 0)
    for _ in range(2):
        with pytest.raises(errors.OpError) as caught:
            await session.run(twice)
    assert isinstance(caught.value, errors.FailedPreconditionError)
    await session.run(weights.initializer)
    assert await session.run(twice) == 10


async def test_a_value_for_the_task_that_died_does_not_reach_the_one_started_in_its_place(session, world):
    """[P16 section 3.3] Keys are of one step and of one start of a task: what is old finds nobody."""
    running = await begun(session, long_wait())
    await world.crash("worker", 0)
    await world.start("worker", 0)
    with pytest.raises(errors.UnavailableError, match="/job:worker/replica:0/task:0"):
        await running
    await settled()
    assert world.steps == []
    assert world.ran == {}
