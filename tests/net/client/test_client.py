"""Sessions of a cluster that are closed, or whose runs end, while calls are on their way to the master."""

import asyncio

import pytest

import aioflow as af
from aioflow import errors
from aioflow.runtime import call_cache
from aioflow.testing.simulated_cluster import SimulatedCluster

CLOSED = "the session was closed while the run went on"
LATENCY = 1e-3


class Line:
    """A graph with an empty queue, which all sessions of the cluster share, and calls that take an element."""

    def __init__(self):
        with af.Graph().as_default() as self.graph:
            self.queue = af.FIFOQueue(1, [af.float32], [[]], shared_name="line")
            self.taken, self.size, self.put = self.queue.dequeue(), self.queue.size(), self.queue.enqueue(1.0)

    async def step(self, session):
        await session.run(self.taken)

    async def new_step(self, session):
        with self.graph.as_default():
            doubled = self.taken * 2.0
        await session.run(doubled)

    async def take(self, session):
        await session.queue(self.queue).take()


@pytest.fixture
async def line():
    return Line()


@pytest.fixture
async def cluster(line):
    """A cluster where no call that was closed has left a session or a step, or takes an element later."""
    async with SimulatedCluster({"worker": 2}, latency=LATENCY) as cluster:
        yield cluster
        async with af.Session(cluster.target("worker", 1), graph=line.graph) as other:
            await other.run(line.put)
            await asyncio.sleep(10.0)
            assert await other.run(line.size) == 1
        await asyncio.sleep(10.0)
        assert not cluster.held()


def opened(cluster, line):
    return af.Session(cluster.target("worker", 0), graph=line.graph)


async def begun(call):
    """A task, in which a call has begun, and which returns the message that ends the call."""
    task = asyncio.create_task(_message_of(call))
    for _ in range(2):
        await asyncio.sleep(0)
    return task


async def _message_of(call, kind=errors.CancelledError):
    """Fails if the call only appears to be cancelled: its task group would end without an error."""
    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.timeout(10.0), asyncio.TaskGroup() as group:
            group.create_task(call)
    (error,) = caught.value.exceptions
    assert type(error) is kind
    return error.message


@pytest.mark.parametrize("was_open", [False, True], ids=["opening", "open"])
@pytest.mark.parametrize("use", [Line.step, Line.new_step])
async def test_closing_at_any_moment_ends_a_run_as_it_does_in_one_process(cluster, line, use, was_open):
    for quarters in range(0, 80, 3):
        async with opened(cluster, line) as session:
            if was_open:
                await session.run(line.size)
            running = await begun(use(line, session))
            await asyncio.sleep(quarters * LATENCY / 4)
            await session.close()
            assert await running == CLOSED, quarters


async def test_closing_while_a_session_opens_ends_calls_of_its_queues(cluster, line):
    async with opened(cluster, line) as session:
        taking = await begun(line.take(session))
        await session.close()
        assert await taking == CLOSED


async def test_a_run_of_a_large_graph_that_was_not_sent_when_its_session_was_closed_takes_nothing(
    cluster, line, monkeypatch
):
    monkeypatch.setattr(call_cache, "_LARGE", 0)
    async with opened(cluster, line) as session:
        running = await begun(line.step(session))
        await session.close()
        assert await running == CLOSED


async def test_a_run_that_waits_for_a_lost_connection_when_its_session_is_closed_opens_no_other(cluster, line):
    async with opened(cluster, line) as session:
        await session.run(line.size)
        cluster.network.part("client", "worker0")
        cluster.network.cut("client", "worker0")
        await asyncio.sleep(LATENCY)
        running = await begun(line.step(session))
        await asyncio.sleep(LATENCY)
        closing = asyncio.create_task(session.close())
        await asyncio.sleep(LATENCY)
        cluster.network.heal("client", "worker0")
        await closing
        assert await running == CLOSED


async def test_a_queue_that_is_aborted_just_before_its_session_is_closed_fails_its_other_callers(cluster, line):
    with line.graph.as_default():
        aborted = af.FIFOQueue(1, [af.float32], [[]], shared_name="aborted")
    async with opened(cluster, line) as other:
        taking = asyncio.create_task(_message_of(other.queue(aborted).take(), errors.AbortedError))
        async with opened(cluster, line) as session:
            await session.run(aborted.size())
            session.queue(aborted).abort(errors.DataLossError("the input is broken"))
        assert "the input is broken" in await taking


@pytest.mark.parametrize("end", ["cancelled", "late"])
async def test_new_operations_arrive_once_even_if_the_call_that_sends_them_ends_before(cluster, line, end):
    async with opened(cluster, line) as session:
        await session.run(line.size)
        with line.graph.as_default():
            one = af.constant(1.0) + 1.0
        for turns in range(12):
            with line.graph.as_default():
                one = one + 1.0
            limit = turns * LATENCY / 4 if end == "late" else None
            call = asyncio.create_task(session.run(one, options=af.RunOptions(timeout=limit or None)))
            await asyncio.sleep(turns * LATENCY / 4)
            if end == "cancelled":
                call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            others = [asyncio.create_task(session.run(one)) for _ in range(3)]
            assert [await other for other in others] == [3.0 + turns] * 3
