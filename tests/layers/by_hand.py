"""A small model, its training written by hand, and data and callbacks for both."""

import asyncio

import numpy as np

import aioflow as af
from aioflow.layers import callbacks

RANDOM = np.random.default_rng(11)
X = RANDOM.standard_normal((50, 6)).astype(np.float32)
Y = (X @ RANDOM.standard_normal((6, 3))).argmax(1)
FIRST = [RANDOM.standard_normal(size).astype(np.float32) * 0.3 for size in ((6, 8), (8,), (8, 3), (3,))]
IN_ORDER = [slice(start, start + 16) for start in (0, 16, 32, 48)]
SIZES = [16, 16, 16, 2]


async def by_hand(batches, rate=0.01, weights=None):
    """The losses of a training written by hand, and the weights after it."""
    with af.Graph().as_default() as graph:
        x, y = af.placeholder(af.float32, [None, 6]), af.placeholder(af.int64, [None])
        w = af.placeholder(af.float32, [None])
        one, two, three, four = variables = [af.Variable(value) for value in FIRST]
        logits = af.tanh(x @ one + two) @ three + four
        losses = af.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        loss = af.reduce_mean(losses * w)
        train = af.train.GradientDescentOptimizer(rate).minimize(loss)
        async with af.Session(graph=graph) as session:
            await session.run(af.global_variables_initializer())
            found = []
            for rows in batches:
                factors = np.ones(len(X[rows])) if weights is None else weights[rows]
                found.append((await session.run([loss, train], {x: X[rows], y: Y[rows], w: factors}))[0])
            return found, await session.run(variables)


def pairs():
    yield from [(X[rows], Y[rows]) for rows in IN_ORDER]


async def waiting_pairs():
    for pair in pairs():
        await asyncio.sleep(1)
        yield pair


class Again:
    """Gives the batches anew each time."""

    def __aiter__(self):
        return waiting_pairs()


class Told(callbacks.Callback):
    def __init__(self):
        self.said = []

    def __getattribute__(self, name):
        if not name.startswith("on_"):
            return super().__getattribute__(name)
        return lambda *given: self.said.append((name, *given[:-1]))
