"""Shares of a step that are over at once: they belong to their session and their step as others do."""

import asyncio
import functools
import json

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.kernels.control.lossy import lossy_encode_top_k, lossy_residual
from aioflow.kernels.state.run_state import restore_run_counts, run_counts
from aioflow.net.wire.worker_verbs import RunGraph
from aioflow.net.worker.worker import Worker
from aioflow.testing.chaos import describe_frame
from aioflow.testing.simulated_cluster import SimulatedCluster

MASTER, OTHER = "/job:worker/task:0", "/job:worker/task:1"


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def cluster():
    async def fail(x):
        await asyncio.sleep(0.5)  # when the other share is over
        raise ValueError("boom")

    async def pass_on(x):
        await asyncio.sleep(0.5)
        return x

    async with SimulatedCluster({"worker": 2}, latency=1e-3, py_funcs={"fail": fail, "pass_on": pass_on}) as cluster:
        yield cluster


def session(cluster, graph):
    return af.Session(cluster.target("worker", 0), graph=graph)


async def test_how_often_operations_ran_is_told_of_the_own_session_alone(cluster, graph):
    told = af.placeholder(af.string, [])
    with af.device(OTHER):
        x = af.random_uniform([], seed=1)
        counts, restored = run_counts(), restore_run_counts(told)
    async with session(cluster, graph) as mine, session(cluster, graph) as others:
        first = [await mine.run(x) for _ in range(3)]
        await others.run(x)
        found = json.loads(await mine.run(counts))
        assert found == {x.op.name: 3}
        await mine.run(restored, {told: json.dumps(dict.fromkeys(found, 0))})
        assert [await mine.run(x) for _ in range(3)] == first
        assert json.loads(await others.run(counts)) == {x.op.name: 1}


async def test_what_a_share_at_once_has_changed_is_taken_back_if_another_fails(cluster, graph):
    x = af.placeholder(af.float32, [8])
    with af.device(OTHER):
        encoded, fresh = [lossy_encode_top_k(x, lossy_residual(), 0.25) for _ in range(2)]
    with af.device(MASTER):
        bad = af.py_func("fail", [0.0], af.float32)
    values = {x: np.arange(1.0, 9.0, dtype=np.float32)}
    async with session(cluster, graph) as opened:
        with pytest.raises(errors.OpError, match="boom"):
            await opened.run([encoded, bad], values)
        np.testing.assert_array_equal(await opened.run(encoded, values), await opened.run(fresh, values))


# Shares that push


def pushing():
    """What another task computes is pushed to the master."""
    x = af.placeholder(af.float32, [])
    with af.device(OTHER):
        twice = x * 2.0
    with af.device(MASTER):
        return x, twice + 1.0


async def test_values_leave_before_the_answer_to_the_step(cluster, graph):
    frames = []
    x, result = pushing()
    async with session(cluster, graph) as opened:
        assert await opened.run(result, {x: 1.0}) == 3.0
        cluster.network.path("worker1", "worker0").sent = lambda frame: frames.append(describe_frame(frame))
        assert await opened.run(result, {x: 2.0}) == 5.0
    assert [frame.split()[0] for frame in frames[:2]] == ["PushTensors", "GraphRan"]


async def test_values_for_the_master_need_no_connection_of_the_senders_own(cluster, graph):
    """They go over the one by which the master asks, also in a step that waits; to other tasks they do not."""
    x, result = pushing()
    with af.device(OTHER):
        waiting = af.py_func("pass_on", [x], af.float32)
        waiting.set_shape([])
    with af.device(MASTER):
        later = waiting + result
    peers = cluster.servers["worker1"]._worker.step_table._peers
    async with session(cluster, graph) as opened:
        assert await opened.run([result, later], {x: 1.0}) == [3.0, 4.0]
        assert peers.connected("/job:worker/replica:0/task:0") is None
    async with af.Session(cluster.target("worker", 1), graph=graph) as opened:
        assert await opened.run(later, {x: 1.0}) == 4.0
        assert peers.connected("/job:worker/replica:0/task:0") is not None


async def test_shares_that_push_and_receive_run_without_a_task_once_the_tasks_are_connected(cluster, graph):
    ran, run = [], Worker.run

    async def noted(self, call):
        ran.append(self.task[-1])
        return await run(self, call)

    for server in cluster.servers.values():
        server._service._handlers[RunGraph] = functools.partial(noted, server._worker)
    x, result = pushing()
    async with session(cluster, graph) as opened:
        assert await opened.run(result, {x: 1.0}) == 3.0
        ran.clear()
        assert await asyncio.gather(*[opened.run(result, {x: float(n)}) for n in range(10)]) == [
            2.0 * n + 1.0 for n in range(10)
        ]
        assert not ran
        assert await opened.run(result, {x: 1.0}, af.RunOptions(timeout=60.0)) == 3.0
    assert sorted(ran) == ["0"]


async def test_the_error_of_a_share_that_pushes_ends_the_step_of_the_receiver(cluster, graph):
    x = af.placeholder(af.int32, [])
    with af.device(OTHER):
        quotient = 6 // x
    with af.device(MASTER):
        result = quotient + 1
    async with session(cluster, graph) as opened:
        for value in (1, 0, 2, 0, 3):
            if value:
                assert await opened.run(result, {x: value}) == 6 // value + 1
            else:
                with pytest.raises(errors.InvalidArgumentError, match="floordiv"):
                    await opened.run(result, {x: value})
            await asyncio.sleep(0.1)
            assert not any(server._worker.step_table.open for server in cluster.servers.values())
