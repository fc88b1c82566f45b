"""Functions of sparse tensors. Gradients of the values are those of the corresponding dense tensors."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, TensorLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.graph.params import renamed
from aioflow.graph.sparse_tensor import SparseTensor, SparseTensorValue
from aioflow.kernels.array.arrays import reverse
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import placeholder
from aioflow.kernels.array.gather import gather, gather_nd
from aioflow.kernels.array.scatter import tensor_scatter_add
from aioflow.kernels.array.select import boolean_mask, where
from aioflow.kernels.array.shapes import broadcast_to, reshape, shape
from aioflow.kernels.math.broadcasting import Axis
from aioflow.kernels.math.comparison import greater_equal, not_equal
from aioflow.kernels.math.elementwise import abs as absolute
from aioflow.kernels.math.segments import unsorted_segment_sum
from aioflow.kernels.sparse import sparse_parts as parts
from aioflow.kernels.sparse import sparse_strings as string_kernels
from aioflow.kernels.sparse import sparse_tensors as kernels
from aioflow.library.control import name_scope
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import as_dtype, as_shape, int64

sparse_to_dense: Final = kernels.sparse_to_dense


def _sparse(value: Any) -> SparseTensor:
    return SparseTensor.from_value(value)


def _parts(value: SparseTensor) -> tuple[Tensor, Tensor, Tensor]:
    return value.indices, value.values, value.dense_shape


# Creation


@transactional
def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SparseTensor:
    """Return a sparse tensor to be fed a `SparseTensorValue` in every run that needs it.

    `shape` is the full shape; if it is not completely known, it is fed too.

    Examples:
        >>> x = af.sparse_placeholder(af.float32, [2, 2])
        >>> await session.run(af.sparse_tensor_to_dense(x), {x: ([[0, 1]], [5.0], [2, 2])})
        array([[0., 5.],
               [0., 0.]], dtype=float32)
    """
    whole = as_shape(shape)
    with name_scope(name, "sparse_placeholder"):
        values = placeholder(as_dtype(dtype), [None], name="values")
        indices = placeholder(int64, [None, whole.ndims], name="indices")
        if whole.is_fully_defined():
            return SparseTensor(indices, values, convert_to_tensor(whole, int64, name="shape"))
        return SparseTensor(indices, values, placeholder(int64, [whole.ndims], name="shape"))


@transactional
def convert_to_tensor_or_sparse_tensor(value: Any, dtype: Any = None, name: str | None = None) -> Tensor | SparseTensor:
    """Return a sparse tensor for a sparse tensor or its value, else a tensor. TypeError for another dtype.

    Examples:
        >>> af.convert_to_tensor_or_sparse_tensor([1, 2])
        <af.Tensor 'constant:0' int32[2]>
    """
    if not isinstance(value, (SparseTensor, SparseTensorValue)):
        return convert_to_tensor(value, dtype, name)
    made = _sparse(value)
    if dtype is not None and made.dtype is not as_dtype(dtype):
        raise TypeError(f"{made!r} has dtype {made.dtype.name}, {as_dtype(dtype).name} is needed; use af.cast")
    return made


@transactional
def from_dense(tensor: TensorLike, name: str | None = None) -> SparseTensor:
    """Return the elements of `tensor` that are not zero.

    Examples:
        >>> await session.run(af.sparse.from_dense([0, 7, 0]).indices)
        array([[1]])
    """
    with name_scope(name, "from_dense"):
        tensor = convert_to_tensor(tensor)
        empty = b"" if tensor.dtype is dtypes.string else tensor.dtype.np.type(0)
        indices = where(not_equal(tensor, empty))
        return SparseTensor(indices, gather_nd(tensor, indices), shape(tensor, out_type=int64))


# Conversion to dense tensors


@transactional
def sparse_tensor_to_dense(
    sp_input: SparseTensor,
    default_value: TensorLike | None = None,
    validate_indices: bool = True,
    name: str | None = None,
) -> Tensor:
    """Return the dense tensor, with `default_value`, by default 0 or an empty string, at all other positions.

    Raises:
        InvalidArgumentError: positions lie outside, repeat or, unless `validate_indices` is false, are out of order.

    Examples:
        >>> await session.run(af.sparse_tensor_to_dense(af.SparseTensor([[0, 1], [1, 0]], [5, 6], [2, 2])))
        array([[0, 5],
               [6, 0]], dtype=int32)
    """
    sp_input = _sparse(sp_input)
    if default_value is None:
        default_value = b"" if sp_input.dtype is dtypes.string else sp_input.dtype.np.type(0)
    indices, values, sizes = _parts(sp_input)
    return sparse_to_dense(indices, sizes, values, default_value, validate_indices, name=name)


@transactional
def sparse_tensor_dense_matmul(
    sp_a: SparseTensor, b: TensorLike, adjoint_a: bool = False, adjoint_b: bool = False, name: str | None = None
) -> Tensor:
    """Return the product of a sparse and a dense matrix, each possibly transposed and conjugated: a dense matrix.

    Examples:
        >>> await session.run(af.sparse_tensor_dense_matmul(af.SparseTensor([[0, 1]], [5.0], [2, 2]), af.ones([2, 1])))
        array([[5.],
               [0.]], dtype=float32)
    """
    return kernels.sparse_dense_matmul(*_parts(_sparse(sp_a)), b, adjoint_a, adjoint_b, name=name)


@transactional
def sparse_reduce_sum(
    sp_input: SparseTensor,
    axis: Axis = None,
    keepdims: bool | None = None,
    reduction_axes: Axis = None,
    keep_dims: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the sum along the axes, all if None: a dense tensor.

    Examples:
        >>> await session.run(af.sparse_reduce_sum(af.SparseTensor([[0, 1], [1, 0]], [5, 6], [2, 2]), axis=1))
        array([5, 6], dtype=int32)
    """
    chosen = _flags(axis, keepdims, reduction_axes, keep_dims)
    return kernels.sparse_reduce_sum(*_parts(_sparse(sp_input)), *chosen, name=name)


