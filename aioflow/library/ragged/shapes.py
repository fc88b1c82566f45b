"""The sizes of a RaggedTensor, and axes of it made one."""

from typing import Any

from aioflow.graph.convert import TensorLike, constant_value, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.shapes import broadcast_to, reshape, shape
from aioflow.kernels.math.reduction import reduce_max
from aioflow.library.ragged.partitions import RowPartition
from aioflow.library.ragged.tensor import RaggedTensor
from aioflow.tensors.dtypes import DType
from aioflow.tensors.recursion import safe_repr


def axis_of(ragged: RaggedTensor, axis: Any, extra: int = 0) -> int:
    """Return the axis counted from the front. ValueError if it is none; `extra` axes are about to be added."""
    if isinstance(axis, Tensor):
        axis = constant_value(axis)
    if isinstance(axis, bool) or not hasattr(axis, "__index__"):
        raise TypeError(f"axis must be an integer, not {safe_repr(axis)}")
    place: int = axis.__index__()
    rank: int | None = ragged.shape.ndims
    if rank is None:
        if place < 0:
            raise ValueError(f"axis is {place}, and may only be negative if the rank of the values is known")
        return place
    if not -rank - extra <= place < rank + extra:
        raise ValueError(f"axis is {place}, and must be from {-rank - extra} to {rank + extra - 1}")
    return place % (rank + extra)


def row_lengths(ragged: RaggedTensor, axis: int) -> Any:
    """Return the lengths of rows along that axis."""
    axis = axis_of(ragged, axis)
    if axis == 0:
        return ragged.nrows()
    if axis == 1:
        return ragged.row_partition.lengths()
    if isinstance(ragged.values, RaggedTensor):
        return ragged.with_values(row_lengths(ragged.values, axis - 1))
    sizes = shape(ragged.values, out_type=ragged.row_splits.dtype)
    return ragged.with_values(broadcast_to(sizes[axis - 1], sizes[: axis - 1]))


def bounding_shape(ragged: RaggedTensor, axis: TensorLike | None, dtype: DType) -> Tensor:
    """Return the sizes of the smallest tensor that contains all rows, or those of some axes."""
    if axis is not None:
        return gather(bounding_shape(ragged, None, dtype), convert_to_tensor(axis))
    sizes = [part.nrows(dtype) for part in ragged.partitions[:1]]
    sizes += [longest(part, dtype) for part in ragged.partitions]
    return concat([sizes, shape(ragged.flat_values, out_type=dtype)[1:]], 0)


def longest(part: RowPartition, dtype: DType) -> Tensor:
    """Return the length of the longest row, 0 without rows."""
    if part.static_row_length is not None:
        return constant(part.static_row_length, dtype)
    lengths = part.with_dtype(dtype).lengths()
    return reduce_max(concat([constant([0], dtype), lengths], 0))


def merge_dims(ragged: RaggedTensor, outer_axis: int, inner_axis: int) -> Any:
    """Return it with the axes from `outer_axis` to `inner_axis` made one."""
    outer, inner = axis_of(ragged, outer_axis), axis_of(ragged, inner_axis)
    if outer > inner:
        raise ValueError(f"outer_axis is {outer_axis}, and must not be behind inner_axis, {inner_axis}")
    return _merged(ragged, outer, inner)


def _merged(value: Any, outer: int, inner: int) -> Any:
    if outer == inner:
        return value
    if not isinstance(value, RaggedTensor):
        sizes = shape(value)
        made = reshape(value, concat([sizes[:outer], [-1], sizes[inner + 1 :]], 0))
        made.set_shape([*value.shape[:outer], None, *value.shape[inner + 1 :]])
        return made
    if outer == 0:
        return _merged(value.values, 0, inner - 1)
    if outer > 1:
        return value.with_values(_merged(value.values, outer - 1, inner - 1))
    return _merged(_second_merged(value), 1, inner - 1)


def _second_merged(ragged: RaggedTensor) -> RaggedTensor:
    """Return it with the axes 1 and 2 made one."""
    inner, splits = ragged.values, ragged.row_splits
    if isinstance(inner, RaggedTensor):
        return RaggedTensor(inner.values, RowPartition(gather(inner.row_splits, splits)), True)
    size = shape(inner, out_type=splits.dtype)[1]
    return RaggedTensor(_merged(inner, 0, 1), RowPartition(splits * size), True)
