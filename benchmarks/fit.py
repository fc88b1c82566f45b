"""`fit` beside the same loop written by hand over a callable of the session: what it costs more.

Both shuffle the rows in each epoch, train on batches of them, and take the mean of the losses. The net is small, so
that the cost of the loop itself shows.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import Step, alternate
from benchmarks.mlp import Problem
from benchmarks.mlp.with_aioflow import training_graph
from benchmarks.report import Claim, Row, timed_row

BATCHES, EPOCHS = 100, 4
BY_HAND = "a loop by hand"
PROBLEM = Problem((64, 32, 10), 32)


async def rows() -> AsyncIterator[Row]:
    """Measure epochs of a small MLP."""
    sides = {peers.AIOFLOW: fitted(PROBLEM), BY_HAND: by_hand(PROBLEM)}
    timing = await alternate(sides, rounds=21)
    claim = Claim("fit / a loop by hand", timing.ratio(peers.AIOFLOW, BY_HAND), 1.05)
    yield timed_row(f"{PROBLEM}, {EPOCHS} epochs of {BATCHES} batches by fit", timing, [claim])


def data(problem: Problem) -> tuple[Any, Any]:
    """Return the rows of an epoch and their classes."""
    return np.tile(problem.images, (BATCHES, 1)), np.tile(problem.labels, BATCHES)


@asynccontextmanager
async def fitted(problem: Problem) -> AsyncIterator[Step]:
    """Yield epochs of `fit`, which return the last loss."""
    af = peers.aioflow()
    images, labels = data(problem)
    with af.Graph().as_default():
        inputs, *hidden, classes = problem.sizes
        line = [af.layers.Dense(size, "relu") for size in hidden]
        model = af.Sequential([af.layers.Input([inputs]), *line, af.layers.Dense(classes)])
    optimizer = af.train.GradientDescentOptimizer(problem.rate)
    model.compile(optimizer, af.losses.SparseCategoricalCrossentropy(from_logits=True))

    async def train() -> Any:
        history = await model.fit(images, labels, problem.batch, EPOCHS, verbose=0)
        return history.history["loss"][-1]

    async with model:
        await model.predict(images[:1])
        await model.set_weights([each for pair in problem.weights() for each in pair])
        yield train


@asynccontextmanager
async def by_hand(problem: Problem) -> AsyncIterator[Step]:
    """Yield epochs of a loop over a callable, which return the last loss."""
    af = peers.aioflow()
    images, labels = data(problem)
    made, random = training_graph(problem), np.random.default_rng()

    async with af.Session(graph=made.graph) as session:
        await session.run(made.init)
        step = session.make_callable(made.fetches, feeds=made.feeds)

        async def train() -> Any:
            for _ in range(EPOCHS):
                order, total = random.permutation(len(images)), 0.0
                for start in range(0, len(order), problem.batch):
                    rows = order[start : start + problem.batch]
                    loss, _ = await step(images[rows], labels[rows])
                    total += float(loss) * len(rows)
            return total / len(order)

        yield train
