"""Counts and rates of predicted probabilities at thresholds, above which a prediction is positive.

A prediction is compared with all thresholds by one search. The weights of the predictions that lie between the same two
thresholds are summed up; running sums over the thresholds give all counts. This takes memory in proportion to the
predictions and the thresholds, not to their product.
"""

from collections.abc import Sequence

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant, ones_like
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.sequence import searchsorted
from aioflow.kernels.array.shapes import reshape
from aioflow.kernels.control.assertions import assert_greater_equal, assert_less_equal
from aioflow.kernels.math.arithmetic import divide
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.cumulative import cumsum
from aioflow.kernels.math.segments import unsorted_segment_sum
from aioflow.library.control import name_scope, with_dependencies
from aioflow.library.metrics.operands import operands
from aioflow.library.metrics.state import Collections, Pair, Sum, metric, publish, sum_up
from aioflow.library.weights import broadcast_weights
from aioflow.tensors.dtypes import bool_, float32, float64, int32

EPSILON = 1e-7
"""Is added to divisors, as TensorFlow adds it: a rate without predictions is 0."""


def evenly_spaced(count: int, first: float = -EPSILON, last: float = 1 + EPSILON) -> list[float]:
    """Return `count` thresholds from `first` to `last`, evenly spaced in between. ValueError for less than 2."""
    if count < 2:
        raise ValueError(f"num_thresholds is {count}, at least 2 are needed: one below 0 and one above 1")
    return [first, *[(i + 1) / (count - 1) for i in range(count - 2)], last]


def sums_at(
    thresholds: Sequence[float],
    kinds: Sequence[str],
    labels: NumberLike,
    predictions: NumberLike,
    weights: NumberLike | None,
) -> list[Sum]:
    """Return a variable for each of `kinds`, as `true_positives`, with a sum of weights for each threshold.

    Raises:
        ValueError: the shapes do not fit.
        InvalidArgumentError: in the run, for a prediction that is not in the range from 0 to 1, or if the weights do
            not fit the predictions.
    """
    truth, guess, each = operands(cast(labels, bool_), cast(predictions, float32), weights)
    message = "predictions must be in the range from 0 to 1"
    checks = [assert_greater_equal(guess, 0.0, message=message), assert_less_equal(guess, 1.0, message=message)]
    guess = with_dependencies(checks, guess)
    each = ones_like(guess) if each is None else broadcast_weights(each, guess)
    counts = _counts(np.array(thresholds, np.float32), truth, guess, each)
    return [sum_up(counts[kind], kind) for kind in kinds]


def _counts(thresholds: "np.ndarray[tuple[int], np.dtype[np.float32]]", *flat: Tensor) -> dict[str, Tensor]:
    """Return for each kind the sum of the weights of its predictions at each threshold."""
    labels, predictions, weights = [reshape(each, [-1]) for each in flat]
    order, count = thresholds.argsort(kind="stable"), len(thresholds)
    interval = searchsorted(constant(thresholds[order]), predictions) + cast(labels, int32) * (count + 1)
    sums = reshape(unsorted_segment_sum(cast(weights, float64), interval, 2 * (count + 1)), [2, count + 1])
    above = cast(cumsum(sums, 1, exclusive=True, reverse=True)[:, :count], float32)
    below = cast(cumsum(sums, 1)[:, :count], float32)
    if (order[1:] < order[:-1]).any():
        places = order.argsort()
        above, below = gather(above, places, axis=1), gather(below, places, axis=1)
    return {
        "true_positives": above[1],
        "false_positives": above[0],
        "true_negatives": below[0],
        "false_negatives": below[1],
    }


# Counts


