"""Memory that other processes of this host can map: a value in it is sent to them without a copy.

A value for peers is best computed in such memory. A large variable moves into it when it, or a part of it, is first
sent. It stays there through reads and updates, so that later reads of peers take no copy either. A change is made in
place only if no peer has the memory.
"""

import math
import threading
import weakref
from typing import Any, Final, Protocol

import numpy as np

from aioflow.resources.buffers import BUFFERS, SMALLEST
from aioflow.tensors.as_array import AnyArray

MOVED: Final = 1 << 19
"""Bytes. A smaller variable does not move: a copy of it takes less time than the rest of a message."""
_MOST_MOVED: Final = 16
"""Variables that move, at most: a process has a bounded number of pieces of such memory."""
_MOVED_PART: Final = 2
"""Variables take at most this part of the memory."""


class Lender(Protocol):
    """The owner of the memory. May be used in any thread."""

    @property
    def most(self) -> int:
        """The bytes that it has at most."""

    def take(self, nbytes: int) -> AnyArray | None:
        """An array of `nbytes` bytes with any content; None if the memory does not suffice."""

    def has(self, array: AnyArray) -> bool:
        """Whether the array is in its memory."""

    def is_unshared(self, array: AnyArray) -> bool:
        """Whether the array is in its memory, and neither a peer nor another array of this process uses it there."""

    def tidy(self) -> None:
        """Give the system memory that is free, except what is worth keeping."""


class Movable(Protocol):
    """A holder of a value that can move into the memory."""

    def present(self) -> Any:
        """The value; None if there is none."""

    def move(self, value: AnyArray, copy: AnyArray) -> None:
        """Hold `copy`, which has the same elements, in place of `value`, unless that is the value no longer."""


class LendableMemory:
    """Such memory of this process. There is none before `provide`. May be used in any thread."""

    def __init__(self) -> None:
        self._lender: Lender | None = None
        self._holders: Final[weakref.WeakSet[Movable]] = weakref.WeakSet()
        self._lock: Final = threading.Lock()
        self._moving: Final[set[int]] = set()
        """The addresses of values that are copied now since parts of them were sent."""

    def provide(self, lender: Lender) -> None:
        """Take memory of this owner."""
        self._lender = lender

    def take(self, shape: tuple[int, ...], dtype: "np.dtype[Any]") -> AnyArray | None:
        """An array of any content in such memory; None if it is small or there is no memory for it."""
        nbytes = math.prod(shape) * dtype.itemsize
        memory = self._lender.take(nbytes) if self._lender is not None and nbytes >= SMALLEST else None
        return None if memory is None else memory.view(dtype).reshape(shape)

    def empty(self, shape: tuple[int, ...], dtype: "np.dtype[Any]") -> AnyArray:
        """An array of any content, in such memory if possible, else in other memory."""
        taken = self.take(shape, dtype)
        return BUFFERS.empty(shape, dtype) if taken is None else taken

    def has(self, value: Any) -> bool:
        """Whether a value is in such memory."""
        if self._lender is None or not isinstance(value, np.ndarray) or value.base is None:
            return False
        return self._lender.has(value)

    def is_unshared(self, value: AnyArray) -> bool:
        """Whether a value is in such memory, and nothing else uses it there: then it may change in place."""
        return self._lender is not None and self._lender.is_unshared(value)

    def tidy(self) -> None:
        """Give the system memory that is free now, except what is worth keeping."""
        if self._lender is not None:
            self._lender.tidy()

    # Variables

    def register(self, holder: Movable) -> None:
        """Let the value of this holder move."""
        with self._lock:
            self._holders.add(holder)

    def sent(self, data: AnyArray, copy: AnyArray, most: int) -> None:
        """Let the variable move whose value has these bytes, which were copied into such memory to be sent.

        If they are a part of the value, the whole is copied, unless it has more than `most` bytes.
        """
        if data.nbytes < MOVED:
            return
        with self._lock:
            holders = list(self._holders)
        for holder in holders:
            value = holder.present()
            if not _has(value, data) or not self._may_move(value.nbytes, holders):
                continue
            if value.nbytes == data.nbytes:
                holder.move(value, copy.view(value.dtype).reshape(value.shape))
            elif value.nbytes <= most:
                self._move_whole(holder, value)

    def _move_whole(self, holder: Movable, value: AnyArray) -> None:
        """Copy a value and let its holder move, unless another thread does that now."""
        address = value.ctypes.data
        with self._lock:
            if address in self._moving:
                return
            self._moving.add(address)
        try:
            copy = self.take(value.shape, value.dtype) if holder.present() is value else None
            if copy is not None:
                np.copyto(copy, value)
                holder.move(value, copy)
        finally:
            with self._lock:
                self._moving.discard(address)

    def _may_move(self, nbytes: int, holders: list[Movable]) -> bool:
        moved = [value.nbytes for holder in holders if self.has(value := holder.present())]
        most = self._lender.most // _MOVED_PART if self._lender is not None else 0
        return len(moved) < _MOST_MOVED and sum(moved) + nbytes <= most


def _has(value: Any, data: AnyArray) -> bool:
    """Whether a value has these bytes, at the same place in memory."""
    if not isinstance(value, np.ndarray) or not value.flags.c_contiguous:
        return False
    return 0 <= data.ctypes.data - value.ctypes.data <= value.nbytes - data.nbytes


LENDABLE: Final = LendableMemory()
"""That of this process, which `net` provides."""
