"""Sparse tensors of a model as dense arrays."""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.onnx.storage import Storage
from aioflow.onnx.tensors import array_of, checked_sizes, dtype_of
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.object_arrays import full_array

_LARGEST: Final = 1 << 31
"""The most bytes of a dense array: a few bytes of a model can stand for any number."""


def dense_array_of(message: Any, storage: Storage) -> AnyArray:
    """The dense value of a sparse tensor message, which cannot be written to.

    DataLossError if its parts do not fit each other, ResourceExhaustedError if it has more than 2 GiB.
    """
    name = message.values.name
    values, indices = array_of(message.values, storage), array_of(message.indices, storage)
    sizes = checked_sizes(name, message.dims)
    nbytes = math.prod([max(size, 1) for size in sizes]) * dtype_of(message.values.data_type, name).size
    if nbytes > _LARGEST:
        raise errors.ResourceExhaustedError(
            f"sparse tensor {name!r} of shape {sizes} has {nbytes:,} bytes as a dense one, and at most {_LARGEST:,} "
            "are made"
        )
    count = math.prod(sizes)
    array = full_array((count,), b"") if values.dtype == object else np.zeros(count, values.dtype)
    array[_places(name, values, indices, sizes)] = values
    array.flags.writeable = False
    return array.reshape(sizes)


def _places(name: str, values: AnyArray, indices: AnyArray, sizes: Sequence[int]) -> AnyArray:
    """Where each value lies among all elements in a row. Indices are such places, or have a number for each axis."""
    if values.ndim != 1 or indices.dtype != np.int64 or indices.shape not in (values.shape, (len(values), len(sizes))):
        raise errors.DataLossError(
            f"sparse tensor {name!r} of shape {list(sizes)} cannot have values of shape {list(values.shape)} at "
            f"{indices.dtype} indices of shape {list(indices.shape)}"
        )
    limits = np.array(sizes if indices.ndim == 2 else math.prod(sizes), np.int64)
    outside = np.flatnonzero(((indices < 0) | (indices >= limits)).any(tuple(range(1, indices.ndim))))
    if outside.size:
        index = indices[outside[0]].tolist()
        raise errors.DataLossError(f"sparse tensor {name!r} of shape {list(sizes)} has no place for the index {index}")
    places = indices @ _steps(sizes) if indices.ndim == 2 else indices
    if (np.diff(places) <= 0).any():
        raise errors.DataLossError(f"the indices of sparse tensor {name!r} are not in ascending order")
    return places


def _steps(sizes: Sequence[int]) -> AnyArray:
    """How many elements in a row lie between neighbours along each axis."""
    return np.array([math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))], np.int64)
