"""The mean over examples of the average precision of the k classes with the highest scores."""

from typing import Any

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import shape, size
from aioflow.kernels.array.sorting import top_k
from aioflow.kernels.math.arithmetic import divide, minimum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import greater_equal
from aioflow.kernels.math.cumulative import cumsum
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.library.control import name_scope
from aioflow.library.metrics.hits import are_labels, count, count_distinct, is_sparse, labels_for
from aioflow.library.metrics.state import Collections, Pair, metric, ratio, sum_up
from aioflow.library.weights import broadcast_weights
from aioflow.tensors.dtypes import float64, int64


@transactional
def average_precision_at_k(
    labels: NumberLike | SparseTensor,
    predictions: NumberLike,
    k: int,
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return the weighted mean over examples of their average precision: a float64, 0 before the first example.

    The average precision of an example is the mean, over its labels but at most over k, of the precision of all
    predictions down to the place of that label; a label that is not among the k predictions counts as 0. An example
    without labels has none: it makes the mean NaN from then on. The state is the local variables `total` and `max`.

    Args:
        labels: the classes of each example along the last axis, integers; an axis less for one class per example. They
            may be sparse. Negative labels of dense ones do not count.
        predictions: a score for each class along the last axis.
        k: the number of predictions of each example.
        weights: the weight of each example, 1 if None: a scalar, or a tensor of one axis less than `predictions` whose
            size in each axis is 1 or that of the predictions.
        metrics_collections: the collections that the value joins.
        updates_collections: the collections that the update joins.
        name: the name of the scope of its operations and variables.

    Returns:
        The value over all batches so far, and an operation that adds the batch and returns the new value.

    Raises:
        ValueError: the shapes do not fit, or k is less than 1.
        InvalidArgumentError: in the run, if the weights do not fit the examples.

    Examples:
        >>> labels, scores = af.constant([[0], [2]], af.int64), [[0.6, 0.3, 0.1], [0.5, 0.1, 0.4]]
        >>> value, update = af.metrics.average_precision_at_k(labels, scores, 2)
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float64(0.75)
    """
    if k < 1:
        raise ValueError(f"k must be 1 or more, it is {k}")
    with name_scope(name, f"average_precision_at_{k}", [predictions, labels, weights]):
        precision = _average_precision(labels, convert_to_tensor(predictions), k)
        each = None if weights is None else broadcast_weights(cast(weights, float64), precision)
        most = cast(size(precision), float64) if each is None else reduce_sum(each)
        total = reduce_sum(precision if each is None else precision * each)
        sums = sum_up(total, "total"), sum_up(most, "max")
        return metric(ratio, sums, metrics_collections, updates_collections)


def _average_precision(labels: Any, scores: Tensor, k: int) -> Tensor:
    """Return the average precision of each example."""
    places = cast(top_k(scores, k)[1], int64)
    given = labels_for(labels, places)
    classes = where(greater_equal(given, shape(scores, out_type=int64)[-1]), np.int64(-1), given)
    relevant = count_distinct(classes) if is_sparse(labels) else count(greater_equal(classes, 0))
    hits = cast(are_labels(places, classes), float64)
    precision = cumsum(hits, -1) / constant(np.arange(1.0, k + 1))
    return divide(reduce_sum(precision * hits, -1), minimum(relevant, float(k)))
