"""Values as bytes: a descriptor in the header of the message, and the raw bytes beside it.

    ["array", "float32", [2, 3], 24]     the elements in C order, little-endian
    "float32"                            a NumPy scalar, likewise
    ["strings", [2], 21]                 an array of bytes: their lengths as uint64, then all of them joined
    ["bytes", 7]                         one bytes object
    ["list", 40, 192]                    a TensorList: 40 bytes of structure, then its elements; see `_ListIn`
    ["plain", 7]                         None, a bool, an int, a float or a short text, whole in the header
    ["dead"]                             a dead tensor

`describe` encodes: its buffers are views of the arrays, except of small or non-contiguous ones. The sender must not
write into an array before the message is sent.

`incoming` decodes. Descriptors are not trusted: an inconsistent one raises ValueError before any allocation. A value
takes memory besides its bytes: an empty tensor has no bytes, but is still an object. So each message has one `Budget`
of memory. Its values take from the budget before they make objects. Each frame is copied to its final place.
"""

import abc
import functools
import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import msgpack
import numpy as np

from aioflow import errors
from aioflow.kernels.control.control_flow import DEAD
from aioflow.resources.buffers import BUFFERS
from aioflow.tensors import dtypes
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import DType
from aioflow.tensors.plain_data import summarise, unpack
from aioflow.tensors.tensor_list import CLEARED, UNWRITTEN, TensorList

Descriptor = list[Any] | str
Buffer = bytes | memoryview

MOST_ELEMENTS: Final = 1 << 20
"""The most slots of a list that can be sent."""
DEEPEST: Final = 8
"""The most levels of nested lists."""
ALIGNED: Final = 64
"""Each element of a list begins at a multiple of this many bytes."""
LENGTH: Final = np.dtype("<u8")
"""The type of the length of a string."""
_STACKED: Final = 4096
"""Neighbouring elements of a list with equal shapes are sent stacked, if they have at most this many bytes."""
_SMALL: Final = 4096
"""Arrays of at most this many bytes are copied, since a view costs more."""
_LONGEST_TEXT: Final = 4096

if sys.byteorder != "little":  # pragma: no cover
    raise ImportError("aioflow.net sends the memory of arrays, which must be little-endian")


class Sent(NamedTuple):
    """An encoded value."""

    descriptor: Descriptor
    buffers: Sequence[Buffer] = ()
    nbytes: int = 0


def describe(value: Any, depth: int = 0) -> Sent:
    """Encode `value`, with `depth` lists around. InvalidArgumentError if it can exist only in this process."""
    if isinstance(value, np.ndarray):
        return _strings(value) if value.dtype.hasobject else _array(value)
    if isinstance(value, np.generic):
        return Sent(_name_of(value.dtype), (value.tobytes(),), value.nbytes)
    if isinstance(value, bytes):
        return Sent(["bytes", len(value)], [value], len(value))
    if value is DEAD:
        return Sent(["dead"])
    if isinstance(value, TensorList):
        return _list(value, depth)
    if value is None or type(value) in (bool, int, float, str):
        _check_plain(value)
        return Sent(["plain", value])
    raise errors.InvalidArgumentError(f"{summarise(value)} of type {type(value).__name__} cannot leave its process")


def _array(array: AnyArray) -> Sent:
    descriptor = ["array", _name_of(array.dtype), list(array.shape), array.nbytes]
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.nbytes <= _SMALL:
        return Sent(descriptor, [array.tobytes()], array.nbytes)
    return Sent(descriptor, [bytes_of(np.ascontiguousarray(array))], array.nbytes)


@functools.lru_cache(256)
def _name_of(dtype: np.dtype[Any]) -> str:
    name = dtypes.as_dtype(dtype).name
    if name == "string":
        raise errors.InvalidArgumentError(f"an array of NumPy's {dtype} is not a tensor: texts are bytes objects")
    return name


_RAW: Final = {dtype.name: dtype for dtype in dtypes.EVERY if not dtype.np.hasobject}
"""The dtypes whose bytes can be sent."""
_NAMES: Final[dict[type, str]] = {dtype.np.type: dtype.name for dtype in _RAW.values()}
"""The descriptors of the usual scalars: the names of their dtypes."""
_DTYPES: Final[dict[str, tuple[np.dtype[Any], int]]] = {name: (dtype.np, dtype.size) for name, dtype in _RAW.items()}
"""NumPy's dtype for each of these names, and the bytes of an element."""
MOST_SCALARS: Final = 64
"""The most scalars that are written and read in the shorter way: they fit into any limits."""


