"""The MLP in aioflow: a graph, a session, a callable."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from benchmarks import peers
from benchmarks.harness import Step
from benchmarks.mlp import Problem


class Training(NamedTuple):
    """A training graph and its operations."""

    graph: Any
    init: Any
    fetches: list[Any]
    feeds: list[Any]


@asynccontextmanager
async def training(problem: Problem) -> AsyncIterator[Step]:
    """Yield a step that trains once on the batch and returns its loss."""
    async with stepping(problem, training_graph(problem)) as step:
        yield step


def training_graph(problem: Problem) -> Training:
    """Build the MLP with its loss and its optimizer."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        images, logits = model(problem)
        labels = af.placeholder(af.int32, [None], name="labels")
        loss = af.reduce_mean(af.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        train = af.train.GradientDescentOptimizer(problem.rate).minimize(loss)
        return Training(graph, af.global_variables_initializer(), [loss, train], [images, labels])


@asynccontextmanager
async def stepping(problem: Problem, model: Training) -> AsyncIterator[Step]:
    """Yield a session with initialised variables, and its training step."""
    af = peers.aioflow()
    async with af.Session(graph=model.graph) as session:
        await session.run(model.init)
        call = session.make_callable(model.fetches, feeds=model.feeds)

        async def step() -> Any:
            value, _ = await call(problem.images, problem.labels)
            return value

        yield step


@asynccontextmanager
async def inference(problem: Problem) -> AsyncIterator[Step]:
    """Yield a coroutine function from images to logits."""
    async with session(problem) as (opened, images, logits):
        yield opened.make_callable(logits, feeds=[images])


@asynccontextmanager
async def session(problem: Problem) -> AsyncIterator[tuple[Any, Any, Any]]:
    """Yield a session with initialised variables, the placeholder for images, and the logits."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        images, logits = model(problem)
        init = af.global_variables_initializer()
    async with af.Session(graph=graph) as opened:
        await opened.run(init)
        yield opened, images, logits


def model(problem: Problem) -> tuple[Any, Any]:
    """Build the placeholder for images and the logits, in the current graph."""
    af = peers.aioflow()
    images = hidden = af.placeholder(af.float32, [None, problem.sizes[0]], name="images")
    for layer, (weights, bias) in enumerate(problem.weights()):
        hidden = af.nn.relu(hidden) if layer else hidden
        hidden = af.matmul(hidden, af.Variable(weights, name=f"weights_{layer}"))
        hidden = hidden + af.Variable(bias, name=f"bias_{layer}")
    return images, hidden
