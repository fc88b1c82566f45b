"""Recurrent layers: a loop over the steps of sequences. Their weights are laid out as in Keras."""

from collections.abc import Sequence
from typing import Any, Final, Literal

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import reverse
from aioflow.kernels.array.concat import concat, split
from aioflow.kernels.array.constants import ones, zeros_like
from aioflow.kernels.array.select import where
from aioflow.kernels.array.sequence import reverse_sequence
from aioflow.kernels.array.shapes import expand_dims, reshape, shape
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.linalg.products import tensordot
from aioflow.kernels.math.arithmetic import add
from aioflow.kernels.math.casting import cast
from aioflow.kernels.nn.activation import bias_add
from aioflow.layers import by_name
from aioflow.layers.layer import Layer, known_size, one_shape
from aioflow.layers.numbers import rate, whole
from aioflow.library.nn_functions import dropout
from aioflow.library.rnn import dynamic_rnn
from aioflow.library.rnn_cell_base import RNNCell
from aioflow.tensors import nest
from aioflow.tensors.dtypes import int32
from aioflow.tensors.recursion import safe_repr


class _Recurrent(Layer):
    """What recurrent layers share: the product of all inputs with the kernel before the loop, and the loop.

    Args:
        units: the size of the output.
        return_sequences: whether the outputs of all steps are returned, [batch, steps, units], or the last one.
        return_state: whether the last state is returned, too, after the outputs.
        go_backwards: whether the steps are taken from the last to the first, and outputs returned in that order.
        dropout: the rate at which inputs are dropped in training, the same ones in all steps.
        recurrent_dropout: the same for the output of the step before.
        zero_output_for_mask: whether the outputs of masked steps are zeros, instead of the output of the step before.
    """

    supports_masking = casts_integers = True
    _gates: int
    _states = 1

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        zero_output_for_mask: bool = False,
        **options: Any,
    ) -> None:
        """ValueError for fewer than one unit, or rates outside of [0, 1)."""
        super().__init__(**options)
        self.units: Final = whole("units", units, 1)
        self.activation: Final = by_name.activation(activation)
        self.use_bias: Final = use_bias
        self.return_sequences: Final = return_sequences
        self.return_state: Final = return_state
        self.go_backwards: Final = go_backwards
        self.zero_output_for_mask = zero_output_for_mask
        self.dropout: Final = rate("dropout", dropout)
        self.recurrent_dropout: Final = rate("recurrent_dropout", recurrent_dropout)
        self._kernel_options = by_name.weight(kernel_initializer, kernel_regularizer, kernel_constraint)
        self._recurrent_options = by_name.weight(recurrent_initializer, recurrent_regularizer, recurrent_constraint)
        self._bias_options = by_name.weight(bias_initializer, bias_regularizer, bias_constraint)

    def build(self, input_shape: Any) -> None:
        """Make the weights."""
        width = self._gates * self.units
        size = known_size(one_shape(input_shape, 3), 2)
        self.kernel = self.add_weight("kernel", [size, width], None, *self._kernel_options)
        self.recurrent_kernel = self.add_weight("recurrent_kernel", [self.units, width], None, *self._recurrent_options)
        self.bias = self.add_weight("bias", self._bias_shape(), None, *self._bias_options) if self.use_bias else None

    def _bias_shape(self) -> list[int]:
        return [self._gates * self.units]

    def call(
        self, inputs: Tensor, initial_state: Any = None, sequence_length: Any = None, mask: Any = None,
        training: bool = False,
    ) -> Any:  # fmt: skip
        """The outputs.

        Args:
            inputs: [batch, steps, size].
            initial_state: the state before the first step, [batch, units], or a list of two for an LSTM; zeros by
                default.
            sequence_length: the lengths [batch] of the sequences; later outputs are zeros, and the state stays.
            mask: booleans [batch, steps]: in other steps the state stays, and the output before is repeated.
            training: whether inputs and outputs are dropped.
        """
        steps = None if mask is None else expand_dims(mask, -1)
        if self.go_backwards:
            inputs = _backwards(inputs, sequence_length)
            steps = None if steps is None else _backwards(steps, sequence_length)
        if training and self.dropout:
            inputs = dropout(inputs, rate=self.dropout, noise_shape=[None, 1, None])
        cell = _Step(self, self._dropped(inputs) if training and self.recurrent_dropout else None)
        state = initial_state if self._states == 1 or initial_state is None else tuple(initial_state)
        given = self._projected(inputs) if steps is None else (self._projected(inputs), steps)
        outputs, state = dynamic_rnn(cell, given, sequence_length, state, self.dtype if state is None else None)
        if steps is not None and self.zero_output_for_mask:
            outputs = where(steps, outputs, zeros_like(outputs))
        states = list(state) if self._states > 1 else [state]
        result = outputs if self.return_sequences else states[0]
        return [result, *states] if self.return_state else result

    def compute_mask(self, inputs: Tensor, mask: Any = None) -> Any:
        """That of the inputs, if the outputs of all steps are returned."""
        return mask if self.return_sequences else None

    def _projected(self, inputs: Tensor) -> Tensor:
        """The products of all steps with the kernel."""
        product: Tensor = tensordot(inputs, self.kernel, [[2], [0]])
        return product if self.bias is None else bias_add(product, self._input_bias())

    def _input_bias(self) -> Any:
        return self.bias

    def _dropped(self, inputs: Tensor) -> Tensor:
        return dropout(ones(concat([shape(inputs)[:1], [self.units]], 0), self.dtype), rate=self.recurrent_dropout)

    def step(self, projected: Tensor, states: Sequence[Tensor], mask: Tensor | None) -> Sequence[Tensor]:
        """The states after a step, the output first, given its products with the kernel and the states before it."""
        raise NotImplementedError

    def _active(self, x: Tensor) -> Tensor:
        return x if self.activation is None else self.activation(x)

    def _recurred(self, output: Tensor, mask: Tensor | None) -> Tensor:
        product: Tensor = matmul(output if mask is None else output * mask, self.recurrent_kernel)
        return product


