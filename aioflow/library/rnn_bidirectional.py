"""Recurrent nets that read sequences in both directions."""

from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import reverse
from aioflow.kernels.array.concat import concat, stack, unstack
from aioflow.kernels.array.sequence import reverse_sequence
from aioflow.library.functional import describing
from aioflow.library.rnn import Scope, batch_size_of, check_cell, checked_lengths, dynamic_rnn, static_rnn
from aioflow.library.variable_scope import variable_scope
from aioflow.tensors import nest


@describing
def bidirectional_dynamic_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Any,
    sequence_length: NumberLike | None = None,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Scope = None,
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return the results of `dynamic_rnn` for a cell from the first step on, and for another from the last step on.

    The second cell reads each sequence from its own end; its outputs are at the positions of their steps. The variables
    are in `fw` and `bw` in the scope, which is `bidirectional_rnn` by default. Otherwise like `dynamic_rnn`.

    Returns:
        The outputs of both cells, and the states of both.
    """
    check_cell(cell_fw, "cell_fw")
    check_cell(cell_bw, "cell_bw")
    options = (parallel_iterations, swap_memory, time_major)
    with variable_scope(scope or "bidirectional_rnn"):
        given = nest.map_structure(convert_to_tensor, inputs)
        lengths = sequence_length
        if lengths is not None:
            lengths = checked_lengths(lengths, batch_size_of(nest.flatten(given), 1 if time_major else 0))
        with variable_scope("fw") as inner:
            forward, state = dynamic_rnn(cell_fw, given, lengths, initial_state_fw, dtype, *options, scope=inner)
        axis = 0 if time_major else 1

        def turned(values: Any) -> Any:
            return nest.map_structure(lambda value: _reverse(value, lengths, axis), values)

        with variable_scope("bw") as inner:
            flipped = turned(given)
            backward, other = dynamic_rnn(cell_bw, flipped, lengths, initial_state_bw, dtype, *options, scope=inner)
        return (forward, turned(backward)), (state, other)


def _reverse(x: Tensor, lengths: Tensor | None, axis: int) -> Tensor:
    """Reverse each sequence within its length."""
    return reverse(x, [axis]) if lengths is None else reverse_sequence(x, lengths, axis, batch_axis=1 - axis)


@describing
def static_bidirectional_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Sequence[Any],
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    sequence_length: NumberLike | None = None,
    scope: Scope = None,
) -> tuple[list[Any], Any, Any]:
    """Return the results of `static_rnn` for a cell from the first step on, and for another from the last step on.

    Like `bidirectional_dynamic_rnn`, with each step a separate part of the graph.

    Returns:
        The outputs of both cells side by side along their last axis, for each step, and the two states.
    """
    check_cell(cell_fw, "cell_fw")
    check_cell(cell_bw, "cell_bw")
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(f"inputs must be a list with one tensor for each time step, not {inputs!r}")
    if not inputs:
        raise ValueError("inputs is empty: give one tensor for each time step")
    with variable_scope(scope or "bidirectional_rnn"):
        steps = [nest.map_structure(convert_to_tensor, each) for each in inputs]
        with variable_scope("fw") as inner:
            forward, state = static_rnn(cell_fw, steps, initial_state_fw, dtype, sequence_length, inner)
        with variable_scope("bw") as inner:
            flipped = _reverse_all(steps, sequence_length)
            backward, other = static_rnn(cell_bw, flipped, initial_state_bw, dtype, sequence_length, inner)
        pairs = zip(forward, _reverse_all(backward, sequence_length), strict=True)
        outputs = [nest.map_structure(lambda one, two: concat([one, two], -1), *pair) for pair in pairs]
        return outputs, state, other


def _reverse_all(steps: list[Any], lengths: NumberLike | None) -> list[Any]:
    """Return the steps of each sequence in reverse order."""
    if lengths is None:
        return steps[::-1]
    columns = zip(*[nest.flatten(step) for step in steps], strict=True)
    turned = [unstack(reverse_sequence(stack(column), lengths, 0, batch_axis=1)) for column in columns]
    return [nest.pack_sequence_as(steps[0], list(row)) for row in zip(*turned, strict=True)]
