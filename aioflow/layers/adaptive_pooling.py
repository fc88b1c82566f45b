"""Pooling to a given size: windows of nearly one size that cover each axis, some of which may overlap."""

from collections.abc import Callable
from typing import Any, ClassVar, Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.math.reduction import reduce_max, reduce_mean
from aioflow.layers.convolution import Sizes, layout_of
from aioflow.layers.layer import Layer, known_size, one_shape
from aioflow.layers.numbers import per_axis


class _AdaptivePooling(Layer):
    """Pooling of as many windows along each axis as the result has places."""

    _axes: int
    _reduce: ClassVar[Callable[..., Tensor]]

    def __init__(self, output_size: Sizes, data_format: str | None = None, **options: Any) -> None:
        """ValueError for sizes for another number of axes, or an unknown format."""
        super().__init__(**options)
        self.output_size: Final = per_axis("output_size", output_size, self._axes)
        self.data_format: Final = data_format or "channels_last"
        layout_of(self.data_format, self._axes)

    def call(self, inputs: Tensor) -> Tensor:
        """The result. ValueError for inputs of another rank, or whose sizes are unknown."""
        one_shape(inputs.shape, self._axes + 2)
        first = 1 if self.data_format == "channels_last" else 2
        for axis, count in enumerate(self.output_size, start=first):
            inputs = self._along(inputs, axis, count)
        return inputs

    def _along(self, inputs: Tensor, axis: int, count: int) -> Tensor:
        """That many windows along one axis: window i from the place i * size / count, rounded down, on."""
        size = known_size(inputs.shape, axis)
        before = [slice(None)] * axis
        bounds = [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
        windows = [inputs[(*before, slice(start, end))] for start, end in bounds]
        return concat([type(self)._reduce(window, [axis], True) for window in windows], axis)


class _AdaptiveAveragePooling(_AdaptivePooling):
    _reduce = staticmethod(reduce_mean)


class _AdaptiveMaxPooling(_AdaptivePooling):
    _reduce = staticmethod(reduce_max)


class AdaptiveAveragePooling1D(_AdaptiveAveragePooling):
    """The means of `output_size` windows of the steps: [batch, steps, channels] gives [batch, size, channels].

    Examples:
        >>> x = np.arange(4.0, dtype=np.float32).reshape(1, 4, 1)
        >>> (await session.run(af.layers.AdaptiveAveragePooling1D(2)(x)))[0, :, 0]
        array([0.5, 2.5], dtype=float32)
    """

    _axes = 1


class AdaptiveAveragePooling2D(_AdaptiveAveragePooling):
    """The means of windows of images, as many as `output_size` has rows and columns.

    Examples:
        >>> x = np.arange(16.0, dtype=np.float32).reshape(1, 4, 4, 1)
        >>> (await session.run(af.layers.AdaptiveAveragePooling2D(2)(x)))[0, :, :, 0]
        array([[ 2.5,  4.5],
               [10.5, 12.5]], dtype=float32)
    """

    _axes = 2


class AdaptiveAveragePooling3D(_AdaptiveAveragePooling):
    """The means of windows of volumes, as many as `output_size` has places.

    Examples:
        >>> af.layers.AdaptiveAveragePooling3D(2)(np.ones((1, 4, 4, 4, 3), np.float32)).shape
        TensorShape([1, 2, 2, 2, 3])
    """

    _axes = 3


class AdaptiveMaxPooling1D(_AdaptiveMaxPooling):
    """The largest elements of `output_size` windows of the steps.

    Examples:
        >>> x = np.arange(4.0, dtype=np.float32).reshape(1, 4, 1)
        >>> (await session.run(af.layers.AdaptiveMaxPooling1D(2)(x)))[0, :, 0]
        array([1., 3.], dtype=float32)
    """

    _axes = 1


class AdaptiveMaxPooling2D(_AdaptiveMaxPooling):
    """The largest elements of windows of images, as many as `output_size` has rows and columns.

    Examples:
        >>> x = np.arange(16.0, dtype=np.float32).reshape(1, 4, 4, 1)
        >>> (await session.run(af.layers.AdaptiveMaxPooling2D(2)(x)))[0, :, :, 0]
        array([[ 5.,  7.],
               [13., 15.]], dtype=float32)
    """

    _axes = 2


class AdaptiveMaxPooling3D(_AdaptiveMaxPooling):
    """The largest elements of windows of volumes, as many as `output_size` has places.

    Examples:
        >>> af.layers.AdaptiveMaxPooling3D(2)(np.ones((1, 4, 4, 4, 3), np.float32)).shape
        TensorShape([1, 2, 2, 2, 3])
    """

    _axes = 3
