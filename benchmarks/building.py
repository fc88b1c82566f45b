"""Building graphs: time per op beside TensorFlow's, and the growth of building and planning to 1,000,000 nodes.

And how long the first run of a large graph, which is planned on a thread, holds the event loop at a time.
"""

import asyncio
import contextlib
import gc
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import numpy as np

from benchmarks import peers
from benchmarks.harness import Step, Timing, alternate, freeze, percentile
from benchmarks.lag import beat
from benchmarks.report import Claim, Row, span

LAYERS = 333
SIZES = (10_000, 100_000, 1_000_000)
HELD_NODES, LONGEST_HOLD = 20_000, 5
"""Nodes of a graph whose first run is watched, and the milliseconds for which it may hold the loop."""
LINEAR = 1.2
"""The largest exponent of the number of nodes in the time: 1 is linear, 2 quadratic; caches and the collector add."""


async def rows() -> AsyncIterator[Row]:
    """Measure the time per op, how long planning holds the loop, and the time per node as the graph grows."""
    yield per_op(await alternate({peers.AIOFLOW: aioflow(), peers.TENSORFLOW: tensorflow()}, rounds=9))
    yield await holding()
    yield growth([await grow(nodes) for nodes in SIZES])


def exponent(smallest: float, largest: float) -> float:
    """Return the exponent of the number of nodes in the total time, from the time per node at both ends."""
    return 1 + math.log(largest / smallest) / math.log(SIZES[-1] / SIZES[0])


def growth(costs: list["Cost"]) -> Row:
    """Return the row of the time per node at each size: constant, if building and planning are linear."""
    figures = {f"{nodes:,} nodes": str(cost) for nodes, cost in zip(SIZES, costs, strict=True)}
    claims = [
        Claim("build, time as a power of nodes", exponent(costs[0].build, costs[-1].build), LINEAR),
        Claim("plan, time as a power of nodes", exponent(costs[0].plan, costs[-1].plan), LINEAR),
    ]
    return Row("aioflow, a growing chain, per node", figures, claims)


def per_op(timing: Timing) -> Row:
    """Measure the time per op: matmul, add and relu in turn, with shape inference and the user's line."""
    figures = {side: f"{span((timing.seconds(side) or 0) / (3 * LAYERS))} per op" for side in timing.rounds}
    claim = Claim("aioflow / TensorFlow", timing.ratio(peers.AIOFLOW, peers.TENSORFLOW), 0.5)
    return Row(f"building a graph of {3 * LAYERS} ops", figures | timing.missing, [claim])


@asynccontextmanager
async def aioflow() -> AsyncIterator[Step]:
    """Yield a step that builds a graph of `LAYERS` layers without variables."""
    af = peers.aioflow()

    def step() -> None:
        with af.Graph().as_default():
            layers(af.placeholder(af.float32, [None, 16]), af.constant(np.eye(16, dtype=np.float32)), af)

    yield step


@asynccontextmanager
async def tensorflow() -> AsyncIterator[Step]:
    """Yield the same step in TensorFlow."""
    tf = peers.tensorflow()

    def step() -> None:
        with tf.Graph().as_default():
            layers(tf.placeholder(tf.float32, [None, 16]), tf.constant(np.eye(16, dtype=np.float32)), tf)

    yield step


def layers(hidden: Any, weights: Any, module: Any) -> Any:
    """Build three ops per layer, with the same code on both sides."""
    for _ in range(LAYERS):
        hidden = module.nn.relu(module.add(module.matmul(hidden, weights), hidden))
    return hidden


class Cost(NamedTuple):
    """Return seconds per node: to build, to plan (the first run less the second), to run."""

    build: float
    plan: float
    run: float

    def __str__(self) -> str:
        return f"build {span(self.build)}, plan {span(self.plan)}, run {span(self.run)}"


async def grow(nodes: int) -> Cost:
    """Measure the cost per node of a chain of scalar ops."""
    af = peers.aioflow()
    freeze()
    begin = time.perf_counter()
    graph, fed, x = chain(af, nodes)
    built = time.perf_counter() - begin
    async with af.Session(graph=graph) as session:
        call = session.make_callable(x, feeds=[fed])
        first, second = [await seconds(call) for _ in range(2)]
    del graph, fed, x, session, call
    gc.collect()
    return Cost(built / nodes, (first - second) / nodes, second / nodes)


def chain(af: Any, nodes: int) -> tuple[Any, Any, Any]:
    """Return a graph of scalar ops one after the other, its placeholder, and the last tensor."""
    graph = af.Graph()
    with graph.as_default():
        fed = x = af.placeholder(af.float32, [])
        for _ in range(nodes // 2):
            x = af.tanh(af.add(x, fed))
    return graph, fed, x


async def holding() -> Row:
    """Measure the delays of a timer during the first run of a large graph."""
    af = peers.aioflow()
    graph, fed, x = chain(af, HELD_NODES)
    late: list[float] = []
    async with af.Session(graph=graph) as session:
        call = session.make_callable(x, feeds=[fed])
        heart = asyncio.create_task(beat(late))
        await call(np.float32(0.5))
        heart.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await heart
    longest = max(late)
    figures = {peers.AIOFLOW: f"longest {span(longest)}   p99 {span(percentile(late, 0.99))}"}
    claim = Claim("longest hold", longest * 1e3, LONGEST_HOLD, unit=" ms")
    return Row(f"how long the first run of {HELD_NODES:,} nodes holds the loop", figures, [claim])


async def seconds(call: Step) -> float:
    """Return the duration of one call."""
    begin = time.perf_counter()
    await call(np.float32(0.5))
    return time.perf_counter() - begin
