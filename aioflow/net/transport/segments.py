"""Shared memory by which processes of one host pass large values.

A process copies values into a segment of its pool and lends the segment to a peer, which maps it. Once the peer uses
the memory no longer, it gives the segment back, and the pool takes it for other values. Fresh memory would cost more
than a copy through a socket, because the system zeroes it page by page. A peer can lend the segment on.

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
from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from aioflow.net.wire.framing import offsets
from aioflow.plan.allocation import machine_memory
from aioflow.resources.lendable import LENDABLE
from aioflow.resources.reference_counts import COUNTS_ARE_EXACT
from aioflow.tensors.as_array import AnyArray

SEALS: Final = 0x0001 | 0x0002 | 0x0004 | 0x0010
"""F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_FUTURE_WRITE of Linux."""
_ADD_SEALS: Final = 1033
_PAGES: Final = 1 << 16
_KEPT: Final = 1 << 30
"""Bytes of free segments that a process keeps at most."""
MANY: Final = 64
"""Segments of a process, and segments that it lends on, at most: each takes two descriptors of it, and of each peer."""
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

    def dropped(self, segment: "LendableSegment") -> None:
        """The pool drops the segment. May be called in any thread."""


class LendableSegment(Protocol):
    """A segment that this process can lend: its own, or one that a peer has lent it.

    Attributes:
        memory: all its bytes.
        key: its key in pools.
        start: their address.
        users: the channels whose peers map it.
        is_dropped: whether it is not lent again.
    """

    memory: AnyArray
    key: int
    start: int
    users: weakref.WeakSet[User]
    is_dropped: bool

    @property
    def loans(self) -> int:
        """How many times it is lent."""

    def fileno(self) -> int:
        """The file of the memory, which can be sent to another process."""

    def begin_loan(self, buffer: memoryview) -> None:
        """Lend it once, for these of its bytes."""

    def end_loan(self) -> None:
        """End one loan."""

    def discard(self, pool: "SegmentPool") -> None:
        """Let no value be written to it again: a lost peer may still read it."""


class Segment(LendableSegment):
    """Shared memory of this process."""

    def __init__(self, nbytes: int) -> None:
        """OSError if there is no such memory."""
        self._file: Final = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.users = weakref.WeakSet()
        self.is_dropped = False
        self._loans = 0
        try:
            os.posix_fallocate(self._file, 0, nbytes)  # an error here, where a later page would kill the process
            self._map: Final = mmap.mmap(self._file, nbytes, mmap.MAP_SHARED)
            fcntl.fcntl(self._file, _ADD_SEALS, SEALS)
        except BaseException:
            os.close(self._file)
            raise
        self.memory = np.frombuffer(self._map, np.uint8)
        self.key = id(self._map)
        self.start = address_of(self.memory)
        weakref.finalize(self, os.close, self._file)

    def fileno(self) -> int:
        """The file of the memory, which can be sent to another process."""
        return self._file

    @property
    def loans(self) -> int:
        """How many times it is lent."""
        return self._loans

    def begin_loan(self, buffer: memoryview | None = None) -> None:
        """Lend it once."""
        self._loans += 1

    def end_loan(self) -> None:
        """End one loan."""
        self._loans -= 1

    def discard(self, pool: "SegmentPool") -> None:
        """The pool does not use it again."""
        pool.discard(self)

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
        nbytes: the bytes of all segments.
    """

    def __init__(self, most: int, kept: int = _KEPT) -> None:
        """A pool without segments.

        Args:
            most: the bytes of all segments.
            kept: the bytes of free segments.
        """
        self.most: Final[int] = most
        self.nbytes: int = 0
        self._kept: Final = kept
        self._segments: Final[dict[int, Segment]] = {}
        """By their keys, in the order in which they were made."""
        self._foreign: Final[weakref.WeakValueDictionary[int, LendableSegment]] = weakref.WeakValueDictionary()
        """The segments that peers have lent, by their keys."""
        self._lent_on: Final[set[int]] = set()
        """The keys of those that are lent on now."""
        self._lock: Final = threading.Lock()

    def reuse(self, nbytes: int) -> Segment | None:
        """A free segment of at least `nbytes` bytes, lent once; None if there is none."""
        size = _rounded(nbytes)
        with self._lock:
            found = next((one for one in self._segments.values() if one.memory.nbytes == size and one.is_free), None)
            if found is not None:
                found.begin_loan()
            return found

    def create(self, nbytes: int) -> Segment | None:
        """A new segment of at least `nbytes` bytes, lent once; None if the limits leave no memory for it.

        This takes as long as the system needs to zero the memory.
        """
        size = _rounded(nbytes)
        with self._lock:
            self._shrink(self.most - size, MANY - 1)
            if self.nbytes + size > self.most or len(self._segments) >= MANY:
                return None
        try:
            found = Segment(size)
        except OSError:
            return None
        found.begin_loan()
        with self._lock:
            self._segments[found.key] = found
            self.nbytes += size
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
        """Lend the segment that has these bytes, in an array that `take` gave or a view of it; None if none has.

        A segment that a peer has lent is lent on: the peer gets it back after this loan has ended. At most `MANY` are
        lent on at a time: a value that goes to and fro between two tasks is lent on once more each time.
        """
        with self._lock:
            segment = self._segment_of(buffer.obj) if isinstance(buffer, memoryview) else None
            if segment is None:
                return None
            assert isinstance(buffer, memoryview)
            segment.begin_loan(buffer)
            return Piece(self, segment, [len(buffer)], address_of(np.frombuffer(buffer, np.uint8)) - segment.start)

    def _segment_of(self, array: object) -> LendableSegment | None:
        key = _key_of(array)
        own = self._segments.get(key)
        if own is not None or (foreign := self._foreign.get(key)) is None:
            return own
        if len(self._lent_on) >= MANY and key not in self._lent_on:
            return None
        self._lent_on.add(key)
        return foreign

    def add_foreign(self, segment: LendableSegment) -> None:
        """Lend that segment on, which a peer has lent, as long as it lives."""
        self._foreign[segment.key] = segment

    def has(self, array: AnyArray) -> bool:
        """Whether the array is in one of the segments."""
        return _key_of(array) in self._segments

    def is_unshared(self, array: AnyArray) -> bool:
        """Whether the array is in a segment, and neither a peer nor another array of this process uses it there."""
        with self._lock:
            segment = self._segments.get(_key_of(array))
            return segment is not None and segment.is_used_by(1) and _owner_references(array) == _ONLY_OURS

    def give_back(self, segment: LendableSegment) -> None:
        """End one loan."""
        with self._lock:
            segment.end_loan()
            if not segment.loans:
                self._lent_on.discard(segment.key)
                self._shrink(self.most, MANY)

    def tidy(self) -> None:
        """Drop the free segments beyond those that are kept."""
        with self._lock:
            self._shrink(self.most, MANY)

    def discard(self, segment: Segment) -> None:
        """Do not use that segment again: a lost peer may still read it."""
        with self._lock:
            if segment.key in self._segments:
                self._drop(segment)

    def _shrink(self, most: int, many: int) -> None:
        """Drop free segments, the oldest ones first, until at most `most` bytes and `many` segments are left."""
        if self.nbytes <= min(most, self._kept) and len(self._segments) <= many:
            return
        free = [one for one in self._segments.values() if one.is_free]
        surplus = max(self.nbytes - most, sum([one.memory.nbytes for one in free]) - self._kept)
        for segment in free:
            if surplus <= 0 and len(self._segments) <= many:
                break
            surplus -= segment.memory.nbytes
            self._drop(segment)

    def _drop(self, segment: Segment) -> None:
        del self._segments[segment.key]
        self.nbytes -= segment.memory.nbytes
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

    def __init__(self, pool: SegmentPool, segment: LendableSegment, sizes: Sequence[int], start: int = 0) -> None:
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


def address_of(array: AnyArray) -> int:
    """Where its bytes begin in memory."""
    found: int = array.__array_interface__["data"][0]
    return found


def _owner_references(array: AnyArray) -> int:
    """How many references there are to the owner of the memory of an array."""
    return sys.getrefcount(array.base)


def _release(work: "asyncio.Future[Piece | None]") -> None:
    piece = None if work.cancelled() or work.exception() else work.result()
    if piece is not None:
        piece.release()
