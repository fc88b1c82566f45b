"""Layers that act in training only: noise, dropped elements; and a penalty of activities."""

import math
from collections.abc import Sequence
from typing import Any, Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.math.arithmetic import add
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import greater_equal
from aioflow.kernels.math.random import random_normal, random_uniform
from aioflow.layers import numbers
from aioflow.layers.convolution import layout_of
from aioflow.layers.layer import Layer, one_shape
from aioflow.layers.regularizers import L1L2
from aioflow.library.nn_functions import dropout
from aioflow.tensors.recursion import safe_repr

_SELU: Final = -1.0507009873554805 * 1.6732632423543772
"""What SELU gives far below 0."""


class _Noisy(Layer):
    """A layer that changes its inputs at random in training, and passes them on otherwise."""

    supports_masking = casts_integers = True

    def __init__(self, seed: int | None = None, **options: Any) -> None:
        """`seed` makes the random numbers the same in each session. TypeError unless it is a whole number."""
        super().__init__(**options)
        self.seed: Final = numbers.seed(seed)

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        """The result."""
        return self._noisy(inputs) if training else inputs

    def _noisy(self, inputs: Tensor) -> Tensor:
        raise NotImplementedError


class Dropout(_Noisy):
    """In training, elements are dropped with probability `rate`, the others scaled to keep the expected sum.

    Along axes of size 1 of `noise_shape` all elements are dropped or kept together; None stands for the size of inputs.

    Examples:
        >>> await session.run(af.layers.Dropout(0.5)(af.ones([2])))
        array([1., 1.], dtype=float32)
    """

    def __init__(
        self, rate: float, noise_shape: Sequence[int | None] | None = None, seed: int | None = None, **options: Any
    ) -> None:
        """ValueError for a rate outside of [0, 1), TypeError for a shape that is no sequence of sizes."""
        super().__init__(seed, **options)
        self.rate: Final = numbers.rate("rate", rate)
        self._noise_shape = _checked_shape(noise_shape)

    def _noisy(self, inputs: Tensor) -> Tensor:
        return dropout(inputs, rate=self.rate, noise_shape=self._noise_shape, seed=self.seed)


class _SpatialDropout(Dropout):
    """In training, whole channels are dropped with probability `rate`, the others scaled."""

    _axes: int

    def __init__(self, rate: float, data_format: str | None = None, seed: int | None = None, **options: Any) -> None:
        """ValueError for a rate outside of [0, 1), or an unknown format."""
        self.data_format: Final = data_format or "channels_last"
        layout_of(self.data_format, self._axes)
        places = [1] * self._axes
        last = self.data_format == "channels_last"
        super().__init__(rate, [None, *places, None] if last else [None, None, *places], seed, **options)

    def build(self, input_shape: Any) -> None:
        """Nothing. ValueError for inputs of another rank."""
        one_shape(input_shape, self._axes + 2)


class SpatialDropout1D(_SpatialDropout):
    """In training, a channel is dropped at all steps, or at none: [batch, steps, channels].

    Examples:
        >>> layer = af.layers.SpatialDropout1D(0.5)
        >>> layer(np.ones((2, 8, 3), np.float32), training=True).shape
        TensorShape([2, 8, 3])
    """

    _axes = 1

    def __init__(self, rate: float, seed: int | None = None, **options: Any) -> None:
        super().__init__(rate, None, seed, **options)


class SpatialDropout2D(_SpatialDropout):
    """In training, a channel of images is dropped as a whole, or not at all: [batch, rows, columns, channels].

    Examples:
        >>> layer = af.layers.SpatialDropout2D(0.5)
        >>> layer(np.ones((2, 8, 8, 3), np.float32), training=True).shape
        TensorShape([2, 8, 8, 3])
    """

    _axes = 2


