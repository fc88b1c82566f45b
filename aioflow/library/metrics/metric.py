"""Metrics as objects, with the names of Keras: from labels, predictions and weights to a value and its update."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final, Self

from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.effects import changes_variables
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import identity, ones, ones_like, zeros
from aioflow.kernels.array.shapes import reshape
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.library.control import name_scope
from aioflow.library.losses.objectives import beside
from aioflow.library.metrics.means import mean
from aioflow.library.metrics.state import Pair, metric_variable, publish, sum_up
from aioflow.library.variables import Variable
from aioflow.tensors.class_names import snake_case
from aioflow.tensors.dtypes import DTypeLike, ShapeLike, as_dtype, float32


class _Remembering:
    """What remembers its arguments, for further objects like it; a base, so that tools show those of `__init__`."""

    _made_with: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **options: Any) -> Self:
        made = super().__new__(cls)
        made._made_with = args, options
        return made


class Metric(_Remembering):
    """A metric. A subclass defines `measure`, from labels, predictions and weights to the value and the update.

    Or it defines `update_state` and `result`, as for Keras, and makes its variables in `__init__` by `add_weight`. Each
    use of the metric, such as training and validation, makes an object anew, with the same arguments and variables of
    its own.

    `compile` takes it among `metrics`. In a graph of your own, run its update for each batch.

    Args:
        name: its name in the history of `fit`; that of its class, in lower case, by default.
        dtype: the dtype of its variables, unless they have another one.

    Examples:
        >>> class Largest(af.metrics.Metric):
        ...     def measure(self, labels, predictions, weights):
        ...         return af.metrics.mean(af.reduce_max(predictions))
        >>> value, update = Largest()([0.0], [[1.0, 3.0]])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(3.0)
        >>> class Right(af.metrics.Metric):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.count = self.add_weight("count")
        ...     def update_state(self, y_true, y_pred, sample_weight=None):
        ...         self.count.assign_add(af.count_nonzero(af.equal(y_true, y_pred), dtype=af.float32))
        ...     def result(self):
        ...         return self.count
        >>> value, update = Right()([1, 2, 3], [1, 2, 4])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(2.0)
    """

    def __init__(self, name: str | None = None, dtype: DTypeLike | None = None) -> None:
        self.name: Final = name or snake_case(type(self).__name__)
        self.dtype: Final = float32 if dtype is None else as_dtype(dtype)

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
        if type(self).update_state is Metric.update_state:
            raise NotImplementedError(f"{type(self).__name__} defines neither measure, nor update_state and result")
        graph, own = get_default_graph(), self._with_variables()
        before = len(graph.get_operations())
        own.update_state(labels, predictions, weights)
        changes = [made for made in graph.get_operations()[before:] if changes_variables(made.definition)]
        with graph.control_dependencies(changes):
            update = identity(convert_to_tensor(own.result()))
        return convert_to_tensor(own.result()), update

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> object:
        """Change the variables by a batch."""
        raise NotImplementedError(f"{type(self).__name__} defines no update_state")

    def result(self) -> Any:
        """The value of the metric, from its variables."""
        raise NotImplementedError(f"{type(self).__name__} defines no result")

    def add_weight(
        self,
        name: str | None = None,
        shape: ShapeLike = (),
        initializer: str | Callable[..., Tensor] = "zeros",
        dtype: DTypeLike | None = None,
    ) -> Variable:
        """Make a variable, in `__init__`.

        Args:
            name: its name.
            shape: its shape.
            initializer: "zeros", "ones", or a function (shape, dtype=) that gives its value before the first batch.
            dtype: its dtype; that of the metric by default.

        Raises:
            ValueError: there is no initializer of that name.
        """
        if isinstance(initializer, str) and initializer not in _INITIALIZERS:
            raise ValueError(f"the initializer of a metric is 'zeros', 'ones' or a function, not {initializer!r}")
        initial = _INITIALIZERS[initializer] if isinstance(initializer, str) else initializer
        if not _is_used.get():
            return _Unused(name)  # type: ignore[return-value]
        given = self.dtype if dtype is None else as_dtype(dtype)
        return metric_variable(shape, given, name, lambda sizes, of: initial(sizes, dtype=of))

    def _with_variables(self) -> Self:
        """Another object with the same arguments, which has variables."""
        args, options = self._made_with
        token = _is_used.set(True)
        try:
            return type(self)(*args, **options)
        finally:
            _is_used.reset(token)


_INITIALIZERS: Final[Mapping[str, Callable[..., Tensor]]] = {"zeros": zeros, "ones": ones}
_is_used: Final[ContextVar[bool]] = ContextVar("aioflow_metric_is_used", default=False)
"""Whether a metric that is made is one that is used, and has variables."""


class _Unused:
    """What stands for a variable in a metric that is not used itself."""

    def __init__(self, name: str | None) -> None:
        self._name: Final = name

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"the variable {self._name!r} of a metric exists where the metric is used: in update_state and result, "
            f"which the metric calls itself when it is called with labels and predictions (asked for {name!r})"
        )


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
