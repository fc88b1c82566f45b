"""LSTMs over sequences of sequences, images or volumes, whose products are convolutions [Shi et al. 2015]."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat, split
from aioflow.kernels.array.constants import ones_like
from aioflow.kernels.array.shapes import reshape, shape
from aioflow.kernels.nn.activation import bias_add
from aioflow.layers import by_name, numbers
from aioflow.layers.convolution import Sizes, checked_padding, layout_of
from aioflow.layers.layer import known_size, one_shape
from aioflow.layers.numbers import per_axis, rate, switch, whole
from aioflow.layers.recurrent_loop import Loop, Steps
from aioflow.layers.recurrent_units import forgetting_little
from aioflow.library.nn_convolution import convolution
from aioflow.library.nn_functions import dropout
from aioflow.tensors.shape import TensorShape


class _ConvLSTM(Loop):
    """An LSTM whose products are convolutions: [batch, steps, *sizes, channels] gives [batch, *new sizes, filters].

    The weights are `kernel` [*kernel_size, channels, 4 filters], `recurrent_kernel` [*kernel_size, filters, 4 filters]
    and `bias` [4 filters]. The states are the output and the memory.
    """

    _axes: int

    def __init__(
        self,
        filters: int,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Sizes = 1,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        """ValueError for fewer than one filter, sizes for other axes, or rates outside of [0, 1)."""
        super().__init__(activity_regularizer=activity_regularizer, **options)
        self.filters: Final = whole("filters", filters, 1)
        self.kernel_size: Final = per_axis("kernel_size", kernel_size, self._axes)
        self.strides: Final = per_axis("strides", strides, self._axes)
        self.dilation_rate: Final = per_axis("dilation_rate", dilation_rate, self._axes)
        self.padding: Final = checked_padding(padding)
        self.data_format: Final = data_format or "channels_last"
        self._layout: Final = layout_of(self.data_format, self._axes)
        self.activation: Final = by_name.activation(activation)
        self.recurrent_activation: Final = by_name.activation(recurrent_activation)
        self.use_bias: Final = switch("use_bias", use_bias)
        self.dropout: Final = rate("dropout", dropout)
        self.recurrent_dropout: Final = rate("recurrent_dropout", recurrent_dropout)
        self.seed: Final = numbers.seed(seed)
        self._kernel_options = by_name.weight(kernel_initializer, kernel_regularizer, kernel_constraint)
        self._recurrent_options = by_name.weight(recurrent_initializer, recurrent_regularizer, recurrent_constraint)
        bias = forgetting_little(bias_initializer, unit_forget_bias)
        self._bias_options = by_name.weight(bias, bias_regularizer, bias_constraint)

    @property
    def _channels(self) -> int:
        """The axis of the channels of one step."""
        return -1 if self.data_format == "channels_last" else 1

    def build(self, input_shape: Any) -> None:
        """Make the weights."""
        channels = known_size(one_shape(input_shape, self._rank), -1 if self._channels == -1 else 2)
        width = 4 * self.filters
        sizes = [*self.kernel_size, channels, width]
        self.kernel = self.add_weight("kernel", sizes, None, *self._kernel_options)
        sizes = [*self.kernel_size, self.filters, width]
        self.recurrent_kernel = self.add_weight("recurrent_kernel", sizes, None, *self._recurrent_options)
        self.bias = self.add_weight("bias", [width], None, *self._bias_options) if self.use_bias else None
        super().build(input_shape)

    def state_sizes(self, input_shape: TensorShape) -> Sequence[TensorShape]:
        """The sizes of output and memory. ValueError if a size of the inputs is unknown, or a window is too large."""
        first = 2 if self._channels == -1 else 3
        sizes = [self._size(known_size(input_shape, first + axis), axis) for axis in range(self._axes)]
        whole_shape = [*sizes, self.filters] if self._channels == -1 else [self.filters, *sizes]
        return [TensorShape(whole_shape)] * 2

    def _size(self, size: int, axis: int) -> int:
        """The size of an axis after the convolution of the inputs."""
        window = 1 if self.padding == "same" else (self.kernel_size[axis] - 1) * self.dilation_rate[axis] + 1
        return (size - window) // self.strides[axis] + 1

    @contextlib.contextmanager
    def steps(self, inputs: Tensor, training: bool) -> Iterator[Steps]:
        """The convolutions of all inputs, and a step of an LSTM."""
        if training and self.dropout:
            same = [None, 1, *[None] * (self._axes + 1)]
            inputs = dropout(inputs, rate=self.dropout, noise_shape=same, seed=self.seed)
        projected = self._projected(inputs)
        kept = None
        if training and self.recurrent_dropout:
            like = split(projected[:, 0], 4, self._channels)[0]
            kept = dropout(ones_like(like), rate=self.recurrent_dropout, seed=self.seed)
        yield Steps(projected, lambda row, states: self._step(row, states, kept))

    def _projected(self, inputs: Tensor) -> Tensor:
        """The convolutions of all steps, computed as one batch."""
        sizes = shape(inputs)
        together = reshape(inputs, concat([[-1], sizes[2:]], 0))
        together.set_shape([None, *inputs.shape.as_list()[2:]])
        layout = self._layout
        made = convolution(
            together, self.kernel, self.padding.upper(), self.strides, self.dilation_rate, data_format=layout
        )
        if self.bias is not None:
            made = bias_add(made, self.bias, "NHWC" if self._channels == -1 else "NCHW")
        apart = reshape(made, concat([sizes[:2], shape(made)[1:]], 0))
        apart.set_shape([*inputs.shape.as_list()[:2], *made.shape.as_list()[1:]])
        return apart

    def _step(self, projected: Tensor, states: Sequence[Tensor], kept: Tensor | None) -> Sequence[Tensor]:
        """Output and memory after a step."""
        output, memory = states
        before = output if kept is None else output * kept
        recurred = convolution(before, self.recurrent_kernel, "SAME", data_format=self._layout)
        gate = self.recurrent_activation or (lambda x: x)
        active = self.activation or (lambda x: x)
        i, f, c, o = split(projected + recurred, 4, axis=self._channels)
        memory = gate(f) * memory + gate(i) * active(c)
        return [gate(o) * active(memory), memory]


class ConvLSTM1D(_ConvLSTM):
    """An LSTM over sequences of sequences: [batch, steps, size, channels] gives [batch, new size, filters].

    Examples:
        >>> af.layers.ConvLSTM1D(4, 3)(np.ones((2, 5, 8, 3), np.float32)).shape
        TensorShape([2, 6, 4])
    """

    _axes, _rank = 1, 4


class ConvLSTM2D(_ConvLSTM):
    """An LSTM over images: [batch, steps, rows, columns, channels] gives [batch, new rows, new columns, filters].

    Examples:
        >>> af.layers.ConvLSTM2D(4, 3)(np.ones((2, 5, 8, 8, 3), np.float32)).shape
        TensorShape([2, 6, 6, 4])
    """

    _axes, _rank = 2, 5


class ConvLSTM3D(_ConvLSTM):
    """An LSTM over volumes: [batch, steps, d1, d2, d3, channels] gives [batch, new d1, new d2, new d3, filters].

    Examples:
        >>> af.layers.ConvLSTM3D(4, 3, padding="same")(np.ones((2, 3, 4, 4, 4, 1), np.float32)).shape
        TensorShape([2, 4, 4, 4, 4])
    """

    _axes, _rank = 3, 6
