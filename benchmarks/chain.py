"""A chain of 1,000 scalar ops, each waiting for the one before: the engine's cost on top of each NumPy call."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import Step, alternate
from benchmarks.report import Claim, Row, timed_row

OPS = 1000
SHIFT, SCALE = np.float32(0.5), np.float32(0.9)
START = np.float32(0.25)
ARRAYS = "NumPy, 0-d out="
SCALARS = "Python, NumPy scalars"


async def rows() -> AsyncIterator[Row]:
    """Measure the chain."""
    sides = {
        peers.AIOFLOW: aioflow(),
        peers.NUMPY: by_hand(),
        ARRAYS: by_hand_in_place(),
        SCALARS: with_operators(),
        peers.TENSORFLOW: tensorflow(),
        peers.JAX: jax(),
    }
    timing = await alternate(sides, agree=1e-5)
    claims = [
        Claim("aioflow / NumPy by hand", timing.ratio(peers.AIOFLOW, peers.NUMPY), 1.5),
        Claim("TensorFlow / aioflow", timing.ratio(peers.TENSORFLOW, peers.AIOFLOW), 2, at_least=True),
        Claim("aioflow / jax.jit", timing.ratio(peers.AIOFLOW, peers.JAX), 3.5),
        Claim("aioflow / Python over NumPy scalars", timing.ratio(peers.AIOFLOW, SCALARS), 1.2),
    ]
    yield timed_row(f"chain of {OPS} scalar ops (add, multiply, negative, tanh)", timing, claims)


@asynccontextmanager
async def aioflow() -> AsyncIterator[Step]:
    """Run the chain as a graph, its start fed."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        fed = x = af.placeholder(af.float32, [])
        for _ in range(OPS // 4):
            x = af.tanh(af.negative(af.multiply(af.add(x, SHIFT), SCALE)))
    async with af.Session(graph=graph) as session:
        call = session.make_callable(x, feeds=[fed])

        async def step() -> Any:
            return await call(START)

        yield step


@asynccontextmanager
async def tensorflow() -> AsyncIterator[Step]:
    """Run the same graph in TensorFlow."""
    tf = peers.tensorflow()
    with tf.Graph().as_default(), tf.Session() as session:
        fed = x = tf.placeholder(tf.float32, [])
        for _ in range(OPS // 4):
            x = tf.tanh(tf.negative(tf.multiply(tf.add(x, SHIFT), SCALE)))
        call = session.make_callable(x, feed_list=[fed])
        yield lambda: call(START)


@asynccontextmanager
async def by_hand() -> AsyncIterator[Step]:
    """Make the same calls in a loop, on NumPy scalars."""

    def step() -> Any:
        x = START
        for _ in range(OPS // 4):
            x = np.tanh(np.negative(np.multiply(np.add(x, SHIFT), SCALE)))
        return x

    yield step


@asynccontextmanager
async def with_operators() -> AsyncIterator[Step]:
    """Compute the same with Python's operators of NumPy scalars."""

    def step() -> Any:
        x = START
        for _ in range(OPS // 4):
            x = np.tanh(-((x + SHIFT) * SCALE))
        return x

    yield step


@asynccontextmanager
async def jax() -> AsyncIterator[Step]:
    """Run the chain as one compiled function."""
    module = peers.jax()

    def chain(x: Any) -> Any:
        for _ in range(OPS // 4):
            x = module.numpy.tanh(-((x + SHIFT) * SCALE))
        return x

    call = module.jit(chain)
    yield lambda: call(START).block_until_ready()


@asynccontextmanager
async def by_hand_in_place() -> AsyncIterator[Step]:
    """Make the same calls in a loop, writing into one 0-d array: the floor of NumPy."""
    shift, scale = np.asarray(SHIFT), np.asarray(SCALE)

    def step() -> Any:
        x = np.array(START)
        for _ in range(OPS // 4):
            np.add(x, shift, out=x)
            np.multiply(x, scale, out=x)
            np.negative(x, out=x)
            np.tanh(x, out=x)
        return x

    yield step