def _flags(axis: Axis, keepdims: bool | None, reduction_axes: Axis, keep_dims: bool | None) -> tuple[Axis, bool]:
    """Return the axes, and whether they stay with size 1; the last two are older names of the first two."""
    return renamed("axis", axis, reduction_axes), bool(renamed("keepdims", keepdims, keep_dims))


# Element by element


@transactional
def sparse_add(a: Any, b: Any, threshold: TensorLike | None = None, thresh: TensorLike | None = None) -> Any:
    """Return the sum of two tensors of which at least one is sparse: sparse if both are, else dense.

    A sparse sum omits elements below `threshold` in absolute value; without a threshold it keeps zeros.

    Raises:
        TypeError: neither is sparse.

    Examples:
        >>> a = af.SparseTensor([[0, 1]], [5], [1, 2])
        >>> await session.run(af.sparse_tensor_to_dense(af.sparse_add(a, a)))
        array([[ 0, 10]], dtype=int32)
    """
    kinds = [isinstance(value, (SparseTensor, SparseTensorValue)) for value in (a, b)]
    if kinds == [False, False]:
        raise TypeError("sparse_add: at least one of the two must be a SparseTensor")
    if kinds == [True, True]:
        return _sparse_sum(_sparse(a), _sparse(b), thresh if threshold is None else threshold)
    sparse, dense = (_sparse(a), b) if kinds[0] else (_sparse(b), a)
    dense = convert_to_tensor(dense, sparse.dtype)
    sparse.shape.merge_with(dense.shape)
    return tensor_scatter_add(dense, sparse.indices, sparse.values)


def _sparse_sum(a: SparseTensor, b: SparseTensor, threshold: TensorLike | None) -> SparseTensor:
    with name_scope("sparse_add"):
        indices, places = kernels.sparse_union(a.indices, a.dense_shape, b.indices, b.dense_shape)
        values = unsorted_segment_sum(concat([a.values, b.values], 0), places, shape(indices)[0])
        whole = SparseTensor(indices, values, a.dense_shape)
        if threshold is None or (isinstance(threshold, (int, float)) and not threshold):
            return whole
        return sparse_retain(whole, greater_equal(absolute(values), threshold))


