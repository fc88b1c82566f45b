"""Loss scales: numbers by which a loss is multiplied, so that small gradients of float16 do not become 0."""

import abc
from typing import Any, Final, Self

from aioflow.graph.building import transactional
from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.constants import constant, no_op
from aioflow.kernels.array.select import select
from aioflow.kernels.math.arithmetic import maximum
from aioflow.kernels.math.comparison import logical_and, logical_not
from aioflow.kernels.math.reduction import reduce_all
from aioflow.kernels.math.rounding import is_finite
from aioflow.library.control import group
from aioflow.library.variables import Variable
from aioflow.tensors import nest
from aioflow.tensors.dtypes import float32, int64
from aioflow.tensors.recursion import safe_repr


class LossScale(abc.ABC):
    """A number by which a loss is multiplied before its gradients are computed, and by which these are divided.

    Calling it returns the number, float32. `update` changes it by the gradients of a step.

    Examples:
        >>> isinstance(af.train.experimental.FixedLossScale(8), af.train.experimental.LossScale)
        True
    """

    def __init__(self) -> None:
        self._weights: list[Variable] = []

    @abc.abstractmethod
    def __call__(self) -> Tensor:
        """Return the present number, a scalar, float32."""

    @abc.abstractmethod
    def update(self, grads: Any) -> tuple[Operation, Tensor | bool]:
        """Return an operation that changes the number by the gradients, and whether these may be applied.

        Args:
            grads: gradients that were divided by the number already, in a nested structure; None does not count.
        """

    @abc.abstractmethod
    def get_config(self) -> dict[str, Any]:
        """Return the arguments of `from_config`."""

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Return the loss scale of a `get_config`."""
        return cls(**config)

    def variables(self) -> list[Variable]:
        """Return the variables that hold it, in the order of their creation."""
        return list(self._weights)

    def _add_weight(self, name: str, initial_value: Any, dtype: Any) -> Variable:
        """Return a new variable of that name, which does not train."""
        made = Variable(constant(initial_value, dtype), trainable=False, name=name)
        self._weights.append(made)
        return made

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value}" for name, value in self.get_config().items())
        return f"{type(self).__name__}({given})"


class FixedLossScale(LossScale):
    """A loss scale that never changes. ValueError for a number below 1.

    Examples:
        >>> await session.run(af.train.experimental.FixedLossScale(8)())
        np.float32(8.0)
    """

    def __init__(self, loss_scale_value: float) -> None:
        super().__init__()
        if isinstance(loss_scale_value, bool) or not isinstance(loss_scale_value, (int, float)):
            raise ValueError(f"loss_scale_value is a number of Python's, not {safe_repr(loss_scale_value)}")
        if not loss_scale_value >= 1:
            raise ValueError(f"loss_scale_value must be at least 1, not {loss_scale_value}")
        self._value: Final = float(loss_scale_value)

    def __call__(self) -> Tensor:
        """Return the number, float32."""
        return constant(self._value, float32)

    def update(self, grads: Any) -> tuple[Operation, bool]:
        """Return an operation that does nothing, and True."""
        return no_op(), True

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of `from_config`."""
        return {"loss_scale_value": self._value}


class DynamicLossScale(LossScale):
    """A loss scale as high as gradients bear: it grows after steps with finite ones, and shrinks after any other.

    It never shrinks below 1, and never grows to infinity. A variable holds it, and a second one counts the steps since
    it changed.

    Args:
        initial_loss_scale: the first number.
        increment_period: the number of steps in a row with finite gradients after which it grows.
        multiplier: it is multiplied or divided by this number.

    Examples:
        >>> scale = af.train.experimental.DynamicLossScale(initial_loss_scale=8)
        >>> update, finite = scale.update([af.constant([1.0, float("inf")])])
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(finite)
        np.False_
        >>> await session.run(update)
        >>> await session.run(scale())
        np.float32(4.0)
    """

    def __init__(
        self, initial_loss_scale: float = 2**15, increment_period: int = 2000, multiplier: float = 2.0
    ) -> None:
        super().__init__()
        self._initial: Final = float(initial_loss_scale)
        self._period: Final = int(increment_period)
        self._multiplier: Final = float(multiplier)
        self._current: Final = self._add_weight("current_loss_scale", self._initial, float32)
        self._good_steps: Final = self._add_weight("good_steps", 0, int64)

    @property
    def initial_loss_scale(self) -> float:
        """The first number."""
        return self._initial

    @property
    def increment_period(self) -> int:
        """After how many steps in a row it grows."""
        return self._period

    @property
    def multiplier(self) -> float:
        """By which number it grows and shrinks."""
        return self._multiplier

    def __call__(self) -> Tensor:
        """Return the number at this place: after the updates built so far."""
        return self._current.value()

    @transactional
    def update(self, grads: Any) -> tuple[Operation, Tensor]:
        """Return an operation that changes the number by the gradients, and whether all of these are finite."""
        finite = _all_finite(grads)
        scale, steps = self._current.value(), self._good_steps.value()
        due = logical_and(finite, steps >= self._period - 1)
        grown = scale * self._multiplier
        grows = logical_and(due, is_finite(grown))
        kept = select(finite, scale, maximum(scale / self._multiplier, 1.0))
        counted = select(logical_and(finite, logical_not(due)), steps + 1, constant(0, int64))
        changed = [
            self._current.assign(select(grows, grown, kept), read_value=False),
            self._good_steps.assign(counted, read_value=False),
        ]
        return group(*changed), finite

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of `from_config`."""
        return {
            "initial_loss_scale": self._initial,
            "increment_period": self._period,
            "multiplier": self._multiplier,
        }


def _all_finite(grads: Any) -> Tensor:
    """Whether no gradient has an infinity or a NaN."""
    found = []
    for gradient in nest.flatten(grads):
        if gradient is not None:
            values = gradient.values if isinstance(gradient, IndexedSlices) else convert_to_tensor(gradient)
            found.append(reduce_all(is_finite(values)))
    return reduce_all(stack(found)) if found else constant(True)


def loss_scale_of(identifier: Any) -> LossScale:
    """A loss scale itself, a fixed one for a number, a dynamic one for "dynamic". ValueError for anything else."""
    if isinstance(identifier, LossScale):
        return identifier
    if isinstance(identifier, (int, float)) and not isinstance(identifier, bool):
        return FixedLossScale(identifier)
    if identifier == "dynamic":
        return DynamicLossScale()
    raise ValueError(f"a loss scale is a number, 'dynamic' or a LossScale, not {safe_repr(identifier)}")
