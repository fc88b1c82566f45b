"""The cost of a step that computes nothing: `await session.run(no_op)`, and a callable with one scalar fed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from benchmarks import peers
from benchmarks.harness import Step, alternate
from benchmarks.report import Claim, Row, timed_row

RUN, FEED = "null step", "callable with one scalar fed, fetching it plus one"
TENSORFLOW_RUN = "TensorFlow run()"


async def rows() -> AsyncIterator[Row]:
    """Measure the two steps."""
    null = await alternate(
        {peers.AIOFLOW: aioflow_run(), peers.TENSORFLOW: tensorflow_callable(), TENSORFLOW_RUN: tensorflow_run()}
    )
    half = Claim("aioflow run() / TensorFlow make_callable", null.ratio(peers.AIOFLOW, peers.TENSORFLOW), 0.5)
    yield timed_row(RUN, null, [half], [f"aioflow and {TENSORFLOW_RUN}: session.run(no_op); TensorFlow: make_callable"])
    feed = await alternate({peers.AIOFLOW: aioflow_feed(), peers.TENSORFLOW: tensorflow_feed()}, agree=1e-6)
    fifth = Claim("aioflow / TensorFlow", feed.ratio(peers.AIOFLOW, peers.TENSORFLOW), 0.2)
    yield timed_row(FEED, feed, [fifth])


@asynccontextmanager
async def aioflow_run() -> AsyncIterator[Step]:
    """Call `session.run` of a no_op."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        nothing = af.no_op()
    async with af.Session(graph=graph) as session:
        run = session.run

        async def step() -> Any:
            return await run(nothing)

        yield step


@asynccontextmanager
async def aioflow_feed() -> AsyncIterator[Step]:
    """Call a callable that adds one to the fed scalar."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        fed = af.placeholder(af.float32, [])
        result = fed + 1.0
    async with af.Session(graph=graph) as session:
        call = session.make_callable(result, feeds=[fed])

        async def step() -> Any:
            return await call(2.0)

        yield step


@asynccontextmanager
async def tensorflow_callable() -> AsyncIterator[Step]:
    """Call `make_callable` of a no_op: TensorFlow's shortest way into its runtime."""
    tf = peers.tensorflow()
    with tf.Graph().as_default(), tf.Session() as session:
        yield session.make_callable(tf.no_op())


@asynccontextmanager
async def tensorflow_run() -> AsyncIterator[Step]:
    """Call `session.run` of a no_op."""
    tf = peers.tensorflow()
    with tf.Graph().as_default(), tf.Session() as session:
        run, nothing = session.run, tf.no_op()
        yield lambda: run(nothing)


@asynccontextmanager
async def tensorflow_feed() -> AsyncIterator[Step]:
    """Call a callable that adds one to the fed scalar."""
    tf = peers.tensorflow()
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(tf.float32, [])
        call = session.make_callable(fed + 1.0, feed_list=[fed])
        yield lambda: call(2.0)
