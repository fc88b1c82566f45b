"""Sums, means and other reductions of RaggedTensors, along axes of rows and others."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

from aioflow.graph.composed import key_of
from aioflow.graph.convert import constant_value
from aioflow.graph.operation import Tensor
from aioflow.graph.params import renamed
from aioflow.kernels.array.constants import ones_like
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.ranges import range as range_
from aioflow.kernels.array.shapes import expand_dims, reshape
from aioflow.kernels.math import reduction, variance
from aioflow.kernels.math.arithmetic import maximum, subtract, truediv
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import not_equal
from aioflow.kernels.math.elementwise import sqrt, square
from aioflow.kernels.math.segments import unsorted_segment_sum
from aioflow.kernels.math.unsorted_segments import unsorted_segment_max, unsorted_segment_min, unsorted_segment_prod
from aioflow.kernels.text import strings
from aioflow.kernels.text.text_pieces import unsorted_segment_join
from aioflow.library.control import name_scope
from aioflow.library.ragged.partitions import RowPartition, segment_ids, splits_of
from aioflow.library.ragged.shapes import axis_of, longest
from aioflow.library.ragged.tensor import RaggedTensor
from aioflow.tensors.dtypes import int32

Aggregate = Callable[..., Tensor]
"""(values, the segment of each, number of segments) -> one value for each segment."""


def _any_of(values: Tensor, ids: Tensor, count: Tensor) -> Tensor:
    return not_equal(unsorted_segment_sum(cast(values, int32), ids, count), 0)


def _all_of(values: Tensor, ids: Tensor, count: Tensor) -> Tensor:
    return not_equal(unsorted_segment_prod(cast(values, int32), ids, count), 0)


def _reduce(dense: Callable[..., Tensor], aggregate: Aggregate, value: Any, axis: Any, keepdims: bool = False) -> Any:
    """Return the reduction of a RaggedTensor along axes, by default all of them."""
    if axis is None:
        whole = dense(value.flat_values)
        return reshape(whole, [1] * value.shape.ndims) if keepdims else whole
    axes = _axes(value, axis)
    for place in reversed(axes):
        value = _along(dense, aggregate, value, place)
    if keepdims:
        for place in axes:
            value = expand_dims(value, place)
    return value


def _axes(value: RaggedTensor, axis: Any) -> list[int]:
    """Return the axes, counted from the front, rising."""
    if isinstance(axis, Tensor):
        axis = constant_value(axis)
        if axis is None:
            raise ValueError("axis must be known when the graph is built")
        axis = axis.tolist()
    return sorted({axis_of(value, each) for each in (axis if isinstance(axis, Sequence) else [axis])})


def _along(dense: Callable[..., Tensor], aggregate: Aggregate, value: Any, axis: int) -> Any:
    if not isinstance(value, RaggedTensor):
        return dense(value, axis)
    part = value.row_partition
    if axis == 0:
        places = range_(value.row_splits[-1]) - gather(value.row_splits, part.value_rowids())
        return _aggregated(aggregate, value.values, places, longest(part, value.row_splits.dtype))
    if axis == 1:
        return _aggregated(aggregate, value.values, part.value_rowids(), part.nrows())
    return value.with_values(_along(dense, aggregate, value.values, axis - 1))


def _aggregated(aggregate: Aggregate, values: Any, ids: Tensor, count: Tensor) -> Any:
    """Return one value for each segment; of rows, one row for each, as long as its longest."""
    if not isinstance(values, RaggedTensor):
        return aggregate(values, ids, count)
    lengths = maximum(unsorted_segment_max(values.row_lengths(), ids, count), 0)
    splits, rows = splits_of(lengths), segment_ids(values.row_splits)
    offsets = range_(values.row_splits[-1]) - gather(values.row_splits, rows)
    places = gather(splits, gather(ids, rows)) + offsets
    return RaggedTensor(_aggregated(aggregate, values.values, places, splits[-1]), RowPartition(splits), True)


def _mean(value: RaggedTensor, axis: Any, keepdims: bool = False) -> Any:
    total = _sum(value, axis, keepdims)
    count = _sum(value.with_flat_values(ones_like(value.flat_values)), axis, keepdims)
    return truediv(total, count)


_REDUCTIONS: Final[dict[Any, Aggregate]] = {
    reduction.reduce_sum: unsorted_segment_sum,
    reduction.reduce_prod: unsorted_segment_prod,
    reduction.reduce_max: unsorted_segment_max,
    reduction.reduce_min: unsorted_segment_min,
    reduction.reduce_any: _any_of,
    reduction.reduce_all: _all_of,
}
_sum: Final = functools.partial(_reduce, reduction.reduce_sum, unsorted_segment_sum)
for _dense, _aggregate in _REDUCTIONS.items():
    RaggedTensor.rules[key_of(_dense)] = functools.partial(_reduce, _dense, _aggregate)
RaggedTensor.rules[key_of(reduction.reduce_mean)] = _mean


def _variance(input_tensor: RaggedTensor, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
    """The mean square less the square of the mean, and no less than 0."""
    if not (input_tensor.dtype.is_floating or input_tensor.dtype.is_complex):
        raise TypeError(f"a variance is of floats, not of {input_tensor.dtype.name}")
    with name_scope(name, "RaggedReduceVariance"):
        squares = _mean(input_tensor.with_flat_values(square(input_tensor.flat_values)), axis, keepdims)
        return maximum(subtract(squares, square(_mean(input_tensor, axis, keepdims))), 0)


def _std(input_tensor: RaggedTensor, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
    with name_scope(name, "RaggedReduceStd"):
        return sqrt(_variance(input_tensor, axis, keepdims))


def _reduce_join(
    inputs: RaggedTensor,
    axis: Any = None,
    keep_dims: bool | None = None,
    separator: str = "",
    name: str | None = None,
    reduction_indices: Any = None,
    keepdims: bool | None = None,
) -> Any:
    axis = renamed("axis", axis, reduction_indices)
    keep = bool(renamed("keepdims", keepdims, keep_dims))
    with name_scope(name, "RaggedReduceJoin"):
        return _reduce(
            functools.partial(strings.reduce_join, separator=separator),
            functools.partial(unsorted_segment_join, separator=separator),
            inputs,
            axis,
            keep,
        )


RaggedTensor.rules[key_of(strings.reduce_join)] = _reduce_join
RaggedTensor.rules.update({key_of(variance.reduce_variance): _variance, key_of(variance.reduce_std): _std})
