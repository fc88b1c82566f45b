"""Streams: step after step, with the next ones under way."""

import asyncio

import pytest

from aioflow import errors
from aioflow.runtime.partial_run import stream


class Steps:
    """Runs that take a second each; after `count` the input has ended."""

    def __init__(self, count, fail_at=None):
        self.count, self.fail_at = count, fail_at
        self.begun = self.ended = 0

    async def __call__(self, held=None):
        number, self.begun = self.begun, self.begun + 1
        if number >= self.count:
            raise errors.OutOfRangeError("the input has ended")
        if number == self.fail_at:
            raise errors.InternalError("broken")
        try:
            await asyncio.sleep(1)
        finally:
            self.ended += 1
        return number


@pytest.mark.parametrize("read_ahead", [0, 1, 5])
async def test_results_come_in_order_until_the_input_ends(read_ahead):
    assert [value async for value in stream(Steps(7), read_ahead)] == list(range(7))


@pytest.mark.parametrize(("read_ahead", "begun"), [(0, 1), (1, 2), (3, 4)])
async def test_read_ahead_is_bounded(read_ahead, begun):
    steps = Steps(100)
    values = stream(steps, read_ahead)
    assert await anext(values) == 0
    await asyncio.sleep(10)
    assert steps.begun == begun
    await values.aclose()


async def test_steps_and_what_is_done_with_results_overlap():
    loop = asyncio.get_running_loop()
    begin = loop.time()
    async for _ in stream(Steps(10), 1):
        await asyncio.sleep(1)
    assert loop.time() - begin == pytest.approx(11)


async def test_an_error_ends_the_stream_after_what_came_before():
    values = stream(Steps(10, fail_at=3), 2)
    assert [await anext(values) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(errors.InternalError, match="broken"):
        await anext(values)


async def test_closing_cancels_what_is_under_way():
    steps = Steps(100)
    values = stream(steps, 3)
    await anext(values)
    await values.aclose()
    assert steps.ended == steps.begun


async def test_cancelling_who_iterates_leaves_nothing():
    steps = Steps(100)

    async def use():
        async for _ in stream(steps, 3):
            pass

    task = asyncio.create_task(use())
    await asyncio.sleep(2.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps.ended == steps.begun


async def test_read_ahead_is_a_number_of_runs():
    with pytest.raises(ValueError, match="read_ahead is a number of runs, not -1"):
        await anext(stream(Steps(1), -1))
