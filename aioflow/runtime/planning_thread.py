"""Runs planning work on a compute thread so that the loop hardly notices it.

A plan of a large graph is a million objects that all stay. Python's cyclic garbage collector would look through all of
them again and again while they are made, for tenths of a second each time, during which no thread runs. And the loop's
thread would wait 5 ms for the interpreter whenever it has something to do.
"""

import asyncio
import contextlib
import functools
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from aioflow.devices.cpu import Threads

T = TypeVar("T")
_INTERVAL: Final = 0.0005
"""Seconds after which the planning thread lets another one run."""
_FROZEN: Final = 1000
"""With fewer frozen objects than these the application has frozen none: CPython 3.12 has some hundreds by itself."""
_PILE: Final = 3_000
"""A collection looks through fewer new objects than these in less than a millisecond."""


async def plan_on(threads: Threads, work: Callable[[], T]) -> T:
    """The result of planning work, done on one of these threads."""
    with _UNNOTICED.held():  # a wait of the loop's thread for the interpreter lasts as long as is set when it begins
        return await threads.run(functools.partial(_unnoticed, work), "planning")


async def plan_beside(work: Callable[[], T]) -> T:
    """The result of planning work, done on a thread of the loop."""
    with _UNNOTICED.held():
        return await asyncio.get_running_loop().run_in_executor(None, functools.partial(_unnoticed, work))


def _unnoticed(work: Callable[[], T]) -> T:
    with _UNNOTICED.held():
        return work()


class _Unnoticed:
    """The state of the interpreter while there is planning work, which may overlap."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._count = 0
        self._interval = 0.0
        self._collects = False
        self._thaws = True

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """No automatic collection begins inside the block, in any thread, and threads take turns more often."""
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._begin()
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1
                if not self._count:
                    self._end()

    def _begin(self) -> None:
        self._interval, self._collects = sys.getswitchinterval(), gc.isenabled()
        gc.disable()
        sys.setswitchinterval(min(_INTERVAL, self._interval))

    def _end(self) -> None:
        sys.setswitchinterval(self._interval)
        if self._collects:
            self._make_old()
            gc.enable()

    def _make_old(self) -> None:
        """Move all objects to the oldest generation, at which the next collection does not look.

        Objects that the application has frozen must stay so. They are counted until there are some, and then never
        again: to count a million of them takes some 10 ms, and it would be done after each planning.
        """
        if not self._thaws or gc.get_count()[0] <= _PILE:
            return
        self._thaws = gc.get_freeze_count() < _FROZEN
        if self._thaws:
            gc.freeze()
            gc.unfreeze()


_UNNOTICED: Final = _Unnoticed()