def scalars_sent(values: Sequence[Any]) -> tuple[list[str], bytes] | None:
    """The descriptors and joined bytes of usual scalars, and arrays without dimensions, if few; else None."""
    if len(values) > MOST_SCALARS:
        return None
    names, data = [], []
    for value in values:
        is_array = type(value) is np.ndarray and not value.shape and value.dtype.isnative
        name = _NAMES.get(value.dtype.type if is_array else type(value))
        if name is None:
            return None
        names.append(name)
        data.append(value.tobytes())
    return names, b"".join(data)


def bytes_of(array: AnyArray) -> memoryview:
    """The memory of an array that is contiguous."""
    return array.reshape(-1).view(np.uint8).data


def _strings(array: AnyArray) -> Sent:
    items = array.reshape(-1).tolist()
    if not all(type(item) is bytes for item in items):
        stray = next(item for item in items if type(item) is not bytes)
        raise errors.InvalidArgumentError(f"{summarise(stray)} of type {type(stray).__name__} cannot leave its process")
    lengths = np.fromiter(map(len, items), LENGTH, len(items))
    joined = b"".join(items)
    nbytes = lengths.nbytes + len(joined)
    return Sent(["strings", list(array.shape), nbytes], [bytes_of(lengths), memoryview(joined)], nbytes)


def _check_plain(value: Any) -> None:
    if type(value) is int and not -(1 << 63) <= value < 1 << 64:
        raise errors.InvalidArgumentError(f"{summarise(value)} has more than 64 bits")
    if type(value) is str and len(value.encode(errors="replace")) > _LONGEST_TEXT:
        raise errors.InvalidArgumentError(f"a text of {len(value)} characters is sent as bytes or as an array")


def _list(value: TensorList, depth: int) -> Sent:
    """The elements one after the other, each aligned; runs of small ones that are alike as one array."""
    if depth >= DEEPEST:
        raise errors.InvalidArgumentError(f"lists are nested more than {DEEPEST} deep")
    if len(value) > MOST_ELEMENTS:
        raise errors.InvalidArgumentError(f"a list of {len(value)} slots cannot be sent; {MOST_ELEMENTS} are the most")
    runs: list[list[Any]] = []
    buffers: list[Buffer] = []
    nbytes = 0
    for first, items in _runs(value.elements()):
        sent = Sent(["cleared"]) if items[0] is CLEARED else describe(_stacked(items), depth + 1)
        runs.append([first, len(items), sent.descriptor])
        padding = -sent.nbytes % ALIGNED
        buffers += [*sent.buffers, memoryview(bytes(padding))]
        nbytes += sent.nbytes + padding
    structure = msgpack.packb([len(value), runs])
    return Sent(["list", len(structure), nbytes], [memoryview(structure), *buffers], len(structure) + nbytes)


def _stacked(items: list[Any]) -> Any:
    return items[0] if len(items) == 1 else np.stack(items)


def _runs(slots: list[Any]) -> Iterator[tuple[int, list[Any]]]:
    """Neighbouring slots that can be sent as one, with the first's index. Unwritten ones are left out."""
    run: list[Any] = []
    for index, item in enumerate(slots):
        if run and _alike(run[-1], item):
            run.append(item)
            continue
        if run:
            yield index - len(run), run
        run = [] if item is UNWRITTEN else [item]
    if run:
        yield len(slots) - len(run), run


def _alike(one: Any, other: Any) -> bool:
    if one is CLEARED or other is CLEARED:
        return one is other
    arrays = isinstance(one, (np.ndarray, np.generic)) and isinstance(other, (np.ndarray, np.generic))
    return arrays and one.dtype == other.dtype and one.shape == other.shape and 0 < one.nbytes <= _STACKED


# Decoding

_OF_SLOT: Final = 8
"""Bytes of memory for a slot of a list."""
_OF_ELEMENT: Final = 256
"""Approximate bytes of memory for a tensor besides its elements."""
_FREE: Final = _OF_SLOT * MOST_ELEMENTS
"""Bytes of memory that every message may use for elements: enough for the longest empty list."""


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
    """A value that is being received.

    Attributes:
        nbytes: the number of its bytes.
        is_bytes: whether it is a bytes object.
    """

    __slots__ = ("nbytes",)
    is_bytes: ClassVar[bool] = False

    def __init__(self, nbytes: int = 0) -> None:
        self.nbytes: Final = nbytes

    def allocate(self) -> memoryview:
        """Return memory for its bytes, to be written in order. MemoryError if it cannot be allocated."""
        memory = BUFFERS.take(self.nbytes)
        self.place(memory)
        return memory.data

    def place(self, memory: AnyArray) -> None:  # noqa: B027 - most kinds have no bytes
        """Its bytes are, or will be, in `memory`."""

    def fill(self, data: memoryview) -> None:
        """These are all of its bytes."""
        self.place(np.frombuffer(data, np.uint8).copy())

    @abc.abstractmethod
    def value(self) -> Any:
        """Return the value, after all bytes have come. ValueError if they are not a value."""


