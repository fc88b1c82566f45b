"""Activations as layers: functions by name, rectifiers with arguments or weights, and softmax."""

from collections.abc import Sequence
from typing import Any, Final

from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import zeros_like
from aioflow.kernels.array.select import where
from aioflow.kernels.math.elementwise import exp
from aioflow.kernels.math.reduction import reduce_logsumexp
from aioflow.kernels.nn.activation import relu as plain_relu
from aioflow.kernels.nn.softmax import softmax
from aioflow.layers import activations, by_name, numbers
from aioflow.layers.layer import Layer, known_size, one_shape
from aioflow.layers.masks import MASKED, with_axes
from aioflow.library.variables import Variable


class _Elementwise(Layer):
    """A function of each element."""

    supports_masking = casts_integers = True


class Activation(Layer):
    """A function of each element, given itself or by its name.

    Examples:
        >>> await session.run(af.layers.Activation("relu")(af.constant([-1.0, 2.0])))
        array([0., 2.], dtype=float32)
    """

    supports_masking = True

    def __init__(self, activation: Any, **options: Any) -> None:
        """ValueError for an unknown name."""
        super().__init__(**options)
        self.activation: Final = by_name.activation(activation)

    def call(self, inputs: Tensor) -> Tensor:
        """The result."""
        return inputs if self.activation is None else self.activation(inputs)


class ReLU(_Elementwise):
    """The rectifier: inputs from `threshold` up to `max_value`; below, `negative_slope` times their distance from it.

    Examples:
        >>> await session.run(af.layers.ReLU(max_value=1.0)(af.constant([-1.0, 0.5, 2.0])))
        array([0. , 0.5, 1. ], dtype=float32)
    """

    def __init__(
        self, max_value: float | None = None, negative_slope: float = 0.0, threshold: float = 0.0, **options: Any
    ) -> None:
        """ValueError for numbers below 0."""
        super().__init__(**options)
        self.max_value: Final = None if max_value is None else numbers.at_least("max_value", max_value, 0)
        self.negative_slope: Final = numbers.at_least("negative_slope", negative_slope, 0)
        self.threshold: Final = numbers.at_least("threshold", threshold, 0)

    def call(self, inputs: Tensor) -> Tensor:
        """The result."""
        return activations.relu(inputs, self.negative_slope, self.max_value, self.threshold)


class LeakyReLU(_Elementwise):
    """Inputs where they are positive, else `negative_slope` times the inputs.

    Examples:
        >>> await session.run(af.layers.LeakyReLU(negative_slope=0.1)(af.constant([-1.0, 2.0])))
        array([-0.1,  2. ], dtype=float32)
    """

    def __init__(self, negative_slope: float = 0.3, **options: Any) -> None:
        """TypeError for something that is no number."""
        super().__init__(**options)
        self.negative_slope: Final = numbers.number("negative_slope", negative_slope)

    def call(self, inputs: Tensor) -> Tensor:
        """The result."""
        return activations.leaky_relu(inputs, self.negative_slope)


class ELU(_Elementwise):
    """Inputs where they are positive, else alpha * (e^inputs - 1).

    Examples:
        >>> await session.run(af.layers.ELU()(af.constant([-1.0, 2.0])))
        array([-0.63212055,  2.        ], dtype=float32)
    """

    def __init__(self, alpha: float = 1.0, **options: Any) -> None:
        """TypeError for something that is no number."""
        super().__init__(**options)
        self.alpha: Final = numbers.number("alpha", alpha)

    def call(self, inputs: Tensor) -> Tensor:
        """The result."""
        return activations.elu(inputs, self.alpha)


class PReLU(_Elementwise):
    """Inputs where they are positive, else a trained alpha for each place times the inputs [He et al. 2015].

    The weight is `alpha`, of the shape of the inputs without the batch. It has size 1 along `shared_axes`, which are
    counted with the batch as 0: (1, 2) gives each channel of images one alpha.

    Examples:
        >>> layer = af.layers.PReLU(alpha_initializer="ones")
        >>> y = layer(af.constant([[-1.0, 2.0]]))
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(y)
        array([[-1.,  2.]], dtype=float32)
    """

    def __init__(
        self,
        alpha_initializer: Any = "zeros",
        alpha_regularizer: Any = None,
        alpha_constraint: Any = None,
        shared_axes: int | Sequence[int] | None = None,
        **options: Any,
    ) -> None:
        """ValueError for an unknown name, TypeError for axes that are not whole numbers."""
        super().__init__(**options)
        self._options = by_name.weight(alpha_initializer, alpha_regularizer, alpha_constraint)
        self.shared_axes: Final = () if shared_axes is None else numbers.axes("shared_axes", shared_axes)

    def build(self, input_shape: Any) -> None:
        """Make alpha. ValueError for an axis that the inputs do not have."""
        given = one_shape(input_shape)
        if given.ndims is None or not all(1 <= axis < given.ndims for axis in self.shared_axes):
            raise ValueError(f"shared_axes are axes of the inputs after the batch, not {self.shared_axes} of {given}")
        sizes = [1 if axis in self.shared_axes else known_size(given, axis) for axis in range(1, given.ndims)]
        self.alpha: Variable = self.add_weight("alpha", sizes, None, *self._options)

    def call(self, inputs: Tensor) -> Tensor:
        """The result."""
        result: Tensor = plain_relu(inputs) - plain_relu(-inputs) * self.alpha
        return result


class Softmax(_Elementwise):
    """Positive numbers whose sum along the axis is 1: e^inputs, divided by the sum of these. Masked places are 0.

    Examples:
        >>> await session.run(af.layers.Softmax()(af.constant([[1.0, 1.0]])))
        array([[0.5, 0.5]], dtype=float32)
    """

    def __init__(self, axis: int | Sequence[int] = -1, **options: Any) -> None:
        """TypeError for axes that are not whole numbers."""
        super().__init__(**options)
        self.axis: Final = numbers.axes("axis", axis)

    def call(self, inputs: Tensor, mask: Any = None) -> Tensor:
        """The result; `mask` has the rank of the inputs and is broadcast to them, or is one of steps."""
        seen = None if mask is None else with_axes(convert_to_tensor(mask), inputs)
        kept = inputs if seen is None else where(seen, inputs, zeros_like(inputs) + MASKED)
        if len(self.axis) == 1:
            found: Tensor = softmax(kept, self.axis[0])
        else:
            found = exp(kept - reduce_logsumexp(kept, self.axis, keepdims=True))
        return found if seen is None else where(seen, found, zeros_like(found))
