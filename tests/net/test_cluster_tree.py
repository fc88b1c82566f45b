"""Steps over more tasks than the master asks by itself: a few tasks ask the others."""

import asyncio
import collections

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.net.master import fan_out
from aioflow.testing import no_pending_tasks
from aioflow.testing.chaos import describe_frame
from aioflow.testing.simulated_cluster import SimulatedCluster
from tests.support.scale import amount

WORKERS = amount(22, 40)
LATENCY = 1e-3
INNER, LEAF = 1, 7
"""A worker that asks others, and one that asks none: `worker0` is the master."""


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture(params=[pytest.param(1, marks=pytest.mark.long), 3, pytest.param(8, marks=pytest.mark.long)])
def width(request, monkeypatch):
    monkeypatch.setattr(fan_out, "WIDTH", request.param)
    return request.param


@pytest.fixture
async def cluster(width):
    gate = asyncio.Event()

    async def wait(x):
        await gate.wait()
        return x

    async def fail(x):
        await asyncio.sleep(0.1)
        raise ValueError("boom")

    py_funcs = {"wait": wait, "fail": fail}
    with no_pending_tasks():
        async with SimulatedCluster({"worker": WORKERS}, latency=LATENCY, py_funcs=py_funcs) as cluster:
            cluster.gate = gate
            yield cluster
            await asyncio.sleep(1.0)
            assert [line for server in cluster.servers.values() for line in server.held()] == []


def session(cluster, graph, **options):
    return af.Session(cluster.target("worker", 0), graph=graph, **options)


def on(worker):
    return af.device(f"/job:worker/task:{worker}")


def counters():
    """A counter on each worker, and an operation that adds one to each."""
    found = []
    for worker in range(WORKERS):
        with on(worker):
            found.append(af.Variable(0, name=f"count_{worker}"))
    return found, af.group(*[count.assign_add(1).op for count in found])


def requests(cluster):
    """A list to which each request to run a share is added from now on, as its sender and its receiver."""
    found = []
    for source in cluster.servers:
        for target in cluster.servers:
            if source != target:
                path = cluster.network.path(source, target)
                path.sent = lambda frame, ends=(source, target): (
                    found.append(ends) if describe_frame(frame).startswith("RunGraph") else None
                )
    return found


async def test_each_task_runs_its_share_once_and_no_task_asks_more_than_a_few(cluster, graph, width):
    counts, add = counters()
    async with session(cluster, graph) as opened:
        await opened.run([count.initializer for count in counts])
        await opened.run(add)
        asked = requests(cluster)
        for _ in range(3):
            await opened.run(add)
        by = collections.Counter(source for source, _ in asked)
        assert collections.Counter(target for _, target in asked) == {f"worker{n}": 3 for n in range(1, WORKERS)}
        assert max(by.values()) == 3 * width
        assert await opened.run(counts) == [4] * WORKERS


async def test_values_travel_between_tasks_that_no_master_asks(cluster, graph):
    x = af.placeholder(af.float32, [])
    value = x
    for worker in [0, 17, 5, 11, 20, 2, 14, 8]:
        with on(worker):
            value = value * 2.0 + float(worker)
    with on(0):
        result = af.identity(value)
    others, add = counters()
    async with session(cluster, graph) as opened:
        await opened.run([count.initializer for count in others])
        found, _ = await opened.run([result, add], {x: 1.0})
    expected = np.float32(1.0)
    for worker in [0, 17, 5, 11, 20, 2, 14, 8]:
        expected = expected * 2 + worker
    assert found == expected


@pytest.mark.parametrize("where", [INNER, LEAF, pytest.param(WORKERS - 1, marks=pytest.mark.long)])
async def test_an_error_anywhere_ends_the_step_everywhere_and_names_its_task(cluster, graph, where):
    counts, add = counters()
    with on(where):
        bad = af.py_func("fail", [counts[where].read_value()], [af.int32], name="bad")[0].op
    with on(where - 1), af.control_dependencies([bad]):
        never = af.no_op()
    async with session(cluster, graph) as opened:
        await opened.run([count.initializer for count in counts])
        with pytest.raises(errors.OpError, match="boom") as caught:
            await opened.run([add, never])
        assert caught.value.task == f"/job:worker/replica:0/task:{where}"
        assert caught.value.op == "bad"
        await opened.run(add)


