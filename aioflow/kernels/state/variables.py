"""Ops on variables: a handle, reads, assignments, updates of rows.

A read has value semantics; within a step the plan keeps reads and updates of one variable in the order they were built.

Locks of variables, for critical sections. Waiting for a lock holds no thread.

A lock belongs to a variable's handle, though users may guard anything with it. The plan recognises the executions of
one lock by the handle and keeps those of one step in the order of construction, as it does for the reads and updates
of a variable. Otherwise a second execution might hold the lock while it waits for the first: a deadlock.

An execution has a ticket: it acquires the lock with the ticket before its body and releases it after. A third
operation keeps the ticket: it waits from before the acquisition until the release. A step that fails or is cancelled
in between ends all its waiting operations, so it leaves no lock held.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import REGISTRY, Indices, Op, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.context import Context
from aioflow.resources.containers import VariableState
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import (
    ANY,
    NUMERIC,
    SCALAR,
    Array,
    DeviceKind,
    DType,
    Namespace,
    ResourceSpec,
    Spec,
    TensorShape,
)
from aioflow.waiting.mutex import Mutex, Ticket

CPU, GPU = DeviceKind.CPU, DeviceKind.GPU


def held(handle: Spec) -> Spec:
    """The Spec of a variable's value, from the Spec of its handle. TypeError if it is not a variable's handle."""
    return ResourceSpec.check(handle, 1).items[0]


def _value_of(handle: Spec) -> Spec:
    """The Spec of one read: a fresh Spec, since open sizes may differ between reads."""
    item = held(handle)
    return item if item.shape.is_fully_defined() else Spec(item.dtype, TensorShape(item.shape.sizes))


@op(stateful=True, observes=True, handle=True)
def variable(dtype: DType, shape: TensorShape, container: str = "", shared_name: str = "") -> Spec:
    """A handle to a variable: the same one for every operation with that container and name."""
    return ResourceSpec((Spec(dtype, TensorShape(shape)),))


variable.no_gradient("a handle has no history; gradients with respect to a variable end here")


@variable.kernel(CPU, GPU)
def _(ctx: Context, *, node: NodeView) -> VariableState:
    item = held(node.output_specs[0])
    name = node.attrs["shared_name"] or node.name
    container = ctx.resources.container(node.attrs["container"])
    state = container.lookup_or_create(VariableState, name, lambda: VariableState(name, item))
    if state.spec.dtype is not item.dtype or not state.spec.shape.is_compatible_with(item.shape):
        raise errors.InvalidArgumentError(f"variable {name!r} is shared as {state.spec}, and cannot be {item} too")
    return state


# Reading


@op(stateful=True, observes=True)
def read_variable(handle: Spec) -> Spec:
    """The variable's value, which no later update changes. FailedPreconditionError if it is not initialized."""
    return _value_of(handle)


@read_variable.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return dy


read_variable.kernel(CPU, GPU, binds=True)(lambda xp, node: VariableState.read)


@op(stateful=True, observes=True)
def read_variable_or(handle: Spec, default: Spec) -> Spec:
    """The variable's value, or `default` as long as it is not initialized."""
    item = held(handle).same_dtype(default)
    return Spec(item.dtype, TensorShape(item.shape if item.shape.is_compatible_with(default.shape) else None))


@read_variable_or.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    return dy, None


read_variable_or.kernel(CPU, GPU, binds=True)(
    lambda xp, node: lambda state, default: state.read() if state.initialized else default
)


@op(stateful=True, observes=True)
def is_variable_initialized(handle: Spec) -> Spec:
    """Whether the variable has a value."""
    held(handle)
    return Spec(dtypes.bool_, SCALAR)


is_variable_initialized.no_gradient("a bool has no gradient")
is_variable_initialized.on_host(outputs=True)
is_variable_initialized.kernel(CPU, GPU, binds=True)(lambda xp, node: lambda state: np.bool_(state.initialized))


@op(stateful=True, observes=True)
def gather_variable(handle: Spec, indices: Indices) -> Spec:
    """Rows of a variable, without reading the rest: `value[indices]`."""
    item = held(handle)
    if item.rank == 0:
        raise ValueError("a variable of rank 0 has no rows")
    indices.only(dtypes.INTEGER)
    return Spec(item.dtype, indices.shape.concatenate(item.shape[1:]))


