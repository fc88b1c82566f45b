"""A while_loop of three scalar ops per iteration, forward and with its gradient.

The loop counts to n, which is fed, and scales a float in each iteration. The gradients are by the first value of the
float and by its scale, a tensor of the surrounding graph. TensorFlow runs its v1 loop of Switch, Merge and
NextIteration. JAX runs lax.while_loop, and for the gradient, which that has not, lax.scan of the same number of
iterations. Python with NumPy's scalars, which saves every value for the gradient, shows the floor.
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
        {
            peers.AIOFLOW: aioflow("result"),
            peers.TENSORFLOW: tensorflow("result"),
            peers.JAX: jax(jax_last),
            PYTHON: by_hand(last),
        },
        agree=1e-4,
    )
    yield per_iteration("while_loop", forward, claims(forward, 8))
    backward = await alternate(
        {
            peers.AIOFLOW: aioflow("gradients"),
            peers.TENSORFLOW: tensorflow("gradients"),
            peers.JAX: jax(jax_sum_of_gradients),
            PYTHON: by_hand(sum_of_gradients),
        },
        agree=1e-4,
    )
    yield per_iteration("while_loop with gradient", backward, claims(backward, 15))


def claims(timing: Timing, most: float) -> list[Claim]:
    """Return the claims against TensorFlow and JAX, and how far from the floor it is."""
    return [
        Claim("TensorFlow / aioflow", timing.ratio(peers.TENSORFLOW, peers.AIOFLOW), 2, at_least=True),
        Claim("aioflow / jax.jit", timing.ratio(peers.AIOFLOW, peers.JAX), most),
        Claim("aioflow / Python over NumPy scalars", timing.ratio(peers.AIOFLOW, PYTHON), 1.2),
    ]


def per_iteration(title: str, timing: Timing, claims: list[Claim]) -> Row:
    """Return a row of times per iteration."""
    rounds = {side: [seconds / ITERATIONS for seconds in times] for side, times in timing.rounds.items()}
    return timed_row(f"{title}, per iteration ({OPS})", Timing(rounds, timing.missing), claims)


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
async def jax(function: Any) -> AsyncIterator[Step]:
    """Yield a step that calls the jitted function."""
    call = peers.jax().jit(function)
    yield lambda: call(*FEEDS).block_until_ready()


def jax_last(end: Any, start: Any, scale: Any) -> Any:
    """Return the last x."""
    lax = peers.jax().lax
    _, x = lax.while_loop(lambda v: v[0] < end, lambda v: (v[0] + 1, v[1] * scale), (np.int32(0), start))
    return x


def jax_sum_of_gradients(end: Any, start: Any, scale: Any) -> Any:
    """Return the sum of the gradients by `start` and by `scale`."""
    module = peers.jax()

    def scanned(start: Any, scale: Any) -> Any:
        return module.lax.scan(lambda x, _: (x * scale, None), start, length=ITERATIONS)[0]

    return sum(module.grad(scanned, (0, 1))(start, scale))


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
