"""Tensors of the Open Inference Protocol, as numbers in JSON, or as bytes that follow the JSON.

The bytes of a binary tensor are row by row, little-endian; `string_tensors` has those of BYTES.
Arrays lie in the body itself, without a copy, where the body has them at an address that fits.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from aioflow import errors
from aioflow.serving.large_json import beside_loop
from aioflow.serving.string_tensors import read_strings, write_strings
from aioflow.tensors import dtypes
from aioflow.tensors.as_array import as_array
from aioflow.tensors.dtypes import Array, DType
from aioflow.tensors.object_arrays import to_list
from aioflow.tensors.recursion import short_repr

_NAMES: Final[Mapping[DType, str]] = {
    dtypes.bool_: "BOOL", dtypes.string: "BYTES", dtypes.bfloat16: "BF16",
    dtypes.float16: "FP16", dtypes.float32: "FP32", dtypes.float64: "FP64",
    dtypes.int8: "INT8", dtypes.int16: "INT16", dtypes.int32: "INT32", dtypes.int64: "INT64",
    dtypes.uint8: "UINT8", dtypes.uint16: "UINT16", dtypes.uint32: "UINT32", dtypes.uint64: "UINT64",
}  # fmt: skip
_DTYPES: Final = {name: dtype for dtype, name in _NAMES.items()}
_OF_ARRAYS: Final = {dtype.np: name for dtype, name in _NAMES.items()}
_LITTLE: Final = 4096
"""Bytes that are copied in less time than a view of them is made."""
_MOST_AXES: Final = 64


def datatype_of(dtype: DType) -> str:
    """Return the protocol's name of a dtype; aioflow's own where the protocol has none."""
    return _NAMES.get(dtype, dtype.name)


# From a request


class GivenTensor(NamedTuple):
    """What the JSON of a request says of an input.

    Attributes:
        name: its name.
        dtype: its dtype.
        shape: its sizes.
        size: how many bytes of those that follow the JSON it has; None if the JSON has its elements.
        data: these elements.
    """

    name: str
    dtype: DType
    shape: Sequence[int]
    size: int | None
    data: Any

    @property
    def has_binary_strings(self) -> bool:
        """Whether it is text among the bytes that follow the JSON."""
        return self.size is not None and self.dtype is dtypes.string


def read_given(given: Any) -> list[GivenTensor]:
    """Return what the `inputs` of a request say. InvalidArgumentError, naming the input, if that makes no sense."""
    if not isinstance(given, list):
        raise errors.InvalidArgumentError(f'"inputs" must be a list of tensors, not {_kind(given)}')
    found: dict[str, GivenTensor] = {}
    for item in given:
        name = read_name(item, "inputs")
        if name in found:
            raise errors.InvalidArgumentError(f"input {name!r} is given twice")
        try:
            found[name] = _read_given(name, item)
        except ValueError as error:
            raise _wrong_input(name, error) from None
    return list(found.values())


async def read_tensors(given: Sequence[GivenTensor], binary: memoryview, json: int = 0) -> dict[str, Array]:
    """Return the arrays of a request, by name. The event loop has turns.

    Args:
        given: what the JSON says.
        binary: what follows it.
        json: the bytes of the JSON, if it may have elements of tensors.

    Raises:
        InvalidArgumentError: the elements do not fit what the JSON says, or the bytes are more or fewer than they need.
            The text names the input.
    """
    strings: dict[str, Array] = {}
    start = 0
    for tensor in given:
        if tensor.has_binary_strings:
            try:
                data = _part(tensor, binary, start)
                strings[tensor.name] = (await read_strings(data, math.prod(tensor.shape))).reshape(tensor.shape)
            except ValueError as error:
                raise _wrong_input(tensor.name, error) from None
        start += tensor.size or 0
    return await beside_loop(json, read_numbers, given, binary, strings)


def read_numbers(
    given: Sequence[GivenTensor], binary: memoryview, strings: Mapping[str, Array] | None = None
) -> dict[str, Array]:
    """Return the arrays of a request likewise, at once. Its binary strings, if it has any, have been read already."""
    found: dict[str, Array] = {}
    start = 0
    for tensor in given:
        try:
            if tensor.size is None:
                found[tensor.name] = _from_json(tensor.data, tensor.dtype, tensor.shape)
                continue
            if strings and tensor.name in strings:
                found[tensor.name] = strings[tensor.name]
            else:
                found[tensor.name] = _from_bytes(_part(tensor, binary, start), tensor.dtype, tensor.shape)
            start += tensor.size
        except (TypeError, ValueError) as error:
            raise _wrong_input(tensor.name, error) from None
    if start != len(binary):
        text = f"the binary inputs need {start} bytes, and {len(binary)} bytes follow the JSON"
        raise errors.InvalidArgumentError(text)
    return found


def _part(tensor: GivenTensor, binary: memoryview, start: int) -> memoryview:
    """Return the bytes of a tensor."""
    size = tensor.size or 0
    if size > len(binary) - start:
        raise ValueError(f"it has {size} bytes, and {len(binary) - start} are left of those that follow the JSON")
    return binary[start : start + size]


def _wrong_input(name: str, error: Exception) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(f"input {name!r}: {error}")


def read_name(item: Any, where: str) -> str:
    """Return the name of an item of a list of tensors. InvalidArgumentError if it has none."""
    name = item.get("name") if isinstance(item, dict) else None
    if not isinstance(name, str) or not name:
        raise errors.InvalidArgumentError(f'each of "{where}" is an object with a "name", not {_kind(item)}')
    return name


def read_parameters(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters of a request or a tensor. InvalidArgumentError if they are not an object."""
    found = item.get("parameters", {})
    if not isinstance(found, dict):
        raise errors.InvalidArgumentError(f'"parameters" must be an object, not {_kind(found)}')
    return found


