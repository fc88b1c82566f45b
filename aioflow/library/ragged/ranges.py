"""Ranges of numbers as the rows of a RaggedTensor."""

from typing import Final

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.shapes import broadcast_to, shape
from aioflow.kernels.control.assertions import assert_none_equal
from aioflow.kernels.math.arithmetic import maximum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.rounding import ceil
from aioflow.library.control import name_scope, with_dependencies
from aioflow.library.ragged.partitions import RowPartition, flat_places, splits_dtype
from aioflow.library.ragged.tensor import RaggedTensor
from aioflow.tensors.dtypes import DType, DTypeLike, as_dtype, float32, float64, int32, int64

_ORDER: Final = (int32, int64, float32, float64)


@transactional
def range(
    starts: NumberLike,
    limits: NumberLike | None = None,
    deltas: NumberLike = 1,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    row_splits_dtype: DTypeLike = int64,
) -> RaggedTensor:
    """Return a row with the numbers from each start on, and before its limit.

    Scalars hold for all rows. A row whose start is not before its limit is empty.

    Args:
        starts: the first number of each row; the limits, of rows from 0 on, if `limits` is None.
        limits: the number before which each row ends.
        deltas: the difference between numbers of a row, not 0.
        dtype: the dtype of the numbers; by default the widest of those given.
        name: the name of the operation.
        row_splits_dtype: int32 or int64.

    Raises:
        InvalidArgumentError: a difference is 0.
        ValueError: the vectors have different lengths.

    Examples:
        >>> (await session.run(af.ragged.range([0, 5, 8], [3, 3, 12], 2))).to_list()
        [[0, 2], [], [8, 10]]
    """
    starts, limits = (0, starts) if limits is None else (starts, limits)
    with name_scope(name, "RaggedRange"):
        found = [convert_to_tensor(value) for value in (starts, limits, deltas)]
        wanted = _widest(found) if dtype is None else as_dtype(dtype)
        start, limit, delta = _vectors([cast(tensor, wanted) for tensor in found])
        delta = with_dependencies([assert_none_equal(delta, cast(0, wanted), message="deltas must not be 0")], delta)
        lengths = _counts(limit - start, delta, splits_dtype(row_splits_dtype))
        values, splits = flat_places(start, lengths, delta)
        return RaggedTensor(values, RowPartition(splits), True)


def _widest(tensors: list[Tensor]) -> DType:
    for tensor in tensors:
        if tensor.dtype not in _ORDER:
            raise TypeError(f"ranges are of int32, int64, float32 or float64, not {tensor.dtype.name}")
    return max([tensor.dtype for tensor in tensors], key=_ORDER.index)


def _vectors(tensors: list[Tensor]) -> list[Tensor]:
    """Return the tensors as vectors of one length."""
    for tensor in tensors:
        if tensor.shape.ndims not in (0, 1):
            raise ValueError(f"starts, limits and deltas are scalars or vectors, and one has shape {tensor.shape}")
    vectors = [tensor for tensor in tensors if tensor.shape.ndims == 1]
    for other in vectors[1:]:
        vectors[0].shape.assert_is_compatible_with(other.shape)
    sizes = shape(vectors[0]) if vectors else [1]
    return [tensor if tensor.shape.ndims else broadcast_to(tensor, sizes) for tensor in tensors]


def _counts(distances: Tensor, deltas: Tensor, dtype: DType) -> Tensor:
    """Return the number of elements of each row."""
    if distances.dtype.is_floating:
        counts = cast(ceil(distances / deltas), dtype)
    else:
        counts = cast(-(-distances // deltas), dtype)
    return maximum(counts, 0)
