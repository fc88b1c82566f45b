"""Recurrent layers, which repeat units or cells over the steps of sequences."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.concat import concat, stack
from aioflow.kernels.array.constants import zeros
from aioflow.kernels.array.shapes import reshape, shape
from aioflow.kernels.math.arithmetic import add
from aioflow.kernels.math.elementwise import sigmoid, tanh
from aioflow.layers.layer import Layer, known_size, one_shape
from aioflow.layers.recurrent_cells import (
    StackedRNNCells,
    checked_cell,
    listed,
    output_size_of,
    same_drops,
)
from aioflow.layers.recurrent_loop import Loop, Steps, backwards
from aioflow.layers.recurrent_units import GRUUnits, LSTMUnits, SimpleUnits, Units
from aioflow.library.lstm import lstm
from aioflow.library.rnn_cell_base import sizes_of
from aioflow.tensors import nest
from aioflow.tensors.dtypes import float32, float64
from aioflow.tensors.recursion import safe_repr
from aioflow.tensors.shape import TensorShape

_DTYPES: Final = ({float32}, {float64})
"""Those of an LSTM in one operation."""


class _UnitsLoop(Units, Loop):
    """A loop over units: the products of all inputs with the kernel are computed before it."""

    def build(self, input_shape: Any) -> None:
        """Make the weights."""
        self.make_weights(known_size(one_shape(input_shape, 3), 2))
        super().build(input_shape)

    def state_sizes(self, input_shape: TensorShape) -> Sequence[int]:
        """The number of units for each state."""
        return [self.units] * self._states

    @contextlib.contextmanager
    def steps(self, inputs: Tensor, training: bool) -> Iterator[Steps]:
        """The products, and a step of the units."""
        given = self.dropped(inputs, self.dropout, [None, 1, None]) if training else None
        kept = self.kept_outputs(shape(inputs)[0]) if training else None
        projected = self.projected(inputs if given is None else given)
        yield Steps(projected, lambda row, states: self.step(row, states, kept))


class SimpleRNN(SimpleUnits, _UnitsLoop):
    """output = activation(inputs @ kernel + output before @ recurrent_kernel + bias).

    Examples:
        >>> af.layers.SimpleRNN(16)(af.ones([2, 5, 8])).shape
        TensorShape([2, 16])
    """


class LSTM(LSTMUnits, _UnitsLoop):
    """A layer with a memory that gates keep, fill and read [Hochreiter and Schmidhuber 1997].

        i, f, c, o = split(inputs @ kernel + output before @ recurrent_kernel + bias, 4)
        memory = sigmoid(f) * memory before + sigmoid(i) * tanh(c);   output = sigmoid(o) * tanh(memory)

    The weights are `kernel` [size, 4 units], `recurrent_kernel` [units, 4 units] and `bias` [4 units]. The states are
    the output and the memory. `unit_forget_bias` begins with 1 in the bias of f, so that at first little is forgotten.

    Examples:
        >>> af.layers.LSTM(16)(af.ones([2, 5, 8])).shape
        TensorShape([2, 16])
    """

    def all_steps(
        self, inputs: Tensor, first: list[Any] | None, lengths: Any, training: bool
    ) -> tuple[Tensor, list[Tensor]] | None:
        """All outputs and the last states by `af.nn.lstm`, unless it would compute something else."""
        usual = self.activation is tanh and self.recurrent_activation is sigmoid
        states = [] if first is None else [convert_to_tensor(state) for state in first]
        if not usual or self.recurrent_dropout or {self.dtype, *[state.dtype for state in states]} not in _DTYPES:
            return None
        given = self.dropped(inputs, self.dropout, [None, 1, None]) if training else None
        x = transpose(inputs if given is None else given, [1, 0, 2])
        bias = zeros(self._bias_shape(), self.dtype) if self.bias is None else self.bias
        h, c = states or (None, None)
        outputs, h, c = lstm(x, self.kernel, self.recurrent_kernel, bias, h, c, lengths)
        return transpose(outputs, [1, 0, 2]), [h, c]


class GRU(GRUUnits, _UnitsLoop):
    """A layer whose gates mix their output before with a new one [Cho et al. 2014].

        z, r, n = inputs @ kernel + bias;   u, s, m = output before @ recurrent_kernel + recurrent bias
        z = sigmoid(z + u);  r = sigmoid(r + s);  n = tanh(n + r * m);  output = z * output before + (1 - z) * n

    The weights are `kernel` [size, 3 units], `recurrent_kernel` [units, 3 units] and `bias` [2, 3 units], for inputs
    and outputs. Without `reset_after` r is applied before the product, and `bias` is [3 units].

    Examples:
        >>> af.layers.GRU(16, return_sequences=True)(af.ones([2, 5, 8])).shape
        TensorShape([2, 5, 16])
    """


class RNN(Loop):
    """A cell repeated over the steps of sequences.

        af.layers.RNN([af.layers.LSTMCell(64), af.layers.LSTMCell(64)], return_sequences=True)

    A cell is a layer with a `state_size`, an int or a list, and `call(inputs, states)`, which returns the output and
    the list of states after a step. `output_size` is the size of its output, if that is not the first of `state_size`.

    Args:
        cell: the cell, or a list of cells, one on the other.
        options: those of all recurrent layers, such as `return_sequences`.

    Examples:
        >>> rnn = af.layers.RNN([af.layers.GRUCell(8), af.layers.GRUCell(4)], return_sequences=True)
        >>> rnn(np.ones((2, 5, 3), np.float32)).shape
        TensorShape([2, 5, 4])
    """

    _rank = None

    def __init__(self, cell: Any, *flags: Any, **options: Any) -> None:
        """TypeError for something that is no cell."""
        super().__init__(*flags, **options)
        self.cell: Final = StackedRNNCells(cell) if isinstance(cell, (list, tuple)) else checked_cell(cell)

    def state_sizes(self, input_shape: TensorShape) -> Sequence[Any]:
        """That of the output, then those of the states of the cell."""
        return [output_size_of(self.cell), *nest.flatten(self.cell.state_size)]

    def states_given(self, initial_state: Any, inputs: Tensor) -> list[Tensor]:
        """The states of the cell, after zeros for the output. ValueError for another structure of states."""
        given = nest.flatten(initial_state)
        sizes = [shape(inputs)[0], *sizes_of(output_size_of(self.cell))]
        return [zeros(stack(sizes), self.dtype), *given]

    def states_shown(self, states: list[Tensor]) -> list[Any]:
        """The states of the cell, in the structure of its `state_size`."""
        return listed(nest.pack_sequence_as(self.cell.state_size, states[1:]))

    @contextlib.contextmanager
    def steps(self, inputs: Tensor, training: bool) -> Iterator[Steps]:
        """The inputs, and a call of the cell."""

        def step(row: Tensor, states: Sequence[Tensor]) -> Sequence[Tensor]:
            before = listed(nest.pack_sequence_as(self.cell.state_size, list(states[1:])))
            output, after = self.cell(row, before, training=training)
            return [output, *nest.flatten(after)]

        size = inputs.shape.as_list()[-1]
        with same_drops(self.cell, shape(inputs)[0], size, training):
            yield Steps(inputs, step)


class Bidirectional(Layer):
    """A recurrent layer forward, and one like it backward, with their outputs merged.

    Args:
        layer: the layer forward.
        merge_mode: "concat", "sum", "mul", "ave", or None for a list of both outputs.
        backward_layer: the layer backward; by default one like the first.

    Examples:
        >>> af.layers.Bidirectional(af.layers.LSTM(16))(af.ones([2, 5, 8])).shape
        TensorShape([2, 32])
    """

    supports_masking = True

    def __init__(
        self,
        layer: Loop,
        merge_mode: Literal["concat", "sum", "mul", "ave"] | None = "concat",
        backward_layer: Loop | None = None,
        **options: Any,
    ) -> None:
        """TypeError for layers that are not recurrent, ValueError for an unknown mode or layers of one direction."""
        super().__init__(**options)
        for each in (layer, *([] if backward_layer is None else [backward_layer])):
            if not isinstance(each, Loop):
                raise TypeError(f"a recurrent layer such as an LSTM goes in both directions, not {safe_repr(each)}")
        if merge_mode not in ("concat", "sum", "mul", "ave", None):
            raise ValueError(f"merge_mode is 'concat', 'sum', 'mul', 'ave' or None, not {safe_repr(merge_mode)}")
        self.forward_layer: Final = layer
        self.backward_layer: Final = backward_layer or layer.like_this(go_backwards=not layer.go_backwards)
        self.merge_mode: Final = merge_mode
        if self.forward_layer.go_backwards == self.backward_layer.go_backwards:
            raise ValueError("both layers go in the same direction")
        if self.forward_layer.return_sequences != self.backward_layer.return_sequences:
            raise ValueError("one layer returns the outputs of all steps, and the other the last one: both do the same")
        for each in (self.forward_layer, self.backward_layer):
            each.zero_output_for_mask = each.return_sequences

    def call(
        self, inputs: Tensor, initial_state: Any = None, sequence_length: Any = None, mask: Any = None,
        training: bool = False,
    ) -> Any:  # fmt: skip
        """The merged outputs, then the states of both layers if they return states.

        `initial_state` is a list of the states before the first step, first those of the layer forward.
        """
        given = listed(initial_state) if initial_state is not None else []
        half = len(given) // 2
        if len(given) % 2:
            raise ValueError(f"initial_state has as many states for each layer, not {len(given)} in all")
        found = [
            layer(inputs, initial_state=states or None, sequence_length=sequence_length, mask=mask, training=training)
            for layer, states in ((self.forward_layer, given[:half]), (self.backward_layer, given[half:]))
        ]
        (one, *states), (other, *more) = [each if isinstance(each, list) else [each] for each in found]
        if self.backward_layer.return_sequences:
            backward = self.backward_layer.go_backwards
            one, other = (
                (one if backward else backwards(one, sequence_length)),
                (backwards(other, sequence_length) if backward else other),
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
    """A layer applied to each step by itself: [batch, steps, ...] gives [batch, steps, ...].

    Examples:
        >>> af.layers.TimeDistributed(af.layers.Dense(4))(af.ones([2, 5, 3])).shape
        TensorShape([2, 5, 4])
    """

    supports_masking = True

    def __init__(self, layer: Layer, **options: Any) -> None:
        """TypeError for something that is no layer."""
        super().__init__(**options)
        if not isinstance(layer, Layer):
            raise TypeError(f"a layer is distributed over time, not {safe_repr(layer)}")
        self.layer: Final = layer

    def call(self, inputs: Tensor, training: bool = False) -> Any:
        """The results of all steps. ValueError for inputs without axes for steps and elements."""
        if inputs.shape.ndims is None or inputs.shape.ndims < 3:
            raise ValueError(f"an input [batch, steps, ...] of rank 3 or more is wanted, its shape is {inputs.shape}")
        known, sizes = inputs.shape.as_list(), shape(inputs)
        together = reshape(inputs, concat([[-1], sizes[2:]], 0))
        together.set_shape([None, *known[2:]])

        def apart(output: Tensor) -> Tensor:
            made = reshape(output, concat([sizes[:2], shape(output)[1:]], 0))
            made.set_shape([*known[:2], *output.shape.as_list()[1:]])
            return made

        return nest.map_structure(apart, self.layer(together, training=training))
