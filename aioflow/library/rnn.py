"""Recurrent nets: apply a cell to each step of a sequence, in a loop or unrolled, in one or both directions.

Recurrent nets whose inputs are computed step by step: `raw_rnn`.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import reverse, transpose
from aioflow.kernels.array.concat import concat, stack, unstack
from aioflow.kernels.array.select import masked, select
from aioflow.kernels.array.sequence import reverse_sequence
from aioflow.kernels.array.shapes import reshape, shape
from aioflow.kernels.control.assertions import assert_equal
from aioflow.kernels.math.arithmetic import maximum, minimum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import less
from aioflow.kernels.math.reduction import reduce_max
from aioflow.library.control import with_dependencies
from aioflow.library.functional import describing, rows_of
from aioflow.library.loops import plain_loop
from aioflow.library.rnn_cell_base import RNNCell, sizes_of
from aioflow.library.tensor_array import TensorArray
from aioflow.library.variable_scope import VariableScope, variable_scope
from aioflow.tensors import nest
from aioflow.tensors.dtypes import DType, as_dtype, int32
from aioflow.tensors.recursion import safe_repr

Scope = str | VariableScope | None


@describing
def dynamic_rnn(
    cell: Any,
    inputs: Any,
    sequence_length: NumberLike | None = None,
    initial_state: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Scope = None,
) -> tuple[Any, Any]:
    """Return the outputs of a cell at all steps of sequences, and its last state; the steps are a loop.

        cell = af.nn.rnn_cell.LSTMCell(256)
        outputs, state = af.nn.dynamic_rnn(cell, sequences, dtype=af.float32)

    The steps of a BasicLSTMCell, of an LSTMCell without peepholes, clipping and projection, and of several of them in a
    MultiRNNCell, are one operation for each cell, `af.nn.lstm`, for float32 and float64 with the activation `tanh`,
    unless memory is to be swapped.

    With `sequence_length` each sequence of the batch ends at its own length: later outputs are zeros, and the state
    stays unchanged.

    Args:
        cell: see `af.nn.rnn_cell.RNNCell`. It is called once, now, to build a step.
        inputs: [batch, time, ...], or a nested structure of such.
        sequence_length: the lengths [batch], integers; by default all sequences are as long as `inputs`.
        initial_state: the state before the first step; zeros by default.
        dtype: the dtype of the outputs, and of the state if no `initial_state` is given.
        parallel_iterations: see `while_loop`; 32 by default.
        swap_memory: see `while_loop`.
        time_major: whether inputs and outputs are [time, batch, ...], which saves transposing them.
        scope: the variable scope around the cell; `rnn` by default.

    Returns:
        The outputs, [batch, time, ...] in the structure of the cell's `output_size`, and the state.

    Raises:
        TypeError: `cell` is not a cell, or dtypes do not fit.
        ValueError: shapes or structures do not fit, or there is neither a dtype nor an initial state.
        InvalidArgumentError: in the run, if `sequence_length` does not have the batch's size.

    Examples:
        >>> cell = af.nn.rnn_cell.GRUCell(4)
        >>> outputs, state = af.nn.dynamic_rnn(cell, np.ones((2, 5, 3), np.float32), dtype=af.float32)
        >>> outputs.shape, state.shape
        (TensorShape([2, 5, 4]), TensorShape([2, 4]))
    """
    check_cell(cell)
    with variable_scope(scope or "rnn"):
        given = nest.map_structure(convert_to_tensor, inputs)
        sequences = given if time_major else nest.map_structure(_exchange_axes, given)
        batch = batch_size_of(nest.flatten(sequences), 1)
        lengths = None if sequence_length is None else checked_lengths(sequence_length, batch)
        state = first_state(cell, initial_state, batch, dtype)
        kind = output_dtype(state, dtype)
        whole = None if swap_memory else _all_steps(cell, sequences, state, lengths, kind)
        if whole is not None:
            return whole[0] if time_major else _exchange_axes(whole[0]), whole[1]
        rows = rows_of(sequences, "inputs")
        arrays = output_arrays(cell.output_size, rows.count, batch, kind)

        def step(time: Tensor, before: Any, made: list[TensorArray]) -> Any:
            output, after = Step(lengths, time).of(cell, rows.row(time), before)
            pairs = zip(made, nest.flatten(output), strict=True)
            return time + 1, after, [array.write(time, value) for array, value in pairs]

        steps = rows.count if lengths is None else minimum(rows.count, maximum(1, reduce_max(lengths)))
        _, state, arrays = plain_loop(
            lambda time, before, made: less(time, steps), step, (0, state, arrays),
            parallel_iterations=parallel_iterations or 32, swap_memory=swap_memory,
        )  # fmt: skip
        outputs = [array.stack() if time_major else _exchange_axes(array.stack()) for array in arrays]
        return nest.pack_sequence_as(cell.output_size, outputs), state


def _all_steps(cell: Any, inputs: Any, state: Any, lengths: Tensor | None, kind: DType) -> tuple[Tensor, Any] | None:
    """The outputs and the last state by one operation; None if the cell must be called in a loop."""
    if not isinstance(cell, RNNCell) or not isinstance(inputs, Tensor) or inputs.dtype is not kind:
        return None
    return cell.all_steps(inputs, state, lengths)


@describing
def static_rnn(
    cell: Any,
    inputs: Sequence[Any],
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: NumberLike | None = None,
    scope: Scope = None,
) -> tuple[list[Any], Any]:
    """Return the outputs of a cell for a list of inputs, one step each, and its last state.

    Each step is a separate part of the graph, so use it for few steps. Otherwise like `dynamic_rnn`.

    Args:
        cell: see `af.nn.rnn_cell.RNNCell`.
        inputs: for each step [batch, ...], or a nested structure of such.
        initial_state: the state before the first step; zeros by default.
        dtype: the dtype of the state, if no `initial_state` is given.
        sequence_length: the lengths [batch], integers; by default all sequences have as many steps as there are inputs.
        scope: the variable scope around the cell; `rnn` by default.

    Returns:
        The outputs of all steps, and the state.

    Examples:
        >>> cell = af.nn.rnn_cell.BasicRNNCell(4)
        >>> outputs, state = af.nn.static_rnn(cell, [af.ones([2, 3])] * 5, dtype=af.float32)
        >>> len(outputs), state.shape
        (5, TensorShape([2, 4]))
    """
    check_cell(cell)
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(f"inputs must be a list with one tensor for each time step, not {inputs!r}")
    if not inputs:
        raise ValueError("inputs is empty: give one tensor for each time step")
    with variable_scope(scope or "rnn") as around:
        steps = [nest.map_structure(convert_to_tensor, each) for each in inputs]
        batch = batch_size_of(nest.flatten(steps), 0)
        lengths = None if sequence_length is None else checked_lengths(sequence_length, batch)
        state = first_state(cell, initial_state, batch, dtype)
        outputs = []
        for time, given in enumerate(steps):
            if time:
                around.reuse_variables()
            output, state = Step(lengths, time).of(cell, given, state)
            outputs.append(output)
        return outputs, state


def check_cell(cell: Any, what: str = "cell") -> None:
    """Raise TypeError unless it can be called as a cell."""
    missing = [name for name in ("state_size", "output_size", "zero_state") if not hasattr(cell, name)]
    if missing or not callable(cell):
        lacks = f"it has no {missing[0]}" if missing else "it cannot be called"
        raise TypeError(f"{what} must be a cell, as af.nn.rnn_cell.LSTMCell(256), not {safe_repr(cell)}: {lacks}")


def _exchange_axes(x: Tensor) -> Tensor:
    """Exchange the first two axes. ValueError if there are none."""
    rank = x.spec.rank
    if rank is None or rank < 2:
        raise ValueError(f"inputs must have a known rank, and axes for batch and time: {x.name} has shape {x.shape}")
    return transpose(x, [1, 0, *range(2, rank)])


def batch_size_of(tensors: Sequence[Tensor], axis: int) -> Any:
    """Return the size of the batch axis: a number if it is known, else a tensor. ValueError if known sizes differ."""
    if not tensors:
        raise ValueError("inputs has no tensor in it")
    for tensor in tensors:
        if tensor.spec.rank is not None and tensor.spec.rank <= axis:
            raise ValueError(f"inputs must have an axis for the batch: {tensor.name} has shape {tensor.shape}")
    sizes = {tensor.shape[axis].value for tensor in tensors if tensor.spec.rank is not None} - {None}
    if len(sizes) > 1:
        raise ValueError(f"inputs must have one batch size, and they have {', '.join(map(str, sorted(sizes)))}")
    return sizes.pop() if sizes else shape(tensors[0])[axis]


def checked_lengths(lengths: NumberLike, batch: Any) -> Tensor:
    """Return the lengths as int32. TypeError or ValueError unless they are integers [batch]; the run checks sizes."""
    tensor = convert_to_tensor(lengths)
    if not tensor.dtype.is_integer:
        raise TypeError(f"sequence_length must be integers, not {tensor.dtype.name}")
    if tensor.spec.rank not in (None, 1):
        raise ValueError(f"sequence_length must be a vector with a length for each sequence, not {tensor.shape}")
    known = None if tensor.spec.rank is None else tensor.shape[0].value
    whole = cast(tensor if tensor.dtype is int32 else minimum(tensor, _most_steps(tensor.dtype)), int32)
    if isinstance(batch, int) and known is not None:
        if known != batch:
            raise ValueError(f"sequence_length has {known} lengths for a batch of {batch} sequences")
        return whole
    check = assert_equal(shape(whole), [batch], message="sequence_length must have a length for each sequence")
    held: Tensor = with_dependencies([check], whole)
    return held


def _most_steps(dtype: DType) -> int:
    """Return the greatest number of this dtype that is an int32, too: longer sequences have all steps all the same."""
    return min(int(np.iinfo(dtype.np).max), int(np.iinfo(np.int32).max))


def first_state(cell: Any, initial_state: Any, batch: Any, dtype: Any) -> Any:
    """Return the state before the first step."""
    if initial_state is None:
        if dtype is None:
            raise ValueError("give an initial_state, or the dtype for a state of zeros")
        return cell.zero_state(batch, dtype)
    state = nest.map_structure(tensor_or_array, initial_state)
    _check_structure(cell.state_size, state, "the cell's state_size", "initial_state")
    for index, (size, value) in enumerate(zip(nest.flatten(cell.state_size), nest.flatten(state), strict=True)):
        _check_batch(f"initial_state[{index}]" if nest.is_nested(state) else "initial_state", size, value, batch)
    return state


def _check_batch(what: str, size: Any, value: Any, batch: Any) -> None:
    """Raise ValueError if a part of the state, [batch, size], has a known batch size other than the inputs'."""
    if isinstance(value, TensorArray) or not isinstance(batch, int) or value.spec.rank != 1 + len(sizes_of(size)):
        return
    own = value.shape[0].value
    if own not in (None, batch):
        raise ValueError(f"{what} ({value.name}) has batch {own}, inputs have {batch}: its shape is {value.shape}")


