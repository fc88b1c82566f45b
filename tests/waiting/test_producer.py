"""Feeds: from async sources into queues."""

import asyncio

import pytest

from aioflow import errors
from aioflow.queues import Queue
from aioflow.waiting.producer import Feed
from aioflow.waiting.stores import Fifo


class Source:
    """Numbers up to `count`, with a note of how many were asked for and whether it was closed."""

    def __init__(self, count, fail_at=None):
        self.count, self.fail_at = count, fail_at
        self.given, self.closed = 0, False

    async def __aiter__(self):
        try:
            for number in range(self.count):
                if number == self.fail_at:
                    raise ValueError("the source broke")
                self.given += 1
                yield number
                await asyncio.sleep(0)
        finally:
            self.closed = True


async def slowly(number):
    """Odd numbers take longer."""
    await asyncio.sleep(5 if number % 2 else 1)
    return number * 10


def queue(capacity=3):
    return Queue("q", Fifo(), capacity)


async def test_the_source_goes_through_and_the_queue_is_closed_at_its_end():
    q, source = queue(), Source(10)
    async with q.feed(source):
        assert [item async for item in q] == list(range(10))
    assert q.closed
    assert source.closed


async def test_ordered_mapping_keeps_the_order_of_the_source():
    q = queue()
    async with q.feed(Source(9), map=slowly, workers=4):
        assert [item async for item in q] == [number * 10 for number in range(9)]


async def test_unordered_mapping_gives_what_is_ready_first():
    q = queue()
    async with q.feed(Source(4), map=slowly, workers=4, ordered=False):
        assert [item async for item in q] == [0, 20, 10, 30]


async def test_mapping_goes_on_in_as_many_tasks_as_workers():
    q, loop = queue(100), asyncio.get_running_loop()
    for workers, seconds in ((1, 18), (3, 7), (6, 5)):
        begin = loop.time()
        q = queue(100)
        async with q.feed(Source(6), map=slowly, workers=workers, ordered=False):
            assert len([item async for item in q]) == 6
        assert loop.time() - begin == pytest.approx(seconds)


async def test_no_more_elements_are_on_their_way_than_workers_and_room():
    q, source = queue(3), Source(100)
    async with q.feed(source, workers=2):
        for _ in range(50):
            await asyncio.sleep(0)
        assert q.size == 3
        assert source.given <= 3 + 2 + 1


@pytest.mark.parametrize("workers", [1, 3])
async def test_the_error_of_a_source_reaches_who_takes_and_the_block(workers):
    q = queue()
    taken = []

    async def take_all():
        async with q.feed(Source(10, fail_at=5), workers=workers):
            assert [item async for item in noted(q)]

    async def noted(items):
        async for item in items:
            taken.append(item)
            yield item

    with pytest.raises(errors.AbortedError, match="the source broke"):
        await take_all()
    assert taken == list(range(5))[: len(taken)]


async def test_the_error_of_a_map_is_raised_by_a_block_that_does_not_take():
    async def broken(number):
        raise ValueError("no such thing")

    q = queue()
    with pytest.raises(ValueError, match="no such thing"):
        async with q.feed(Source(10), map=broken):
            await asyncio.sleep(1)
    with pytest.raises(errors.AbortedError):
        await q.put(1)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("ordered", [True, False])
async def test_a_map_that_raises_a_cancellation_of_its_own_is_no_silent_end(workers, ordered):
    async def cancelled(number):
        if number == 2:
            raise asyncio.CancelledError
        return number

    q = queue()
    with pytest.raises(errors.AbortedError, match=r"map raised asyncio\.CancelledError"):
        async with q.feed(Source(10), map=cancelled, workers=workers, ordered=ordered):
            assert [item async for item in q]


async def test_a_source_that_raises_a_cancellation_of_its_own_is_no_silent_end():
    async def cancelled():
        yield 1
        raise asyncio.CancelledError

    q = queue()
    with pytest.raises(errors.CancelledError, match=r"the source raised asyncio\.CancelledError"):
        async with q.feed(cancelled()):
            await asyncio.sleep(1)
    with pytest.raises(errors.AbortedError):
        await q.take()


async def test_leaving_the_block_ends_everything_and_closes_the_source():
    q, source = queue(), Source(1000)
    async with q.feed(source, map=slowly, workers=4):
        assert await q.take() == (0,)
    assert source.closed
    assert not q.closed
    assert q.statistics().putting == 0


async def test_cancelling_the_block_ends_everything():
    q, source = queue(), Source(1000)

    async def use():
        async with q.feed(source, workers=2):
            await asyncio.sleep(100)

    task = asyncio.create_task(use())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert source.closed


async def test_components_and_ordinary_iterables_are_taken_too():
    q = queue()
    async with q.feed([(1, 2), (3, 4)], close=False):
        assert [await q.take(), await q.take()] == [(1, 2), (3, 4)]
    assert not q.closed


async def test_a_feed_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match="workers must be at least 1, not 0"):
        queue().feed(Source(1), workers=0)
    with pytest.raises(TypeError, match="a source is an async iterable, not 3"):
        queue().feed(3)
    with pytest.raises(TypeError, match="map must be an async function of an item of the source, not 3"):
        queue().feed(Source(1), map=3)
    feed = Feed(queue(), Source(0), None, 1, True, True)
    async with feed:
        pass
    with pytest.raises(RuntimeError, match="a feed is entered once"):
        await feed.__aenter__()
