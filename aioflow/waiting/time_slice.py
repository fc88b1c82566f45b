"""How long work may hold an event loop before the loop gets a turn."""

import asyncio
import time
import weakref
from typing import Final

SLICE: Final = 0.002
"""Seconds of work after which the loop gets a turn.

When many waiters are served at a time, a quarter of it goes to serving them, half to running them and the rest to
waking them. A timer is late by up to two turns of the loop: asyncio notes in one turn that the timer is due, and runs
its callback in the next.
"""
_clock: Final = time.perf_counter


class Slice:
    """The slice of time that inline work has before its loop must turn: shared by all sessions of the loop.

    It begins with the first work after a turn of the loop. A callback in the loop records the turn, so that work that
    lets the loop turn by itself never pauses.
    """

    __slots__ = ("_begun", "due")

    def __init__(self) -> None:
        self.due: float = 0.0
        self._begun = False

    def begin(self) -> float:
        """The end of the present slice; of one that begins now, if the loop has turned since the last."""
        if not self._begun:
            self._begun = True
            self.due = _clock() + SLICE
            asyncio.get_running_loop().call_soon(self._turned)
        return self.due

    def used_up(self) -> bool:
        """Whether the loop should turn now. Asked after each piece of inline work."""
        return self._begun and _clock() > self.due

    def _turned(self) -> None:
        self._begun = False


_slices: Final["weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Slice]"] = weakref.WeakKeyDictionary()


def slice_of(loop: asyncio.AbstractEventLoop) -> Slice:
    """The slice of time of that loop."""
    return _slices.setdefault(loop, Slice())
