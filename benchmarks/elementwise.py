"""tanh(x * y + z) * sigmoid(x) over 4,000,000 floats: the gain of computing large arrays block by block.

In the graphs the three arrays are variables, so that no side pays for feeding them.
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
X, Y, Z = np.random.default_rng(1).standard_normal((3, SIZE), np.float32)


async def rows() -> AsyncIterator[Row]:
    """Measure the expression."""
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
    yield timed_row(f"tanh(x * y + z) * sigmoid(x) over {SIZE:,} floats", timing, claims)


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
