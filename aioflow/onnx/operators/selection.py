"""Parts of tensors: slices, elements by index, and numbers in order."""

from aioflow.graph.convert import constant_value
from aioflow.graph.operation import Tensor
from aioflow.kernels.array import gather as gathering
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.concat import concat, stack
from aioflow.kernels.array.constants import constant, zeros_like
from aioflow.kernels.array.ranges import one_hot
from aioflow.kernels.array.ranges import range as number_range
from aioflow.kernels.array.scatter import tensor_scatter_update
from aioflow.kernels.array.select import select, where
from aioflow.kernels.array.sequence import reverse_sequence
from aioflow.kernels.array.shapes import broadcast_to, expand_dims, reshape
from aioflow.kernels.array.sorting import argsort, top_k
from aioflow.kernels.math.arithmetic import add
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, greater_equal, less_equal
from aioflow.onnx.call import Call
from aioflow.onnx.operators.casting import converted
from aioflow.onnx.operators.values import (
    axes_of,
    axis_of,
    from_front,
    known_ints,
    length_of,
    rank_of,
    scalar,
    size_at,
    sizes_of,
)
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import DType, bool_, float32, float64, int64

# Slices


@operator("Slice", since=10)
def _(
    call: Call, x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor | None = None, steps: Tensor | None = None
) -> Tensor:
    count = length_of(starts)
    places = list(range(count)) if axes is None else known_ints(axes)
    if places is None:
        assert axes is not None
        return _sliced_by_run(x, starts, ends, axes, steps)
    parts = zip(_numbers(starts), _numbers(ends), [1] * count if steps is None else _numbers(steps), strict=True)
    return _sliced(x, axes_of(places, rank_of(x)), [slice(*part) for part in parts])


@operator("Slice")
def _(call: Call, x: Tensor) -> Tensor:
    starts, ends = call.integers("starts"), call.integers("ends")
    axes = call.integers("axes", range(len(starts)))
    return _sliced(x, axes_of(axes, rank_of(x)), [slice(*part) for part in zip(starts, ends, strict=True)])


def _sliced(x: Tensor, axes: list[int], parts: list[slice]) -> Tensor:
    index = [slice(None)] * rank_of(x)
    for axis, part in zip(axes, parts, strict=True):
        index[axis] = part
    return x[tuple(index)] if index else x


def _numbers(vector: Tensor) -> list[int | Tensor]:
    """The numbers of a vector, as scalar tensors if only the run knows them."""
    known = known_ints(vector)
    return [*known] if known else [cast(vector, int64)[index] for index in range(length_of(vector))]


def _sliced_by_run(x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor, steps: Tensor | None) -> Tensor:
    """Slices along axes that only the run knows: each axis has a start, an end and a step, which may keep it whole."""
    rank = rank_of(x)
    places = expand_dims(from_front(cast(axes, int64), rank), 1)
    whole = [([0] * rank, starts), ([int64.max] * rank, ends)] + ([] if steps is None else [([1] * rank, steps)])
    vectors = [tensor_scatter_update(constant(usual, int64), places, cast(given, int64)) for usual, given in whole]
    return _sliced(x, list(range(rank)), [slice(*[vector[axis] for vector in vectors]) for axis in range(rank)])


@operator("Compress", since=9)
def _(call: Call, x: Tensor, condition: Tensor) -> Tensor:
    kept = reshape(where(condition), [-1])
    if not call.has("axis"):
        return gathering.gather(reshape(x, [-1]), kept)
    return gathering.gather(x, kept, axis=axis_of(call.integer("axis"), rank_of(x)))


# Elements by index


@operator("Gather")
def _(call: Call, x: Tensor, indices: Tensor) -> Tensor:
    axis = axis_of(call.integer("axis", 0), rank_of(x))
    return gathering.gather(x, from_front(indices, size_at(x, axis)), axis=axis)


@operator("GatherElements", since=11)
def _(call: Call, x: Tensor, indices: Tensor) -> Tensor:
    return gathering.gather_nd(x, positions_along(x, indices, axis_of(call.integer("axis", 0), rank_of(x))))


