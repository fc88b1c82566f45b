"""Simulates large clusters on a virtual clock: steps, the creation of a session, the failure of a worker."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aioflow.testing.processors import Costs
from benchmarks import peers
from benchmarks.cluster_growth_steps import no_ops
from benchmarks.cluster_sides import Built
from benchmarks.harness import freeze

LATENCY, BANDWIDTH = 50e-6, 1.25e9
"""Latency in seconds, and bytes per second, of each channel of the simulated network."""
STEPS = 5
Variant = Callable[[Any, int, int], Built]


class Simulated(NamedTuple):
    """A simulated step."""

    seconds: float
    """Seconds on the clock that the network moves."""
    messages: float
    """Frames of all tasks."""
    work: float
    """Processor seconds of all tasks."""


Measure = Callable[[int], Awaitable[Simulated]]
"""Measures with a number of workers, on the loop that runs."""


def simulate(measure: Measure, workers: int) -> Simulated:
    """Measure with that many workers, on its own loop."""
    from aioflow.testing import VirtualTimeLoop

    async def measured() -> Simulated:
        return await measure(workers)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(measured())


def step_of(variant: Variant, servers: int) -> Measure:
    """Return the measure of a step."""

    async def measure(workers: int) -> Simulated:
        """Return the mean of some steps, after all tasks are connected and planned."""
        af = peers.aioflow()
        with af.Graph().as_default() as graph:
            built = variant(af, workers, servers)
        async with cluster_of(workers, servers) as cluster, opened(cluster, graph) as session:
            if built.init is not None:
                await session.run(built.init)
            step = session.make_callable(built.fetches)
            await step()
            await asyncio.sleep(0.1)
            freeze()
            count, spent = Count(cluster), 0.0
            for _ in range(STEPS):
                began = clock()
                await step()
                spent += clock() - began
            await asyncio.sleep(10 * LATENCY)  # for the messages that follow the end of a step
            return count.each(spent, STEPS)

    return measure


async def creation(workers: int) -> Simulated:
    """Measure the creation of a session and its first null step, the connections of the master included."""
    af = peers.aioflow()
    with af.Graph().as_default() as graph:
        built = no_ops(af, workers, 0)
    async with cluster_of(workers) as cluster:
        count, began = Count(cluster), clock()
        async with opened(cluster, graph) as session:
            await session.run(built.fetches)
            return count.each(clock() - began)


async def failure(workers: int) -> Simulated:
    """Measure the time from the end of a worker's process to the error of a step in which all workers wait."""
    af = peers.aioflow()
    waits = []
    with af.Graph().as_default() as graph:
        for worker in range(workers):
            with af.device(f"/job:worker/task:{worker}"):
                waits.append(af.FIFOQueue(1, [af.int32], shapes=[[]]).dequeue().op)
        ready = no_ops(af, workers, 0)
    async with cluster_of(workers) as cluster, opened(cluster, graph) as session:
        await session.run(ready.fetches)
        step = asyncio.ensure_future(session.run(waits))
        await asyncio.sleep(1.0)
        count, began = Count(cluster), clock()
        await cluster.crash("worker", workers - 1)
        await asyncio.wait([step])
        assert isinstance(step.exception(), af.errors.OpError), step
        return count.each(clock() - began)


def clock() -> float:
    """Return the time of the virtual clock."""
    return asyncio.get_running_loop().time()


@asynccontextmanager
async def cluster_of(workers: int, servers: int = 0) -> AsyncIterator[Any]:
    """Run a simulated cluster. Its first worker is the master of sessions."""
    from aioflow.testing.simulated_cluster import SimulatedCluster

    jobs = {"ps": servers, "worker": workers} if servers else {"worker": workers}
    async with SimulatedCluster(jobs, latency=LATENCY, bandwidth=BANDWIDTH, costs=Costs()) as cluster:
        yield cluster


def opened(cluster: Any, graph: Any) -> Any:
    """Return a session over the cluster."""
    return peers.aioflow().Session(cluster.target("worker", 0), graph=graph)


class Count:
    """The frames and the processor time from now on."""

    def __init__(self, cluster: Any) -> None:
        self._frames = cluster.processors.sent
        self._cluster = cluster
        self._work = time.thread_time()

    def each(self, seconds: float, times: int = 1) -> Simulated:
        """Return what was measured, for each of that many times."""
        frames, work = self._cluster.processors.sent - self._frames, time.thread_time() - self._work
        return Simulated(seconds / times, frames / times, work / times)
