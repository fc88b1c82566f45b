"""Ops on barriers: components inserted under keys leave as whole tuples. Taking waits, and holds no thread."""

import asyncio
import functools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, Op, op
from aioflow.kernels import known
from aioflow.kernels.context import Context
from aioflow.kernels.state.resource_handles import LiveSpec, check_component, components, opened
from aioflow.queues import LARGE
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import SCALAR, Array, DeviceKind, DType, Spec, TensorShape
from aioflow.waiting.barrier import Barrier, Tuple

CPU, GPU = DeviceKind.CPU, DeviceKind.GPU
AT_A_TIME: Final = 1024
"""The most keys that an insertion handles on the loop."""


class BarrierSpec(LiveSpec):
    """A handle to a barrier of tuples with the components `items`."""

    __slots__ = ()
    kind = "a barrier"


@op(stateful=True, observes=True, handle=True)
def barrier(
    component_types: Sequence[DType],
    shapes: Sequence[TensorShape] = (),
    capacity: int = -1,
    container: str = "",
    shared_name: str = "",
) -> Spec:
    """A handle to a barrier: the same one for every operation with that container and name."""
    items = components(component_types, shapes)
    if capacity != -1:
        raise ValueError(f"a barrier holds any number of tuples: capacity is -1, not {capacity!r}; bound its input")
    for place, item in enumerate(items):
        if item.shape.num_elements() == 0:
            raise ValueError(f"component {place} has shape {item.shape}: values without elements cannot be inserted")
    return BarrierSpec(items)


@barrier.kernel(CPU)
def _(ctx: Context, *, node: NodeView) -> Barrier:
    items = BarrierSpec.check(node.output_specs[0]).items
    return opened(ctx, node, Barrier, lambda name: Barrier(name, items, node.attrs))


@op(waits=True)
def barrier_insert_many(handle: Spec, keys: Spec, values: Spec, component_index: int) -> None:
    """Each of the `keys` has its row of `values` as the component of that number.

    Done whole or not at all. InvalidArgumentError if a key has that component already; CancelledError if the barrier is
    closed and a key is new.
    """
    items = BarrierSpec.check(handle).items
    if not isinstance(component_index, int) or not 0 <= component_index < len(items):
        raise ValueError(f"component_index={component_index!r} is out of range for {len(items)} components")
    check_component(keys, Spec(dtypes.string, TensorShape.vector(None)), "keys")
    item = items[component_index]
    if values.rank == 0:
        raise ValueError("values has a row for each key, and so not rank 0")
    check_component(values.with_shape(values.shape[1:]), item, "a row of values")
    keys.shape.merge_with(values.shape[:1])
    if values.shape[1:].num_elements() == 0:
        raise ValueError(f"values of shape {values.shape} have no elements, and cannot be inserted")


@barrier_insert_many.kernel(CPU, fresh=True)
async def _(ctx: Context, live: Barrier, keys: Array, values: Array, *, component_index: int) -> None:
    names = np.asarray(keys).tolist()
    if len(names) <= AT_A_TIME and getattr(values, "nbytes", 0) <= LARGE:
        rows = live.rows(component_index, names, values)
        live.insert_rows(component_index, names, rows)
    else:
        rows = await ctx.step.in_thread(live.rows, component_index, names, values)
        await _insert_on_thread(ctx, live, component_index, names, rows)
    ctx.put(functools.partial(live.take_out, component_index, names, rows))


async def _insert_on_thread(ctx: Context, live: Barrier, component: int, keys: list[bytes], rows: list[Any]) -> None:
    """Insert rows on a thread. A cancellation removes them, whether the thread has inserted them by then or not."""

    def insert() -> None:
        ctx.step.check()
        live.insert_rows(component, keys, rows)
        try:
            ctx.step.check()
        except errors.CancelledError:
            live.take_out(component, keys, rows)
            raise

    try:
        await ctx.step.in_thread(insert)
    except asyncio.CancelledError:
        live.take_out(component, keys, rows)
        raise


@op(waits=True)
def barrier_take_many(
    handle: Spec,
    num_elements: Ints,
    allow_small_batch: bool = False,
    wait_for_incomplete: bool = False,
    timeout_ms: int = -1,
) -> tuple[Spec, ...]:
    """The next `num_elements` tuples, as soon as that many are complete: their indices, keys, then each component.

    An index is the number of the insertion that used the key first. A waiting take holds no tuple. A closed barrier
    may give a small batch of at least one tuple; with `wait_for_incomplete` only after the incomplete ones.

    Raises:
        OutOfRangeError: the barrier is closed and cannot complete enough tuples.
        DeadlineExceededError: the tuples were not complete after the timeout; a negative timeout waits without limit.
    """
    items = BarrierSpec.check(handle).items
    count = known.scalar(num_elements, "num_elements")
    if count is not None and count < 0:
        raise ValueError(f"num_elements={count} cannot be taken of a barrier")
    rows = TensorShape.vector(None if allow_small_batch else count)
    values = [Spec(item.dtype, rows.concatenate(item.shape)) for item in items]
    return Spec(dtypes.int64, rows), Spec(dtypes.string, rows), *values


@barrier_take_many.kernel(CPU, fresh=True)
async def _(
    ctx: Context,
    live: Barrier,
    num_elements: Array,
    *,
    allow_small_batch: bool,
    wait_for_incomplete: bool,
    timeout_ms: int,
    node: NodeView,
) -> Any:
    timeout = None if timeout_ms < 0 else timeout_ms / 1000
    taken = await live.take(int(num_elements), allow_small_batch, wait_for_incomplete, timeout, node)
    try:
        batch = await ctx.step.in_thread(live.batch, taken) if _bytes(taken) > LARGE else live.batch(taken)
    except BaseException:
        live.give_back(taken)
        raise
    ctx.took(functools.partial(live.give_back, taken))
    return batch


def _bytes(taken: Sequence[Tuple]) -> int:
    return len(taken) * sum([getattr(value, "nbytes", 0) for value in taken[0].components]) if taken else 0


@op(stateful=True)
def barrier_close(handle: Spec, cancel_pending_enqueues: bool = False) -> None:
    """No new key can be inserted any more; those that are incomplete can be completed, or are dropped if it cancels.

    CancelledError if the barrier is closed already; but one that was closed may be closed again to cancel.
    """
    BarrierSpec.check(handle)


@barrier_close.kernel(CPU, fresh=True)
def _(ctx: Context, live: Barrier, *, cancel_pending_enqueues: bool) -> None:
    ctx.step.check()
    live.close(cancel_pending_enqueues)


@op(stateful=True)
def barrier_ready_size(handle: Spec) -> Spec:
    """How many tuples are whole."""
    BarrierSpec.check(handle)
    return Spec(dtypes.int32, SCALAR)


@op(stateful=True)
def barrier_incomplete_size(handle: Spec) -> Spec:
    """How many keys lack components."""
    BarrierSpec.check(handle)
    return Spec(dtypes.int32, SCALAR)


barrier_ready_size.kernel(CPU, fresh=True, binds=True)(lambda xp, node: lambda live: np.int32(live.ready_size))
barrier_incomplete_size.kernel(CPU, fresh=True, binds=True)(
    lambda xp, node: lambda live: np.int32(live.incomplete_size)
)

barrier.no_gradient("a handle has no history")
barrier_take_many.no_gradient("a tuple's history ends where its components entered the barrier")
_op: Op[Any]
for _op in (barrier_insert_many, barrier_close):
    _op.no_gradient("it changes state")
for _op in (barrier_ready_size, barrier_incomplete_size):
    _op.no_gradient("it reads the state of a barrier")
