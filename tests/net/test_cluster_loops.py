"""Loops over the tasks of a cluster, run by one coroutine on each: errors, cancels, limits and losses as elsewhere."""

import asyncio
import gc

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.net.worker.remote_rendezvous import Outbox, RemoteRendezvous
from aioflow.plan.passes import recover_loops as passes
from aioflow.program import assemble
from aioflow.testing import no_pending_tasks
from aioflow.testing.simulated_cluster import SimulatedCluster

MASTER, OTHER, THIRD = "/job:worker/task:0", "/job:worker/task:1", "/job:worker/task:2"


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def recovered(monkeypatch):
    """The loops over devices that tasks run as coroutines."""
    found, recover = [], passes.recover_loops

    def note(flow):
        made = recover(flow)
        found.extend(node for node in made.nodes if passes.spans_devices(node))
        return made

    monkeypatch.setattr(assemble, "recover_loops", note)
    return found


@pytest.fixture
async def cluster():
    with no_pending_tasks():
        async with SimulatedCluster({"worker": 3}, latency=1e-3) as cluster:
            yield cluster
            for server in cluster.servers.values():
                assert not server._worker.step_table.open, f"{server} still has steps"
    gc.collect()


@pytest.fixture
async def session(graph, cluster):
    async with af.Session(cluster.target("worker", 0), graph=graph) as session:
        yield session


def halving(end, start):
    """x = x / 2 on a task, + 1 on the next one. The master tests x, so that no task runs ahead of the others."""

    def body(i, x):
        with af.device(OTHER):
            half = x * 0.5
        with af.device(THIRD):
            more = half + 1.0
        with af.device(MASTER):
            return i + 1, more

    with af.device(MASTER):
        return af.while_loop(lambda i, x: af.logical_and(i < end, x >= 0.0), body, [0, start], name="halving")


def halved(value, iterations):
    for _ in range(iterations):
        value = np.float32(value * np.float32(0.5)) + np.float32(1.0)
    return value


@pytest.mark.parametrize("iterations", [0, 1, 2, 50])
async def test_all_tasks_run_one_coroutine(session, recovered, iterations):
    end, start = af.placeholder(af.int32, []), af.placeholder(af.float32, [])
    count, value = await session.run(halving(end, start), {end: iterations, start: 3.0})
    assert (count, value) == (iterations, halved(np.float32(3.0), iterations))
    assert len(recovered) == 3


async def test_values_of_an_iteration_leave_before_the_loop_turns(session, monkeypatch):
    """The step sends them as soon as it waits, or once the task is dialled, and not by a callback of the loop."""
    late, sent, send, flush = [], [], Outbox._send, Outbox.flush
    monkeypatch.setattr(RemoteRendezvous, "flush", lambda rendezvous: [*map(flush, rendezvous._outboxes.values())])
    monkeypatch.setattr(Outbox, "flush", lambda box: late.append(box) if box._items and not box._dialling else None)
    monkeypatch.setattr(Outbox, "_send", lambda box, peer: (sent.append(peer), send(box, peer)))
    end, start = af.placeholder(af.int32, []), af.placeholder(af.float32, [])
    assert await session.run(halving(end, start)[0], {end: 20, start: 3.0}) == 20
    assert len(sent) >= 40
    assert not late


async def test_steps_side_by_side_keep_their_values_apart(session):
    end, start = af.placeholder(af.int32, []), af.placeholder(af.float32, [])
    value = halving(end, start)[1]
    found = await asyncio.gather(*[session.run(value, {end: n, start: float(n)}) for n in range(20)])
    assert found == [halved(np.float32(n), n) for n in range(20)]


async def test_an_error_on_another_task_names_its_node_and_iteration(session, recovered):
    table = af.constant([1, 1, 1, 0])

    def body(i, x):
        with af.device(OTHER):
            quotient = x // af.gather(table, i)
        with af.device(MASTER):
            return i + 1, quotient

    with af.device(MASTER):
        result = af.while_loop(lambda i, x: i < 9, body, [0, 100], name="divides")
    with pytest.raises(errors.InvalidArgumentError) as caught:
        await session.run(result)
    assert caught.value.op_type == "floordiv"
    assert "task:1" in caught.value.device
    assert any("iteration 3 of 'divides'" in note for note in caught.value.__notes__)
    assert len(recovered) == 2


async def test_a_cancelled_loop_ends_on_all_tasks(session, cluster, recovered):
    run = asyncio.ensure_future(session.run(halving(10**9, af.constant(1.0))))
    await asyncio.sleep(0.5)
    assert all(server._worker.step_table.open for server in cluster.servers.values())
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await asyncio.sleep(0.1)
    assert not any(server._worker.step_table.open for server in cluster.servers.values())
    assert len(recovered) == 3


async def test_a_loop_over_its_limit_ends_on_all_tasks(session, cluster, recovered):
    with pytest.raises(errors.DeadlineExceededError):
        await session.run(halving(10**9, af.constant(1.0)), options=af.RunOptions(timeout=0.5))
    await asyncio.sleep(0.1)
    assert not any(server._worker.step_table.open for server in cluster.servers.values())
    assert len(recovered) == 3


@pytest.mark.parametrize("silent", [False, True])
async def test_a_lost_task_ends_the_loop_of_the_others(session, cluster, recovered, silent):
    run = asyncio.ensure_future(session.run(halving(10**9, af.constant(1.0))))
    await asyncio.sleep(0.5)
    await cluster.crash("worker", 2, silent=silent)
    with pytest.raises((errors.UnavailableError, errors.AbortedError), match="task:2"):
        await run
    await asyncio.sleep(0.1)
    others = [cluster.servers[name] for name in cluster.servers if "2" not in str(name)]
    assert len(others) == 2
    assert not any(server._worker.step_table.open for server in others)
    assert len(recovered) == 3


async def test_a_trace_has_the_loop_on_each_task(session, recovered):
    metadata = af.RunMetadata()
    await session.run(halving(5, af.constant(1.0)), options=af.RunOptions(trace=True), metadata=metadata)
    assert len(recovered) == 3
    traced = {record.device for record in metadata.step_stats if "halving" in record.name}
    assert len(traced) == 3
