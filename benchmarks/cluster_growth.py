"""The time of work over many workers, by their number: null training steps [P16 section 6.2, figure 6] and all-reduces.

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
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from aioflow.testing.processors import Costs
from benchmarks import cluster_growth_steps as steps
from benchmarks import peers
from benchmarks.cluster_costs import measured
from benchmarks.cluster_growth_simulated import (
    BANDWIDTH,
    LATENCY,
    Measure,
    Simulated,
    Variant,
    creation,
    failure,
    simulate,
    step_of,
)
from benchmarks.cluster_processes import Targets, clusters
from benchmarks.cluster_sides import Built, both
from benchmarks.harness import Timing, alternate
from benchmarks.report import Claim, Row, span

REAL = (1, 2, 4, 8)
REAL_SERVERS = 2
ROUNDS, BLOCK = 5, 0.1
VARIANTS: dict[str, Variant] = {
    "no_op on each worker": steps.no_ops,
    "scalar": steps.scalar,
    f"sparse, {steps.PICKED} rows of {steps.WIDTH}": steps.sparse,
    "dense, 1 MiB a parameter": steps.large,
}
"""Null steps."""


class Curve(NamedTuple):
    """A curve of simulated work.

    Attributes:
        measure: measures the work with a number of workers.
        workers: numbers of workers. Large values take real memory, and a ring has a message for each pair: fewer there.
        is_bounded: whether the time should grow with the logarithm of the workers: no host serves all of them.
    """

    measure: Measure
    workers: tuple[int, ...]
    is_bounded: bool = False


def _with_servers(variant: Variant) -> Measure:
    return step_of(variant, steps.SERVERS)


CURVES: dict[str, Curve] = {
    "null step": Curve(step_of(steps.no_ops, 0), (1, 10, 100, 1000, 4000), is_bounded=True),
    f"scalar, {steps.SERVERS} ps": Curve(_with_servers(steps.scalar), (1, 10, 100, 1000)),
    f"sparse, {steps.PICKED} rows of {steps.WIDTH}, {steps.SERVERS} ps": Curve(
        _with_servers(steps.sparse), (1, 10, 64)
    ),
    f"dense, 1 MiB a parameter, {steps.SERVERS} ps": Curve(_with_servers(steps.large), (1, 10, 64)),
    "all-reduce of 1 MiB, ring": Curve(step_of(steps.ring, 0), (2, 10, 64)),
    f"all-reduce of 1 MiB, hosts of {steps.HOST}": Curve(step_of(steps.hierarchical, 0), (16, 64, 128)),
    "a new session and its first step": Curve(creation, (1, 10, 100, 1000)),
    "the error after the loss of a worker": Curve(failure, (2, 10, 100, 1000)),
}


async def rows() -> AsyncIterator[Row]:
    """Measure on the simulated network, then with processes."""
    yield costs_row(await measured())
    found = {}
    for name, curve in CURVES.items():
        found[name] = await asyncio.to_thread(simulated, curve)
        yield told(name, found[name], curve.is_bounded)
    draw(found)
    async with clusters({"ps": REAL_SERVERS, "worker": REAL[-1]}) as targets:
        for name in VARIANTS:
            yield await with_processes(targets, name)


# Simulated


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


def simulated(curve: Curve) -> dict[int, Simulated]:
    """Simulate the work with more and more workers."""
    return {workers: simulate(curve.measure, workers) for workers in curve.workers}


def told(name: str, found: dict[int, Simulated], is_bounded: bool) -> Row:
    """Return the growth on the simulated network."""
    fewest = min(found)
    figures = {
        f"{workers} workers": f"{span(one.seconds):>9} ({one.seconds / found[fewest].seconds:.2f}x), "
        f"{one.messages:.0f} frames, {span(one.work)} of the processor"
        for workers, one in found.items()
    }
    claims = bounds(found) if is_bounded else []
    title = f"by workers, simulated: {LATENCY * 1e6:.0f} us, {BANDWIDTH / 1e9:g} GB/s a channel; {name}"
    return Row(title, figures, claims)


def bounds(found: dict[int, Simulated]) -> list[Claim]:
    """Return how far the time stays below its bounds: the logarithm, and three times that of ten workers."""
    logs = [
        Claim(f"time, {workers} workers / 1", one.seconds / found[1].seconds, 1 + math.log2(workers))
        for workers, one in found.items()
        if workers > 1
    ]
    return [*logs, Claim("time, 1000 workers / 10", found[1000].seconds / found[10].seconds, 3)]


PAPER = {"the paper, scalar, 16 ps": {1: 1.8e-3, 100: 8.8e-3}}
"""Figure 6: seconds of a step, by workers."""
PICTURE = Path("build/cluster_growth.png")


def draw(curves: Mapping[str, Mapping[int, Simulated]]) -> None:
    """Draw the times by the number of workers, both by their logarithms."""
    matplotlib = importlib.import_module("matplotlib.figure")
    figure = matplotlib.Figure(figsize=(8, 5))
    axes = figure.add_subplot(xscale="log", yscale="log", xlabel="workers", ylabel="seconds")
    for name, found in curves.items():
        axes.plot(list(found), [one.seconds for one in found.values()], marker="o", label=name)
    for name, points in PAPER.items():
        axes.plot(list(points), list(points.values()), marker="x", linestyle="--", label=name)
    axes.legend()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE)


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
    title = f"null step by workers, processes: {name}" + ("" if variant is steps.no_ops else f", {REAL_SERVERS} ps")
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
