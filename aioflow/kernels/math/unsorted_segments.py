"""Rows brought together by the segment they belong to, the ids in any order: means, extremes and products."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from aioflow.graph.building import same_graph, transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Indices, Ints, Op, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels import known
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.shapes import reshape, shape, shape_of
from aioflow.kernels.array.sorting import argsort, invert_permutation
from aioflow.kernels.families import CPU, NARROW, costs
from aioflow.kernels.math.arithmetic import truediv
from aioflow.kernels.math.complex import conj
from aioflow.kernels.math.elementwise import sqrt
from aioflow.kernels.math.segments import (
    _rows,
    check_constant_ids,
    check_ids,
    extreme_gradient,
    gather_segments,
    product_of_others,
    segment_sizes,
    unsorted_segment_sum,
)
from aioflow.tensors.dtypes import FLOAT, INTEGER, NUMERIC, Array, DType, Namespace, Spec, TensorShape, int32


def _segments(data: Spec, segment_ids: Spec, num_segments: Spec) -> Spec:
    known.integers(segment_ids, "segment_ids")
    count = known.scalar(num_segments, "num_segments")
    if count is not None and count < 0:
        raise ValueError(f"num_segments cannot be negative: {count}")
    return Spec(data.dtype, TensorShape.vector(count).concatenate(_rows(data, segment_ids)))


@op
def unsorted_segment_max(data: Spec, segment_ids: Indices, num_segments: Ints) -> Spec:
    """Row s holds the greatest of the rows of `data` whose segment id is s; the dtype's lowest value if there is none.

    The shape of `data` begins with that of `segment_ids`; rows with negative ids are left out. Equal greatest
    elements share the gradient evenly. InvalidArgumentError if an id is not below `num_segments`.

    Examples:
        >>> await session.run(af.unsorted_segment_max([1, 2, 3], [1, 0, 1], num_segments=2))
        array([2, 3], dtype=int32)
    """
    return _segments(data.only(FLOAT, INTEGER), segment_ids, num_segments)


@op
def unsorted_segment_min(data: Spec, segment_ids: Indices, num_segments: Ints) -> Spec:
    """Row s holds the least of the rows of `data` whose segment id is s; the dtype's highest value if there is none.

    The shape of `data` begins with that of `segment_ids`; rows with negative ids are left out. Equal least
    elements share the gradient evenly. InvalidArgumentError if an id is not below `num_segments`.

    Examples:
        >>> await session.run(af.unsorted_segment_min([1, 2, 3], [1, 0, 1], num_segments=2))
        array([2, 1], dtype=int32)
    """
    return _segments(data.only(FLOAT, INTEGER), segment_ids, num_segments)


@op
def unsorted_segment_prod(data: Spec, segment_ids: Indices, num_segments: Ints) -> Spec:
    """Row s is the product of the rows of `data` whose segment id is s; 1 if there is none.

    The shape of `data` begins with that of `segment_ids`; rows with negative ids are left out.
    InvalidArgumentError if an id is not below `num_segments`.

    Examples:
        >>> await session.run(af.unsorted_segment_prod([1, 2, 3], [1, 0, 1], num_segments=2))
        array([2, 3], dtype=int32)
    """
    return _segments(data.only(NUMERIC), segment_ids, num_segments)


def _kernel(made: Op[Tensor], ufunc: str, empty: Callable[[DType], Any]) -> None:
    @made.kernel(CPU, fresh=True, binds=True)
    def _(xp: Namespace, node: NodeView) -> Callable[..., Array]:
        dtype, function = node.output_specs[0].dtype, getattr(np, ufunc)
        wide, start = np.dtype(np.float32) if dtype in NARROW else dtype.np, empty(dtype)

        def by_segment(data: Array, ids: Array, segments: Array) -> Array:
            count = int(segments)
            if data.shape[: ids.ndim] != ids.shape:
                raise ValueError(f"data of shape {list(data.shape)} does not begin with the ids' {list(ids.shape)}")
            check_ids(np, ids, count)
            result = np.full(
                (count + 1) * math.prod(data.shape[ids.ndim :]), start, wide
            )  # the last row collects the rows without a segment
            places = np.where(ids < 0, count, ids).astype(np.intp)
            function.at(result, _elements(places, data), data.reshape(-1).astype(wide, copy=False))
            return result.reshape(count + 1, *data.shape[ids.ndim :])[:count].astype(dtype.np)

        return by_segment

    made.check(check_constant_ids)
    costs(made, 5.0)


def _elements(places: Array, data: Array) -> Array:
    """The place in the result of each element of `data`, given that of each row."""
    width = math.prod(data.shape[places.ndim :])
    return (places.reshape(-1, 1) * width + np.arange(width)).reshape(-1)


_kernel(unsorted_segment_max, "maximum", lambda dtype: dtype.min)
_kernel(unsorted_segment_min, "minimum", lambda dtype: dtype.max)
_kernel(unsorted_segment_prod, "multiply", lambda dtype: 1)
unsorted_segment_max.gradient(extreme_gradient)
unsorted_segment_min.gradient(extreme_gradient)


@unsorted_segment_prod.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None, None]:
    """The rows are put in the order of their segments, multiplied, and put back."""
    data, ids, _ = op.inputs
    if ids.spec.rank is None:
        raise ValueError("the gradient of unsorted_segment_prod needs to know the rank of segment_ids")
    flat = reshape(ids, [-1])
    order = argsort(flat)
    others = product_of_others(gather(_as_rows(data, ids.spec.rank), order), gather(flat, order))
    back = reshape(gather(others, invert_permutation(order)), shape_of(data))
    return gather_segments(dy, ids) * conj(back), None, None


def _as_rows(data: Tensor, rank: int) -> Tensor:
    """`data` with its first `rank` axes made one."""
    if rank == 1:
        return data
    sizes = None if data.spec.sizes is None else data.spec.sizes[rank:]
    if sizes is not None and None not in sizes and 0 not in sizes:
        return reshape(data, [-1, *sizes])
    whole = shape(data)
    count = OPERATORS["reduce_prod"](whole[:rank], keepdims=True)
    return reshape(data, concat([count, whole[rank:]], 0))


# Means


@transactional
def unsorted_segment_mean(
    data: NumberLike, segment_ids: NumberLike, num_segments: NumberLike, name: str | None = None
) -> Tensor:
    """Row s is the mean of the rows of `data` whose segment id is s; 0 if there is none.

    The mean of integers is a float64, or a float32 for those of at most 16 bits. The shape of `data` begins with that
    of `segment_ids`; rows with negative ids are left out. InvalidArgumentError if an id is not below `num_segments`.

    Examples:
        >>> await session.run(af.unsorted_segment_mean([1.0, 2.0, 3.0], [1, 0, 1], num_segments=2))
        array([2., 2.], dtype=float32)
    """
    value, ids = convert_to_tensor(data), convert_to_tensor(segment_ids, preferred_dtype=int32)
    with same_graph(value, ids).name_scope(name or "unsorted_segment_mean") as scope:
        sums = unsorted_segment_sum(value, ids, num_segments)
        return truediv(sums, segment_sizes(ids, sums), name=scope)


@transactional
def unsorted_segment_sqrt_n(
    data: NumberLike, segment_ids: NumberLike, num_segments: NumberLike, name: str | None = None
) -> Tensor:
    """Row s is the sum of the rows of `data` whose segment id is s over the square root of their number; 0 of none.

    The shape of `data` begins with that of `segment_ids`; rows with negative ids are left out.
    InvalidArgumentError if an id is not below `num_segments`.

    Examples:
        >>> await session.run(af.unsorted_segment_sqrt_n([1.0, 3.0], [0, 0], num_segments=1))
        array([2.828427], dtype=float32)
    """
    value, ids = convert_to_tensor(data), convert_to_tensor(segment_ids, preferred_dtype=int32)
    with same_graph(value, ids).name_scope(name or "unsorted_segment_sqrt_n") as scope:
        sums = unsorted_segment_sum(value, ids, num_segments)
        return truediv(sums, sqrt(segment_sizes(ids, sums)), name=scope)
