"""Means of losses as metrics, with the names of Keras."""

from typing import ClassVar

from aioflow.graph.operation import Tensor
from aioflow.library.losses import objectives
from aioflow.library.metrics.metric import MeanMetric


class LossMetric(MeanMetric):
    """The mean of a loss. A subclass chooses it.

    Attributes:
        loss: the loss.
    """

    kind: ClassVar[type[objectives.Loss]] = objectives.Loss

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.loss: objectives.Loss = self.kind()

    def values(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The losses."""
        return self.loss.of(labels, predictions)


class MeanSquaredError(LossMetric):
    """The mean of squared differences.

    Examples:
        >>> value, update = af.metrics.MeanSquaredError()([1.0, 2.0], [1.0, 4.0])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(2.0)
    """

    kind: ClassVar[type[objectives.Loss]] = objectives.MeanSquaredError


class MeanAbsoluteError(LossMetric):
    """The mean of absolute differences.

    Examples:
        >>> value, update = af.metrics.MeanAbsoluteError()([1.0, 2.0], [1.0, 4.0])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.0)
    """

    kind: ClassVar[type[objectives.Loss]] = objectives.MeanAbsoluteError


class MeanAbsolutePercentageError(LossMetric):
    """The mean of absolute differences in percent of the labels.

    Examples:
        >>> value, update = af.metrics.MeanAbsolutePercentageError()([1.0, 2.0], [1.0, 4.0])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(50.0)
    """

    kind: ClassVar[type[objectives.Loss]] = objectives.MeanAbsolutePercentageError


class MeanSquaredLogarithmicError(LossMetric):
    """The mean of squared differences of log(1 + x).

    Examples:
        >>> value, update = af.metrics.MeanSquaredLogarithmicError()([0.0, 1.0], [0.0, 1.0])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.0)
    """

    kind: ClassVar[type[objectives.Loss]] = objectives.MeanSquaredLogarithmicError


class Poisson(LossMetric):
    """The mean of prediction - label * log(prediction).

    Examples:
        >>> value, update = af.metrics.Poisson()([1.0], [1.0])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.9999999)
    """

    kind: ClassVar[type[objectives.Loss]] = objectives.Poisson


class KLDivergence(LossMetric):
    """The mean of the sums of label * log(label / prediction).

    Examples:
        >>> value, update = af.metrics.KLDivergence()([[0.5, 0.5]], [[0.25, 0.75]])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.14384106)
    """

    kind: ClassVar[type[objectives.Loss]] = objectives.KLDivergence


class Hinge(LossMetric):
    """The mean of max(0, 1 - label * prediction).

    Examples:
        >>> value, update = af.metrics.Hinge()([1.0, -1.0], [0.5, 0.5])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.0)
    """

    kind: ClassVar[type[objectives.Loss]] = objectives.Hinge


class SquaredHinge(LossMetric):
    """The mean of the squares of max(0, 1 - label * prediction).

    Examples:
        >>> value, update = af.metrics.SquaredHinge()([1.0, -1.0], [0.5, 0.5])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.25)
    """

    kind: ClassVar[type[objectives.Loss]] = objectives.SquaredHinge


class CategoricalHinge(LossMetric):
    """The mean of max(0, 1 + the best wrong prediction - the right one).

    Examples:
        >>> value, update = af.metrics.CategoricalHinge()([[0.0, 1.0]], [[0.5, 0.5]])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.0)
    """

    kind: ClassVar[type[objectives.Loss]] = objectives.CategoricalHinge


class LogCoshError(LossMetric):
    """The mean of log(cosh(difference)): squared where it is small, absolute where it is large.

    Examples:
        >>> value, update = af.metrics.LogCoshError()([1.0], [2.0])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.4337808)
    """

    kind: ClassVar[type[objectives.Loss]] = objectives.LogCosh

    def __init__(self, name: str = "logcosh") -> None:
        super().__init__(name)


class CosineSimilarity(LossMetric):
    """The mean of the cosines of the angles between labels and predictions along the last axis.

    Examples:
        >>> value, update = af.metrics.CosineSimilarity()([[0.0, 1.0]], [[0.0, 3.0]])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(1.0)
    """

    kind: ClassVar[type[objectives.Loss]] = objectives.CosineSimilarity

    def values(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """The cosines: the loss has the other sign."""
        return -super().values(labels, predictions)


class BinaryCrossentropy(LossMetric):
    """The mean cross entropy of labels of 0 and 1.

    Args:
        name: its name.
        from_logits: whether predictions are logits; else probabilities.
        label_smoothing: labels move by this part towards 0.5.

    Examples:
        >>> value, update = af.metrics.BinaryCrossentropy(from_logits=True)([1.0, 0.0], [0.0, 0.0])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.6931472)
    """

    def __init__(self, name: str | None = None, from_logits: bool = False, label_smoothing: float = 0.0) -> None:
        super().__init__(name)
        self.loss: objectives.Loss = objectives.BinaryCrossentropy(from_logits, label_smoothing)


class CategoricalCrossentropy(LossMetric):
    """The mean cross entropy of distributions over classes.

    Args:
        name: its name.
        from_logits: whether predictions are logits; else probabilities.
        label_smoothing: labels move by this part towards equal probabilities.

    Examples:
        >>> value, update = af.metrics.CategoricalCrossentropy()([[0.0, 1.0]], [[0.2, 0.8]])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.22314353)
    """

    def __init__(self, name: str | None = None, from_logits: bool = False, label_smoothing: float = 0.0) -> None:
        super().__init__(name)
        self.loss: objectives.Loss = objectives.CategoricalCrossentropy(from_logits, label_smoothing)


class SparseCategoricalCrossentropy(LossMetric):
    """The mean cross entropy of classes given by their numbers.

    Args:
        name: its name.
        from_logits: whether predictions are logits; else probabilities.

    Examples:
        >>> value, update = af.metrics.SparseCategoricalCrossentropy(from_logits=True)([1], [[1.0, 3.0]])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.12692805)
    """

    def __init__(self, name: str | None = None, from_logits: bool = False) -> None:
        super().__init__(name)
        self.loss: objectives.Loss = objectives.SparseCategoricalCrossentropy(from_logits)
