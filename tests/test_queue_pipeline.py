"""Thousands of cancellations at random moments: no waiter, no task and no element is left unaccounted for."""

import asyncio
import collections
import random

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.queues import Queue
from aioflow.waiting.stores import ByPriority, Fifo, Shuffled
from tests.support.scale import amount

CANCELS = amount(500, 10_000)


class Account:
    """What became of each element: it is in a queue, has arrived, was dropped, or nobody knows."""

    def __init__(self):
        self.made = 0
        self.arrived = []
        self.dropped = []
        self.doubtful = []
        self.cancelled = 0

    def balance(self, held):
        """Each element is at one place; what is doubtful may be at one or at none."""
        found = collections.Counter([*held, *self.arrived, *self.dropped])
        assert not [value for value, count in found.items() if count > 1]
        missing = set(range(self.made)) - found.keys()
        assert missing <= set(self.doubtful)
        assert set(self.doubtful) <= set(range(self.made))
        return missing


class Pipeline:
    """Producers, three queues with workers in between, consumers: whoever is cancelled is replaced by another."""

    def __init__(self, put, take, most=30):
        self.put, self.take = put, take  # async functions of the queue's number (and the values)
        self.account = Account()
        self.random = random.Random(7)
        self.most = most
        self.tasks = {}

    async def produce(self):
        while True:
            count = self.random.choice([1, 1, 3])
            values = list(range(self.account.made, self.account.made + count))
            self.account.made += count
            await self._put(0, values)

    async def work(self, number):
        while True:
            values = await self.take(number, self.random.choice([1, 1, 2, 4]))
            await self._put(number + 1, values)

    async def consume(self):
        while True:
            self.account.arrived += await self.take(2, self.random.choice([1, 3]))

    async def _put(self, number, values):
        try:
            await self.put(number, values)
        except asyncio.CancelledError:
            self.account.doubtful += values  # a batch trickles in, and being served may cross with being cancelled
            raise

    def hire(self):
        kinds = [self.produce, lambda: self.work(0), lambda: self.work(1), self.consume]
        for kind in kinds:
            while len(mine := self.tasks.setdefault(kinds.index(kind), [])) < self.most // 4:
                mine.append(asyncio.create_task(kind()))

    async def run(self, cancels):
        while self.account.cancelled < cancels:
            self.hire()
            for _ in range(self.random.randrange(4)):
                await asyncio.sleep(0)
            mine = self.tasks[self.random.randrange(4)]
            for _ in range(self.random.choice([1, 1, 3])):
                victim = mine.pop(self.random.randrange(len(mine)))
                victim.cancel()
                self.account.cancelled += 1
        left = [task for tasks in self.tasks.values() for task in tasks]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for _ in range(20):
            await asyncio.sleep(0)


async def test_live_queues_account_for_every_element_whoever_is_cancelled():
    queues = [
        Queue(str(number), store, 5) for number, store in enumerate([Fifo(), Shuffled(random.Random(1)), ByPriority()])
    ]

    async def put(number, values):
        await queues[number].put_many([(value,) for value in values])

    async def take(number, count):
        return [value for (value,) in await queues[number].take_many(count)]

    pipeline = Pipeline(put, take)
    await pipeline.run(CANCELS)
    for queue in queues:
        statistics = queue.statistics()
        assert (statistics.putting, statistics.taking) == (0, 0)
        assert statistics.put - statistics.taken == statistics.size
    held = [value for queue in queues for (value,) in queue._store]
    pipeline.account.balance(held)
    assert len(pipeline.account.arrived) > 1000
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("executor", ["regions", "tokens"])
async def test_runs_account_for_every_element_whoever_is_cancelled(executor):
    with af.Graph().as_default() as graph:
        queues = [
            af.FIFOQueue(5, af.int64, [[]]),
            af.RandomShuffleQueue(7, 2, af.int64, [[]], seed=3),
            af.PriorityQueue(5, [], []),
        ]
        values, count = af.placeholder(af.int64, [None]), af.placeholder(af.int32, [])
        puts = [queue.enqueue_many([values]) for queue in queues]
        takes = [queue.dequeue_many(count) for queue in queues]
    async with af.Session(graph=graph, config=af.Config(executor=executor)) as session:

        async def put(number, items):
            await session.run(puts[number], {values: np.array(items)})

        async def take(number, wanted):
            return (await session.run(takes[number], {count: wanted})).tolist()

        pipeline = Pipeline(put, take, most=16)
        await pipeline.run(CANCELS // 10)
        held = []
        for queue in queues:
            live = session.queue(queue)
            statistics = live.statistics()
            assert (statistics.putting, statistics.taking) == (0, 0)
            held += [int(value) for (value,) in live._store]
        assert not session._state.steps
        account = pipeline.account
        found = collections.Counter([*held, *account.arrived])
        assert max(found.values()) == 1
        assert len(account.arrived) > 50
        if executor == "regions":  # the caller's own task waits: what it took, it has
            account.balance(held)


async def test_closing_the_session_in_the_middle_leaves_nobody_waiting():
    with af.Graph().as_default() as graph:
        queue = af.FIFOQueue(3, af.int64, [[]])
        puts = queue.enqueue_many([list(range(10))])
        take, many = queue.dequeue(), queue.dequeue_many(7)
    session = af.Session(graph=graph)
    tasks = [asyncio.create_task(session.run(each)) for each in [puts, many, take] * 20]
    await asyncio.sleep(1)
    live = session.queue(queue)
    await session.close()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(result) for result in results if isinstance(result, Exception)} == {errors.CancelledError}
    assert live.waiting == []
