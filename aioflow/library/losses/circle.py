"""A loss of the pairs of a batch: elements of one class are to be near each other, those of others far apart."""

from typing import Final

from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import eye
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.math.arithmetic import maximum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, greater, logical_and, logical_not
from aioflow.kernels.math.reduction import reduce_any, reduce_logsumexp
from aioflow.kernels.nn.activation import softplus
from aioflow.library.losses.objectives import Loss, aligned, beside
from aioflow.library.weights import of_same_shape
from aioflow.tensors.dtypes import bool_, int64

_NONE: Final = float("-inf")
"""The logarithm of no pairs."""


class Circle(Loss):
    """The circle loss of vectors of length 1, such as those of `af.layers.UnitNormalization` [Sun 2020].

    Predictions are vectors [batch, size], labels the numbers of classes, [batch] or [batch, 1]. The loss of an element
    adds up all pairs with it in the batch, and gives those more weight that are far from where they are to be. An
    element without another one of its class, or without one of another class, has the loss 0, and does not count in the
    mean. A strategy of `af.distribute` forms the pairs within each share of a batch.

    Args:
        gamma: the scale of similarities.
        margin: how far from 0 and 1 the similarities of pairs may stay.
        remove_diagonal: whether an element is no pair with itself.

    Examples:
        >>> vectors = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
        >>> await session.run(af.losses.Circle(gamma=1.0)([0, 0, 1], vectors))
        np.float32(1.4703842)
    """

    def __init__(self, gamma: float = 80.0, margin: float = 0.4, remove_diagonal: bool = True) -> None:
        self.gamma: Final = gamma
        self.margin: Final = margin
        self.remove_diagonal: Final = remove_diagonal

    def _labels(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The classes [batch, 1]. ValueError for other shapes."""
        predictions.spec.with_rank(2, "predictions")
        column = predictions[:, :1]
        return of_same_shape(aligned(cast(labels, int64), column), column)

    def call(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The loss of each element."""
        distances = maximum(1.0 - matmul(predictions, predictions, transpose_b=True), 0.0)
        same = equal(labels, labels[:, 0])
        near = self.gamma * maximum(distances + self.margin, 0.0) * (distances - self.margin)
        far = self.gamma * maximum(1.0 + self.margin - distances, 0.0) * (1.0 - self.margin - distances)
        itself = eye(shape(labels)[0], dtype=bool_)
        positive = logical_and(same, logical_not(itself)) if self.remove_diagonal else same
        negative = logical_not(same)
        has_both = logical_and(reduce_any(positive, 1), reduce_any(negative, 1))
        return where(has_both, softplus(_total(near, positive) + _total(far, negative)), 0.0)

    def counted(self, losses: Tensor, mask: NumberLike | None) -> Tensor:
        """Those above 0, where the mask is true."""
        present = greater(losses, 0.0)
        return present if mask is None else logical_and(present, cast(beside(mask, losses), bool_))


def _total(terms: Tensor, pairs: Tensor) -> Tensor:
    """The logarithm of the sum of the exponentials of the terms of these pairs; of no use where there are none."""
    none = logical_not(reduce_any(pairs, 1, keepdims=True))
    return reduce_logsumexp(where(pairs, terms, where(none, 0.0, _NONE)), 1)
