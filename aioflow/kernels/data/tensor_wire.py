"""Arrays as bytes, in protocol buffers' encoding: TensorFlow's TensorProto.

Tensor       1: dtype   2: Shape   4: the bytes of all numbers   8: string, repeated
             5: float   6: double   7: integer of at most 32 bits   9: complex64, two floats   10: int64   11: bool
             12: complex128, two doubles   13: the bits of a narrow float   16: uint32   17: uint64; all repeated
Shape        2: {1: size}, repeated   3: whether the rank is unknown

Where there are fewer values than elements, the last one stands for the rest. Malformed messages raise ValueError.
"""

import math
import struct
from typing import Any, Final

import numpy as np

from aioflow.files import message_wire as wire
from aioflow.files.dtype_numbers import NUMBERS
from aioflow.files.message_wire import Part, content, fields, number, read_varint
from aioflow.tensors import dtypes
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import DType, as_dtype
from aioflow.tensors.object_arrays import full_array, make_array, to_list

_DTYPES: Final = {kind: dtype for dtype, kind in NUMBERS.items() if dtype is not dtypes.resource}
CARRIED: Final = frozenset(_DTYPES.values())
"""The dtypes of arrays that have such a message."""
_SINGLES: Final = {5: "<f4", 6: "<f8", 9: "<f4", 12: "<f8"}
"""The fields of floats, and how each number is stored."""
_INTEGERS: Final = (7, 10, 11, 13, 16, 17)
_CONTENT, _STRINGS, _BITS = 4, 8, 13
_MOST: Final = 1 << 28
"""The most elements that one value stands for."""


def encode(array: AnyArray) -> bytes:
    """The message of an array of numbers or strings."""
    dtype = as_dtype(array.dtype)
    sizes = b"".join([content(2, number(1, size) if size else b"") for size in array.shape])
    if dtype is dtypes.string:
        data = b"".join([content(_STRINGS, bytes(item)) for item in to_list(array)])
    else:
        numbers = array.astype(array.dtype.newbyteorder("<")).tobytes()
        data = content(_CONTENT, numbers) if numbers else b""
    return number(1, NUMBERS[dtype]) + content(2, sizes) + data


def decode(data: bytes) -> AnyArray:
    """The array of a message."""
    kind, sizes, whole = 0, list[int](), None
    values: list[Any] = []
    for field, form, begin, end in fields(data, (0, len(data))):
        if field == 1 and form == wire.VARINT:
            kind = read_varint(data, begin, end)[0]
        elif field == 2 and form == wire.BYTES:
            sizes = _sizes(data, (begin, end))
        elif field == _CONTENT and form == wire.BYTES:
            whole = data[begin:end]
        elif field == _STRINGS and form == wire.BYTES:
            values.append(data[begin:end])
        elif field in _SINGLES or field in _INTEGERS:
            values += _values(data, field, form, (begin, end))
    if kind not in _DTYPES:
        raise ValueError(f"{kind} is not the number of a dtype that is carried")
    dtype = _DTYPES[kind]
    return _from_content(dtype, sizes, whole) if whole else _from_values(dtype, sizes, values)


def _sizes(data: bytes, part: Part) -> list[int]:
    sizes = []
    for field, form, begin, end in fields(data, part):
        if field == 3 and form == wire.VARINT and read_varint(data, begin, end)[0]:
            raise ValueError("the shape is unknown")
        if field == 2 and form == wire.BYTES:
            sizes.append(_size(data, (begin, end)))
    return sizes


def _size(data: bytes, part: Part) -> int:
    size = 0
    for field, form, begin, end in fields(data, part):
        if field == 1 and form == wire.VARINT:
            size = wire.signed(read_varint(data, begin, end)[0])
    if size < 0:
        raise ValueError(f"a size is {size}")
    return size


def _values(data: bytes, field: int, form: int, part: Part) -> list[Any]:
    """The numbers of one field: one of them, or several that are packed."""
    begin, end = part
    if field in _INTEGERS:
        packed: list[Any] = wire.integers(data, begin, end).tolist() if end > begin else []
        return packed
    stored = np.dtype(_SINGLES[field])
    if form not in (wire.BYTES, wire.FOUR, wire.EIGHT) or (end - begin) % stored.itemsize:
        raise ValueError(f"{end - begin} bytes at byte {begin} are not numbers of {stored.itemsize} bytes")
    return list(struct.unpack_from(f"<{(end - begin) // stored.itemsize}{stored.char}", data, begin))


def _from_content(dtype: DType, sizes: list[int], whole: bytes) -> AnyArray:
    stored = np.dtype(np.uint8) if dtype.is_bool else dtype.np.newbyteorder("<")
    if dtype is dtypes.string or math.prod(sizes) * stored.itemsize != len(whole):
        raise ValueError(f"{len(whole)} bytes are not {sizes} elements of dtype {dtype.name}")
    return np.frombuffer(whole, stored).astype(dtype.np).reshape(sizes)


def _from_values(dtype: DType, sizes: list[int], values: list[Any]) -> AnyArray:
    count = math.prod(sizes)
    made = _array(dtype, values)
    if len(made) > count or (count > len(made) and count > _MOST):
        raise ValueError(f"{len(made)} values do not make {sizes} elements")
    if len(made) == count:
        return made.reshape(sizes)
    last = made[-1] if len(made) else b"" if dtype is dtypes.string else dtype.np.type(0)
    filled = full_array(count, last) if dtype is dtypes.string else np.full(count, last, dtype.np)
    filled[: len(made)] = made
    return filled.reshape(sizes)


def _array(dtype: DType, values: list[Any]) -> AnyArray:
    """The values of one of the fields as an array of the dtype."""
    if any(isinstance(value, bytes) != (dtype is dtypes.string) for value in values):
        raise ValueError(f"the values are not of dtype {dtype.name}")
    if dtype is dtypes.string:
        return make_array(values)
    if dtype.is_complex:
        if len(values) % 2:
            raise ValueError(f"{len(values)} numbers are not pairs of real and imaginary parts")
        return np.array(values, np.float64).view(np.complex128).astype(dtype.np)
    if dtype.is_floating and dtype.np.itemsize <= 2:
        bits = np.array(values, np.int64).astype(f"u{dtype.np.itemsize}")
        return bits.view(dtype.np)
    return np.array(values, np.int64 if dtype.is_integer or dtype.is_bool else None).astype(dtype.np)
