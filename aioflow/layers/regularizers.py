"""Regularizers: functions of a weight whose result is added to the loss."""

from collections.abc import Callable
from typing import Any, Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.math.elementwise import abs as absolute
from aioflow.kernels.math.elementwise import square
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.lazy import Face

Regularizer = Callable[[Any], Tensor]
"""(weight) -> a scalar."""


class L1L2:
    """The sum of `l1` times the absolute values and `l2` times the squares of a weight."""

    def __init__(self, l1: float = 0.0, l2: float = 0.0) -> None:
        """ValueError for a negative factor."""
        if l1 < 0 or l2 < 0:
            raise ValueError(f"the factors of a regularizer cannot be negative: l1={l1}, l2={l2}")
        self.l1: Final = l1
        self.l2: Final = l2

    def __call__(self, weight: Any) -> Tensor:
        """The penalty of a weight."""
        penalty: Tensor = reduce_sum(square(weight)) * self.l2
        return penalty + reduce_sum(absolute(weight)) * self.l1 if self.l1 else penalty


def l1(l1: float = 0.01) -> L1L2:
    """The sum of the absolute values of a weight, times `l1`."""
    return L1L2(l1=l1)


def l2(l2: float = 0.01) -> L1L2:
    """The sum of the squares of a weight, times `l2`."""
    return L1L2(l2=l2)


def l1_l2(l1: float = 0.01, l2: float = 0.01) -> L1L2:
    """The sum of both penalties of a weight."""
    return L1L2(l1, l2)


__all__ = ["L1L2", "l1", "l1_l2", "l2"]
Face(__name__, {__name__: " ".join(__all__)})
