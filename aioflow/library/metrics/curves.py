"""Areas and points of curves of rates at thresholds, as metrics with the names of Keras."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import zeros_like
from aioflow.kernels.array.select import where
from aioflow.kernels.math.arithmetic import maximum, minimum
from aioflow.kernels.math.comparison import greater_equal
from aioflow.kernels.math.elementwise import sigmoid
from aioflow.kernels.math.reduction import reduce_max, reduce_sum
from aioflow.library.metrics.accuracies import beside_last
from aioflow.library.metrics.areas import auc
from aioflow.library.metrics.metric import Metric, flat
from aioflow.library.metrics.state import Pair, metric, ratio
from aioflow.library.metrics.thresholds import EPSILON, evenly_spaced, sums_at

_HEIGHTS: Final[Mapping[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "interpolation": lambda left, right: (left + right) / 2.0, "minoring": minimum, "majoring": maximum,
}  # fmt: skip
"""The mean height of a curve between two thresholds."""
_KINDS: Final = "true_positives", "false_negatives", "true_negatives", "false_positives"


class AUC(Metric):
    """The area under the curve of recall over the rate of false positives, or of precision over recall.

    Args:
        num_thresholds: the number of points of the curve, at evenly spaced thresholds.
        curve: "ROC" or "PR".
        summation_method: "interpolation", "minoring" for the lower end of each part, or "majoring" for the higher one.
        name: its name.
        thresholds: the thresholds between 0 and 1, in place of `num_thresholds`.
        from_logits: whether predictions are logits; else probabilities.

    Examples:
        >>> value, update = af.metrics.AUC()([1, 0, 1, 0], [0.9, 0.1, 0.8, 0.3])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.0)
    """

    def __init__(
        self, num_thresholds: int = 200, curve: str = "ROC", summation_method: str = "interpolation",
        name: str | None = None, thresholds: Sequence[float] | None = None, from_logits: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(name)
        if curve not in ("ROC", "PR"):
            raise ValueError(f"curve is 'ROC' or 'PR', not {curve!r}")
        if summation_method not in _HEIGHTS:
            raise ValueError(f"summation_method is 'interpolation', 'minoring' or 'majoring', not {summation_method!r}")
        inner = evenly_spaced(num_thresholds)[1:-1] if thresholds is None else sorted(thresholds)
        self._thresholds: Final = [-EPSILON, *inner, 1 + EPSILON]
        self._curve: Final = curve
        self._method: Final = summation_method
        self._from_logits: Final = from_logits

    def measure(self, labels: Tensor, predictions: Tensor, weights: Tensor | None) -> Pair:
        """The area, and its update."""
        guess = sigmoid(predictions) if self._from_logits else predictions
        vectors = flat(beside_last(labels, guess), guess, weights)
        if self._curve == "PR" and self._method == "interpolation":
            return auc(
                *vectors, curve="PR", summation_method="careful_interpolation", thresholds=self._thresholds[1:-1]
            )
        return metric(self._area, sums_at(self._thresholds, _KINDS, *vectors), None, None)

    def _area(self, tp: Tensor, fn: Tensor, tn: Tensor, fp: Tensor, name: str) -> Tensor:
        """The sum of the parts between two thresholds."""
        recall = _share(tp, fn)
        x, y = (_share(fp, tn), recall) if self._curve == "ROC" else (recall, _share(tp, fp))
        return reduce_sum((x[:-1] - x[1:]) * _HEIGHTS[self._method](y[:-1], y[1:]), name=name)


class _Best(Metric):
    """The greatest of one rate among thresholds where another one is at least a given one."""

    def __init__(
        self, least: float, num_thresholds: int = 200, class_id: int | None = None, name: str | None = None
    ) -> None:
        super().__init__(name)
        if not 0 <= least <= 1:
            raise ValueError(f"a rate lies between 0 and 1, not at {least}")
        if num_thresholds < 1:
            raise ValueError(f"num_thresholds is at least 1, not {num_thresholds}")
        self._least: Final = least
        self._thresholds: Final = [0.5] if num_thresholds == 1 else evenly_spaced(num_thresholds, 0.0, 1.0)
        self._class_id: Final = class_id

    def rates(self, tp: Tensor, fn: Tensor, tn: Tensor, fp: Tensor) -> tuple[Tensor, Tensor]:
        """The rate that is wanted and the one that is bounded, at each threshold."""
        raise NotImplementedError

    def measure(self, labels: Tensor, predictions: Tensor, weights: Tensor | None) -> Pair:
        """The rate, and its update."""
        labels = beside_last(labels, predictions)
        if self._class_id is not None:
            labels, predictions = labels[..., self._class_id], predictions[..., self._class_id]
        sums = sums_at(self._thresholds, _KINDS, *flat(labels, predictions, weights))

        def best(tp: Tensor, fn: Tensor, tn: Tensor, fp: Tensor, name: str) -> Tensor:
            wanted, bounded = self.rates(tp, fn, tn, fp)
            return reduce_max(where(greater_equal(bounded, self._least), wanted, zeros_like(wanted)), name=name)

        return metric(best, sums, None, None)


class SensitivityAtSpecificity(_Best):
    """The greatest sensitivity among thresholds whose specificity is at least the given one.

    It is 0 if there is no such threshold.

    Args:
        specificity: from 0 to 1.
        num_thresholds: the number of evenly spaced thresholds.
        class_id: only this class counts.
        name: its name.

    Examples:
        >>> value, update = af.metrics.SensitivityAtSpecificity(0.5)([1, 0, 1, 0], [0.9, 0.1, 0.8, 0.3])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.0)
    """

    def __init__(
        self, specificity: float, num_thresholds: int = 200, class_id: int | None = None, name: str | None = None
    ) -> None:
        super().__init__(specificity, num_thresholds, class_id, name)

    def rates(self, tp: Tensor, fn: Tensor, tn: Tensor, fp: Tensor) -> tuple[Tensor, Tensor]:
        """Both rates."""
        return _share(tp, fn), _share(tn, fp)


class SpecificityAtSensitivity(_Best):
    """The greatest specificity among thresholds whose sensitivity is at least the given one.

    It is 0 if there is no such threshold.

    Args:
        sensitivity: from 0 to 1.
        num_thresholds: the number of evenly spaced thresholds.
        class_id: only this class counts.
        name: its name.

    Examples:
        >>> value, update = af.metrics.SpecificityAtSensitivity(0.5)([1, 0, 1, 0], [0.9, 0.1, 0.8, 0.3])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.0)
    """

    def __init__(
        self, sensitivity: float, num_thresholds: int = 200, class_id: int | None = None, name: str | None = None
    ) -> None:
        super().__init__(sensitivity, num_thresholds, class_id, name)

    def rates(self, tp: Tensor, fn: Tensor, tn: Tensor, fp: Tensor) -> tuple[Tensor, Tensor]:
        """Both rates."""
        return _share(tn, fp), _share(tp, fn)


class PrecisionAtRecall(_Best):
    """The greatest precision among thresholds whose recall is at least the given one.

    It is 0 if there is no such threshold.

    Args:
        recall: from 0 to 1.
        num_thresholds: the number of evenly spaced thresholds.
        class_id: only this class counts.
        name: its name.

    Examples:
        >>> value, update = af.metrics.PrecisionAtRecall(0.5)([1, 0, 1, 0], [0.9, 0.1, 0.8, 0.3])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.0)
    """

    def __init__(
        self, recall: float, num_thresholds: int = 200, class_id: int | None = None, name: str | None = None
    ) -> None:
        super().__init__(recall, num_thresholds, class_id, name)

    def rates(self, tp: Tensor, fn: Tensor, tn: Tensor, fp: Tensor) -> tuple[Tensor, Tensor]:
        """Both rates."""
        return _share(tp, fp), _share(tp, fn)


class RecallAtPrecision(_Best):
    """The greatest recall among thresholds whose precision is at least the given one.

    It is 0 if there is no such threshold.

    Args:
        precision: from 0 to 1.
        num_thresholds: the number of evenly spaced thresholds.
        class_id: only this class counts.
        name: its name.

    Examples:
        >>> value, update = af.metrics.RecallAtPrecision(0.5)([1, 0, 1, 0], [0.9, 0.1, 0.8, 0.3])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.0)
    """

    def __init__(
        self, precision: float, num_thresholds: int = 200, class_id: int | None = None, name: str | None = None
    ) -> None:
        super().__init__(precision, num_thresholds, class_id, name)

    def rates(self, tp: Tensor, fn: Tensor, tn: Tensor, fp: Tensor) -> tuple[Tensor, Tensor]:
        """Both rates."""
        return _share(tp, fn), _share(tp, fp)


def _share(part: Tensor, rest: Tensor) -> Tensor:
    return ratio(part, part + rest)
