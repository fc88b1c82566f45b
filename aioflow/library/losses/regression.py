"""Losses of predicted numbers: absolute, squared and Huber's errors, the cosine distance."""

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Tensor
from aioflow.kernels.math.arithmetic import minimum, squared_difference
from aioflow.kernels.math.elementwise import abs as absolute
from aioflow.kernels.math.elementwise import square
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.library.control import name_scope
from aioflow.library.losses.collected import Collections
from aioflow.library.losses.elements import float_operands
from aioflow.library.losses.reduction import Reduction, compute_weighted_loss


@transactional
def absolute_difference(
    labels: NumberLike,
    predictions: NumberLike,
    weights: NumberLike = 1.0,
    scope: str | None = None,
    loss_collection: Collections = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return the loss |predictions - labels|, weighted and reduced: a float32.

    Args:
        labels: the true values.
        predictions: the predicted values, of the shape of `labels`.
        weights: a scalar, or a tensor of the same rank whose size in each axis is 1 or that of the predictions.
        scope: the name of the scope of its operations.
        loss_collection: the collections that the loss joins; None for none.
        reduction: one of `Reduction`.

    Raises:
        ValueError: the shapes do not fit.
        InvalidArgumentError: in the run, if the weights do not fit the predictions.

    Examples:
        >>> await session.run(af.losses.absolute_difference([1.0, 2.0], [1.0, 4.0]))
        np.float32(1.0)
    """
    with name_scope(scope, "absolute_difference", [predictions, labels, weights]) as full:
        truth, guess = float_operands(labels, predictions)
        return compute_weighted_loss(absolute(guess - truth), weights, full, loss_collection, reduction)


@transactional
def mean_squared_error(
    labels: NumberLike,
    predictions: NumberLike,
    weights: NumberLike = 1.0,
    scope: str | None = None,
    loss_collection: Collections = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return the loss (predictions - labels)², weighted and reduced: a float32. See `absolute_difference`.

    Examples:
        >>> await session.run(af.losses.mean_squared_error([1.0, 2.0], [1.0, 4.0]))
        np.float32(2.0)
    """
    with name_scope(scope, "mean_squared_error", [predictions, labels, weights]) as full:
        truth, guess = float_operands(labels, predictions)
        return compute_weighted_loss(squared_difference(guess, truth), weights, full, loss_collection, reduction)


@transactional
def huber_loss(
    labels: NumberLike,
    predictions: NumberLike,
    weights: NumberLike = 1.0,
    delta: float = 1.0,
    scope: str | None = None,
    loss_collection: Collections = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return Huber's loss, weighted and reduced: a float32. See `absolute_difference`.

    For an error e = |predictions - labels| it is e² / 2 up to `delta`, and delta * (e - delta / 2) beyond.

    Examples:
        >>> await session.run(af.losses.huber_loss([1.0, 2.0], [1.0, 4.0]))
        np.float32(0.75)
    """
    with name_scope(scope, "huber_loss", [predictions, labels, weights]) as full:
        truth, guess = float_operands(labels, predictions)
        error = absolute(guess - truth)
        quadratic = minimum(error, delta)
        losses = 0.5 * square(quadratic) + delta * (error - quadratic)
        return compute_weighted_loss(losses, weights, full, loss_collection, reduction)


@transactional
def cosine_distance(
    labels: NumberLike,
    predictions: NumberLike,
    axis: int | None = None,
    weights: NumberLike = 1.0,
    scope: str | None = None,
    loss_collection: Collections = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
    dim: int | None = None,
) -> Tensor:
    """Return the loss 1 - the sum of labels * predictions along `axis`, weighted and reduced: a float32.

    Vectors along `axis` are expected to have length 1. Weights fit the losses, whose size along `axis` is 1. `dim` is
    another name for `axis`. See `absolute_difference`.

    Raises:
        ValueError: not exactly one of `axis` and `dim` is given, or the shapes do not fit.

    Examples:
        >>> await session.run(af.losses.cosine_distance([1.0, 0.0], [0.0, 1.0], axis=0))
        np.float32(1.0)
    """
    if (axis is None) == (dim is None):
        raise ValueError(f"give either axis or dim, an old name for it; they are {axis} and {dim}")
    with name_scope(scope, "cosine_distance_loss", [predictions, labels, weights]) as full:
        truth, guess = float_operands(labels, predictions)
        losses = 1 - reduce_sum(guess * truth, dim if axis is None else axis, keepdims=True)
        return compute_weighted_loss(losses, weights, full, loss_collection, reduction)
