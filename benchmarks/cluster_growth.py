"""The time of a step by the number of workers: null training steps, synchronous [P16 section 6.2, figure 6].

In a step each worker fetches the parameters from all parameter servers, computes next to nothing, and sends each server
an update; a server adds up the updates of all workers before it applies them.

- Simulated, all tasks are in one process, on a virtual clock. The network moves it, and so do the frames and nodes
  that each host handles one after the other, at the costs that `cluster_costs` measures. Beside it stands the processor
  time of all tasks, which is real. The curves are drawn to `build/cluster_growth.png`, with those of the paper.
- With processes, all tasks share the cores of this machine: the time grows with the work.
"""

import asyncio
import importlib
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from aioflow.testing.processors import Costs
from benchmarks import peers
from benchmarks.cluster_costs import measured
from benchmarks.cluster_processes import Targets, clusters
from benchmarks.cluster_sides import Built, both
from benchmarks.harness import Timing, alternate, freeze
from benchmarks.report import Claim, Row, span

MANY, FEW, REAL = (1, 10, 100, 1000), (1, 10, 64), (1, 2, 4, 8)
SERVERS, REAL_SERVERS = 4, 2
LATENCY, BANDWIDTH = 50e-6, 1.25e9
"""Latency in seconds, and bytes per second, of each channel of the simulated network."""
STEPS = 5
ROUNDS, BLOCK = 5, 0.1
ROWS, WIDTH, PICKED, MIB = 16_384, 256, 32, 1 << 18
"""Of a server's sparse parameter: rows, row length, and rows that a worker fetches. Floats of a MiB."""


async def rows() -> AsyncIterator[Row]:
    """Measure on the simulated network, then with processes."""
    yield costs_row(await measured())
    curves = {}
    for name in VARIANTS:
        curves[name] = await asyncio.to_thread(simulated, name)
        yield told(name, curves[name])
    draw(curves)
    async with clusters({"ps": REAL_SERVERS, "worker": REAL[-1]}) as targets:
        for name in VARIANTS:
            yield await with_processes(targets, name)


# Steps


def no_ops(m: Any, workers: int, servers: int) -> Built:
    """Each worker does nothing."""
    operations = []
    for worker in range(workers):
        with m.device(f"/job:worker/task:{worker}"):
            operations.append(m.no_op())
    return Built(operations)


def scalar(m: Any, workers: int, servers: int) -> Built:
    """A parameter is one number."""
    return dense(m, workers, servers, 1, "scalar")


def large(m: Any, workers: int, servers: int) -> Built:
    """A parameter has one MiB."""
    return dense(m, workers, servers, MIB, "large")


def dense(m: Any, workers: int, servers: int, size: int, name: str) -> Built:
    """Each worker fetches all parameters whole."""
    values = [parameter(m, server, [size], f"{name}_{server}") for server in range(servers)]
    updates: list[list[Any]] = [[] for _ in values]
    for worker in range(workers):
        with m.device(f"/job:worker/task:{worker}"):
            for value, of_value in zip(values, updates, strict=True):
                of_value.append(m.identity(value) * 0.5)
    applied = []
    for server, (value, of_value) in enumerate(zip(values, updates, strict=True)):
        with m.device(f"/job:ps/task:{server}"):
            applied.append(m.assign(value, m.add_n(of_value) * (1.0 / workers)).op)
    return Built(applied, init=[value.initializer for value in values])


def sparse(m: Any, workers: int, servers: int) -> Built:
    """A parameter is a matrix, of which each worker fetches and updates some rows."""
    values = [parameter(m, server, [ROWS, WIDTH], f"sparse_{server}") for server in range(servers)]
    updates = []
    for worker in range(workers):
        for server, value in enumerate(values):
            with m.device(f"/job:worker/task:{worker}"):
                picked = m.random_uniform([PICKED], 0, ROWS, m.int32, seed=1)
            with m.device(f"/job:ps/task:{server}"):
                found = m.gather(value, picked)
            with m.device(f"/job:worker/task:{worker}"):
                updates.append((server, value, picked, found * 0.5))
    applied = []
    for server, value, picked, update in updates:  # after all reads, since they run in this order
        with m.device(f"/job:ps/task:{server}"):
            applied.append(m.scatter_sub(value, picked, update).op)
    return Built(applied, init=[value.initializer for value in values])


