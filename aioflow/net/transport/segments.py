"""Shared memory by which processes of one host pass large values.

A process copies values into a segment of its pool and lends the segment to a peer, which maps it. Once the peer uses
the memory no longer, it gives the segment back, and the pool takes it for other values. Fresh memory would cost more
than a copy through a socket, because the system zeroes it page by page.

A segment is a sealed memfd: it has no name in the system and vanishes with the last process that maps it, it cannot
shrink below a reader, and only its owner can write to it.
"""

import asyncio
import fcntl
import functools
import mmap
import os
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import numpy as np

from aioflow.net.wire.framing import offsets
from aioflow.plan.allocation import machine_memory
from aioflow.resources.lendable import LENDABLE
from aioflow.resources.reference_counts import COUNTS_ARE_EXACT
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.lent_memory import LentMemory

_SEALS: Final = 0x0001 | 0x0002 | 0x0004 | 0x0010
"""F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_FUTURE_WRITE of Linux."""
_ADD_SEALS: Final = 1033
_GET_SEALS: Final = 1034
_PAGES: Final = 1 << 16
_KEPT: Final = 1 << 30
"""Bytes of free segments that a process keeps at most."""
_MANY: Final = 64
"""Segments of a process, at most: each takes two descriptors of it, and one of each peer."""
_PART: Final = 4
"""The segments of a process take at most this part of the memory that it can have."""
_NAME: Final = "aioflow"
_INLINE: Final = 1 << 22
"""Bytes that are copied in the loop's thread: in a millisecond at most."""

Values = Sequence[Sequence[bytes | memoryview]]
"""The buffers of each value."""


class SharedMemoryError(Exception):
    """A segment that a peer offers breaks the rules."""


class User(Protocol):
    """A channel whose peer maps a segment."""

    def dropped(self, segment: "Segment") -> None:
        """The pool drops the segment. May be called in any thread."""


class Segment:
    """Shared memory of this process.

    Attributes:
        memory: all its bytes.
        key: its key in pools.
        start: their address.
        loans: how many times it is lent.
        users: the channels whose peers map it.
        is_dropped: whether its pool uses it no longer.
    """

    def __init__(self, nbytes: int) -> None:
        """OSError if there is no such memory."""
        self._file: Final = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.loans: int = 0
        self.users: Final[weakref.WeakSet[User]] = weakref.WeakSet()
        self.is_dropped: bool = False
        try:
            os.posix_fallocate(self._file, 0, nbytes)  # an error here, where a later page would kill the process
            self._map: Final = mmap.mmap(self._file, nbytes, mmap.MAP_SHARED)
            fcntl.fcntl(self._file, _ADD_SEALS, _SEALS)
        except BaseException:
            os.close(self._file)
            raise
        self.memory: Final[AnyArray] = np.frombuffer(self._map, np.uint8)
        self.key: Final = id(self._map)
        self.start: Final[int] = self.memory.__array_interface__["data"][0]
        weakref.finalize(self, os.close, self._file)

    def fileno(self) -> int:
        """The file of the memory, which can be sent to another process."""
        return self._file

    def array(self, nbytes: int) -> AnyArray:
        """Its first bytes. The owner of the array is of this array and its views alone, and dies with them."""
        return np.frombuffer(self._map, np.uint8, nbytes)[:]

    @property
    def is_free(self) -> bool:
        """Whether nothing uses its memory in this process, and no peer has it."""
        return self.is_used_by(0)

    def is_used_by(self, arrays: int) -> bool:
        """Whether arrays of exactly as many owners use its memory, and no peer has it. Hold the pool's lock."""
        alone = sys.getrefcount(self.memory) == _ONLY_OURS
        return alone and not self.loans and sys.getrefcount(self._map) == _ONLY_OURS + 1 + arrays


class _Holder:
    def __init__(self) -> None:
        self.held: Final = np.empty(0)

    @property
    def count(self) -> int:
        """As `Segment.is_used_by` counts."""
        return sys.getrefcount(self.held)


_ONLY_OURS: Final = _Holder().count