@gather_variable.gradient
def _(op: Operation, dy: Tensor) -> tuple[IndexedSlices, None]:
    handle, indices = op.inputs
    shape = held(handle.spec).shape
    rows: Any = shape.as_list()[1:] if shape.rank else [None]
    whole: Any = shape.as_list() if shape.is_fully_defined() else REGISTRY["shape"](read_variable(handle))
    open_sizes = None in rows
    sizes = REGISTRY["concat"]([[-1], REGISTRY["shape"](dy)[indices.spec.rank :]], 0) if open_sizes else [-1, *rows]
    values = REGISTRY["reshape"](dy, sizes)
    return IndexedSlices(values, REGISTRY["reshape"](indices, [-1]), whole), None


@gather_variable.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, state: VariableState, indices: Array) -> Array:
    value = state.read()
    return value.take(checked_rows(indices, value, state.name), axis=0)


def checked_rows(indices: Array, value: Array, name: str) -> Array:
    """`indices`, all of them rows of `value`, which is not looked at in a GPU's memory.

    InvalidArgumentError naming the first that is not.
    """
    complaint = _complaint(indices, value.shape[0], repr(name))
    if complaint is not None:
        raise errors.InvalidArgumentError(complaint)
    return indices


def _complaint(indices: Array, count: int, name: str) -> str | None:
    on_host = isinstance(indices, (np.ndarray, np.generic))
    if not on_host or not indices.size or 0 <= indices.min() <= indices.max() < count:
        return None
    stray = indices.ravel()[((indices < 0) | (indices >= count)).ravel()][0]
    return f"index {stray} is out of range for {name} with {count} rows"


@gather_variable.check
def _check_constant_rows(handle: Spec, indices: Spec | Array, *others: Any) -> None:
    sizes = held(handle).sizes
    if sizes and sizes[0] is not None and not isinstance(indices, Spec):
        complaint = _complaint(indices, sizes[0], "a variable")
        if complaint is not None:
            raise ValueError(complaint)


# Assigning


@op(stateful=True)
def assign_variable(handle: Spec, value: Spec) -> Spec:
    """The variable holds a copy of `value`; the result is the new value."""
    item = held(handle).same_dtype(value)
    merged = item.shape.merge_with(value.shape)
    return value.with_shape(value.shape if merged == value.shape else merged)


@assign_variable.kernel(CPU, GPU)
def _(ctx: Context, state: VariableState, value: Array) -> Array:
    ctx.step.check()
    return state.assign(value, ctx.step.journal)


assign_variable.no_gradient("it changes state; the gradient of the assigned value is that of the value itself")


def _update(name: str, ufunc: str, doc: str) -> Op[Tensor]:
    """An op that replaces the variable's value by ufunc(value, delta), atomically.

    The delta has the variable's shape or is one number for all of it; other shapes are not broadcast.
    """

    def rule(handle: Spec, value: Spec) -> Spec:
        item = _value_of(handle).only(NUMERIC).same_dtype(value)
        if value.rank != 0 and not value.shape.is_compatible_with(item.shape):
            raise ValueError(f"a value of shape {value.shape} cannot update a variable of shape {item.shape}")
        return item

    rule.__doc__ = doc
    made: Op[Tensor] = op(name=name, stateful=True)(rule)
    made.no_gradient("it changes state")

    @made.kernel(CPU, GPU)
    def _(ctx: Context, state: VariableState, value: Array) -> Array:
        ctx.step.check()
        function = getattr(ctx.xp, ufunc)

        def update(present: Array, room: Array) -> None:
            if value.shape and value.shape != present.shape:
                sizes = f"{list(value.shape)} cannot update {state.name!r} of shape {list(present.shape)}"
                raise errors.InvalidArgumentError(f"a value of shape {sizes}")
            function(present, value, out=room)

        return state.compute(update, ctx.xp, ctx.step.journal)

    return made


assign_add_variable: Final = _update(
    "assign_add_variable", "add", "The variable grows by `value`; the result is its new value."
)
assign_sub_variable: Final = _update(
    "assign_sub_variable", "subtract", "The variable shrinks by `value`; the result is its new value."
)
assign_mul_variable: Final = _update(
    "assign_mul_variable", "multiply", "The variable is multiplied by `value`; the result is its new value."
)


