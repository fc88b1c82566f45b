"""Pooling: the largest element or the mean of windows, or of all places."""

from typing import Any, Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import zeros_like
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import expand_dims
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.reduction import reduce_max, reduce_mean, reduce_sum
from aioflow.layers.convolution import Sizes, checked_padding, layout_of
from aioflow.layers.layer import Layer, one_shape
from aioflow.layers.numbers import per_axis, switch
from aioflow.library.nn_convolution import pool


class _Pooling(Layer):
    """Pooling of windows."""

    _axes: int
    _kind: str

    def __init__(
        self,
        pool_size: Sizes = 2,
        strides: Sizes | None = None,
        padding: str = "valid",
        data_format: str | None = None,
        **options: Any,
    ) -> None:
        """`strides` are the size of the window by default. ValueError for sizes for another number of axes."""
        super().__init__(**options)
        self.pool_size: Final = per_axis("pool_size", pool_size, self._axes)
        self.strides: Final = self.pool_size if strides is None else per_axis("strides", strides, self._axes)
        self.padding: Final = checked_padding(padding)
        self.data_format: Final = data_format or "channels_last"
        self._layout: Final = layout_of(self.data_format, self._axes)

    def call(self, inputs: Tensor) -> Tensor:
        """The result. ValueError for inputs of another rank."""
        one_shape(inputs.shape, self._axes + 2)
        return pool(
            inputs, self.pool_size, self._kind, self.padding.upper(), strides=self.strides, data_format=self._layout
        )


class MaxPooling1D(_Pooling):
    """The largest element of each window: [batch, steps, channels] gives [batch, new steps, channels].

    Examples:
        >>> af.layers.MaxPooling1D()(af.ones([1, 10, 3])).shape
        TensorShape([1, 5, 3])
    """

    _axes, _kind = 1, "MAX"


class MaxPooling2D(_Pooling):
    """The largest element of each window of images.

    Examples:
        >>> af.layers.MaxPooling2D()(af.ones([1, 28, 28, 3])).shape
        TensorShape([1, 14, 14, 3])
    """

    _axes, _kind = 2, "MAX"


class MaxPooling3D(_Pooling):
    """The largest element of each window of volumes.

    Examples:
        >>> af.layers.MaxPooling3D()(af.ones([1, 4, 4, 4, 3])).shape
        TensorShape([1, 2, 2, 2, 3])
    """

    _axes, _kind = 3, "MAX"


class AveragePooling1D(_Pooling):
    """The mean of each window: [batch, steps, channels] gives [batch, new steps, channels].

    Examples:
        >>> af.layers.AveragePooling1D()(af.ones([1, 10, 3])).shape
        TensorShape([1, 5, 3])
    """

    _axes, _kind = 1, "AVG"


class AveragePooling2D(_Pooling):
    """The mean of each window of images.

    Examples:
        >>> af.layers.AveragePooling2D()(af.ones([1, 28, 28, 3])).shape
        TensorShape([1, 14, 14, 3])
    """

    _axes, _kind = 2, "AVG"


class AveragePooling3D(_Pooling):
    """The mean of each window of volumes.

    Examples:
        >>> af.layers.AveragePooling3D()(af.ones([1, 4, 4, 4, 3])).shape
        TensorShape([1, 2, 2, 2, 3])
    """

    _axes, _kind = 3, "AVG"


class _GlobalPooling(Layer):
    """Pooling of all places."""

    _axes: int
    _kind: str

    def __init__(self, data_format: str | None = None, keepdims: bool = False, **options: Any) -> None:
        """`keepdims` keeps the axes of places, with size 1."""
        super().__init__(**options)
        self.data_format: Final = data_format or "channels_last"
        self.keepdims: Final = switch("keepdims", keepdims)
        layout_of(self.data_format, self._axes)

    def call(self, inputs: Tensor) -> Tensor:
        """The result. ValueError for inputs of another rank."""
        one_shape(inputs.shape, self._axes + 2)
        first = 1 if self.data_format == "channels_last" else 2
        reduce = reduce_max if self._kind == "MAX" else reduce_mean
        return reduce(inputs, list(range(first, first + self._axes)), self.keepdims)


class GlobalMaxPooling1D(_GlobalPooling):
    """The largest element of each channel: [batch, steps, channels] gives [batch, channels].

    Examples:
        >>> af.layers.GlobalMaxPooling1D()(af.ones([1, 10, 3])).shape
        TensorShape([1, 3])
    """

    _axes, _kind = 1, "MAX"


class GlobalMaxPooling2D(_GlobalPooling):
    """The largest element of each channel of images: [batch, rows, columns, channels] gives [batch, channels].

    Examples:
        >>> af.layers.GlobalMaxPooling2D()(af.ones([1, 28, 28, 3])).shape
        TensorShape([1, 3])
    """

    _axes, _kind = 2, "MAX"


class GlobalMaxPooling3D(_GlobalPooling):
    """The largest element of each channel of volumes.

    Examples:
        >>> af.layers.GlobalMaxPooling3D()(af.ones([1, 4, 4, 4, 3])).shape
        TensorShape([1, 3])
    """

    _axes, _kind = 3, "MAX"


class GlobalAveragePooling1D(_GlobalPooling):
    """The mean of each channel, of the steps that a mask keeps: [batch, steps, channels] gives [batch, channels].

    Examples:
        >>> af.layers.GlobalAveragePooling1D()(af.ones([1, 10, 3])).shape
        TensorShape([1, 3])
    """

    supports_masking = True
    _axes, _kind = 1, "AVG"

    def call(self, inputs: Tensor, mask: Any = None) -> Tensor:
        """The result. ValueError for inputs of another rank."""
        if mask is None:
            return super().call(inputs)
        axis = 1 if self.data_format == "channels_last" else 2
        kept = expand_dims(mask, 3 - axis)
        total = reduce_sum(where(kept, inputs, zeros_like(inputs)), [axis], self.keepdims)
        return total / reduce_sum(cast(kept, inputs.dtype), [axis], self.keepdims)

    def compute_mask(self, inputs: Tensor, mask: Any = None) -> None:
        """None: there are no steps any more."""


class GlobalAveragePooling2D(_GlobalPooling):
    """The mean of each channel of images: [batch, rows, columns, channels] gives [batch, channels].

    Examples:
        >>> af.layers.GlobalAveragePooling2D()(af.ones([1, 28, 28, 3])).shape
        TensorShape([1, 3])
    """

    _axes, _kind = 2, "AVG"


class GlobalAveragePooling3D(_GlobalPooling):
    """The mean of each channel of volumes.

    Examples:
        >>> af.layers.GlobalAveragePooling3D()(af.ones([1, 4, 4, 4, 3])).shape
        TensorShape([1, 3])
    """

    _axes, _kind = 3, "AVG"
