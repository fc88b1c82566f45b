"""Training steps of one graph in aioflow and in TensorFlow, which build it by the same names."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from benchmarks import peers
from benchmarks.harness import Step

Build = Callable[[Any], tuple[Any, Any, Any]]
"""(module) -> the placeholder, the loss and the training operation, built in the current graph."""


@asynccontextmanager
async def aioflow(build: Build, value: Any) -> AsyncIterator[Step]:
    """Yield a step that trains once on `value` and returns its loss."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        placeholder, loss, train = build(af)
        init = af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(init)
        call = session.make_callable([loss, train], feeds=[placeholder])

        async def step() -> Any:
            result, _ = await call(value)
            return result

        yield step


@asynccontextmanager
async def tensorflow(build: Build, value: Any) -> AsyncIterator[Step]:
    """Yield the same step in TensorFlow."""
    tf = peers.tensorflow()
    with tf.Graph().as_default(), tf.Session() as session:
        placeholder, loss, train = build(tf)
        session.run(tf.global_variables_initializer())
        call = session.make_callable([loss, train], feed_list=[placeholder])

        def step() -> Any:
            result, _ = call(value)
            return result

        yield step
