"""Tensors with other elements at some positions."""

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.concat import concat, stack
from aioflow.kernels.array.constants import constant, zeros
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.ranges import range as number_range
from aioflow.kernels.array.scatter import tensor_scatter_add, tensor_scatter_update
from aioflow.kernels.array.select import select
from aioflow.kernels.array.shapes import expand_dims, reshape
from aioflow.kernels.math.arithmetic import floormod, maximum, minimum, multiply, subtract
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import greater_equal, less, logical_and
from aioflow.kernels.math.cumulative import cumprod
from aioflow.kernels.math.reduction import reduce_prod, reduce_sum
from aioflow.kernels.math.unsorted_segments import unsorted_segment_max, unsorted_segment_min, unsorted_segment_prod
from aioflow.onnx.call import Call
from aioflow.onnx.operators.selection import counted_from_front, positions_along
from aioflow.onnx.operators.values import axis_of, rank_of, size_at, sizes_of
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import int64

_COMBINE = {
    "mul": (unsorted_segment_prod, multiply),
    "max": (unsorted_segment_max, maximum),
    "min": (unsorted_segment_min, minimum),
}
"""By reduction: the combination of all updates of one place, and that of the result with the element there."""


def _scatter(call: Call, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    positions = positions_along(x, indices, axis_of(call.integer("axis", 0), rank_of(x)))
    return _updated(call.text("reduction", "none"), x, positions, updates)


operator("Scatter", since=9)(_scatter)
operator("ScatterElements", since=11)(_scatter)


@operator("ScatterND", since=11)
def _(call: Call, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    positions = cast(counted_from_front(x, indices), int64)
    return _updated(call.text("reduction", "none"), x, positions, updates)


def _updated(reduction: str, x: Tensor, positions: Tensor, updates: Tensor) -> Tensor:
    if reduction == "none":
        return tensor_scatter_update(x, positions, updates)
    if reduction == "add":
        return tensor_scatter_add(x, positions, updates)
    if reduction not in _COMBINE:
        raise ValueError(f"reduction is none, add, mul, max or min, not {reduction!r}")
    return _combined(reduction, x, positions, updates)


def _combined(reduction: str, x: Tensor, positions: Tensor, updates: Tensor) -> Tensor:
    """`x` as rows, one for each position, combined with the updates of each row."""
    gather, combine = _COMBINE[reduction]
    count = size_at(positions, rank_of(positions) - 1)
    shape = sizes_of(x)
    rows, row = reduce_prod(shape[:count]), shape[count:]
    flat = concat([constant([-1], int64), row], 0)
    numbers = reshape(reduce_sum(multiply(positions, cumprod(shape[:count], exclusive=True, reverse=True)), -1), [-1])
    made = gather(reshape(updates, flat), numbers, rows)
    return reshape(combine(reshape(x, flat), made), shape)


@operator("TensorScatter", since=24)
def _(call: Call, x: Tensor, updates: Tensor, starts: Tensor | None = None) -> Tensor:
    """`x` with the updates of each batch written along an axis from a place on, beyond the end at the begin again."""
    axis = axis_of(call.integer("axis", -2), rank_of(x))
    size, count = sizes_of(x)[axis], sizes_of(updates)[axis]
    first = zeros([size_at(x, 0)], int64) if starts is None else cast(starts, int64)
    source = subtract(number_range(size), expand_dims(first, 1))
    if call.text("mode", "linear") == "circular":
        source = floormod(source, size)
    written = logical_and(greater_equal(source, constant(0, int64)), less(source, count))
    held = minimum(maximum(source, constant(0, int64)), subtract(count, constant(1, int64)))
    lined = [-1 if each == 0 else size if each == axis else constant(1, int64) for each in range(rank_of(x))]
    shape = stack([each if isinstance(each, Tensor) else constant(each, int64) for each in lined])
    return select(reshape(written, shape), _gathered(updates, held, axis), x)


def _gathered(x: Tensor, places: Tensor, axis: int) -> Tensor:
    """For each batch the elements at its places along an axis."""
    order = [0, axis, *[each for each in range(1, rank_of(x)) if each != axis]]
    back = [order.index(each) for each in range(rank_of(x))]
    return transpose(gather(transpose(x, order), places, axis=1, batch_dims=1), back)
