"""Results that were computed from a graph, kept as long as the graph so that all sessions of it share them."""

import threading
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
        self._lock: Final = threading.Lock()
        self._age = 0

    def get(self, key: Hashable, make: Callable[[], R], holds: Callable[[], bool] = lambda: True) -> R:
        """The result of that key, made if it is not known, and kept if the key still `holds` afterwards.

        Threads that ask at the same time may each make it.
        """
        with self._lock:
            age = self._age
            if key in self._found:
                self._found.move_to_end(key)
                found: R = self._found[key]
                return found
        made = make()
        kept = holds()
        with self._lock:
            if age == self._age and kept:
                self._found[key] = made
                if len(self._found) > self._size:
                    self._found.popitem(last=False)
        return made

    def clear(self) -> None:
        """Forget all results, those that are being made too."""
        with self._lock:
            self._age += 1
            self._found.clear()
