"""The weights of recurrent layers and cells, and what they compute in a step. They are laid out as in Keras."""

from collections.abc import Sequence
from typing import Any, Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat, split
from aioflow.kernels.array.constants import ones
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.linalg.products import tensordot
from aioflow.kernels.nn.activation import bias_add
from aioflow.layers import by_name, numbers
from aioflow.layers.layer import Layer
from aioflow.layers.numbers import rate, switch, whole
from aioflow.library.nn_functions import dropout
from aioflow.library.variables import Variable


class Units(Layer):
    """Weights, and a step: from the inputs and the states before it to the states after it, the output first.

    Args:
        units: the size of the output, and of each state.
        dropout: the rate at which inputs are dropped in training, the same ones in all steps.
        recurrent_dropout: the same for the output of the step before.
    """

    casts_integers = True
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
        seed: int | None = None,
        **options: Any,
    ) -> None:
        """ValueError for fewer than one unit, or rates outside of [0, 1)."""
        super().__init__(**options)
        self.units: Final = whole("units", units, 1)
        self.activation: Final = by_name.activation(activation)
        self.use_bias: Final = switch("use_bias", use_bias)
        self.dropout: Final = rate("dropout", dropout)
        self.recurrent_dropout: Final = rate("recurrent_dropout", recurrent_dropout)
        self.seed: Final = numbers.seed(seed)
        self._kernel_options = by_name.weight(kernel_initializer, kernel_regularizer, kernel_constraint)
        self._recurrent_options = by_name.weight(recurrent_initializer, recurrent_regularizer, recurrent_constraint)
        self._bias_options = by_name.weight(bias_initializer, bias_regularizer, bias_constraint)

    def make_weights(self, size: int) -> None:
        """Make the weights for inputs of that size."""
        width = self._gates * self.units
        self.kernel: Variable = self.add_weight("kernel", [size, width], None, *self._kernel_options)
        self.recurrent_kernel: Variable = self.add_weight(
            "recurrent_kernel", [self.units, width], None, *self._recurrent_options
        )
        self.bias: Variable | None = (
            self.add_weight("bias", self._bias_shape(), None, *self._bias_options) if self.use_bias else None
        )

    def projected(self, inputs: Tensor) -> Tensor:
        """The products of inputs [..., size] with the kernel, with the bias for inputs."""
        rank = len(inputs.shape.as_list())
        flat = rank == 2
        product = matmul(inputs, self.kernel) if flat else tensordot(inputs, self.kernel, [[rank - 1], [0]])
        return product if self.bias is None else bias_add(product, self._input_bias())

    def step(self, projected: Tensor, states: Sequence[Tensor], kept: Tensor | None) -> Sequence[Tensor]:
        """The states after a step, given `projected` inputs, the states before, and what is kept of the output."""
        raise NotImplementedError

    def kept_outputs(self, batch: Any) -> Tensor | None:
        """The factors [batch, units] by which `recurrent_dropout` drops outputs; None without it."""
        return self.dropped(ones(concat([[batch], [self.units]], 0), self.dtype), self.recurrent_dropout)

    def dropped(self, values: Tensor, part: float, noise_shape: Sequence[int | None] | None = None) -> Tensor | None:
        """The values after dropout; None without it."""
        return dropout(values, rate=part, noise_shape=noise_shape, seed=self.seed) if part else None

    def _bias_shape(self) -> list[int]:
        return [self._gates * self.units]

    def _input_bias(self) -> Any:
        return self.bias

    def _active(self, x: Tensor) -> Tensor:
        return x if self.activation is None else self.activation(x)

    def _recurred(self, output: Tensor, kept: Tensor | None) -> Tensor:
        product: Tensor = matmul(output if kept is None else output * kept, self.recurrent_kernel)
        return product


class SimpleUnits(Units):
    """output = activation(inputs @ kernel + output before @ recurrent_kernel + bias)."""

    _gates = 1

    def step(self, projected: Tensor, states: Sequence[Tensor], kept: Tensor | None) -> Sequence[Tensor]:
        """The output after a step."""
        return [self._active(projected + self._recurred(states[0], kept))]


class LSTMUnits(Units):
    """What an `LSTM` computes in a step."""

    _gates, _states = 4, 2

    def __init__(
        self, units: int, activation: Any = "tanh", recurrent_activation: Any = "sigmoid", use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros", unit_forget_bias: bool = True, **options: Any,
    ) -> None:  # fmt: skip
        weights = kernel_initializer, recurrent_initializer, forgetting_little(bias_initializer, unit_forget_bias)
        super().__init__(units, activation, use_bias, *weights, **options)
        self.recurrent_activation: Final = by_name.activation(recurrent_activation)

    def step(self, projected: Tensor, states: Sequence[Tensor], kept: Tensor | None) -> Sequence[Tensor]:
        """Output and memory after a step."""
        gate = self.recurrent_activation or (lambda x: x)
        output, memory = states
        i, f, c, o = split(projected + self._recurred(output, kept), 4, axis=1)
        memory = gate(f) * memory + gate(i) * self._active(c)
        return [gate(o) * self._active(memory), memory]


class GRUUnits(Units):
    """What a `GRU` computes in a step."""

    _gates = 3

    def __init__(
        self, units: int, activation: Any = "tanh", recurrent_activation: Any = "sigmoid", use_bias: bool = True,
        *weights: Any, reset_after: bool = True, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(units, activation, use_bias, *weights, **options)
        self.recurrent_activation: Final = by_name.activation(recurrent_activation)
        self.reset_after: Final = switch("reset_after", reset_after)

    def _bias_shape(self) -> list[int]:
        return [2, 3 * self.units] if self.reset_after else [3 * self.units]

    def _input_bias(self) -> Any:
        return self.bias[0] if self.reset_after and self.bias is not None else self.bias

    def step(self, projected: Tensor, states: Sequence[Tensor], kept: Tensor | None) -> Sequence[Tensor]:
        """The output after a step."""
        gate = self.recurrent_activation or (lambda x: x)
        (before,) = states
        output = before if kept is None else before * kept
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


def forgetting_little(bias_initializer: Any, unit_forget_bias: bool) -> Any:
    """The initializer of the bias of an LSTM, whose second quarter is 1 if that is asked for."""
    given = by_name.initializer(bias_initializer)
    return (lambda sizes, dtype: _open(given, sizes, dtype)) if switch("unit_forget_bias", unit_forget_bias) else given


def _open(initializer: Any, sizes: Sequence[int], dtype: Any) -> Tensor:
    units = sizes[0] // 4
    return concat([initializer([units], dtype=dtype), ones([units], dtype), initializer([2 * units], dtype=dtype)], 0)
