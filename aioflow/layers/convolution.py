"""Convolutions along one, two or three axes, their transposes, and those of each channel by itself."""

from collections.abc import Sequence
from typing import Any, Final, Literal

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.pad import pad
from aioflow.kernels.array.shapes import expand_dims, shape, squeeze
from aioflow.kernels.nn.activation import bias_add
from aioflow.layers import by_name
from aioflow.layers.layer import Layer, known_size, one_shape
from aioflow.layers.numbers import per_axis, whole
from aioflow.library.nn_convolution import conv_transpose, convolution, depthwise_conv2d, separable_conv2d
from aioflow.library.variables import Variable
from aioflow.tensors.recursion import safe_repr

Sizes = int | Sequence[int]
Padding = Literal["valid", "same", "causal"]
_LAYOUTS: Final = {"channels_last": ("NWC", "NHWC", "NDHWC"), "channels_first": ("NCW", "NCHW", "NCDHW")}


class _Convolution(Layer):
    """What all convolutions share: the window, the layout, bias and activation."""

    casts_integers = True

    _axes: int
    _kernel = "kernel"

    def __init__(
        self,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: Padding = "valid",
        data_format: str | None = None,
        dilation_rate: Sizes = 1,
        activation: Any = None,
        use_bias: bool = True,
        bias_initializer: Any = "zeros",
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        bias_constraint: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.kernel_size: Final = per_axis("kernel_size", kernel_size, self._axes)
        self.strides: Final = per_axis("strides", strides, self._axes)
        self.dilation_rate: Final = per_axis("dilation_rate", dilation_rate, self._axes)
        self.padding: Final = checked_padding(padding, causal=self._axes == 1)
        self.data_format: Final = data_format or "channels_last"
        self._layout: Final = layout_of(self.data_format, self._axes)
        self.activation: Final = by_name.activation(activation)
        self.use_bias: Final = use_bias
        self._bias_options = by_name.weight(bias_initializer, bias_regularizer, bias_constraint)
        self._activity = by_name.regularizer(activity_regularizer)
        if max(self.strides) > 1 and max(self.dilation_rate) > 1:
            raise ValueError(f"strides {self.strides} and dilation_rate {self.dilation_rate} cannot both be above 1")

    def _channels(self, input_shape: Any) -> int:
        return known_size(one_shape(input_shape, self._axes + 2), -1 if self.data_format == "channels_last" else 1)

    def _make_bias(self, size: int) -> None:
        self.bias: Variable | None = None
        if self.use_bias:
            self.bias = self.add_weight("bias", [size], None, *self._bias_options)

    def _ended(self, outputs: Tensor) -> Tensor:
        """With bias and activation."""
        if self.bias is not None:
            outputs = bias_add(outputs, self.bias, "NHWC" if self.data_format == "channels_last" else "NCHW")
        if self.activation is not None:
            outputs = self.activation(outputs)
        self.add_activity(self._activity, outputs)
        return outputs


class _Conv(_Convolution):
    """A convolution with a kernel over all channels."""

    def __init__(
        self,
        filters: int,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: Padding = "valid",
        data_format: str | None = None,
        dilation_rate: Sizes = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        kernel_regularizer: Any = None,
        kernel_constraint: Any = None,
        **options: Any,
    ) -> None:
        """ValueError for fewer than one filter, or sizes for another number of axes."""
        super().__init__(kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, **options)
        self.filters: Final = whole("filters", filters, 1)
        self._kernel_options = by_name.weight(kernel_initializer, kernel_regularizer, kernel_constraint)

    def build(self, input_shape: Any) -> None:
        """Make kernel and bias."""
        sizes = [*self.kernel_size, self._channels(input_shape), self.filters]
        self.kernel = self.add_weight("kernel", sizes, None, *self._kernel_options)
        self._make_bias(self.filters)

    def call(self, inputs: Tensor) -> Tensor:
        """The result."""
        padding = self.padding.upper()
        if padding == "CAUSAL":
            before = (self.kernel_size[0] - 1) * self.dilation_rate[0]
            inputs, padding = pad(inputs, [[before if axis == self._place else 0, 0] for axis in range(3)]), "VALID"
        return self._ended(
            convolution(inputs, self.kernel, padding, self.strides, self.dilation_rate, data_format=self._layout)
        )

    @property
    def _place(self) -> int:
        return 1 if self.data_format == "channels_last" else 2


class Conv1D(_Conv):
    """A convolution along time: [batch, steps, channels] gives [batch, new steps, filters].

    The weights are `kernel` [size, channels, filters] and `bias` [filters]. With padding "causal" no result depends on
    later steps.
    """

    _axes = 1


class Conv2D(_Conv):
    """A convolution of images: [batch, rows, columns, channels] gives [batch, new rows, new columns, filters].

    The weights are `kernel` [height, width, channels, filters] and `bias` [filters].
    """

    _axes = 2


class Conv3D(_Conv):
    """A convolution of volumes: [batch, d1, d2, d3, channels] gives [batch, new d1, new d2, new d3, filters].

    The weights are `kernel` [k1, k2, k3, channels, filters] and `bias` [filters].
    """

    _axes = 3


class _ConvTranspose(_Conv):
    """The gradient of a convolution, used forward: it makes inputs larger by the strides."""

    def __init__(
        self, filters: int, kernel_size: Sizes, strides: Sizes = 1, padding: Padding = "valid",
        output_padding: Sizes | None = None, **options: Any,
    ) -> None:  # fmt: skip
        """ValueError for an output padding that is not less than the strides."""
        super().__init__(filters, kernel_size, strides, padding, **options)
        given = output_padding
        self.output_padding: Final = None if given is None else per_axis("output_padding", given, self._axes, least=0)
        for more, step in zip(self.output_padding or (), self.strides, strict=True) if given is not None else ():
            if more >= step:
                raise ValueError(f"output_padding {self.output_padding} must be less than strides {self.strides}")

    def build(self, input_shape: Any) -> None:
        """Make kernel and bias."""
        sizes = [*self.kernel_size, self.filters, self._channels(input_shape)]
        self.kernel = self.add_weight("kernel", sizes, None, *self._kernel_options)
        self._make_bias(self.filters)

    def call(self, inputs: Tensor) -> Tensor:
        """The result."""
        known, sizes = inputs.shape.as_list(), shape(inputs)
        first = self.data_format == "channels_first"
        places = range(2 if first else 1, self._axes + (2 if first else 1))
        spatial = [
            self._size(sizes[place] if known[place] is None else known[place], n) for n, place in enumerate(places)
        ]
        batch = sizes[0] if known[0] is None else known[0]
        wanted = [batch, self.filters, *spatial] if first else [batch, *spatial, self.filters]
        made = conv_transpose(
            inputs, self.kernel, stack(wanted), self.strides, self.padding.upper(), self._layout, self.dilation_rate
        )
        made.set_shape([each if isinstance(each, int) else None for each in wanted])
        return self._ended(made)

    def _size(self, size: Any, axis: int) -> Any:
        """The size of an axis of the result."""
        window = (self.kernel_size[axis] - 1) * self.dilation_rate[axis] + 1
        step = self.strides[axis]
        if self.output_padding is None:
            return size * step + (max(window - step, 0) if self.padding == "valid" else 0)
        border = 0 if self.padding == "valid" else window // 2
        return (size - 1) * step + window - 2 * border + self.output_padding[axis]


class Conv1DTranspose(_ConvTranspose):
    """A transposed convolution along time. The weights are `kernel` [size, filters, channels] and `bias` [filters]."""

    _axes = 1


class Conv2DTranspose(_ConvTranspose):
    """A transposed convolution of images: `kernel` [height, width, filters, channels] and `bias` [filters]."""

    _axes = 2


class Conv3DTranspose(_ConvTranspose):
    """A transposed convolution of volumes: `kernel` [k1, k2, k3, filters, channels] and `bias` [filters]."""

    _axes = 3


class DepthwiseConv2D(_Convolution):
    """A convolution of each channel by itself, with `depth_multiplier` results for each.

    The weights are `depthwise_kernel` [height, width, channels, multiplier] and `bias` [channels * multiplier].
    """

    _axes = 2

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
        depthwise_regularizer: Any = None,
        depthwise_constraint: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, **options)
        self.depth_multiplier: Final = whole("depth_multiplier", depth_multiplier, 1)
        self._kernel_options = by_name.weight(depthwise_initializer, depthwise_regularizer, depthwise_constraint)

    def build(self, input_shape: Any) -> None:
        """Make kernel and bias."""
        channels = self._channels(input_shape)
        sizes = [*self.kernel_size, channels, self.depth_multiplier]
        self.depthwise_kernel = self.add_weight("depthwise_kernel", sizes, None, *self._kernel_options)
        self._make_bias(channels * self.depth_multiplier)

    def call(self, inputs: Tensor) -> Tensor:
        """The result."""
        return self._ended(
            depthwise_conv2d(
                inputs, self.depthwise_kernel, self.strides, self.padding.upper(), data_format=self._layout,
                dilations=self.dilation_rate,
            )
        )  # fmt: skip