@transactional
def sparse_dense_cwise_mul(sp_input: SparseTensor, dense: TensorLike, name: str | None = None) -> SparseTensor:
    """Multiply each element by the one of `dense` at its position; `dense` is broadcast to the shape.

    Examples:
        >>> a = af.SparseTensor([[0], [1]], [5, 6], [2])
        >>> await session.run(af.sparse_dense_cwise_mul(a, [10, 100]).values)
        array([ 50, 600], dtype=int32)
    """
    sp_input = _sparse(sp_input)
    return _replace_values(sp_input, OPERATORS["multiply"](sp_input.values, _at(sp_input, dense), name=name))


@transactional
def sparse_dense_cwise_div(sp_input: SparseTensor, dense: TensorLike, name: str | None = None) -> SparseTensor:
    """Divide each element by the one of `dense` at its position; `dense` is broadcast to the shape.

    Examples:
        >>> a = af.SparseTensor([[0], [1]], [8.0, 8.0], [2])
        >>> await session.run(af.sparse_dense_cwise_div(a, [2.0, 4.0]).values)
        array([4., 2.], dtype=float32)
    """
    sp_input = _sparse(sp_input)
    return _replace_values(sp_input, OPERATORS["truediv"](sp_input.values, _at(sp_input, dense), name=name))


def _replace_values(sparse: SparseTensor, values: Tensor) -> SparseTensor:
    return SparseTensor(sparse.indices, values, sparse.dense_shape)


def _at(sparse: SparseTensor, dense: TensorLike) -> Tensor:
    """Return the elements of `dense`, broadcast to the shape of `sparse`, at its positions."""
    dense = convert_to_tensor(dense, sparse.dtype)
    sizes, rank = dense.spec.sizes, sparse.shape.ndims
    if sizes is None or rank is None or None in sizes:
        return gather_nd(broadcast_to(dense, sparse.dense_shape), sparse.indices)
    if not dtypes.broadcast_shapes(sparse.shape, dense.shape).is_compatible_with(sparse.shape):
        raise ValueError(f"shape {dense.shape} cannot be broadcast to {sparse.shape}")
    places = gather(sparse.indices, np.arange(rank - len(sizes), rank), axis=1)
    return gather_nd(dense, places * np.array([size != 1 for size in sizes], np.int64))


@transactional
def sparse_softmax(sp_input: SparseTensor, name: str | None = None) -> SparseTensor:
    """Return the softmax of each row, all axes but the last, over its elements.

    Examples:
        >>> a = af.SparseTensor([[0, 0], [0, 2]], [1.0, 1.0], [1, 3])
        >>> await session.run(af.sparse_softmax(a).values)
        array([0.5, 0.5], dtype=float32)
    """
    sp_input = _sparse(sp_input)
    return _replace_values(sp_input, kernels.sparse_softmax(*_parts(sp_input), name=name))


# Parts and order


@transactional
def sparse_reorder(sp_input: SparseTensor, name: str | None = None) -> SparseTensor:
    """Return the same tensor with ascending positions.

    Examples:
        >>> a = af.SparseTensor([[1, 0], [0, 1]], [6, 5], [2, 2])
        >>> await session.run(af.sparse_reorder(a).values)
        array([5, 6], dtype=int32)
    """
    sp_input = _sparse(sp_input)
    indices, order = kernels.sparse_order(sp_input.indices, sp_input.dense_shape, name=name)
    return SparseTensor(indices, gather(sp_input.values, order), sp_input.dense_shape)


