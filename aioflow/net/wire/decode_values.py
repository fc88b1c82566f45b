"""Decodes incoming values, which the descriptors of `payload` announce.

Descriptors are not trusted: an inconsistent one raises ValueError before any allocation. A value takes memory besides
its bytes: an empty tensor has no bytes, but is still an object. So each message has one `Budget` of memory. Its values
take from the budget before they make objects.
"""

import abc
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from aioflow.graph.graphdef import unpack
from aioflow.kernels.control.control_flow import DEAD
from aioflow.net.wire.buffers import BUFFERS
from aioflow.net.wire.encode_values import ALIGNED, DEEPEST, LENGTH, MOST_ELEMENTS
from aioflow.tensors import dtypes
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import DType
from aioflow.tensors.plain_data import summarise
from aioflow.tensors.tensor_list import CLEARED, UNWRITTEN, TensorList

_OF_SLOT: Final = 8
"""Bytes of memory for a slot of a list."""
_OF_ELEMENT: Final = 256
"""Approximate bytes of memory for a tensor besides its elements."""
_FREE: Final = _OF_SLOT * MOST_ELEMENTS
"""Bytes of memory that every message may use for elements: enough for the longest empty list."""
_RAW: Final = {dtype.name: dtype for dtype in dtypes.ALL if not dtype.np.hasobject}


class Budget:
    """The memory that the values of one message may use for their elements, besides the elements' bytes.

    It grows with the bytes of the message, so that a short message cannot allocate much memory.
    """

    __slots__ = ("_left",)

    def __init__(self, nbytes: int) -> None:
        self._left = _FREE
        self.grow(nbytes)

    def grow(self, nbytes: int) -> None:
        """Add the share for `nbytes` more bytes of the message."""
        self._left += nbytes * _OF_ELEMENT

    def take(self, slots: int, elements: int) -> None:
        """Take memory for slots of lists and for elements. ValueError if too little is left."""
        self._left -= slots * _OF_SLOT + elements * _OF_ELEMENT
        if self._left < 0:
            raise ValueError("the message has more elements than its bytes allow")


class Incoming(abc.ABC):
    """A value on its way in: how many bytes it has, where they go, and what they are when all are there.

    Attributes:
        nbytes: how many bytes of the stream are its.
        is_bytes: whether it will be bytes.
    """

    __slots__ = ("nbytes",)
    is_bytes: ClassVar[bool] = False

    def __init__(self, nbytes: int = 0) -> None:
        self.nbytes: Final = nbytes

    def allocate(self) -> memoryview:
        """Memory for its bytes, to be written in order. MemoryError if there is not so much."""
        memory = BUFFERS.take(self.nbytes)
        self.place(memory)
        return memory.data

    def place(self, memory: AnyArray) -> None:  # noqa: B027 - most have none to place
        """Its bytes are, or will be, in `memory`."""

    def fill(self, data: memoryview) -> None:
        """These are all of its bytes."""
        self.place(np.frombuffer(data, np.uint8).copy())

    @abc.abstractmethod
    def value(self) -> Any:
        """The value, once all bytes are there. ValueError if they make none."""


class _PlainIn(Incoming):
    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        super().__init__()
        if value is not None and type(value) not in (bool, int, float, str):
            raise ValueError(f"{summarise(value)} is no plain value")
        self._value: Final = value

    def value(self) -> Any:
        return self._value


class _DeadIn(Incoming):
    __slots__ = ()

    def value(self) -> Any:
        return DEAD


class _ArrayIn(Incoming):
    __slots__ = ("_array", "_dtype", "_shape")

    def __init__(self, name: Any, shape: Any, nbytes: Any) -> None:
        if type(name) is not str or name not in _RAW:
            raise ValueError(f"{summarise(name)} is no dtype whose bytes can be sent; those are {', '.join(_RAW)}")
        self._dtype: Final[DType] = _RAW[name]
        self._shape: Final = _shape_of(shape)
        count = math.prod(self._shape)
        if type(nbytes) is not int or nbytes != count * self._dtype.size:
            raise ValueError(f"{name}{summarise(shape)} has {count * self._dtype.size} bytes, not {summarise(nbytes)}")
        super().__init__(nbytes)

    def place(self, memory: AnyArray) -> None:
        self._array = memory.view(self._dtype.np).reshape(self._shape)

    def value(self) -> Any:
        return _checked(self._array)


def _checked(array: AnyArray) -> AnyArray:
    """ValueError for a bool that is neither 0 nor 1: NumPy would compute nonsense with it."""
    if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
        raise ValueError("a bool is a byte of 0 or 1")
    return array


class _ScalarIn(_ArrayIn):
    __slots__ = ()

    def __init__(self, name: Any, nbytes: Any) -> None:
        super().__init__(name, [], nbytes)

    def value(self) -> Any:
        return super().value()[()]


class _BytesIn(Incoming):
    __slots__ = ("_data",)
    is_bytes = True

    def __init__(self, nbytes: Any) -> None:
        super().__init__(_count_of(nbytes))

    def place(self, memory: AnyArray) -> None:
        self._data = memory

    def value(self) -> Any:
        return self._data.tobytes()


