"""Shared memory of a peer, as this process sees it: mapped, read, and lent on to other peers.

A value that came in a peer's segment and goes on to a third process is not copied: the third process maps the same
segment. This process gives the segment back to its owner only after the third process has given it back, so the owner
cannot change the memory before. If the third process is lost, the owner is told to discard the segment.
"""

import atexit
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
                self._map: mmap.mmap = mmap.mmap(file, self.nbytes, mmap.MAP_PRIVATE, _READ_WRITE)
            else:
                self._map = LentMemory(file, self.nbytes, mmap.MAP_SHARED, mmap.PROT_READ)
        except BaseException as error:
            os.close(file)
            if isinstance(error, (OSError, ValueError)):
                raise SharedMemoryError(f"a file that came is no shared memory: {error}") from None
            raise
        weakref.finalize(self, os.close, file)
        self._file: Final = file
        self._private: Final = private
        self._viewed: Callable[[], AnyArray | None] = lambda: None
        """The last view of a private mapping."""
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
        if self._viewed() is None:
            found: AnyArray = np.frombuffer(self._map, np.uint8, nbytes, start)
            self._view_begins(found)
        else:
            found = self._copy(start, nbytes)
        watch = _Watch(found, _ended)
        watch.release = release
        _WATCHES[id(watch)] = watch
        return found

    def _view_begins(self, found: AnyArray) -> None:
        """Bring the bytes of the owner back to pages that an earlier view may have written."""
        if self._private:
            self._map.madvise(mmap.MADV_DONTNEED)
            self._viewed = weakref.ref(found)

    def _copy(self, start: int, nbytes: int) -> AnyArray:
        found, done = np.empty(nbytes, np.uint8), 0
        while done < nbytes:
            done += os.preadv(self._file, [found[done:]], start + done)
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
