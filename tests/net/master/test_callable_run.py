"""Steps that their master runs without an asyncio task: they give, fail, end and leave what others do."""

import asyncio

import pytest

import aioflow as af
from aioflow import errors
from aioflow.net.master.master import Master
from aioflow.net.peer.peers import Peers
from aioflow.net.wire.master_verbs import RunCallable
from aioflow.testing.simulated_cluster import SimulatedCluster

MASTER, OTHER = "/job:worker/task:0", "/job:worker/task:1"


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def cluster():
    async with SimulatedCluster({"worker": 2}, latency=1e-3) as cluster:
        yield cluster


@pytest.fixture
async def session(cluster, graph):
    async with af.Session(cluster.target("worker", 0), graph=graph) as session:
        yield session


@pytest.fixture
def in_tasks(cluster):
    """The numbers of the calls that the master has run in asyncio tasks."""
    found, server = [], cluster.servers["worker0"]

    async def noted(call):
        found.append(call.number)
        return await Master.run_callable(server._master, call)

    server._service._handlers[RunCallable] = noted
    return found


async def nothing_left(cluster):
    await asyncio.sleep(0.1)
    assert not any(server._worker.step_table.open for server in cluster.servers.values())
    assert not any(session.under_way for session in cluster.servers["worker0"]._master._sessions.values())


async def test_a_call_whose_plan_is_registered_takes_no_asyncio_task(session, cluster, in_tasks):
    x = af.placeholder(af.float32, [])
    with af.device(OTHER):
        twice = x * 2.0
    with af.device(MASTER):
        both = twice + x
    assert await session.run([twice, both], {x: 1.0}) == [2.0, 3.0]
    assert len(in_tasks) == 1
    found = await asyncio.gather(*[session.run([twice, both], {x: float(n)}) for n in range(10)])
    assert found == [[2.0 * n, 3.0 * n] for n in range(10)]
    assert len(in_tasks) == 1
    await nothing_left(cluster)


async def test_a_call_with_a_time_limit_has_a_task(session, in_tasks):
    with af.device(OTHER):
        x = af.constant(1.0) + 1.0
    for calls in (1, 2):
        assert await session.run(x, options=af.RunOptions(timeout=10.0)) == 2.0
        assert len(in_tasks) == calls


@pytest.mark.parametrize("place", [MASTER, OTHER])
async def test_an_error_ends_the_step_on_all_tasks(session, cluster, in_tasks, place):
    x = af.placeholder(af.int32, [])
    with af.device(OTHER):
        waits = af.FIFOQueue(1, af.int32, shapes=[[]], name="empty")
        put, taken, sent = waits.enqueue(x), waits.dequeue(), x + 0
    with af.device(place):
        quotient = 6 // sent
    await session.run(put, {x: 1})
    assert await session.run([quotient, taken], {x: 2}) == [3, 1]
    with pytest.raises(errors.InvalidArgumentError, match="floordiv"):
        await session.run([quotient, taken], {x: 0})
    await nothing_left(cluster)
    await session.run(put, {x: 2})
    assert await session.run([quotient, taken], {x: 3}) == [2, 2]
    assert await session.run(quotient, {x: 3}) == 2
    with pytest.raises(errors.InvalidArgumentError, match="floordiv"):
        await session.run(quotient, {x: 0})  # the other share has run, and waits for the end of the step
    await nothing_left(cluster)
    assert len(in_tasks) == 3


async def waiting_step(session):
    """A step that waits for an element on the other task, of a call that has run before; and how to put one."""
    with af.device(OTHER):
        queue = af.FIFOQueue(1, af.float32, shapes=[[]], name="empty")
        put, taken = queue.enqueue(1.0), queue.dequeue() + 1.0
    with af.device(MASTER):
        result = taken + 1.0
    await session.run(put)
    assert await session.run(result) == 3.0
    return put, result


async def test_a_cancelled_step_ends_on_all_tasks_and_takes_nothing(session, cluster, in_tasks):
    put, result = await waiting_step(session)
    step = asyncio.ensure_future(session.run(result))
    await asyncio.sleep(0.1)
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    await nothing_left(cluster)
    await session.run(put)
    assert await session.run(result) == 3.0
    assert len(in_tasks) == 2


async def test_a_step_of_a_lost_client_ends_on_all_tasks(session, cluster, graph):
    put, result = await waiting_step(session)
    async with af.Session(cluster.target("worker", 0, "client_2"), graph=graph) as other:
        await other.run(put)
        assert await other.run(result) == 3.0
        step = asyncio.ensure_future(other.run(result))
        await asyncio.sleep(0.1)
        cluster.network.crash("client_2")
        await asyncio.gather(step, return_exceptions=True)
    await asyncio.sleep(60)  # until the master counts the client as lost
    await nothing_left(cluster)
    await session.run(put)
    assert await session.run(result) == 3.0


async def test_a_step_whose_task_is_lost_fails_with_the_name_of_the_task(session, cluster, in_tasks):
    _, result = await waiting_step(session)
    step = asyncio.ensure_future(session.run(result))
    await asyncio.sleep(0.1)
    await cluster.crash("worker", 1)
    with pytest.raises(errors.UnavailableError, match=r"worker.*task:1"):
        await step
    await nothing_left(cluster)
    assert len(in_tasks) == 2


async def test_closing_the_session_ends_its_steps(cluster, graph):
    async with af.Session(cluster.target("worker", 0), graph=graph) as session:
        _, result = await waiting_step(session)
        step = asyncio.ensure_future(session.run(result))
        await asyncio.sleep(0.1)
    with pytest.raises(errors.OpError):
        await step
    await asyncio.sleep(0.1)
    assert not any(server._worker.step_table.open for server in cluster.servers.values())


async def test_a_request_that_cannot_be_sent_ends_the_step_on_the_tasks_that_were_asked(session, cluster, monkeypatch):
    x = af.placeholder(af.float32, [])
    with af.device(OTHER):
        queue = af.FIFOQueue(1, af.float32, shapes=[[]], name="empty")
        put, taken = queue.enqueue(1.0), queue.dequeue() + 1.0
    with af.device(MASTER):
        more = x + 1.0
    await session.run(put)
    assert await session.run([taken, more], {x: 1.0}) == [2.0, 2.0]
    ask = Peers.ask_at_once

    def fail(peers, task, request, answered):
        if peers.is_own(task):
            raise MemoryError("none left")
        return ask(peers, task, request, answered)

    with monkeypatch.context() as patch:
        patch.setattr(Peers, "ask_at_once", fail)
        with pytest.raises(errors.ResourceExhaustedError, match="none left"):
            await session.run([taken, more], {x: 1.0})
        await nothing_left(cluster)
    await session.run(put)
    assert await session.run([taken, more], {x: 1.0}) == [2.0, 2.0]
