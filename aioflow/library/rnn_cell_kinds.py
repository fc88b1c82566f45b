"""The simple cells of recurrent nets: BasicRNNCell and GRUCell."""

from typing import Any

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import split
from aioflow.kernels.math.elementwise import sigmoid
from aioflow.library.initializers import constant_initializer, zeros_initializer
from aioflow.library.rnn_cell_base import (
    Activation,
    RNNCell,
    checked_activation,
    checked_units,
    features_of,
    linear,
)
from aioflow.library.variable_scope import Initializer, Reuse
from aioflow.tensors.shape import TensorShape


class BasicRNNCell(RNNCell):
    """output = state = activation([inputs, state] @ kernel + bias).

    Args:
        num_units: the size of the output and of the state.
        activation: `tanh` by default.
        reuse: see RNNCell.
        name: see RNNCell.
        dtype: see RNNCell.
    """

    def __init__(
        self,
        num_units: int,
        activation: Activation | None = None,
        reuse: Reuse = None,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = True,
    ) -> None:
        super().__init__(trainable, name, dtype, reuse)
        self._num_units = checked_units(num_units)
        self._activation = checked_activation(activation)

    @property
    def state_size(self) -> int:
        """The number of units."""
        return self._num_units

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self._num_units

    def build(self, inputs_shape: TensorShape) -> None:
        """Create `kernel` and `bias`."""
        rows = features_of(inputs_shape) + self._num_units
        self._kernel = self.add_variable("kernel", [rows, self._num_units])
        self._bias = self.add_variable("bias", [self._num_units], zeros_initializer())

    def call(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output, twice."""
        output = self._activation(linear([inputs, state], self._kernel, self._bias))
        return output, output


class GRUCell(RNNCell):
    """A gated recurrent unit [Cho et al. 2014]: gate u keeps the state, gate r selects its part in the candidate.

        r, u = sigmoid([inputs, state] @ gates/kernel + gates/bias)
        output = state = u * state + (1 - u) * activation([inputs, r * state] @ candidate/kernel + candidate/bias)

    Args:
        num_units: the size of the output and of the state.
        activation: `tanh` by default.
        reuse: see RNNCell.
        kernel_initializer: initializer of both kernels.
        bias_initializer: initializer of both biases; by default ones for the gates and zeros for the candidate.
        name: see RNNCell.
        dtype: see RNNCell.
    """

    def __init__(
        self,
        num_units: int,
        activation: Activation | None = None,
        reuse: Reuse = None,
        kernel_initializer: Initializer | None = None,
        bias_initializer: Initializer | None = None,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = True,
    ) -> None:
        super().__init__(trainable, name, dtype, reuse)
        self._num_units = checked_units(num_units)
        self._activation = checked_activation(activation)
        self._kernel_initializer = kernel_initializer
        self._bias_initializer = bias_initializer

    @property
    def state_size(self) -> int:
        """The number of units."""
        return self._num_units

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self._num_units

    def build(self, inputs_shape: TensorShape) -> None:
        """Create a kernel and a bias for the gates, and for the candidate."""
        rows, units = features_of(inputs_shape) + self._num_units, self._num_units
        make, first = self._kernel_initializer, self._bias_initializer
        self._gate_kernel = self.add_variable("gates/kernel", [rows, 2 * units], make)
        self._gate_bias = self.add_variable("gates/bias", [2 * units], first or constant_initializer(1.0))
        self._candidate_kernel = self.add_variable("candidate/kernel", [rows, units], make)
        self._candidate_bias = self.add_variable("candidate/bias", [units], first or zeros_initializer())

    def call(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output, twice."""
        gates = sigmoid(linear([inputs, state], self._gate_kernel, self._gate_bias))
        r, u = split(gates, 2, axis=1)
        new = self._activation(linear([inputs, r * state], self._candidate_kernel, self._candidate_bias))
        output = u * state + (1 - u) * new
        return output, output
