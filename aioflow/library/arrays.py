"""Functions on arrays composed of ops, and older names, as in TensorFlow 1.x."""

import builtins
from collections.abc import Sequence
from typing import Final

from aioflow.graph.building import transactional
from aioflow.graph.composed import dispatching
from aioflow.graph.convert import NumberLike, TensorLike, convert_to_tensor
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Tensor
from aioflow.kernels.array import gather as kernels
from aioflow.kernels.array.arrays import reverse
from aioflow.kernels.array.concat import concat, stack
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.ranges import linspace, range
from aioflow.kernels.array.select import select, sequence_mask, where
from aioflow.kernels.array.shapes import broadcast_to, reshape, shape
from aioflow.kernels.math.arithmetic import maximum, multiply
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.reduction import argmax, argmin
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import INTEGER, DTypeLike, Spec

newaxis: Final = None
"""An index that inserts an axis of size 1: `x[:, af.newaxis]`."""

lin_space = linspace
reverse_v2 = reverse


def arg_max(
    input: TensorLike, dimension: int, output_type: DTypeLike = dtypes.int64, name: str | None = None
) -> Tensor:
    """The index of the greatest element along an axis, the first of several; an older name of `argmax`.

    Examples:
        >>> await session.run(af.arg_max([1.0, 5.0, 2.0], 0))
        np.int64(1)
    """
    return argmax(input, dimension, output_type=output_type, name=name)


def arg_min(
    input: TensorLike, dimension: int, output_type: DTypeLike = dtypes.int64, name: str | None = None
) -> Tensor:
    """The index of the smallest element along an axis, the first of several; an older name of `argmin`.

    Examples:
        >>> await session.run(af.arg_min([1.0, 5.0, 2.0], 0))
        np.int64(0)
    """
    return argmin(input, dimension, output_type=output_type, name=name)


def to_complex64(x: NumberLike, name: str | None = "ToComplex64") -> Tensor:
    """`x` as complex64.

    Examples:
        >>> await session.run(af.to_complex64([1.0]))
        array([1.+0.j], dtype=complex64)
    """
    return cast(x, dtypes.complex64, name)


def to_complex128(x: NumberLike, name: str | None = "ToComplex128") -> Tensor:
    """`x` as complex128.

    Examples:
        >>> await session.run(af.to_complex128([1.0]))
        array([1.+0.j])
    """
    return cast(x, dtypes.complex128, name)


@transactional
@dispatching
def where_v2(
    condition: TensorLike, x: TensorLike | None = None, y: TensorLike | None = None, name: str | None = None
) -> Tensor:
    """Return `where` with NumPy's rule of broadcasting: a condition of rank 1 does not choose rows.

    Raises:
        ValueError: only one of x and y is given, or the shapes do not fit.

    Examples:
        >>> await session.run(af.where_v2([[True], [False]], [1, 2], 0))
        array([[1, 2],
               [0, 0]], dtype=int32)
    """
    if x is None or y is None:
        return where(condition, x, y, name=name)
    return select(condition, x, y, name=name)


@transactional
def repeat(input: TensorLike, repeats: TensorLike, axis: int | None = None, name: str | None = None) -> Tensor:
    """Repeat each element of `input` along an axis as often as `repeats` says.

    Args:
        input: a tensor of any dtype.
        repeats: an integer for all elements, or a vector with one for each.
        axis: None flattens `input` first.
        name: the name of the operation.

    Raises:
        ValueError: `repeats` has rank 2 or more, or another length than the axis.

    Examples:
        >>> await session.run(af.repeat([1, 2], [2, 3]))
        array([1, 1, 2, 2, 2], dtype=int32)
    """
    value, times = convert_to_tensor(input), convert_to_tensor(repeats, preferred_dtype=dtypes.int32)
    Spec(times.dtype).only(INTEGER)
    if times.spec.rank not in (0, 1, None):
        raise ValueError(f"repeats must be a scalar or a vector, its shape is {times.shape}")
    if axis is None:
        value, axis = reshape(value, [-1]), 0
    axis = value.spec.axis(axis)
    count = shape(value, out_type=times.dtype)[axis]
    return gather(value, _repeat_numbers(count, times), axis=axis, name=name or "repeat")


