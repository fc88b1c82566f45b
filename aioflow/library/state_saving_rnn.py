"""Recurrent nets over parts of long sequences, whose state an object keeps from part to part."""

from collections.abc import Sequence
from typing import Any, Protocol

from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Operation, Tensor
from aioflow.library.control import with_dependencies
from aioflow.library.rnn import Scope, check_cell, static_rnn
from aioflow.tensors import nest
from aioflow.tensors.recursion import safe_repr


class StateSaver(Protocol):
    """What keeps states by name, such as a variable, or a queue of parts of sequences."""

    def state(self, state_name: str) -> Tensor:
        """Return the state that was saved last."""

    def save_state(self, state_name: str, value: Tensor) -> Tensor | Operation:
        """Return an operation that saves a state, or a tensor of one."""


def static_state_saving_rnn(
    cell: Any,
    inputs: Sequence[Any],
    state_saver: StateSaver,
    state_name: str | Sequence[str],
    sequence_length: NumberLike | None = None,
    scope: Scope = None,
) -> tuple[list[Any], Any]:
    """Return what `static_rnn` does from a saved state on, after which the last state is saved.

    A run of the last output, or of the state, saves the state first.

    Args:
        cell: see `af.nn.rnn_cell.RNNCell`.
        inputs: for each step [batch, ...].
        state_saver: an object with `state(name)`, which returns a saved state, and `save_state(name, value)`, which
            returns an operation that saves one.
        state_name: the name of the state; a tuple of names, one for each part, if the cell has a tuple of states.
        sequence_length: see `static_rnn`.
        scope: the variable scope around the cell; `rnn` by default.

    Returns:
        The outputs of all steps, and the state.

    Raises:
        ValueError: there are more or fewer names than parts of the state.

    Examples:
        >>> class Kept:
        ...     def __init__(self):
        ...         self.kept = af.Variable(af.zeros([2, 4]), trainable=False)
        ...     def state(self, name):
        ...         return self.kept.value()
        ...     def save_state(self, name, value):
        ...         return self.kept.assign(value)
        >>> saver, cell = Kept(), af.nn.rnn_cell.BasicRNNCell(4)
        >>> outputs, state = af.nn.static_state_saving_rnn(cell, [af.ones([2, 3])] * 5, saver, "h")
        >>> await session.run(af.global_variables_initializer())
        >>> last = await session.run(outputs[-1])
        >>> bool((await session.run(saver.kept) == last).all())
        True
    """
    check_cell(cell)
    several = nest.is_nested(cell.state_size)
    if several == isinstance(state_name, str):
        expected = "a tuple of names, one for each part of the state" if several else "one name"
        raise ValueError(f"state_name must be {expected}, not {safe_repr(state_name)}")
    names = [state_name] if isinstance(state_name, str) else list(state_name)
    parts = nest.flatten(cell.state_size)
    if len(names) != len(parts):
        raise ValueError(f"the cell has {len(parts)} states, and {len(names)} names are given: {names}")
    kept = [convert_to_tensor(state_saver.state(name)) for name in names]
    first = nest.pack_sequence_as(cell.state_size, kept)
    outputs, state = static_rnn(cell, inputs, first, None, sequence_length, scope)
    saved = [state_saver.save_state(name, part) for name, part in zip(names, nest.flatten(state), strict=True)]
    after = [part.op if isinstance(part, Tensor) else part for part in saved]
    outputs[-1] = nest.map_structure(lambda part: with_dependencies(after, part), outputs[-1])
    return outputs, nest.map_structure(lambda part: with_dependencies(after, part), state)
