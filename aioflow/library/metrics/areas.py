"""The area under a curve of rates at thresholds."""

from collections.abc import Callable, Sequence
from typing import Final

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import ones_like
from aioflow.kernels.array.select import where
from aioflow.kernels.math.arithmetic import divide, maximum, minimum
from aioflow.kernels.math.comparison import greater, logical_and
from aioflow.kernels.math.elementwise import log
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.library.control import name_scope
from aioflow.library.metrics.state import Collections, Pair, metric, ratio
from aioflow.library.metrics.thresholds import EPSILON, evenly_spaced, sums_at

_HEIGHTS: Final[dict[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "trapezoidal": lambda left, right: (left + right) / 2,
    "careful_interpolation": lambda left, right: (left + right) / 2,
    "minoring": minimum,
    "majoring": maximum,
}
"""The mean height of a curve between two thresholds."""
_KINDS: Final = "true_positives", "false_negatives", "true_negatives", "false_positives"
_SMALL: Final = 1e-6
"""Is added to counts, as TensorFlow adds it: the area without predictions is 0 under ROC, 1 under PR."""


@transactional
def auc(
    labels: NumberLike,
    predictions: NumberLike,
    weights: NumberLike | None = None,
    num_thresholds: int = 200,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    curve: str = "ROC",
    name: str | None = None,
    summation_method: str = "trapezoidal",
    thresholds: Sequence[float] | None = None,
) -> Pair:
    """Return the area under the curve of recall over the rate of false positives, or of precision over recall.

    The state is four local variables of weighted counts at each threshold: `true_positives`, `false_negatives`,
    `true_negatives` and `false_positives`.

    Args:
        labels: the true values, cast to bools.
        predictions: probabilities, of the shape of `labels`.
        weights: the weight of each prediction, 1 if None: a scalar, or a tensor of the rank of `labels` whose size in
            each axis is 1 or that of the labels.
        num_thresholds: the number of points of the curve, at evenly spaced thresholds.
        metrics_collections: the collections that the value joins.
        updates_collections: the collections that the update joins.
        curve: "ROC" or "PR".
        name: the name of the scope of its operations and variables.
        summation_method: the height between two points: "trapezoidal", their mean; "minoring", the lower one;
            "majoring", the higher one; "careful_interpolation", the curve through both for PR [Davis 2006], where the
            mean is too high.
        thresholds: the thresholds between 0 and 1, instead of `num_thresholds`.

    Returns:
        The value over all batches so far, and an operation that adds the batch and returns the new value.

    Raises:
        ValueError: the shapes do not fit, or there is no such curve or method.
        InvalidArgumentError: in the run, for a prediction that is not in the range from 0 to 1, or if the weights do
            not fit the predictions.

    Examples:
        >>> value, update = af.metrics.auc(labels=[1, 0, 1, 0], predictions=[0.9, 0.1, 0.8, 0.3])
        >>> await session.run(af.local_variables_initializer())
        >>> round(float(await session.run(update)), 3)
        1.0
    """
    if curve not in ("ROC", "PR"):
        raise ValueError(f"curve is 'ROC' or 'PR', not {curve!r}")
    if summation_method not in _HEIGHTS:
        raise ValueError(f"summation_method is one of {', '.join(_HEIGHTS)}, not {summation_method!r}")
    chosen = evenly_spaced(num_thresholds) if thresholds is None else [-EPSILON, *sorted(thresholds), 1 + EPSILON]

    def area(tp: Tensor, fn: Tensor, tn: Tensor, fp: Tensor, name: str) -> Tensor:
        if curve == "PR" and summation_method == "careful_interpolation":
            return _interpolated(tp, fn, fp, name)
        x, y = _roc(tp, fn, tn, fp) if curve == "ROC" else _pr(tp, fn, fp)
        return reduce_sum((x[:-1] - x[1:]) * _HEIGHTS[summation_method](y[:-1], y[1:]), name=name)

    with name_scope(name, "auc", [labels, predictions, weights]):
        sums = sums_at(chosen, _KINDS, labels, predictions, weights)
        return metric(area, sums, metrics_collections, updates_collections)


def _roc(tp: Tensor, fn: Tensor, tn: Tensor, fp: Tensor) -> tuple[Tensor, Tensor]:
    return divide(fp, fp + tn + _SMALL), divide(tp + _SMALL, tp + fn + _SMALL)


def _pr(tp: Tensor, fn: Tensor, fp: Tensor) -> tuple[Tensor, Tensor]:
    return divide(tp + _SMALL, tp + fn + _SMALL), divide(tp + _SMALL, tp + fp + _SMALL)


def _interpolated(tp: Tensor, fn: Tensor, fp: Tensor, name: str) -> Tensor:
    """Return the area under precision over recall, where true positives grow linearly with the positives in between.

    Between two thresholds tp = slope * p + intercept for p positives. The integral of precision, tp / p, over tp is
    slope * (the growth of tp + intercept * log(the ratio of the p)).
    """
    positives = tp + fp
    growth = tp[:-1] - tp[1:]
    slope = ratio(growth, positives[:-1] - positives[1:])
    intercept = tp[1:] - slope * positives[1:]
    some = logical_and(greater(positives[:-1], 0), greater(positives[1:], 0))
    quotient = where(some, ratio(positives[:-1], positives[1:]), ones_like(slope))
    return reduce_sum(ratio(slope * (growth + intercept * log(quotient)), tp[1:] + fn[1:]), name=name)
