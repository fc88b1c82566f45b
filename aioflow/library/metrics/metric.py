"""Metrics as objects, with the names of Keras: from labels, predictions and weights to a value and its update."""

from collections.abc import Callable
from typing import Any, Final

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import ones_like
from aioflow.kernels.array.shapes import reshape
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.library.control import name_scope
from aioflow.library.losses.objectives import beside
from aioflow.library.metrics.means import mean
from aioflow.library.metrics.state import Pair, publish, sum_up
from aioflow.tensors.class_names import snake_case
from aioflow.tensors.dtypes import float32


class Metric:
    """A metric. A subclass defines `measure`, from labels, predictions and weights to the value and the update.

    `compile` takes it among `metrics`. In a graph of your own, run its update for each batch.

    Args:
        name: its name in the history of `fit`; that of its class, in lower case, by default.

    Examples:
        >>> class Largest(af.metrics.Metric):
        ...     def measure(self, labels, predictions, weights):
        ...         return af.metrics.mean(af.reduce_max(predictions))
        >>> value, update = Largest()([0.0], [[1.0, 3.0]])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(3.0)
    """

    def __init__(self, name: str | None = None) -> None:
        self.name: Final = name or snake_case(type(self).__name__)

    @transactional
    def __call__(self, y_true: NumberLike, y_pred: NumberLike, sample_weight: NumberLike | None = None) -> Pair:
        """The value over all batches so far, and an operation that adds the batch and returns the new value.

        Args:
            y_true: the labels.
            y_pred: the predictions.
            sample_weight: a factor for each element of the batch, [batch], or for each value; 1 by default.
        """
        with name_scope(None, snake_case(type(self).__name__), [y_true, y_pred, sample_weight]):
            weights = None if sample_weight is None else cast(convert_to_tensor(sample_weight), float32)
            return self.measure(convert_to_tensor(y_true), convert_to_tensor(y_pred), weights)

    def measure(self, labels: Tensor, predictions: Tensor, weights: Tensor | None) -> Pair:
        """The value of the metric, and its update."""
        raise NotImplementedError(f"{type(self).__name__} defines no measure")


class MeanMetric(Metric):
    """A metric that is the weighted mean of values of elements. A subclass defines `values`."""

    def values(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """A value for each element, [batch, ...]."""
        raise NotImplementedError(f"{type(self).__name__} defines no values")

    def measure(self, labels: Tensor, predictions: Tensor, weights: Tensor | None) -> Pair:
        """The mean, and its update."""
        values = cast(self.values(labels, predictions), float32)
        return mean(values, None if weights is None else beside(weights, values))


class MeanMetricWrapper(MeanMetric):
    """The weighted mean of what a function of labels and predictions returns.

    Args:
        fn: the function.
        name: the name of the metric; that of the function by default.
        **kwargs: further arguments of the function.

    Examples:
        >>> value, update = af.metrics.MeanMetricWrapper(lambda y_true, y_pred: y_pred - y_true)([1.0, 2.0], [2.0, 5.0])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(2.0)
    """

    def __init__(self, fn: Callable[..., Any], name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name or getattr(fn, "__name__", None))
        self._function: Final = fn
        self._arguments: Final = kwargs

    def values(self, labels: Tensor, predictions: Tensor) -> Tensor:
        """What the function returns."""
        return convert_to_tensor(self._function(labels, predictions, **self._arguments))


class Mean:
    """The weighted mean of values.

    Args:
        name: its name.

    Examples:
        >>> value, update = af.metrics.Mean()([1.0, 2.0, 6.0])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(3.0)
    """

    def __init__(self, name: str = "mean") -> None:
        self.name: Final = name

    def __call__(self, values: NumberLike, sample_weight: NumberLike | None = None) -> Pair:
        """The value over all batches so far, and an operation that adds the batch and returns the new value."""
        given = convert_to_tensor(values)
        weights = None if sample_weight is None else beside(sample_weight, cast(given, float32))
        return mean(given, weights)


class Sum:
    """The weighted sum of values.

    Args:
        name: its name.

    Examples:
        >>> value, update = af.metrics.Sum()([1.0, 2.0, 6.0], [1, 1, 0.5])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(6.0)
    """

    def __init__(self, name: str = "sum") -> None:
        self.name: Final = name

    @transactional
    def __call__(self, values: NumberLike, sample_weight: NumberLike | None = None) -> Pair:
        """The value over all batches so far, and an operation that adds the batch and returns the new value."""
        with name_scope(None, "sum", [values, sample_weight]):
            given = cast(convert_to_tensor(values), float32)
            weighted = given if sample_weight is None else given * beside(sample_weight, given)
            total = sum_up(reduce_sum(weighted), "total")
            return publish(total.variable.value(), total.updated, None, None)


def flat(labels: Tensor, predictions: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """All three as vectors, with a weight for each prediction."""
    ones = ones_like(predictions, float32)
    each = ones if weights is None else beside(weights, ones) * ones
    return reshape(labels, [-1]), reshape(predictions, [-1]), reshape(each, [-1])
