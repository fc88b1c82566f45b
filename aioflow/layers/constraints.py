"""Constraints: functions of a weight that an optimizer applies after each update."""

from typing import Any, Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.math.arithmetic import maximum
from aioflow.kernels.math.broadcasting import Axis
from aioflow.kernels.math.elementwise import sqrt, square
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.kernels.math.rounding import clip_by_value
from aioflow.lazy import Face

_SMALL: Final = 1e-7
"""Keeps a norm of 0 out of divisions."""


class NonNeg:
    """Negative numbers become 0."""

    def __call__(self, weight: Any) -> Tensor:
        """The weight after the constraint."""
        return maximum(weight, 0.0)


class MaxNorm:
    """Norms along `axis` are at most `max_value`: larger ones are scaled down."""

    def __init__(self, max_value: float = 2.0, axis: Axis = 0) -> None:
        self.max_value: Final = max_value
        self.axis: Final = axis

    def __call__(self, weight: Any) -> Tensor:
        """The weight after the constraint."""
        norms = _norms(weight, self.axis)
        clipped: Tensor = weight * (clip_by_value(norms, 0.0, self.max_value) / (norms + _SMALL))
        return clipped


class UnitNorm:
    """Norms along `axis` are 1."""

    def __init__(self, axis: Axis = 0) -> None:
        self.axis: Final = axis

    def __call__(self, weight: Any) -> Tensor:
        """The weight after the constraint."""
        normal: Tensor = weight / (_norms(weight, self.axis) + _SMALL)
        return normal


def _norms(weight: Any, axis: Axis) -> Tensor:
    return sqrt(reduce_sum(square(weight), axis, keepdims=True))


__all__ = ["MaxNorm", "NonNeg", "UnitNorm"]
Face(__name__, {__name__: " ".join(__all__)})
