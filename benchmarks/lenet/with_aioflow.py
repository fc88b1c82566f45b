"""The net in aioflow: a graph, a session, a callable."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from benchmarks import peers
from benchmarks.harness import Step
from benchmarks.lenet import Problem, summary


@asynccontextmanager
async def training(problem: Problem) -> AsyncIterator[Step]:
    """Yield a step that trains once on the batch and returns its loss."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        images, logits = model(problem)
        labels = af.placeholder(af.int32, [None], name="labels")
        loss = af.reduce_mean(af.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        train = af.train.GradientDescentOptimizer(problem.rate).minimize(loss)
        init = af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(init)
        call = session.make_callable([loss, train], feeds=[images, labels])

        async def step() -> Any:
            value, _ = await call(problem.images, problem.labels)
            return value

        yield step


@asynccontextmanager
async def inference(problem: Problem) -> AsyncIterator[Step]:
    """Yield a step that computes the logits of the batch."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        images, logits = model(problem)
        init = af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(init)
        call = session.make_callable(logits, feeds=[images])

        async def step() -> float:
            return summary(await call(problem.images))

        yield step


def model(problem: Problem) -> tuple[Any, Any]:
    """Build the placeholder for images and the logits, in the current graph."""
    af = peers.aioflow()
    images = hidden = af.placeholder(af.float32, [None, *problem.images.shape[1:]], name="images")
    *convolutions, first, last = ((af.Variable(weights), af.Variable(bias)) for weights, bias in problem.layers())
    for filters, bias in convolutions:
        hidden = af.nn.relu(af.nn.conv2d(hidden, filters, strides=1, padding="SAME") + bias)
        hidden = af.nn.max_pool(hidden, ksize=2, strides=2, padding="SAME")
    weights, bias = first
    hidden = af.nn.relu(af.matmul(af.reshape(hidden, [-1, weights.shape[0]]), weights) + bias)
    weights, bias = last
    return images, af.matmul(hidden, weights) + bias
