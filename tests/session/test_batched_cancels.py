"""Batched calls, each cancelled at one of its awaits: the others get their rows, and nothing is left."""

import asyncio
import itertools
import random

import numpy as np
import pytest

import aioflow as af
from tests.support.doubles import waiting
from tests.support.scale import amount

MOST = 4


class CancelledAt:
    """Awaits a call, and cancels its task where it suspends for the given time, from 0 on."""

    def __init__(self, call, at):
        self.call = call
        self.at = at

    def __await__(self):
        inner = self.call.__await__()
        for turn in itertools.count():
            try:
                awaited = next(inner)
            except StopIteration as done:
                return done.value
            if turn == self.at:
                asyncio.current_task().cancel()
            try:
                yield awaited
            except BaseException as error:
                return inner.throw(error)


class Net:
    """Doubles rows, and takes no, little or much time for it."""

    def __init__(self, draw):
        self.draw = draw
        self.running = 0
        self.x = af.placeholder(af.float32, [None, None])
        self.y = 2.0 * waiting(self.x, self.compute)

    async def compute(self, rows):
        self.running += 1
        try:
            for _ in range(self.draw.randrange(3)):
                await asyncio.sleep(self.draw.choice([0, 1.0]))
            return rows
        finally:
            self.running -= 1


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("seed", range(amount(3, 60)))
async def test_a_call_is_cancelled_at_each_of_its_awaits(seed, at):
    draw = random.Random(seed)
    with af.Graph().as_default() as graph:
        net = Net(draw)

    async def call(double, number):
        rows = np.full((draw.choice([0, 1, 1, 3, 9]), draw.choice([1, 2])), number, np.float32)
        await asyncio.sleep(draw.choice([0, 0, 0.5, 1.0]))
        made = double(rows, priority=draw.randrange(2))
        found = await (CancelledAt(made, at) if number % 3 == 0 else made)
        np.testing.assert_array_equal(found, 2 * rows)

    async with af.Session(graph=graph) as session:
        double = session.batched(net.y, [net.x], max_rows=MOST, max_delay=draw.choice([0.0, 0.7, 1000.0]), priorities=2)
        found = await asyncio.gather(*[call(double, number) for number in range(12)], return_exceptions=True)
        for number, error in enumerate(found):
            assert error is None or (number % 3 == 0 and isinstance(error, asyncio.CancelledError)), error
        np.testing.assert_array_equal(await double(np.ones((1, 1))), [[2]])
        assert double.statistics.cancelled == sum(error is not None for error in found)
        assert double.statistics.calls == len(found) + 1
        assert not net.running
