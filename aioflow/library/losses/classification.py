"""Losses of predicted classes: cross entropies, the log loss of probabilities, the hinge loss."""

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import stop_gradient
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.elementwise import log
from aioflow.kernels.nn.activation import relu
from aioflow.kernels.nn.losses import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
    sparse_softmax_cross_entropy_with_logits,
)
from aioflow.library.control import name_scope
from aioflow.library.losses.collected import Collections
from aioflow.library.losses.elements import float_operands, required
from aioflow.library.losses.reduction import Reduction, compute_weighted_loss
from aioflow.library.weights import align, align_weights, of_same_shape
from aioflow.tensors.dtypes import int32


@transactional
def sigmoid_cross_entropy(
    multi_class_labels: NumberLike,
    logits: NumberLike,
    weights: NumberLike = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: Collections = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return the cross entropy of independent probabilities and the sigmoids of logits, weighted and reduced.

    Args:
        multi_class_labels: a probability for each logit, of the shape of `logits`.
        logits: unscaled log odds; the loss has their dtype.
        weights: a scalar, or a tensor of the same rank whose size in each axis is 1 or that of the logits.
        label_smoothing: the share by which labels move towards 1/2.
        scope: the name of the scope of its operations.
        loss_collection: the collections that the loss joins; None for none.
        reduction: one of `Reduction`.

    Raises:
        ValueError: the shapes do not fit.
        InvalidArgumentError: in the run, if the weights do not fit the logits.

    Examples:
        >>> await session.run(af.losses.sigmoid_cross_entropy([[1.0, 0.0]], [[2.0, -2.0]]))
        np.float32(0.12692805)
    """
    with name_scope(scope, "sigmoid_cross_entropy_loss", [logits, multi_class_labels, weights]) as full:
        labels, x = _as_logits(multi_class_labels, logits)
        if label_smoothing > 0:
            labels = labels * (1 - label_smoothing) + 0.5 * label_smoothing
        losses = sigmoid_cross_entropy_with_logits(labels=labels, logits=x, name="xentropy")
        return compute_weighted_loss(losses, weights, full, loss_collection, reduction)


@transactional
def softmax_cross_entropy(
    onehot_labels: NumberLike,
    logits: NumberLike,
    weights: NumberLike = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: Collections = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return the cross entropy of distributions over classes and the softmax of logits, weighted and reduced.

    No gradient flows to the labels.

    Args:
        onehot_labels: a distribution for each row of logits, of the shape of `logits`.
        logits: unscaled log probabilities, the classes along the last axis; the loss has their dtype.
        weights: a scalar, or a tensor of the rank of `logits` less 1 whose size in each axis is 1 or that of the rows.
        label_smoothing: the share by which labels move towards 1 / the number of classes.
        scope: the name of the scope of its operations.
        loss_collection: the collections that the loss joins; None for none.
        reduction: one of `Reduction`.

    Raises:
        ValueError: the shapes do not fit.
        InvalidArgumentError: in the run, if the weights do not fit the rows.

    Examples:
        >>> await session.run(af.losses.softmax_cross_entropy([[0.0, 1.0]], [[1.0, 3.0]]))
        np.float32(0.12692805)
    """
    with name_scope(scope, "softmax_cross_entropy_loss", [logits, onehot_labels, weights]) as full:
        labels, x = _as_logits(onehot_labels, logits)
        if label_smoothing > 0:
            classes = cast(shape(labels)[-1], x.dtype)
            labels = labels * (1 - label_smoothing) + label_smoothing / classes
        fixed = stop_gradient(labels, name="labels_stop_gradient")
        losses = softmax_cross_entropy_with_logits_v2(labels=fixed, logits=x, name="xentropy")
        return compute_weighted_loss(losses, weights, full, loss_collection, reduction)


def _as_logits(labels: NumberLike, logits: NumberLike) -> tuple[Tensor, Tensor]:
    """Return labels with the dtype of the logits, and the logits. ValueError if they certainly differ in shape."""
    required(labels, logits, "logits")
    x = convert_to_tensor(logits)
    truth = cast(labels, x.dtype)
    return of_same_shape(truth, x, "logits"), x


@transactional
def sparse_softmax_cross_entropy(
    labels: NumberLike,
    logits: NumberLike,
    weights: NumberLike = 1.0,
    scope: str | None = None,
    loss_collection: Collections = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return the cross entropy of the class of each row and the softmax of its logits, weighted and reduced.

    Args:
        labels: the class of each row, integers from 0 up to the number of classes; the shape of `logits` less the
            last, or with 1 for the last.
        logits: unscaled log probabilities, the classes along the last axis; the loss has their dtype.
        weights: a scalar, or a tensor of the rank of the labels whose size in each axis is 1 or that of the labels; a
            last axis of size 1 may follow.
        scope: the name of the scope of its operations.
        loss_collection: the collections that the loss joins; None for none.
        reduction: one of `Reduction`.

    Raises:
        ValueError: the shapes do not fit.
        InvalidArgumentError: in the run, for a label that is not a class, or if the weights do not fit the rows.

    Examples:
        >>> await session.run(af.losses.sparse_softmax_cross_entropy([1], [[1.0, 3.0]]))
        np.float32(0.12692805)
    """
    required(labels, logits, "logits")
    with name_scope(scope, "sparse_softmax_cross_entropy_loss", [logits, labels, weights]) as full:
        classes, x = align(convert_to_tensor(labels, preferred_dtype=int32), convert_to_tensor(logits), 1)
        losses = sparse_softmax_cross_entropy_with_logits(labels=classes, logits=x, name="xentropy")
        each = None if weights is None else align_weights(convert_to_tensor(weights), losses)
        return compute_weighted_loss(losses, each, full, loss_collection, reduction)


@transactional
def log_loss(
    labels: NumberLike,
    predictions: NumberLike,
    weights: NumberLike = 1.0,
    epsilon: float = 1e-7,
    scope: str | None = None,
    loss_collection: Collections = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return the cross entropy of labels and predicted probabilities, weighted and reduced: a float32.

    Args:
        labels: a probability for each prediction.
        predictions: probabilities, of the shape of `labels`.
        weights: a scalar, or a tensor of the same rank whose size in each axis is 1 or that of the predictions.
        epsilon: is added to both arguments of the logarithm, so that 0 and 1 have a finite loss.
        scope: the name of the scope of its operations.
        loss_collection: the collections that the loss joins; None for none.
        reduction: one of `Reduction`.

    Raises:
        ValueError: the shapes do not fit.
        InvalidArgumentError: in the run, if the weights do not fit the predictions.

    Examples:
        >>> await session.run(af.losses.log_loss([1.0, 0.0], [0.9, 0.2]))
        np.float32(0.1642519)
    """
    with name_scope(scope, "log_loss", [predictions, labels, weights]) as full:
        truth, guess = float_operands(labels, predictions)
        losses = -truth * log(guess + epsilon) - (1 - truth) * log(1 - guess + epsilon)
        return compute_weighted_loss(losses, weights, full, loss_collection, reduction)


@transactional
def hinge_loss(
    labels: NumberLike,
    logits: NumberLike,
    weights: NumberLike = 1.0,
    scope: str | None = None,
    loss_collection: Collections = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return the loss max(0, 1 - s * logits), weighted and reduced: a float32. See `log_loss`.

    The sign s is -1 for the label 0 and 1 for the label 1.

    Examples:
        >>> await session.run(af.losses.hinge_loss([1.0, 0.0], [0.5, 0.5]))
        np.float32(1.0)
    """
    with name_scope(scope, "hinge_loss", [logits, labels, weights]) as full:
        truth, x = float_operands(labels, logits, "logits")
        losses = relu(1 - (2 * truth - 1) * x)
        return compute_weighted_loss(losses, weights, full, loss_collection, reduction)
