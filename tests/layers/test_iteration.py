"""Steps of iterators on threads, which are cancelled while `next` runs."""

import asyncio
import gc
import threading

import pytest

from aioflow.layers import iteration
from aioflow.layers.iteration import END, step


class Source:
    """Gives 1, 2, 3, each when the test lets it; `ended` counts the calls of `next` that have returned."""

    __hash__ = None  # as that of a dataclass

    def __init__(self):
        self.given, self.begun, self.free = 0, threading.Event(), threading.Event()

    def __iter__(self):
        return self

    def __next__(self):
        assert not self.begun.is_set()
        self.begun.set()
        assert self.free.wait(300)
        self.begun.clear()
        self.free.clear()
        self.given += 1
        if self.given == 2:
            raise OSError("the second one cannot be read")
        if self.given > 3:
            raise StopIteration
        return self.given


def generator(source):
    yield from source


async def cancelled_step(iterator, source):
    """A step that is cancelled once its thread is in `next`."""
    task = asyncio.create_task(step(iterator))
    await asyncio.to_thread(source.begun.wait, 300)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.real
@pytest.mark.parametrize("kind", [lambda source: source, generator, lambda source: map(int, source)])
async def test_the_step_after_a_cancelled_one_takes_the_element_of_its_thread(kind):
    source = Source()
    iterator = kind(source)
    await cancelled_step(iterator, source)
    await cancelled_step(iterator, source)
    both = [asyncio.create_task(step(iterator)) for _ in range(2)]
    await asyncio.sleep(0)
    source.free.set()
    assert await both[0] == 1
    await asyncio.to_thread(source.begun.wait, 300)
    both[1].cancel()
    await asyncio.wait(both)
    last = asyncio.create_task(step(iterator))
    await asyncio.sleep(0)
    source.free.set()
    with pytest.raises(OSError, match="the second one cannot be read"):
        await last
    assert not iteration._calls
    if kind is not generator:
        source.free.set()
        assert await step(iterator) == 3
        source.free.set()
    assert await step(iterator) is END


@pytest.mark.real
@pytest.mark.parametrize("kind", [generator, lambda source: map(int, source)])
async def test_a_call_whose_iterator_is_gone_is_forgotten(kind):
    source = Source()
    iterator = kind(source)
    await cancelled_step(iterator, source)
    (call,) = iteration._calls.values()
    source.free.set()
    await asyncio.wrap_future(call.ended)
    del iterator
    while iteration._calls:  # until the thread has left the iterator
        await asyncio.to_thread(gc.collect)
