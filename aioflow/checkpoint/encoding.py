"""Converts tensors to the bytes of a safetensors file, and back.

Numbers have the same bytes as in memory. Safetensors has no code for some dtypes: complex128 is stored as pairs of F64,
and string as U8: the lengths of all strings as little-endian 64-bit numbers, then their bytes. The narrow dtypes are
U8, too. The manifest holds the real dtype; other readers see the numbers.
"""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from aioflow import errors
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import EVERY, NARROW, Array, DType, as_dtype, complex128, resource, string
from aioflow.tensors.object_arrays import join_strings, make_array, to_list

Shape = tuple[int, ...]

CODES: Final[Mapping[str, str]] = {
    "bool": "BOOL", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "uint8": "U8", "uint16": "U16",
    "uint32": "U32", "uint64": "U64", "float16": "F16", "float32": "F32", "float64": "F64", "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "complex64": "C64",
}  # fmt: skip
"""{name of a dtype: its code in safetensors}, for the dtypes with the same bytes."""
BY_CODE: Final[Mapping[str, DType]] = {code: as_dtype(name) for name, code in CODES.items()}
STORED: Final[Mapping[str, DType]] = {dtype.name: dtype for dtype in EVERY if dtype is not resource}
"""{name: dtype} of the tensors that a checkpoint can hold."""

_LENGTH: Final = np.dtype("<u8")


def encode_tensor(name: str, value: Array) -> tuple[DType, Shape, memoryview]:
    """Return the dtype, shape and bytes of a value. The bytes of a contiguous array are not copied.

    InvalidArgumentError for a value without bytes, such as a resource handle.
    """
    array = np.asarray(value)
    try:
        dtype = as_dtype(array.dtype)
    except TypeError:
        raise errors.InvalidArgumentError(f"{name!r} cannot be saved: a checkpoint has no {array.dtype}") from None
    if dtype is string:
        return dtype, array.shape, _encode_strings(name, array)
    plain = np.ascontiguousarray(array, dtype.np).reshape(-1)
    return dtype, array.shape, plain.view(np.uint8).data


def _encode_strings(name: str, array: AnyArray) -> memoryview:
    texts = [text.encode() if isinstance(text, str) else text for text in to_list(array)]
    if not all(isinstance(text, bytes) for text in texts):
        raise errors.InvalidArgumentError(f"{name!r} cannot be saved: it holds objects that are not strings")
    lengths = make_array([len(text) for text in texts], dtype=_LENGTH)
    return memoryview(lengths.tobytes() + join_strings(b"", texts))


def texts(name: str, shape: Shape, data: memoryview) -> AnyArray:
    """Return the strings in these stored bytes. DataLossError if the bytes do not fit the shape."""
    count = math.prod(shape)
    if count * _LENGTH.itemsize > len(data):
        raise errors.DataLossError(f"{name!r} has {count} strings in {len(data)} bytes")
    lengths = np.frombuffer(data, _LENGTH, count).tolist()
    begin = count * _LENGTH.itemsize
    if sum(lengths) != len(data) - begin:
        raise errors.DataLossError(f"{name!r} has strings of {sum(lengths)} bytes in {len(data) - begin}")
    result = np.empty(count, object)
    for index, length in enumerate(lengths):
        result[index] = bytes(data[begin : begin + length])
        begin += length
    return result.reshape(shape)


def size_of(dtype: DType, shape: Shape) -> int | None:
    """Return the size of a tensor in bytes; None for strings, whose lengths differ."""
    return None if dtype is string else dtype.size * math.prod(shape)


def code_and_shape(dtype: DType, shape: Shape, size: int) -> tuple[str, Shape]:
    """Return the code and shape in the header of a safetensors file for such a tensor of `size` bytes."""
    if dtype is string:
        return "U8", (size,)
    if dtype is complex128:
        return "F64", (*shape, 2)
    if dtype in NARROW:
        return "U8", shape
    return CODES[dtype.name], shape


def bytes_of(array: AnyArray) -> memoryview:
    """Return the bytes of a contiguous array. They are writable if the array is."""
    return array.reshape(-1).view(np.uint8).data
