"""Attributes as plain data, which JSON and msgpack can hold.

    None, True, 7, "text"            themselves
    0.5, nan, inf                    {"float": 0.5}, {"float": "nan"}, {"float": "inf"}
    b"raw"                           {"bytes": b"raw"}
    af.float32                       {"dtype": "float32"}
    TensorShape([2, None])           {"shape": [2, -1]}, {"shape": None} for unknown rank
    (1, 2)                           {"tuple": [1, 2]}
    an array                         {"array": {"dtype": "int32", "shape": [2], "data": b"..."}}, little-endian
    an array of text                 {"array": {"dtype": "string", "shape": [2], "data": [b"a", b"b"]}}

Reading makes no other types, whatever the data says, and checks every length before it allocates.
"""

import functools
import math
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aioflow.tensors import dtypes
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import DType, TensorShape
from aioflow.tensors.recursion import short_repr

DEEPEST: Final = 32
"""The most levels of nested tuples."""
_INTEGERS: Final = range(-(1 << 63), 1 << 64)
_LARGEST_SIZE: Final = (1 << 63) - 1
_MOST_AXES: Final = 64
_DTYPES: Final = {dtype.name: dtype for dtype in dtypes.EVERY}


def to_plain(value: Any) -> Any:
    """Return `value` as plain data. ValueError if it has no plain form."""
    match value:
        case None | bool() | str():
            return value
        case int() if value in _INTEGERS:
            return value
        case float():
            return {"float": float(value) if math.isfinite(value) else str(value)}
        case bytes():
            return {"bytes": value}
        case DType():
            return {"dtype": value.name}
        case TensorShape():
            return {"shape": value.as_plain()}
        case tuple():
            return {"tuple": [to_plain(item) for item in value]}
        case np.ndarray():
            return {"array": _array_to_plain(value)}
    raise ValueError(f"{summarise(value)} of type {type(value).__name__} has no plain form")


def check_plain(value: Any, depth: int = 0) -> None:
    """Raise ValueError if `value` has no plain form. Copies no array."""
    if isinstance(value, tuple):
        _check_depth(depth)
        for item in value:
            check_plain(item, depth + 1)
    elif isinstance(value, np.ndarray):
        _dtype_of(value)
    else:
        to_plain(value)


def from_plain(data: Any, depth: int = 0) -> Any:
    """Return the value that `to_plain` wrote. ValueError for other data."""
    if data is None or isinstance(data, (bool, str)) or (type(data) is int and data in _INTEGERS):
        return data
    tag, content = next(iter(data.items())) if isinstance(data, dict) and len(data) == 1 else (None, None)
    if tag == "tuple" and isinstance(content, list):
        _check_depth(depth)
        return tuple([from_plain(item, depth + 1) for item in content])
    if tag not in _READERS:
        tags = ", ".join([*_READERS, "tuple"])
        raise ValueError(
            f"{summarise(data)} is not an attribute: use None, a bool, str, int of 64 bits, or one of {tags}"
        )
    return _READERS[tag](content)


def summarise(value: Any) -> str:
    """`short_repr` of a value; for bytes, a list or a dict only its length and type."""
    return f"{len(value)} of {type(value).__name__}" if isinstance(value, (bytes, list, dict)) else short_repr(value)


def _check_depth(depth: int) -> None:
    if depth >= DEEPEST:
        raise ValueError(f"tuples are nested more than {DEEPEST} deep")


def _float(content: Any) -> float:
    if type(content) is float or content in ("nan", "inf", "-inf") or (type(content) is int and content in _INTEGERS):
        return float(content)
    raise ValueError(f"{summarise(content)} is not a number")


def _bytes(content: Any) -> bytes:
    if not isinstance(content, bytes):
        raise ValueError(f"{summarise(content)} is not bytes")
    return content


def _dtype(content: Any) -> DType:
    if not isinstance(content, str) or content not in _DTYPES:
        raise ValueError(f"{summarise(content)} is not a dtype: use one of {', '.join(_DTYPES)}")
    return _DTYPES[content]


def _shape(content: Any) -> TensorShape:
    if content is not None and (not isinstance(content, list) or not all(type(size) is int for size in content)):
        raise ValueError(
            f"{summarise(content)} is not a shape: use a list of integers, -1 for an unknown size, or None"
        )
    return TensorShape.from_plain(content)


# Arrays


