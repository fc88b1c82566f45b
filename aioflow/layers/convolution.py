"""Convolutions along one, two or three axes, and their transposes."""

from collections.abc import Sequence
from typing import Any, Final, Literal

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat, split, stack
from aioflow.kernels.array.pad import pad
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.nn.activation import bias_add
from aioflow.layers import by_name
from aioflow.layers.layer import Layer, known_size, one_shape
from aioflow.layers.numbers import per_axis, switch, whole
from aioflow.library.nn_convolution import conv_transpose, convolution
from aioflow.library.variables import Variable
from aioflow.tensors.recursion import safe_repr

Sizes = int | Sequence[int]
Padding = Literal["valid", "same", "causal"]
_LAYOUTS: Final = {"channels_last": ("NWC", "NHWC", "NDHWC"), "channels_first": ("NCW", "NCHW", "NCDHW")}


class BaseConvolution(Layer):
    """What all convolutions share, those of single channels too: the window, the layout, bias and activation."""

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
        self.use_bias: Final = switch("use_bias", use_bias)
        self._bias_options = by_name.weight(bias_initializer, bias_regularizer, bias_constraint)
        self._activity = by_name.regularizer(activity_regularizer)
        if max(self.strides) > 1 and max(self.dilation_rate) > 1:
            raise ValueError(f"strides {self.strides} and dilation_rate {self.dilation_rate} cannot both be above 1")

    def _channels(self, input_shape: Any) -> int:
        return known_size(one_shape(input_shape, self._axes + 2), -1 if self.data_format == "channels_last" else 1)

    def _padded(self, inputs: Tensor) -> tuple[Tensor, str]:
        """The inputs, with zeros before the first step if no result may depend on later steps, and the padding."""
        if self.padding != "causal":
            return inputs, self.padding.upper()
        before = (self.kernel_size[0] - 1) * self.dilation_rate[0]
        place = 1 if self.data_format == "channels_last" else 2
        return pad(inputs, [[before if axis == place else 0, 0] for axis in range(3)]), "VALID"

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


class _Conv(BaseConvolution):
    """A convolution with a kernel over all channels."""

    def __init__(
        self,
        filters: int,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: Padding = "valid",
        data_format: str | None = None,
        dilation_rate: Sizes = 1,
        groups: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **options: Any,
    ) -> None:
        """ValueError for fewer than one filter, filters that groups cannot share, or sizes for other axes."""
        super().__init__(
            kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, bias_initializer,
            bias_regularizer, activity_regularizer, bias_constraint, **options,
        )  # fmt: skip
        self.filters: Final = whole("filters", filters, 1)
        self.groups: Final = whole("groups", groups, 1)
        if self.filters % self.groups:
            raise ValueError(f"{filters} filters cannot be divided into {groups} groups of one size")
        self._kernel_options = by_name.weight(kernel_initializer, kernel_regularizer, kernel_constraint)

    def build(self, input_shape: Any) -> None:
        """Make kernel and bias. ValueError if the groups cannot share the channels."""
        channels = self._channels(input_shape)
        if channels % self.groups:
            raise ValueError(f"{channels} channels cannot be divided into {self.groups} groups of one size")
        sizes = [*self.kernel_size, channels // self.groups, self.filters]
        self.kernel = self.add_weight("kernel", sizes, None, *self._kernel_options)
        self._make_bias(self.filters)

    def call(self, inputs: Tensor) -> Tensor:
        """The result."""
        inputs, padding = self._padded(inputs)
        if self.groups == 1:
            return self._ended(self._convolved(inputs, self.kernel, padding))
        channels = -1 if self.data_format == "channels_last" else 1
        pairs = zip(split(inputs, self.groups, channels), split(self.kernel, self.groups, -1), strict=True)
        return self._ended(concat([self._convolved(part, kernel, padding) for part, kernel in pairs], channels))

    def _convolved(self, inputs: Tensor, kernel: Any, padding: str) -> Tensor:
        return convolution(inputs, kernel, padding, self.strides, self.dilation_rate, data_format=self._layout)


class Conv1D(_Conv):
    """A convolution along time: [batch, steps, channels] gives [batch, new steps, filters].

    The weights are `kernel` [size, channels, filters] and `bias` [filters]. With padding "causal" no result depends on
    later steps. With `groups` each group of filters sees as large a part of the channels, and `kernel` is
    [size, channels / groups, filters].

    Examples:
        >>> af.layers.Conv1D(8, 3)(af.ones([1, 10, 4])).shape
        TensorShape([1, 8, 8])
    """

    _axes = 1


class Conv2D(_Conv):
    """A convolution of images: [batch, rows, columns, channels] gives [batch, new rows, new columns, filters].

    The weights are `kernel` [height, width, channels, filters] and `bias` [filters].

    Examples:
        >>> af.layers.Conv2D(8, 3, padding="same")(af.ones([1, 28, 28, 3])).shape
        TensorShape([1, 28, 28, 8])
    """

    _axes = 2


class Conv3D(_Conv):
    """A convolution of volumes: [batch, d1, d2, d3, channels] gives [batch, new d1, new d2, new d3, filters].

    The weights are `kernel` [k1, k2, k3, channels, filters] and `bias` [filters].

    Examples:
        >>> af.layers.Conv3D(8, 3)(af.ones([1, 5, 5, 5, 2])).shape
        TensorShape([1, 3, 3, 3, 8])
    """

    _axes = 3


class _ConvTranspose(_Conv):
    """The gradient of a convolution, used forward: it makes inputs larger by the strides."""

    def __init__(
        self, filters: int, kernel_size: Sizes, strides: Sizes = 1, padding: Padding = "valid",
        output_padding: Sizes | None = None, data_format: str | None = None, dilation_rate: Sizes = 1,
        activation: Any = None, use_bias: bool = True, **options: Any,
    ) -> None:  # fmt: skip
        """ValueError for an output padding that is not less than the strides."""
        super().__init__(
            filters, kernel_size, strides, padding, data_format, dilation_rate, 1, activation, use_bias, **options
        )
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
    """A transposed convolution along time. The weights are `kernel` [size, filters, channels] and `bias` [filters].

    Examples:
        >>> af.layers.Conv1DTranspose(8, 3, strides=2)(af.ones([1, 5, 4])).shape
        TensorShape([1, 11, 8])
    """

    _axes = 1


class Conv2DTranspose(_ConvTranspose):
    """A transposed convolution of images: `kernel` [height, width, filters, channels] and `bias` [filters].

    Examples:
        >>> af.layers.Conv2DTranspose(8, 3, strides=2, padding="same")(af.ones([1, 14, 14, 4])).shape
        TensorShape([1, 28, 28, 8])
    """

    _axes = 2


class Conv3DTranspose(_ConvTranspose):
    """A transposed convolution of volumes: `kernel` [k1, k2, k3, filters, channels] and `bias` [filters].

    Examples:
        >>> af.layers.Conv3DTranspose(8, 2, strides=2)(af.ones([1, 2, 2, 2, 3])).shape
        TensorShape([1, 4, 4, 4, 8])
    """

    _axes = 3


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
