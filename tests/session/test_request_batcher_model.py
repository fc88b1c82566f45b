"""Batched calls at random: each gets its own rows or its own error, and nothing is left."""

import asyncio
import random

import numpy as np
import pytest

import aioflow as af
from tests.support.doubles import waiting
from tests.support.scale import amount

MOST = 4
BAD = -5


class Clients:
    """Tasks that call a batcher at random moments, with random rows, and are cancelled at random moments."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.fixed = self.random.random() < 0.2
        self.isolates = self.random.random() < 0.5
        self.room = self.random.choice([8, 20, 4096])
        self.running = 0
        self.x = af.placeholder(af.float32, [MOST if self.fixed else None, None])
        self.y = 2.0 * waiting(self.x, self.compute)

    async def compute(self, rows):
        self.running += 1
        assert self.running <= 2
        assert len(rows) == MOST if self.fixed else len(rows) <= MOST
        try:
            await asyncio.sleep(self.random.choice([0, 0.1, 1.0, 3.0]))
            if (rows == BAD).any():
                raise af.errors.InvalidArgumentError("a bad row")
            return rows
        finally:
            self.running -= 1

    def batcher(self, session):
        buckets = [2, 5] if not self.fixed and self.random.random() < 0.3 else ()
        return session.batched(
            [self.y, {"x": self.x}], [self.x], max_rows=MOST, max_delay=self.random.choice([0.0, 0.5, 2.0, 1000.0]),
            max_waiting=self.room, buckets=buckets, priorities=3, isolate_errors=self.isolates,
        )  # fmt: skip

    async def pause(self, turns=8):
        if self.random.random() < 0.5:
            await asyncio.sleep(self.random.choice([0.1, 0.5, 1.0, 2.5]))
        for _ in range(self.random.randrange(turns)):
            await asyncio.sleep(0)

    async def call(self, batched, number):
        await self.pause()
        rows = np.full((self.random.choice([0, 1, 1, 2, 3, 5, 12]), self.random.choice([1, 2, 3])), number, np.float32)
        rows += np.arange(len(rows), dtype=np.float32)[:, None] / 16
        is_bad = len(rows) > 0 and self.random.random() < 0.1
        if is_bad:
            rows[self.random.randrange(len(rows)), 0] = BAD
        try:
            y, found = await batched(rows, priority=self.random.randrange(3))
        except af.errors.ResourceExhaustedError:
            assert self.room < 4096
        except af.errors.InvalidArgumentError:
            assert is_bad or not self.isolates
        else:
            assert not is_bad
            np.testing.assert_array_equal(y, 2 * rows)
            np.testing.assert_array_equal(found["x"], rows)

    async def cancel_some(self, tasks):
        for task in self.random.sample(tasks, len(tasks) // 4):
            await self.pause()
            task.cancel()


@pytest.mark.parametrize("seed", range(amount(10, 500)))
async def test_each_call_gets_its_own_rows_or_its_own_error(seed):
    with af.Graph().as_default() as graph:
        clients = Clients(seed)
    async with af.Session(graph=graph) as session:
        batched = clients.batcher(session)
        runs = [asyncio.create_task(clients.call(batched, number)) for number in range(clients.random.randrange(25))]
        cancelling = asyncio.create_task(clients.cancel_some(runs))
        found = await asyncio.gather(*runs, cancelling, return_exceptions=True)
        for failed in found:
            if failed is not None and not isinstance(failed, asyncio.CancelledError):
                raise failed
        assert not clients.running
        assert batched.statistics.cancelled <= batched.statistics.calls