def _dtype_of(array: AnyArray) -> DType:
    try:
        dtype = dtypes.as_dtype(array.dtype)
    except TypeError:
        dtype = dtypes.resource
    if dtype is dtypes.resource or (dtype is dtypes.string and not all(type(item) is bytes for item in array.flat)):
        raise ValueError(f"an array of {array.dtype} cannot be sent or stored: no dtype of aioflow has such elements")
    return dtype


def _array_to_plain(array: AnyArray) -> dict[str, Any]:
    dtype = _dtype_of(array)
    plain = {"dtype": dtype.name, "shape": list(array.shape)}
    if dtype is dtypes.string:
        return {**plain, "data": array.ravel().tolist()}
    native = array.astype(dtype.np, copy=False)
    return {**plain, "data": (native.byteswap() if sys.byteorder == "big" else native).tobytes()}


def _array(content: Any) -> AnyArray:
    if not isinstance(content, dict) or content.keys() != {"dtype", "shape", "data"}:
        raise ValueError(f"{summarise(content)} is not an array: it needs dtype, shape and data")
    dtype, sizes, data = _dtype(content["dtype"]), content["shape"], content["data"]
    if not isinstance(sizes, list) or len(sizes) > _MOST_AXES or not all(map(_is_size, sizes)):
        raise ValueError(
            f"{summarise(sizes)} is not the shape of an array: use a list of at most {_MOST_AXES} integers"
        )
    if math.prod(size or 1 for size in sizes) * dtype.size > _LARGEST_SIZE:  # NumPy checks empty arrays too
        raise ValueError(f"an array of {dtype.name}{sizes} is larger than any memory")
    count = math.prod(sizes)
    return _text(data, count, sizes) if dtype is dtypes.string else _numbers(data, count, sizes, dtype)


def _is_size(size: Any) -> bool:
    return type(size) is int and 0 <= size <= _LARGEST_SIZE


def _numbers(data: Any, count: int, sizes: list[int], dtype: DType) -> AnyArray:
    if dtype is dtypes.resource or not isinstance(data, bytes) or len(data) != count * dtype.size:
        raise ValueError(f"an array of {dtype.name}{sizes} has {count * dtype.size} bytes, not {summarise(data)}")
    if dtype is dtypes.bool_ and data.translate(None, b"\0\1"):
        raise ValueError("an array of bool has bytes other than 0 and 1")
    array: AnyArray = np.ndarray(sizes, dtype.np, data)
    return _read_only(array.byteswap()) if sys.byteorder == "big" else array


def _text(data: Any, count: int, sizes: list[int]) -> AnyArray:
    if not isinstance(data, list) or len(data) != count or not all(type(item) is bytes for item in data):
        raise ValueError(f"an array of string{sizes} is a list of {count} bytes, not {summarise(data)}")
    array: AnyArray = np.empty(count, object)
    array[:] = data
    return _read_only(array.reshape(sizes))


def _read_only(array: AnyArray) -> AnyArray:
    array.flags.writeable = False
    return array


_READERS: Final[dict[Any, Callable[[Any], Any]]] = {
    "float": _float,
    "bytes": _bytes,
    "dtype": _dtype,
    "shape": _shape,
    "array": _array,
}


def pack(data: Any) -> bytes:
    """Return plain data in msgpack."""
    packed: bytes = _msgpack().packb(data)
    return packed


def unpack(data: bytes | memoryview) -> Any:
    """Read plain data in msgpack. ValueError for malformed data, and for too many lists and maps for its size.

    An empty list is one byte in msgpack and 64 in memory. So there may be one list or map for every four bytes, besides
    the first thousand: the result takes at most some 30 times the memory of `data`.
    """
    msgpack = _msgpack()
    try:
        if len(data) <= _BYTES_PER_CONTAINER * _CONTAINERS:
            return msgpack.unpackb(data, max_ext_len=0)
        counted = _counting(len(data))
        return msgpack.unpackb(data, max_ext_len=0, list_hook=counted, object_hook=counted)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise ValueError(str(error) or type(error).__name__) from None


def _counting(nbytes: int) -> Callable[[Any], Any]:
    """Passes lists and maps on, and raises ValueError for too many of them in so many bytes."""
    left = _CONTAINERS + nbytes // _BYTES_PER_CONTAINER

    def counted(container: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise ValueError(f"{nbytes} bytes hold too many lists and maps")
        return container

    return counted


@functools.cache
def _msgpack() -> Any:
    import msgpack

    return msgpack


_CONTAINERS: Final = 1024
_BYTES_PER_CONTAINER: Final = 4