@transactional
def true_positives_at_thresholds(
    labels: NumberLike,
    predictions: NumberLike,
    thresholds: Sequence[float],
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return for each threshold the sum of the weights of predictions above it whose labels are true: float32.

    Args:
        labels: the true values, cast to bools.
        predictions: probabilities, of the shape of `labels`.
        thresholds: numbers in any order.
        weights: the weight of each prediction, 1 if None: a scalar, or a tensor of the rank of `labels` whose size in
            each axis is 1 or that of the labels.
        metrics_collections: the collections that the value joins.
        updates_collections: the collections that the update joins.
        name: the name of the scope of its operations and variables.

    Returns:
        The values over all batches so far, and an operation that adds the batch and returns the new values.

    Raises:
        ValueError: the shapes do not fit.
        InvalidArgumentError: in the run, for a prediction that is not in the range from 0 to 1, or if the weights do
            not fit the predictions.

    Examples:
        >>> value, update = af.metrics.true_positives_at_thresholds([True, True], [0.3, 0.9], [0.5])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        array([1.], dtype=float32)
    """
    given = "true_positives", thresholds, labels, predictions, weights
    return _counted_at(*given, metrics_collections, updates_collections, name)


@transactional
def false_positives_at_thresholds(
    labels: NumberLike,
    predictions: NumberLike,
    thresholds: Sequence[float],
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return for each threshold the sum of the weights of predictions above it whose labels are false: float32.

    See `true_positives_at_thresholds`.

    Examples:
        >>> value, update = af.metrics.false_positives_at_thresholds([True, False], [0.3, 0.9], [0.5])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        array([1.], dtype=float32)
    """
    given = "false_positives", thresholds, labels, predictions, weights
    return _counted_at(*given, metrics_collections, updates_collections, name)


@transactional
def true_negatives_at_thresholds(
    labels: NumberLike,
    predictions: NumberLike,
    thresholds: Sequence[float],
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return for each threshold the sum of the weights of predictions not above it whose labels are false: float32.

    See `true_positives_at_thresholds`.

    Examples:
        >>> value, update = af.metrics.true_negatives_at_thresholds([False, False], [0.3, 0.9], [0.5])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        array([1.], dtype=float32)
    """
    given = "true_negatives", thresholds, labels, predictions, weights
    return _counted_at(*given, metrics_collections, updates_collections, name)


@transactional
def false_negatives_at_thresholds(
    labels: NumberLike,
    predictions: NumberLike,
    thresholds: Sequence[float],
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return for each threshold the sum of the weights of predictions not above it whose labels are true: float32.

    See `true_positives_at_thresholds`.

    Examples:
        >>> value, update = af.metrics.false_negatives_at_thresholds([True, True], [0.3, 0.9], [0.5])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        array([1.], dtype=float32)
    """
    given = "false_negatives", thresholds, labels, predictions, weights
    return _counted_at(*given, metrics_collections, updates_collections, name)


def _counted_at(
    kind: str,
    thresholds: Sequence[float],
    labels: NumberLike,
    predictions: NumberLike,
    weights: NumberLike | None,
    metrics_collections: Collections,
    updates_collections: Collections,
    name: str | None,
) -> Pair:
    with name_scope(name, kind, [predictions, labels, weights]):
        (count,) = sums_at(thresholds, [kind], labels, predictions, weights)
        return publish(count.variable.value(), count.updated, metrics_collections, updates_collections)


# Rates


@transactional
def precision_at_thresholds(
    labels: NumberLike,
    predictions: NumberLike,
    thresholds: Sequence[float],
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return for each threshold the weighted share of true labels among those of predictions above it: float32.

    It is 0 without such predictions. See `true_positives_at_thresholds`.

    Examples:
        >>> labels, predictions = [1, 0, 1], [0.9, 0.6, 0.4]
        >>> value, update = af.metrics.precision_at_thresholds(labels, predictions, thresholds=[0.5])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        array([0.5], dtype=float32)
    """
    with name_scope(name, "precision_at_thresholds", [predictions, labels, weights]):
        kinds = "true_positives", "false_positives"
        sums = sums_at(thresholds, kinds, labels, predictions, weights)
        return metric(rate, sums, metrics_collections, updates_collections)


@transactional
def recall_at_thresholds(
    labels: NumberLike,
    predictions: NumberLike,
    thresholds: Sequence[float],
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return for each threshold the weighted share of predictions above it among those with true labels: float32.

    It is 0 without true labels. See `true_positives_at_thresholds`.

    Examples:
        >>> labels, predictions = [1, 0, 1], [0.9, 0.6, 0.4]
        >>> value, update = af.metrics.recall_at_thresholds(labels, predictions, thresholds=[0.5])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        array([0.5], dtype=float32)
    """
    with name_scope(name, "recall_at_thresholds", [predictions, labels, weights]):
        kinds = "true_positives", "false_negatives"
        sums = sums_at(thresholds, kinds, labels, predictions, weights)
        return metric(rate, sums, metrics_collections, updates_collections)


def rate(part: Tensor, others: Tensor, name: str | None = None) -> Tensor:
    """Return the share of the first count among both, nearly: EPSILON is added to the divisor."""
    return divide(part, EPSILON + part + others, name=name)
