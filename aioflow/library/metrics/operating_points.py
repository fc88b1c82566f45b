"""One rate at the threshold where another rate is nearest to a wanted one."""

from typing import Final

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import reverse
from aioflow.kernels.array.gather import gather
from aioflow.kernels.math.elementwise import abs as absolute
from aioflow.kernels.math.reduction import argmin
from aioflow.library.control import name_scope
from aioflow.library.metrics.state import Collections, Pair, metric
from aioflow.library.metrics.thresholds import EPSILON, evenly_spaced, rate, sums_at

_KINDS: Final = "true_positives", "false_negatives", "true_negatives", "false_positives"


@transactional
def sensitivity_at_specificity(
    labels: NumberLike,
    predictions: NumberLike,
    specificity: float,
    weights: NumberLike | None = None,
    num_thresholds: int = 200,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return the sensitivity at the lowest threshold whose specificity is nearest to the given one: a float32.

    The sensitivity is the weighted share of positive predictions among true labels, the specificity that of negative
    predictions among false labels; each is 0 without such labels. The state is four local variables of weighted
    counts at each threshold.

    Args:
        labels: the true values, cast to bools.
        predictions: probabilities, of the shape of `labels`.
        specificity: from 0 to 1.
        weights: the weight of each prediction, 1 if None: a scalar, or a tensor of the rank of `labels` whose size in
            each axis is 1 or that of the labels.
        num_thresholds: the number of evenly spaced thresholds.
        metrics_collections: the collections that the value joins.
        updates_collections: the collections that the update joins.
        name: the name of the scope of its operations and variables.

    Returns:
        The value over all batches so far, and an operation that adds the batch and returns the new value.

    Raises:
        ValueError: the shapes do not fit, or `specificity` is out of range.
        InvalidArgumentError: in the run, for a prediction that is not in the range from 0 to 1, or if the weights do
            not fit the predictions.

    Examples:
        >>> value, update = af.metrics.sensitivity_at_specificity([True, False, True], [0.9, 0.2, 0.4], 0.5)
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.0)
    """
    _check_rate("specificity", specificity)

    def sensitivity(tp: Tensor, fn: Tensor, tn: Tensor, fp: Tensor, name: str) -> Tensor:
        place = argmin(absolute(rate(tn, fp) - specificity), 0)
        return rate(gather(tp, place), gather(fn, place), name=name)

    with name_scope(name, "sensitivity_at_specificity", [predictions, labels, weights]):
        thresholds = evenly_spaced(num_thresholds)
        sums = sums_at(thresholds, _KINDS, labels, predictions, weights)
        return metric(sensitivity, sums, metrics_collections, updates_collections)


@transactional
def specificity_at_sensitivity(
    labels: NumberLike,
    predictions: NumberLike,
    sensitivity: float,
    weights: NumberLike | None = None,
    num_thresholds: int = 200,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return the specificity at the highest threshold whose sensitivity is nearest to the given one: a float32.

    The highest threshold lies just below 1. See `sensitivity_at_specificity`.

    Examples:
        >>> value, update = af.metrics.specificity_at_sensitivity([True, False, True], [0.9, 0.2, 0.4], 0.5)
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.9999999)
    """
    _check_rate("sensitivity", sensitivity)

    def specificity(tp: Tensor, fn: Tensor, tn: Tensor, fp: Tensor, name: str) -> Tensor:
        from_the_end = argmin(reverse(absolute(rate(tp, fn) - sensitivity), [0]), 0)
        place = num_thresholds - 1 - from_the_end
        return rate(gather(tn, place), gather(fp, place), name=name)

    with name_scope(name, "specificity_at_sensitivity", [predictions, labels, weights]):
        thresholds = evenly_spaced(num_thresholds, last=1 - EPSILON)
        sums = sums_at(thresholds, _KINDS, labels, predictions, weights)
        return metric(specificity, sums, metrics_collections, updates_collections)


def _check_rate(name: str, rate: float) -> None:
    if not 0 <= rate <= 1:
        raise ValueError(f"{name} must be in the range from 0 to 1, it is {rate}")
