"""Layers that prepare numbers: a scale and an offset, and the mean and variance of data."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.operation import Tensor
from aioflow.kernels.math.arithmetic import maximum
from aioflow.kernels.math.elementwise import sqrt
from aioflow.layers.layer import Layer, known_size, one_shape
from aioflow.layers.normalization import beside_axes
from aioflow.layers.numbers import axes, switch
from aioflow.library.initializers import Constant
from aioflow.library.variables import Variable
from aioflow.tensors.dtypes import Array
from aioflow.tensors.recursion import safe_repr

_SMALL: Final = 1e-7
"""The least deviation that inputs are divided by."""


class Rescaling(Layer):
    """inputs * scale + offset, numbers or arrays that are broadcast to the inputs.

    Examples:
        >>> await session.run(af.layers.Rescaling(1 / 255)(af.constant([0.0, 255.0])))
        array([0., 1.], dtype=float32)
    """

    supports_masking = casts_integers = True

    def __init__(self, scale: Any, offset: Any = 0.0, **options: Any) -> None:
        """TypeError for something that is neither a number nor an array of numbers."""
        super().__init__(**options)
        self.scale: Final = _numbers("scale", scale)
        self.offset: Final = _numbers("offset", offset)

    def call(self, inputs: Tensor) -> Tensor:
        """The result."""
        kind = inputs.dtype.np
        scaled: Tensor = inputs * self.scale.astype(kind) + self.offset.astype(kind)
        return scaled


class Normalization(Layer):
    """Moves and scales inputs so that the data have mean 0 and variance 1 at each place along `axis`.

        layer = af.layers.Normalization()
        layer.adapt(images)
        model = af.Sequential([layer, af.layers.Dense(3)])

    Mean and variance are given, or are those of the data of `adapt`: the first values of the weights `mean` and
    `variance` then, which are not trained.

    Args:
        axis: the axes whose places have numbers of their own; None for one mean and one variance.
        mean: the mean, a number or an array of the sizes of the axes.
        variance: the variance, likewise.
        invert: whether normalised inputs are brought back to the scale of the data.

    Examples:
        >>> layer = af.layers.Normalization(mean=2.0, variance=4.0)
        >>> await session.run(layer(af.constant([[2.0, 6.0]])))
        array([[0., 2.]], dtype=float32)
    """

    supports_masking = casts_integers = True

    def __init__(
        self,
        axis: int | Sequence[int] | None = -1,
        mean: Any = None,
        variance: Any = None,
        invert: bool = False,
        **options: Any,
    ) -> None:
        """ValueError if only one of mean and variance is given."""
        super().__init__(**options)
        self.axis: Final = () if axis is None else axes("axis", axis)
        self.invert: Final = switch("invert", invert)
        if (mean is None) is not (variance is None):
            raise ValueError("a Normalization has both mean and variance, or neither and gets them by adapt")
        self._given: Final = mean is not None
        self._moments = (_numbers("mean", mean), _numbers("variance", variance)) if self._given else None

    def adapt(self, data: Any) -> None:
        """Take mean and variance of an array, or of all arrays of an iterable, before the layer is called first.

        Raises:
            RuntimeError: the layer has been called, and its weights exist.
            TypeError, ValueError: the data are no arrays of numbers, or have none, or differ in size along the axes.
        """
        if self.built:
            raise RuntimeError(f"{self.name!r} has been called: call adapt before, or give its weights new values")
        batches = [data] if hasattr(data, "__array__") else data
        if not isinstance(batches, Iterable) or isinstance(batches, (str, bytes)):
            raise TypeError(f"adapt takes an array or an iterable of arrays, not {safe_repr(data)}")
        found = [_moments(_numbers("data", batch), self.axis) for batch in batches]
        if not sum(count for count, _, _ in found):
            raise ValueError("adapt got no numbers")
        self._moments = _joined(found)

    def build(self, input_shape: Any) -> None:
        """Know mean and variance. ValueError without any, or for others than the inputs have places."""
        if self._moments is None:
            raise ValueError("mean and variance are not known: call adapt with the data first, or give both")
        given = one_shape(input_shape)
        sizes = [known_size(given, axis) for axis in self.axis]
        self.mean, self.variance = [
            self._weight(name, value, sizes) for name, value in zip(("mean", "variance"), self._moments, strict=True)
        ]

    def _weight(self, name: str, value: Array, sizes: list[int]) -> Variable | Array:
        """The value at each place, as a weight unless it was given."""
        if value.shape != () and value.shape != tuple(sizes):
            raise ValueError(f"{name} has the shape {list(value.shape)}, and the inputs have {sizes} places")
        whole = np.broadcast_to(value, sizes).astype(self.dtype.np)
        return whole if self._given else self.add_weight(name, sizes, initializer=Constant(whole), trainable=False)

    def call(self, inputs: Tensor) -> Tensor:
        """The result."""
        mean, variance = [beside_axes(inputs, each, self.axis) for each in (self.mean, self.variance)]
        deviation = maximum(sqrt(variance), _SMALL)
        result: Tensor = inputs * deviation + mean if self.invert else (inputs - mean) / deviation
        return result


_Found = tuple[int, Array, Array]
"""The number of elements, and their mean and variance at each place."""


def _moments(data: Array, along: Sequence[int]) -> _Found:
    """Those of an array. ValueError for axes that it does not have."""
    if not all(-data.ndim <= axis < data.ndim for axis in along):
        raise ValueError(f"the data have no axes {list(along)}: their shape is {list(data.shape)}")
    kept = [axis % data.ndim for axis in along]
    rows = np.moveaxis(data, kept, range(len(kept)))
    flat = rows.reshape(*rows.shape[: len(kept)], -1)
    return flat.shape[-1], flat.mean(-1), flat.var(-1)


def _joined(found: Sequence[_Found]) -> tuple[Array, Array]:
    """The mean and variance of all arrays together. ValueError if they have different places."""
    sizes = {mean.shape for _, mean, _ in found}
    if len(sizes) > 1:
        raise ValueError(f"the arrays have different sizes along the axes: {sorted(sizes)}")
    counts, means, variances = (np.array(each) for each in zip(*[each for each in found if each[0]], strict=True))
    mean = np.average(means, 0, counts)
    return mean, np.average(variances + (means - mean) ** 2, 0, counts)


def _numbers(what: str, given: Any) -> Array:
    """The array, in double precision. TypeError for anything but numbers."""
    array = np.asarray(given)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{what} is a number or an array of numbers, not {safe_repr(given)}")
    return array.astype(np.float64)
