"""A share of one unit that receives values, run without an asyncio task: as one that an asyncio task runs."""

import asyncio
import contextlib
import threading

import pytest

import aioflow as af
from aioflow import errors
from aioflow.graph.op import op
from aioflow.net.worker.exchanging_share import ExchangingShare
from aioflow.tensors.dtypes import DeviceKind, Spec
from aioflow.testing import VirtualTimeLoop
from aioflow.testing.simulated_cluster import SimulatedCluster
from tests.support.cluster_processes import free_ports

MASTER, OTHER = "/job:worker/task:0", "/job:worker/task:1"
IN_A_TASK = af.RunOptions(timeout=3600.0)
"""The share of a step with a time limit has an asyncio task."""


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture(params=[None, IN_A_TASK], ids=["at once", "in a task"])
async def options(request, monkeypatch):
    """The options of the runs. Afterwards no share that should have a task has run without."""
    shares, made = [], ExchangingShare.__init__
    monkeypatch.setattr(ExchangingShare, "__init__", lambda share, *args: (shares.append(share), made(share, *args))[1])
    yield request.param
    assert bool(shares) is (request.param is None)


async def late(x):
    await asyncio.sleep(float(x))
    return x


@pytest.fixture
async def cluster():
    async with SimulatedCluster({"worker": 2}, latency=1e-3, py_funcs={"late": late}) as cluster:
        yield cluster


def unchanged(x):
    return x


def long_way(x):
    """`x`, by heavy kernels."""
    return af.reduce_max(af.sort(af.fill([1 << 16], x)))


@pytest.fixture(params=[unchanged, long_way], ids=["light", "heavy"])
def kernels(request):
    return request.param


def received(compute, kernels=unchanged):
    """A placeholder, and what the master computes of its value, which another task gives after as many seconds."""
    x = af.placeholder(af.float32, [])
    with af.device(OTHER):
        value = af.py_func("late", [x], af.float32)
        value.set_shape([])
    with af.device(MASTER):
        return x, compute(kernels(value))


async def is_clean(cluster):
    await asyncio.sleep(1.0)
    workers = [server._worker for server in cluster.servers.values()]
    return not any(worker.step_table.open or worker._state.steps for worker in workers)


async def test_it_computes_with_the_values_that_come(cluster, graph, options, kernels):
    x, result = received(lambda value: value * 2.0 + 1.0, kernels)
    async with af.Session(cluster.target("worker", 0), graph=graph) as session:
        await session.run(result, {x: 0.0}, IN_A_TASK)
        many = [session.run(result, {x: float(n)}, options) for n in range(8)]
        assert await asyncio.gather(*many) == [2.0 * n + 1.0 for n in range(8)]
        assert await is_clean(cluster)


