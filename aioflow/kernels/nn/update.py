"""Declaration and execution of fused variable updates, for the optimizers' ops.

Such an op has handles of a variable and of its slots, scalars, and a gradient: dense, or as rows with `indices`. Its
formula is written once, on arrays changed in place. A dense op runs the formula on the variables' own arrays, block by
block where they are large, so that intermediate results stay in the cache. A sparse op runs it on rows, and then stores
the rows.

An op holds all its locks while it works. It acquires them without waiting; where that fails it releases all, and then
awaits them in one order for all ops, so that two ops never wait for each other.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from aioflow import errors
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op, op
from aioflow.graph.operation import Operation
from aioflow.kernels.context import Context
from aioflow.kernels.families import CPU, GPU
from aioflow.kernels.state.variables import checked_rows, held
from aioflow.resources.containers import VariableState
from aioflow.resources.journal import Journal
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import FLOAT, Array, DType, Spec

Formula = Callable[..., None]
"""(xp, gradient, [var, *slots], numbers): changes var and slots, in place."""
States = Sequence[VariableState]
Draft = tuple[Array, Array | None]
"""The array to change, and the array to copy into it first."""

BLOCK: Final = 1 << 16
"""Elements of a variable that are updated at a time."""
LARGE: Final = 1 << 22
"""Elements up to which one core is not slower than all: other cores have to wake, and share the memory's bandwidth."""
_OTHER: Final = ("grad", "delta", "indices")


class _Places(NamedTuple):
    """Where an update's inputs are among the op's."""

    states: int
    grad: int
    numbers: tuple[int, ...]
    indices: int | None


def update(
    formula: Formula, cost: int, *families: frozenset[DType], attr: str | None = None, whole: bool = False
) -> Callable[[Callable[..., None]], Op[Operation]]:
    """Declare an op by its signature; `formula` computes it, in about `cost` operations per element.

    Parameters marked T are scalars, except `grad` or `delta`, the gradient; `indices` are its rows; the others are the
    variable and its slots. The formula gets the attribute named `attr` as the last of its scalars. With `whole`, the
    formula of a sparse op runs on the whole variables, and the rows are the first of its scalars.
    """

    def declare(signature: Callable[..., None]) -> Op[Operation]:
        @functools.wraps(signature)
        def rule(*arguments: Any) -> None:
            given = [argument for argument in arguments if isinstance(argument, Spec)]
            _check(given, places, families or (FLOAT,))

        made = op(stateful=True)(rule)
        places = _places(made)
        made.no_gradient("it changes state")
        made.cost(lambda inputs, outputs, attrs: cost * (inputs[places.grad].shape.num_elements() or 1))
        made.kernel(CPU, GPU, fresh=True)(_kernel(formula, places, attr, whole))
        return made

    return declare


def _places(made: Op[Operation]) -> _Places:
    data = [param for param in made.params if param.role == "tensor"]
    names = [param.name for param in data]
    return _Places(
        states=next(place for place, param in enumerate(data) if param.marker is not None),
        grad=names.index("delta" if "delta" in names else "grad"),
        numbers=tuple([i for i, param in enumerate(data) if param.marker is not None and param.name not in _OTHER]),
        indices=names.index("indices") if "indices" in names else None,
    )


def _check(given: Sequence[Spec], places: _Places, families: Sequence[frozenset[DType]]) -> None:
    var, *slots = [held(spec) for spec in given[: places.states]]
    grad, numbers = given[places.grad], [given[place] for place in places.numbers]
    item = var.only(*families).same_dtype(*slots, grad, *numbers)
    for slot in slots:
        item.shape.merge_with(slot.shape)
    for number in numbers:
        number.with_rank(0)
    if places.indices is None:
        item.shape.merge_with(grad.shape)
        return
    indices = given[places.indices].only(dtypes.INTEGER).with_rank(1)
    if item.rank == 0:
        raise ValueError("a variable of rank 0 has no rows to update")
    grad.shape.merge_with(indices.shape.concatenate(item.shape[1:]))


def _kernel(formula: Formula, places: _Places, attr: str | None, whole: bool) -> Callable[..., None]:
    count, grad, numbers, rows = places.states, places.grad, places.numbers, places.indices
    run: Callable[..., None] = run_whole if whole else run_dense if rows is None else run_sparse

    def kernel(ctx: Context, *inputs: Any) -> None:
        ctx.step.check()
        indices = () if rows is None else (inputs[rows],)
        given = [inputs[place] for place in numbers]
        exclusively(inputs[:count], ctx.step.journal, run, ctx, formula, inputs[grad], given, *indices)

    def kernel_with_attribute(ctx: Context, *inputs: Any, node: NodeView) -> None:
        ctx.step.check()
        indices = () if rows is None else (inputs[rows],)
        given = [*[inputs[place] for place in numbers], node.attrs[attr or ""]]
        exclusively(inputs[:count], ctx.step.journal, run, ctx, formula, inputs[grad], given, *indices)

    return kernel if attr is None else kernel_with_attribute