def positions_along(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """For each index its whole position in `x`: itself along `axis`, its own place along the other axes."""
    shape, rank = sizes_of(indices), rank_of(indices)
    places = []
    for each in range(rank):
        if each == axis:
            places.append(cast(from_front(indices, size_at(x, axis)), int64))
            continue
        line = number_range(shape[each])
        places.append(broadcast_to(reshape(line, [-1 if a == each else 1 for a in range(rank)]), shape))
    return stack(places, rank)


@operator("GatherND", since=11)
def _(call: Call, x: Tensor, indices: Tensor) -> Tensor:
    batch = call.integer("batch_dims", 0)
    positions = counted_from_front(x, indices, batch)
    if not batch:
        return gathering.gather_nd(x, positions)
    shape = sizes_of(indices)
    lines = []
    for each in range(batch):
        line = reshape(number_range(shape[each]), [-1 if a == each else 1 for a in range(rank_of(indices))])
        lines.append(broadcast_to(line, select(_last(rank_of(indices)), constant(1, int64), shape)))
    return gathering.gather_nd(x, concat([*lines, cast(positions, int64)], rank_of(indices) - 1))


def _last(rank: int) -> Tensor:
    return constant([axis == rank - 1 for axis in range(rank)])


def counted_from_front(x: Tensor, indices: Tensor, batch: int = 0) -> Tensor:
    """Positions in `x` along the last axis of `indices`, of which negative ones count from the end."""
    value = constant_value(indices)
    if value is not None and (value.size == 0 or value.min() >= 0):
        return indices
    count = size_at(indices, rank_of(indices) - 1)
    return from_front(indices, sizes_of(x)[batch : batch + count])


# Places of elements


@operator("NonZero", since=9)
def _(call: Call, x: Tensor) -> Tensor:
    return transpose(where(converted(x, bool_)))


@operator("TopK", since=10)
def _(call: Call, x: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    axis = axis_of(call.integer("axis", -1), rank_of(x))
    order = argsort(x, axis, "DESCENDING" if call.flag("largest", True) else "ASCENDING", stable=True)
    places = cast(gathering.gather(order, number_range(cast(scalar(k), int64)), axis=axis), int64)
    return gathering.gather_nd(x, positions_along(x, places, axis)), places


@operator("TopK")
def _(call: Call, x: Tensor) -> tuple[Tensor, Tensor]:
    axis, rank = axis_of(call.integer("axis", -1), rank_of(x)), rank_of(x)
    swapped = [*range(axis), *range(axis + 1, rank), axis]
    back = [*range(axis), rank - 1, *range(axis, rank - 1)]
    values, places = top_k(transpose(x, swapped), call.integer("k"))
    return transpose(values, back), cast(transpose(places, back), int64)


@operator("OneHot", since=9)
def _(call: Call, indices: Tensor, depth: Tensor, values: Tensor) -> Tensor:
    size = cast(scalar(depth), int64)
    places = from_front(cast(indices, int64), size)
    axis = axis_of(call.integer("axis", -1), rank_of(indices) + 1)
    return one_hot(places, size, values[1], values[0], axis=axis)


@operator("ReverseSequence", since=10)
def _(call: Call, x: Tensor, lengths: Tensor) -> Tensor:
    return reverse_sequence(x, lengths, seq_axis=call.integer("time_axis", 0), batch_axis=call.integer("batch_axis", 1))


# Numbers in order


@operator("Range", since=11)
def _(call: Call, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    first, last, step = (cast(scalar(each), _counting(start)) for each in (start, limit, delta))
    return cast(number_range(first, last, step), start.dtype)


def _counting(start: Tensor) -> DType:
    """The dtype to count in."""
    if start.dtype.is_integer:
        return int64
    return float64 if start.dtype is float64 else float32


@operator("EyeLike", since=9)
def _(call: Call, x: Tensor) -> Tensor:
    below, rows, columns = call.integer("k", 0), *_places(x)
    return cast(equal(columns, rows + constant(below, int64)), call.dtype("dtype", x.dtype))


def _places(x: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of a matrix as a column, and its columns as a row."""
    rows, columns = (number_range(sizes_of(x)[axis]) for axis in (-2, -1))
    return expand_dims(rows, 1), expand_dims(columns, 0)


@operator("Trilu", since=14)
def _(call: Call, x: Tensor, k: Tensor | None = None) -> Tensor:
    rows, columns = _places(x)
    diagonal = rows if k is None else add(rows, cast(scalar(k), int64))
    kept = greater_equal(columns, diagonal) if call.flag("upper", True) else less_equal(columns, diagonal)
    return select(kept, x, zeros_like(x))
