"""The registration of a plan with the tasks of a host."""

import asyncio

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.testing import no_pending_tasks
from aioflow.testing.simulated_cluster import SimulatedCluster

TASKS = ["m:1", "a:1", "a:2", "a:3", "b:1", "b:2"]
"""The addresses of the tasks; the first one is the master."""


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def cluster():
    with no_pending_tasks():
        async with SimulatedCluster({"worker": TASKS}, latency=1e-3) as cluster:
            yield cluster


def sent(cluster):
    """A dict to which the bytes between two tasks are added from now on."""
    found = {}
    for source in TASKS:
        for target in TASKS:
            if source != target:
                cluster.network.path(source, target).sent = lambda frame, ends=(source, target): found.update(
                    {ends: found.get(ends, 0) + len(frame)}
                )
    return found


def session_on(cluster, graph):
    """A session that folds no constants."""
    return af.Session(cluster.target("worker", 0), graph=graph, config=af.Config(optimize=False))


def sums():
    """On each task, the sum of one large constant times its number."""
    table = af.constant(np.arange(100_000, dtype=np.float32))
    found = []
    for index in range(len(TASKS)):
        with af.device(f"/job:worker/task:{index}"):
            found.append(af.reduce_sum(table * float(index)))
    return found


async def test_a_host_gets_an_array_once_and_its_tasks_pass_it_on(cluster, graph):
    results = sums()
    async with session_on(cluster, graph) as session:
        await session.run(af.constant(1.0))
        found = sent(cluster)
        values = await session.run(results)
        np.testing.assert_allclose(values, [np.arange(100_000).sum() * index for index in range(6)], rtol=1e-5)
        large = {ends for ends, nbytes in found.items() if nbytes > 400_000}
        assert large == {("m:1", "a:1"), ("a:1", "a:2"), ("a:1", "a:3"), ("m:1", "b:1"), ("b:1", "b:2")}
        assert max(found.values()) < 450_000
        await session.run(results)
        assert max(found.values()) < 450_000


async def test_a_registration_that_fails_on_another_task_of_the_host_fails(cluster, graph):
    results = sums()
    with af.device("/job:worker/task:2"):
        unknown = af.py_func("nobody", [results[2]], [af.float32], name="unknown")
    async with session_on(cluster, graph) as session:
        with pytest.raises(errors.PermissionDeniedError, match="nobody") as caught:
            await session.run([results, unknown])
        assert caught.value.op == "unknown"
        assert caught.value.task == "/job:worker/replica:0/task:2"
        await asyncio.sleep(0.1)
        assert registered_graphs(cluster) == 0
        assert len(await session.run(results)) == len(TASKS)


async def test_a_cancelled_registration_leaves_no_graph_registered(cluster, graph):
    results = sums()
    async with session_on(cluster, graph) as session:
        await session.run(af.constant(1.0))
        for milliseconds in range(12):
            running = asyncio.ensure_future(session.run(results))
            await asyncio.sleep(milliseconds / 1000)
            running.cancel()
            await asyncio.wait([running])
        await asyncio.sleep(1.0)
        assert registered_graphs(cluster) in (0, len(TASKS))  # it goes on for the next run


def registered_graphs(cluster):
    """The number of graphs that the tasks know of calls over all tasks."""
    servers = [server for host, server in cluster.servers.items() if host != TASKS[0]]
    own = [
        graph
        for session in cluster.servers[TASKS[0]]._worker._sessions.values()
        for graph in session.graphs.values()
        if graph.nodes > 2
    ]
    return len(own) + sum([len(each.graphs) for server in servers for each in server._worker._sessions.values()])


@pytest.mark.parametrize("lost", [1, 2])
async def test_a_lost_task_of_the_host_is_named(cluster, graph, lost):
    results = sums()
    async with session_on(cluster, graph) as session:
        await session.run(af.constant(1.0))
        await cluster.crash("worker", lost)
        with pytest.raises(errors.UnavailableError, match=f"task:{lost}"):
            await session.run(results, options=af.RunOptions(timeout=20.0))
        await cluster.start("worker", lost)
        assert len(await session.run(results)) == len(TASKS)
