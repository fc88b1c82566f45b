"""The bytes of a file, written in spans: large files past the system's cache, where their file system lets them.

What goes through the cache takes a core while it is copied there, and several times its size of the memory's bandwidth,
which whoever computes meanwhile needs. Past it the disk fetches the bytes itself. They have to lie where it can do so:
they are copied into one of two small buffers first, which stay in the processor's cache, and one is filled while the
disk takes the other.
"""

import contextlib
import errno
import itertools
import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import numpy as np

SPAN: Final = 1 << 24
"""Where in a file writes through the cache begin and end: within a large page of it they cost several times as much."""
BLOCK: Final = 1 << 20
"""Bytes that a disk is given at a time past the cache; a span is a multiple of that."""
_MOST_VIEWS: Final = 512


def write_all(place: str, file: int, parts: Iterable[memoryview]) -> None:
    """The parts are in the file, one after another; they are on the disk when it is synced.

    Args:
        place: its path.
        file: it is empty, open for writing, and written to by nobody else.
        parts: each is read once, in turn.
    """
    with contextlib.ExitStack() as stack:
        past: _PastTheCache | None = None
        for number, views in enumerate(_spans(parts, SPAN)):
            whole = sum(map(len, views)) == SPAN
            if whole and not number:
                past = _past_the_cache(place, file, stack)
            if whole and past is not None:
                past.write(views, number * SPAN)
            else:
                _write(file, views, number * SPAN)
        if past is not None:
            past.settle()


class _PastTheCache:
    """Writes to a file by a descriptor that does not go through the cache."""

    def __init__(self, direct: int, file: int, threads: ThreadPoolExecutor) -> None:
        """OSError if the file system does not let it."""
        self._files: Final = direct, file
        self._threads: Final = threads
        self._buffers: Final = [np.frombuffer(mmap.mmap(-1, BLOCK), np.uint8) for _ in range(2)]
        self._writing: Final[list[Future[None] | None]] = [None, None]
        os.pwrite(direct, self._buffers[0].data, 0)  # it is written again

    def write(self, views: Iterable[memoryview], offset: int) -> None:
        """A span is in the file, or on its way there. OSError if this, or what was on its way, cannot be written."""
        places = range(offset, offset + SPAN, BLOCK)
        for turn, place, few in zip(itertools.cycle((0, 1)), places, _spans(views, BLOCK), strict=False):
            self._settle(turn)
            _gather(few, self._buffers[turn])
            self._begin(turn, place)

    def _begin(self, turn: int, place: int) -> None:
        try:
            self._writing[turn] = self._threads.submit(self._put, self._buffers[turn], place)
        except RuntimeError:  # the interpreter ends, and begins no more threads
            self._put(self._buffers[turn], place)

    def settle(self) -> None:
        """All is in the file. OSError if something cannot be written."""
        for turn in range(len(self._writing)):
            self._settle(turn)

    def _settle(self, turn: int) -> None:
        writing, self._writing[turn] = self._writing[turn], None
        if writing is not None:
            writing.result()

    def _put(self, buffer: Any, place: int) -> None:
        direct, file = self._files
        try:
            count = os.pwrite(direct, buffer.data, place)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            count = 0  # not all can be written, as where files may not be so long
        if count < BLOCK:  # what is left may not begin where a disk's block does
            _write(file, [buffer.data[count:]], place + count)


def _past_the_cache(place: str, file: int, stack: contextlib.ExitStack) -> _PastTheCache | None:
    """What writes to the file so, if its file system lets it."""
    with contextlib.suppress(OSError, AttributeError):  # some systems have no such flag
        direct = os.open(place, os.O_WRONLY | os.O_DIRECT | os.O_NOFOLLOW | os.O_CLOEXEC)
        stack.callback(os.close, direct)
        threads = stack.enter_context(ThreadPoolExecutor(2, "aioflow-files-past-the-cache"))
        return _PastTheCache(direct, file, threads)
    return None


def _gather(views: Sequence[memoryview], buffer: Any) -> None:
    """Fill the buffer; not by `memoryview`, which would let nobody else run."""
    filled = 0
    for view in views:
        np.copyto(buffer[filled : filled + len(view)], np.frombuffer(view, np.uint8))
        filled += len(view)


def _spans(parts: Iterable[memoryview], size: int) -> Iterator[list[memoryview]]:
    """The same bytes, so many at a time, in a few pieces."""
    views, room = list[memoryview](), size
    for part in parts:
        while len(part) >= room:
            yield [*views, part[:room]]
            part, views, room = part[room:], [], size
        if len(part):
            views, room = _few(views), room - len(part)
            views.append(part)
    if views:
        yield views


def _few(views: list[memoryview]) -> list[memoryview]:
    """Not more than are written at once."""
    return views if len(views) < _MOST_VIEWS else [memoryview(b"".join(views))]


def _write(file: int, views: list[memoryview], offset: int) -> None:
    while views:
        count = os.pwritev(file, views, offset)
        offset += count
        while views and count >= len(views[0]):
            count -= len(views.pop(0))
        if count:
            views[0] = views[0][count:]
