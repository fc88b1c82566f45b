"""tanh(x * y + z) * sigmoid(x) over 4,000,000 floats: the gain of computing large arrays block by block.

In the first row the three arrays are variables of the graphs, in the second they are fed: NumPy arrays come in, and one
goes out. PyTorch and JAX take the memory of NumPy's arrays as it is, if it is aligned to their wish.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import Step, alternate
from benchmarks.report import Claim, Row, timed_row

SIZE = 4_000_000
STRIDE = 4001
NOT_FUSED = "aioflow, not fused"
FAST = "aioflow, fast_math"
X, Y, Z = np.random.default_rng(1).standard_normal((3, SIZE), np.float32)


async def rows() -> AsyncIterator[Row]:
    """Measure the expression of variables, and of fed arrays."""
    yield await of_variables()
    yield await of_fed_arrays()


async def of_variables() -> Row:
    """Measure the expression of variables."""
    sides = {
        peers.AIOFLOW: aioflow(fused=True),
        NOT_FUSED: aioflow(fused=False),
        peers.NUMPY: by_hand(),
        peers.TENSORFLOW: tensorflow(),
        peers.TORCH: torch(),
    }
    timing = await alternate(sides, agree=1e-5)
    claims = [
        Claim("NumPy / aioflow", timing.ratio(peers.NUMPY, peers.AIOFLOW), 1.5, at_least=True),
        Claim("aioflow / TensorFlow", timing.ratio(peers.AIOFLOW, peers.TENSORFLOW), 1),
    ]
    return timed_row(f"tanh(x * y + z) * sigmoid(x) over {SIZE:,} floats", timing, claims)


async def of_fed_arrays() -> Row:
    """Measure the expression of NumPy arrays, with a NumPy array as the result."""
    sides = {
        peers.AIOFLOW: aioflow_fed(fast_math=False),
        FAST: aioflow_fed(fast_math=True),
        peers.JAX: jax(),
        peers.TENSORFLOW: tensorflow_fed(),
        peers.TORCH: torch(),
    }
    timing = await alternate(sides, agree=1e-4)
    claims = [
        Claim("aioflow / jax.jit", timing.ratio(peers.AIOFLOW, peers.JAX), 2.2),
        Claim(f"{FAST} / jax.jit", timing.ratio(FAST, peers.JAX), 1.4),
    ]
    return timed_row(f"tanh(x * y + z) * sigmoid(x) over {SIZE:,} floats, NumPy in and out", timing, claims)


def some(result: Any) -> float:
    """Return the value that sides compare: the sum of elements from all over the result."""
    return float(result[::STRIDE].sum())


@asynccontextmanager
async def aioflow(fused: bool) -> AsyncIterator[Step]:
    """Run the expression as a graph."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        x, y, z = (af.Variable(value) for value in (X, Y, Z))
        result = af.tanh(x * y + z) * af.sigmoid(x)
        init = af.global_variables_initializer()
    async with af.Session(graph=graph, config=af.Config(fuse_elementwise=fused)) as session:
        await session.run(init)
        call = session.make_callable(result)

        async def step() -> float:
            return some(await call())

        yield step


@asynccontextmanager
async def aioflow_fed(fast_math: bool) -> AsyncIterator[Step]:
    """Run the expression as a graph of placeholders."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        x, y, z = feeds = [af.placeholder(af.float32, [SIZE]) for _ in range(3)]
        result = af.tanh(x * y + z) * af.sigmoid(x)
    async with af.Session(graph=graph, config=af.Config(fast_math=fast_math)) as session:
        call = session.make_callable(result, feeds=feeds)

        async def step() -> float:
            return some(await call(X, Y, Z))

        yield step


@asynccontextmanager
async def jax() -> AsyncIterator[Step]:
    """Run the expression as one compiled function."""
    module = peers.jax()
    call = module.jit(lambda x, y, z: module.numpy.tanh(x * y + z) * module.nn.sigmoid(x))
    yield lambda: some(np.asarray(call(X, Y, Z)))


@asynccontextmanager
async def tensorflow_fed() -> AsyncIterator[Step]:
    """Run the expression in TensorFlow as a graph of placeholders."""
    tf = peers.tensorflow()
    with tf.Graph().as_default(), tf.Session() as session:
        x, y, z = feeds = [tf.placeholder(tf.float32, [SIZE]) for _ in range(3)]
        call = session.make_callable(tf.tanh(x * y + z) * tf.sigmoid(x), feed_list=feeds)
        yield lambda: some(call(X, Y, Z))


@asynccontextmanager
async def tensorflow() -> AsyncIterator[Step]:
    """Run the same graph in TensorFlow, without compilation."""
    tf = peers.tensorflow()
    with tf.Graph().as_default(), tf.Session() as session:
        x, y, z = (tf.Variable(value) for value in (X, Y, Z))
        call = session.make_callable(tf.tanh(x * y + z) * tf.sigmoid(x))
        session.run(tf.global_variables_initializer())
        yield lambda: some(call())


@asynccontextmanager
async def torch() -> AsyncIterator[Step]:
    """Run the same in eager PyTorch."""
    module = peers.torch()
    x, y, z = map(module.from_numpy, (X, Y, Z))

    def step() -> float:
        with module.inference_mode():
            return some(module.tanh(x * y + z) * module.sigmoid(x))

    yield step


@asynccontextmanager
async def by_hand() -> AsyncIterator[Step]:
    """Run it in plain NumPy."""
    yield lambda: some(np.tanh(X * Y + Z) * (1 / (1 + np.exp(-X))))
