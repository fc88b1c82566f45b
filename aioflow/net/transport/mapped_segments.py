"""Shared memory of a peer, as this process sees it: mapped, read, and lent on to other peers.

A value that came in a peer's segment and goes on to a third process is not copied: the third process maps the same
segment. This process gives the segment back to its owner only after the third process has given it back, so the owner
cannot change the memory before. If the third process is lost, the owner is told to discard the segment.
"""

import atexit
import contextlib
import fcntl
import mmap
import os
import weakref
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aioflow.net.transport.segments import SEALS, LendableSegment, SegmentPool, SharedMemoryError, address_of
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.lent_memory import LentMemory

_GET_SEALS: Final = 1034
_READ_WRITE: Final = mmap.PROT_READ | mmap.PROT_WRITE
_MAPPED: Final = 1 << 18
"""Bytes of a second view of a segment from which it gets a mapping of its own. A smaller view is copied."""
_MOST: Final = 4
"""The most private mappings of one segment. While each has a view, further views are copied."""


class _Watch(weakref.ref[AnyArray]):
    """A reference to lent bytes, with the function that ends the loan. `weakref.finalize` takes five times as long."""

    __slots__ = ("release",)
    release: Callable[[], Any]


_WATCHES: Final[dict[int, _Watch]] = {}
"""Those of all lent bytes. At the exit of the process no loan need be ended."""
atexit.register(_WATCHES.clear)


def _ended(watch: Any) -> None:
    del _WATCHES[id(watch)]
    watch.release()


class _PrivateMapping:
    """A mapping in which this process may write, for one view at a time.

    Attributes:
        viewed: returns its view; None after the last array of it.
    """

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory: Final = memory
        self.viewed: Callable[[], AnyArray | None] = lambda: None

    def view(self, start: int, nbytes: int) -> AnyArray:
        """Bytes of it, as they are in the file: pages that an earlier view has written are dropped."""
        self._memory.madvise(mmap.MADV_DONTNEED)
        found: AnyArray = np.frombuffer(self._memory, np.uint8, nbytes, start)
        self.viewed = weakref.ref(found)
        return found


def _mapped_privately(file: int, nbytes: int) -> mmap.mmap:
    return mmap.mmap(file, nbytes, mmap.MAP_PRIVATE, _READ_WRITE)


class Mapped(LendableSegment):
    """A peer's segment, mapped into this process.

    Attributes:
        nbytes: its size.
    """

    def __init__(self, file: int, private: bool, on_discard: Callable[[], Any]) -> None:
        """Map it, and own the file.

        Args:
            file: its descriptor.
            private: whether this process may write to its views of the memory. Nothing else sees what it writes there:
                no other process, and no other view.
            on_discard: called when the owner must not write to it again, since a lost process may still read it.

        Raises SharedMemoryError if the owner could shrink it: then to read it could kill this process.
        """
        try:
            if fcntl.fcntl(file, _GET_SEALS) & SEALS != SEALS:
                raise SharedMemoryError("shared memory came that is not sealed")
            self.nbytes: Final = os.fstat(file).st_size
            if private:
                self._map: mmap.mmap = _mapped_privately(file, self.nbytes)
            else:
                self._map = LentMemory(file, self.nbytes, mmap.MAP_SHARED, mmap.PROT_READ)
        except BaseException as error:
            os.close(file)
            if isinstance(error, (OSError, ValueError)):
                raise SharedMemoryError(f"a file that came is no shared memory: {error}") from None
            raise
        weakref.finalize(self, os.close, file)
        self._file: Final = file
        self._private: Final = [_PrivateMapping(self._map)] if private else []
        self.memory = np.frombuffer(self._map, np.uint8)
        self.key = id(self._map)
        self.start = address_of(self.memory)
        self.users = weakref.WeakSet()
        self.is_dropped = False
        self._on_discard: Final = on_discard
        self._lent: Final[list[memoryview]] = []
        """Bytes of it that are lent on. They keep the loan of this process."""

    def view(self, start: int, nbytes: int, release: Callable[[], Any]) -> AnyArray:
        """Bytes of it. `release` is called, in any thread, when no array uses them any more."""
        found = self._own_view(start, nbytes) if self._private else self._shared_view(start, nbytes)
        watch = _Watch(found, _ended)
        watch.release = release
        _WATCHES[id(watch)] = watch
        return found

    def _shared_view(self, start: int, nbytes: int) -> AnyArray:
        return np.frombuffer(self._map, np.uint8, nbytes, start)

    def _own_view(self, start: int, nbytes: int) -> AnyArray:
        """The owner's bytes, in pages that no other view has."""
        mapping = next((each for each in self._private if each.viewed() is None), None)
        if mapping is None and nbytes >= _MAPPED and len(self._private) < _MOST:
            with contextlib.suppress(OSError):  # the process has as many mappings as the system allows
                mapping = _PrivateMapping(_mapped_privately(self._file, self.nbytes))
                self._private.append(mapping)
        return self._copy(start, nbytes) if mapping is None else mapping.view(start, nbytes)

    def _copy(self, start: int, nbytes: int) -> AnyArray:
        found, done = np.empty(nbytes, np.uint8), 0
        while done < nbytes:
            done += os.preadv(self._file, [found[done:].data], start + done)
        return found

    # Lending it on

    def fileno(self) -> int:
        """The file of the memory, which can be sent to another process."""
        return self._file

    @property
    def loans(self) -> int:
        """How many times it is lent on."""
        return len(self._lent)

    def begin_loan(self, buffer: memoryview) -> None:
        """Lend it on once, for these of its bytes."""
        self._lent.append(buffer)

    def end_loan(self) -> None:
        """End one loan. The owner counts the loans of the whole segment, so any of them will do."""
        if self._lent:  # else it was discarded
            self._lent.pop()

    def discard(self, pool: SegmentPool) -> None:
        """The owner does not write to it again; so no loan need keep that of this process."""
        if self._lent:
            self._on_discard()
            del self._lent[1:]
            pool.give_back(self)

    def drop(self) -> None:
        """The owner has dropped it, or is lost: it is not lent again."""
        self.is_dropped = True
        for user in list(self.users):
            user.dropped(self)
