"""Partitioners: functions of a shape and a dtype that return into how many parts each axis is cut.

`get_variable(partitioner=)` makes a variable in such parts.
"""

import math
from collections.abc import Callable, Sequence

from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DTypeLike, TensorShape, as_dtype

Shape = Sequence[int] | TensorShape
Partitioner = Callable[[Shape, DTypeLike], list[int]]
"""(shape, dtype) -> the number of parts along each axis."""


def fixed_size_partitioner(num_shards: int, axis: int = 0) -> Partitioner:
    """Cut the axis into `num_shards` parts, or into single rows if it has fewer.

    Examples:
        >>> partitioner = af.fixed_size_partitioner(2)
        >>> partitioner(shape=af.TensorShape([10, 4]), dtype=af.float32)
        [2, 1]
    """

    def partition(shape: Shape, dtype: DTypeLike = dtypes.float32) -> list[int]:
        sizes = [int(size) for size in shape]
        return _along(axis, len(sizes), min(sizes[axis], num_shards))

    return partition


def variable_axis_size_partitioner(
    max_shard_bytes: int, axis: int = 0, bytes_per_string_element: int = 16, max_shards: int | None = None
) -> Partitioner:
    """Cut the axis into as few parts as have at most `max_shard_bytes`, and into at most `max_shards`.

    Raises:
        ValueError: one of the limits is below 1.

    Examples:
        >>> partitioner = af.variable_axis_size_partitioner(max_shard_bytes=64)
        >>> partitioner(shape=af.TensorShape([8, 4]), dtype=af.float32)
        [2, 1]
    """
    _check_limits(max_shard_bytes=max_shard_bytes, bytes_per_string_element=bytes_per_string_element)
    if max_shards is not None:
        _check_limits(max_shards=max_shards)

    def partition(shape: Shape, dtype: DTypeLike = dtypes.float32) -> list[int]:
        sizes = [int(size) for size in shape]
        if not sizes:
            return []
        row = math.prod(sizes) // max(1, sizes[axis]) * _element_bytes(dtype, bytes_per_string_element)
        parts = math.ceil(sizes[axis] / max(1, max_shard_bytes // max(1, row)))
        most = sizes[axis] if max_shards is None else min(sizes[axis], max_shards)
        return _along(axis, len(sizes), max(1, min(parts, most)))

    return partition


def min_max_variable_partitioner(
    max_partitions: int = 1, axis: int = 0, min_slice_size: int = 256 << 10, bytes_per_string_element: int = 16
) -> Partitioner:
    """Cut the axis into as many parts, at most `max_partitions`, as have about `min_slice_size` bytes.

    Raises:
        ValueError: one of the limits is below 1.

    Examples:
        >>> partitioner = af.min_max_variable_partitioner(max_partitions=4, min_slice_size=64)
        >>> partitioner(shape=af.TensorShape([32, 4]), dtype=af.float32)
        [4, 1]
    """
    _check_limits(max_partitions=max_partitions, min_slice_size=min_slice_size)

    def partition(shape: Shape, dtype: DTypeLike = dtypes.float32) -> list[int]:
        sizes = [int(size) for size in shape]
        if not sizes:
            return []
        whole = math.prod(sizes) * _element_bytes(dtype, bytes_per_string_element)
        parts = min(math.ceil(whole / min_slice_size), sizes[axis], max_partitions)
        return _along(axis, len(sizes), max(1, parts))

    return partition


def _element_bytes(dtype: DTypeLike, of_string: int) -> int:
    kind = as_dtype(dtype)
    return of_string if kind is dtypes.string else kind.size


def _along(axis: int, rank: int, parts: int) -> list[int]:
    counts = [1] * rank
    counts[axis] = parts
    return counts


def _check_limits(**limits: int) -> None:
    for name, limit in limits.items():
        if limit < 1:
            raise ValueError(f"{name} must be at least 1, not {limit}")
