"""Sums, means, extremes and products of rows by segment, with ids in rising order; and lookups of rows by segment.

The sum and the lookup are the gradients of each other. The rows of one segment are adjacent, so a ufunc's `reduceat`
reduces them.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Indices, Ints, Op, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels import known
from aioflow.kernels.array.constants import ones_like
from aioflow.kernels.array.select import masked
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.families import CPU, GPU, NARROW, costs
from aioflow.kernels.math.arithmetic import maximum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, logical_not
from aioflow.kernels.math.complex import conj
from aioflow.kernels.math.cumulative import recurrence
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import FLOAT, INTEGER, NUMERIC, UNKNOWN, Array, DType, Namespace, Spec, TensorShape, bool_
from aioflow.tensors.object_arrays import full_array, slices

_ADDED: Final[dict[np.dtype[Any], np.dtype[Any]]] = {np.dtype(np.int64): np.dtype(np.uint64)} | {
    np.dtype(name): np.dtype(np.int32) for name in ("bool", "int8", "int16", "uint8", "uint16")
}
"""The dtype in which a GPU adds at indices, where it cannot in the dtype itself: the bits are the same."""


def add_rows(xp: Namespace, rows: Array, places: Array, count: int, dtype: DType) -> Array:
    """The array of `count` rows in which row `places[i]` has `rows[i]` added; rows not named are zero.

    `rows` has the shape of `places` and then a row's. All places are in range.
    """
    each = rows.shape[places.ndim :]
    wide = np.dtype(np.float32) if dtype in NARROW else dtype.np
    if xp is not np:
        added = _ADDED.get(wide, wide)
        total = xp.zeros((count, *each), added)
        xp.add.at(total, places, rows.astype(wide, copy=False).astype(added, copy=False))
        return total.astype(dtype.np, copy=False)
    width = math.prod(each)
    flat = places.astype(np.intp).reshape(-1)
    if width != 1:
        flat = (flat[:, None] * width + np.arange(width)).reshape(-1)
    if wide.hasobject:
        return _join_rows(rows.reshape(-1), flat, count * width).reshape((count, *each))
    sums = np.zeros(count * width, wide)
    # One long index is five times as fast as an index of rows, and faster than sorting or counting for all sizes tried.
    np.add.at(sums, flat, rows.reshape(-1).astype(wide, copy=False))
    return sums.astype(dtype.np, copy=False).reshape((count, *each))


def _join_rows(texts: Array, places: Array, count: int) -> Array:
    """The texts joined at their places, in their order, among `count`."""
    joined = full_array(count, b"")
    for part in slices(texts.size):
        np.add.at(joined, places[part], texts[part])
    return joined


def check_range(
    xp: Namespace, indices: Array, bound: float, what: str = "index", lowest: float = 0, where: str = ""
) -> None:
    """ValueError naming an index that is not in [lowest, bound); on a GPU, which would wait, nothing is checked."""
    if xp is np and indices.size and not (indices.min() >= lowest and indices.max() < bound):
        stray = indices.max() if indices.min() >= lowest else indices.min()
        raise ValueError(f"{what} {stray}{where} is out of range for size {bound}")


def check_constants(
    indices: Spec | Array, bound: float | None, what: str = "index", lowest: float = 0, where: str = ""
) -> None:
    """The same when a node is built, for indices that are a constant and a bound that is known."""
    if bound is not None and not isinstance(indices, Spec):
        check_range(np, indices, bound, what, lowest, where)


def check_ids(xp: Namespace, ids: Array, count: int) -> None:
    """ValueError naming an id that is not below `count`; negative ones belong to no segment."""
    check_range(xp, ids, count, "segment id", -math.inf)


def check_sorted(ids: Array, rows: int) -> None:
    """ValueError unless `ids` has one id per row, in rising order, none negative."""
    if len(ids) != rows:
        raise ValueError(f"{len(ids)} segment ids are given for {rows} rows")
    if ids.size and int(ids[0]) < 0:
        raise ValueError(f"segment ids must not be negative: {ids[0]}")
    falls = np.flatnonzero(ids[1:] < ids[:-1])
    if falls.size:
        place = falls[0]
        raise ValueError(f"segment ids must be in rising order: {ids[place + 1]} follows {ids[place]}")


def bytes_to_highest(data: Array, ids: Array) -> int:
    """Bytes of a row for each segment up to the highest, the last of the ids."""
    rows = int(ids[-1]) + 1 if ids.size else 0
    return rows * int(math.prod(data.shape[1:])) * int(data.dtype.itemsize)


def check_constant_order(data: Spec | Array, ids: Spec | Array) -> None:
    """The same when a node is built, for ids that are a constant."""
    if not isinstance(ids, Spec):
        check_sorted(ids, len(ids))


def check_constant_ids(data: Spec | Array, ids: Spec | Array, num_segments: Spec | Array) -> None:
    """The checks of `check_ids`, when a node is built."""
    check_constants(ids, known.number(num_segments), "segment id", -math.inf)


@op
def unsorted_segment_sum(data: Spec, segment_ids: Indices, num_segments: Ints) -> Spec:
    """Row s of the result is the sum of the rows of `data` whose segment id is s; negative ids are left out.

    The shape of `data` begins with that of `segment_ids`. InvalidArgumentError if an id is not below `num_segments`.

    Examples:
        >>> await session.run(af.unsorted_segment_sum([1, 2, 3], [2, 0, 2], num_segments=3))
        array([2, 0, 4], dtype=int32)
    """
    data.only(NUMERIC)
    known.integers(segment_ids, "segment_ids")
    count = known.scalar(num_segments, "num_segments")
    if count is not None and count < 0:
        raise ValueError(f"num_segments cannot be negative: {count}")
    return Spec(data.dtype, TensorShape.vector(count).concatenate(_rows(data, segment_ids)))


def _rows(data: Spec, ids: Spec) -> TensorShape:
    """The shape of one row. ValueError if the shape of `data` does not begin with that of `ids`."""
    if ids.sizes is None or data.sizes is None:
        return dtypes.UNKNOWN
    first = TensorShape(data.sizes[: len(ids.sizes)])
    if not first.is_compatible_with(ids.shape):
        raise ValueError(f"data of shape {data.shape} must begin with the shape of segment_ids, {ids.shape}")
    return TensorShape(data.sizes[len(ids.sizes) :])


@unsorted_segment_sum.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None, None]:
    return gather_segments(dy, op.inputs[1]), None, None


unsorted_segment_sum.check(check_constant_ids)


@unsorted_segment_sum.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
    dtype, count = node.output_specs[0].dtype, known.constant(node, 2)

    def sums(data: Array, ids: Array, segments: Array) -> Array:
        total = int(segments) if count is None else count
        if data.shape[: ids.ndim] != ids.shape:
            raise ValueError(f"data of shape {list(data.shape)} does not begin with the ids' {list(ids.shape)}")
        if xp is np and not (ids.size and ids.min() < 0):
            check_range(xp, ids, total, "segment id")
            return add_rows(xp, data, ids, total, dtype)
        check_ids(xp, ids, total)
        # The last row collects the rows without a segment.
        return add_rows(xp, data, xp.where(ids < 0, total, ids), total + 1, dtype)[:total]

    return sums


@op
def gather_segments(values: Spec, segment_ids: Indices) -> Spec:
    """The row of `values` of each segment id, zeros for a negative id: the gradient of `unsorted_segment_sum`."""
    known.integers(segment_ids, "segment_ids")
    return Spec(values.dtype, segment_ids.shape.concatenate(values.shape[1:]))


@gather_segments.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    values, ids = op.inputs
    rows = known.size_at(values.spec, 0)
    return unsorted_segment_sum(dy, ids, shape(values)[0] if rows is None else rows), None


@gather_segments.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, values: Array, ids: Array) -> Array:
    check_ids(xp, ids, values.shape[0])
    if not values.shape[0]:  # then all ids are negative
        return xp.zeros(ids.shape + values.shape[1:], values.dtype)
    rows = values.take(xp.maximum(ids, 0), axis=0)
    return xp.where((ids >= 0).reshape(ids.shape + (1,) * (values.ndim - 1)), rows, values.dtype.type(0))


@op
def segment_sum(data: Spec, segment_ids: Indices) -> Spec:
    """Row s of the result is the sum of the rows of `data` whose segment id is s, up to the highest id.

    InvalidArgumentError if the ids, a vector, are negative or not in rising order.

    Examples:
        >>> await session.run(af.segment_sum([1, 2, 3, 4], [0, 0, 1, 1]))
        array([3, 7], dtype=int32)
    """
    data.only(NUMERIC)
    ids = known.integers(segment_ids, "segment_ids").with_rank(1, "segment_ids")
    return Spec(data.dtype, TensorShape.vector(None).concatenate(_rows(data, ids)))


@segment_sum.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    return gather_segments(dy, op.inputs[1]), None


segment_sum.check(check_constant_order)
segment_sum.makes(lambda inputs, attrs: bytes_to_highest(*inputs))


@segment_sum.kernel(CPU, fresh=True, binds=True)  # how many segments there are depends on values
def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
    dtype = node.output_specs[0].dtype

    def sums(data: Array, ids: Array) -> Array:
        check_sorted(ids, len(data))
        return add_rows(xp, data, ids, int(ids[-1]) + 1 if ids.size else 0, dtype)

    return sums


for _op in (unsorted_segment_sum, segment_sum):
    costs(_op, 5.0)
OPERATORS["unsorted_segment_sum"] = unsorted_segment_sum


def rows_of(data: Spec, segment_ids: Spec) -> TensorShape:
    """The shape of one row. ValueError if data has no row for each of a vector of ids."""
    ids = known.integers(segment_ids, "segment_ids").with_rank(1, "segment_ids")
    if data.sizes is None:
        return UNKNOWN
    if not data.sizes or not data.shape[:1].is_compatible_with(ids.shape):
        raise ValueError(f"data of shape {data.shape} must have a row for each of segment_ids of shape {ids.shape}")
    return TensorShape(data.sizes[1:])


@op
def segment_mean(data: Spec, segment_ids: Indices) -> Spec:
    """Row s is the mean of the rows of `data` whose segment id is s, up to the highest id; 0 where there is none.

    The mean of integers is truncated to an integer. InvalidArgumentError if the ids, a vector, are negative or not in
    rising order.

    Examples:
        >>> await session.run(af.segment_mean([1.0, 2.0, 3.0], [0, 0, 1]))
        array([1.5, 3. ], dtype=float32)
    """
    return _segments(data.only(NUMERIC), segment_ids)


@op
def segment_prod(data: Spec, segment_ids: Indices) -> Spec:
    """Row s is the product of the rows of `data` whose segment id is s, up to the highest id; 1 where there is none.

    InvalidArgumentError if the ids, a vector, are negative or not in rising order.

    Examples:
        >>> await session.run(af.segment_prod([1, 2, 3, 4], [0, 0, 1, 1]))
        array([ 2, 12], dtype=int32)
    """
    return _segments(data.only(NUMERIC), segment_ids)


@op
def segment_max(data: Spec, segment_ids: Indices) -> Spec:
    """Row s holds the greatest of the rows of `data` whose segment id is s, up to the highest id; 0 if there is none.

    Equal greatest elements share the gradient evenly. InvalidArgumentError if the ids, a vector, are negative or
    not in rising order.

    Examples:
        >>> await session.run(af.segment_max([1, 2, 3, 4], [0, 0, 1, 1]))
        array([2, 4], dtype=int32)
    """
    return _segments(data.only(FLOAT, INTEGER), segment_ids)


@op
def segment_min(data: Spec, segment_ids: Indices) -> Spec:
    """Row s holds the least of the rows of `data` whose segment id is s, up to the highest id; 0 if there is none.

    Equal least elements share the gradient evenly. InvalidArgumentError if the ids, a vector, are negative or
    not in rising order.

    Examples:
        >>> await session.run(af.segment_min([1, 2, 3, 4], [0, 0, 1, 1]))
        array([1, 3], dtype=int32)
    """
    return _segments(data.only(FLOAT, INTEGER), segment_ids)


def _segments(data: Spec, segment_ids: Spec) -> Spec:
    return Spec(data.dtype, TensorShape.vector(None).concatenate(rows_of(data, segment_ids)))


# Kernels


def reduced_rows(
    ufunc: np.ufunc, data: Array, ids: Array, count: int, empty: float, dtype: Any
) -> tuple[Array, Array, Array]:
    """`count` rows, each reduced from those of its id; which of them there are; and of how many rows each of these is.

    The ids are in rising order and below `count`.
    """
    result = np.full((count, *data.shape[1:]), empty, dtype)
    if not ids.size:
        return result, ids, ids
    starts = np.flatnonzero(ids[1:] != ids[:-1]) + 1
    starts = np.concatenate([[0], starts])
    present = ids[starts]
    result[present] = ufunc.reduceat(data, starts, axis=0, dtype=dtype)
    return result, present, np.diff(starts, append=len(ids))


def _kernel(made: Op[Tensor], ufunc: str, empty: float, mean: bool = False) -> None:
    made.makes(lambda inputs, attrs: bytes_to_highest(*inputs))

    @made.kernel(CPU, fresh=True, binds=True)
    def _(xp: Namespace, node: NodeView) -> Callable[[Array, Array], Array]:
        dtype, function = node.output_specs[0].dtype, getattr(np, ufunc)
        wide = wide_for(dtype, mean)

        def by_segment(data: Array, ids: Array) -> Array:
            check_sorted(ids, len(data))
            count = int(ids[-1]) + 1 if ids.size else 0
            result, present, sizes = reduced_rows(function, data.astype(wide, copy=False), ids, count, empty, wide)
            if mean:
                result[present] = divided(result[present], sizes)
            return result.astype(dtype.np, copy=False)

        return by_segment

    made.check(check_constant_order)
    costs(made, 2.0)


def wide_for(dtype: DType, sums: bool) -> Any:
    """The dtype to compute in: float32 for narrow floats, for sums of integers 64 bits."""
    if dtype.is_integer and sums:
        return np.uint64 if dtype.is_unsigned else np.int64
    return np.float32 if dtype in NARROW else dtype.np


def divided(rows: Array, sizes: Array) -> Array:
    """Each row divided by its number, integers without the fraction."""
    numbers = sizes.reshape(-1, *[1] * (rows.ndim - 1))
    if rows.dtype.kind in "iu":
        numbers = numbers.astype(rows.dtype)
        return (rows - np.fmod(rows, numbers)) // numbers
    return rows / numbers.astype(rows.real.dtype)


_kernel(segment_mean, "add", 0, mean=True)
_kernel(segment_prod, "multiply", 1)
_kernel(segment_max, "maximum", 0)
_kernel(segment_min, "minimum", 0)

# Gradients


@op
def segment_sizes(segment_ids: Indices, segments: Spec) -> Spec:
    """For each row of `segments` how many ids name it, but 1 at least: in its dtype, with 1 for each axis after it."""
    known.integers(segment_ids, "segment_ids")
    if segments.sizes is None:
        return Spec(segments.dtype)
    return Spec(segments.dtype, TensorShape((segments.sizes[0], *[1] * (len(segments.sizes) - 1))))


segment_sizes.no_gradient("a count does not vary smoothly")


@segment_sizes.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array, Array], Array]:
    dtype = node.output_specs[0].dtype.np

    def sizes(ids: Array, segments: Array) -> Array:
        count = len(segments)
        flat = ids.ravel()
        counts = np.bincount(flat[(flat >= 0) & (flat < count)].astype(np.intp), minlength=count)
        return np.maximum(counts, 1).astype(dtype).reshape(count, *[1] * (segments.ndim - 1))

    return sizes


@segment_mean.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    ids = op.inputs[1]
    return gather_segments(dy / segment_sizes(ids, dy), ids), None


def extreme_gradient(op: Operation, dy: Tensor) -> tuple[Tensor | None, ...]:
    """The gradient of the extremes of segments, sorted or not: shared by those equal to their segment's."""
    data, ids, *_ = op.inputs
    y = op.outputs[0]
    chosen = cast(equal(data, gather_segments(y, ids)), data.dtype)
    rows = known.size_at(y.spec, 0)
    count = unsorted_segment_sum(chosen, ids, shape(y)[0] if rows is None else rows)
    share = dy / maximum(count, 1)
    return chosen * gather_segments(share, ids), *[None] * (len(op.inputs) - 1)


