"""A while_loop of three scalar ops per iteration, forward and with its gradient.

The loop counts to n, which is fed, and scales a float in each iteration. The gradients are by the first value of the
float and by its scale, a tensor of the surrounding graph. TensorFlow runs its v1 loop of Switch, Merge and
NextIteration. Python with NumPy's scalars, which saves every value for the gradient, shows the floor.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import numpy as np

from benchmarks import peers
from benchmarks.harness import Step, Timing, alternate
from benchmarks.report import Claim, Row, timed_row

ITERATIONS = 1000
FEEDS = (np.int32(ITERATIONS), np.float32(2), np.float32(0.999))
OPS = "less, add, multiply"
PYTHON = "Python, NumPy scalars"


class Loop(NamedTuple):
    """A loop in a graph: its feed, its result, and the sum of the result's gradients."""

    feeds: list[Any]
    result: Any
    gradients: Any


async def rows() -> AsyncIterator[Row]:
    """Measure the loop, and the loop with its gradient."""
    forward = await alternate(
        {peers.AIOFLOW: aioflow("result"), peers.TENSORFLOW: tensorflow("result"), PYTHON: by_hand(last)}, agree=1e-4
    )
    claim = Claim("aioflow / TensorFlow", forward.ratio(peers.AIOFLOW, peers.TENSORFLOW), 1)
    yield per_iteration("while_loop", forward, claim)
    backward = await alternate(
        {
            peers.AIOFLOW: aioflow("gradients"),
            peers.TENSORFLOW: tensorflow("gradients"),
            PYTHON: by_hand(sum_of_gradients),
        },
        agree=1e-4,
    )
    claim = Claim("TensorFlow / aioflow", backward.ratio(peers.TENSORFLOW, peers.AIOFLOW), 3, at_least=True)
    yield per_iteration("while_loop with gradient", backward, claim)


def per_iteration(title: str, timing: Timing, claim: Claim) -> Row:
    """Return a row of times per iteration."""
    rounds = {side: [seconds / ITERATIONS for seconds in times] for side, times in timing.rounds.items()}
    return timed_row(f"{title}, per iteration ({OPS})", Timing(rounds, timing.missing), [claim])


def loop(module: Any) -> Loop:
    """Build the loop in the current graph, with the same code in aioflow and TensorFlow."""
    end = module.placeholder(module.int32, [])
    start, scale = (module.placeholder(module.float32, []) for _ in range(2))
    _, result = module.while_loop(lambda i, x: i < end, lambda i, x: (i + 1, x * scale), [module.constant(0), start])
    by_start, by_scale = module.gradients(result, [start, scale])
    return Loop([end, start, scale], result, by_start + by_scale)


@asynccontextmanager
async def aioflow(fetch: str) -> AsyncIterator[Step]:
    """Yield a step that runs the loop."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        built = loop(af)
    async with af.Session(graph=graph) as session:
        call = session.make_callable(getattr(built, fetch), feeds=built.feeds)

        async def step() -> Any:
            return await call(*FEEDS)

        yield step


@asynccontextmanager
async def tensorflow(fetch: str) -> AsyncIterator[Step]:
    """Yield a step that runs the loop."""
    tf = peers.tensorflow()
    with tf.Graph().as_default(), tf.Session() as session:
        built = loop(tf)
        call = session.make_callable(getattr(built, fetch), feed_list=built.feeds)
        yield lambda: call(*FEEDS)


@asynccontextmanager
async def by_hand(function: Any) -> AsyncIterator[Step]:
    """Yield a step that calls the function."""
    yield lambda: function(*FEEDS)


def last(end: Any, start: Any, scale: Any) -> Any:
    """Return the last x."""
    i, x, one = np.int32(0), start, np.int32(1)
    while i < end:
        i, x = i + one, x * scale
    return x


def sum_of_gradients(end: Any, start: Any, scale: Any) -> Any:
    """Return the sum of the gradients by `start` and by `scale`."""
    i, x, one = np.int32(0), start, np.int32(1)
    passed = []
    while i < end:
        passed.append(x)
        i, x = i + one, x * scale
    by_x, by_scale = np.float32(1), np.float32(0)
    while passed:
        by_scale = by_scale + by_x * passed.pop()
        by_x = by_x * scale
    return by_x + by_scale
