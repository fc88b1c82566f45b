"""Waits for events of a GPU: by turns of the loop while they are short, by a thread after that."""

import asyncio
import gc
import threading
import weakref

import pytest

from aioflow.devices import completion
from aioflow.devices.completion import EventWatcher

pytestmark = pytest.mark.real


class Event:
    """An event that a test ends."""

    def __init__(self):
        self._done = threading.Event()
        self.looked_at = asyncio.Event()
        self.error = None

    @property
    def done(self):
        self.looked_at.set()
        return self._done.is_set()

    def synchronize(self):
        self._done.wait()
        if self.error is not None:
            raise self.error

    def end(self, error=None):
        self.error = error
        self._done.set()


class Thing:
    """What must stay alive."""


@pytest.fixture
def watcher():
    watcher = EventWatcher("events")
    yield watcher
    assert watcher.close(60)


@pytest.fixture(params=[60.0, 0.0], ids=["by turns", "by the thread"])
def event(request, monkeypatch):
    monkeypatch.setattr(completion, "SHORT", request.param)
    return Event()


async def begun(event, waiting):
    """A task that waits for the event."""
    task = asyncio.ensure_future(waiting)
    await event.looked_at.wait()
    return task


@pytest.mark.parametrize("error", [None, RuntimeError("the work failed")])
async def test_a_wait_ends_with_the_event_and_has_its_error(watcher, event, error):
    task = await begun(event, watcher.wait_until_done(event))
    assert not task.done()
    event.end(error)
    (found,) = await asyncio.gather(task, return_exceptions=True)
    assert found is error


async def test_a_cancelled_wait_keeps_its_objects_until_the_event(watcher, event):
    thing = Thing()
    there = weakref.ref(thing)
    task = await begun(event, watcher.wait_until_done(event, thing))
    del thing
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    del task
    gc.collect()
    assert there() is not None
    event.end()
    assert watcher.close(60)
    gc.collect()
    assert there() is None


async def test_a_short_wait_needs_no_thread(watcher, monkeypatch):
    monkeypatch.setattr(completion, "SHORT", 60.0)
    event, before = Event(), threading.active_count()
    task = await begun(event, watcher.wait_until_done(event))
    event.end()
    await task
    assert threading.active_count() == before
