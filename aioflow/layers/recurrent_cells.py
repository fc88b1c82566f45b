"""Cells: one step of a recurrent layer as a layer, which `RNN` repeats."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import ones
from aioflow.kernels.array.shapes import shape
from aioflow.layers.layer import Layer, known_size, one_shape
from aioflow.layers.numbers import is_sequence
from aioflow.layers.recurrent_units import GRUUnits, LSTMUnits, SimpleUnits, Units
from aioflow.tensors.recursion import safe_repr

_Drops = tuple[Tensor | None, Tensor | None]
"""The factors by which inputs and outputs are dropped."""


class _UnitsCell(Units):
    """One step of units: (inputs [batch, size], states) -> (output, states)."""

    _drops: _Drops | None = None

    @property
    def state_size(self) -> Any:
        """The size of the state, or a list of the sizes of states."""
        return self.units if self._states == 1 else [self.units] * self._states

    @property
    def output_size(self) -> int:
        """The size of the output."""
        return self.units

    def build(self, input_shape: Any) -> None:
        """Make the weights."""
        self.make_weights(known_size(one_shape(input_shape, 2), 1))

    def call(self, inputs: Tensor, states: Any, training: bool = False) -> tuple[Tensor, list[Tensor]]:
        """The output and the list of states after a step, given the state or the list of states before it."""
        before = list(states) if isinstance(states, (list, tuple)) else [states]
        if len(before) != self._states:
            raise ValueError(f"{self._states} states are wanted, not {len(before)}")
        size = known_size(inputs.shape, 1)
        kept_inputs, kept = self._drops or self._new_drops(shape(inputs)[0], size, training)
        after = self.step(self.projected(inputs if kept_inputs is None else inputs * kept_inputs), before, kept)
        return after[0], list(after)

    @contextlib.contextmanager
    def same_drops(self, batch: Any, size: int, training: bool) -> Iterator[None]:
        """Inside the block, all calls drop the same places of inputs of that size, and of outputs."""
        self._drops = self._new_drops(batch, size, training)
        try:
            yield
        finally:
            self._drops = None

    def _new_drops(self, batch: Any, size: int, training: bool) -> _Drops:
        if not training:
            return None, None
        whole = ones(concat([[batch], [size]], 0), self.dtype) if self.dropout else None
        return None if whole is None else self.dropped(whole, self.dropout), self.kept_outputs(batch)


class SimpleRNNCell(SimpleUnits, _UnitsCell):
    """One step of a `SimpleRNN`: (inputs, state) gives (output, [state]).

    Examples:
        >>> rnn = af.layers.RNN(af.layers.SimpleRNNCell(4))
        >>> rnn(np.ones((2, 5, 3), np.float32)).shape
        TensorShape([2, 4])
    """


class LSTMCell(LSTMUnits, _UnitsCell):
    """One step of an `LSTM`: (inputs, [output, memory]) gives (output, [output, memory]).

    Examples:
        >>> rnn = af.layers.RNN(af.layers.LSTMCell(4))
        >>> rnn(np.ones((2, 5, 3), np.float32)).shape
        TensorShape([2, 4])
    """


class GRUCell(GRUUnits, _UnitsCell):
    """One step of a `GRU`: (inputs, state) gives (output, [state]).

    Examples:
        >>> rnn = af.layers.RNN(af.layers.GRUCell(4))
        >>> rnn(np.ones((2, 5, 3), np.float32)).shape
        TensorShape([2, 4])
    """


class StackedRNNCells(Layer):
    """Cells one on the other: the output of one is the input of the next. The states are a list for each cell.

    Examples:
        >>> cells = af.layers.StackedRNNCells([af.layers.LSTMCell(8), af.layers.LSTMCell(4)])
        >>> af.layers.RNN(cells)(np.ones((2, 5, 3), np.float32)).shape
        TensorShape([2, 4])
    """

    def __init__(self, cells: Sequence[Any], **options: Any) -> None:
        """TypeError for anything but a list of cells, ValueError for an empty one."""
        super().__init__(**options)
        if not is_sequence(cells):
            raise TypeError(f"cells is a list of cells, not {safe_repr(cells)}")
        if not cells:
            raise ValueError("cells is a list of one cell or more, and it is empty")
        self.cells: Final = [checked_cell(cell) for cell in cells]

    @property
    def state_size(self) -> list[Any]:
        """The sizes of the states of each cell."""
        return [cell.state_size for cell in self.cells]

    @property
    def output_size(self) -> Any:
        """The size of the output of the last cell."""
        return output_size_of(self.cells[-1])

    def call(self, inputs: Tensor, states: Any, training: bool = False) -> tuple[Tensor, list[Any]]:
        """The output and the states after a step. ValueError unless each cell has its states."""
        if len(states) != len(self.cells):
            raise ValueError(f"states for {len(self.cells)} cells are wanted, not {len(states)}")
        after = []
        for cell, before in zip(self.cells, states, strict=True):
            inputs, new = cell(inputs, listed(before), training=training)
            after.append(listed(new) if isinstance(cell.state_size, (list, tuple)) else listed(new)[0])
        return inputs, after

    @contextlib.contextmanager
    def same_drops(self, batch: Any, size: Any, training: bool) -> Iterator[None]:
        """Inside the block, all calls drop the same places."""
        with contextlib.ExitStack() as stack:
            for cell in self.cells:
                stack.enter_context(same_drops(cell, batch, size, training))
                size = output_size_of(cell)
            yield


def same_drops(cell: Any, batch: Any, size: Any, training: bool) -> contextlib.AbstractContextManager[None]:
    """Inside the block, all calls of the cell drop the same places, if it is one of this module."""
    known = isinstance(cell, (_UnitsCell, StackedRNNCells))
    return cell.same_drops(batch, size, training) if known else contextlib.nullcontext()


def checked_cell(cell: Any) -> Any:
    """The cell. TypeError unless it is a layer with a `state_size`."""
    if not isinstance(cell, Layer) or not hasattr(cell, "state_size"):
        raise TypeError(f"a cell is a layer with a state_size, such as LSTMCell(64), not {safe_repr(cell)}")
    return cell


def output_size_of(cell: Any) -> Any:
    """The size of the output of a cell: its `output_size`, or that of its first state."""
    found = getattr(cell, "output_size", None)
    return listed(cell.state_size)[0] if found is None else found


def listed(given: Any) -> list[Any]:
    """A list of states, from one or several."""
    return list(given) if isinstance(given, (list, tuple)) else [given]