@transactional
def sparse_transpose(
    sp_input: SparseTensor, perm: Sequence[int] | None = None, name: str | None = None
) -> SparseTensor:
    """Return the tensor with its axes in the order `perm`, by default reversed; positions ascend.

    Examples:
        >>> a = af.SparseTensor([[0, 1]], [5], [2, 2])
        >>> await session.run(af.sparse_tensor_to_dense(af.sparse_transpose(a)))
        array([[0, 0],
               [5, 0]], dtype=int32)
    """
    sp_input = _sparse(sp_input)
    with name_scope(name, "sparse_transpose"):
        if perm is None:
            indices, sizes = reverse(sp_input.indices, 1), reverse(sp_input.dense_shape, 0)
        else:
            order = [int(place) for place in perm]
            if sorted(order) != list(range(len(sp_input.shape.with_rank(len(order))))):
                raise ValueError(f"perm {order} is not a permutation of the axes of shape {sp_input.shape}")
            places = np.array(order, np.int32)
            indices, sizes = gather(sp_input.indices, places, axis=1), gather(sp_input.dense_shape, places)
        return sparse_reorder(SparseTensor(indices, sp_input.values, sizes))


@transactional
def sparse_reshape(sp_input: SparseTensor, shape: NumberLike, name: str | None = None) -> SparseTensor:
    """Return the same elements in another shape, one size of which may be -1.

    Examples:
        >>> a = af.SparseTensor([[1, 0]], [6], [2, 2])
        >>> await session.run(af.sparse_tensor_to_dense(af.sparse_reshape(a, [4])))
        array([0, 0, 6, 0], dtype=int32)
    """
    sp_input = _sparse(sp_input)
    wanted = convert_to_tensor(shape, preferred_dtype=int64)
    indices, sizes = parts.sparse_refit(sp_input.indices, sp_input.dense_shape, wanted, name=name)
    return SparseTensor(indices, sp_input.values, sizes)


@transactional
def sparse_slice(sp_input: SparseTensor, start: NumberLike, size: TensorLike, name: str | None = None) -> SparseTensor:
    """Return the part of the block of `size` at `start` that lies inside the tensor.

    Examples:
        >>> a = af.SparseTensor([[0, 1], [1, 0]], [5, 6], [2, 2])
        >>> await session.run(af.sparse_tensor_to_dense(af.sparse_slice(a, [1, 0], [1, 2])))
        array([[6, 0]], dtype=int32)
    """
    sp_input = _sparse(sp_input)
    indices, sizes, places = parts.sparse_cut(sp_input.indices, sp_input.dense_shape, start, size, name=name)
    return SparseTensor(indices, gather(sp_input.values, places), sizes)


@transactional
def sparse_retain(sp_input: SparseTensor, to_retain: TensorLike) -> SparseTensor:
    """Return the elements for which the vector `to_retain` is true.

    Examples:
        >>> a = af.SparseTensor([[0, 1], [1, 0]], [5, 6], [2, 2])
        >>> await session.run(af.sparse_retain(a, [True, False]).values)
        array([5], dtype=int32)
    """
    sp_input = _sparse(sp_input)
    kept = convert_to_tensor(to_retain, dtypes.bool_)
    kept.shape.with_rank(1).merge_with(sp_input.values.shape)
    return SparseTensor(boolean_mask(sp_input.indices, kept), boolean_mask(sp_input.values, kept), sp_input.dense_shape)


@transactional
def sparse_fill_empty_rows(
    sp_input: SparseTensor, default_value: TensorLike, name: str | None = None
) -> tuple[SparseTensor, Tensor]:
    """Return the tensor with `default_value` as the first element of each empty row, and which rows were empty.

    Examples:
        >>> filled, empty = af.sparse_fill_empty_rows(af.SparseTensor([[0, 0]], [5], [2, 2]), -1)
        >>> await session.run(filled.values)
        array([ 5, -1], dtype=int32)
    """
    sp_input = _sparse(sp_input)
    with name_scope(name, "sparse_fill_empty_rows"):
        indices, places, empty = parts.sparse_fill(sp_input.indices, sp_input.dense_shape)
        default = reshape(convert_to_tensor(default_value, sp_input.dtype), [1])
        values = gather(concat([sp_input.values, default], 0), places)
        return SparseTensor(indices, values, sp_input.dense_shape), empty