class SegmentPool:
    """The segments of a process, which are used again. May be used in any thread.

    Attributes:
        most: the bytes of all segments, at most.
    """

    def __init__(self, most: int, kept: int = _KEPT) -> None:
        """A pool without segments.

        Args:
            most: the bytes of all segments.
            kept: the bytes of free segments.
        """
        self.most: Final[int] = most
        self._kept: Final = kept
        self._segments: Final[dict[int, Segment]] = {}
        """By their keys, in the order in which they were made."""
        self._lock: Final = threading.Lock()

    @property
    def nbytes(self) -> int:
        """The bytes of its segments."""
        return sum([one.memory.nbytes for one in self._segments.values()])

    def reuse(self, nbytes: int) -> Segment | None:
        """A free segment of at least `nbytes` bytes, lent once; None if there is none."""
        size = _rounded(nbytes)
        with self._lock:
            found = next((one for one in self._segments.values() if one.memory.nbytes == size and one.is_free), None)
            if found is not None:
                found.loans = 1
            return found

    def create(self, nbytes: int) -> Segment | None:
        """A new segment of at least `nbytes` bytes, lent once; None if the limits leave no memory for it.

        This takes as long as the system needs to zero the memory.
        """
        size = _rounded(nbytes)
        with self._lock:
            self._shrink(self.most - size, _MANY - 1)
            if self.nbytes + size > self.most or len(self._segments) >= _MANY:
                return None
        try:
            found = Segment(size)
        except OSError:
            return None
        found.loans = 1
        with self._lock:
            self._segments[found.key] = found
        return found

    def take(self, nbytes: int) -> AnyArray | None:
        """So many bytes of any content in a segment of their own, which is free when no array uses them any more.

        None if the limits leave no memory for them.
        """
        segment = self.reuse(nbytes) or self.create(nbytes)
        if segment is None:
            return None
        found = segment.array(nbytes)
        self.give_back(segment)
        return found

    def lend(self, buffer: bytes | memoryview) -> "Piece | None":
        """Lend the segment that has these bytes, in an array that `take` gave or a view of it; None if none has."""
        with self._lock:
            segment = self._segments.get(_key_of(buffer.obj)) if isinstance(buffer, memoryview) else None
            if segment is None:
                return None
            segment.loans += 1
            start = np.frombuffer(buffer, np.uint8).__array_interface__["data"][0] - segment.start
            return Piece(self, segment, [len(buffer)], start)

    def has(self, array: AnyArray) -> bool:
        """Whether the array is in one of the segments."""
        return _key_of(array) in self._segments

    def is_unshared(self, array: AnyArray) -> bool:
        """Whether the array is in a segment, and neither a peer nor another array of this process uses it there."""
        with self._lock:
            segment = self._segments.get(_key_of(array))
            return segment is not None and segment.is_used_by(1) and _owner_references(array) == _ONLY_OURS

    def give_back(self, segment: Segment) -> None:
        """End one loan."""
        with self._lock:
            segment.loans -= 1
            if not segment.loans:
                self._shrink(self.most, _MANY)

    def tidy(self) -> None:
        """Drop the free segments beyond those that are kept."""
        with self._lock:
            self._shrink(self.most, _MANY)

    def discard(self, segment: Segment) -> None:
        """Do not use that segment again: a lost peer may still read it."""
        with self._lock:
            if segment.key in self._segments:
                self._drop(segment)

    def _shrink(self, most: int, many: int) -> None:
        """Drop free segments, the oldest ones first, until at most `most` bytes and `many` segments are left."""
        free = [one for one in self._segments.values() if one.is_free]
        surplus = max(self.nbytes - most, sum([one.memory.nbytes for one in free]) - self._kept)
        for segment in free:
            if surplus <= 0 and len(self._segments) <= many:
                break
            surplus -= segment.memory.nbytes
            self._drop(segment)

    def _drop(self, segment: Segment) -> None:
        del self._segments[segment.key]
        segment.is_dropped = True
        for user in list(segment.users):
            user.dropped(segment)