async def test_a_time_limit_names_the_operation_that_waits_far_from_the_master(cluster, graph):
    counts, add = counters()
    with on(LEAF):
        waits = af.py_func("wait", [counts[LEAF].read_value()], [af.int32], name="waits")[0].op
    async with session(cluster, graph) as opened:
        await opened.run([count.initializer for count in counts])
        with pytest.raises(errors.DeadlineExceededError, match="waits") as caught:
            await opened.run([add, waits], options=af.RunOptions(timeout=1.0))
        assert caught.value.task == f"/job:worker/replica:0/task:{LEAF}"
        cluster.gate.set()
        await opened.run([add, waits])


@pytest.mark.parametrize("lost", [INNER, LEAF])
async def test_the_loss_of_a_task_ends_a_step_that_others_asked_for(cluster, graph, lost):
    counts, add = counters()
    waiting = []
    for worker in (lost, WORKERS - 1):
        with on(worker):
            waiting.append(af.py_func("wait", [counts[worker].read_value()], [af.int32])[0].op)
    async with session(cluster, graph) as opened:
        await opened.run([count.initializer for count in counts])
        running = asyncio.create_task(opened.run([add, *waiting]))
        await asyncio.sleep(0.1)
        await cluster.crash("worker", lost)
        with pytest.raises((errors.UnavailableError, errors.AbortedError), match=f"worker{lost}|task:{lost}"):
            await running
        await asyncio.sleep(0.1)
        assert not any(server._worker._state.steps for server in cluster.servers.values())
        await cluster.start("worker", lost)
        cluster.gate.set()
        await opened.run(counts[lost].initializer)
        await opened.run([add, *waiting])
        assert await opened.run(counts[lost]) == 1


async def test_a_cancelled_step_is_cancelled_on_all_tasks(cluster, graph):
    counts, add = counters()
    with on(WORKERS - 1):
        waits = af.py_func("wait", [counts[-1].read_value()], [af.int32])[0].op
    async with session(cluster, graph) as opened:
        await opened.run([count.initializer for count in counts])
        await opened.run(add)
        for turns in (0, 1, 3, 10, 50, 200):
            running = asyncio.create_task(opened.run([add, waits]))
            await asyncio.sleep(turns * LATENCY / 4)
            running.cancel()
            await asyncio.wait([running])
            await asyncio.sleep(0.5)
            assert not any(server._worker.step_table.open for server in cluster.servers.values())


async def test_taken_elements_return_from_tasks_that_no_master_asks(cluster, graph):
    """A step that takes an element on a far task is cancelled at some moment."""
    with on(LEAF):
        queue = af.FIFOQueue(4, [af.int32], shapes=[[]], name="numbers")
        put, size, take = queue.enqueue([5]), queue.size(), queue.dequeue().op
    counts, add = counters()
    async with session(cluster, graph) as opened:
        await opened.run([count.initializer for count in counts])
        await opened.run(put)
        taken = 0
        for moment in (0, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 12, 20, 40, 80, 81, 82, 120, 200):
            running = asyncio.create_task(opened.run([take, add]))
            await asyncio.sleep(moment * LATENCY)
            running.cancel()
            await asyncio.wait([running])
            taken = taken + (not running.cancelled())
            await asyncio.sleep(0.1)
            assert await opened.run(size) == (0 if not running.cancelled() else 1)
            if not running.cancelled():
                await opened.run(put)
        assert 0 < taken < 18


async def test_taken_elements_return_when_another_task_is_lost(cluster, graph):
    with on(LEAF):
        queue = af.FIFOQueue(4, [af.int32], shapes=[[]], name="numbers")
        put, size, take = queue.enqueue([5]), queue.size(), queue.dequeue().op
    counts, add = counters()
    with on(WORKERS - 1):
        waits = af.py_func("wait", [counts[-1].read_value()], [af.int32])[0].op
    async with session(cluster, graph) as opened:
        await opened.run([count.initializer for count in counts])
        await opened.run(put)
        running = asyncio.create_task(opened.run([take, add, waits]))
        await asyncio.sleep(0.5)
        assert await opened.run(size) == 0
        await cluster.crash("worker", WORKERS - 1)
        with pytest.raises((errors.UnavailableError, errors.AbortedError)):
            await running
        assert await opened.run(size) == 1


async def test_a_trace_has_the_nodes_of_all_tasks(cluster, graph):
    counts, add = counters()
    metadata = af.RunMetadata()
    async with session(cluster, graph) as opened:
        await opened.run([count.initializer for count in counts])
        await opened.run(add, options=af.RunOptions(trace=True), metadata=metadata)
        assert await opened.run(counts) == [1] * WORKERS
    devices = {stats.device for stats in metadata.step_stats}
    assert len(devices) == WORKERS
