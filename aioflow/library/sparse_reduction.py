"""Reductions, comparisons, divisions and rearrangements of sparse tensors."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, TensorLike, convert_to_tensor
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Tensor
from aioflow.graph.params import renamed
from aioflow.graph.sparse_tensor import SparseTensor, SparseTensorValue
from aioflow.kernels.array.concat import concat, stack
from aioflow.kernels.array.constants import fill, ones_like
from aioflow.kernels.array.gather import ensure_index, gather
from aioflow.kernels.array.ranges import range as counting
from aioflow.kernels.array.sequence import setdiff1d
from aioflow.kernels.array.shapes import expand_dims, shape
from aioflow.kernels.control.assertions import assert_less_equal
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.math.arithmetic import floordiv, maximum, minimum, mod
from aioflow.kernels.math.broadcasting import Axis
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.reduction import reduce_max
from aioflow.kernels.math.segments import unsorted_segment_sum
from aioflow.kernels.math.unsorted_segments import unsorted_segment_max
from aioflow.kernels.sparse import sparse_parts as parts
from aioflow.kernels.sparse import sparse_tensors as kernels
from aioflow.library.control import control_dependencies, name_scope
from aioflow.library.sparse import _flags, _sparse, sparse_reorder, sparse_slice, sparse_tensor_to_dense
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import INTEGER, Spec, float32, int32, int64

Collect = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(values, segment ids, number of segments): one value for each segment."""

# Along axes


def _reduce(collect: Collect, value: SparseTensor, axis: Axis, keepdims: bool) -> SparseTensor:
    """Return one element for each remaining position with elements; the others stay empty."""
    kept, sizes = parts.sparse_keep(value.indices, value.dense_shape, axis, keepdims)
    groups, count = kernels.sparse_group(kept)
    return SparseTensor(unsorted_segment_max(kept, groups, count), collect(value.values, groups, count), sizes)