class _StringsIn(_BytesIn):
    __slots__ = ("_shape",)
    is_bytes = False

    def __init__(self, shape: Any, nbytes: Any) -> None:
        super().__init__(nbytes)
        self._shape: Final = _shape_of(shape)
        if math.prod(self._shape) * LENGTH.itemsize > self.nbytes:
            raise ValueError(f"{self.nbytes} bytes are too few for the lengths of strings{summarise(shape)}")

    def value(self) -> Any:
        count = math.prod(self._shape)
        head = count * LENGTH.itemsize
        lengths, text = self._data[:head].view(LENGTH).tolist(), self._data[head:].tobytes()
        if sum(lengths) != len(text):
            raise ValueError(f"strings of {sum(lengths)} bytes in all came in {len(text)} bytes")
        found = np.empty(count, object)
        end = 0
        for index, length in enumerate(lengths):
            found[index] = text[end : end + length]
            end += length
        return found.reshape(self._shape)


class _ListIn(_BytesIn):
    """A TensorList, of which the first bytes are its structure in msgpack: [length, [[first, count, descriptor], ...]].

    Each entry is a run of slots: `count` is 1, or else the descriptor is that of an array that has an element of the
    list in each row; ["cleared"] for slots that were read and cleared. The bytes of each entry follow in order, filled
    up with zeros to a multiple of 64. The elements are views of the one buffer.
    """

    __slots__ = ("_budget", "_depth", "_structure")
    is_bytes = False

    def __init__(self, structure: Any, data: Any, budget: Budget, depth: int) -> None:
        self._structure: Final = _count_of(structure)
        self._budget: Final = budget
        self._depth: Final = depth
        super().__init__(self._structure + _count_of(data))

    def value(self) -> Any:
        structure, data = self._data[: self._structure], self._data[self._structure :]
        length, runs = _structure_of(structure)
        items: list[Any] = []
        at = 0
        for first, count, descriptor in runs:
            gap = first - len(items)
            if gap < 0 or first + count > length:
                raise ValueError(f"a list of {length} cannot have {count} tensors from {first} on")
            is_cleared = descriptor == ["cleared"]
            self._budget.take(gap + count, 0 if is_cleared else count)
            items.extend(itertools.repeat(UNWRITTEN, gap))
            if is_cleared:
                items.extend(itertools.repeat(CLEARED, count))
                continue
            incoming = _incoming(descriptor, self._budget, self._depth + 1)
            end = at + incoming.nbytes
            if end > len(data):
                raise ValueError(f"the elements of a list are more than its {len(data)} bytes")
            incoming.place(data[at:end])
            at = end + -end % ALIGNED
            items += _rows(incoming.value(), count)
        return TensorList.of(items).grow(length)


def _rows(value: Any, count: int) -> Sequence[Any]:
    if count == 1:
        return [value]
    if not isinstance(value, np.ndarray) or value.shape[:1] != (count,):
        raise ValueError(f"{count} tensors of a list are rows of one array")
    return list(value)


def _structure_of(data: AnyArray) -> tuple[int, list[Any]]:
    """The length of a list, and its runs."""
    try:
        found = unpack(data.data)
    except ValueError as error:
        raise ValueError(f"the structure of a list is not valid msgpack: {error}") from None
    match found:
        case [int(length), list(runs)] if 0 <= length <= MOST_ELEMENTS:
            for run in runs:
                match run:
                    case [int(first), int(count), list()] if first >= 0 and count >= 1:
                        pass
                    case _:
                        raise ValueError(f"{summarise(run)} is no run of a list: first slot, count, descriptor")
            return length, runs
    raise ValueError(f"{summarise(found)} is no structure of a list")


def _shape_of(data: Any) -> tuple[int, ...]:
    if type(data) is not list or len(data) > 64 or not all(type(n) is int and 0 <= n < 1 << 63 for n in data):
        raise ValueError(f"{summarise(data)} is no shape")
    return tuple(data)


def _count_of(data: Any) -> int:
    if type(data) is not int or not 0 <= data < 1 << 63:
        raise ValueError(f"{summarise(data)} is no number of bytes")
    return data


_KINDS: Final[dict[str, tuple[int, Callable[..., Incoming]]]] = {
    "array": (3, _ArrayIn), "scalar": (2, _ScalarIn), "strings": (2, _StringsIn), "bytes": (1, _BytesIn),
    "list": (2, _ListIn), "plain": (1, _PlainIn), "dead": (0, _DeadIn),
}  # fmt: skip


def incoming(descriptor: Any, budget: Budget) -> Incoming:
    """The value that a descriptor announces, in a message with this budget. ValueError if it is malformed."""
    return _incoming(descriptor, budget, 0)


def _incoming(descriptor: Any, budget: Budget, depth: int) -> Incoming:
    if type(descriptor) is not list or not descriptor or type(descriptor[0]) is not str:
        raise ValueError(f"{summarise(descriptor)} describes no value")
    kind, *rest = descriptor
    size, make = _KINDS.get(kind, (0, None))
    if make is None or len(rest) != size:
        raise ValueError(f"{summarise(descriptor)} describes no value; there are {', '.join(_KINDS)}")
    if kind == "list":
        if depth >= DEEPEST:
            raise ValueError(f"lists are nested more than {DEEPEST} deep")
        rest += [budget, depth]
    return make(*rest)
