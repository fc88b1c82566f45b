"""Memory for large values, used again.

Most steps make and receive values of the same sizes as the step before, whose memory is free again. New memory must be
zeroed by the system first; on many virtual machines that takes longer than a copy. `heap` lets the C library keep freed
memory, but not blocks of 32 MiB or more, and not all of those that compute threads allocate.
"""

import math
import threading
from typing import Any, Final

import numpy as np

from aioflow.tensors.as_array import AnyArray

SMALLEST: Final = 1 << 17
"""Bytes. Smaller values use memory that the process has already."""
_MOST: Final = 1 << 29
"""The most bytes of free blocks."""
_MANY: Final = 64
"""The most free blocks."""


class Buffers:
    """Keeps the memory of earlier values, within bounds, and gives it again. Safe to use from any thread."""

    def __init__(self) -> None:
        self._free: list[AnyArray] = []  # in the order they were freed
        self._lock: Final = threading.RLock()  # the garbage collector may free a block while one is taken

    def take(self, nbytes: int) -> AnyArray:
        """So many bytes of any content, which are the caller's as long as anything that shares them lives."""
        if not SMALLEST <= nbytes <= _MOST:
            return np.empty(nbytes, np.uint8)
        block = self._fitting(nbytes)
        return np.asarray(_Lent(self, np.empty(nbytes, np.uint8) if block is None else block))[:nbytes]

    def empty(self, shape: tuple[int, ...], dtype: "np.dtype[Any]") -> AnyArray:
        """An array of any content in such memory."""
        return self.take(math.prod(shape) * dtype.itemsize).view(dtype).reshape(shape)

    def _fitting(self, nbytes: int) -> AnyArray | None:
        """The smallest free block that fits, of which at most a seventeenth is too much; None if there is none."""
        with self._lock:
            fit = [block for block in self._free if 16 * nbytes <= 16 * block.nbytes <= 17 * nbytes]
            found = min(fit, key=len, default=None)
            if found is not None:
                self._free = [block for block in self._free if block is not found]
            return found

    def give_back(self, block: AnyArray) -> None:
        """Keep a free block. If all are too many or too large, the system gets the first ones."""
        with self._lock:
            self._free.append(block)
            while len(self._free) > _MANY or sum([each.nbytes for each in self._free]) > _MOST:
                del self._free[0]


class _Lent:
    """A block for as long as an array over it lives."""

    def __init__(self, owner: Buffers, block: AnyArray) -> None:
        self._owner: Final = owner
        self._block: Final = block
        self.__array_interface__: Final = block.__array_interface__

    def __del__(self) -> None:
        self._owner.give_back(self._block)


BUFFERS: Final = Buffers()
"""Those of this process."""