segment_max.gradient(extreme_gradient)
segment_min.gradient(extreme_gradient)


@segment_prod.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    data, ids = op.inputs
    return gather_segments(dy, ids) * conj(product_of_others(data, ids)), None


@op
def segment_edges(data: Spec, segment_ids: Indices, last: bool) -> Spec:
    """Whether a row of `data` is the first or, if `last`, the last of its segment; in the shape of `data`."""
    rows_of(data, segment_ids)
    return Spec(bool_, data.shape)


segment_edges.no_gradient("truth values do not vary smoothly")


@segment_edges.kernel(CPU, fresh=True)
def _(xp: Namespace, data: Array, ids: Array, *, last: bool) -> Array:
    edges = np.ones(len(ids), bool)
    edges[slice(None, -1) if last else slice(1, None)] = ids[1:] != ids[:-1]
    result = np.empty(data.shape, bool)
    result[...] = edges.reshape(-1, *[1] * (data.ndim - 1))
    return result


def product_of_others(data: Tensor, ids: Tensor) -> Tensor:
    """For each row the product of the others of its segment: those before it times those after it, nothing divided.

    Rows of one segment lie side by side.
    """
    first, last = segment_edges(data, ids, False), segment_edges(data, ids, True)
    ones = ones_like(data)
    before = recurrence(masked(data, logical_not(last)), masked(ones, first), 0, lag=True)
    after = recurrence(masked(data, logical_not(first)), masked(ones, last), 0, reverse=True, lag=True)
    return before * after
