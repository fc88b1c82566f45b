"""Shares of predictions that are right: accuracy, precision, recall."""

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal
from aioflow.library.control import name_scope
from aioflow.library.metrics.counts import count_of
from aioflow.library.metrics.means import mean
from aioflow.library.metrics.operands import operands
from aioflow.library.metrics.state import Collections, Pair, metric, ratio
from aioflow.tensors.dtypes import bool_, float32


@transactional
def accuracy(
    labels: NumberLike,
    predictions: NumberLike,
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return the weighted share of predictions that equal their labels: a float32, 0 before the first prediction.

    The state is the local variables `total` and `count`: the sums of the weights of right predictions, and of all.

    Args:
        labels: the true values.
        predictions: the predicted values, of the shape of `labels`; they are cast to the dtype of `labels`.
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
        >>> value, update = af.metrics.accuracy(labels=[1, 0, 1], predictions=[1, 1, 1])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.6666667)
    """
    truth, guess, each = operands(labels, predictions, weights)
    right = cast(equal(guess if guess.dtype is truth.dtype else cast(guess, truth.dtype), truth), float32)
    return mean(right, each, metrics_collections, updates_collections, name or "accuracy")


@transactional
def precision(
    labels: NumberLike,
    predictions: NumberLike,
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return the weighted share of true labels among those of positive predictions: 0 if there are none.

    Labels and predictions are cast to bools. The state is the local variables `true_positives/count` and
    `false_positives/count`. See `accuracy`.

    Examples:
        >>> value, update = af.metrics.precision(labels=[1, 0, 1], predictions=[1, 1, 1])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.6666667)
    """
    with name_scope(name, "precision", [predictions, labels, weights]):
        return _share("false_positives", labels, predictions, weights, metrics_collections, updates_collections)


@transactional
def recall(
    labels: NumberLike,
    predictions: NumberLike,
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return the weighted share of positive predictions among those of true labels: 0 if there are none.

    Labels and predictions are cast to bools. The state is the local variables `true_positives/count` and
    `false_negatives/count`. See `accuracy`.

    Examples:
        >>> value, update = af.metrics.recall(labels=[1, 0, 1], predictions=[1, 1, 0])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.5)
    """
    with name_scope(name, "recall", [predictions, labels, weights]):
        return _share("false_negatives", labels, predictions, weights, metrics_collections, updates_collections)


def _share(
    others: str,
    labels: NumberLike,
    predictions: NumberLike,
    weights: NumberLike | None,
    metrics_collections: Collections,
    updates_collections: Collections,
) -> Pair:
    """Return the share of true positives among them and `others`."""
    given = operands(labels, predictions, weights, bool_)
    sums = []
    for kind in ("true_positives", others):
        with name_scope(kind):
            sums.append(count_of(kind, *given))
    return metric(_among, sums, metrics_collections, updates_collections)


def _among(part: Tensor, others: Tensor, name: str) -> Tensor:
    return ratio(part, part + others, name=name)
