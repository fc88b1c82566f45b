"""Results that were computed from a graph, kept as long as the graph so that all sessions of it share them."""

import asyncio
import contextlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar

R = TypeVar("R")
_SIZE: Final = 256


class Memo:
    """The results used last, by key. Any thread may use it."""

    def __init__(self, size: int = _SIZE) -> None:
        """Keep at most `size` results."""
        self._size: Final = size
        self._found: Final[OrderedDict[Hashable, Any]] = OrderedDict()
        self._making: Final[weakref.WeakValueDictionary[Hashable, Any]] = weakref.WeakValueDictionary()
        """By key, the lock of the thread that makes its result. The threads that wait for it keep it alive, too."""
        self._lock: Final = threading.Lock()
        self._age = 0

    def get(self, key: Hashable, make: Callable[[], R], holds: Callable[[], bool] = lambda: True) -> R:
        """The result of that key, made if it is not known, and kept if the key still `holds` afterwards.

        A thread that asks for a result that another thread makes waits for that. If the result is not kept, one of
        the waiting threads makes it next. The thread of an event loop never waits: it makes the result itself, and
        returns the one that was kept first. `make` may ask for the results of other keys, but not in a circle.
        """
        with self._turn(key):
            with self._lock:
                age = self._age
                if key in self._found:
                    self._found.move_to_end(key)
                    found: R = self._found[key]
                    return found
            made = make()
            return self._kept(key, made, age) if holds() else made

    def _turn(self, key: Hashable) -> contextlib.AbstractContextManager[Any]:
        """Inside the block, this thread makes the result of that key, and other threads wait."""
        if asyncio._get_running_loop() is not None:
            return contextlib.nullcontext()
        with self._lock:
            turn: threading.RLock = self._making.setdefault(key, threading.RLock())
            return turn

    def _kept(self, key: Hashable, made: R, age: int) -> R:
        """The result that is kept for that key. It is `made`, unless one was kept meanwhile."""
        with self._lock:
            if age == self._age:
                made = self._found.setdefault(key, made)
                if len(self._found) > self._size:
                    self._found.popitem(last=False)
            return made

    def clear(self) -> None:
        """Forget all results, those that are being made too."""
        with self._lock:
            self._age += 1
            self._found.clear()
