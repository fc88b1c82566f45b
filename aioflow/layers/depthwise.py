"""Convolutions of each channel by itself, and separable ones, which mix the channels afterwards."""

from typing import Any, Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.shapes import expand_dims, squeeze
from aioflow.layers import by_name
from aioflow.layers.convolution import BaseConvolution, Padding, Sizes, layout_of
from aioflow.layers.numbers import whole
from aioflow.library.nn_convolution import depthwise_conv2d, separable_conv2d


class _DepthwiseConv(BaseConvolution):
    """A convolution of each channel by itself, with `depth_multiplier` results for each."""

    def __init__(
        self,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: Padding = "valid",
        depth_multiplier: int = 1,
        data_format: str | None = None,
        dilation_rate: Sizes = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        depthwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        bias_constraint: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(
            kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, bias_initializer,
            bias_regularizer, activity_regularizer, bias_constraint, **options,
        )  # fmt: skip
        self.depth_multiplier: Final = whole("depth_multiplier", depth_multiplier, 1)
        self._kernel_options = by_name.weight(depthwise_initializer, depthwise_regularizer, depthwise_constraint)

    def build(self, input_shape: Any) -> None:
        """Make kernel and bias."""
        channels = self._channels(input_shape)
        sizes = [*self.kernel_size, channels, self.depth_multiplier]
        self.depthwise_kernel = self.add_weight("depthwise_kernel", sizes, None, *self._kernel_options)
        self._make_bias(channels * self.depth_multiplier)


class DepthwiseConv2D(_DepthwiseConv):
    """A convolution of each channel of images by itself, with `depth_multiplier` results for each.

    The weights are `depthwise_kernel` [height, width, channels, multiplier] and `bias` [channels * multiplier].

    Examples:
        >>> af.layers.DepthwiseConv2D(3)(af.ones([1, 28, 28, 4])).shape
        TensorShape([1, 26, 26, 4])
    """

    _axes = 2

    def call(self, inputs: Tensor) -> Tensor:
        """The result."""
        return self._ended(
            depthwise_conv2d(
                inputs, self.depthwise_kernel, self.strides, self.padding.upper(), data_format=self._layout,
                dilations=self.dilation_rate,
            )
        )  # fmt: skip


class DepthwiseConv1D(_DepthwiseConv):
    """A convolution of each channel along time by itself, with `depth_multiplier` results for each.

    The weights are `depthwise_kernel` [size, channels, multiplier] and `bias` [channels * multiplier].

    Examples:
        >>> af.layers.DepthwiseConv1D(3, depth_multiplier=2)(np.ones((1, 8, 3), np.float32)).shape
        TensorShape([1, 6, 6])
    """

    _axes = 1

    def call(self, inputs: Tensor) -> Tensor:
        """The result: that of images of one row."""
        inputs, padding = self._padded(inputs)
        row = _row_axis(self.data_format)
        images = depthwise_conv2d(
            expand_dims(inputs, row), expand_dims(self.depthwise_kernel, 0), self.strides * 2, padding,
            data_format=layout_of(self.data_format, 2), dilations=(1, *self.dilation_rate),
        )  # fmt: skip
        return self._ended(squeeze(images, [row]))


class _SeparableConv(BaseConvolution):
    """A convolution of each channel by itself, then one of all channels at each place."""

    def __init__(
        self,
        filters: int,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: Padding = "valid",
        data_format: str | None = None,
        dilation_rate: Sizes = 1,
        depth_multiplier: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = "glorot_uniform",
        pointwise_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        depthwise_regularizer: Any = None,
        pointwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        pointwise_constraint: Any = None,
        bias_constraint: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(
            kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, bias_initializer,
            bias_regularizer, activity_regularizer, bias_constraint, **options,
        )  # fmt: skip
        self.filters: Final = whole("filters", filters, 1)
        self.depth_multiplier: Final = whole("depth_multiplier", depth_multiplier, 1)
        self._depthwise_options = by_name.weight(depthwise_initializer, depthwise_regularizer, depthwise_constraint)
        self._pointwise_options = by_name.weight(pointwise_initializer, pointwise_regularizer, pointwise_constraint)

    def build(self, input_shape: Any) -> None:
        """Make both kernels and the bias."""
        channels, depth = self._channels(input_shape), self.depth_multiplier
        sizes = [*self.kernel_size, channels, depth]
        self.depthwise_kernel = self.add_weight("depthwise_kernel", sizes, None, *self._depthwise_options)
        sizes = [*[1] * self._axes, channels * depth, self.filters]
        self.pointwise_kernel = self.add_weight("pointwise_kernel", sizes, None, *self._pointwise_options)
        self._make_bias(self.filters)


class SeparableConv2D(_SeparableConv):
    """A depthwise convolution of images, then one of all channels at each pixel.

    The weights are `depthwise_kernel` [height, width, channels, multiplier], `pointwise_kernel`
    [1, 1, channels * multiplier, filters] and `bias` [filters].

    Examples:
        >>> af.layers.SeparableConv2D(8, 3)(af.ones([1, 28, 28, 4])).shape
        TensorShape([1, 26, 26, 8])
    """

    _axes = 2

    def call(self, inputs: Tensor) -> Tensor:
        """The result."""
        return self._ended(
            separable_conv2d(
                inputs, self.depthwise_kernel, self.pointwise_kernel, self.strides, self.padding.upper(),
                data_format=self._layout, dilations=self.dilation_rate,
            )
        )  # fmt: skip


class SeparableConv1D(_SeparableConv):
    """A depthwise convolution along time, then one of all channels at each step.

    The weights are `depthwise_kernel` [size, channels, multiplier], `pointwise_kernel`
    [1, channels * multiplier, filters] and `bias` [filters].

    Examples:
        >>> af.layers.SeparableConv1D(8, 3)(af.ones([1, 10, 4])).shape
        TensorShape([1, 8, 8])
    """

    _axes = 1

    def call(self, inputs: Tensor) -> Tensor:
        """The result: that of images of one row."""
        inputs, padding = self._padded(inputs)
        row = _row_axis(self.data_format)
        images = separable_conv2d(
            expand_dims(inputs, row), expand_dims(self.depthwise_kernel, 0), expand_dims(self.pointwise_kernel, 0),
            self.strides * 2, padding,
            data_format=layout_of(self.data_format, 2), dilations=(1, *self.dilation_rate),
        )  # fmt: skip
        return self._ended(squeeze(images, [row]))


def _row_axis(data_format: str) -> int:
    """The axis that makes images of one row of sequences."""
    return 1 if data_format == "channels_last" else 2