class _Step(RNNCell):
    """A step of a recurrent layer, as a cell without variables of its own."""

    def __init__(self, layer: _Recurrent, mask: Tensor | None) -> None:
        super().__init__(dtype=layer.dtype)
        self._layer = layer
        self._dropped = mask

    @property
    def state_size(self) -> Any:
        """The sizes of the states."""
        sizes = (self._layer.units,) * self._layer._states
        return sizes if len(sizes) > 1 else sizes[0]

    @property
    def output_size(self) -> int:
        """The size of the output."""
        return self._layer.units

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, Any]:
        """The output and the states; those before, where the mask beside the inputs is false."""
        projected, mask = inputs if isinstance(inputs, tuple) else (inputs, None)
        before = state if isinstance(state, tuple) else (state,)
        states = self._layer.step(projected, before, self._dropped)
        if mask is not None:
            states = [where(mask, new, old) for new, old in zip(states, before, strict=True)]
        return states[0], tuple(states) if len(states) > 1 else states[0]


class SimpleRNN(_Recurrent):
    """output = activation(inputs @ kernel + output before @ recurrent_kernel + bias)."""

    _gates = 1

    def step(self, projected: Tensor, states: Sequence[Tensor], mask: Tensor | None) -> Sequence[Tensor]:
        """The output after a step."""
        return [self._active(projected + self._recurred(states[0], mask))]


