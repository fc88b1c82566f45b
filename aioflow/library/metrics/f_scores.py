"""F-scores: means of precision and recall of each class, as metrics with the names of Keras."""

from typing import Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import ones_like
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, greater, logical_and
from aioflow.kernels.math.elementwise import abs as absolute
from aioflow.kernels.math.reduction import reduce_max, reduce_mean, reduce_sum
from aioflow.library.losses.objectives import beside
from aioflow.library.metrics.metric import Metric
from aioflow.library.metrics.state import Pair, metric, ratio, sum_up
from aioflow.tensors.dtypes import float32


class FBetaScore(Metric):
    """(1 + beta²) * precision * recall / (beta² * precision + recall), for labels and predictions [batch, classes].

    Args:
        average: None for the score of each class; "micro" for that of all classes together, "macro" for the mean of the
            scores of classes, "weighted" for that by the number of their labels.
        beta: the weight of recall.
        threshold: predictions above it are positive; the greatest of each element by default.
        name: its name.

    Examples:
        >>> value, update = af.metrics.FBetaScore(beta=2.0)([[0, 1], [1, 0]], [[0.2, 0.8], [0.3, 0.7]])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        array([0.       , 0.8333333], dtype=float32)
    """

    def __init__(
        self, average: str | None = None, beta: float = 1.0, threshold: float | None = None, name: str | None = None
    ) -> None:
        super().__init__(name or ("f1_score" if type(self) is F1Score else "fbeta_score"))
        if average not in (None, "micro", "macro", "weighted"):
            raise ValueError(f"average is None, 'micro', 'macro' or 'weighted', not {average!r}")
        if not beta > 0:
            raise ValueError(f"beta is more than 0, not {beta}")
        if threshold is not None and not 0 < threshold <= 1:
            raise ValueError(f"threshold is more than 0 and at most 1, not {threshold}")
        self._average: Final = average
        self._beta: Final = beta
        self._threshold: Final = threshold

    def measure(self, labels: Tensor, predictions: Tensor, weights: Tensor | None) -> Pair:
        """The score, and its update."""
        if predictions.shape.ndims != 2:
            raise ValueError(f"predictions are [batch, classes], not of shape {predictions.shape}")
        truth, guess = cast(labels, float32), cast(self._positive(predictions), float32)
        each = ones_like(truth) if weights is None else beside(weights, truth)
        axis = None if self._average == "micro" else 0
        named = {
            "true_positives": guess * truth, "false_positives": guess * (1.0 - truth),
            "false_negatives": (1.0 - guess) * truth, "labels": truth,
        }  # fmt: skip
        sums = [sum_up(reduce_sum(values * each, axis), name) for name, values in named.items()]
        return metric(self._score, sums, None, None)

    def _positive(self, predictions: Tensor) -> Tensor:
        """Which predictions are positive."""
        if self._threshold is not None:
            return greater(predictions, self._threshold)
        best = reduce_max(predictions, -1, keepdims=True)
        return logical_and(equal(predictions, best), greater(absolute(predictions), 1e-9))

    def _score(self, tp: Tensor, fp: Tensor, fn: Tensor, labels: Tensor, name: str) -> Tensor:
        precision, recall, square = ratio(tp, tp + fp), ratio(tp, tp + fn), self._beta**2
        scores = ratio((1 + square) * precision * recall, square * precision + recall)
        if self._average == "weighted":
            return reduce_sum(scores * ratio(labels, reduce_sum(labels)), name=name)
        return reduce_mean(scores, name=name) if self._average == "macro" else scores


class F1Score(FBetaScore):
    """2 * precision * recall / (precision + recall). See `FBetaScore`.

    Args:
        average: None, "micro", "macro" or "weighted".
        threshold: predictions above it are positive; the greatest of each element by default.
        name: its name.

    Examples:
        >>> value, update = af.metrics.F1Score("macro")([[0, 1], [1, 0]], [[0.2, 0.8], [0.3, 0.7]])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.33333334)
    """

    def __init__(self, average: str | None = None, threshold: float | None = None, name: str | None = None) -> None:
        super().__init__(average, 1.0, threshold, name)
