"""The same graph, built and run by each side on its cluster."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from benchmarks import peers
from benchmarks.cluster_processes import Targets
from benchmarks.harness import Side, Step


class Built(NamedTuple):
    """The fetches and feeds of a run, and the operation to run once before."""

    fetches: Any
    feeds: Sequence[Any] = ()
    values: Sequence[Any] = ()
    init: Any = None


Build = Callable[[Any], Built]
"""Builds it in the default graph of the given module, aioflow or TensorFlow."""


def both(targets: Targets, build: Build) -> Mapping[str, Side]:
    """Build both sides.

    TensorFlow's comes first, since building it blocks the loop for seconds, and a silent client counts as lost.
    """
    return {peers.TENSORFLOW: with_tensorflow(targets, build), peers.AIOFLOW: with_aioflow(targets, build)}


@asynccontextmanager
async def with_aioflow(targets: Targets, build: Build) -> AsyncIterator[Step]:
    """Yield a callable of a session at the master."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        built = build(af)
    async with af.Session(targets.of(peers.AIOFLOW), graph=graph) as session:
        if built.init is not None:
            await session.run(built.init)
        call = session.make_callable(built.fetches, feeds=built.feeds)

        async def step() -> Any:
            return await call(*built.values)

        yield step


@asynccontextmanager
async def with_tensorflow(targets: Targets, build: Build) -> AsyncIterator[Step]:
    """Yield the same for TensorFlow."""
    target, tf = targets.of(peers.TENSORFLOW), peers.tensorflow()
    with tf.Graph().as_default() as graph:
        built = build(tf)
    with tf.Session(target, graph=graph) as session:
        if built.init is not None:
            session.run(built.init)
        call = session.make_callable(built.fetches, feed_list=list(built.feeds))
        yield lambda: call(*built.values)
