"""Tasks as processes that are killed, stopped and restarted: what errors say of it, and what is left."""

import asyncio
import re
from collections import deque

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.net.wire.worker_verbs import RecvTensor, RunGraph
from tests.support.cluster_processes import PS, SECOND, on_one_loop

pytest_plugins = ["tests.support.three_processes"]
pytestmark = [pytest.mark.sockets, pytest.mark.slow]


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def session(graph, cluster):
    async with af.Session(cluster.target(), graph=graph) as session:
        yield session
    await cluster.nothing_left()


def never(where=PS, then=SECOND):
    """A value that waits in one task for an element that nobody puts, and is computed with in another."""
    with af.device(where):
        element = af.FIFOQueue(1, af.float32, shapes=[[]], name="empty").dequeue(name="taken")
    with af.device(then):
        return element + 1.0


async def test_a_task_that_is_killed_ends_the_step_at_once_and_is_named(session, cluster):
    y = never()
    step = asyncio.ensure_future(session.run(y))
    await cluster.running(PS, SECOND)
    cluster.kill(SECOND)
    with pytest.raises(errors.UnavailableError, match=rf"{SECOND}.* (lost|ended)") as caught:  # and not: is silent
        await step
    assert caught.value.task == SECOND
    await cluster.nothing_runs(PS)
    assert await session.run(af.constant(2.0) * 3.0) == 6
    await cluster.start(SECOND)
    with af.device(SECOND):
        assert await session.run(af.constant(2.0) + 3.0) == 5


async def test_what_a_task_held_is_named_when_it_was_started_anew(session, cluster):
    with af.device(SECOND):
        held = af.Variable(1.0, name="held")
    with af.device(PS):
        kept = af.Variable(2.0, name="kept")
    await session.run([held.initializer, kept.initializer])
    cluster.kill(SECOND)
    await cluster.start(SECOND)
    with pytest.raises(errors.OpError, match=SECOND):
        await session.run(held)
    with pytest.raises(errors.FailedPreconditionError, match="held"):
        await session.run(held)
    assert await session.run(kept) == 2
    await session.run(held.initializer)
    assert await session.run(held + kept) == 3


@on_one_loop
async def test_a_task_that_is_stopped_counts_as_silent_and_is_used_again_when_it_goes_on(graph, cluster):
    with af.device(SECOND):
        held = af.Variable(4.0, name="held")
    async with af.Session(cluster.target(), graph=graph) as session:
        await session.run(held.initializer)
        step = asyncio.ensure_future(session.run(never()))
        await cluster.running(PS, SECOND)
        cluster.stop(SECOND)
        with pytest.raises(errors.UnavailableError, match=rf"{SECOND}.* silent") as caught:
            await step
        assert caught.value.task == SECOND
        cluster.go_on(SECOND)
        await cluster.nothing_runs(SECOND)
        (found,) = await asyncio.gather(session.run(held), return_exceptions=True)
        assert found == 4 or SECOND in str(found)
        assert await session.run(held) == 4  # nothing was lost but the step
    await cluster.nothing_left()


async def test_a_step_that_makes_no_progress_is_ended_by_its_limit_on_all_tasks(session, cluster):
    with pytest.raises(errors.DeadlineExceededError):
        await session.run(never(), options=af.RunOptions(timeout=0.5))
    await cluster.nothing_runs()
    assert await session.run(af.constant(2.0) * 3.0) == 6


async def test_a_step_that_makes_no_progress_says_what_it_waited_for_and_where(session):
    with pytest.raises(errors.DeadlineExceededError, match="taken") as caught:
        await session.run(never(), options=af.RunOptions(timeout=5.0))
    assert PS in str(caught.value)


async def test_a_task_started_anew_at_its_port_has_nothing_to_do_with_the_one_before(session, cluster):
    y = never(SECOND, PS)
    step = asyncio.ensure_future(session.run(y))
    await cluster.running(PS, SECOND)
    (device,) = (await cluster.status(SECOND)).devices
    cluster.kill(SECOND)
    await cluster.start(SECOND)
    with pytest.raises(errors.UnavailableError, match=SECOND):
        await step
    (new,) = (await cluster.status(SECOND)).devices
    assert new.name == device.name
    assert new.incarnation != device.incarnation
    assert not await cluster.left(SECOND)
    async with cluster.asking(SECOND) as peer:
        with pytest.raises(errors.AbortedError, match=re.escape(f"{SECOND} has restarted")):
            await peer.request(RecvTensor(1, device.incarnation, ((1,),)))
        with pytest.raises(errors.AbortedError, match=f"{SECOND} does not know"):
            await peer.request(RunGraph("0" * 32, 1, 1))
    await cluster.nothing_runs(PS, SECOND)


async def test_a_variable_is_never_seen_half_updated(session):
    with af.device(PS):
        variable = af.Variable(np.zeros(1 << 20, np.float32), name="even")
        update = variable.assign_add(np.ones(1 << 20, np.float32)).op
    with af.device(SECOND):
        pulled = af.identity(variable.read_value())
        least, most = af.reduce_min(pulled), af.reduce_max(pulled)
    await session.run(variable.initializer)

    async def updating():
        for _ in range(150):
            await session.run(update)

    seen, kept = set(), deque(maxlen=4)
    updates = asyncio.ensure_future(updating())
    while not updates.done():
        here, low, high = await session.run([pulled, least, most])
        assert low == high == here[0]
        assert np.ptp(here) == 0
        seen.add(float(low))
        kept.append((low, here))
    await updates
    assert len(seen) > 3
    assert all((here == low).all() for low, here in kept)  # no later update has changed them
    assert await session.run(most) == 150
