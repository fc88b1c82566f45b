"""Means over classes: of the accuracy in each class, and of the intersection over the union."""

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import diag_part
from aioflow.kernels.array.constants import ones_like
from aioflow.kernels.array.shapes import reshape
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, not_equal
from aioflow.kernels.math.histograms import confusion_matrix
from aioflow.kernels.math.reduction import reduce_mean, reduce_sum
from aioflow.kernels.state.variables import scatter_add_variable
from aioflow.library.control import name_scope
from aioflow.library.metrics.means import weigh
from aioflow.library.metrics.operands import operands
from aioflow.library.metrics.state import Collections, Pair, Sum, metric_variable, publish, ratio, sum_up
from aioflow.tensors.dtypes import float32, float64, int64


@transactional
def mean_iou(
    labels: NumberLike,
    predictions: NumberLike,
    num_classes: int,
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return the mean over classes of true positives / (true and false positives and false negatives): a float32.

    Classes without labels and predictions do not count; without any the mean is 0. The state is the local variable
    `total_confusion_matrix`.

    Args:
        labels: the true classes, integers from 0 up to `num_classes`, of any shape.
        predictions: the predicted classes, of the same form.
        num_classes: the number of classes.
        weights: the weight of each prediction, 1 if None: a scalar, or a tensor of the rank of `labels` whose size in
            each axis is 1 or that of the labels.
        metrics_collections: the collections that the value joins.
        updates_collections: the collections that the update joins.
        name: the name of the scope of its operations and variables.

    Returns:
        The value over all batches so far, and an operation that adds the batch and returns the new confusion matrix.

    Raises:
        ValueError: the shapes do not fit.
        InvalidArgumentError: in the run, for a class out of range, or if the weights do not fit the predictions.

    Examples:
        >>> value, update = af.metrics.mean_iou(labels=[0, 1, 1], predictions=[0, 1, 0], num_classes=2)
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        array([[1., 0.],
               [1., 1.]])
        >>> await session.run(value)
        np.float32(0.5)
    """
    with name_scope(name, "mean_iou", [predictions, labels, weights]):
        truth, guess, each = _flat_classes(labels, predictions, weights)
        matrix = confusion_matrix(truth, guess, num_classes, float64, weights=each)
        total = sum_up(matrix, "total_confusion_matrix")
        return publish(_iou(total.variable.value()), total.updated, metrics_collections, updates_collections)


def _iou(matrix: Tensor) -> Tensor:
    both = diag_part(matrix)
    union = cast(reduce_sum(matrix, 0), float32) + cast(reduce_sum(matrix, 1), float32) - cast(both, float32)
    count = reduce_sum(cast(not_equal(union, 0), float32))
    return ratio(reduce_sum(ratio(cast(both, float32), union)), count, name="value")


@transactional
def mean_per_class_accuracy(
    labels: NumberLike,
    predictions: NumberLike,
    num_classes: int,
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return the mean over classes of the weighted share of right predictions among labels of the class: a float32.

    A class without labels counts as 0. The state is the local variables `total` and `count`: the sums of the weights
    of all labels of each class, and of those that were predicted. See `mean_iou`.

    Returns:
        The value over all batches so far, and an operation that adds the batch and returns the new share of each
        class.

    Examples:
        >>> labels, predictions = [0, 1, 1], [0, 1, 0]
        >>> value, update = af.metrics.mean_per_class_accuracy(labels, predictions, num_classes=2)
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        array([1. , 0.5], dtype=float32)
        >>> await session.run(value)
        np.float32(0.75)
    """
    with name_scope(name, "mean_accuracy", [predictions, labels, weights]):
        truth, guess, each = _flat_classes(labels, predictions, weights)
        ones = ones_like(truth, float32) if each is None else each
        total = _rows(num_classes, truth, ones, "total")
        count = _rows(num_classes, truth, ones * cast(equal(guess, truth), float32), "count")
        update = ratio(count.updated, total.updated, name="update_op")
        value = reduce_mean(ratio(count.variable.value(), total.variable.value()), name="value")
        return publish(value, update, metrics_collections, updates_collections)


def _rows(num_classes: int, classes: Tensor, weights: Tensor, name: str) -> Sum:
    """Return a variable that sums up the weights of each class."""
    variable = metric_variable([num_classes], float32, name=name)
    return Sum(variable, variable.scatter(scatter_add_variable, classes, weights))


def _flat_classes(
    labels: NumberLike, predictions: NumberLike, weights: NumberLike | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return labels and predictions as int64 and the weight of each of them, as vectors."""
    truth, guess, each = operands(labels, predictions, weights, int64)
    flat = None if each is None else reshape(weigh(ones_like(guess, float32), each), [-1])
    return reshape(truth, [-1]), reshape(guess, [-1]), flat