def tensor_or_array(value: Any) -> Any:
    """Return a TensorArray as it is, and the tensor of any other value."""
    return value if isinstance(value, TensorArray) else convert_to_tensor(value)


def _check_structure(wanted: Any, given: Any, one: str, other: str) -> None:
    try:
        nest.assert_same_structure(wanted, given, check_types=False)
    except ValueError as error:
        raise ValueError(f"{one} and {other} differ in structure: {error}") from None


def output_dtype(state: Any, dtype: Any) -> DType:
    """Return the dtype of outputs: `dtype` if it is given, else that of the state. ValueError unless it is unique."""
    if dtype is not None and not nest.is_nested(dtype):
        return as_dtype(dtype)
    kinds = {value.dtype for value in nest.flatten(state)}
    if len(kinds) != 1:
        names = ", ".join(sorted(kind.name for kind in kinds)) or "nothing"
        raise ValueError(f"the state is {names}: give the dtype of the outputs")
    kind: DType = kinds.pop()
    return kind


def output_arrays(output_size: Any, count: Any, batch: Any, dtype: DType, **options: Any) -> list[TensorArray]:
    """Return for each output of a cell the list to which it is written, step by step."""
    first = batch if isinstance(batch, int) else None
    shapes = [[first, *sizes_of(size)] for size in nest.flatten(output_size)]
    return [TensorArray(dtype, count, element_shape=each, **options) for each in shapes]


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One step of a batch of sequences: ended sequences stay unchanged.

    Attributes:
        lengths: the length of each; None if all go on.
        time: the number of earlier steps.
    """

    lengths: Tensor | None
    time: Any

    def of(self, cell: Any, inputs: Any, before: Any) -> tuple[Any, Any]:
        """Return the output of the cell, zeros for ended sequences, and the state."""
        output, after = cell(inputs, before)
        _check_structure(cell.output_size, output, "the cell's output_size", "its output")
        _check_structure(before, after, "the state before", "the state that the cell returns")
        if self.lengths is None:
            return output, nest.pack_sequence_as(before, nest.flatten(after))
        alive = less(self.time, self.lengths)
        pairs = zip(nest.flatten(before), nest.flatten(after), strict=True)
        states = [kept_where(alive, new, old) for old, new in pairs]
        outputs = [masked(value, per_row(alive, value)) for value in nest.flatten(output)]
        return nest.pack_sequence_as(output, outputs), nest.pack_sequence_as(before, states)


def kept_where(alive: Tensor, new: Any, old: Any) -> Any:
    """Return the new rows where `alive` is true, the old ones elsewhere; a value without a batch axis is new."""
    if isinstance(new, TensorArray) or new.spec.rank == 0:
        return new
    return select(per_row(alive, new), new, old)


def per_row(alive: Tensor, value: Tensor) -> Tensor:
    """Return `alive` [batch] with an axis of size 1 for each further axis of `value`. ValueError for unknown ranks."""
    rank = value.spec.rank
    if rank is None:
        raise ValueError(f"the rank of {value.name} must be known for sequences of different lengths: use set_shape")
    return alive if rank == 1 else reshape(alive, [-1] + [1] * (rank - 1))


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

    Examples:
        >>> forward, backward = af.nn.rnn_cell.GRUCell(4), af.nn.rnn_cell.GRUCell(4)
        >>> outputs, states = af.nn.bidirectional_dynamic_rnn(forward, backward, af.ones([2, 5, 3]), dtype=af.float32)
        >>> outputs[0].shape
        TensorShape([2, 5, 4])
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

    Examples:
        >>> forward, backward = af.nn.rnn_cell.GRUCell(4), af.nn.rnn_cell.GRUCell(4)
        >>> steps = [af.constant(np.ones((2, 3), np.float32)) for _ in range(5)]
        >>> outputs, _, _ = af.nn.static_bidirectional_rnn(forward, backward, steps, dtype=af.float32)
        >>> len(outputs), outputs[0].shape
        (5, TensorShape([2, 8]))
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