class _SeparableConv(_Convolution):
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
        depthwise_regularizer: Any = None,
        pointwise_regularizer: Any = None,
        depthwise_constraint: Any = None,
        pointwise_constraint: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, **options)
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
    """

    _axes = 1

    def call(self, inputs: Tensor) -> Tensor:
        """The result: that of images of one row."""
        if self.padding == "causal":
            before = (self.kernel_size[0] - 1) * self.dilation_rate[0]
            place = 1 if self.data_format == "channels_last" else 2
            inputs = pad(inputs, [[before if axis == place else 0, 0] for axis in range(3)])
        row = 1 if self.data_format == "channels_last" else 2
        images = separable_conv2d(
            expand_dims(inputs, row), expand_dims(self.depthwise_kernel, 0), expand_dims(self.pointwise_kernel, 0),
            self.strides * 2, "VALID" if self.padding == "causal" else self.padding.upper(),
            data_format=layout_of(self.data_format, 2), dilations=(1, *self.dilation_rate),
        )  # fmt: skip
        return self._ended(squeeze(images, [row]))


def checked_padding(padding: str, causal: bool = False) -> str:
    """The padding in lower case. ValueError for an unknown one."""
    known = ("valid", "same", "causal") if causal else ("valid", "same")
    if not isinstance(padding, str) or padding.lower() not in known:
        raise ValueError(f"padding is one of {', '.join(known)}, not {safe_repr(padding)}")
    return padding.lower()


def layout_of(data_format: str, axes: int) -> str:
    """The layout of a batch with that many axes of space. ValueError for an unknown format."""
    if not isinstance(data_format, str) or data_format not in _LAYOUTS:
        raise ValueError(f"data_format is 'channels_last' or 'channels_first', not {safe_repr(data_format)}")
    return _LAYOUTS[data_format][axes - 1]
