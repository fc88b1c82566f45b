"""Several CPU devices in one session: the cost of an edge between two of them, and the gain of two parallel branches.

BLAS has one thread in the second row: `Config(blas_threads=1)` is a setting of the process and holds for NumPy too.
The gain of two threads in NumPy is the most that the machine can give.
"""

import asyncio
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import Step, Timing, alternate
from benchmarks.report import Claim, Row, timed_row

FIRST, SECOND = "/cpu:0", "/cpu:1"
APART, TENSORFLOW_APART = "aioflow, two devices", "TensorFlow, two"
NUMPY_APART = "NumPy, two threads"
MICROSECONDS = 1e6
SIZE, PRODUCTS = 640, 4
"""Products of square matrices in a branch, and their size: about 50 ms on one core."""
MATRICES = np.random.default_rng(1).standard_normal((2, SIZE, SIZE)) / np.sqrt(SIZE)


async def rows() -> AsyncIterator[Row]:
    """Measure the edge and the branches."""
    edge = await alternate(
        {
            peers.AIOFLOW: aioflow_edge(FIRST),
            APART: aioflow_edge(SECOND),
            peers.TENSORFLOW: tensorflow_edge(FIRST),
            TENSORFLOW_APART: tensorflow_edge(SECOND),
        },
        agree=1e-6,
    )
    claims = [
        Claim("two devices - one", more(edge, APART, peers.AIOFLOW), 40, unit=" us"),
        Claim("aioflow / TensorFlow, two devices", edge.ratio(APART, TENSORFLOW_APART), 1),
    ]
    yield timed_row("callable with one scalar fed, and an edge from device to device", edge, claims)
    branches = await alternate(
        {
            peers.AIOFLOW: aioflow_branches(FIRST),
            APART: aioflow_branches(SECOND),
            peers.NUMPY: numpy_branches(at_once=False),
            NUMPY_APART: numpy_branches(at_once=True),
            peers.TENSORFLOW: tensorflow_branches(FIRST),
            TENSORFLOW_APART: tensorflow_branches(SECOND),
        },
        rounds=9,
        agree=1e-6,
    )
    gain = Claim("one device / two devices", branches.ratio(peers.AIOFLOW, APART), 1.7, at_least=True)
    possible = branches.ratio(peers.NUMPY, NUMPY_APART)
    notes = [] if possible is None else [f"with two threads NumPy gains {possible:.2f}x, the most possible here"]
    notes.append("TensorFlow chooses its own threads, and shares out each product")
    yield timed_row(f"two branches of {PRODUCTS} products of {SIZE}x{SIZE}, float64", branches, [gain], notes)


def more(timing: Timing, above: str, below: str) -> float | None:
    """Return the median over rounds of the microseconds that one side takes more than another."""
    if above not in timing.rounds or below not in timing.rounds:
        return None
    pairs = zip(timing.rounds[above], timing.rounds[below], strict=True)
    return statistics.median(a - b for a, b in pairs) * MICROSECONDS


def total(results: Any) -> float:
    """Return the value that sides compare."""
    return float(sum(results))


# An edge


@asynccontextmanager
async def aioflow_edge(place: str) -> AsyncIterator[Step]:
    """Yield a callable that adds one to the fed scalar on the first device and doubles it on another."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        fed = af.placeholder(af.float32, [])
        with af.device(FIRST):
            added = fed + 1.0
        with af.device(place):
            result = added * 2.0
    async with af.Session(graph=graph, config=af.Config(device_count={"CPU": 2})) as session:
        call = session.make_callable(result, feeds=[fed])

        async def step() -> Any:
            return await call(2.0)

        yield step


@asynccontextmanager
async def tensorflow_edge(place: str) -> AsyncIterator[Step]:
    """Yield the same in TensorFlow."""
    tf = peers.tensorflow()
    config = tf.ConfigProto(device_count={"CPU": 2})
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        fed = tf.placeholder(tf.float32, [])
        with tf.device(FIRST):
            added = fed + 1.0
        with tf.device(place):
            result = added * 2.0
        call = session.make_callable(result, feed_list=[fed])
        yield lambda: call(2.0)


# Two branches


@asynccontextmanager
async def aioflow_branches(place: str) -> AsyncIterator[Step]:
    """Multiply one matrix on the first device, the other one on another device."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        fed, results = [], []
        for device in (FIRST, place):
            with af.device(device):
                fed.append(af.placeholder(af.float64, [SIZE, SIZE]))
                product = fed[-1]
                for _ in range(PRODUCTS):
                    product = af.matmul(product, fed[-1])
                results.append(af.reduce_sum(product))
    config = af.Config(device_count={"CPU": 2}, blas_threads=1)
    async with af.Session(graph=graph, config=config) as session:
        call = session.make_callable(results, feeds=fed)

        async def step() -> Any:
            return total(await call(*MATRICES))

        yield step


@asynccontextmanager
async def numpy_branches(at_once: bool) -> AsyncIterator[Step]:
    """Do the same in NumPy, one branch after the other or each on a thread."""

    def branch(matrix: Any) -> Any:
        product = matrix
        for _ in range(PRODUCTS):
            product = product @ matrix
        return product.sum()

    async def step() -> Any:
        if at_once:
            return total(await asyncio.gather(*[asyncio.to_thread(branch, matrix) for matrix in MATRICES]))
        return total([branch(matrix) for matrix in MATRICES])

    yield step


@asynccontextmanager
async def tensorflow_branches(place: str) -> AsyncIterator[Step]:
    """Do the same in TensorFlow, whose number of threads is set for the process by its first session."""
    tf = peers.tensorflow()
    config = tf.ConfigProto(device_count={"CPU": 2})
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        fed, results = [], []
        for device in (FIRST, place):
            with tf.device(device):
                fed.append(tf.placeholder(tf.float64, [SIZE, SIZE]))
                product = fed[-1]
                for _ in range(PRODUCTS):
                    product = tf.matmul(product, fed[-1])
                results.append(tf.reduce_sum(product))
        call = session.make_callable(results, feed_list=fed)
        yield lambda: total(call(*MATRICES))
