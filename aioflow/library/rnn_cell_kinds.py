"""The cells of recurrent nets: BasicRNNCell, GRUCell, and LSTM cells [Hochreiter and Schmidhuber 1997]."""

from typing import Any, NamedTuple

from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat, split
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.math.elementwise import sigmoid, tanh
from aioflow.kernels.math.rounding import clip_by_value
from aioflow.library.initializers import constant_initializer, zeros_initializer
from aioflow.library.lstm import lstm
from aioflow.library.rnn_cell_base import (
    Activation,
    RNNCell,
    checked_activation,
    checked_units,
    features_of,
    linear,
)
from aioflow.library.variable_scope import Initializer, Reuse
from aioflow.tensors.dtypes import DType, float32, float64
from aioflow.tensors.shape import TensorShape


class BasicRNNCell(RNNCell):
    """output = state = activation([inputs, state] @ kernel + bias).

    Args:
        num_units: the size of the output and of the state.
        activation: a function, or the name of one, such as "relu"; `tanh` by default.
        reuse: see RNNCell.
        name: see RNNCell.
        dtype: see RNNCell.

    Examples:
        >>> cell = af.nn.rnn_cell.BasicRNNCell(4)
        >>> output, state = cell(af.ones([2, 3]), cell.zero_state(2, af.float32))
        >>> output.shape
        TensorShape([2, 4])
    """

    def __init__(
        self,
        num_units: int,
        activation: Activation | str | None = None,
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
        activation: a function, or the name of one, such as "relu"; `tanh` by default.
        reuse: see RNNCell.
        kernel_initializer: initializer of both kernels.
        bias_initializer: initializer of both biases; by default ones for the gates and zeros for the candidate.
        name: see RNNCell.
        dtype: see RNNCell.

    Examples:
        >>> cell = af.nn.rnn_cell.GRUCell(4)
        >>> output, state = cell(af.ones([2, 3]), cell.zero_state(2, af.float32))
        >>> output.shape
        TensorShape([2, 4])
    """

    def __init__(
        self,
        num_units: int,
        activation: Activation | str | None = None,
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


class LSTMStateTuple(NamedTuple):
    """The state of an LSTM cell: its memory c and its output h.

    Examples:
        >>> af.nn.rnn_cell.LSTMStateTuple(c=af.zeros([2, 4]), h=af.zeros([2, 4])).h.shape
        TensorShape([2, 4])
    """

    c: Any
    h: Any

    @property
    def dtype(self) -> DType:
        """The dtype of both. TypeError if they differ."""
        if self.c.dtype is not self.h.dtype:
            raise TypeError(f"c is {self.c.dtype.name} and h is {self.h.dtype.name}: both must have one dtype")
        dtype: DType = self.c.dtype
        return dtype


class BasicLSTMCell(RNNCell):
    """An LSTM cell without peepholes, clipping and projection.

        i, j, f, o = split([inputs, h] @ kernel + bias, 4)
        c = c * sigmoid(f + forget_bias) + sigmoid(i) * activation(j)
        output = h = activation(c) * sigmoid(o)

    Args:
        num_units: the size of c and h.
        forget_bias: added to the gate that keeps the memory, so that at first little is forgotten.
        state_is_tuple: whether the state is an LSTMStateTuple; else c and h are concatenated in one tensor.
        activation: a function, or the name of one, such as "relu"; `tanh` by default.
        reuse: see RNNCell.
        name: see RNNCell.
        dtype: see RNNCell.

    Examples:
        >>> cell = af.nn.rnn_cell.BasicLSTMCell(4)
        >>> output, state = cell(af.ones([2, 3]), cell.zero_state(2, af.float32))
        >>> output.shape
        TensorShape([2, 4])
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Activation | str | None = None,
        reuse: Reuse = None,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = True,
    ) -> None:
        super().__init__(trainable, name, dtype, reuse)
        self._num_units = checked_units(num_units)
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._activation = checked_activation(activation)

    @property
    def state_size(self) -> Any:
        """The sizes of c and h, or their sum if the state is no tuple."""
        sizes = LSTMStateTuple(self._num_units, self.output_size)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> int:
        """The size of h."""
        return self._num_units

    def build(self, inputs_shape: TensorShape) -> None:
        """Create `kernel` and `bias`."""
        rows = features_of(inputs_shape) + self.output_size
        self._kernel = self.add_variable("kernel", [rows, 4 * self._num_units], self._initializer)
        self._bias = self.add_variable("bias", [4 * self._num_units], zeros_initializer())

    _initializer: Initializer | None = None

    def call(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Return the output h, and the state."""
        c, h = self._parts(state)
        i, j, f, o = split(linear([inputs, h], self._kernel, self._bias), 4, axis=1)
        c = c * sigmoid(self._add_forget_bias(f)) + sigmoid(i) * self._activation(j)
        h = self._activation(c) * sigmoid(o)
        return h, self._state(c, h)

    def all_steps(self, inputs: Any, state: Any, lengths: Tensor | None) -> tuple[Tensor, Any] | None:
        """The outputs of all steps and the last state by one operation, unless it would compute something else."""
        if not is_plain_lstm(self) or not isinstance(inputs, Tensor) or inputs.spec.rank != 3:
            return None
        c, h = self._parts(state)
        kinds = {inputs.dtype, c.dtype, h.dtype, self._dtype or inputs.dtype}
        if len(kinds) > 1 or not kinds <= {float32, float64} or {c.spec.rank, h.spec.rank} != {2}:
            return None
        size = inputs.shape[1:]
        with self.with_variables(inputs, size):
            kernel, recurrent_kernel = split(self._kernel, [features_of(size), self._num_units], axis=0)
            i, j, f, o = split(self._bias, 4)
            bias = concat([i, j, self._add_forget_bias(f), o], 0)
            outputs, h, c = lstm(inputs, kernel, recurrent_kernel, bias, h, c, lengths, "icfo")
            return outputs, self._state(c, h)

    @property
    def is_plain(self) -> bool:
        """Whether a step is that of `af.nn.lstm`. A subclass may compute something else."""
        scalar = not isinstance(self._forget_bias, Tensor) or self._forget_bias.spec.rank == 0
        return type(self) in (BasicLSTMCell, LSTMCell) and scalar and self._activation is tanh and not self._adds

    @property
    def _adds(self) -> bool:
        """Whether peepholes, clipping or a projection are added."""
        return False

    def _add_forget_bias(self, f: Tensor) -> Tensor:
        return f + self._forget_bias if isinstance(self._forget_bias, Tensor) or self._forget_bias else f

    def _parts(self, state: Any) -> tuple[Tensor, Tensor]:
        """Return the memory c, and h."""
        if not self._state_is_tuple:
            c, h = split(state, [self._num_units, self.output_size], axis=1)
            return c, h
        if not isinstance(state, (tuple, list)) or len(state) != 2:
            raise ValueError(f"the state of an LSTM cell is a pair, as LSTMStateTuple(c, h), not {state!r}")
        return state[0], state[1]

    def _state(self, c: Tensor, h: Tensor) -> Any:
        return LSTMStateTuple(c, h) if self._state_is_tuple else concat([c, h], 1)


class LSTMCell(BasicLSTMCell):
    """An LSTM cell that may have peepholes, clip its memory and project its output [Sak et al. 2014].

        i, j, f, o = split([inputs, h] @ kernel + bias, 4)
        c' = c * sigmoid(f + forget_bias + w_f_diag * c) + sigmoid(i + w_i_diag * c) * activation(j)
        output = h = activation(c') * sigmoid(o + w_o_diag * c') @ projection/kernel

    Args:
        num_units: the size of c, and of h if there is no projection.
        use_peepholes: whether the gates use c, by the three vectors `w_?_diag`; else these terms are omitted.
        cell_clip: c is clipped to +-cell_clip.
        initializer: initializer of the kernels and the peepholes.
        num_proj: the size of the projected h; None for no projection.
        proj_clip: h is clipped to +-proj_clip, if it is projected.
        num_unit_shards: for compatibility: variables are not partitioned.
        num_proj_shards: for compatibility.
        forget_bias: added to the gate that keeps the memory, so that at first little is forgotten.
        state_is_tuple: whether the state is an LSTMStateTuple; else c and h are concatenated in one tensor.
        activation: a function, or the name of one, such as "relu"; `tanh` by default.
        reuse: see RNNCell.
        name: see RNNCell.
        dtype: see RNNCell.

    Examples:
        >>> cell = af.nn.rnn_cell.LSTMCell(4)
        >>> output, state = cell(af.ones([2, 3]), cell.zero_state(2, af.float32))
        >>> output.shape, state.c.shape
        (TensorShape([2, 4]), TensorShape([2, 4]))
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: NumberLike | None = None,
        initializer: Initializer | None = None,
        num_proj: int | None = None,
        proj_clip: NumberLike | None = None,
        num_unit_shards: int | None = None,
        num_proj_shards: int | None = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Activation | str | None = None,
        reuse: Reuse = None,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = True,
    ) -> None:
        super().__init__(num_units, forget_bias, state_is_tuple, activation, reuse, name, dtype, trainable)
        self._use_peepholes = use_peepholes
        self._cell_clip = cell_clip
        self._initializer = initializer
        self._num_proj = None if num_proj is None else checked_units(num_proj, "num_proj")
        self._proj_clip = proj_clip

    @property
    def output_size(self) -> int:
        """The size of h."""
        return self._num_units if self._num_proj is None else self._num_proj

    def build(self, inputs_shape: TensorShape) -> None:
        """Create `kernel` and `bias`, and, if used, three peepholes and the kernel of the projection."""
        super().build(inputs_shape)
        if self._use_peepholes:
            self._peepholes = [
                self.add_variable(f"w_{gate}_diag", [self._num_units], self._initializer) for gate in "fio"
            ]
        if self._num_proj is not None:
            shape = [self._num_units, self._num_proj]
            self._projection = self.add_variable("projection/kernel", shape, self._initializer)

    def call(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Return the output h, and the state."""
        c, h = self._parts(state)
        i, j, f, o = split(linear([inputs, h], self._kernel, self._bias), 4, axis=1)
        keep, write = sigmoid(self._seen(0, self._add_forget_bias(f), c)), sigmoid(self._seen(1, i, c))
        c = _clip(keep * c + write * self._activation(j), self._cell_clip)
        h = sigmoid(self._seen(2, o, c)) * self._activation(c)
        if self._num_proj is not None:
            h = _clip(matmul(h, self._projection), self._proj_clip)
        return h, self._state(c, h)

    @property
    def _adds(self) -> bool:
        return self._use_peepholes or self._cell_clip is not None or self._num_proj is not None

    def _seen(self, number: int, gate: Tensor, c: Tensor) -> Tensor:
        """Return a gate, which uses the memory with peepholes."""
        return gate + self._peepholes[number] * c if self._use_peepholes else gate


def is_plain_lstm(cell: Any) -> bool:
    """Whether the cell is one of this module whose step is that of `af.nn.lstm`."""
    return isinstance(cell, BasicLSTMCell) and cell.is_plain


def _clip(x: Tensor, bound: Any) -> Tensor:
    return x if bound is None else clip_by_value(x, -bound, bound)