class SpatialDropout3D(_SpatialDropout):
    """In training, a channel of volumes is dropped as a whole, or not at all.

    Examples:
        >>> layer = af.layers.SpatialDropout3D(0.5)
        >>> layer(np.ones((2, 4, 8, 8, 3), np.float32), training=True).shape
        TensorShape([2, 4, 8, 8, 3])
    """

    _axes = 3


class AlphaDropout(Dropout):
    """Dropout for nets with the activation "selu" [Klambauer et al. 2017].

    Dropped elements become the least value of SELU. Then all are scaled and moved so that mean 0 and variance 1 stay.

    Examples:
        >>> await session.run(af.layers.AlphaDropout(0.5)(af.constant([1.0, 2.0]), training=False))
        array([1., 2.], dtype=float32)
    """

    def _noisy(self, inputs: Tensor) -> Tensor:
        known: Any = shape(inputs)
        if self._noise_shape is not None:
            known = [known[axis] if size is None else size for axis, size in enumerate(self._noise_shape)]
        kept = cast(greater_equal(random_uniform(known, seed=self.seed), self.rate), inputs.dtype)
        factor = ((1 - self.rate) * (1 + self.rate * _SELU**2)) ** -0.5
        moved: Tensor = (inputs * kept + (1.0 - kept) * _SELU) * factor - factor * _SELU * self.rate
        return moved


class GaussianNoise(_Noisy):
    """In training, normal noise of that standard deviation is added.

    Examples:
        >>> await session.run(af.layers.GaussianNoise(0.1)(af.ones([2])))
        array([1., 1.], dtype=float32)
    """

    def __init__(self, stddev: float, seed: int | None = None, **options: Any) -> None:
        """ValueError for a deviation below 0."""
        super().__init__(seed, **options)
        self.stddev: Final = numbers.at_least("stddev", stddev, 0)

    def _noisy(self, inputs: Tensor) -> Tensor:
        return add(inputs, random_normal(shape(inputs), stddev=self.stddev, dtype=inputs.dtype, seed=self.seed))


class GaussianDropout(_Noisy):
    """In training, elements are multiplied by normal noise of mean 1 and variance rate / (1 - rate).

    Examples:
        >>> await session.run(af.layers.GaussianDropout(0.5)(af.constant([1.0, 2.0]), training=False))
        array([1., 2.], dtype=float32)
    """

    def __init__(self, rate: float, seed: int | None = None, **options: Any) -> None:
        """ValueError for a rate outside of [0, 1)."""
        super().__init__(seed, **options)
        self.rate: Final = numbers.rate("rate", rate)

    def _noisy(self, inputs: Tensor) -> Tensor:
        spread = math.sqrt(self.rate / (1 - self.rate))
        noise = random_normal(shape(inputs), mean=1.0, stddev=spread, dtype=inputs.dtype, seed=self.seed)
        noisy: Tensor = inputs * noise
        return noisy


class ActivityRegularization(Layer):
    """The inputs themselves; `l1` times their magnitudes and `l2` times their squares join the loss, by element.

    Examples:
        >>> layer = af.layers.ActivityRegularization(l2=0.1)
        >>> y = layer(af.constant([[1.0, 2.0]]))
        >>> await session.run(af.losses.get_total_loss())
        np.float32(0.5)
    """

    supports_masking = casts_integers = True

    def __init__(self, l1: float = 0.0, l2: float = 0.0, **options: Any) -> None:
        """ValueError for a negative factor."""
        super().__init__(**options)
        self._activity: Final = L1L2(l1, l2)

    def call(self, inputs: Tensor) -> Tensor:
        """The inputs."""
        self.add_activity(self._activity, inputs)
        return inputs


def _checked_shape(given: Any) -> list[int | None] | None:
    """The shape of random decisions, if one is given. TypeError unless it is a sequence of sizes and None."""
    if given is None:
        return None
    if not numbers.is_sequence(given):
        raise TypeError(f"noise_shape is a sequence of sizes, not {safe_repr(given)}")
    return [None if size is None else numbers.whole("a size of noise_shape", size, 1) for size in given]
