"""Sparse tensors in three parts: positions [n, rank], values [n] and the shape of the whole.

Ops that only move values work on positions alone: such an op returns the source index of each value, and `gather` moves
the values, so that gradients of any order are those of `gather`. The public functions are in `library.sparse`.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Indices, Ints, T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels import known
from aioflow.kernels.array.arrays import matrix_transpose
from aioflow.kernels.array.constants import zeros_like
from aioflow.kernels.array.gather import _flattened as flat_positions
from aioflow.kernels.array.gather import check_constant_positions, gather, gather_nd
from aioflow.kernels.array.scatter import tensor_scatter_update
from aioflow.kernels.array.shapes import reshape, size
from aioflow.kernels.families import CPU, GPU, NARROW, costs, elements, sum_to_operand
from aioflow.kernels.math.broadcasting import Axis, axes_of, reduced
from aioflow.kernels.math.complex import conj
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.kernels.math.segments import add_rows, check_range, unsorted_segment_sum
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import FLOAT, NUMERIC, Array, Namespace, Spec, TensorShape, int64
from aioflow.tensors.object_arrays import full_array, put_elements

Function = Callable[..., Any]


def positions(indices: Spec, dense_shape: Spec, values: Spec | None = None) -> TensorShape:
    """The shape of the whole as far as it is known. ValueError or TypeError if the parts do not fit together."""
    count, rank = known.integers(indices, "indices").with_rank(2, "indices").shape
    if values is not None:
        values.shape.merge_with([count])
    return known.shape(dense_shape, "dense_shape").merge_with(None if rank.value is None else [None] * rank.value)


def count_of(indices: Spec) -> int | None:
    """The number of positions, as far as it is known."""
    return known.size_at(indices, 0)


def matrix(indices: Spec, rank: int | None, count: int | None = None) -> Spec:
    """The Spec of positions."""
    return Spec(indices.dtype, TensorShape.matrix(count, rank))


def vector(shape: TensorShape, dtype: dtypes.DType = int64) -> Spec:
    """The Spec of a shape that is data."""
    return Spec(dtype, TensorShape.vector(shape.ndims), shape.sizes)


# To dense tensors


@op
def sparse_to_dense(
    sparse_indices: Indices,
    output_shape: Ints,
    sparse_values: T,
    default_value: T = 0,  # type: ignore[assignment]
    validate_indices: bool = True,
) -> Spec:
    """A dense tensor that holds `sparse_values` at the positions `sparse_indices` and `default_value` elsewhere.

    The positions are the rows of a matrix; a vector or a scalar of numbers is positions in a vector. One value may
    stand for all. InvalidArgumentError if a position lies outside, and, with `validate_indices`, if they are not in
    rising order.

    Examples:
        >>> await session.run(af.sparse_to_dense([1, 3], [4], [7, 8]))
        array([0, 7, 0, 8], dtype=int32)
    """
    known.integers(sparse_indices, "sparse_indices")
    sparse_values.same_dtype(default_value)
    default_value.with_rank(0, "default_value")
    whole = known.shape(output_shape, "output_shape")
    if sparse_indices.rank not in (None, 0, 1, 2):
        raise ValueError(f"positions are at most a matrix, their shape is {sparse_indices.shape}")
    if sparse_indices.rank is not None and whole.sizes is not None:
        depth = sparse_indices.sizes[1] if sparse_indices.rank == 2 and sparse_indices.sizes else 1
        if depth not in (None, len(whole.sizes)):
            raise ValueError(f"positions of {depth} numbers do not fit shape {whole}")
    if sparse_values.rank not in (None, 0, 1):
        raise ValueError(f"values are a vector or one value, their shape is {sparse_values.shape}")
    return Spec(sparse_values.dtype, whole)


@sparse_to_dense.check
def _(indices: Spec | Array, shape: Spec | Array, *others: Any) -> None:
    if not isinstance(indices, Spec) and not isinstance(shape, Spec):
        places = indices if indices.ndim == 2 else indices.reshape(-1, 1)
        flat = flat_positions(np, places, known.plain(shape))
        if others[-1]:
            check_rising(flat, places)


@sparse_to_dense.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor | None, ...]:
    indices, whole, values, _ = op.inputs
    if indices.spec.rank != 2:
        indices = reshape(indices, [-1, size(whole) if indices.spec.rank is None else 1])
    picked = gather_nd(dy, indices)
    rest = reduce_sum(tensor_scatter_update(dy, indices, zeros_like(picked)))
    return None, None, sum_to_operand(values, picked), rest


@sparse_to_dense.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    dtype, validate = node.output_specs[0].dtype.np, node.attrs["validate_indices"]

    def placed(indices: Array, shape: Array, values: Array, default: Array) -> Array:
        sizes = tuple(shape.tolist())
        places = indices if np.ndim(indices) == 2 else xp.reshape(indices, (-1, 1))
        if places.shape[1] != len(sizes) or np.shape(values) not in ((), places.shape[:1]):
            raise ValueError(
                f"{list(places.shape)} positions and {list(np.shape(values))} values do not fit shape {list(sizes)}"
            )
        flat = flat_positions(xp, places, sizes)
        if validate and xp is np:
            check_rising(flat, places)
        result = full_array(math.prod(sizes), default) if dtype.hasobject else xp.full(math.prod(sizes), default, dtype)
        put_elements(result, flat, values)
        return result.reshape(sizes)

    return placed


def check_rising(flat: Array, places: Array) -> None:
    """ValueError naming the first position that does not come after the one before it."""
    wrong = flat[1:] <= flat[:-1]
    if wrong.any():
        place = int(wrong.argmax()) + 1
        what = "repeated" if flat[place] == flat[place - 1] else "out of order"
        raise ValueError(f"position {places[place].tolist()}, number {place}, is {what}: use af.sparse_reorder")


@op
def sparse_dense_matmul(
    indices: Indices, values: T, dense_shape: Ints, b: T, adjoint_a: bool = False, adjoint_b: bool = False
) -> Spec:
    """The product of a sparse matrix, given by its parts, and a dense one, each possibly transposed and conjugated."""
    values.only(NUMERIC).same_dtype(b)
    rows, inner = positions(indices, dense_shape, values).with_rank(2)
    other, columns = b.with_rank(2, "b").shape
    rows, inner = (inner, rows) if adjoint_a else (rows, inner)
    other, columns = (columns, other) if adjoint_b else (other, columns)
    if not inner.is_compatible_with(other):
        raise ValueError(f"the inner sizes {inner.value} and {other.value} differ")
    return Spec(values.dtype, TensorShape([rows, columns]))


@sparse_dense_matmul.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor | None, ...]:
    indices, values, dense_shape, b = op.inputs
    adjoint_a, adjoint_b = op.attrs["adjoint_a"], op.attrs["adjoint_b"]
    rows, columns = [gather(indices, place, axis=1) for place in ((1, 0) if adjoint_a else (0, 1))]
    y = matrix_transpose(b, conjugate=True) if adjoint_b else b
    d_values = reduce_sum(gather(dy, rows) * conj(gather(y, columns)), 1)
    d_b = sparse_dense_matmul(indices, values, dense_shape, dy, not adjoint_a)
    return (
        None,
        conj(d_values) if adjoint_a else d_values,
        None,
        matrix_transpose(d_b, conjugate=True) if adjoint_b else d_b,
    )


@sparse_dense_matmul.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    adjoint_a, adjoint_b, dtype = node.attrs["adjoint_a"], node.attrs["adjoint_b"], node.output_specs[0].dtype
    wide = np.dtype(np.float32) if dtype in NARROW else dtype.np

    def product(indices: Array, values: Array, shape: Array, b: Array) -> Array:
        sizes = shape.tolist()[:: -1 if adjoint_a else 1]
        rows, columns = indices.T[:: -1 if adjoint_a else 1]
        y = (xp.conj(b.T) if adjoint_b else b).astype(wide, copy=False)
        if y.shape[0] != sizes[1]:
            raise ValueError(f"the inner sizes {sizes[1]} and {y.shape[0]} differ")
        check_range(xp, rows, sizes[0], "row")
        check_range(xp, columns, sizes[1], "column")
        factors = (xp.conj(values) if adjoint_a else values).astype(wide, copy=False)
        return add_rows(xp, factors[:, None] * y.take(columns, axis=0), rows, sizes[0], dtype)

    return product


@sparse_dense_matmul.check
def _(indices: Spec | Array, values: Spec | Array, dense_shape: Spec | Array, *others: Any) -> None:
    check_parts(indices, dense_shape)


def check_parts(indices: Spec | Array, dense_shape: Spec | Array) -> None:
    """ValueError naming a number of constant positions that is out of range for a constant shape."""
    if not isinstance(dense_shape, Spec):
        check_constant_positions(indices, known.plain(dense_shape))


@sparse_dense_matmul.cost
def _(inputs: Sequence[Spec], outputs: Sequence[Spec], attrs: Any) -> float:
    return 10.0 * elements(inputs[1]) * (known.size_at(outputs[0], 1) or 32)


@op
def sparse_reduce_sum(
    indices: Indices, values: Spec, dense_shape: Ints, axis: Axis = None, keepdims: bool = False
) -> Spec:
    """The sum of a sparse tensor, given by its parts, along the axes, all if None: a dense tensor."""
    whole = positions(indices, dense_shape, values)
    return Spec(values.only(NUMERIC).dtype, TensorShape(reduced(Spec(values.dtype, whole), axis, keepdims).sizes))


@op
def sparse_spread(x: Spec, indices: Indices, dense_shape: Ints, axis: Axis, keepdims: bool) -> Spec:
    """For each position of a reduced sparse tensor, the element of the result `x` that it was summed to."""
    whole = positions(indices, dense_shape)
    reduced(Spec(x.dtype, whole), axis, keepdims).merge_with(x.shape)
    return Spec(x.dtype, TensorShape.vector(count_of(indices)))


@sparse_reduce_sum.check
def _(indices: Spec | Array, values: Spec | Array, dense_shape: Spec | Array, *others: Any) -> None:
    check_parts(indices, dense_shape)


@sparse_reduce_sum.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor | None, ...]:
    return None, sparse_spread(dy, op.inputs[0], op.inputs[2], op.attrs["axis"], op.attrs["keepdims"]), None


@sparse_spread.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor | None, ...]:
    _, indices, dense_shape = op.inputs
    return sparse_reduce_sum(indices, dy, dense_shape, op.attrs["axis"], op.attrs["keepdims"]), None, None


def _reduced_places(
    xp: Namespace, indices: Array, shape: Array, axis: Axis
) -> tuple[Array, list[int], tuple[int, ...]]:
    """The number of the element that each position is summed to, the sizes left, and the axes summed along."""
    sizes = shape.tolist()
    flat_positions(xp, indices, tuple(sizes))
    axes = axes_of(axis, len(sizes))
    kept = [place for place in range(len(sizes)) if place not in axes]
    left = [sizes[place] for place in kept]
    return flat_positions(xp, indices[:, kept], tuple(left)), left, axes


@sparse_reduce_sum.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    axis, keep, dtype = node.attrs["axis"], node.attrs["keepdims"], node.output_specs[0].dtype

    def total(indices: Array, values: Array, shape: Array) -> Array:
        places, left, axes = _reduced_places(xp, indices, shape, axis)
        sums = add_rows(xp, values, places, math.prod(left), dtype)
        return sums.reshape([1 if at in axes else size for at, size in enumerate(shape.tolist())] if keep else left)

    return total


sparse_spread.moves = True


@sparse_spread.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    axis = node.attrs["axis"]
    return lambda x, indices, shape: xp.ravel(x).take(_reduced_places(xp, indices, shape, axis)[0])


# Order and groups


def order_of(indices: Array) -> Array:
    """The order in which the rows of `indices` rise; equal rows stay as they are."""
    return np.lexsort(indices.T[::-1]) if indices.shape[1] else np.arange(len(indices))


def grouped(indices: Array) -> tuple[Array, Array]:
    """For each row of `indices` the number of its group, groups of equal rows rising, and the first row of each."""
    order = order_of(indices)
    rows = indices[order]
    begins = np.ones(len(rows), bool)
    begins[1:] = (rows[1:] != rows[:-1]).any(1)
    groups = np.empty(len(rows), np.int64)
    groups[order] = begins.cumsum() - 1
    return groups, order[begins]


@op
def sparse_order(indices: Indices, dense_shape: Ints) -> tuple[Spec, Spec]:
    """The rows of `indices` in rising order, and which row came to which place."""
    positions(indices, dense_shape)
    count = count_of(indices)
    return matrix(indices, known.size_at(indices, 1), count), Spec(int64, TensorShape.vector(count))


sparse_order.check(check_parts)


@sparse_order.kernel(CPU, fresh=True)
def _(xp: Namespace, indices: Array, dense_shape: Array) -> tuple[Array, Array]:
    flat_positions(xp, indices, known.plain(dense_shape))
    order = order_of(indices)
    return indices[order], order


@op
def sparse_group(indices: Indices) -> tuple[Spec, Spec]:
    """For each row of `indices` the number of its group of equal rows, and the number of groups."""
    count = known.integers(indices, "indices").with_rank(2, "indices").sizes
    return Spec(int64, TensorShape.vector(count[0] if count else None)), Spec(int64, dtypes.SCALAR)


@sparse_group.kernel(CPU, fresh=True)
def _(xp: Namespace, indices: Array) -> tuple[Array, Array]:
    groups, firsts = grouped(indices)
    return groups, np.array(len(firsts), np.int64)


@op
def sparse_union(a_indices: Ints, a_shape: Ints, b_indices: Ints, b_shape: Ints) -> tuple[Spec, Spec]:
    """The positions that are in one of two tensors of one shape, rising, and for each row of both its place there."""
    whole = positions(a_indices, a_shape).merge_with(positions(b_indices, b_shape))
    count = known.total([count_of(a_indices), count_of(b_indices)])
    return matrix(a_indices, whole.ndims), Spec(int64, TensorShape.vector(count))


@sparse_union.kernel(CPU, fresh=True)
def _(xp: Namespace, a: Array, a_shape: Array, b: Array, b_shape: Array) -> tuple[Array, Array]:
    if not np.array_equal(a_shape, b_shape):
        raise ValueError(f"shapes {a_shape.tolist()} and {b_shape.tolist()} differ")
    both = np.concatenate([a, b])
    groups, firsts = grouped(both)
    return both[firsts], groups


@op
def sparse_softmax(indices: Indices, values: Spec, dense_shape: Ints) -> Spec:
    """The values of a sparse tensor, given by its parts, as the softmax of those of one row: of all axes but the last.

    Elements that are not held count as minus infinity.
    """
    whole = positions(indices, dense_shape, values)
    if whole.ndims is not None and whole.ndims < 2:
        raise ValueError(f"rank 2 or more is needed, the shape is {whole}")
    return values.only(FLOAT)


@sparse_softmax.gradient
def _(op: Operation, dy: Tensor) -> tuple[None, Tensor, None]:
    y, indices = op.outputs[0], op.inputs[0]
    groups, count = sparse_group(indices[:, :-1])
    part = dy * y
    return None, part - y * gather(unsorted_segment_sum(part, groups, count), groups), None


@sparse_softmax.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    dtype = node.output_specs[0].dtype.np

    def softmax(indices: Array, values: Array, shape: Array) -> Array:
        wide = values.astype(np.float64 if dtype == np.float64 else np.float32, copy=False)
        groups, firsts = grouped(indices[:, :-1])
        most = np.full(len(firsts), -np.inf, wide.dtype)
        np.maximum.at(most, groups, wide)
        parts = np.exp(wide - most[groups])
        sums = np.zeros(len(firsts), wide.dtype)
        np.add.at(sums, groups, parts)
        return (parts / sums[groups]).astype(dtype, copy=False)

    return softmax


for _op in (sparse_order, sparse_group, sparse_union):
    _op.no_gradient("positions do not vary smoothly")
    costs(_op, 40.0)
for _sum in (sparse_softmax, sparse_reduce_sum, sparse_spread):
    costs(_sum, 40.0)
