"""How well predictions fit numbers: errors, explained variance and correlations, as metrics with the names of Keras."""

from typing import Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import ones_like, zeros_like
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import size
from aioflow.kernels.math.arithmetic import squared_difference
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal
from aioflow.kernels.math.elementwise import sqrt, square
from aioflow.kernels.math.reduction import reduce_mean, reduce_sum
from aioflow.library.losses.objectives import beside
from aioflow.library.metrics.accuracies import beside_last
from aioflow.library.metrics.metric import MeanMetric, Metric
from aioflow.library.metrics.state import Pair, metric, ratio, sum_up
from aioflow.tensors.dtypes import float32


class RootMeanSquaredError(Metric):
    """The root of the mean of squared differences.

    Examples:
        >>> value, update = af.metrics.RootMeanSquaredError()([1.0, 2.0], [1.0, 4.0])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.4142135)
    """

    def measure(self, labels: Tensor, predictions: Tensor, weights: Tensor | None) -> Pair:
        """The root, and its update."""
        off = squared_difference(cast(beside_last(labels, predictions), float32), cast(predictions, float32))
        each = ones_like(off) if weights is None else beside(weights, off) * ones_like(off)
        sums = sum_up(reduce_sum(off * each), "total"), sum_up(reduce_sum(each), "count")
        return metric(lambda total, count, name: sqrt(ratio(total, count), name=name), sums, None, None)


class R2Score(Metric):
    """1 - the squared differences over those of the labels from their mean, for labels [batch, outputs].

    Args:
        class_aggregation: "uniform_average" for the mean over outputs, "variance_weighted_average" for that by the
            variances of the labels, None for the score of each output.
        num_regressors: the number of variables of the model, by which the score is adjusted; 0 for no adjustment.
        name: its name.

    Examples:
        >>> value, update = af.metrics.R2Score()([[1.0], [2.0], [3.0]], [[1.0], [2.0], [4.0]])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.5)
    """

    def __init__(
        self, class_aggregation: str | None = "uniform_average", num_regressors: int = 0, name: str = "r2_score"
    ) -> None:
        super().__init__(name)
        if class_aggregation not in (None, "uniform_average", "variance_weighted_average"):
            raise ValueError(
                "class_aggregation is 'uniform_average', 'variance_weighted_average' or None, not "
                f"{class_aggregation!r}"
            )
        if num_regressors < 0:
            raise ValueError(f"num_regressors is at least 0, not {num_regressors}")
        self._aggregation: Final = class_aggregation
        self._regressors: Final = num_regressors

    def measure(self, labels: Tensor, predictions: Tensor, weights: Tensor | None) -> Pair:
        """The score, and its update."""
        truth, guess = cast(beside_last(labels, predictions), float32), cast(predictions, float32)
        if guess.shape.ndims != 2:
            raise ValueError(f"predictions are [batch, outputs], not of shape {guess.shape}")
        each = ones_like(truth) if weights is None else beside(weights, truth) * ones_like(truth)
        named = {
            "squared": square(truth) * each, "total": truth * each, "residual": squared_difference(truth, guess) * each,
            "count": each,
        }  # fmt: skip
        sums = [sum_up(reduce_sum(values, 0), name) for name, values in named.items()]
        rows = sum_up(cast(size(truth), float32), "rows")  # as Keras counts them, for all outputs
        return metric(self._score, [*sums, rows], None, None)

    def _score(
        self, squared: Tensor, total: Tensor, residual: Tensor, count: Tensor, rows: Tensor, name: str
    ) -> Tensor:
        spread = squared - total * ratio(total, count)
        scores = where(equal(spread, 0.0), zeros_like(spread), 1.0 - ratio(residual, spread))
        if self._aggregation == "uniform_average":
            scores = reduce_mean(scores)
        elif self._aggregation is not None:
            scores = ratio(reduce_sum(scores * spread), reduce_sum(spread))
        if self._regressors:
            left = rows - self._regressors - 1.0
            scores = where(left > 0.0, 1.0 - (1.0 - scores) * ratio(rows - 1.0, left), scores)
        return scores


class PearsonCorrelation(MeanMetric):
    """The mean of the correlations of labels and predictions along an axis.

    Args:
        name: its name.
        axis: the axis.

    Examples:
        >>> value, update = af.metrics.PearsonCorrelation()([[0.0, 1.0, 2.0]], [[0.0, 2.0, 4.0]])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.0)
    """

    def __init__(self, name: str | None = None, axis: int = -1) -> None:
        super().__init__(name)
        self._axis: Final = axis

    def values(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The correlation of each element."""
        (one, one_spread), (other, other_spread) = [
            _centered(cast(each, float32), self._axis) for each in (labels, predictions)
        ]
        return reduce_mean(one * other, self._axis) / (sqrt(one_spread) * sqrt(other_spread) + 1e-7)


class ConcordanceCorrelation(MeanMetric):
    """The mean of the concordance correlations along an axis: they are less where means or spreads differ.

    Args:
        name: its name.
        axis: the axis.

    Examples:
        >>> value, update = af.metrics.ConcordanceCorrelation()([[0.0, 1.0, 2.0]], [[1.0, 2.0, 3.0]])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.5714285)
    """

    def __init__(self, name: str | None = None, axis: int = -1) -> None:
        super().__init__(name)
        self._axis: Final = axis

    def values(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The correlation of each element."""
        truth, guess = cast(labels, float32), cast(predictions, float32)
        (one, one_spread), (other, other_spread) = _centered(truth, self._axis), _centered(guess, self._axis)
        apart = squared_difference(reduce_mean(truth, self._axis), reduce_mean(guess, self._axis))
        return 2.0 * reduce_mean(one * other, self._axis) / (one_spread + other_spread + apart + 1e-7)


def _centered(values: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The values without their mean, and their variance."""
    off = values - reduce_mean(values, axis, keepdims=True)
    return off, reduce_mean(square(off), axis)