def parameter(m: Any, server: int, shape: list[int], name: str) -> Any:
    """Return a variable on a parameter server."""
    with m.device(f"/job:ps/task:{server}"):
        return m.get_variable(name, shape=shape, initializer=m.ones_initializer())


Variant = Callable[[Any, int, int], Built]
NULL, SCALAR, DENSE = "no_op on each worker", "scalar", "dense, 1 MiB a parameter"
VARIANTS: dict[str, Variant] = {
    NULL: no_ops,
    SCALAR: scalar,
    f"sparse, {PICKED} rows of {WIDTH}": sparse,
    DENSE: large,
}


# Simulated


class Simulated(NamedTuple):
    """A simulated step."""

    seconds: float
    """Seconds on the clock that the network moves."""
    messages: float
    """Frames of all tasks."""
    work: float
    """Processor seconds of all tasks."""


def simulated(name: str) -> dict[int, Simulated]:
    """Simulate steps with more and more workers. Large parameters take real memory: there are fewer."""
    return {workers: simulate(VARIANTS[name], workers) for workers in (MANY if name in (NULL, SCALAR) else FEW)}


def costs_row(found: Costs) -> Row:
    """Return the processor time of the work of a task, measured with processes, beside that of the simulation."""
    used = Costs()
    figures = {
        f"a {what}": f"{each * 1e9:.3g} ns, simulated {simulated * 1e9:.3g} ns"
        for what, each, simulated in (
            ("frame", found.message, used.message), ("byte", found.byte, used.byte), ("node", found.node, used.node)
        )
    }  # fmt: skip
    return Row("processor time of the work of a task", figures)


def told(name: str, found: dict[int, Simulated]) -> Row:
    """Return the growth on the simulated network."""
    first, ten, most = found[1], found[10], max(found)
    figures = {
        f"{workers} workers": f"{span(one.seconds):>9} ({one.seconds / first.seconds:.2f}x), "
        f"{one.messages:.0f} frames, {span(one.work)} of the processor"
        for workers, one in found.items()
    }
    further = (found[most].messages - ten.messages) / (most - 10)
    claims = [
        Claim(f"time, {most} workers / 1", found[most].seconds / first.seconds, 1 + math.log2(most)),
        Claim(f"time, {most} workers / 10", found[most].seconds / ten.seconds, 3),
        Claim(f"frames for a further worker, of {most} / of 10", further / ((ten.messages - first.messages) / 9), 1.1),
    ]
    notes = [f"{further:.1f} frames for each further worker, answers included"]
    title = f"null step by workers, simulated: {LATENCY * 1e6:.0f} us, {BANDWIDTH / 1e9:g} GB/s a channel; {name}"
    return Row(title if name == NULL else f"{title}, {SERVERS} ps", figures, claims, notes)


PAPER = {"the paper, scalar": {1: 1.8e-3, 100: 8.8e-3}}
"""Figure 6: seconds of a step with 16 parameter servers, by workers."""
PICTURE = Path("build/cluster_growth.png")


def draw(curves: Mapping[str, Mapping[int, Simulated]]) -> None:
    """Draw the time of a step by the number of workers, both by their logarithms."""
    matplotlib = importlib.import_module("matplotlib.figure")
    figure = matplotlib.Figure(figsize=(8, 5))
    axes = figure.add_subplot(xscale="log", yscale="log", xlabel="workers", ylabel="seconds of a step")
    for name, found in curves.items():
        axes.plot(list(found), [one.seconds for one in found.values()], marker="o", label=name)
    for name, points in PAPER.items():
        axes.plot(list(points), list(points.values()), marker="x", linestyle="--", label=name)
    axes.legend()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE)


