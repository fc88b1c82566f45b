"""Regularizers: functions of a weight whose result is added to the loss."""

from collections.abc import Callable
from typing import Any, Final, Literal

import numpy as np

from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.math.elementwise import abs as absolute
from aioflow.kernels.math.elementwise import square
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.layers.numbers import at_least
from aioflow.lazy import Face
from aioflow.library.nn_functions import l2_normalize
from aioflow.tensors.recursion import safe_repr

Regularizer = Callable[[Any], Tensor]
"""(weight) -> a scalar."""


class L1L2:
    """The sum of `l1` times the absolute values and `l2` times the squares of a weight.

    Examples:
        >>> await session.run(af.regularizers.L1L2(l2=0.1)(af.constant([1.0, 2.0])))
        np.float32(0.5)
    """

    def __init__(self, l1: float = 0.0, l2: float = 0.0) -> None:
        """TypeError for a factor that is no number, ValueError for a negative one."""
        self.l1: Final = at_least("l1", l1, 0)
        self.l2: Final = at_least("l2", l2, 0)

    def __call__(self, weight: Any) -> Tensor:
        """The penalty of a weight."""
        penalty: Tensor = reduce_sum(square(weight)) * self.l2
        return penalty + reduce_sum(absolute(weight)) * self.l1 if self.l1 else penalty


class OrthogonalRegularizer:
    """`factor` times the mean magnitude of the products of two different rows, or columns, scaled to length 1.

    Examples:
        >>> penalty = af.regularizers.OrthogonalRegularizer(factor=0.1)
        >>> await session.run(penalty(af.constant([[1.0, 0.0], [0.0, 1.0]])))
        np.float32(0.0)
    """

    def __init__(self, factor: float = 0.01, mode: Literal["rows", "columns"] = "rows") -> None:
        """ValueError for a negative factor or an unknown mode."""
        self.factor: Final = at_least("factor", factor, 0)
        self.mode: Final = mode
        if mode not in ("rows", "columns"):
            raise ValueError(f"mode is 'rows' or 'columns', not {safe_repr(mode)}")

    def __call__(self, weight: Any) -> Tensor:
        """The penalty of a weight. ValueError unless it has two axes of known sizes."""
        given = convert_to_tensor(weight)
        count = (given.shape.as_list() or [None])[0 if self.mode == "rows" else -1]
        if given.shape.ndims != 2 or count is None:
            raise ValueError(f"an orthogonal regularizer is for matrices, not for a weight of shape {given.shape}")
        rows = l2_normalize(given if self.mode == "rows" else transpose(given), 1)
        others = reduce_sum(absolute(matmul(rows, rows, transpose_b=True)) * (1.0 - np.eye(count, dtype=rows.dtype.np)))
        penalty: Tensor = others * (self.factor / max(count * (count - 1), 1))
        return penalty


def l1(l1: float = 0.01) -> L1L2:
    """The sum of the absolute values of a weight, times `l1`.

    Examples:
        >>> await session.run(af.regularizers.l1(0.1)(af.constant([1.0, -2.0])))
        np.float32(0.3)
    """
    return L1L2(l1=l1)


def l2(l2: float = 0.01) -> L1L2:
    """The sum of the squares of a weight, times `l2`.

    Examples:
        >>> await session.run(af.regularizers.l2(0.1)(af.constant([1.0, 2.0])))
        np.float32(0.5)
    """
    return L1L2(l2=l2)


def l1_l2(l1: float = 0.01, l2: float = 0.01) -> L1L2:
    """The sum of both penalties of a weight.

    Examples:
        >>> await session.run(af.regularizers.l1_l2(0.1, 0.1)(af.constant([1.0, -2.0])))
        np.float32(0.8)
    """
    return L1L2(l1, l2)


__all__ = ["L1L2", "OrthogonalRegularizer", "l1", "l1_l2", "l2"]
Face(__name__, {__name__: " ".join(__all__)})
