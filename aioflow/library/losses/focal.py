"""Cross entropies that give less weight to elements which are easy, or whose labels may be wrong."""

from typing import Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.gather import gather
from aioflow.kernels.math.elementwise import log, sigmoid
from aioflow.kernels.math.reduction import reduce_mean, reduce_sum
from aioflow.kernels.math.rounding import clip_by_value
from aioflow.kernels.nn.softmax import softmax
from aioflow.library.losses.objectives import SMALL, Loss, classes_beside, known_classes


class BinaryFocalCrossentropy(Loss):
    """The cross entropy of labels of 0 and 1, times a power of the error of the prediction [Lin 2018].

    Args:
        apply_class_balancing: whether labels of 1 get the weight `alpha`, and those of 0 the rest to 1.
        alpha: the weight.
        gamma: the power.
        from_logits: whether predictions are logits; else probabilities.
        label_smoothing: labels move by this part towards 0.5.

    Examples:
        >>> await session.run(af.losses.BinaryFocalCrossentropy(gamma=2.0)([1.0, 0.0], [0.5, 0.5]))
        np.float32(0.17328677)
    """

    def __init__(
        self, apply_class_balancing: bool = False, alpha: float = 0.25, gamma: float = 2.0, from_logits: bool = False,
        label_smoothing: float = 0.0,
    ) -> None:  # fmt: skip
        self.alpha: Final = alpha if apply_class_balancing else None
        self.gamma: Final = gamma
        self.from_logits: Final = from_logits
        self.label_smoothing: Final = label_smoothing

    def call(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The loss of each element."""
        if self.label_smoothing:
            labels = labels * (1.0 - self.label_smoothing) + 0.5 * self.label_smoothing
        p = clip_by_value(sigmoid(predictions) if self.from_logits else predictions, SMALL, 1.0 - SMALL)
        entropy = -(labels * log(p) + (1.0 - labels) * log(1.0 - p))
        right = labels * p + (1.0 - labels) * (1.0 - p)
        losses = (1.0 - right) ** self.gamma * entropy
        if self.alpha is not None:
            losses = losses * (labels * self.alpha + (1.0 - labels) * (1.0 - self.alpha))
        return reduce_mean(losses, -1)


class CategoricalFocalCrossentropy(Loss):
    """The cross entropy of a distribution over classes, times a power of the error of each prediction [Lin 2018].

    Args:
        alpha: a factor.
        gamma: the power.
        from_logits: whether predictions are logits; else probabilities.
        label_smoothing: labels move by this part towards equal probabilities.

    Examples:
        >>> await session.run(af.losses.CategoricalFocalCrossentropy()([[0.0, 1.0]], [[0.5, 0.5]]))
        np.float32(0.043321696)
    """

    def __init__(
        self, alpha: float = 0.25, gamma: float = 2.0, from_logits: bool = False, label_smoothing: float = 0.0
    ) -> None:
        self.alpha: Final = alpha
        self.gamma: Final = gamma
        self.from_logits: Final = from_logits
        self.label_smoothing: Final = label_smoothing

    def call(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The loss of each element."""
        if self.label_smoothing:
            labels = labels * (1.0 - self.label_smoothing) + self.label_smoothing / known_classes(predictions)
        given = softmax(predictions) if self.from_logits else predictions
        p = clip_by_value(given / reduce_sum(given, -1, keepdims=True), SMALL, 1.0 - SMALL)
        return reduce_sum(-labels * log(p) * (1.0 - p) ** self.gamma * self.alpha, -1)


class CategoricalGeneralizedCrossEntropy(Loss):
    """(1 - p ** q) / q for the probability p of the right class, which wrong labels disturb less [Zhang 2018].

    It lies between the cross entropy, for small `q`, and the mean absolute error, for 1. Labels are numbers of classes,
    [batch, ...] or [batch, ..., 1]; one that is no class fails in the run, with InvalidArgumentError.

    Args:
        q: more than 0 and less than 1.

    Examples:
        >>> await session.run(af.losses.CategoricalGeneralizedCrossEntropy()([1], [[0.75, 0.25]]))
        np.float32(1.0)
    """

    def __init__(self, q: float = 0.5) -> None:
        if not 0 < q < 1:
            raise ValueError(f"q is more than 0 and less than 1, not {q}")
        self.q: Final = q

    def _labels(self, labels: Tensor, predictions: Tensor) -> Tensor:
        return classes_beside(labels, predictions)

    def call(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The loss of each element."""
        axes = labels.shape.ndims
        if axes is None:
            raise ValueError("the rank of the labels must be known")
        p = clip_by_value(gather(predictions, labels, axis=axes, batch_dims=axes), SMALL, 1.0 - SMALL)
        return (1.0 - p**self.q) / self.q
