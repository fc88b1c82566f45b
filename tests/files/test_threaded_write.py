"""A write on a thread."""

import asyncio
import threading

import pytest

from aioflow.files.threaded_write import write_on_thread


@pytest.mark.real
async def test_a_cancelled_write_is_told_and_has_ended_before_its_caller():
    loop, begun, ended = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def write(given_up):
        loop.call_soon_threadsafe(begun.set)
        given_up.wait()
        ended.set()
        raise OSError("nothing is written")

    task = asyncio.create_task(write_on_thread("model", write))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_the_error_of_a_write_is_that_of_the_call():
    def write(given_up):
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        await write_on_thread("model", write)