# Running


def exclusively(states: States, journal: Journal | None, change: Callable[..., None], *arguments: Any) -> None:
    """Run change(states, *arguments) with exclusive access to the variables.

    The journal of the attempt, if any, keeps the values from before the change.

    Raises:
        FailedPreconditionError: a variable is not initialized.
        InvalidArgumentError: two of the variables are the same.
    """
    _acquire(states)
    try:
        for state in states:
            state.note(journal)
        change(states, *arguments)
    finally:
        for state in states:
            state.end_change()


def _acquire(states: States) -> None:
    for count, state in enumerate(states):
        if not state.begin_change(wait=False):
            for taken in states[:count]:
                taken.end_change()
            _acquire_in_order(states)
            return


def _acquire_in_order(states: States) -> None:
    if len(set(states)) < len(states):
        raise errors.InvalidArgumentError(f"variable {states[0].name!r} and its slots must be different variables")
    for state in sorted(states, key=id):
        state.begin_change()


def run_dense(states: States, ctx: Context, formula: Formula, grad: Array, numbers: Sequence[Array]) -> None:
    """Update all elements; arrays that were read before keep their values."""
    drafts = [state.draft(ctx.xp) for state in states]
    check_shapes(states, [array for array, _ in drafts], grad.shape)
    compute(ctx, formula, grad, drafts, numbers)
    for state, (array, _) in zip(states, drafts, strict=True):
        state.settle(array)


def run_sparse(
    states: States, ctx: Context, formula: Formula, grad: Array, numbers: Sequence[Array], indices: Array
) -> None:
    """Update the rows `indices`, which are all different."""
    arrays = [state.writable() for state in states]
    rows = checked_rows(indices, arrays[0], states[0].name)
    parts = [array[rows] for array in arrays]
    check_shapes(states, parts, grad.shape)
    compute(ctx, formula, grad, [(part, None) for part in parts], numbers)
    for array, part in zip(arrays, parts, strict=True):
        array[rows] = part


def run_whole(
    states: States, ctx: Context, formula: Formula, grad: Array, numbers: Sequence[Array], indices: Array
) -> None:
    """Update all elements by a gradient that is zero but for the rows `indices`, which are all different."""
    arrays = [state.writable() for state in states]
    var = arrays[0]
    rows = checked_rows(indices, var, states[0].name)
    if grad.shape != rows.shape + var.shape[1:]:
        raise _misfit(states[0], grad.shape, rows.shape + var.shape[1:])
    check_shapes(states, arrays, var.shape)
    formula(ctx.xp, grad, arrays, [rows, *numbers])


def check_shapes(states: States, arrays: Sequence[Array], shape: tuple[int, ...]) -> None:
    """InvalidArgumentError unless all arrays have that shape."""
    for state, array in zip(states, arrays, strict=True):
        if array.shape != shape:
            raise _misfit(state, shape, array.shape)


def _misfit(state: VariableState, given: tuple[int, ...], needed: tuple[int, ...]) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(
        f"an update of shape {list(given)} does not fit {state.name!r}, which has {list(needed)} there"
    )


def compute(ctx: Context, formula: Formula, grad: Array, drafts: Sequence[Draft], numbers: Sequence[Array]) -> None:
    """Run the formula, on views of some elements at a time and on all cores where there are many; never on rank 0."""
    var, xp = drafts[0][0], ctx.xp
    contiguous = all(array is None or array.flags.c_contiguous for draft in drafts for array in draft)
    if (var.ndim and var.size <= BLOCK) or xp is not np or not contiguous:
        formula(xp, grad, [_filled(draft) for draft in drafts], numbers)
        return
    flat_grad, *flat = grad.reshape(-1), *[_flat(draft) for draft in drafts]

    def work(begin: int, end: int) -> None:
        for start in range(begin, end, BLOCK):
            block = slice(start, min(start + BLOCK, end))
            formula(xp, flat_grad[block], [_filled(draft, block) for draft in flat], numbers)

    if var.size <= LARGE:
        work(0, var.size)
    else:
        ctx.device.share_out(work, var.size)


def _flat(draft: Draft) -> Draft:
    array, source = draft
    return array.reshape(-1), None if source is None else source.reshape(-1)


def _filled(draft: Draft, block: Any = ...) -> Array:
    array, source = draft
    if source is not None:
        array[block] = source[block]
    return array if block is ... else array[block]
