"""Polling: a loop whose messages follow each other fast waits for the next one without sleeping.

An idle processor takes long to wake, and wakes with cold caches: both together take longer than the message of a small
step. So after a message the loop turns without sleeping for 1.5 ms, if the wait before was short. In every second turn
it leaves its processor to the threads and processes that can run there; in between it reads the messages that have come
meanwhile. In the turn after a message it does not leave it: the callbacks of the message run first.
"""

import asyncio
import ctypes
import math
import os
import sys
import time
import weakref
from collections.abc import Callable
from typing import Final

SHORT: Final = 0.0015
"""Seconds of a short wait. After them the loop sleeps."""


class BusyPoll:
    """Polls for the messages of all channels of one loop.

    Attributes:
        clock: the clock by which waits are measured.
    """

    def __init__(self, leave_processor: Callable[[], object]) -> None:
        """A loop that has no messages yet. `leave_processor` lets another thread run that can run."""
        self.clock: Callable[[], float] = time.perf_counter
        self._leave_processor: Final = leave_processor
        self._last = -math.inf
        """The time of the last message."""
        self._is_fast = False
        """Whether the last wait for a message was short."""
        self._is_polling = False
        self._has_work = False
        """Whether a message has come since the last turn: what it has started runs in this turn of the loop."""

    def sent(self) -> None:
        """Poll for the answer to a message that is about to be sent."""
        self._last = self.clock()
        if self._is_fast and not self._is_polling:
            self._begin()

    def received(self) -> None:
        """Poll for the message after one that has come."""
        now = self.clock()
        self._is_fast, self._last, self._has_work = now - self._last <= SHORT, now, True
        if self._is_fast and not self._is_polling:
            self._begin()

    def _begin(self) -> None:
        self._is_polling = True
        asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        if self.clock() - self._last <= SHORT:
            if not self._has_work:
                self._leave_processor()
            self._has_work = False
            asyncio.get_running_loop().call_soon(self._read)
        else:
            self._is_polling = False

    def _read(self) -> None:
        """Let the loop read the messages that have come meanwhile: asyncio's reads them after this."""
        asyncio.get_running_loop().call_soon(self._turn)


_polls: Final["weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, BusyPoll]"] = weakref.WeakKeyDictionary()


def busy_poll_of(loop: asyncio.AbstractEventLoop) -> BusyPoll | None:
    """The polling of that loop; None where this process has only one processor, or cannot leave it to others."""
    if sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2:
        return None
    found = _polls.get(loop)
    if found is None:
        # the function of the os module keeps the GIL, which the threads of this process need meanwhile
        found = _polls[loop] = BusyPoll(ctypes.CDLL(None).sched_yield)
    return found
