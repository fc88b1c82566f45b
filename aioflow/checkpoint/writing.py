"""Writes the bytes of a file in spans. Large files bypass the page cache, where their file system permits it.

A write through the cache occupies a core while it copies, and takes several times its size of the memory bandwidth,
which computations need at the same time. Without the cache the disk fetches the bytes itself, from aligned memory: the
bytes are first copied into one of two small buffers, which stay in the processor's cache. One buffer is filled while
the disk reads the other.
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
"""Cached writes begin and end at multiples of this: within a large page of the file they cost several times as much."""
BLOCK: Final = 1 << 20
"""Bytes of one write that bypasses the cache; a span is a multiple of it."""
_MOST_VIEWS: Final = 512


def write_all(place: str, file: int, parts: Iterable[memoryview]) -> None:
    """Write the parts to the file, one after another. They are on the disk once the caller has synced the file.

    Args:
        place: its path.
        file: descriptor of an empty file, open for writing. Nobody else writes to it.
        parts: each is read once, in turn.
    """
    with contextlib.ExitStack() as stack:
        direct_writer: _DirectWriter | None = None
        for number, views in enumerate(_split(parts, SPAN)):
            whole = sum(map(len, views)) == SPAN
            if whole and not number:
                direct_writer = _direct_writer(place, file, stack)
            if whole and direct_writer is not None:
                direct_writer.write(views, number * SPAN)
            else:
                _write(file, views, number * SPAN)
        if direct_writer is not None:
            direct_writer.settle()


class _DirectWriter:
    """Writes to a file by a descriptor that bypasses the page cache."""

    def __init__(self, direct: int, file: int, threads: ThreadPoolExecutor) -> None:
        """OSError if the file system does not permit it."""
        self._files: Final = direct, file
        self._threads: Final = threads
        self._buffers: Final = [np.frombuffer(mmap.mmap(-1, BLOCK), np.uint8) for _ in range(2)]
        self._writing: Final[list[Future[None] | None]] = [None, None]
        os.pwrite(direct, self._buffers[0].data, 0)  # a trial; the bytes are written again later

    def write(self, views: Iterable[memoryview], offset: int) -> None:
        """Write a span, or begin to. OSError if this write or an earlier one failed."""
        places = range(offset, offset + SPAN, BLOCK)
        for turn, place, few in zip(itertools.cycle((0, 1)), places, _split(views, BLOCK), strict=False):
            self._settle(turn)
            _fill_buffer(few, self._buffers[turn])
            self._begin(turn, place)

    def _begin(self, turn: int, place: int) -> None:
        try:
            self._writing[turn] = self._threads.submit(self._write_buffer, self._buffers[turn], place)
        except RuntimeError:  # a finalizing interpreter starts no threads
            self._write_buffer(self._buffers[turn], place)

    def settle(self) -> None:
        """Wait until all bytes are written. OSError if a write failed."""
        for turn in range(len(self._writing)):
            self._settle(turn)

    def _settle(self, turn: int) -> None:
        writing, self._writing[turn] = self._writing[turn], None
        if writing is not None:
            writing.result()

    def _write_buffer(self, buffer: Any, place: int) -> None:
        direct, file = self._files
        try:
            count = os.pwrite(direct, buffer.data, place)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            count = 0  # the file system refuses a part, as at a limit of size
        if count < BLOCK:  # the rest may not begin at a block of the disk
            _write(file, [buffer.data[count:]], place + count)


def _direct_writer(place: str, file: int, stack: contextlib.ExitStack) -> _DirectWriter | None:
    """Return a writer that bypasses the cache; None if the file system does not permit it."""
    with contextlib.suppress(OSError, AttributeError):  # some systems have no such flag
        direct = os.open(place, os.O_WRONLY | os.O_DIRECT | os.O_NOFOLLOW | os.O_CLOEXEC)
        stack.callback(os.close, direct)
        threads = stack.enter_context(ThreadPoolExecutor(2, "aioflow-files-past-the-cache"))
        return _DirectWriter(direct, file, threads)
    return None


def _fill_buffer(views: Sequence[memoryview], buffer: Any) -> None:
    """Fill the buffer. NumPy copies without the GIL; a memoryview would hold it."""
    filled = 0
    for view in views:
        np.copyto(buffer[filled : filled + len(view)], np.frombuffer(view, np.uint8))
        filled += len(view)


def _split(parts: Iterable[memoryview], size: int) -> Iterator[list[memoryview]]:
    """Yield the same bytes in groups of `size`, each as a few views."""
    views, room = list[memoryview](), size
    for part in parts:
        while len(part) >= room:
            yield [*views, part[:room]]
            part, views, room = part[room:], [], size
        if len(part):
            views, room = _limit_views(views), room - len(part)
            views.append(part)
    if views:
        yield views


def _limit_views(views: list[memoryview]) -> list[memoryview]:
    """Join the views if one system call cannot write that many."""
    return views if len(views) < _MOST_VIEWS else [memoryview(b"".join(views))]


def _write(file: int, views: list[memoryview], offset: int) -> None:
    while views:
        count = os.pwritev(file, views, offset)
        offset += count
        while views and count >= len(views[0]):
            count -= len(views.pop(0))
        if count:
            views[0] = views[0][count:]
