"""Tensors of a model as arrays, and its numbers for dtypes."""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.onnx.protobuf import package
from aioflow.onnx.storage import Storage, as_elements
from aioflow.tensors import dtypes
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import DType, as_dtype
from aioflow.tensors.object_arrays import full_array

DTYPES: Final[dict[int, DType]] = {
    1: dtypes.float32, 2: dtypes.uint8, 3: dtypes.int8, 4: dtypes.uint16, 5: dtypes.int16, 6: dtypes.int32,
    7: dtypes.int64, 8: dtypes.string, 9: dtypes.bool_, 10: dtypes.float16, 11: dtypes.float64, 12: dtypes.uint32,
    13: dtypes.uint64, 14: dtypes.complex64, 15: dtypes.complex128, 16: dtypes.bfloat16, 17: dtypes.float8_e4m3fn,
    18: dtypes.float8_e4m3fnuz, 19: dtypes.float8_e5m2, 20: dtypes.float8_e5m2fnuz, 21: dtypes.uint4, 22: dtypes.int4,
    23: dtypes.float4_e2m1fn, 24: dtypes.float8_e8m0fnu, 25: dtypes.uint2, 26: dtypes.int2,
}  # fmt: skip
"""ONNX's numbers for dtypes."""
_BITS: Final = {
    dtypes.uint4: 4, dtypes.int4: 4, dtypes.float4_e2m1fn: 4, dtypes.uint2: 2, dtypes.int2: 2,
}  # fmt: skip
"""The bits of an element, of dtypes of which ONNX packs several into a byte, from the lowest bits on."""

NUMBERS: Final = {dtype: number for number, dtype in DTYPES.items()}
EXTERNAL: Final = 1
"""ONNX's number for data in another file."""
LARGEST: Final = 1 << 40
"""The most bytes of a tensor."""
MOST_AXES: Final = 64
"""The most axes of a tensor."""


def dtype_of(number: int, what: str) -> DType:
    """The dtype of that number. UnimplementedError for one that aioflow does not have."""
    if number in DTYPES:
        return DTYPES[number]
    names = {value: name for name, value in package().TensorProto.DataType.items()}
    raise errors.UnimplementedError(f"{what} has the dtype {names.get(number, number)}, which aioflow does not have")


def array_of(tensor: Any, storage: Storage) -> AnyArray:
    """The value of a tensor message, which cannot be written to.

    DataLossError if its data do not fit its shape.
    """
    dtype, sizes = dtype_of(tensor.data_type, f"tensor {tensor.name!r}"), checked_sizes(tensor.name, tensor.dims)
    count = math.prod(sizes)
    largest = math.prod([size or 1 for size in sizes]) * dtype.size  # NumPy counts sizes beside a 0, too
    if largest > LARGEST:
        raise errors.DataLossError(f"tensor {tensor.name!r} of shape {sizes} would have {largest} bytes")
    if dtype is dtypes.string:
        array = _strings(tensor.name, tensor.string_data, sizes)
    elif tensor.data_location == EXTERNAL:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        data = storage.external.read(tensor.name, entries, _stored_bytes(count, dtype))
        array = _elements(data, dtype, count).reshape(sizes)
    elif tensor.HasField("raw_data"):
        data = storage.detached.find(tensor.raw_data)
        _check_length(tensor, len(data), _stored_bytes(count, dtype), "bytes")
        array = _elements(data, dtype, count).reshape(sizes)
    else:
        needed = _stored_bytes(count, dtype) if dtype in _BITS else count
        _check_length(tensor, _typed_length(tensor, dtype), needed, "elements")
        array = np.asarray(package().numpy_helper.to_array(tensor))
    array.flags.writeable = False
    return array


def header_of(name: str, array: AnyArray) -> Any:
    """The message of a tensor without its data."""
    return package().TensorProto(name=name, dims=array.shape, data_type=NUMBERS[as_dtype(array.dtype)])


def data_length(array: AnyArray) -> int:
    """The number of bytes that stand for an array of numbers in a model."""
    return _stored_bytes(array.size, as_dtype(array.dtype))


def data_of(array: AnyArray) -> memoryview:
    """The bytes that stand for an array of numbers in a model: those of the array itself where they can."""
    if as_dtype(array.dtype) in _BITS:
        return memoryview(package().numpy_helper.from_array(array).raw_data)
    little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    return little.reshape(-1).view(np.uint8).data


def checked_sizes(name: str, dims: Sequence[int]) -> list[int]:
    """The sizes of a tensor message. DataLossError if one is negative or they are too many."""
    sizes = list(dims)
    if len(sizes) > MOST_AXES or min(sizes, default=0) < 0:
        raise errors.DataLossError(f"tensor {name!r} cannot have the shape {sizes[:MOST_AXES]}")
    return sizes


def _stored_bytes(count: int, dtype: DType) -> int:
    """The bytes that `count` elements take in a model."""
    return -(-count * _BITS[dtype] // 8) if dtype in _BITS else count * dtype.size


def _elements(data: memoryview, dtype: DType, count: int) -> AnyArray:
    """The elements in the bytes of a model, which are little-endian."""
    if dtype in _BITS:
        return _unpacked(np.frombuffer(data, np.uint8), _BITS[dtype])[:count].view(dtype.np)
    array = as_elements(data, np.dtype(np.uint8) if dtype.is_bool else dtype.np.newbyteorder("<"))
    return array.astype(dtype.np) if dtype.is_bool or not array.dtype.isnative else array


def _unpacked(packed: AnyArray, bits: int) -> AnyArray:
    """The parts of each byte, each in a byte of its own."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((packed[:, None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(-1)


def _check_length(tensor: Any, given: int, needed: int, unit: str) -> None:
    if given != needed:
        raise errors.DataLossError(
            f"tensor {tensor.name!r} of shape {list(tensor.dims)} needs {needed} {unit}, the model has {given}"
        )


def _typed_length(tensor: Any, dtype: DType) -> int:
    """The number of elements in the field for a dtype."""
    if dtype in (dtypes.complex64, dtypes.complex128):
        return len(tensor.float_data if dtype is dtypes.complex64 else tensor.double_data) // 2
    fields = {
        dtypes.float32: "float_data", dtypes.float64: "double_data", dtypes.int64: "int64_data",
        dtypes.uint32: "uint64_data", dtypes.uint64: "uint64_data",
    }  # fmt: skip
    return len(getattr(tensor, fields.get(dtype, "int32_data")))


def _strings(name: str, given: Sequence[bytes], sizes: Sequence[int]) -> AnyArray:
    if len(given) != math.prod(sizes):
        raise errors.DataLossError(f"tensor {name!r} of shape {list(sizes)} has {len(given)} strings")
    array = full_array((len(given),), b"")
    array[:] = list(given)
    return array.reshape(list(sizes))
