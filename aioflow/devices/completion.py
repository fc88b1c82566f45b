"""Turns events of a GPU into futures of the event loop, by one thread that waits for one event after the other.

CUDA's callbacks cannot be used: Python code there would wait for the GIL while it holds the driver's lock, and a thread
that calls the driver holds the two in the other order. The thread waits on blocking events, which hold neither lock.
Events are queued in the order of their work, so none waits behind a later one.
"""

import asyncio
import contextlib
import queue
import threading
from typing import Any, Final, NamedTuple

from aioflow.devices.driver import Event


class _Entry(NamedTuple):
    """An event, the future that waits for it, and the objects that must stay alive until then."""

    event: Event
    future: asyncio.Future[None]
    loop: asyncio.AbstractEventLoop
    keep: tuple[Any, ...]


class EventWatcher:
    """The completion thread of one device. It starts with the first wait."""

    def __init__(self, name: str) -> None:
        self._name: Final = name
        self._entries: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def wait_until_done(self, event: Event, *keep: Any) -> None:
        """Wait for the event. `keep` stays alive until the event is done, even if the wait is cancelled."""
        if event.done:
            return event.synchronize()  # returns at once, or raises the error of the work
        if self._thread is None:
            # A daemon, so that a GPU that hangs does not keep the process alive.
            self._thread = threading.Thread(target=self._watch, name=self._name, daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._entries.put(_Entry(event, future, loop, keep))
        try:
            return await future
        finally:
            del future  # it may hold an error, whose traceback refers to this frame

    def _watch(self) -> None:
        while (entry := self._entries.get()) is not None:
            error: Exception | None = None
            try:
                entry.event.synchronize()
            except Exception as raised:
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop may be closed
                entry.loop.call_soon_threadsafe(_settle, entry, error)
            del entry, error

    def close(self, limit: float) -> bool:
        """End the thread. Returns False if it still waits for the GPU after `limit` seconds."""
        if self._thread is None:
            return True
        self._entries.put(None)
        self._thread.join(limit)
        ended = not self._thread.is_alive()
        self._thread = None
        return ended


def _settle(entry: _Entry, error: Exception | None) -> None:
    if entry.future.done():
        return
    if error is None:
        entry.future.set_result(None)
    else:
        entry.future.set_exception(error)
