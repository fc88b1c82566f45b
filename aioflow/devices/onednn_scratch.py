"""Scratch memory for routines of oneDNN: one piece for each thread, and the places of values in it."""

import threading
from typing import Final

import numpy as np

from aioflow.tensors.dtypes import Array

LINE: Final = 64
"""The bytes of a cache line, to which scratch memory is aligned."""
KEPT: Final = 64 << 20
"""The most bytes of scratch memory that a thread keeps between calls."""


class _Scratch(threading.local):
    """The scratch memory of this thread."""

    def __init__(self) -> None:
        self._buffer = np.empty(0, np.uint8)
        self._line: tuple[Array, int] = (self._buffer, 0)
        self._fits = 0

    def take(self, size: int) -> Array:
        """Return at least `size` bytes."""
        if size > KEPT:
            return np.empty(size, np.uint8)
        if self._buffer.size < size:
            self._buffer = np.empty(size, np.uint8)
        return self._buffer

    def lines(self, size: int) -> tuple[Array, int]:
        """Return such memory and the address of its first cache line, from which there are `size` bytes."""
        if size <= self._fits:
            return self._line
        memory = self.take(size + LINE)
        line = memory, -(-memory.ctypes.data // LINE) * LINE
        if memory is self._buffer:
            self._line, self._fits = line, memory.size - LINE
        return line


SCRATCH: Final = _Scratch()
"""The scratch memory of routines, and of copies for the length of one call."""


class _Block:
    """The memory of one value. `first` and `last` are the numbers of the steps between which it is in use."""

    def __init__(self, size: int) -> None:
        self.size: Final = -(-size // LINE) * LINE
        self.first: int | None = None
        self.last = -1
        self.offset = 0

    def meets(self, other: "_Block") -> bool:
        """Whether both are in use at the same time."""
        if self.first is None or other.first is None:
            return False
        return self.first <= other.last and other.first <= self.last


class ScratchPlan:
    """The places of the values between the steps of a routine. Values in use at different times share bytes."""

    def __init__(self) -> None:
        self._blocks: Final[list[_Block]] = []

    def add(self, size: int) -> int:
        """Return the number of a new block of `size` bytes."""
        self._blocks.append(_Block(size))
        return len(self._blocks) - 1

    def use(self, number: int, step: int) -> None:
        """Step `step` reads or writes the block. Steps are named in their order."""
        block = self._blocks[number]
        block.first = step if block.first is None else block.first
        block.last = step

    def place(self) -> tuple[list[int], int]:
        """Return the offset of each block, and the bytes of all: large blocks first, each at the first free place."""
        placed: list[_Block] = []
        for block in sorted(self._blocks, key=lambda block: -block.size):
            block.offset = self._free_place(block, placed)
            placed.append(block)
        end = max([block.offset + block.size for block in placed], default=0)
        return [block.offset for block in self._blocks], end

    @staticmethod
    def _free_place(block: _Block, placed: list[_Block]) -> int:
        offset = 0
        for other in sorted(filter(block.meets, placed), key=lambda other: other.offset):
            if offset + block.size <= other.offset:
                break
            offset = max(offset, other.offset + other.size)
        return offset
