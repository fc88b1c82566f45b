"""What TensorFlow 1.x has beside its ops on arrays: older names, and functions that compose a few ops."""

from typing import Any, Final

from aioflow import dtypes
from aioflow.convert import TensorLike, convert_to_tensor
from aioflow.dtypes import INTEGER, Spec
from aioflow.graph import transactional
from aioflow.kernels.argmax import argmax, argmin
from aioflow.kernels.arithmetic import maximum
from aioflow.kernels.arrays import reverse
from aioflow.kernels.casting import cast
from aioflow.kernels.counting import linspace, range
from aioflow.kernels.gathering import gather
from aioflow.kernels.masking import sequence_mask
from aioflow.kernels.select import select, where
from aioflow.kernels.shapes import broadcast_to, reshape, shape
from aioflow.node import Tensor

newaxis: Final = None
"""In an index, an axis of size 1 is put there: `x[:, af.newaxis]`."""

lin_space = linspace
reverse_v2 = reverse


def arg_max(input: TensorLike, dimension: int, output_type: Any = dtypes.int64, name: str | None = None) -> Tensor:
    """The index of the greatest element along an axis, the first of several; an older name of `argmax`."""
    return argmax(input, dimension, output_type=output_type, name=name)


def arg_min(input: TensorLike, dimension: int, output_type: Any = dtypes.int64, name: str | None = None) -> Tensor:
    """The index of the smallest element along an axis, the first of several; an older name of `argmin`."""
    return argmin(input, dimension, output_type=output_type, name=name)


def to_complex64(x: TensorLike, name: str | None = "ToComplex64") -> Tensor:
    """`x` as complex64."""
    return cast(x, dtypes.complex64, name)


def to_complex128(x: TensorLike, name: str | None = "ToComplex128") -> Tensor:
    """`x` as complex128."""
    return cast(x, dtypes.complex128, name)


@transactional
def where_v2(
    condition: TensorLike, x: TensorLike | None = None, y: TensorLike | None = None, name: str | None = None
) -> Tensor:
    """As `where`, but by NumPy's rule of broadcasting alone: a condition of rank 1 does not choose rows.

    Raises:
        ValueError: only one of x and y is given, or the shapes do not fit.
    """
    if x is None or y is None:
        return where(condition, x, y, name=name)
    return select(condition, x, y, name=name)


@transactional
def repeat(input: TensorLike, repeats: TensorLike, axis: int | None = None, name: str | None = None) -> Tensor:
    """Each part of `input` along an axis as often as `repeats` says, one beside the other.

    Args:
        input: a tensor of any dtype.
        repeats: an integer for all parts, or a vector of one for each.
        axis: None stands for the axis of `input` made flat.
        name: the name of the operation.

    Raises:
        ValueError: `repeats` has rank 2 or more, or is as long as something else than the axis.
    """
    value, times = convert_to_tensor(input), convert_to_tensor(repeats, preferred_dtype=dtypes.int32)
    Spec(times.dtype).only(INTEGER)
    if times.spec.rank not in (0, 1):
        raise ValueError(f"repeats must be known to be a scalar or a vector, its shape is {times.shape}")
    if axis is None:
        value, axis = reshape(value, [-1]), 0
    axis = value.spec.axis(axis)
    count = shape(value, out_type=times.dtype)[axis]
    return gather(value, _repeated(count, times), axis=axis, name=name or "repeat")


def _repeated(count: Tensor, times: Tensor) -> Tensor:
    """The numbers below `count`, each as often as `times` says."""
    if times.spec.rank == 0 or times.shape == [1]:
        each = reshape(times, [])
        return range(count * each) // maximum(each, 1)
    return where(sequence_mask(broadcast_to(times, reshape(count, [1]))))[:, 0]


__all__ = [
    "arg_max", "arg_min", "lin_space", "newaxis", "repeat", "reverse_v2", "to_complex64", "to_complex128", "where_v2",
]  # fmt: skip
