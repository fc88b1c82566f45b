"""Precision and recall of the k classes that are predicted with the highest scores."""

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.array.sorting import top_k
from aioflow.kernels.math.arithmetic import divide
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.library.control import name_scope
from aioflow.library.metrics.hits import labels_for, overlap
from aioflow.library.metrics.state import Collections, Pair, Sum, metric, sum_up
from aioflow.library.weights import fit_weights
from aioflow.tensors.dtypes import float64, int64


@transactional
def precision_at_k(
    labels: NumberLike | SparseTensor,
    predictions: NumberLike,
    k: int,
    class_id: int | None = None,
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return the weighted share of labels among the k predictions with the highest scores: a float64.

    It is NaN before the first prediction. The state is the local variables `true_positive_at_<k>` and
    `false_positive_at_<k>`.

    Args:
        labels: the classes of each example along the last axis, integers; an axis less for one class per example. They
            may be sparse. Labels that are no class are never predicted.
        predictions: a score for each class along the last axis.
        k: the number of predictions of each example.
        class_id: if given, only this class counts, among labels and among predictions.
        weights: the weight of each example, 1 if None: a scalar, or a tensor of one axis less than `predictions` whose
            size in each axis is 1 or that of the predictions.
        metrics_collections: the collections that the value joins.
        updates_collections: the collections that the update joins.
        name: the name of the scope of its operations and variables.

    Returns:
        The value over all batches so far, and an operation that adds the batch and returns the new value.

    Raises:
        ValueError: the shapes do not fit.
        InvalidArgumentError: in the run, if the weights do not fit the examples.

    Examples:
        >>> labels, predictions = af.constant([[2]], af.int64), [[0.1, 0.8, 0.3]]
        >>> value, update = af.metrics.precision_at_k(labels, predictions, k=2)
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float64(0.5)
    """
    with name_scope(name, _name("precision", k, class_id), [predictions, labels, weights]) as scope:
        places = top_k(predictions, k)[1]
        return precision_at_top_k(labels, places, k, class_id, weights, metrics_collections, updates_collections, scope)


@transactional
def precision_at_top_k(
    labels: NumberLike | SparseTensor,
    predictions_idx: NumberLike,
    k: int | None = None,
    class_id: int | None = None,
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return `precision_at_k` for predicted classes `predictions_idx`, of which repeated ones count once.

    `k` is for names alone.

    Examples:
        >>> labels, top = af.constant([[0], [2]], af.int64), af.constant([[0, 1], [0, 2]], af.int64)
        >>> value, update = af.metrics.precision_at_top_k(labels, top)
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float64(0.5)
    """
    with name_scope(name, _name("precision", k, class_id), [predictions_idx, labels, weights]):
        classes = cast(convert_to_tensor(predictions_idx, preferred_dtype=int64), int64)
        both, wrong, _ = overlap(labels_for(labels, classes), classes, class_id)
        sums = [
            _summed(both, weights, _name("true_positive", k, class_id)),
            _summed(wrong, weights, _name("false_positive", k, class_id)),
        ]
        return metric(_share, sums, metrics_collections, updates_collections)


@transactional
def recall_at_k(
    labels: NumberLike | SparseTensor,
    predictions: NumberLike,
    k: int,
    class_id: int | None = None,
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return the weighted share of labels that are among the k predictions with the highest scores: a float64.

    It is NaN before the first label. The state is the local variables `true_positive_at_<k>` and
    `false_negative_at_<k>`. See `precision_at_k`.

    Examples:
        >>> labels, predictions = af.constant([[2]], af.int64), [[0.1, 0.8, 0.3]]
        >>> value, update = af.metrics.recall_at_k(labels, predictions, k=2)
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float64(1.0)
    """
    with name_scope(name, _name("recall", k, class_id), [predictions, labels, weights]) as scope:
        places = top_k(predictions, k)[1]
        return recall_at_top_k(labels, places, k, class_id, weights, metrics_collections, updates_collections, scope)


@transactional
def recall_at_top_k(
    labels: NumberLike | SparseTensor,
    predictions_idx: NumberLike,
    k: int | None = None,
    class_id: int | None = None,
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return `recall_at_k` for predicted classes `predictions_idx`, of which repeated ones count once.

    `k` is for names alone.

    Examples:
        >>> labels, top = af.constant([[0], [2]], af.int64), af.constant([[0, 1], [0, 1]], af.int64)
        >>> value, update = af.metrics.recall_at_top_k(labels, top)
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float64(0.5)
    """
    with name_scope(name, _name("recall", k, class_id), [predictions_idx, labels, weights]):
        classes = cast(convert_to_tensor(predictions_idx, preferred_dtype=int64), int64)
        both, _, missed = overlap(labels_for(labels, classes), classes, class_id)
        sums = [
            _summed(both, weights, _name("true_positive", k, class_id)),
            _summed(missed, weights, _name("false_negative", k, class_id)),
        ]
        return metric(_share, sums, metrics_collections, updates_collections)


def _summed(counts: Tensor, weights: NumberLike | None, name: str) -> Sum:
    """Return a variable that sums up the weighted counts of examples."""
    weighted = counts if weights is None else counts * fit_weights(cast(weights, float64), counts)
    return sum_up(reduce_sum(weighted), name)


def _share(part: Tensor, others: Tensor, name: str) -> Tensor:
    return divide(part, part + others, name=name)


def _name(what: str, k: int | None, class_id: int | None) -> str:
    return f"{what}_at_{'k' if k is None else k}" + ("" if class_id is None else f"_class{class_id}")