def _rounded(nbytes: int) -> int:
    """A size for many similar values: at most an eighth more."""
    step = max(_PAGES, 1 << max(0, nbytes.bit_length() - 4))
    return -(-nbytes // step) * step


@functools.cache
def pool() -> SegmentPool | None:
    """The pool of this process; None if the system has no such memory."""
    if not COUNTS_ARE_EXACT or not hasattr(os, "memfd_create"):
        return None
    try:
        Segment(_PAGES)
    except OSError:
        return None  # an old kernel, or a sandbox
    found = SegmentPool(machine_memory() // _PART)
    LENDABLE.provide(found)
    return found


class Piece:
    """Values in a segment that is lent for them.

    Attributes:
        segment: the segment.
        start: where the values begin in it.
        nbytes: the bytes of the values, and of the gaps between them.
    """

    def __init__(self, pool: SegmentPool, segment: Segment, sizes: Sequence[int], start: int = 0) -> None:
        self.segment: Final = segment
        self.start: Final = start
        self._pool: Final = pool
        starts, nbytes = offsets(sizes)
        self.nbytes: Final[int] = nbytes
        self._spans: Final = [(start + at, size) for at, size in zip(starts, sizes, strict=True)]

    def views(self) -> list[memoryview]:
        """The bytes of each value."""
        return [self.segment.memory[start : start + size].data for start, size in self._spans]

    def fill(self, values: Values) -> None:
        """Copy the buffers of each value."""
        for (at, _), buffers in zip(self._spans, values, strict=True):
            for buffer in buffers:
                np.copyto(self.segment.memory[at : at + len(buffer)], np.frombuffer(buffer, np.uint8))
                at += len(buffer)

    def release(self) -> None:
        """End the loan. It may be ended once, here or by the peer."""
        self._pool.give_back(self.segment)


def copied_at_once(pool: SegmentPool, values: Values) -> Piece | None:
    """The values in shared memory; None if to copy them takes long, or needs new memory.

    One value that is in a segment already is not copied.
    """
    if len(values) == len(values[0]) == 1 and (lent := pool.lend(values[0][0])) is not None:
        return lent
    sizes = [sum(map(len, buffers)) for buffers in values]
    nbytes = offsets(sizes)[1]
    segment = pool.reuse(nbytes) if nbytes <= _INLINE else None
    return None if segment is None else _filled(pool, segment, sizes, values, _INLINE)


async def copied(pool: SegmentPool, values: Values) -> Piece | None:
    """The values in shared memory; None if there is no memory for them. A thread copies what takes long."""
    found = copied_at_once(pool, values)
    if found is not None:
        return found
    sizes = [sum(map(len, buffers)) for buffers in values]
    nbytes = offsets(sizes)[1]

    def work() -> Piece | None:
        found = pool.reuse(nbytes) or pool.create(nbytes)
        return None if found is None else _filled(pool, found, sizes, values, pool.most)

    piece = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(piece)
    except asyncio.CancelledError:
        piece.add_done_callback(_release)
        raise


def _filled(pool: SegmentPool, segment: Segment, sizes: Sequence[int], values: Values, most: int) -> Piece:
    """The values in a segment. A variable whose value they are, or a part, moves into shared memory too.

    Of a part the whole value is copied for that, if it has at most `most` bytes.
    """
    piece = Piece(pool, segment, sizes)
    piece.fill(values)
    if len(values) == len(values[0]) == 1:
        LENDABLE.sent(np.frombuffer(values[0][0], np.uint8), segment.array(sizes[0]), most)
    return piece


def _key_of(array: object) -> int:
    """The key of the segment in which an array is, as `Segment.array` makes it; -1 if it is in none."""
    owner = array.base if isinstance(array, np.ndarray) else None
    memory = owner.base if isinstance(owner, np.ndarray) else None
    return id(memory.obj) if isinstance(memory, memoryview) else -1


def _owner_references(array: AnyArray) -> int:
    """How many references there are to the owner of the memory of an array."""
    return sys.getrefcount(array.base)


def _release(work: "asyncio.Future[Piece | None]") -> None:
    piece = None if work.cancelled() or work.exception() else work.result()
    if piece is not None:
        piece.release()


# What the peer sees


class Mapped:
    """A peer's segment, mapped into this process.

    Attributes:
        nbytes: its size.
    """

    def __init__(self, file: int, private: bool) -> None:
        """Map it, and close the file.

        Args:
            file: its descriptor.
            private: whether this process may write to its view of the memory, which no other process sees.

        Raises SharedMemoryError if the owner could shrink it: then to read it could kill this process.
        """
        try:
            if fcntl.fcntl(file, _GET_SEALS) & _SEALS != _SEALS:
                raise SharedMemoryError("shared memory came that is not sealed")
            self.nbytes: Final = os.fstat(file).st_size
            if private:
                self._map: mmap.mmap = mmap.mmap(file, self.nbytes, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
            else:
                self._map = LentMemory(file, self.nbytes, mmap.MAP_SHARED, mmap.PROT_READ)
        except (OSError, ValueError) as error:
            raise SharedMemoryError(f"a file that came is no shared memory: {error}") from None
        finally:
            os.close(file)

    def view(self, start: int, nbytes: int, release: Callable[[], Any]) -> AnyArray:
        """Bytes of it. `release` is called, in any thread, when no array uses them any more."""
        found: AnyArray = np.frombuffer(self._map, np.uint8, nbytes, start)
        weakref.finalize(found, release).atexit = False
        return found
