"""Losses as objects, with the names of Keras: from labels and predictions to a loss for each element of the batch."""

from typing import Final

from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import ones_like
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import squeeze
from aioflow.kernels.math.arithmetic import maximum, multiply, squared_difference, subtract
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import less_equal
from aioflow.kernels.math.elementwise import abs as absolute
from aioflow.kernels.math.elementwise import log, log1p, square
from aioflow.kernels.math.no_nan import div_no_nan, multiply_no_nan
from aioflow.kernels.math.reduction import reduce_max, reduce_mean, reduce_sum
from aioflow.kernels.math.rounding import clip_by_value
from aioflow.kernels.nn.activation import softplus
from aioflow.kernels.nn.losses import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
)
from aioflow.library.control import name_scope
from aioflow.library.nn_functions import l2_normalize
from aioflow.library.weights import fit_weights, of_same_shape

SMALL: Final = 1e-7
"""Probabilities lie this far from 0 and 1 before a logarithm."""


class Loss:
    """A loss. A subclass defines `call`, from labels and predictions of one dtype to losses without the last axis.

    Examples:
        >>> class Worst(af.losses.Loss):
        ...     def call(self, y_true, y_pred):
        ...         return af.reduce_max(af.abs(y_true - y_pred), axis=-1)
        >>> await session.run(Worst()([[1.0, 2.0]], [[1.0, 5.0]]))
        np.float32(3.0)
    """

    _mend = ""
    """What to do about labels of another shape than that of the predictions."""

    def call(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The loss of each element."""
        raise NotImplementedError(f"{type(self).__name__} defines no call")

    def __call__(
        self,
        y_true: NumberLike,
        y_pred: NumberLike,
        sample_weight: NumberLike | None = None,
        mask: NumberLike | None = None,
    ) -> Tensor:
        """The sum of the weighted losses, divided by the number of elements.

        Args:
            y_true: the labels.
            y_pred: the predictions, [batch, ..., size].
            sample_weight: a factor for each element of the batch, [batch], or for each loss; 1 by default.
            mask: booleans: which elements, or which losses, count; all by default.

        Raises:
            ValueError: the shapes do not fit.
        """
        with name_scope(None, type(self).__name__, [y_true, y_pred]):
            losses, counted = self.weighted(y_true, y_pred, sample_weight, mask)
            if counted is None:
                return reduce_mean(losses)
            return div_no_nan(reduce_sum(losses), unmasked(counted, losses))

    def weighted(
        self, y_true: NumberLike, y_pred: NumberLike, sample_weight: NumberLike | None, mask: NumberLike | None
    ) -> tuple[Tensor, NumberLike | None]:
        """The losses times their weights, 0 where they do not count, and which of them count; None for all."""
        losses = self.of(y_true, y_pred)
        counted = self.counted(losses, mask)
        if sample_weight is not None:
            losses = multiply(losses, beside(sample_weight, losses))
        return losses if counted is None else multiply_no_nan(losses, beside(counted, losses)), counted

    def counted(self, losses: Tensor, mask: NumberLike | None) -> NumberLike | None:
        """Which of the losses count in the mean, given the mask of elements; None for all."""
        return mask

    def of(self, y_true: NumberLike, y_pred: NumberLike) -> Tensor:
        """The loss of each element of the batch."""
        predictions = convert_to_tensor(y_pred)
        labels = self._labels(convert_to_tensor(y_true), predictions)
        return self.call(labels, predictions)

    def _labels(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The labels with dtype and rank of the predictions: [batch] goes with [batch, 1]."""
        labels = aligned(cast(labels, predictions.dtype), predictions)
        if not labels.shape.is_compatible_with(predictions.shape):
            text = f"labels of shape {labels.shape} do not go with predictions of shape {predictions.shape}"
            raise ValueError(text + (f": {self._mend}" if self._mend else ""))
        return of_same_shape(labels, predictions)


class MeanSquaredError(Loss):
    """The mean of squared differences.

    Examples:
        >>> await session.run(af.losses.MeanSquaredError()([1.0, 2.0], [1.0, 4.0]))
        np.float32(2.0)
    """

    def call(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The loss of each element."""
        return reduce_mean(squared_difference(labels, predictions), -1)


class MeanAbsoluteError(Loss):
    """The mean of absolute differences.

    Examples:
        >>> await session.run(af.losses.MeanAbsoluteError()([1.0, 2.0], [1.0, 4.0]))
        np.float32(1.0)
    """

    def call(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The loss of each element."""
        return reduce_mean(absolute(subtract(labels, predictions)), -1)


class MeanAbsolutePercentageError(Loss):
    """The mean of absolute differences in percent of the labels.

    Examples:
        >>> await session.run(af.losses.MeanAbsolutePercentageError()([1.0, 2.0], [1.0, 4.0]))
        np.float32(50.0)
    """

    def call(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The loss of each element."""
        off = absolute(subtract(labels, predictions)) / maximum(absolute(labels), SMALL)
        return 100.0 * reduce_mean(off, -1)


class MeanSquaredLogarithmicError(Loss):
    """The mean of squared differences of log(1 + x).

    Examples:
        >>> await session.run(af.losses.MeanSquaredLogarithmicError()([0.0, 1.0], [0.0, 1.0]))
        np.float32(0.0)
    """

    def call(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The loss of each element."""
        one, other = log1p(maximum(labels, SMALL)), log1p(maximum(predictions, SMALL))
        return reduce_mean(squared_difference(one, other), -1)


class LogCosh(Loss):
    """The mean of log(cosh(difference)): squared where it is small, absolute where it is large.

    Examples:
        >>> await session.run(af.losses.LogCosh()([1.0], [2.0]))
        np.float32(0.4337808)
    """

    def call(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The loss of each element."""
        off = subtract(predictions, labels)
        return reduce_mean(off + softplus(-2.0 * off) - 0.6931471805599453, -1)


class Huber(Loss):
    """Half of the squared difference up to `delta`, and linear beyond.

    Examples:
        >>> await session.run(af.losses.Huber()([1.0, 2.0], [1.0, 4.0]))
        np.float32(0.75)
    """

    def __init__(self, delta: float = 1.0) -> None:
        self.delta: Final = delta

    def call(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The loss of each element."""
        off = absolute(subtract(labels, predictions))
        linear = self.delta * off - 0.5 * self.delta**2
        return reduce_mean(where(less_equal(off, self.delta), 0.5 * square(off), linear), -1)


class Hinge(Loss):
    """The mean of max(0, 1 - label * prediction), for labels of -1 and 1; labels of 0 count as -1.

    Examples:
        >>> await session.run(af.losses.Hinge()([1.0, -1.0], [0.5, 0.5]))
        np.float32(1.0)
    """

    def call(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The loss of each element."""
        return reduce_mean(_hinges(labels, predictions), -1)


class SquaredHinge(Loss):
    """The mean of the squares of what `Hinge` takes the mean of.

    Examples:
        >>> await session.run(af.losses.SquaredHinge()([1.0, -1.0], [0.5, 0.5]))
        np.float32(1.25)
    """

    def call(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The loss of each element."""
        return reduce_mean(square(_hinges(labels, predictions)), -1)


class CategoricalHinge(Loss):
    """max(0, 1 + the best wrong prediction - the right one), for labels with a 1 at the right class.

    Examples:
        >>> await session.run(af.losses.CategoricalHinge()([[0.0, 1.0]], [[0.5, 0.5]]))
        np.float32(1.0)
    """

    def call(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The loss of each element."""
        right = reduce_sum(labels * predictions, -1)
        return maximum(reduce_max((1.0 - labels) * predictions, -1) - right + 1.0, 0.0)


class Poisson(Loss):
    """The mean of prediction - label * log(prediction).

    Examples:
        >>> await session.run(af.losses.Poisson()([1.0], [1.0]))
        np.float32(0.9999999)
    """

    def call(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The loss of each element."""
        return reduce_mean(predictions - labels * log(predictions + SMALL), -1)


class KLDivergence(Loss):
    """The sum of label * log(label / prediction), for probabilities.

    Examples:
        >>> await session.run(af.losses.KLDivergence()([[0.5, 0.5]], [[0.25, 0.75]]))
        np.float32(0.14384106)
    """

    def call(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The loss of each element."""
        one, other = clip_by_value(labels, SMALL, 1.0), clip_by_value(predictions, SMALL, 1.0)
        return reduce_sum(one * log(one / other), -1)


class CosineSimilarity(Loss):
    """The cosine of the angle between labels and predictions along `axis`, with a minus: -1 where they agree.

    Examples:
        >>> await session.run(af.losses.CosineSimilarity()([[1.0, 0.0]], [[2.0, 0.0]]))
        np.float32(-1.0)
    """

    def __init__(self, axis: int = -1) -> None:
        self.axis: Final = axis

    def call(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The loss of each element."""
        return -reduce_sum(l2_normalize(labels, self.axis) * l2_normalize(predictions, self.axis), self.axis)


class BinaryCrossentropy(Loss):
    """The mean cross entropy of independent labels from 0 to 1.

    Args:
        from_logits: whether predictions are logits; else probabilities.
        label_smoothing: labels move by this part towards one half.

    Examples:
        >>> await session.run(af.losses.BinaryCrossentropy()([1.0, 0.0], [0.9, 0.2]))
        np.float32(0.16425204)
    """

    def __init__(self, from_logits: bool = False, label_smoothing: float = 0.0) -> None:
        self.from_logits: Final = from_logits
        self.label_smoothing: Final = label_smoothing

    def call(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The loss of each element."""
        if self.label_smoothing:
            labels = labels * (1.0 - self.label_smoothing) + 0.5 * self.label_smoothing
        logits = predictions if self.from_logits else _before("sigmoid", predictions)
        if logits is not None:
            return reduce_mean(sigmoid_cross_entropy_with_logits(labels=labels, logits=logits), -1)
        p = clip_by_value(predictions, SMALL, 1.0 - SMALL)
        return -reduce_mean(labels * log(p) + (1.0 - labels) * log(1.0 - p), -1)


class CategoricalCrossentropy(Loss):
    """The cross entropy of a distribution over classes.

    Args:
        from_logits: whether predictions are logits; else probabilities.
        label_smoothing: labels move by this part towards equal probabilities.

    Examples:
        >>> await session.run(af.losses.CategoricalCrossentropy()([[0.0, 1.0]], [[0.2, 0.8]]))
        np.float32(0.22314353)
    """

    _mend = "the numbers of classes go with SparseCategoricalCrossentropy"

    def __init__(self, from_logits: bool = False, label_smoothing: float = 0.0) -> None:
        self.from_logits: Final = from_logits
        self.label_smoothing: Final = label_smoothing

    def call(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The loss of each element."""
        if self.label_smoothing:
            labels = labels * (1.0 - self.label_smoothing) + self.label_smoothing / known_classes(predictions)
        logits = predictions if self.from_logits else _before("softmax", predictions)
        if logits is not None:
            return softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        p = predictions / reduce_sum(predictions, -1, keepdims=True)
        return -reduce_sum(labels * log(clip_by_value(p, SMALL, 1.0 - SMALL)), -1)


class SparseCategoricalCrossentropy(Loss):
    """The cross entropy of classes given by their numbers, [batch, ...] or [batch, ..., 1].

    A number that is no class fails in the run, with InvalidArgumentError.

    Args:
        from_logits: whether predictions are logits; else probabilities.

    Examples:
        >>> loss = af.losses.SparseCategoricalCrossentropy(from_logits=True)
        >>> await session.run(loss([1], [[1.0, 3.0]]))
        np.float32(0.12692805)
    """

    def __init__(self, from_logits: bool = False) -> None:
        self.from_logits: Final = from_logits

    def _labels(self, labels: Tensor, predictions: Tensor) -> Tensor:
        return classes_beside(labels, predictions)

    def call(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The loss of each element."""
        logits = predictions if self.from_logits else _before("softmax", predictions)
        if logits is not None:
            return sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        p = clip_by_value(predictions / reduce_sum(predictions, -1, keepdims=True), SMALL, 1.0 - SMALL)
        return sparse_softmax_cross_entropy_with_logits(labels=labels, logits=log(p))


def beside(weights: NumberLike, values: Tensor) -> Tensor:
    """Weights, or a mask, of the elements of a batch, with the dtype of the values and an axis for each of theirs."""
    given, wanted = cast(convert_to_tensor(weights), values.dtype), values.shape.ndims
    rank = given.shape.ndims
    if rank is None or wanted is None or not rank:
        return fit_weights(given, values)
    if rank == wanted + 1 and given.shape.as_list()[-1] == 1:
        given = squeeze(given, [-1])
    for _ in range(wanted - rank):
        given = given[..., None]
    return fit_weights(given, values)


def unmasked(mask: NumberLike, losses: Tensor) -> Tensor:
    """The number of losses that a mask keeps."""
    return reduce_sum(multiply(beside(mask, losses), ones_like(losses)))


def aligned(labels: Tensor, predictions: Tensor) -> Tensor:
    """The labels, with a last axis of size 1 if the predictions have it beyond them."""
    ranks = labels.shape.ndims, predictions.shape.ndims
    if None not in ranks and ranks[1] == (ranks[0] or 0) + 1 and predictions.shape.as_list()[-1] == 1:
        return labels[..., None]
    return labels


def _hinges(labels: Tensor, predictions: Tensor) -> Tensor:
    signs = where(less_equal(labels, 0.0), labels * 0.0 - 1.0, labels)
    return maximum(1.0 - signs * predictions, 0.0)


def known_classes(predictions: Tensor) -> int:
    """The number of classes, the last size of the predictions. ValueError if it is unknown."""
    classes = predictions.shape.as_list()[-1]
    if classes is None:
        raise ValueError(f"the number of classes must be known, the shape of the predictions is {predictions.shape}")
    return classes


def classes_beside(labels: Tensor, predictions: Tensor) -> Tensor:
    """Classes [batch, ...], integers, from numbers that may have a last axis of size 1. ValueError for other shapes."""
    ranks = labels.shape.ndims, predictions.shape.ndims
    if None not in ranks and ranks[0] == ranks[1] and labels.shape.as_list()[-1] in (1, None):
        labels = squeeze(labels, [-1])
    if not labels.shape.is_compatible_with(predictions.shape[:-1]):
        raise ValueError(
            f"classes of shape {labels.shape} do not go with predictions of shape {predictions.shape}: give the number "
            "of a class for each; shares of classes go with categorical losses and metrics, without 'sparse'"
        )
    return labels if labels.dtype.is_integer else cast(labels, "int64")


def _before(kind: str, predictions: Tensor) -> Tensor | None:
    """The logits, if the predictions are that function of them: from these the loss is exact, and faster."""
    made = predictions.op
    while made.type == "identity":
        made = made.inputs[0].op
    axis = made.attrs.get("axis", -1)
    last = axis in (-1, (made.inputs[0].shape.ndims or 0) - 1) if made.type == kind else False
    return made.inputs[0] if last else None
