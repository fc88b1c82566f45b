"""Tensors as the bytes of a safetensors file, and back.

Numbers lie as they do in memory. Two dtypes have no code of their own there: complex128 is stored as pairs of F64, and
texts as U8: the lengths of all of them as little-endian 64-bit numbers, then their bytes. Which of them it is stands in
the manifest; other readers see numbers.
"""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from aioflow import errors
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import ALL, Array, DType, as_dtype, complex128, resource, string
from aioflow.tensors.object_arrays import join_strings, make_array, to_list

Shape = tuple[int, ...]

CODES: Final[Mapping[str, str]] = {
    "bool": "BOOL", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "uint8": "U8", "uint16": "U16",
    "uint32": "U32", "uint64": "U64", "float16": "F16", "float32": "F32", "float64": "F64", "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "complex64": "C64",
}  # fmt: skip
"""What safetensors calls the dtypes of the same bytes."""
BY_CODE: Final[Mapping[str, DType]] = {code: as_dtype(name) for name, code in CODES.items()}
STORED: Final[Mapping[str, DType]] = {dtype.name: dtype for dtype in ALL if dtype is not resource}
"""The dtypes of tensors in checkpoints, by name."""

_LENGTH: Final = np.dtype("<u8")


def encoded(name: str, value: Array) -> tuple[DType, Shape, memoryview]:
    """Dtype, shape, and bytes of a value; those of an array that is contiguous are not copied.

    InvalidArgumentError for what has no bytes, as a handle.
    """
    array = np.asarray(value)
    try:
        dtype = as_dtype(array.dtype)
    except TypeError:
        raise errors.InvalidArgumentError(f"{name!r} cannot be saved: a checkpoint has no {array.dtype}") from None
    if dtype is string:
        return dtype, array.shape, _joined(name, array)
    plain = np.ascontiguousarray(array, dtype.np).reshape(-1)
    return dtype, array.shape, plain.view(np.uint8).data


def _joined(name: str, array: AnyArray) -> memoryview:
    texts = [text.encode() if isinstance(text, str) else text for text in to_list(array)]
    if not all(isinstance(text, bytes) for text in texts):
        raise errors.InvalidArgumentError(f"{name!r} cannot be saved: it holds objects that are no texts")
    lengths = make_array([len(text) for text in texts], dtype=_LENGTH)
    return memoryview(lengths.tobytes() + join_strings(b"", texts))


def texts(name: str, shape: Shape, data: memoryview) -> AnyArray:
    """The texts that were so stored. DataLossError if the bytes are none."""
    count = math.prod(shape)
    if count * _LENGTH.itemsize > len(data):
        raise errors.DataLossError(f"{name!r} has {count} texts in {len(data)} bytes")
    lengths = np.frombuffer(data, _LENGTH, count).tolist()
    begin = count * _LENGTH.itemsize
    if sum(lengths) != len(data) - begin:
        raise errors.DataLossError(f"{name!r} has texts of {sum(lengths)} bytes in {len(data) - begin}")
    result = np.empty(count, object)
    for index, length in enumerate(lengths):
        result[index] = bytes(data[begin : begin + length])
        begin += length
    return result.reshape(shape)


def size_of(dtype: DType, shape: Shape) -> int | None:
    """How many bytes a tensor takes; None for texts, whose lengths differ."""
    return None if dtype is string else dtype.size * math.prod(shape)


def header_form(dtype: DType, shape: Shape, size: int) -> tuple[str, Shape]:
    """The code and shape that stand in the header of a safetensors file for such a tensor of so many bytes."""
    if dtype is string:
        return "U8", (size,)
    if dtype is complex128:
        return "F64", (*shape, 2)
    return CODES[dtype.name], shape


def bytes_of(array: AnyArray) -> memoryview:
    """The bytes of a contiguous array, to be written into if the array can be."""
    return array.reshape(-1).view(np.uint8).data
