"""How many bytes of a long read or write are done: threads count, a function shows it."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

Progress = Callable[[int, int], object]
"""Called with how much is done and how much there is: bytes, tensors or nodes."""


class ByteCount:
    """Counts the bytes that threads read or write.

    Args:
        told: called after each part with the bytes that are done and all bytes, on the thread that has done the part.
    """

    def __init__(self, told: Progress) -> None:
        self._told: Final = told
        self._lock: Final = threading.Lock()
        self._done = self._total = 0

    def expect(self, count: int) -> None:
        """Add bytes to those that there are."""
        with self._lock:
            self._total += count

    def add(self, count: int) -> None:
        """Add bytes to those that are done."""
        with self._lock:
            self._done += count
            self._told(self._done, self._total)

    def passing(self, parts: Iterable[memoryview]) -> Iterator[memoryview]:
        """Yield the parts; each is done when the next one is asked for."""
        for part in parts:
            yield part
            self.add(len(part))


_current: Final[ContextVar[ByteCount | None]] = ContextVar("aioflow_byte_count", default=None)


def current_count() -> ByteCount | None:
    """Return the count of the `counted` block around this call; None outside of one."""
    return _current.get()


@contextmanager
def counted(told: Progress) -> Iterator[None]:
    """Count the bytes that the block, and tasks that it creates, read and write."""
    token = _current.set(ByteCount(told))
    try:
        yield
    finally:
        _current.reset(token)
