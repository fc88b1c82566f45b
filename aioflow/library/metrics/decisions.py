"""Counts and rates of decisions, predictions above thresholds, as metrics with the names of Keras."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant, fill
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import expand_dims, shape
from aioflow.kernels.array.sorting import top_k
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import greater, greater_equal
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.library.metrics.accuracies import beside_last
from aioflow.library.metrics.counts import KINDS
from aioflow.library.metrics.metric import Metric, flat
from aioflow.library.metrics.state import Pair, metric, ratio, sum_up
from aioflow.tensors.dtypes import bool_, float32
from aioflow.tensors.recursion import safe_repr

Thresholds = float | Sequence[float] | None
_LEAST: Final = -1e10
"""A prediction below all others, for those that are not among the best."""


class Decisions(Metric):
    """A metric of weighted counts of right and wrong decisions. A subclass names the kinds, and computes its value.

    Args:
        thresholds: predictions above it are positive; for a list the value has an element for each.
        name: its name.
    """

    kinds: ClassVar[Sequence[str]] = ()

    def __init__(self, thresholds: Thresholds = None, name: str | None = None) -> None:
        super().__init__(name)
        self._thresholds = _checked(thresholds, 0.5)

    def value(self, *counts: Tensor, name: str) -> Tensor:
        """The metric for the counts of each kind."""
        raise NotImplementedError

    def measure(self, labels: Tensor, predictions: Tensor, weights: Tensor | None) -> Pair:
        """The value, and its update."""
        truth, guess, each = flat(cast(beside_last(labels, predictions), bool_), predictions, weights)
        several = not isinstance(self._thresholds, float)
        if several:
            at = expand_dims(constant(self._thresholds, guess.dtype), 1)
            above = greater(expand_dims(guess, 0), at)
        else:
            above = greater(guess, self._thresholds)
        sums = [sum_up(reduce_sum(cast(KINDS[kind](truth, above), float32) * each, -1), kind) for kind in self.kinds]
        return metric(self.value, sums, None, None)


class _Count(Decisions):
    """The sum of the weights of one kind of predictions."""

    def value(self, *counts: Tensor, name: str) -> Tensor:
        """The sum."""
        return counts[0]


class TruePositives(_Count):
    """The sum of the weights of positive predictions whose labels are true.

    Args:
        thresholds: predictions above it are positive, 0.5 by default; for a list the value has an element for each.
        name: its name.

    Examples:
        >>> value, update = af.metrics.TruePositives()([1, 0, 1], [0.9, 0.8, 0.1])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.0)
    """

    kinds: ClassVar[Sequence[str]] = ("true_positives",)


class FalsePositives(_Count):
    """The sum of the weights of positive predictions whose labels are false.

    Args:
        thresholds: predictions above it are positive, 0.5 by default; for a list the value has an element for each.
        name: its name.

    Examples:
        >>> value, update = af.metrics.FalsePositives()([1, 0, 1], [0.9, 0.8, 0.1])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.0)
    """

    kinds: ClassVar[Sequence[str]] = ("false_positives",)


class TrueNegatives(_Count):
    """The sum of the weights of negative predictions whose labels are false.

    Args:
        thresholds: predictions above it are positive, 0.5 by default; for a list the value has an element for each.
        name: its name.

    Examples:
        >>> value, update = af.metrics.TrueNegatives()([1, 0, 1], [0.9, 0.8, 0.1])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.0)
    """

    kinds: ClassVar[Sequence[str]] = ("true_negatives",)


class FalseNegatives(_Count):
    """The sum of the weights of negative predictions whose labels are true.

    Args:
        thresholds: predictions above it are positive, 0.5 by default; for a list the value has an element for each.
        name: its name.

    Examples:
        >>> value, update = af.metrics.FalseNegatives()([1, 0, 1], [0.9, 0.8, 0.1])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.0)
    """

    kinds: ClassVar[Sequence[str]] = ("false_negatives",)


class _Rate(Decisions):
    """The share of true positives, among the best predictions or for one class, if that is wanted."""

    def __init__(
        self, thresholds: Thresholds = None, top_k: int | None = None, class_id: int | None = None,
        name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(thresholds, name)
        if thresholds is None and top_k is not None:
            self._thresholds = _LEAST
        self._top_k: Final = top_k
        self._class_id: Final = class_id

    def measure(self, labels: Tensor, predictions: Tensor, weights: Tensor | None) -> Pair:
        """The value, and its update."""
        labels = beside_last(labels, predictions)
        if self._top_k is not None:
            best = expand_dims(top_k(predictions, self._top_k).values[..., -1], -1)
            predictions = where(greater_equal(predictions, best), predictions, fill(shape(predictions), _LEAST))
        if self._class_id is not None:
            labels, predictions = labels[..., self._class_id], predictions[..., self._class_id]
        return super().measure(labels, predictions, weights)

    def value(self, *counts: Tensor, name: str) -> Tensor:
        """The share of the first kind, 0 if there is none of both."""
        return ratio(counts[0], counts[0] + counts[1], name=name)


class Precision(_Rate):
    """The share of true labels among positive predictions.

    Args:
        thresholds: predictions above it are positive, 0.5 by default; for a list the value has an element for each.
        top_k: only as many of the greatest predictions of each element count as positive; no threshold by default then.
        class_id: only this class counts.
        name: its name.

    Examples:
        >>> value, update = af.metrics.Precision()([1, 0, 1, 1], [0.9, 0.8, 0.1, 0.7])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.6666667)
    """

    kinds: ClassVar[Sequence[str]] = ("true_positives", "false_positives")


class Recall(_Rate):
    """The share of positive predictions among true labels.

    Args:
        thresholds: predictions above it are positive, 0.5 by default; for a list the value has an element for each.
        top_k: only as many of the greatest predictions of each element count as positive; no threshold by default then.
        class_id: only this class counts.
        name: its name.

    Examples:
        >>> value, update = af.metrics.Recall()([1, 0, 1, 1], [0.9, 0.8, 0.1, 0.7])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.6666667)
    """

    kinds: ClassVar[Sequence[str]] = ("true_positives", "false_negatives")


def _checked(thresholds: Thresholds, default: float) -> float | list[float]:
    """The thresholds. ValueError outside of the range from 0 to 1."""
    if thresholds is None:
        return default
    is_list = isinstance(thresholds, (list, tuple))
    several: list[Any] = [*thresholds] if isinstance(thresholds, (list, tuple)) else [thresholds]
    if not several or not all(isinstance(each, (int, float)) and 0 <= each <= 1 for each in several):
        raise ValueError(f"thresholds lie between 0 and 1, not {safe_repr(thresholds)}")
    return [float(each) for each in several] if is_list else float(several[0])
