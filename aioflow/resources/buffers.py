"""Memory for large values, used again.

Most steps make and receive values of the same sizes as the step before, whose memory is free again. New memory must be
zeroed by the system first; on many virtual machines that takes longer than a copy. `heap` lets the C library keep freed
memory, but not blocks of 32 MiB or more, and not all of those that compute threads allocate.
"""

import itertools
import math
import threading
from collections import deque
from typing import Any, Final

import numpy as np

from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.received_memory import ReceivedMemory

SMALLEST: Final = 1 << 17
"""Bytes. Smaller values use memory that the process has already."""
_MOST: Final = 1 << 29
"""The most bytes of free blocks."""
_MANY: Final = 64
"""The most free blocks."""
_BYTE: Final = np.dtype(np.uint8)


class Buffers:
    """Keeps the memory of earlier values, within bounds, and gives it again. Safe to use from any thread.

    Of blocks of the same size it gives the one that was freed last, whose content may still be in the cache.
    """

    def __init__(self) -> None:
        self._free: Final[dict[int, AnyArray]] = {}  # by number, in the order they were freed
        self._numbers: Final[dict[int, list[int]]] = {}  # of the free blocks of each size
        self._serial: Final = itertools.count()
        self._total = 0
        self._returned: Final[deque[AnyArray]] = deque()
        self._lock: Final = threading.Lock()

    def take(self, nbytes: int) -> AnyArray:
        """An array of that many bytes, of any content, for a received value."""
        return self.empty((nbytes,), _BYTE, _Received)

    def empty(self, shape: tuple[int, ...], dtype: "np.dtype[Any]", owner: "type[_Lent] | None" = None) -> AnyArray:
        """An array of any content in such memory, which is the caller's as long as anything that shares it lives."""
        nbytes = math.prod(shape) * dtype.itemsize
        if not SMALLEST <= nbytes <= _MOST:
            return np.empty(shape, dtype)
        block = self._fitting(nbytes)
        lent = np.asarray((owner or _Lent)(self, np.empty(nbytes, np.uint8) if block is None else block))
        return np.ndarray(shape, dtype, lent)

    def _fitting(self, nbytes: int) -> AnyArray | None:
        """The smallest free block that fits, of which at most a seventeenth is too much; None if there is none."""
        with self._lock:
            self._keep_returned()
            size: int | None = nbytes
            if nbytes not in self._numbers:
                size = min([size for size in self._numbers if 16 * nbytes <= 16 * size <= 17 * nbytes], default=None)
            return None if size is None else self._removed(size, -1)

    def give_back(self, block: AnyArray) -> None:
        """Keep a free block. If all are too many or too large, the system gets the first ones.

        The garbage collector may call it at any time, also while this thread holds the lock: then the next call does.
        """
        self._returned.append(block)
        if self._lock.acquire(blocking=False):
            try:
                self._keep_returned()
            finally:
                self._lock.release()

    def _keep_returned(self) -> None:
        while self._returned:
            block, number = self._returned.popleft(), next(self._serial)
            self._free[number] = block
            self._numbers.setdefault(block.nbytes, []).append(number)
            self._total += block.nbytes
            while len(self._free) > _MANY or self._total > _MOST:
                self._removed(next(iter(self._free.values())).nbytes, 0)

    def _removed(self, size: int, place: int) -> AnyArray:
        """A free block of that size, which is free no more: the one at that place among them."""
        numbers = self._numbers[size]
        block = self._free.pop(numbers.pop(place))
        if not numbers:
            del self._numbers[size]
        self._total -= size
        return block


class _Lent:
    """A block for as long as an array over it lives."""

    def __init__(self, owner: Buffers, block: AnyArray) -> None:
        self._owner: Final = owner
        self._block: Final = block
        self.__array_interface__: Final = block.__array_interface__

    def __del__(self) -> None:
        self._owner.give_back(self._block)


class _Received(_Lent, ReceivedMemory):
    """A block for a received value."""


BUFFERS: Final = Buffers()
"""Those of this process."""
