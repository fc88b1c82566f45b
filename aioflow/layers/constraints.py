"""Constraints: functions of a weight that an optimizer applies after each update."""

from collections.abc import Sequence
from typing import Any, Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.math.arithmetic import maximum
from aioflow.kernels.math.elementwise import sqrt, square
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.kernels.math.rounding import clip_by_value
from aioflow.layers.numbers import at_least, axes, fraction
from aioflow.lazy import Face

_SMALL: Final = 1e-7
"""Keeps a norm of 0 out of divisions."""


class NonNeg:
    """Negative numbers become 0.

    Examples:
        >>> await session.run(af.constraints.NonNeg()(af.constant([-1.0, 2.0])))
        array([0., 2.], dtype=float32)
    """

    def __call__(self, weight: Any) -> Tensor:
        """The weight after the constraint."""
        return maximum(weight, 0.0)


class MaxNorm:
    """Norms along `axis` are at most `max_value`: larger ones are scaled down.

    Examples:
        >>> await session.run(af.constraints.MaxNorm(1.0)(af.constant([[3.0], [4.0]])))
        array([[0.6],
               [0.8]], dtype=float32)
    """

    def __init__(self, max_value: float = 2.0, axis: int | Sequence[int] = 0) -> None:
        """ValueError for a norm below 0."""
        self.max_value: Final = at_least("max_value", max_value, 0)
        self.axis: Final = axes("axis", axis)

    def __call__(self, weight: Any) -> Tensor:
        """The weight after the constraint."""
        norms = _norms(weight, self.axis)
        clipped: Tensor = weight * (clip_by_value(norms, 0.0, self.max_value) / (norms + _SMALL))
        return clipped


class MinMaxNorm:
    """Norms along `axis` lie between `min_value` and `max_value`, or are nearer to that by the part `rate`.

    Examples:
        >>> norm = af.constraints.MinMaxNorm(min_value=1.0, max_value=2.0)
        >>> await session.run(norm(af.constant([[3.0], [4.0]])))
        array([[1.2],
               [1.6]], dtype=float32)
    """

    def __init__(
        self, min_value: float = 0.0, max_value: float = 1.0, rate: float = 1.0, axis: int | Sequence[int] = 0
    ) -> None:
        """ValueError for a norm below 0, or a rate outside of [0, 1]."""
        self.min_value: Final = at_least("min_value", min_value, 0)
        self.max_value: Final = at_least("max_value", max_value, self.min_value)
        self.rate: Final = fraction("rate", rate)
        self.axis: Final = axes("axis", axis)

    def __call__(self, weight: Any) -> Tensor:
        """The weight after the constraint."""
        norms = _norms(weight, self.axis)
        wanted = clip_by_value(norms, self.min_value, self.max_value) * self.rate + norms * (1 - self.rate)
        scaled: Tensor = weight * (wanted / (norms + _SMALL))
        return scaled


class UnitNorm:
    """Norms along `axis` are 1.

    Examples:
        >>> await session.run(af.constraints.UnitNorm()(af.constant([[3.0], [4.0]])))
        array([[0.6],
               [0.8]], dtype=float32)
    """

    def __init__(self, axis: int | Sequence[int] = 0) -> None:
        self.axis: Final = axes("axis", axis)

    def __call__(self, weight: Any) -> Tensor:
        """The weight after the constraint."""
        normal: Tensor = weight / (_norms(weight, self.axis) + _SMALL)
        return normal


def _norms(weight: Any, axis: Sequence[int]) -> Tensor:
    return sqrt(reduce_sum(square(weight), axis, keepdims=True))


__all__ = ["MaxNorm", "MinMaxNorm", "NonNeg", "UnitNorm"]
Face(__name__, {__name__: " ".join(__all__)})
