"""Losses by the overlap of labels and predictions, for masks of pictures."""

from collections.abc import Sequence
from typing import Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.library.losses.objectives import SMALL, Loss

Axes = int | Sequence[int] | None


class Tversky(Loss):
    """1 - the overlap over itself and weighted sums of what only predictions or only labels have [Salehi 2017].

    Args:
        alpha: the weight of what only predictions have.
        beta: the weight of what only labels have.
        axis: the axes that an overlap extends over; all by default, which gives one loss for the batch.

    Examples:
        >>> await session.run(af.losses.Tversky()([[1.0, 1.0, 0.0, 0.0]], [[1.0, 0.0, 1.0, 0.0]]))
        np.float32(0.5)
    """

    def __init__(self, alpha: float = 0.5, beta: float = 0.5, axis: Axes = None) -> None:
        self.alpha: Final = alpha
        self.beta: Final = beta
        self.axis: Final = axis

    def call(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The loss of each element, or that of the batch."""
        both = reduce_sum(labels * predictions, self.axis)
        only_predicted = reduce_sum((1.0 - labels) * predictions, self.axis)
        only_true = reduce_sum(labels * (1.0 - predictions), self.axis)
        return 1.0 - both / (both + self.alpha * only_predicted + self.beta * only_true + SMALL)


class Dice(Loss):
    """1 - twice the overlap over the sums of labels and predictions.

    Args:
        axis: the axes that an overlap extends over; all by default, which gives one loss for the batch.

    Examples:
        >>> await session.run(af.losses.Dice()([[1.0, 1.0, 0.0, 0.0]], [[1.0, 0.0, 1.0, 0.0]]))
        np.float32(0.5)
    """

    def __init__(self, axis: Axes = None) -> None:
        self.axis: Final = axis

    def call(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The loss of each element, or that of the batch."""
        both = reduce_sum(labels * predictions, self.axis)
        sums = reduce_sum(labels, self.axis) + reduce_sum(predictions, self.axis)
        return 1.0 - 2.0 * both / (sums + SMALL)