class _PlainIn(Incoming):
    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        super().__init__()
        if value is not None and type(value) not in (bool, int, float, str):
            raise ValueError(f"{summarise(value)} is not a plain value")
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
        self._dtype: Final[DType] = _raw(name)
        self._shape: Final = _shape_of(shape)
        count = math.prod(self._shape)
        if type(nbytes) is not int or nbytes != count * self._dtype.size:
            raise ValueError(f"{name}{summarise(shape)} has {count * self._dtype.size} bytes, not {summarise(nbytes)}")
        super().__init__(nbytes)

    def place(self, memory: AnyArray) -> None:
        self._array = memory.view(self._dtype.np).reshape(self._shape)

    def fill(self, data: memoryview) -> None:
        if self.nbytes:
            found = np.frombuffer(data, self._dtype.np).copy()
            self._array = found if len(self._shape) == 1 else found.reshape(self._shape)
        else:
            super().fill(data)

    def value(self) -> Any:
        array = self._array
        if self._dtype is dtypes.bool_ and array.size and array.view(np.uint8).max() > 1:
            raise ValueError(_NO_BOOL)
        return array


def _raw(name: Any) -> DType:
    dtype = _RAW.get(name) if type(name) is str else None
    if dtype is None:
        raise ValueError(f"{summarise(name)} is not a dtype whose bytes can be sent; those are {', '.join(_RAW)}")
    return dtype


class _ScalarIn(Incoming):
    __slots__ = ("_data", "_dtype")

    def __init__(self, name: str) -> None:
        self._dtype: Final[DType] = _raw(name)
        super().__init__(self._dtype.size)

    def place(self, memory: AnyArray) -> None:
        self._data: AnyArray | bytes = memory

    def fill(self, data: memoryview) -> None:
        self._data = bytes(data)

    def value(self) -> Any:
        if self._dtype is dtypes.bool_ and self._data[0] > 1:
            raise ValueError(_NO_BOOL)
        return np.frombuffer(self._data, self._dtype.np)[0]


_NO_BOOL: Final = "a bool is a byte of 0 or 1"
"""NumPy would compute nonsense with another."""


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
                    case [int(first), int(count), list() | str()] if first >= 0 and count >= 1:
                        pass
                    case _:
                        raise ValueError(f"{summarise(run)} is not a run of a list: first slot, count, descriptor")
            return length, runs
    raise ValueError(f"{summarise(found)} is not the structure of a list")


def _shape_of(data: Any) -> tuple[int, ...]:
    if type(data) is not list or len(data) > 64:
        raise ValueError(f"{summarise(data)} is not a shape")
    for size in data:
        if type(size) is not int or not 0 <= size < 1 << 63:
            raise ValueError(f"{summarise(data)} is not a shape")
    return tuple(data)


def _count_of(data: Any) -> int:
    if type(data) is not int or not 0 <= data < 1 << 63:
        raise ValueError(f"{summarise(data)} is not a number of bytes")
    return data


_KINDS: Final[dict[str, tuple[int, Callable[..., Incoming]]]] = {
    "array": (3, _ArrayIn), "strings": (2, _StringsIn), "bytes": (1, _BytesIn),
    "list": (2, _ListIn), "plain": (1, _PlainIn), "dead": (0, _DeadIn),
}  # fmt: skip


def scalars_of(descriptors: Sequence[Any], data: memoryview) -> list[Any] | None:
    """The values whose bytes are `data`, if all of them are scalars, and few; else None, and `incoming` decides."""
    if len(descriptors) > MOST_SCALARS:
        return None
    found: list[Any] = []
    at, end = 0, len(data)
    for descriptor in descriptors:
        known = _DTYPES.get(descriptor) if type(descriptor) is str else None
        if known is None or at + known[1] > end or (descriptor == "bool" and data[at] > 1):
            return None
        found.append(np.frombuffer(data, known[0], 1, at)[0])
        at += known[1]
    return found if at == end else None


def incoming(descriptor: Any, budget: Budget) -> Incoming:
    """The value that a descriptor announces, in a message with this budget. ValueError if it is malformed."""
    return _incoming(descriptor, budget, 0)


def _incoming(descriptor: Any, budget: Budget, depth: int) -> Incoming:
    if type(descriptor) is str:
        return _ScalarIn(descriptor)
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
