"""Weighted counts of predictions of one class: of those that are true or false, positive or negative."""

from collections.abc import Callable

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import logical_and, logical_not
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.library.control import name_scope
from aioflow.library.metrics.means import weigh
from aioflow.library.metrics.operands import operands
from aioflow.library.metrics.state import Collections, Pair, Sum, publish, sum_up
from aioflow.tensors.dtypes import bool_, float32

Kind = Callable[[Tensor, Tensor], Tensor]
"""(labels, predictions) -> which predictions are of that kind."""
KINDS: dict[str, Kind] = {
    "true_positives": logical_and,
    "false_positives": lambda labels, predictions: logical_and(logical_not(labels), predictions),
    "true_negatives": lambda labels, predictions: logical_not(labels | predictions),
    "false_negatives": lambda labels, predictions: logical_and(labels, logical_not(predictions)),
}


@transactional
def true_positives(
    labels: NumberLike,
    predictions: NumberLike,
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return the sum of the weights of predictions that are true, as their labels are: a float32.

    The state is the local variable `count`.

    Args:
        labels: the true values, cast to bools.
        predictions: the predicted values, of the shape of `labels`, cast to bools.
        weights: the weight of each prediction, 1 if None: a scalar, or a tensor of the rank of `labels` whose size in
            each axis is 1 or that of the labels.
        metrics_collections: the collections that the value joins.
        updates_collections: the collections that the update joins.
        name: the name of the scope of its operations and variables.

    Returns:
        The value over all batches so far, and an operation that adds the batch and returns the new value.

    Raises:
        ValueError: the shapes do not fit.
        InvalidArgumentError: in the run, if the weights do not fit the predictions.

    Examples:
        >>> value, update = af.metrics.true_positives(labels=[1, 0, 1], predictions=[1, 1, 0])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.0)
    """
    return _counted("true_positives", labels, predictions, weights, metrics_collections, updates_collections, name)


@transactional
def false_positives(
    labels: NumberLike,
    predictions: NumberLike,
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return the sum of the weights of predictions that are true while their labels are not. See `true_positives`.

    Examples:
        >>> value, update = af.metrics.false_positives(labels=[1, 0, 1], predictions=[1, 1, 0])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.0)
    """
    return _counted("false_positives", labels, predictions, weights, metrics_collections, updates_collections, name)


@transactional
def true_negatives(
    labels: NumberLike,
    predictions: NumberLike,
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return the sum of the weights of predictions that are false, as their labels are. See `true_positives`.

    Examples:
        >>> value, update = af.metrics.true_negatives(labels=[1, 0, 1], predictions=[1, 0, 0])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.0)
    """
    return _counted("true_negatives", labels, predictions, weights, metrics_collections, updates_collections, name)


@transactional
def false_negatives(
    labels: NumberLike,
    predictions: NumberLike,
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return the sum of the weights of predictions that are false while their labels are true. See `true_positives`.

    Examples:
        >>> value, update = af.metrics.false_negatives(labels=[1, 0, 1], predictions=[1, 1, 0])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.0)
    """
    return _counted("false_negatives", labels, predictions, weights, metrics_collections, updates_collections, name)


def _counted(
    kind: str,
    labels: NumberLike,
    predictions: NumberLike,
    weights: NumberLike | None,
    metrics_collections: Collections,
    updates_collections: Collections,
    name: str | None,
) -> Pair:
    with name_scope(name, kind, [predictions, labels, weights]):
        count = count_of(kind, *operands(labels, predictions, weights, bool_))
        return publish(count.variable.value(), count.updated, metrics_collections, updates_collections)


def count_of(kind: str, labels: Tensor, predictions: Tensor, weights: Tensor | None) -> Sum:
    """Return the variable `count`, which sums up the weights of predictions of that kind."""
    return sum_up(reduce_sum(weigh(cast(KINDS[kind](labels, predictions), float32), weights)), "count")
