"""The memory of a fake GPU: pools of buffers, blocks that own a buffer for a while, and loans of a block.

A pool gives a freed buffer to the next array of the same size, as CUDA's pools do. So an object that still refers to
freed memory finds there the values of another array.
"""

import weakref
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aioflow.testing.fake_streams import FakeDevice, FakeStream, OutOfMemory, Race

_GARBAGE: Final = 0xA5
"""The byte that fills new memory."""


class Buffer:
    """Some bytes, at one address for ever.

    Attributes:
        bytes: the bytes.
        pool: the pool that hands it out.
        owner: the block that has it; None, or dead, if it is free.
    """

    def __init__(self, size: int, pool: "Pool") -> None:
        self.bytes: Final[npt.NDArray[np.uint8]] = np.full(max(1, size), _GARBAGE, np.uint8)
        self.size: Final = size
        self.pool: Final = pool
        self.owner: Callable[[], Block | None] = lambda: None
        self._made: tuple[FakeStream, int] | None = None
        self._uses: Final[dict[FakeStream, int]] = {}

    def forget_uses(self) -> None:
        """Forget its uses, for a new owner."""
        self._made = None
        self._uses.clear()

    def use(self, stream: FakeStream, number: int, changes: bool) -> None:
        """Read or change it by work `number` of the stream. Race if no event orders it after other uses."""
        if self._made is not None and not stream.knows(*self._made):
            raise Race(f"{stream.name} reads memory that {self._made[0].name} writes: no event orders the two")
        if changes:
            for other, last in self._uses.items():
                if other is not stream and not stream.knows(other, last):
                    raise Race(f"{stream.name} changes memory that {other.name} reads: no event orders the two")
            self._made = stream, number
        self._uses[stream] = number

    def check_free(self, stream: FakeStream) -> None:
        """Report a race if a stream other than the one that gets the memory back may still use it."""
        for other, number in self._uses.items():
            if other is not stream and not stream.knows(other, number):
                stream.machine.race(f"memory of {stream.name} was freed while {other.name} may still use it")


class Pool:
    """Buffers. Those that are free go to the next array of their size on their stream.

    The pool of a graph takes memory from the GPU until `close`; the pool of the GPU itself only for its live arrays.

    Attributes:
        is_of_graph: whether it is the pool of a graph.
    """

    def __init__(self, device: FakeDevice, *, of_graph: bool = False) -> None:
        self._device: Final = device
        self.is_of_graph: Final = of_graph
        self._keeps = of_graph
        self._free: Final[dict[tuple[FakeStream, int], list[Buffer]]] = {}

    def take(self, size: int, stream: FakeStream) -> Buffer:
        """Return a buffer. OutOfMemory if the GPU has no room for it."""
        free = self._free.get((stream, size))
        if not self._keeps:
            self._charge(size)
        if free:
            return free.pop()
        if self._keeps:
            self._charge(size)
        return Buffer(size, self)

    def give_back(self, buffer: Buffer, stream: FakeStream) -> None:
        """Accept a buffer that has no owner any more."""
        self._free.setdefault((stream, buffer.size), []).append(buffer)
        if not self._keeps:
            self._device.used -= buffer.size

    def close(self) -> None:
        """Return the free memory of a graph to the GPU at once, the rest as soon as it is free."""
        self._keeps = False
        self._device.used -= sum([buffer.size for free in self._free.values() for buffer in free])

    def _charge(self, size: int) -> None:
        device = self._device
        if device.limit is not None and device.used + size > device.limit:
            raise OutOfMemory(f"{size} bytes do not fit: {device.used} of {device.limit} are used")
        device.used += size
        device.peak = max(device.peak, device.used)


class Block:
    """The memory of an array and its views. It returns to its pool with the last of them.

    Attributes:
        device: its GPU.
        buffer: its bytes.
        on_free: called when it is freed.
    """

    def __init__(self, device: FakeDevice, stream: FakeStream, size: int, pool: Pool) -> None:
        self.device: Final = device
        self.on_free: Callable[[], object] | None = None
        self._stream: Final = stream
        self.buffer: Final = pool.take(size, stream)
        self.buffer.owner = weakref.ref(self)
        self.buffer.forget_uses()

    def array(self, like: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return its bytes as an array of that shape, dtype and order."""
        return np.ndarray(like.shape, like.dtype, self.buffer.bytes, strides=np.empty_like(like).strides)

    def __del__(self) -> None:
        buffer: Buffer | None = getattr(self, "buffer", None)
        if buffer is None:  # there was no room for it
            return
        if self.on_free is not None:
            self.on_free()
        buffer.check_free(self._stream)
        buffer.pool.give_back(buffer, self._stream)


class Loan:
    """A block in the hands of other arrays, until the last of them is gone.

    Attributes:
        device: its GPU.
        buffer: the bytes of the block.
    """

    def __init__(self, block: Block, stream: FakeStream, on_free: Callable[[], object]) -> None:
        self.device: Final = block.device
        self.buffer: Final = block.buffer
        self._block: Final = block
        self._stream: Final = stream
        self._on_free: Final = on_free

    def __del__(self) -> None:
        self._on_free()
        self.buffer.check_free(self._stream)