async def test_its_own_error_names_the_operation(cluster, graph, options, kernels):
    x, result = received(lambda value: 1 // af.cast(value, af.int32), kernels)
    async with af.Session(cluster.target("worker", 0), graph=graph) as session:
        assert await session.run(result, {x: 1.0}, IN_A_TASK) == 1
        with pytest.raises(errors.InvalidArgumentError) as caught:
            await session.run(result, {x: 0.0}, options)
        assert caught.value.op_type == "floordiv"
        assert result.op.name in str(caught.value)
        assert "task:0" in caught.value.device
        assert await is_clean(cluster)
        assert await session.run(result, {x: 1.0}, options) == 1


async def test_an_error_elsewhere_ends_it(cluster, graph, options, kernels):
    x, result = received(lambda value: value + 1.0, kernels)
    with af.device(OTHER):
        broken = 1 // af.cast(x, af.int32)
    async with af.Session(cluster.target("worker", 0), graph=graph) as session:
        await session.run([result, broken], {x: 1.0}, IN_A_TASK)
        with pytest.raises(errors.InvalidArgumentError, match="floordiv"):
            await session.run([result, broken], {x: 0.5}, options)
        assert await is_clean(cluster)


@contextlib.asynccontextmanager
async def waiting(cluster, graph, options, kernels=unchanged):
    """A session, its placeholder and result, and a run that waits for a value."""
    x, result = received(lambda value: value + 1.0, kernels)
    async with af.Session(cluster.target("worker", 0), graph=graph) as session:
        await session.run(result, {x: 0.0}, IN_A_TASK)
        run = asyncio.ensure_future(session.run(result, {x: 60.0}, options))
        await asyncio.sleep(1.0)
        yield session, x, result, run


async def test_a_cancelled_run_ends_it_while_it_waits(cluster, graph, options, kernels):
    async with waiting(cluster, graph, options, kernels) as (session, x, result, run):
        assert not await is_clean(cluster)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert await is_clean(cluster)
        assert await session.run(result, {x: 0.0}, options) == 1.0


async def test_a_report_says_for_what_it_waits(cluster, graph, options):
    async with waiting(cluster, graph, options) as (session, _, _, run):
        waits = {wait.task[-1]: wait for wait in (await session.explain()).waits}
        assert (waits["0"].op_type, waits["1"].op_type) == ("recv", "py_func")
        assert waits["0"].what.startswith("receive ")
        assert "task:1" in waits["0"].what
        assert await run == 61.0


async def test_the_loss_of_the_sender_ends_it(cluster, graph, options):
    async with waiting(cluster, graph, options) as (*_, run):
        await cluster.crash("worker", 1)
        with pytest.raises((errors.UnavailableError, errors.AbortedError)):
            await run
        await asyncio.sleep(1.0)
        assert not cluster.servers["worker0"]._worker._state.steps


@op(name="test_exit")
def leave(x: Spec) -> Spec:
    """`x`, unless it is more than 1: then the program ends."""
    return x


leave.no_gradient("a test needs none")


@leave.kernel(DeviceKind.CPU)
def _(xp, x):
    if x > 1:
        raise SystemExit
    return x + 0


def test_an_exit_in_a_kernel_ends_the_loop():
    async def main():
        with af.Graph().as_default() as graph:
            x, result = received(leave)
        async with (
            SimulatedCluster({"worker": 2}, latency=1e-3, py_funcs={"late": late}) as cluster,
            af.Session(cluster.target("worker", 0), graph=graph) as session,
        ):
            assert await session.run(result, {x: 0.5}, IN_A_TASK) == 0.5
            await session.run(result, {x: 2.0})

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner, pytest.raises(SystemExit):
        runner.run(main())


class Thread:
    """A kernel that computes on a thread until the test lets it go on."""

    def __init__(self):
        self.begun, self.going_on = threading.Event(), threading.Event()

    def compute(self, x):
        self.begun.set()
        self.going_on.wait()
        return x + 1


THREAD = Thread()


@op(name="test_slow")
def slow(x: Spec) -> Spec:
    """`x` + 1, by a compute thread."""
    return x


slow.no_gradient("a test needs none")
slow.cost(lambda inputs, outputs, attrs: 1e300)
slow.kernel(DeviceKind.CPU)(lambda xp, x: THREAD.compute(x))


@pytest.mark.sockets
async def test_a_cancelled_run_leaves_its_heavy_kernel_to_the_thread(graph, options):
    jobs = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    async with (
        af.train.Server(jobs, "worker", 0, py_funcs={"late": late}) as server,
        af.train.Server(jobs, "worker", 1, py_funcs={"late": late}),
        af.Session(server.target, graph=graph) as session,
    ):
        x, result = received(slow)
        state = server._worker._state
        THREAD.going_on.set()
        assert await session.run(result, {x: 0.0}, IN_A_TASK) == 1.0
        assert await session.run(result, {x: 0.0}, options) == 1.0
        THREAD.going_on.clear()
        THREAD.begun.clear()
        run = asyncio.ensure_future(session.run(result, {x: 0.0}, options))
        await asyncio.to_thread(THREAD.begun.wait)
        assert "test_slow" in str(await session.explain())
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await session.run(x + 1.0, {x: 0.0}, IN_A_TASK)  # after the cancel has arrived
        assert not state.steps
        assert state.devices[0].compute.detached
        THREAD.going_on.set()
        assert await session.run(result, {x: 0.0}, options) == 1.0