def _scatter(
    name: str, change: Callable[[Namespace, Array, Array, Array], None], doc: str, *families: frozenset[dtypes.DType]
) -> Op[Tensor]:
    """An op that changes rows of a variable of such a dtype: change(xp, value, indices, updates) in place."""

    def rule(handle: Spec, indices: Indices, updates: Spec) -> Spec:
        item = _value_of(handle).only(*families).same_dtype(updates)
        indices.only(dtypes.INTEGER)
        if item.rank == 0:
            raise ValueError("a variable of rank 0 has no rows")
        if updates.rank != 0:
            updates.shape.merge_with(indices.shape.concatenate(item.shape[1:]))
        return item

    rule.__doc__ = doc
    made: Op[Tensor] = op(name=name, stateful=True)(rule)
    made.no_gradient("it changes state")
    made.check(_check_constant_rows)

    @made.kernel(CPU, GPU)
    def _(ctx: Context, state: VariableState, indices: Array, updates: Array) -> Array:
        ctx.step.check()

        return state.change(
            lambda present: change(ctx.xp, present, checked_rows(indices, present, state.name), updates),
            ctx.step.journal,
        )

    return made


def _set_rows(xp: Namespace, value: Array, indices: Array, updates: Array) -> None:
    value[indices] = updates


scatter_update_variable: Final = _scatter(
    "scatter_update_variable",
    _set_rows,
    "The rows `indices` of the variable hold `updates`; the result is its new value.",
    ANY,
)


def _at(name: str) -> Callable[[Namespace, Array, Array, Array], None]:
    """Apply the ufunc once for every index, however often a row is named."""

    def change(xp: Namespace, value: Array, indices: Array, updates: Array) -> None:
        function = getattr(xp, name)
        if xp is not np or value.ndim == 1 or not value.flags.c_contiguous:
            function.at(value, indices, updates)
            return
        width = math.prod(value.shape[1:])  # one long index is five times as fast as an index of rows
        flat = np.asarray(indices, np.intp)[..., None] * width + np.arange(width)
        each = np.broadcast_to(updates, np.shape(indices) + value.shape[1:])
        function.at(value.reshape(-1), flat.reshape(-1), each.reshape(-1))

    return change


scatter_add_variable: Final = _scatter(
    "scatter_add_variable",
    _at("add"),
    "The rows `indices` grow by `updates`, repeated ones repeatedly; the result is the variable's new value.",
    NUMERIC,
)
scatter_sub_variable: Final = _scatter(
    "scatter_sub_variable",
    _at("subtract"),
    "The rows `indices` shrink by `updates`, repeated ones repeatedly; the result is the variable's new value.",
    NUMERIC,
)


@op(stateful=True)
def variable_lock_ticket(handle: Spec, container: str = "") -> Spec:
    """A new ticket for the lock of a variable, which is looked up in that container."""
    held(handle)
    return ResourceSpec(())


@variable_lock_ticket.kernel(CPU, GPU)
def _(ctx: Context, state: VariableState, *, container: str) -> Ticket:
    mutex = ctx.resources.container(container).lookup_or_create(Mutex, state.name, lambda: Mutex(state.name))
    return Ticket(mutex, ctx.step)


@op(stateful=True, waits=True)
def keep_variable_lock(ticket: Spec) -> None:
    """Wait until the lock is released with that ticket. If the step ends before, it is released by this."""
    ResourceSpec.check(ticket, 0)


@keep_variable_lock.kernel(CPU, GPU)
async def _(ctx: Context, ticket: Ticket) -> None:
    await ticket.keep()


@op(stateful=True, waits=True)
def acquire_variable_lock(handle: Spec, ticket: Spec) -> None:
    """Acquires the lock, after all earlier tickets have released it. An unkept ticket gives it up at once."""
    held(handle)
    ResourceSpec.check(ticket, 0)


@acquire_variable_lock.kernel(CPU, GPU)
async def _(ctx: Context, handle: VariableState, ticket: Ticket, *, node: NodeView) -> None:
    await ticket.enter(node)


@op(stateful=True, waits=True)
def release_variable_lock(handle: Spec, ticket: Spec) -> None:
    """Releases the lock held with that ticket; the next waiting ticket acquires it."""
    held(handle)
    ResourceSpec.check(ticket, 0)


@release_variable_lock.kernel(CPU, GPU)
async def _(ctx: Context, handle: VariableState, ticket: Ticket) -> None:
    ticket.leave()  # never on a compute thread: a ticket belongs to the loop


variable_lock_ticket.no_gradient("it changes state")
for _op in (keep_variable_lock, acquire_variable_lock, release_variable_lock):
    _op.no_gradient("it changes state")
