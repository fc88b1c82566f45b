"""Recurrent loops whose inputs, states and ends a function decides."""

from collections.abc import Callable
from typing import Any

from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant, zeros
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.math.comparison import logical_not, logical_or
from aioflow.kernels.math.reduction import reduce_all
from aioflow.library.functional import describing
from aioflow.library.loops import plain_loop
from aioflow.library.rnn import Scope, batch_size_of, check_cell, kept_where, output_dtype, tensor_or_array
from aioflow.library.rnn_cell_base import sizes_of
from aioflow.library.tensor_array import TensorArray
from aioflow.library.variable_scope import variable_scope
from aioflow.tensors import nest
from aioflow.tensors.dtypes import DType

LoopFunction = Callable[[Tensor, Any, Any, Any], tuple[Any, Any, Any, Any, Any]]


@describing
def raw_rnn(
    cell: Any,
    loop_fn: LoopFunction,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    scope: Scope = None,
) -> tuple[Any, Any, Any]:
    """Apply a cell step by step, as long as `loop_fn` says, to the inputs that it returns.

        finished, inputs, state, emitted, loop_state = loop_fn(time, output, cell_state, loop_state)

    At time 0, before any step, `loop_fn` is called with None for all but the time. It returns the first inputs, the
    first state, a sample of the value emitted for one sequence (None for the cell's outputs), and its own state or
    None. Then it is called once to build the work between two steps. A sequence that is `finished` [batch] emits zeros,
    and its state stays unchanged. The loop ends when all are finished.

    Args:
        cell: see `af.nn.rnn_cell.RNNCell`.
        loop_fn: see above; `finished` is bool [batch].
        parallel_iterations: see `while_loop`; 32 by default.
        swap_memory: see `while_loop`.
        scope: the variable scope around the cell; `rnn` by default.

    Returns:
        TensorArrays in the structure of the emitted values, the state of the cell, and the state of `loop_fn` or None.

    Examples:
        >>> cell, inputs = af.nn.rnn_cell.GRUCell(4), af.constant(np.ones((5, 2, 3), np.float32))
        >>> def loop_fn(time, output, state, loop_state):
        ...     state = cell.zero_state(2, af.float32) if state is None else state
        ...     return af.fill([2], time >= 5), inputs[af.minimum(time, 4)], state, output, None
        >>> outputs, state, _ = af.nn.raw_rnn(cell, loop_fn)
        >>> await session.run(af.global_variables_initializer())
        >>> (await session.run(outputs.stack())).shape
        (5, 2, 4)
    """
    check_cell(cell)
    if not callable(loop_fn):
        raise TypeError(f"loop_fn must be a function of (time, output, state, loop_state), not {loop_fn!r}")
    with variable_scope(scope or "rnn"):
        raw = _RawLoop(cell, loop_fn)
        _, _, _, arrays, state, own = plain_loop(
            lambda time, finished, *rest: logical_not(reduce_all(finished)), raw.step, raw.first,
            parallel_iterations=parallel_iterations or 32, swap_memory=swap_memory,
        )  # fmt: skip
        return nest.pack_sequence_as(raw.emitted, arrays), state, own if raw.has_state else None


class _RawLoop:
    """The parts of the loop.

    Attributes:
        first: the loop variables: time, finished flags, inputs, emitted values, state, and the state of `loop_fn`.
        emitted: the structure of the emitted values.
        has_state: whether `loop_fn` has its own state.
    """

    def __init__(self, cell: Any, loop_fn: LoopFunction) -> None:
        self._cell = cell
        self._loop_fn = loop_fn
        time = constant(0)
        finished, inputs, state, emitted, own = _five(loop_fn(time, None, None, None))
        inputs = nest.map_structure(convert_to_tensor, inputs)
        state = nest.map_structure(convert_to_tensor, state)
        batch = batch_size_of(nest.flatten(inputs), 0)
        self.emitted = cell.output_size if emitted is None else emitted
        parts = [_part(each, state) for each in nest.flatten(self.emitted)]
        self._nothing = [zeros([batch, *sizes], dtype) for sizes, dtype in parts]
        arrays = [
            TensorArray(each.dtype, 0, dynamic_size=True, element_shape=each.shape, clear_after_read=False)
            for each in self._nothing
        ]
        self.has_state = own is not None
        own = nest.map_structure(tensor_or_array, own) if self.has_state else time
        self.first = (time, convert_to_tensor(finished), inputs, arrays, state, own)

    def step(self, time: Tensor, finished: Tensor, inputs: Any, arrays: list[TensorArray], state: Any, own: Any) -> Any:
        """Return the loop variables after one more step."""
        output, after = self._cell(inputs, state)
        given = own if self.has_state else None
        done, inputs, after, emitted, following = _five(self._loop_fn(time + 1, output, after, given))
        emitted = output if emitted is None else emitted
        alive = logical_not(finished)
        values = [
            kept_where(alive, convert_to_tensor(value), nothing)
            for value, nothing in zip(nest.flatten(emitted), self._nothing, strict=True)
        ]
        pairs = zip(nest.flatten(state), nest.flatten(after), strict=True)
        states = nest.pack_sequence_as(state, [kept_where(alive, convert_to_tensor(new), old) for old, new in pairs])
        arrays = [array.write(time, value) for array, value in zip(arrays, values, strict=True)]
        following = own if following is None else following
        return time + 1, logical_or(finished, convert_to_tensor(done)), inputs, arrays, states, following


def _five(returned: Any) -> tuple[Any, Any, Any, Any, Any]:
    if not isinstance(returned, (list, tuple)) or len(returned) != 5:
        raise ValueError(f"loop_fn must return (finished, inputs, state, emitted, loop_state), not {returned!r}")
    finished, inputs, state, emitted, own = returned
    return finished, inputs, state, emitted, own


def _part(emitted: Any, state: Any) -> tuple[Any, DType]:
    """Return the sizes without the batch, and the dtype, of one emitted value: a size of a cell, or a tensor."""
    if not isinstance(emitted, Tensor):
        return sizes_of(emitted), output_dtype(state, None)
    sizes = emitted.shape
    return (sizes.as_list() if sizes.is_fully_defined() else shape(emitted)), emitted.dtype
