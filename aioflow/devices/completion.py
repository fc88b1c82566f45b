"""From events on a GPU to futures on a loop, by one thread that waits for one event after the other.

No Python runs in a callback of CUDA's: there it would wait for the interpreter's lock while it holds the driver's, and
whoever asks the driver something holds them the other way round. The thread waits on events made to block, which
holds neither, and the order of events is that of the work they follow, so that none waits for a later one.
"""

import asyncio
import contextlib
import queue
import threading
from typing import Any, Final, NamedTuple

from aioflow.devices.driver import Event


class _Entry(NamedTuple):
    """An event, who waits for it, and what must not be freed before it."""

    event: Event
    future: asyncio.Future[None]
    loop: asyncio.AbstractEventLoop
    keep: tuple[Any, ...]


class EventWatcher:
    """The completion thread of one device; started when first needed."""

    def __init__(self, name: str) -> None:
        self._name: Final = name
        self._entries: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def wait_until_done(self, event: Event, *keep: Any) -> None:
        """Wait for the event; `keep` is referred to until it is done, also if the wait is cancelled."""
        if event.done:
            return event.synchronize()  # at once: it raises what went wrong
        if self._thread is None:
            # A daemon: a GPU that hangs must not keep the process from ending.
            self._thread = threading.Thread(target=self._watch, name=self._name, daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._entries.put(_Entry(event, future, loop, keep))
        try:
            return await future
        finally:
            del future  # it may hold an error, whose traceback leads here

    def _watch(self) -> None:
        while (entry := self._entries.get()) is not None:
            error: Exception | None = None
            try:
                entry.event.synchronize()
            except Exception as raised:
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop may be closed by now
                entry.loop.call_soon_threadsafe(_settle, entry, error)
            del entry, error

    def close(self, limit: float) -> bool:
        """End the thread; False if after so many seconds it still waits for the GPU."""
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
