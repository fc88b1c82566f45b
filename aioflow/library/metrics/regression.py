"""Mean errors of predicted numbers over many batches."""

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import zeros_like
from aioflow.kernels.array.select import where
from aioflow.kernels.math.arithmetic import squared_difference, subtract
from aioflow.kernels.math.comparison import equal
from aioflow.kernels.math.elementwise import abs as absolute
from aioflow.kernels.math.elementwise import sqrt
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.library.metrics.means import mean
from aioflow.library.metrics.operands import operands
from aioflow.library.metrics.state import Collections, Pair, publish
from aioflow.library.weights import align, of_same_shape


@transactional
def mean_absolute_error(
    labels: NumberLike,
    predictions: NumberLike,
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return the weighted mean of |predictions - labels|: a float32, 0 before the first prediction.

    The state is the local variables `total` and `count`: the sum of the weighted errors, and the sum of the weights.

    Args:
        labels: the true values.
        predictions: the predicted values, of the shape and dtype of `labels`.
        weights: the weight of each error, 1 if None: a scalar, or a tensor of the rank of `labels` whose size in each
            axis is 1 or that of the labels.
        metrics_collections: the collections that the value joins.
        updates_collections: the collections that the update joins.
        name: the name of the scope of its operations and variables.

    Returns:
        The value over all batches so far, and an operation that adds the batch and returns the new value.

    Raises:
        ValueError: the shapes do not fit.
        TypeError: the dtypes differ.
        InvalidArgumentError: in the run, if the weights do not fit the predictions.

    Examples:
        >>> value, update = af.metrics.mean_absolute_error(labels=[1.0, 2.0], predictions=[1.0, 4.0])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.0)
    """
    truth, guess, each = operands(labels, predictions, weights)
    return mean(absolute(guess - truth), each, metrics_collections, updates_collections, name or "mean_absolute_error")


@transactional
def mean_squared_error(
    labels: NumberLike,
    predictions: NumberLike,
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return the weighted mean of (predictions - labels)². See `mean_absolute_error`.

    Examples:
        >>> value, update = af.metrics.mean_squared_error(labels=[1.0, 2.0], predictions=[1.0, 4.0])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(2.0)
    """
    truth, guess, each = operands(labels, predictions, weights)
    squares = squared_difference(truth, guess)
    return mean(squares, each, metrics_collections, updates_collections, name or "mean_squared_error")


@transactional
def root_mean_squared_error(
    labels: NumberLike,
    predictions: NumberLike,
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return the square root of the weighted mean of (predictions - labels)². See `mean_absolute_error`.

    Examples:
        >>> value, update = af.metrics.root_mean_squared_error(labels=[1.0, 2.0], predictions=[1.0, 4.0])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.4142135)
    """
    value, update = mean_squared_error(labels, predictions, weights, name=name or "root_mean_squared_error")
    return publish(sqrt(value), sqrt(update), metrics_collections, updates_collections)


@transactional
def mean_relative_error(
    labels: NumberLike,
    predictions: NumberLike,
    normalizer: NumberLike,
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return the weighted mean of |labels - predictions| / normalizer, an error of 0 where the normalizer is 0.

    The normalizer has the shape of `predictions`. See `mean_absolute_error`.

    Examples:
        >>> labels, predictions = [1.0, 2.0], [1.0, 4.0]
        >>> value, update = af.metrics.mean_relative_error(labels, predictions, normalizer=[1.0, 2.0])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.5)
    """
    truth, guess, each = operands(labels, predictions, weights)
    guess, scale = align(guess, convert_to_tensor(normalizer, preferred_dtype=guess.dtype))
    truth = of_same_shape(truth, scale, "normalizer")
    none = equal(scale, 0)
    errors = where(none, zeros_like(truth), absolute(truth - guess) / scale)
    return mean(errors, each, metrics_collections, updates_collections, name or "mean_relative_error")


@transactional
def mean_cosine_distance(
    labels: NumberLike,
    predictions: NumberLike,
    dim: int,
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return 1 - the weighted mean of the sums of labels * predictions along `dim`: 1 before the first prediction.

    Vectors along `dim` are expected to have length 1. Weights have size 1 along it. See `mean_absolute_error`.

    Examples:
        >>> value, update = af.metrics.mean_cosine_distance(labels=[[1.0, 0.0]], predictions=[[0.0, 1.0]], dim=1)
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.0)
    """
    truth, guess, each = operands(labels, predictions, weights)
    cosines = reduce_sum(guess * truth, dim, keepdims=True)
    value, update = mean(cosines, each, name=name or "mean_cosine_distance")
    return publish(_distance(value), _distance(update), metrics_collections, updates_collections)


def _distance(cosine: Tensor) -> Tensor:
    return subtract(1.0, cosine)