@transactional
def sparse_reduce_max(
    sp_input: SparseTensor,
    axis: Axis = None,
    keepdims: bool | None = None,
    reduction_axes: Axis = None,
    keep_dims: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the maximum of the elements along the axes, all if None, and 0 without elements: a dense tensor.

    Examples:
        >>> a = af.SparseTensor([[0, 1], [1, 0]], [5, 6], [2, 2])
        >>> await session.run(af.sparse_reduce_max(a, 1))
        array([5, 6], dtype=int32)
    """
    with name_scope(name, "sparse_reduce_max") as scope:
        found = _reduce(unsorted_segment_max, _sparse(sp_input), *_flags(axis, keepdims, reduction_axes, keep_dims))
        return sparse_tensor_to_dense(found, name=scope)


@transactional
def sparse_reduce_max_sparse(
    sp_input: SparseTensor,
    axis: Axis = None,
    keepdims: bool | None = None,
    reduction_axes: Axis = None,
    keep_dims: bool | None = None,
    name: str | None = None,
) -> SparseTensor:
    """Return the maximum of the elements along the axes, all if None: a sparse tensor.

    Examples:
        >>> a = af.SparseTensor([[0, 1], [1, 0]], [5, 6], [2, 2])
        >>> await session.run(af.sparse_reduce_max_sparse(a, 1).values)
        array([5, 6], dtype=int32)
    """
    with name_scope(name, "sparse_reduce_max_sparse"):
        return _reduce(unsorted_segment_max, _sparse(sp_input), *_flags(axis, keepdims, reduction_axes, keep_dims))


@transactional
def sparse_reduce_sum_sparse(
    sp_input: SparseTensor,
    axis: Axis = None,
    keepdims: bool | None = None,
    reduction_axes: Axis = None,
    keep_dims: bool | None = None,
    name: str | None = None,
) -> SparseTensor:
    """Return the sum of the elements along the axes, all if None: a sparse tensor.

    Examples:
        >>> a = af.SparseTensor([[0, 1], [1, 0]], [5, 6], [2, 2])
        >>> await session.run(af.sparse_reduce_sum_sparse(a, 1).values)
        array([5, 6], dtype=int32)
    """
    with name_scope(name, "sparse_reduce_sum_sparse"):
        return _reduce(unsorted_segment_sum, _sparse(sp_input), *_flags(axis, keepdims, reduction_axes, keep_dims))


# Two tensors


def _combine(a: Any, b: Any, function: Callable[..., Tensor], name: str | None, default: str) -> SparseTensor:
    first, second = _sparse(a), _sparse(b)
    with name_scope(name, default):
        indices, places = kernels.sparse_union(first.indices, first.dense_shape, second.indices, second.dense_shape)
        count, border = shape(indices)[0], shape(first.values)[0]
        whole = [
            unsorted_segment_sum(first.values, places[:border], count),
            unsorted_segment_sum(second.values, places[border:], count),
        ]
        return SparseTensor(indices, function(*whole), first.dense_shape)


@transactional
def sparse_maximum(sp_a: SparseTensor, sp_b: SparseTensor, name: str | None = None) -> SparseTensor:
    """Return the maximum of two sparse tensors of one shape, where either has an element. Absent elements are 0.

    Examples:
        >>> a, b = af.SparseTensor([[0]], [5], [2]), af.SparseTensor([[0], [1]], [3, 4], [2])
        >>> await session.run(af.sparse_tensor_to_dense(af.sparse_maximum(a, b)))
        array([5, 4], dtype=int32)
    """
    return _combine(sp_a, sp_b, maximum, name, "sparse_maximum")


@transactional
def sparse_minimum(sp_a: SparseTensor, sp_b: SparseTensor, name: str | None = None) -> SparseTensor:
    """Return the minimum of two sparse tensors of one shape, where either has an element. Absent elements are 0.

    Examples:
        >>> a, b = af.SparseTensor([[0]], [5], [2]), af.SparseTensor([[0], [1]], [3, 4], [2])
        >>> await session.run(af.sparse_tensor_to_dense(af.sparse_minimum(a, b)))
        array([3, 0], dtype=int32)
    """
    return _combine(sp_a, sp_b, minimum, name, "sparse_minimum")


def sparse_matmul(
    a: TensorLike,
    b: TensorLike,
    transpose_a: bool = False,
    transpose_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the product of two matrices, by `matmul`; many zeros make no difference.

    Examples:
        >>> await session.run(af.sparse_matmul([[1.0, 0.0]], [[3.0], [4.0]]))
        array([[3.]], dtype=float32)
    """
    return matmul(a, b, transpose_a, transpose_b, name=name)


# Other operations


@transactional
def sparse_mask(a: IndexedSlices, mask_indices: TensorLike, name: str | None = None) -> IndexedSlices:
    """Return the slices of `a` whose indices are not among `mask_indices`.

    Examples:
        >>> slices = af.IndexedSlices(af.constant([1, 2]), af.constant([3, 7]))
        >>> await session.run(af.sparse_mask(slices, [3]).values)
        array([2], dtype=int32)
    """
    with name_scope(name, "sparse_mask"):
        indices, places = setdiff1d(a.indices, convert_to_tensor(mask_indices, a.indices.dtype))
        return IndexedSlices(gather(a.values, places), indices, a.dense_shape)


@transactional
def sparse_split(
    keyword_required: None = None,
    sp_input: SparseTensor | None = None,
    num_split: int | None = None,
    axis: int | None = None,
    name: str | None = None,
    split_dim: int | None = None,
) -> list[SparseTensor]:
    """Return `num_split` parts along an axis; the first ones have one index more if it does not divide evenly.

    Raises:
        ValueError: an argument is missing or given by position, or there are fewer than one part.

    Examples:
        >>> parts = af.sparse_split(sp_input=af.SparseTensor([[0, 0], [0, 3]], [5, 6], [1, 4]), num_split=2, axis=1)
        >>> await session.run(parts[1].values)
        array([6], dtype=int32)
    """
    where = renamed("axis", axis, split_dim)
    if keyword_required is not None or sp_input is None or num_split is None or where is None:
        raise ValueError("sparse_split needs sp_input, num_split and axis, by keyword")
    value = _sparse(sp_input)
    rank = value.shape.ndims
    if num_split < 1 or rank is None:
        raise ValueError(f"sparse_split needs a known rank and at least one part, not {num_split}")
    place = dtypes.normalise_axis(where, rank)
    with name_scope(name, "sparse_split"):
        size = value.dense_shape[place]
        each, longer = floordiv(size, num_split), mod(size, num_split)
        ends = [each * i + minimum(longer, i) for i in range(num_split + 1)]
        return [_part(value, place, rank, begin, end - begin) for begin, end in itertools.pairwise(ends)]


def _part(value: SparseTensor, place: int, rank: int, begin: Tensor, size: Tensor) -> SparseTensor:
    start = [begin if i == place else 0 for i in range(rank)]
    return sparse_slice(value, stack(start), stack([size if i == place else value.dense_shape[i] for i in range(rank)]))


@transactional
def sparse_reset_shape(sp_input: SparseTensor, new_shape: TensorLike | None = None) -> SparseTensor:
    """Return the same elements in a tensor of another shape: by default the smallest one.

    Raises:
        InvalidArgumentError: the new shape is smaller than the old one; in the run, or earlier if that is known.

    Examples:
        >>> a = af.SparseTensor([[0]], [5], [10])
        >>> await session.run(af.sparse_reset_shape(a).dense_shape)
        array([1])
    """
    value = _sparse(sp_input)
    with name_scope(None, "sparse_reset_shape"):
        if new_shape is None:
            tight = maximum(reduce_max(value.indices, 0), convert_to_tensor(-1, value.indices.dtype)) + 1
            return SparseTensor(value.indices, value.values, cast(tight, int64))
        wanted = cast(convert_to_tensor(new_shape, preferred_dtype=int64), int64)
        wanted.shape.merge_with(value.dense_shape.shape)
        old = cast(value.dense_shape, int64)
        with control_dependencies([assert_less_equal(old, wanted, message="the new shape, y, must not be smaller")]):
            return SparseTensor(value.indices, value.values, maximum(wanted, old))


@transactional
def sparse_to_indicator(sp_input: SparseTensor, vocab_size: TensorLike, name: str | None = None) -> Tensor:
    """Return which numbers below `vocab_size` each row along the last axis has: bools [..., vocab_size].

    Examples:
        >>> a = af.SparseTensor([[0, 0], [0, 1]], af.constant([0, 2], af.int64), [1, 2])
        >>> await session.run(af.sparse_to_indicator(a, 3))
        array([[ True, False,  True]])
    """
    value = _sparse(sp_input)
    with name_scope(name, "sparse_to_indicator") as scope:
        numbers = SparseTensor(value.indices, ones_like(value.values, dtypes.bool_), value.dense_shape)
        merged = sparse_merge(value, numbers, vocab_size)
        return sparse_tensor_to_dense(merged, False, validate_indices=False, name=scope)


@transactional
def sparse_merge(
    sp_ids: SparseTensor | Sequence[SparseTensor],
    sp_values: SparseTensor,
    vocab_size: Any,
    name: str | None = None,
    already_sorted: bool = False,
) -> SparseTensor:
    """Return the elements of `sp_values`, with the last number of each position replaced by the element of `sp_ids`.

    Each of several `sp_ids`, with as many sizes in `vocab_size`, gives one number.

    Raises:
        TypeError: the ids are not integers.
        InvalidArgumentError: in the run, if an id is not below its size.

    Examples:
        >>> ids = af.SparseTensor([[0, 0], [1, 0]], af.constant([2, 0], af.int64), [2, 1])
        >>> values = af.SparseTensor([[0, 0], [1, 0]], [0.5, 1.5], [2, 1])
        >>> await session.run(af.sparse_tensor_to_dense(af.sparse_merge(ids, values, 3)))
        array([[0. , 0. , 0.5],
               [1.5, 0. , 0. ]], dtype=float32)
    """
    several = isinstance(sp_ids, (list, tuple)) and not isinstance(sp_ids, SparseTensorValue)
    ids = [_sparse(each) for each in (sp_ids if isinstance(sp_ids, (list, tuple)) and several else [sp_ids])]
    sizes = list(vocab_size) if several else [vocab_size]
    if len(ids) != len(sizes):
        raise ValueError(f"{len(ids)} sparse tensors of ids have {len(sizes)} sizes")
    for each in ids:
        Spec(each.dtype).only(INTEGER)
    with name_scope(name, "sparse_merge"):
        values = _sparse(sp_values)
        bounds = [cast(convert_to_tensor(size, preferred_dtype=int32), int64) for size in sizes]
        columns = [
            expand_dims(ensure_index(cast(each.values, int64), size), 1) for each, size in zip(ids, bounds, strict=True)
        ]
        indices = concat([cast(ids[0].indices, int64)[:, :-1], *columns], 1)
        whole = concat([cast(ids[0].dense_shape, int64)[:-1], stack(bounds)], 0)
        merged = SparseTensor(indices, values.values, whole)
        return merged if already_sorted else sparse_reorder(merged)


@transactional
def sparse_expand_dims(sp_input: SparseTensor, axis: int | None = None, name: str | None = None) -> SparseTensor:
    """Insert an axis of size 1 into the tensor, which becomes `axis`, by default the last one.

    Examples:
        >>> expanded = af.sparse.expand_dims(af.SparseTensor([[1]], [5], [3]), axis=0)
        >>> await session.run(af.shape(af.sparse_tensor_to_dense(expanded)))
        array([1, 3], dtype=int32)
    """
    value = _sparse(sp_input)
    rank = value.shape.ndims
    if rank is None:
        raise ValueError("the rank of the sparse tensor must be known")
    place = dtypes.normalise_axis(-1 if axis is None else axis, rank + 1)
    with name_scope(name, "expand_dims"):
        nought = fill([shape(value.indices)[0], 1], value.indices.dtype.np.type(0))
        indices = concat([value.indices[:, :place], nought, value.indices[:, place:]], 1)
        one = convert_to_tensor([1], value.dense_shape.dtype)
        return SparseTensor(
            indices, value.values, concat([value.dense_shape[:place], one, value.dense_shape[place:]], 0)
        )


@transactional
def sparse_eye(
    num_rows: NumberLike, num_columns: NumberLike | None = None, dtype: Any = float32, name: str | None = None
) -> SparseTensor:
    """Return the matrix with ones on its diagonal and no other elements.

    Examples:
        >>> await session.run(af.sparse_tensor_to_dense(af.sparse.eye(2)))
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    with name_scope(name, "eye"):
        rows = cast(convert_to_tensor(num_rows, preferred_dtype=int64), int64)
        columns = rows if num_columns is None else cast(convert_to_tensor(num_columns, preferred_dtype=int64), int64)
        places = counting(minimum(rows, columns))
        return SparseTensor(stack([places, places], 1), ones_like(places, dtype), stack([rows, columns]))
