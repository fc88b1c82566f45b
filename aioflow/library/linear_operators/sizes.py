"""Sizes that describe operators without elements: numbers of rows, and shapes of batches."""

from typing import Any, NamedTuple

import numpy as np

from aioflow.graph.convert import NumberLike, constant_value, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat, stack
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.control.assertions import assert_equal
from aioflow.kernels.math.casting import cast
from aioflow.library.control import with_dependencies
from aioflow.tensors.dtypes import int32
from aioflow.tensors.shape import TensorShape


class Size(NamedTuple):
    """A number of rows or columns: as a tensor, and as a number if it is known."""

    tensor: Tensor
    known: int | None


class Batch(NamedTuple):
    """The shape of a batch: as a vector, and as far as it is known."""

    tensor: Tensor
    known: TensorShape


def a_size(value: NumberLike, what: str) -> Size:
    """A number of rows or columns.

    Raises:
        TypeError: it is no integer.
        ValueError: it is not a scalar, or negative.
    """
    tensor = _integers(value, what)
    if tensor.shape.ndims not in (0, None):
        raise ValueError(f"{what} is one number, its shape is {tensor.shape}")
    known = constant_value(tensor)
    _check_signs(known, what)
    return Size(cast(tensor, int32), None if known is None else int(known))


def a_batch(value: NumberLike | None, what: str) -> Batch:
    """The shape of a batch; none for None.

    Raises:
        TypeError: it has other elements than integers.
        ValueError: it is not a vector, or an element is negative.
    """
    if value is None:
        return Batch(constant([], int32, [0]), TensorShape([]))
    tensor = _integers(value, what)
    if tensor.shape.ndims not in (1, None):
        raise ValueError(f"{what} is a vector, its shape is {tensor.shape}")
    known = constant_value(tensor)
    _check_signs(known, what)
    count = tensor.shape[0].value
    open_shape = TensorShape(None if count is None else [None] * count)
    return Batch(cast(tensor, int32), open_shape if known is None else TensorShape(known.tolist()))


def _integers(value: NumberLike, what: str) -> Tensor:
    empty = isinstance(value, (list, tuple, np.ndarray)) and not len(value)
    tensor = convert_to_tensor(value, int32 if empty else None, name=what)
    if not tensor.dtype.is_integer:
        raise TypeError(f"{what} consists of integers, not of {tensor.dtype.name}")
    return tensor


def _check_signs(known: Any, what: str) -> None:
    if known is not None and np.any(known < 0):
        raise ValueError(f"{what} is not negative, but is {known.tolist()}")


def matrix_sizes(batch: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The vector [*batch, rows, columns]."""
    return concat([batch, stack([rows, columns])], 0)


def with_rows(x: Tensor, rows: Size) -> Tensor:
    """`x`; a run in which its matrices have another number of rows fails with InvalidArgumentError."""
    if rows.known is not None and x.shape.ndims is not None and x.shape[-2].value is not None:
        return x
    found: Tensor = with_dependencies(
        [assert_equal(shape(x)[-2], rows.tensor, message="the rows of a matrix do not fit an operator")], x
    )
    return found
