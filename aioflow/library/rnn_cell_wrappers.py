"""Cells around other cells: stacked, with dropout, with a residual connection, on a device."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from aioflow.graph.building import get_default_graph
from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat, split
from aioflow.kernels.math.random import random_uniform
from aioflow.kernels.math.rounding import floor
from aioflow.library.control import device, name_scope
from aioflow.library.nn_functions import dropout
from aioflow.library.rnn_cell_base import RNNCell, sizes_of
from aioflow.library.rnn_cell_kinds import LSTMStateTuple, is_plain_lstm
from aioflow.library.tensor_array import TensorArray
from aioflow.library.variable_scope import VariableScope, variable_scope
from aioflow.tensors import nest
from aioflow.tensors.dtypes import as_dtype


class MultiRNNCell(RNNCell):
    """Stacked cells: each takes the output of the one before. Their scopes are `cell_0` and so on.

    Args:
        cells: the cells, from bottom to top.
        state_is_tuple: whether the state is a tuple of their states; else these are concatenated in one tensor.

    Examples:
        >>> cell = af.nn.rnn_cell.MultiRNNCell([af.nn.rnn_cell.GRUCell(4), af.nn.rnn_cell.GRUCell(6)])
        >>> output, states = cell(af.ones([2, 3]), cell.zero_state(2, af.float32))
        >>> output.shape, len(states)
        (TensorShape([2, 6]), 2)
    """

    def __init__(self, cells: Sequence[Any], state_is_tuple: bool = True) -> None:
        super().__init__()
        if not isinstance(cells, (list, tuple)):
            raise TypeError(f"cells must be a list or tuple of cells, not {cells!r}")
        if not cells:
            raise ValueError("cells is empty: give at least one cell")
        if not state_is_tuple and any(nest.is_nested(cell.state_size) for cell in cells):
            raise ValueError("with state_is_tuple=False the states of the cells cannot be tuples: see their state_size")
        self._cells = list(cells)
        self._state_is_tuple = state_is_tuple

    @property
    def state_size(self) -> Any:
        """The sizes of the cells' states, or their sum if the state is no tuple."""
        sizes = tuple([cell.state_size for cell in self._cells])
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        """The output size of the top cell."""
        return self._cells[-1].output_size

    def zero_state(self, batch_size: NumberLike, dtype: Any) -> Any:
        """Return the initial states of the cells."""
        with name_scope(f"{type(self).__name__}ZeroState", values=[batch_size]):
            if not self._state_is_tuple:
                return super().zero_state(batch_size, dtype)
            return tuple([cell.zero_state(batch_size, dtype) for cell in self._cells])

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Return the output of the top cell, and the states of all cells."""
        states = self._states(state)
        made = []
        for number, (cell, mine) in enumerate(zip(self._cells, states, strict=True)):
            with variable_scope(f"cell_{number}"):
                inputs, after = cell(inputs, mine)
            made.append(after)
        return inputs, tuple(made) if self._state_is_tuple else concat(made, 1)

    def all_steps(self, inputs: Any, state: Any, lengths: Tensor | None) -> tuple[Tensor, Any] | None:
        """The outputs of all steps and the last states, if all cells are LSTM cells that have them by one operation."""
        if type(self) is not MultiRNNCell or not all(is_plain_lstm(cell) for cell in self._cells):
            return None
        made = []
        with self.with_variables(inputs, nest.map_structure(lambda tensor: tensor.shape[1:], inputs)):
            for number, (cell, mine) in enumerate(zip(self._cells, self._states(state), strict=True)):
                with variable_scope(f"cell_{number}"):
                    found = cell.all_steps(inputs, mine, lengths)
                if found is None:
                    return None
                inputs, after = found
                made.append(after)
            return inputs, tuple(made) if self._state_is_tuple else concat(made, 1)

    def _states(self, state: Any) -> Sequence[Any]:
        if not self._state_is_tuple:
            return split(state, [cell.state_size for cell in self._cells], axis=1)
        if not isinstance(state, (list, tuple)) or len(state) != len(self._cells):
            raise ValueError(f"the state must be a tuple of {len(self._cells)} states, one per cell, not {state!r}")
        return state


class _Wrapper(RNNCell):
    """A cell that extends another one, whose variables it uses."""

    def __init__(self, cell: Any) -> None:
        super().__init__()
        self.cell: RNNCell = _checked_cell(cell)

    @property
    def wrapped_cell(self) -> Any:
        """The inner cell."""
        return self.cell

    @property
    def state_size(self) -> Any:
        """The state size of the inner cell."""
        return self.cell.state_size

    @property
    def output_size(self) -> Any:
        """The output size of the inner cell."""
        return self.cell.output_size

    @property
    def variables(self) -> list[Any]:
        """The variables of the inner cell."""
        return list(getattr(self.cell, "variables", ()))

    def zero_state(self, batch_size: NumberLike, dtype: Any) -> Any:
        """Return the initial state of the inner cell."""
        with name_scope(f"{type(self).__name__}ZeroState", values=[batch_size]):
            return self.cell.zero_state(batch_size, dtype)


def _checked_cell(cell: Any) -> Any:
    if not callable(cell) or not hasattr(cell, "state_size") or not hasattr(cell, "output_size"):
        raise TypeError(f"cell must be a cell, with state_size and output_size, not {cell!r}")
    return cell


class DropoutWrapper(_Wrapper):
    """A cell with dropout of its inputs, outputs or state.

    Args:
        cell: the cell.
        input_keep_prob: the probability that an element of the inputs is kept; 1 for all.
        output_keep_prob: the same for the outputs.
        state_keep_prob: the same for the next state.
        variational_recurrent: whether a run drops the same elements at all steps, and in the whole batch
            [Gal and Ghahramani 2015].
        input_size: the sizes of the inputs without the batch, needed for `variational_recurrent` with an
            `input_keep_prob` below 1.
        dtype: the dtype of inputs, state and outputs, needed for `variational_recurrent`.
        seed: see `get_seed`.
        dropout_state_filter_visitor: a function of the state that returns, for each part, whether it may lose elements;
            by default all except the memory `c` of an LSTMStateTuple.

    Raises:
        TypeError: `cell` is not a cell.
        ValueError: a probability is not above 0 and up to 1, or a needed argument is missing.

    Examples:
        >>> cell = af.nn.rnn_cell.DropoutWrapper(af.nn.rnn_cell.GRUCell(4), output_keep_prob=0.9)
        >>> cell.output_size
        4
    """

    def __init__(
        self,
        cell: Any,
        input_keep_prob: NumberLike = 1.0,
        output_keep_prob: NumberLike = 1.0,
        state_keep_prob: NumberLike = 1.0,
        variational_recurrent: bool = False,
        input_size: Any = None,
        dtype: Any = None,
        seed: int | None = None,
        dropout_state_filter_visitor: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(cell)
        if dropout_state_filter_visitor is not None and not callable(dropout_state_filter_visitor):
            raise TypeError(f"dropout_state_filter_visitor must be a function, not {dropout_state_filter_visitor!r}")
        self._input_keep_prob = _probability("input_keep_prob", input_keep_prob)
        self._output_keep_prob = _probability("output_keep_prob", output_keep_prob)
        self._state_keep_prob = _probability("state_keep_prob", state_keep_prob)
        self._seed = seed
        self._may_drop = dropout_state_filter_visitor or _may_drop
        self._noise: dict[str, list[Tensor]] = {}
        if variational_recurrent:
            self._draw(input_size, dtype)

    def _draw(self, input_size: Any, dtype: Any) -> None:
        """Return the random numbers of all steps of a run, one for each element."""
        if dtype is None:
            raise ValueError("variational_recurrent=True needs the dtype")
        if _drops(self._input_keep_prob) and input_size is None:
            raise ValueError("variational_recurrent=True with an input_keep_prob below 1 needs the input_size")
        kinds = {"input": input_size, "state": self.cell.state_size, "output": self.cell.output_size}
        for salt, size in kinds.items():
            sizes = [] if size is None else nest.flatten(size)
            self._noise[salt] = [
                random_uniform([1, *sizes_of(each)], dtype=as_dtype(dtype), seed=self._seed_of(salt, index))
                for index, each in enumerate(sizes)
            ]

    def _seed_of(self, salt: str, index: int) -> int | None:
        """Return a different seed for each part of the dropped values; None without a seed."""
        if self._seed is None:
            return None
        digest = hashlib.md5(f"{self._seed}{salt}_{index}".encode(), usedforsecurity=False).hexdigest()
        return int(digest[:8], 16) & 0x7FFFFFFF

    def __call__(self, inputs: Any, state: Any, scope: str | VariableScope | None = None) -> tuple[Any, Any]:
        """Return the output and state of the inner cell, with dropout."""
        with get_default_graph().transaction():
            inputs = self._drop("input", inputs, self._input_keep_prob)
            output, after = self.cell(inputs, state, scope)
            after = self._drop("state", after, self._state_keep_prob, self._may_drop)
            return self._drop("output", output, self._output_keep_prob), after

    def _drop(self, salt: str, values: Any, keep_prob: Any, may: Callable[[Any], Any] = lambda _: True) -> Any:
        if not _drops(keep_prob):
            return values
        leaves, chosen = nest.flatten(values), _spread(may, values)
        made = [
            self._drop_one(salt, index, value, keep_prob) if drop else value
            for index, (value, drop) in enumerate(zip(leaves, chosen, strict=True))
        ]
        return nest.pack_sequence_as(values, made)

    def _drop_one(self, salt: str, index: int, value: Any, keep_prob: Any) -> Tensor:
        if salt not in self._noise:
            return dropout(value, keep_prob=keep_prob, seed=self._seed_of(salt, index))
        kept: Tensor = value / keep_prob * floor(self._noise[salt][index] + keep_prob)
        return kept


def _probability(what: str, value: Any) -> Any:
    if not isinstance(value, Tensor) and not 0 < value <= 1:
        raise ValueError(f"{what} must be above 0 and up to 1, not {value!r}")
    return value


def _drops(keep_prob: Any) -> bool:
    return isinstance(keep_prob, Tensor) or keep_prob < 1


def _may_drop(part: Any) -> Any:
    """Whether parts of a state may lose elements: a memory may not."""
    if isinstance(part, LSTMStateTuple):
        return LSTMStateTuple(c=False, h=True)
    return not isinstance(part, TensorArray)


def _spread(may: Callable[[Any], Any], values: Any) -> list[bool]:
    """Return the result of `may` for each leaf, which is called for each structure with leaves and for each leaf."""
    said = may(values)
    if isinstance(said, (list, tuple, dict)):
        nest.assert_same_structure(said, values)
        return [bool(each) for each in nest.flatten(said)]
    if not said or not nest.is_nested(values):
        return [bool(said)] * len(nest.flatten(values))
    items = [values[key] for key in sorted(values)] if isinstance(values, dict) else list(values)
    return [each for item in items for each in _spread(may, item)]


class ResidualWrapper(_Wrapper):
    """A cell that adds its inputs to its output.

    Args:
        cell: the cell.
        residual_fn: a function of inputs and outputs that returns the output, instead of their sum.

    Examples:
        >>> cell = af.nn.rnn_cell.ResidualWrapper(af.nn.rnn_cell.GRUCell(4))
        >>> output, state = cell(af.ones([2, 4]), cell.zero_state(2, af.float32))
        >>> output.shape
        TensorShape([2, 4])
    """

    def __init__(self, cell: Any, residual_fn: Callable[[Any, Any], Any] | None = None) -> None:
        super().__init__(cell)
        self._residual_fn = residual_fn or _sums

    def __call__(self, inputs: Any, state: Any, scope: str | VariableScope | None = None) -> tuple[Any, Any]:
        """Return the output of the inner cell plus the inputs, and its state."""
        with get_default_graph().transaction():
            output, after = self.cell(inputs, state, scope)
            return self._residual_fn(inputs, output), after


def _sums(inputs: Any, outputs: Any) -> Any:
    nest.assert_same_structure(inputs, outputs)
    for mine, made in zip(nest.flatten(inputs), nest.flatten(outputs), strict=True):
        if not mine.shape.is_compatible_with(made.shape):
            raise ValueError(f"inputs of shape {mine.shape} cannot be added to outputs of shape {made.shape}")
    return nest.map_structure(lambda mine, made: mine + made, inputs, outputs)


class DeviceWrapper(_Wrapper):
    """A cell whose operations ask for a device.

    Args:
        cell: the cell.
        device: as `af.device` takes it.

    Examples:
        >>> cell = af.nn.rnn_cell.DeviceWrapper(af.nn.rnn_cell.GRUCell(4), "/cpu:0")
        >>> cell.output_size
        4
    """

    def __init__(self, cell: Any, device: Any) -> None:
        super().__init__(cell)
        self._device = device

    def zero_state(self, batch_size: NumberLike, dtype: Any) -> Any:
        """Return the initial state of the inner cell, on the device."""
        with device(self._device):
            return super().zero_state(batch_size, dtype)

    def __call__(self, inputs: Any, state: Any, scope: str | VariableScope | None = None) -> tuple[Any, Any]:
        """Return the output and state of the inner cell, on the device."""
        with device(self._device):
            output, after = self.cell(inputs, state, scope)
            return output, after