class LSTM(_Recurrent):
    """A layer with a memory that gates keep, fill and read [Hochreiter and Schmidhuber 1997].

        i, f, c, o = split(inputs @ kernel + output before @ recurrent_kernel + bias, 4)
        memory = sigmoid(f) * memory before + sigmoid(i) * tanh(c);   output = sigmoid(o) * tanh(memory)

    The weights are `kernel` [size, 4 units], `recurrent_kernel` [units, 4 units] and `bias` [4 units]. The states are
    the output and the memory. `unit_forget_bias` begins with 1 in the bias of f, so that at first little is forgotten.
    """

    _gates, _states = 4, 2

    def __init__(
        self, units: int, activation: Any = "tanh", recurrent_activation: Any = "sigmoid",
        use_bias: bool = True, unit_forget_bias: bool = True, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(units, activation, use_bias, **options)
        self.recurrent_activation: Final = by_name.activation(recurrent_activation)
        if unit_forget_bias:
            value = self._bias_options.initializer
            self._bias_options = self._bias_options._replace(
                initializer=lambda sizes, dtype: _open(value, sizes, dtype)
            )

    def step(self, projected: Tensor, states: Sequence[Tensor], mask: Tensor | None) -> Sequence[Tensor]:
        """Output and memory after a step."""
        gate = self.recurrent_activation or (lambda x: x)
        output, memory = states
        i, f, c, o = split(projected + self._recurred(output, mask), 4, axis=1)
        memory = gate(f) * memory + gate(i) * self._active(c)
        return [gate(o) * self._active(memory), memory]


class GRU(_Recurrent):
    """A layer whose gates mix its output before with a new one [Cho et al. 2014].

        z, r, n = inputs @ kernel + bias;   u, s, m = output before @ recurrent_kernel + recurrent bias
        z = sigmoid(z + u);  r = sigmoid(r + s);  n = tanh(n + r * m);  output = z * output before + (1 - z) * n

    The weights are `kernel` [size, 3 units], `recurrent_kernel` [units, 3 units] and `bias` [2, 3 units], for inputs
    and outputs. Without `reset_after` r is applied before the product, and `bias` is [3 units].
    """

    _gates = 3

    def __init__(
        self, units: int, activation: Any = "tanh", recurrent_activation: Any = "sigmoid",
        use_bias: bool = True, reset_after: bool = True, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(units, activation, use_bias, **options)
        self.recurrent_activation: Final = by_name.activation(recurrent_activation)
        self.reset_after: Final = reset_after

    def _bias_shape(self) -> list[int]:
        return [2, 3 * self.units] if self.reset_after else [3 * self.units]

    def _input_bias(self) -> Any:
        return self.bias[0] if self.reset_after and self.bias is not None else self.bias

    def step(self, projected: Tensor, states: Sequence[Tensor], mask: Tensor | None) -> Sequence[Tensor]:
        """The output after a step."""
        gate = self.recurrent_activation or (lambda x: x)
        (before,) = states
        output = before if mask is None else before * mask
        z, r, n = split(projected, 3, axis=1)
        if self.reset_after:
            product: Tensor = matmul(output, self.recurrent_kernel)
            u, s, m = split(product if self.bias is None else bias_add(product, self.bias[1]), 3, axis=1)
            z, new = gate(z + u), self._active(n + gate(r + s) * m)
        else:
            both, last = split(self.recurrent_kernel, [2 * self.units, self.units], axis=1)
            u, s = split(matmul(output, both), 2, axis=1)
            z, new = gate(z + u), self._active(n + matmul(gate(r + s) * output, last))
        return [z * before + (1.0 - z) * new]


class Bidirectional(Layer):
    """A recurrent layer forward, and one like it backward, with their outputs merged.

    Args:
        layer: the layer forward.
        merge_mode: "concat", "sum", "mul", "ave", or None for a list of both outputs.
        backward_layer: the layer backward; by default one like the first.
    """

    supports_masking = True

    def __init__(
        self,
        layer: _Recurrent,
        merge_mode: Literal["concat", "sum", "mul", "ave"] | None = "concat",
        backward_layer: _Recurrent | None = None,
        **options: Any,
    ) -> None:
        """TypeError for layers that are not recurrent, ValueError for an unknown mode or layers of one direction."""
        super().__init__(**options)
        for each in (layer, *([] if backward_layer is None else [backward_layer])):
            if not isinstance(each, _Recurrent):
                raise TypeError(f"a recurrent layer such as an LSTM goes in both directions, not {safe_repr(each)}")
        if merge_mode not in ("concat", "sum", "mul", "ave", None):
            raise ValueError(f"merge_mode is 'concat', 'sum', 'mul', 'ave' or None, not {safe_repr(merge_mode)}")
        self.forward_layer: Final = layer
        self.backward_layer: Final = backward_layer or layer.like_this(go_backwards=not layer.go_backwards)
        self.merge_mode: Final = merge_mode
        if self.forward_layer.go_backwards == self.backward_layer.go_backwards:
            raise ValueError("both layers go in the same direction")
        for each in (self.forward_layer, self.backward_layer):
            each.zero_output_for_mask = each.return_sequences

    def call(self, inputs: Tensor, sequence_length: Any = None, mask: Any = None, training: bool = False) -> Any:
        """The merged outputs, then the states of both layers if they return states."""
        found = [
            layer(inputs, sequence_length=sequence_length, mask=mask, training=training)
            for layer in (self.forward_layer, self.backward_layer)
        ]
        (one, *states), (other, *more) = [each if isinstance(each, list) else [each] for each in found]
        if self.backward_layer.return_sequences:
            backward = self.backward_layer.go_backwards
            one, other = (
                (one if backward else _backwards(one, sequence_length)),
                (_backwards(other, sequence_length) if backward else other),
            )
        merged = self._merged(one, other)
        return [merged, *states, *more] if states else merged

    def compute_mask(self, inputs: Tensor, mask: Any = None) -> Any:
        """That of the inputs, for one or both outputs, if the outputs of all steps are returned."""
        shown = mask if self.forward_layer.return_sequences else None
        return shown if self.merge_mode is not None else [shown, shown]

    def _merged(self, one: Tensor, other: Tensor) -> Any:
        match self.merge_mode:
            case "concat":
                return concat([one, other], -1)
            case "sum":
                return add(one, other)
            case "mul":
                return one * other
            case "ave":
                return (one + other) / 2.0
        return [one, other]


class TimeDistributed(Layer):
    """A layer applied to each step by itself: [batch, steps, ...] gives [batch, steps, ...]."""

    supports_masking = True

    def __init__(self, layer: Layer, **options: Any) -> None:
        """TypeError for something that is no layer."""
        super().__init__(**options)
        if not isinstance(layer, Layer):
            raise TypeError(f"a layer is distributed over time, not {safe_repr(layer)}")
        self.layer: Final = layer

    def call(self, inputs: Tensor, training: bool = False) -> Any:
        """The results of all steps."""
        known, sizes = inputs.shape.as_list(), shape(inputs)
        together = reshape(inputs, concat([[-1], sizes[2:]], 0))
        together.set_shape([None, *known[2:]])

        def apart(output: Tensor) -> Tensor:
            made = reshape(output, concat([sizes[:2], shape(output)[1:]], 0))
            made.set_shape([*known[:2], *output.shape.as_list()[1:]])
            return made

        return nest.map_structure(apart, self.layer(together, training=training))


def _open(initializer: Any, sizes: Sequence[int], dtype: Any) -> Tensor:
    """The bias of an LSTM whose second quarter is 1."""
    units = sizes[0] // 4
    return concat([initializer([units], dtype=dtype), ones([units], dtype), initializer([2 * units], dtype=dtype)], 0)


def _backwards(inputs: Tensor, lengths: Any) -> Tensor:
    if lengths is None:
        return reverse(inputs, [1])
    return reverse_sequence(inputs, cast(lengths, int32), seq_axis=1, batch_axis=0)
