"""The cache of oneDNN routines. Building a routine takes half a millisecond, often longer than running it."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

from aioflow import errors
from aioflow.devices.onednn import Library
from aioflow.devices.onednn_primitive import Builder, Routine

CAPACITY: Final = 512

Build = Callable[[Builder], None]
"""A function that adds the steps of a routine to a builder."""


class RoutineCache:
    """The most recently used routines, at most `capacity`. Safe to use from any thread."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity: Final = capacity
        self._known: OrderedDict[Hashable, Routine | None] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, library: Library, key: Hashable, build: Build) -> Routine | None:
        """Return the routine for `key`, building it if necessary; None if oneDNN has no optimised one.

        The lock is not held during a build, so two threads may build the same routine; the cache keeps one.
        """
        whole = (library, key)
        with self._lock:
            if whole in self._known:
                self._known.move_to_end(whole)
                return self._known[whole]
        made = _build_routine(library, build)
        with self._lock:
            made = self._known.setdefault(whole, made)
            self._known.move_to_end(whole)
            while len(self._known) > self._capacity:
                self._known.popitem(last=False)
        return made

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._known.clear()

    def __len__(self) -> int:
        return len(self._known)

    def __repr__(self) -> str:
        return f"<Routines {len(self)}/{self._capacity}>"


def _build_routine(library: Library, build: Build) -> Routine | None:
    with Builder(library) as builder:
        try:
            build(builder)
        except (errors.UnimplementedError, errors.InvalidArgumentError):
            return None
        return builder.finish()


ROUTINES: Final = RoutineCache()
"""The routines of the process."""
