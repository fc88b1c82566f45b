"""Memory for large values, used again.

Most steps make and receive values of the same sizes as the step before, whose memory is free again. New memory must be
zeroed by the system first; on many virtual machines that takes longer than a copy.
"""

import math
import sys
import threading
from typing import Any, Final

import numpy as np

from aioflow.tensors.as_array import AnyArray

COUNTS_ARE_EXACT: Final = getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether reference counts show other holders of a value: not in free-threaded Python."""
SMALLEST: Final = 1 << 17
"""Bytes. Smaller values use memory that the process has already."""
_MOST: Final = 1 << 28
"""Bytes that are kept at most."""
_MANY: Final = 64
"""So many pieces are kept at most."""


class Buffers:
    """Keeps the memory of earlier values, within bounds, and gives it again when no other object refers to it."""

    def __init__(self) -> None:
        self._kept: Final[list[AnyArray]] = []
        self._lock: Final = threading.Lock()

    def take(self, nbytes: int) -> AnyArray:
        """So many bytes of any content, which are the caller's as long as anything that shares them lives."""
        if not COUNTS_ARE_EXACT or not SMALLEST <= nbytes <= _MOST:
            return np.empty(nbytes, np.uint8)
        with self._lock:
            found = self._free(nbytes)
            if found is None:
                found = np.empty(nbytes, np.uint8)
            self._kept.append(found)
            self._shrink()
        return np.frombuffer(found.data, np.uint8)  # an owner of its own, which dies with the value

    def empty(self, shape: tuple[int, ...], dtype: "np.dtype[Any]") -> AnyArray:
        """An array of any content in such memory."""
        return self.take(math.prod(shape) * dtype.itemsize).view(dtype).reshape(shape)

    def _free(self, nbytes: int) -> AnyArray | None:
        for place in range(len(self._kept)):
            if self._kept[place].nbytes == nbytes and sys.getrefcount(self._kept[place]) == _ONLY_OURS:
                return self._kept.pop(place)
        return None

    def _shrink(self) -> None:
        while len(self._kept) > _MANY or sum([array.nbytes for array in self._kept]) > _MOST:
            del self._kept[0]


_ONE: Final = [object()]
_ONLY_OURS: Final = sys.getrefcount(_ONE[0])
"""The reference count of an object that only a list refers to."""

BUFFERS: Final = Buffers()
"""Those of this process."""
