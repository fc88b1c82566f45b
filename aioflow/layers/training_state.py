"""The state of a training as bytes that a variable can hold: plain data in a line of JSON, then the arrays in it."""

import json
import math
from typing import Any, Final

import numpy as np

from aioflow.tensors.dtypes import Array, as_dtype
from aioflow.tensors.recursion import safe_repr

_ARRAY: Final = "__array__"
"""The key of the dtype, shape and first byte of an array in the JSON."""


def encode(state: Any) -> bytes:
    """The bytes of plain data with arrays in it. TypeError for other objects."""
    arrays = list[bytes]()
    size = 0

    def plain(value: Any) -> Any:
        nonlocal size
        if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.kind in "OSU":
            raise TypeError(
                "the state of a training, such as `backup_state` of a callback gives it, is plain data and arrays of "
                f"numbers, not {safe_repr(value)}"
            )
        arrays.append(value.tobytes())
        start, size = size, size + len(arrays[-1])
        return {_ARRAY: [as_dtype(value.dtype).name, value.shape, start]}

    text = json.dumps(state, default=plain)
    return b"".join([text.encode(), b"\n", *arrays])


def decode(data: bytes) -> Any:
    """What these bytes were made of; tuples become lists. ValueError for other bytes."""
    text, _, arrays = data.partition(b"\n")

    def found(value: dict[str, Any]) -> Any:
        return _array(arrays, *value[_ARRAY]) if value.keys() == {_ARRAY} else value

    return json.loads(text, object_hook=found)


def _array(data: bytes, name: str, shape: list[int], start: int) -> Array:
    dtype, count = as_dtype(name).np, math.prod(shape)
    return np.frombuffer(data, dtype, count, start).reshape(shape).copy()