def _repeat_numbers(count: Tensor, times: Tensor) -> Tensor:
    """Return the numbers below `count`, each repeated as often as `times` says."""
    if times.spec.rank == 0 or times.shape == [1]:
        each = reshape(times, [])
        return range(count * each) // maximum(each, 1)
    return where(sequence_mask(broadcast_to(times, reshape(count, [1]))))[:, 0]


@transactional
def parallel_stack(values: Sequence[TensorLike], name: str = "parallel_stack") -> Tensor:
    """Stack values of the same known shape along a new first axis. ValueError for other values.

    Examples:
        >>> await session.run(af.parallel_stack([[1, 2], [3, 4]]))
        array([[1, 2],
               [3, 4]], dtype=int32)
    """
    tensors = [convert_to_tensor(value) for value in values]
    for tensor in tensors:
        tensor.shape.assert_is_fully_defined()
    return stack(tensors, name=name)


def is_numeric_tensor(tensor: TensorLike) -> bool:
    """Whether the tensor holds numbers, not bools or strings.

    Examples:
        >>> af.is_numeric_tensor(af.constant(1)), af.is_numeric_tensor(af.constant("tea"))
        (True, False)
    """
    return isinstance(tensor, Tensor) and bool(tensor.dtype.is_numeric)


@transactional
@dispatching
def gather_nd(params: TensorLike, indices: NumberLike, name: str | None = None, batch_dims: int = 0) -> Tensor:
    """Return the elements or slices of `params` at the positions along the last axis of `indices`.

    The first `batch_dims` axes of both go together: positions are counted within each batch. The shape is
    `indices.shape[:-1] + params.shape[batch_dims + indices.shape[-1]:]`.

    Raises:
        ValueError: a tensor has too few axes, or a known position lies outside.
        InvalidArgumentError: in the run, a position lies outside.

    Examples:
        >>> await session.run(af.gather_nd([[1, 2], [3, 4]], [[0, 1], [1, 0]]))
        array([2, 3], dtype=int32)
    """
    if not batch_dims:
        return kernels.gather_nd(params, indices, name=name)
    whole, places = convert_to_tensor(params), convert_to_tensor(indices, preferred_dtype=dtypes.int32)
    rank = places.spec.rank
    if rank is None or not 0 < batch_dims < rank:
        raise ValueError(f"batch_dims {batch_dims} does not fit indices of shape {places.shape}")
    whole.shape.with_rank_at_least(batch_dims)[:batch_dims].assert_is_compatible_with(places.shape[:batch_dims])
    return kernels.gather_nd(whole, in_batches(places, batch_dims), name=name)


def in_batches(places: Tensor, batch_dims: int) -> Tensor:
    """Convert positions of known rank within batches to positions in the whole, with the batch's numbers first."""
    sizes = shape(places, out_type=places.dtype)
    ones = [1] * len(places.shape)
    columns = [
        broadcast_to(reshape(range(sizes[axis]), [*ones[:axis], -1, *ones[axis + 1 :]]), concat([sizes[:-1], [1]], 0))
        for axis in builtins.range(batch_dims)
    ]
    return concat([*columns, places], -1)


@transactional
def scalar_mul(scalar: TensorLike, x: TensorLike, name: str | None = None) -> Tensor | IndexedSlices:
    """Return `x` times a number, in the dtype of x; for IndexedSlices, their values times it.

    Raises:
        ValueError: `scalar` has a rank other than 0.

    Examples:
        >>> await session.run(af.scalar_mul(2.0, [1.0, 2.0]))
        array([2., 4.], dtype=float32)
    """
    values = x.values if isinstance(x, IndexedSlices) else convert_to_tensor(x)
    factor = convert_to_tensor(scalar, values.dtype)
    if factor.spec.rank not in (None, 0):
        raise ValueError(f"a scalar is needed, its shape is {factor.shape}")
    product = multiply(factor, values, name=name or "scalar_mul")
    return IndexedSlices(product, x.indices, x.dense_shape) if isinstance(x, IndexedSlices) else product