def _read_given(name: str, item: Mapping[str, Any]) -> GivenTensor:
    dtype, shape = _read_dtype(item.get("datatype")), _read_shape(item.get("shape"))
    size = read_parameters(item).get("binary_data_size")
    if (size is None) is ("data" not in item):
        raise ValueError('it must have either "data" or the parameter "binary_data_size"')
    if size is not None and not _is_size(size):
        raise ValueError(f'"binary_data_size" must be a number of bytes, not {short_repr(size)}')
    return GivenTensor(name, dtype, shape, size, item.get("data"))


def _read_dtype(name: Any) -> DType:
    dtype = _DTYPES.get(name) if isinstance(name, str) else None
    if dtype is None:
        raise ValueError(f'"datatype" must be one of {", ".join(sorted(_DTYPES))}, not {short_repr(name)}')
    return dtype


def _read_shape(shape: Any) -> list[int]:
    if not isinstance(shape, list) or not all(map(_is_size, shape)):
        raise ValueError(f'"shape" must be a list of sizes, not {_kind(shape)}')
    if len(shape) > _MOST_AXES:
        raise ValueError(f"it has {len(shape)} axes; an array has at most {_MOST_AXES}")
    return shape


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _from_json(data: Any, dtype: DType, shape: Sequence[int]) -> Array:
    """Return the array of nested lists, or of one flat list of all elements."""
    if not isinstance(data, list):
        raise ValueError(f'"data" must be a list, not {_kind(data)}')
    array = as_array(data, dtype, strict=True)
    if array.ndim != 1 and list(array.shape) != shape:
        raise ValueError(f'"data" has shape {list(array.shape)}, and "shape" is {shape}')
    if array.size != math.prod(shape):
        raise ValueError(f'"data" has {array.size} elements, and shape {shape} needs {math.prod(shape)}')
    return array.reshape(shape)


def _from_bytes(data: memoryview, dtype: DType, shape: Sequence[int]) -> Array:
    count = math.prod(shape)
    if len(data) != count * dtype.size:
        raise ValueError(f"it has {len(data)} bytes, and {datatype_of(dtype)}{shape} needs {count * dtype.size}")
    array = np.frombuffer(data, dtype.np) if count else np.empty(0, dtype.np)
    if dtype is dtypes.bool_ and (array.view(np.uint8) > 1).any():
        raise ValueError("a byte of BOOL is neither 0 nor 1")
    return (array if array.flags.aligned else array.copy()).reshape(shape)


def _kind(value: Any) -> str:
    """A short name of a value of JSON."""
    return f"{type(value).__name__} of {len(value)}" if isinstance(value, (list, dict)) else short_repr(value)


# To a response


class BinaryTensor(NamedTuple):
    """A tensor whose bytes follow the JSON of a response."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    size: int

    def describe(self) -> dict[str, Any]:
        """Return its object of JSON."""
        parameters = {"binary_data_size": self.size}
        return {"name": self.name, "datatype": self.datatype, "shape": self.shape, "parameters": parameters}


def write_list(name: str, array: Array) -> Mapping[str, Any]:
    """Return what the JSON says of a tensor, with its elements.

    UnimplementedError as `write_binary`; InvalidArgumentError if JSON cannot hold its text.
    """
    array = np.asarray(array)
    datatype = _datatype_of_output(name, array)
    data = _to_list(name, array, _DTYPES[datatype])
    return {"name": name, "datatype": datatype, "shape": array.shape, "data": data}


async def write_binary(name: str, array: Array) -> tuple[BinaryTensor, list[bytes | memoryview]]:
    """Return a tensor as bytes, and what describes it. UnimplementedError if the protocol has no name for its dtype."""
    array = np.asarray(array)
    if not array.dtype.hasobject:
        return write_numbers(name, array)
    datatype = _datatype_of_output(name, array)
    parts = await write_strings(array)
    return BinaryTensor(name, datatype, array.shape, sum(map(len, parts))), parts


def write_numbers(name: str, array: Array) -> tuple[BinaryTensor, list[bytes | memoryview]]:
    """Return a tensor of numbers likewise, at once."""
    return BinaryTensor(name, _datatype_of_output(name, array), array.shape, array.nbytes), [_to_bytes(array)]


def _datatype_of_output(name: str, array: Array) -> str:
    datatype = _OF_ARRAYS.get(array.dtype)
    if datatype is None:
        text = f"output {name!r} is {array.dtype.name}, for which the protocol has no name: cast it"
        raise errors.UnimplementedError(text)
    return datatype


def _to_list(name: str, array: Array, dtype: DType) -> list[Any]:
    flat = array.reshape(-1)
    if dtype is dtypes.bfloat16:
        flat = flat.astype(np.float32)  # ml_dtypes makes a list of its own scalars
    items = to_list(flat)
    if dtype is not dtypes.string:
        return items
    try:
        return [text.decode() for text in items]
    except UnicodeDecodeError:
        text = f"output {name!r} has bytes that are not UTF-8: ask for it as binary data"
        raise errors.InvalidArgumentError(text) from None


def _to_bytes(array: Array) -> bytes | memoryview:
    if array.nbytes <= _LITTLE:
        copied: bytes = array.tobytes()
        return copied
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
