"""Turns events of a GPU into futures of the event loop, by one thread that waits for one event after the other.

For the first millisecond the loop itself looks at the event in each of its turns: short waits need no thread.

CUDA's callbacks cannot be used: Python code there would wait for the GIL while it holds the driver's lock, and a thread
that calls the driver holds the two in the other order. The thread waits on blocking events, which hold neither lock.
Events are queued in the order of their work, so none waits behind a later one.
"""

import asyncio
import contextlib
import queue
import threading
import time
from typing import Any, Final, NamedTuple

from aioflow.devices.driver import Event

SHORT: Final = 0.001
"""Seconds for which the loop looks at an event in each turn."""


class _Entry(NamedTuple):
    """An event, the objects that must stay alive until then, and the future that waits for it, if any."""

    event: Event
    keep: tuple[Any, ...]
    future: asyncio.Future[None] | None


class EventWatcher:
    """The completion thread of one device. It starts with the first wait that is not short."""

    def __init__(self, name: str) -> None:
        self._name: Final = name
        self._entries: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def wait_until_done(self, event: Event, *keep: Any) -> None:
        """Wait for the event. `keep` stays alive until the event is done, even if the wait is cancelled."""
        try:
            is_done = await _is_done_soon(event)
        except BaseException:
            self._watch_for(_Entry(event, keep, None))
            raise
        if is_done:
            return event.synchronize()  # returns at once, or raises the error of the work
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watch_for(_Entry(event, keep, future))
        try:
            return await future
        finally:
            del future  # it may hold an error, whose traceback refers to this frame

    def _watch_for(self, entry: _Entry) -> None:
        if self._thread is None:
            # A daemon, so that a GPU that hangs does not keep the process alive.
            self._thread = threading.Thread(target=self._watch, name=self._name, daemon=True)
            self._thread.start()
        self._entries.put(entry)

    def _watch(self) -> None:
        while (entry := self._entries.get()) is not None:
            error: Exception | None = None
            try:
                entry.event.synchronize()
            except Exception as raised:
                error = raised
            if entry.future is not None:
                with contextlib.suppress(RuntimeError):  # the loop may be closed
                    entry.future.get_loop().call_soon_threadsafe(_settle, entry.future, error)
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


async def _is_done_soon(event: Event) -> bool:
    """Let the loop turn until the event is done, for a short time."""
    end = time.perf_counter() + SHORT
    while not event.done:
        if time.perf_counter() > end:
            return False
        await asyncio.sleep(0)
    return True


def _settle(future: asyncio.Future[None], error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