@transactional
def sparse_concat(
    axis: int,
    sp_inputs: Sequence[SparseTensor],
    name: str | None = None,
    expand_nonconcat_dim: bool = False,
    concat_dim: int | None = None,
    expand_nonconcat_dims: bool | None = None,
) -> SparseTensor:
    """Concatenate the tensors along an axis; positions ascend.

    All other axes have the same sizes, or with `expand_nonconcat_dims` get the largest of their sizes.

    Examples:
        >>> a = af.SparseTensor([[0, 1]], [5], [1, 2])
        >>> await session.run(af.sparse_tensor_to_dense(af.sparse_concat(0, [a, a])))
        array([[0, 5],
               [0, 5]], dtype=int32)
    """
    inputs = [_sparse(value) for value in ([sp_inputs] if isinstance(sp_inputs, SparseTensor) else sp_inputs)]
    along = renamed("axis", axis, concat_dim)
    if len(inputs) == 1:
        dtypes.normalise_axis(along, inputs[0].shape.ndims)
        return inputs[0]
    expand = expand_nonconcat_dim if expand_nonconcat_dims is None else expand_nonconcat_dims
    with name_scope(name, "sparse_concat"):
        indices, sizes = parts.sparse_join(
            [value.indices for value in inputs],
            [value.dense_shape for value in inputs],
            along,
            expand,
        )
        return sparse_reorder(SparseTensor(indices, concat([value.values for value in inputs], 0), sizes))


OPERATORS["sparse_dense_multiply"] = sparse_dense_cwise_mul  # type: ignore[assignment]
OPERATORS["sparse_dense_divide"] = sparse_dense_cwise_div  # type: ignore[assignment]


@transactional
def serialize_sparse(
    sp_input: SparseTensor | SparseTensorValue, name: str | None = None, out_type: Any = dtypes.string
) -> Tensor:
    """Return a sparse tensor as a vector of three strings, for `deserialize_many_sparse`.

    Examples:
        >>> packed = af.serialize_sparse(af.SparseTensor([[0]], [5], [2]))
        >>> packed.shape
        TensorShape([3])
    """
    return string_kernels.pack_sparse(*_string_parts(sp_input, out_type), name=name)


@transactional
def serialize_many_sparse(
    sp_input: SparseTensor | SparseTensorValue, name: str | None = None, out_type: Any = dtypes.string
) -> Tensor:
    """Return each row of a batch in a sparse tensor as three strings: [rows, 3].

    InvalidArgumentError in the run if its positions are not ordered by row.

    Examples:
        >>> rows = af.SparseTensor([[0, 1], [1, 0]], [5, 6], [2, 2])
        >>> af.serialize_many_sparse(rows).shape
        TensorShape([2, 3])
    """
    return string_kernels.pack_sparse_rows(*_string_parts(sp_input, out_type), name=name)


def _string_parts(given: SparseTensor | SparseTensorValue, out_type: Any) -> tuple[Tensor, Tensor, Tensor]:
    if as_dtype(out_type) is not dtypes.string:
        raise ValueError(f"out_type must be string, not {as_dtype(out_type).name}")
    sparse = SparseTensor.from_value(given)
    return sparse.indices, sparse.values, sparse.dense_shape


@transactional
def deserialize_many_sparse(
    serialized_sparse: TensorLike, dtype: Any, rank: int | None = None, name: str | None = None
) -> SparseTensor:
    """Return the batch whose rows are the given sparse tensors, three strings each; sizes are the largest of theirs.

    Args:
        serialized_sparse: [rows, 3].
        dtype: the dtype of the values.
        rank: the rank of the batch, one more than that of each row, so that it is known before the run.
        name: the name of the operation.

    Raises:
        InvalidArgumentError: in the run: a row is not a sparse tensor, or has values of another dtype, or another rank.

    Examples:
        >>> rows = af.SparseTensor([[0, 1], [1, 0]], [5, 6], [2, 2])
        >>> again = af.deserialize_many_sparse(af.serialize_many_sparse(rows), af.int32)
        >>> await session.run(af.sparse_tensor_to_dense(again))
        array([[0, 5],
               [6, 0]], dtype=int32)
    """
    each = None if rank is None else rank - 1
    indices, values, shape = string_kernels.unpack_sparse(serialized_sparse, as_dtype(dtype), each, name=name)
    return SparseTensor(indices, values, shape)
