"""`fit` beside the same loop written by hand over a callable of the session: what an epoch costs more.

Both shuffle the rows in each epoch, train on batches of them, and take the mean of the losses. The nets are small, so
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

BATCHES = 50
BY_HAND = "a loop by hand"
PROBLEMS = Problem((64, 32, 10), 32), Problem((784, 256, 128, 10), 128)


async def rows() -> AsyncIterator[Row]:
    """Measure epochs of a small and a medium MLP."""
    for problem in PROBLEMS:
        sides = {peers.AIOFLOW: fitted(problem), BY_HAND: by_hand(problem)}
        timing = await alternate(sides, rounds=11)
        claim = Claim("fit / a loop by hand", timing.ratio(peers.AIOFLOW, BY_HAND), 1.05)
        yield timed_row(f"{problem}, an epoch of {BATCHES} batches by fit", timing, [claim])


def data(problem: Problem) -> tuple[Any, Any]:
    """Return the rows of an epoch and their classes."""
    return np.tile(problem.images, (BATCHES, 1)), np.tile(problem.labels, BATCHES)


@asynccontextmanager
async def fitted(problem: Problem) -> AsyncIterator[Step]:
    """Yield an epoch of `fit`, which returns its loss."""
    af = peers.aioflow()
    images, labels = data(problem)
    with af.Graph().as_default():
        inputs, *hidden, classes = problem.sizes
        line = [af.layers.Dense(size, "relu") for size in hidden]
        model = af.Sequential([af.layers.Input([inputs]), *line, af.layers.Dense(classes)])
    optimizer = af.train.GradientDescentOptimizer(problem.rate)
    model.compile(optimizer, af.losses.SparseCategoricalCrossentropy(from_logits=True))

    async def epoch() -> Any:
        history = await model.fit(images, labels, problem.batch, verbose=0)
        return history.history["loss"][0]

    async with model:
        await model.predict(images[:1])
        await model.set_weights([each for pair in problem.weights() for each in pair])
        yield epoch


@asynccontextmanager
async def by_hand(problem: Problem) -> AsyncIterator[Step]:
    """Yield an epoch of a loop over a callable, which returns its loss."""
    af = peers.aioflow()
    images, labels = data(problem)
    made, random = training_graph(problem), np.random.default_rng()

    async with af.Session(graph=made.graph) as session:
        await session.run(made.init)
        step = session.make_callable(made.fetches, feeds=made.feeds)

        async def epoch() -> Any:
            order, total = random.permutation(len(images)), 0.0
            for start in range(0, len(order), problem.batch):
                rows = order[start : start + problem.batch]
                loss, _ = await step(images[rows], labels[rows])
                total += float(loss) * len(rows)
            return total / len(order)

        yield epoch
