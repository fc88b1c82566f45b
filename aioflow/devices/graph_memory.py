"""The memory of the arrays of one CUDA graph.

Arrays that are freed during a capture leave their memory to later ones of the same graph, for its kernels run in the
order of the capture. All other arrays get it only after the graph has ended. A pool of CuPy would not do: one that is
gone does not give its memory back.
"""

import bisect
from collections.abc import Callable
from typing import Any, Final

UNIT: Final = 512
"""Sizes are multiples of it, as in CuPy's pools."""
_MOST: Final = 2
"""The largest ratio of the size of a free block to the size of the array that gets it."""


class GraphMemory:
    """Memory for the arrays of a graph, from CuPy's pool, which counts it and limits it."""

    def __init__(self, cuda: Any, allocate: Callable[[int], Any], index: int) -> None:
        """Begin without memory.

        Args:
            cuda: CuPy's module `cuda`.
            allocate: takes a number of bytes, and returns a pointer to new memory.
            index: the number of the GPU.
        """
        self._cuda: Final = cuda
        self._allocate: Final = allocate
        self._index: Final = index
        self._free: list[tuple[int, int, Any]] | None = []

    def malloc(self, size: int) -> Any:
        """Return a pointer to at least `size` bytes, as CuPy's allocators do."""
        rounded = -(-size // UNIT) * UNIT
        pointer = self._taken(rounded) or self._allocate(rounded)
        if not size:
            return pointer
        memory = self._cuda.UnownedMemory(pointer.ptr, size, _Part(pointer, self), self._index)
        return self._cuda.MemoryPointer(memory, 0)

    def put_back(self, pointer: Any) -> None:
        """Let later arrays of the graph have this memory; after the end of the graph, all others."""
        if self._free is not None:
            bisect.insort(self._free, (pointer.mem.size, pointer.ptr, pointer))

    def end(self) -> None:
        """Give the memory that is free back to CuPy, and the rest when it is. No kernel of the graph runs any more."""
        self._free = None

    def _taken(self, size: int) -> Any:
        """Return a free block of that size, or of a little more."""
        free = self._free or []
        place = bisect.bisect_left(free, (size,))
        return free.pop(place)[-1] if place < len(free) and free[place][0] <= _MOST * size else None


class _Part:
    """Keeps one block for the arrays in it."""

    def __init__(self, pointer: Any, memory: GraphMemory) -> None:
        self._pointer: Final = pointer
        self._memory: Final = memory

    def __del__(self) -> None:
        self._memory.put_back(self._pointer)
