"""Recurrent layers: RNN, GRU and LSTM, in one or both directions, as loops over the time steps.

A plain LSTM is one operation.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import reverse, transpose
from aioflow.kernels.array.concat import split, stack
from aioflow.kernels.array.constants import constant, zeros
from aioflow.kernels.array.partition import ensure_shape
from aioflow.kernels.array.ranges import range as number_range
from aioflow.kernels.array.select import select
from aioflow.kernels.array.sequence import reverse_sequence
from aioflow.kernels.array.shapes import expand_dims
from aioflow.kernels.families import shaped_like
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.linalg.products import tensordot
from aioflow.kernels.math.arithmetic import add, maximum, minimum, multiply, subtract
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import less
from aioflow.kernels.math.elementwise import sigmoid, tanh
from aioflow.library.functional import scan
from aioflow.library.lstm import lstm
from aioflow.onnx.call import Call
from aioflow.onnx.operators.gate_functions import Function, gate_functions
from aioflow.onnx.operators.values import size_at, sizes_of
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import float32, float64, int64

Cell = Callable[[Tensor, Sequence[Tensor]], Sequence[Tensor]]
"""(the inputs' part of the gates, state) -> the next state, whose first part is the output."""


@dataclasses.dataclass(frozen=True, slots=True)
class Weights:
    """The weights of one direction, as they are multiplied from the right, and the functions of its gates."""

    inputs: Tensor
    state: Tensor
    inputs_bias: Tensor | None
    state_bias: Tensor | None
    peepholes: Sequence[Tensor] | None
    functions: Sequence[Function]


class Layer:
    """The inputs of a recurrent node, with the time steps first."""

    def __init__(self, call: Call, gates: int, functions: Sequence[str], inputs: Sequence[Any]) -> None:
        x, w, r, bias, lengths, state, cell, peepholes = [*inputs, *[None] * 8][:8]
        self._call, self._gates, self._batch_first = call, gates, call.flag("layout")
        self.x = transpose(x, [1, 0, 2]) if self._batch_first else x
        self.lengths, self._w, self._r, self._bias, self._peepholes = lengths, w, r, bias, peepholes
        self._given = [state, cell]
        self._functions = gate_functions(call, functions)
        direction = call.text("direction", "forward")
        self.backwards: list[bool] = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]

    def weights(self, index: int) -> Weights:
        """Those of one direction."""
        parts: list[Tensor | None] = [None, None]
        if self._bias is not None:
            parts = list(split(self._bias[index], 2, 0))
        peepholes = None if self._peepholes is None else split(self._peepholes[index], 3, 0)
        count = (
            len(self._functions) // len(self.backwards) if self._call.has("activations") else len(self._functions) // 2
        )
        functions = self._functions[index * count : (index + 1) * count]
        return Weights(transpose(self._w[index]), transpose(self._r[index]), parts[0], parts[1], peepholes, functions)

    def results(self, make: Callable[[Weights], Cell], states: int) -> tuple[Tensor, ...]:
        """The outputs of all steps, then the last states, of all directions."""
        made = [self._direction(index, make, states) for index in range(len(self.backwards))]
        outputs = stack([outputs for outputs, _ in made], 1)
        last = [stack([ends[place] for _, ends in made], 0) for place in range(states)]
        if not self._batch_first:
            return (outputs, *last)
        return (transpose(outputs, [2, 0, 1, 3]), *[transpose(each, [1, 0, 2]) for each in last])

    def _direction(self, index: int, make: Callable[[Weights], Cell], states: int) -> tuple[Tensor, list[Tensor]]:
        weights, back = self.weights(index), self.backwards[index]
        x = self._reversed(self.x) if back else self.x
        initial = [self._initial(place, index) for place in range(states)]
        if self._is_plain_lstm(weights):
            outputs, ends = self._whole(x, weights, initial)
        else:
            rows = tensordot(x, weights.inputs, 1)
            if weights.inputs_bias is not None:
                rows = add(rows, weights.inputs_bias)
            outputs, ends = self._steps(rows, make(weights), initial)
        return self._reversed(outputs) if back else outputs, ends

    def _is_plain_lstm(self, weights: Weights) -> bool:
        """Whether `af.nn.lstm` computes all steps."""
        if self._gates != 4 or weights.peepholes is not None or self.x.dtype not in (float32, float64):
            return False
        usual = all(mine is its for mine, its in zip(weights.functions, (sigmoid, tanh, tanh), strict=True))
        return usual and not self._call.has("clip") and not self._call.flag("input_forget")

    def _whole(self, x: Tensor, weights: Weights, initial: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """The outputs of all steps and the last states, by one operation."""
        one, other = weights.inputs_bias, weights.state_bias
        bias = zeros([size_at(weights.state, 1)], x.dtype) if one is None or other is None else add(one, other)
        h, c = initial
        outputs, h, c = lstm(x, weights.inputs, weights.state, bias, h, c, self.lengths, "iofc")
        return outputs, [h, c]

    def _initial(self, place: int, index: int) -> Tensor:
        given: Tensor | None = self._given[place]
        if given is not None:
            return given[:, index] if self._batch_first else given[index]
        return zeros([size_at(self.x, 1), self._call.integer("hidden_size")], self.x.dtype)

    def _reversed(self, x: Tensor) -> Tensor:
        if self.lengths is None:
            return reverse(x, [0])
        return reverse_sequence(x, self.lengths, seq_axis=0, batch_axis=1)

    def _steps(self, rows: Tensor, cell: Cell, initial: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """The outputs of all steps and the last states. An ended sequence keeps its state, and its output is 0."""
        rows = self._fitting(rows, initial[0])
        if self.lengths is None:
            made = scan(lambda state, row: _like(state, cell(row, state)), rows, tuple(initial))
            return made[0], [each[-1] for each in made]
        steps = number_range(sizes_of(rows)[0])
        alive = expand_dims(less(expand_dims(steps, 1), cast(expand_dims(self.lengths, 0), int64)), 2)

        def step(state: Any, row: Any) -> Any:
            kept = [select(row[1], new, old) for new, old in zip(cell(row[0], state), state, strict=True)]
            return _like(state, kept)

        made = scan(step, (rows, alive), tuple(initial))
        return select(alive, made[0], constant(0, rows.dtype)), [each[-1] for each in made]

    def _fitting(self, rows: Tensor, state: Tensor) -> Tensor:
        """The rows, with the sizes of the state, which may be known where those of the rows are not."""
        batch, units = state.shape.with_rank(2)
        width = None if units.value is None else self._gates * units.value
        return ensure_shape(rows, [None, batch.value, width])

    def clipped(self, x: Tensor) -> Tensor:
        """Gates within the limit of the node, if it has one."""
        if not self._call.has("clip"):
            return x
        limit = constant(self._call.number("clip"), x.dtype)
        return minimum(maximum(x, -limit), limit)


def _like(state: Sequence[Tensor], after: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The state after a step, which has the shape of the one before."""
    return tuple([shaped_like(old, new) for old, new in zip(state, after, strict=True)])


def _projected(state: Tensor, weights: Weights) -> Tensor:
    """The state's part of the gates."""
    made = matmul(state, weights.state)
    return made if weights.state_bias is None else add(made, weights.state_bias)


@operator("RNN", since=7)
def _(call: Call, *inputs: Tensor | None) -> tuple[Tensor, ...]:
    layer = Layer(call, 1, ["tanh"], inputs)

    def make(weights: Weights) -> Cell:
        return lambda row, state: (weights.functions[0](layer.clipped(add(row, _projected(state[0], weights)))),)

    return layer.results(make, 1)


@operator("GRU", since=7)
def _(call: Call, *inputs: Tensor | None) -> tuple[Tensor, ...]:
    layer = Layer(call, 3, ["sigmoid", "tanh"], inputs)
    before = not call.flag("linear_before_reset")
    return layer.results(lambda weights: functools.partial(_gru, layer, weights, before), 1)


def _gru(layer: Layer, weights: Weights, reset_first: bool, row: Tensor, state: Sequence[Tensor]) -> Sequence[Tensor]:
    (h,), (gate, change) = state, weights.functions
    row_z, row_r, row_h = split(row, 3, 1)
    z_part, r_part, h_part = split(_projected(h, weights), 3, 1)
    z, r = gate(layer.clipped(add(row_z, z_part))), gate(layer.clipped(add(row_r, r_part)))
    part = multiply(r, h_part)
    if reset_first:
        size = size_at(h, 1)
        part = matmul(multiply(r, h), weights.state[:, 2 * size :])
        part = part if weights.state_bias is None else add(part, weights.state_bias[2 * size :])
    new = change(layer.clipped(add(row_h, part)))
    return (add(multiply(subtract(constant(1, z.dtype), z), new), multiply(z, h)),)


@operator("LSTM", since=7)
def _(call: Call, *inputs: Tensor | None) -> tuple[Tensor, ...]:
    layer = Layer(call, 4, ["sigmoid", "tanh", "tanh"], inputs)
    coupled = call.flag("input_forget")
    return layer.results(lambda weights: functools.partial(_lstm, layer, weights, coupled), 2)


def _lstm(layer: Layer, weights: Weights, coupled: bool, row: Tensor, state: Sequence[Tensor]) -> Sequence[Tensor]:
    (h, c), (gate, change, out) = state, weights.functions
    i, o, f, new = split(add(row, _projected(h, weights)), 4, 1)
    peep_i, peep_o, peep_f = weights.peepholes or (None, None, None)
    i = gate(layer.clipped(_peeped(i, peep_i, c)))
    f = subtract(constant(1, i.dtype), i) if coupled else gate(layer.clipped(_peeped(f, peep_f, c)))
    now = add(multiply(f, c), multiply(i, change(layer.clipped(new))))
    o = gate(layer.clipped(_peeped(o, peep_o, now)))
    return multiply(o, out(now)), now


def _peeped(part: Tensor, weights: Tensor | None, cell: Tensor) -> Tensor:
    return part if weights is None else add(part, multiply(weights, cell))