def simulate(variant: Variant, workers: int) -> Simulated:
    """Run a step with that many workers, on its own loop."""
    from aioflow.testing import VirtualTimeLoop

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(simulated_steps(variant, workers))


async def simulated_steps(variant: Variant, workers: int) -> Simulated:
    """Return the mean of some steps, after all tasks are connected and planned."""
    from aioflow.testing.simulated_cluster import SimulatedCluster

    af = peers.aioflow()
    with af.Graph().as_default() as graph:
        built = variant(af, workers, SERVERS)
    jobs = {"worker": workers} if variant is no_ops else {"ps": SERVERS, "worker": workers}
    async with (
        SimulatedCluster(jobs, latency=LATENCY, bandwidth=BANDWIDTH, costs=Costs()) as cluster,
        af.Session(cluster.target("worker", 0), graph=graph) as session,
    ):
        if built.init is not None:
            await session.run(built.init)
        step = session.make_callable(built.fetches)
        await step()
        await asyncio.sleep(0.1)
        clock = asyncio.get_running_loop().time
        freeze()
        frames = counted(cluster)
        spent, work = 0.0, time.thread_time()
        for _ in range(STEPS):
            began = clock()
            await step()
            spent += clock() - began
        await asyncio.sleep(10 * LATENCY)  # for the messages that follow the end of a step
        return Simulated(spent / STEPS, len(frames) / STEPS, (time.thread_time() - work) / STEPS)


def counted(cluster: Any) -> list[None]:
    """Return a list that grows with each frame from now on."""
    frames: list[None] = []
    of_host = cluster.processors.of

    def count(source: str) -> Callable[[Any, float], float]:
        handle = of_host(source).handle

        def departure(frame: Any, now: float) -> float:
            frames.append(None)
            return float(handle(frame, now))

        return departure

    for (source, _), path in cluster.network.paths.items():
        path.departure = count(source)
    return frames


# Processes


async def with_processes(targets: Targets, name: str) -> Row:
    """Measure the growth with processes."""
    variant, timings = VARIANTS[name], {}
    for workers in REAL:

        def build(m: Any, workers: int = workers) -> Built:
            return variant(m, workers, REAL_SERVERS)

        timings[workers] = await alternate(both(targets, build), rounds=ROUNDS, block=BLOCK)
    figures = {f"{workers} workers": growth(timings, workers) for workers in REAL}
    for workers, timing in timings.items():
        figures |= {f"{workers} workers, {side}": why for side, why in timing.missing.items()}
    title = f"null step by workers, processes: {name}" + ("" if variant is no_ops else f", {REAL_SERVERS} ps")
    return Row(title, figures, [growth_claim(timings), beside_tensorflow(timings)])


def growth(timings: dict[int, Timing], workers: int) -> str:
    """Return the time of each side, and its ratio to the time with one worker."""
    told = []
    for side in timings[workers].rounds:
        seconds, first = timings[workers].seconds(side), timings[1].seconds(side)
        told.append(f"{side} {span(seconds)}" + (f" ({seconds / first:.2f}x)" if seconds and first else ""))
    return ", ".join(told)


def growth_claim(timings: dict[int, Timing]) -> Claim:
    """Return the growth up to the most workers, by logarithm, and the slope per worker after the second."""
    one, two, most = [timings[workers].seconds(peers.AIOFLOW) for workers in (1, 2, REAL[-1])]
    what = f"{REAL[-1]} workers / (log + a message each)"
    if one is None or two is None or most is None:
        return Claim(what, None, 1)
    message = max(0.0, two - one)
    return Claim(what, most / (one * (1 + math.log2(REAL[-1])) + message * (REAL[-1] - 1)), 1)


def beside_tensorflow(timings: dict[int, Timing]) -> Claim:
    """Return the ratio with the most workers."""
    ratio = timings[REAL[-1]].ratio(peers.TENSORFLOW, peers.AIOFLOW)
    return Claim(f"TensorFlow / aioflow, {REAL[-1]} workers", ratio, 1, at_least=True)
