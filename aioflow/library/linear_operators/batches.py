"""Shapes of batches, and matrices made to fit: what linear operators share below their methods."""

import functools
from collections.abc import Iterable, Sequence
from typing import Final

from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import matrix_transpose
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.partition import broadcast_dynamic_shape
from aioflow.kernels.array.shapes import broadcast_to, shape
from aioflow.kernels.math.arithmetic import add, multiply
from aioflow.kernels.math.complex import conj
from aioflow.tensors.dtypes import DType, complex64, complex128, float16, float32, float64
from aioflow.tensors.shape import UNKNOWN, TensorShape, broadcast_shapes

ALLOWED: Final = (float16, float32, float64, complex64, complex128)
"""The dtypes of elements of operators."""


def elements(value: NumberLike, what: str, rank: int, dtype: DType | None = None) -> Tensor:
    """The tensor that describes an operator.

    Raises:
        TypeError: its dtype is none of an operator.
        ValueError: it has fewer than `rank` axes.
    """
    tensor = convert_to_tensor(value, dtype, name=what)
    if tensor.dtype not in ALLOWED:
        names = ", ".join(each.name for each in ALLOWED)
        raise TypeError(f"{what} has one of the dtypes {names}, not {tensor.dtype.name}: cast it first")
    return at_least(tensor, what, rank)


def at_least(tensor: Tensor, what: str, rank: int) -> Tensor:
    """The tensor. ValueError if it has fewer than `rank` axes."""
    if tensor.shape.ndims is not None and tensor.shape.ndims < rank:
        raise ValueError(f"{what} has at least {rank} axes, its shape is {tensor.shape}")
    return tensor


def matrices(batch: TensorShape, rows: int | None, columns: int | None) -> TensorShape:
    """The shape of a batch of matrices."""
    return batch.concatenate((rows, columns))


def common_batch(shapes: Iterable[TensorShape]) -> TensorShape:
    """The shape that all these broadcast to. ValueError if they do not."""
    return functools.reduce(broadcast_shapes, shapes, TensorShape([]))


def common_batch_tensor(shapes: Sequence[Tensor]) -> Tensor:
    """The shape that all these, vectors, broadcast to in a run."""
    return functools.reduce(broadcast_dynamic_shape, shapes)


def size_at(shape: TensorShape, axis: int) -> int | None:
    """The size of an axis, None while unknown."""
    return None if shape.sizes is None else shape.sizes[axis]


def axis_of(tensor: Tensor, axis: int) -> Tensor:
    """The size of an axis in a run."""
    found: Tensor = shape(tensor)[axis]
    return found


def spread(tensor: Tensor, batch: Tensor, known: TensorShape, rank: int) -> Tensor:
    """The tensor, whose last `rank` axes are an element, for each of a batch of that shape; itself where that is one.

    `known` is the shape of the batch as far as it is known.
    """
    own = leading(tensor.shape, rank)
    if known.ndims == 0 or (own.is_fully_defined() and own == known):
        return tensor
    whole = shape(tensor)
    if not rank:
        return broadcast_to(tensor, broadcast_dynamic_shape(batch, whole))
    return broadcast_to(tensor, concat([broadcast_dynamic_shape(batch, whole[:-rank]), whole[-rank:]], 0))


def turned(matrix: Tensor) -> Tensor:
    """The conjugate transpose of each matrix."""
    return matrix_transpose(matrix, conjugate=matrix.dtype.is_complex)


def conjugate(tensor: Tensor, wanted: bool) -> Tensor:
    """The conjugate if that is wanted, else the tensor."""
    return conj(tensor) if wanted else tensor


def total(terms: Iterable[Tensor]) -> Tensor:
    """The sum of tensors that broadcast."""
    return functools.reduce(add, terms)


def merged(a: int | None, b: int | None) -> int | None:
    """The known one of two sizes that are equal."""
    return b if a is None else a


def leading(shape: TensorShape, count: int) -> TensorShape:
    """All but the last `count` axes, unknown while the rank is."""
    return UNKNOWN if shape.sizes is None else TensorShape(shape.sizes[: len(shape.sizes) - count])


def complex_of(dtype: DType) -> DType:
    """The dtype of complex numbers that holds numbers of that dtype for Fourier transforms."""
    return complex128 if dtype in (float64, complex128) else complex64


def multiplied(terms: Iterable[Tensor]) -> Tensor:
    """The product of tensors that broadcast."""
    return functools.reduce(multiply, terms)
