"""The distinct elements of a tensor, or its distinct slices along an axis."""

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.ranges import range as number_range
from aioflow.kernels.array.sequence import unique_with_counts
from aioflow.kernels.array.shapes import expand_dims, reshape
from aioflow.kernels.array.sorting import argsort, invert_permutation, unique
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import less, logical_and, not_equal
from aioflow.kernels.math.reduction import argmax, reduce_any, reduce_sum
from aioflow.kernels.math.unsorted_segments import unsorted_segment_min
from aioflow.onnx.call import Call
from aioflow.onnx.operators.values import axis_of, rank_of, sizes_of
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import int32, int64, string


@operator("Unique", since=11)
def _(call: Call, x: Tensor) -> tuple[Tensor, ...]:
    """The distinct elements or slices, where each is first, which of them each is, and how often each occurs."""
    axis = axis_of(call.integer("axis"), rank_of(x)) if call.has("axis") else None
    numbers = _in_order(x) if x.dtype is string else x
    keys = reshape(numbers, [-1]) if axis is None else _keys(numbers, axis)
    distinct, which, counts = unique_with_counts(keys, out_idx=int64)
    firsts = unsorted_segment_min(number_range(sizes_of(keys)[0]), which, sizes_of(distinct)[0])
    if call.flag("sorted", True):
        order = argsort(distinct)
        firsts, counts = gather(firsts, order), gather(counts, order)
        which = cast(gather(invert_permutation(order), which), int64)
    found = gather(reshape(x, [-1]), firsts) if axis is None else gather(x, firsts, axis=axis)
    return found, firsts, which, counts


def _in_order(texts: Tensor) -> Tensor:
    """For each text the number of different ones that come before it."""
    distinct, which = unique(reshape(texts, [-1]), out_idx=int64)
    places = invert_permutation(argsort(distinct))
    return reshape(cast(gather(places, which), int64), sizes_of(texts))


def _keys(x: Tensor, axis: int) -> Tensor:
    """For each slice along an axis the number of slices that come before it in the order of their elements."""
    moved = transpose(x, [axis, *[each for each in range(rank_of(x)) if each != axis]])
    rows = reshape(moved, concat([sizes_of(moved)[:1], constant([-1], int64)], 0))
    one, other = expand_dims(rows, 0), expand_dims(rows, 1)
    differs = not_equal(one, other)
    first = argmax(cast(differs, int32), 2)
    before = gather(less(one, other), first, axis=2, batch_dims=2)
    return reduce_sum(cast(logical_and(before, reduce_any(differs, 2)), int64), 1)
