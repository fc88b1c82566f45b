"""Ops on queues: enqueue, dequeue, close. A waiting op holds no thread, and a cancelled one changes nothing.

The queue serves enqueues and dequeues in their order of arrival; only edges order the operations of one step.
"""

import asyncio
import functools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, op
from aioflow.kernels import known
from aioflow.kernels.context import Context
from aioflow.kernels.state.resource_handles import QueueSpec
from aioflow.queues import LARGE, Queue
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import SCALAR, Array, DeviceKind, Spec, TensorShape
from aioflow.waiting.element_spec import Elements
from aioflow.waiting.stores import Item

CPU, GPU = DeviceKind.CPU, DeviceKind.GPU
AT_A_TIME: Final = 1024
"""So many elements of a batch are made before the loop gets a turn."""

# Putting


def _components_of(handle: Spec, components: Sequence[Spec], batch: bool) -> None:
    """TypeError or ValueError if they cannot be an element, or a batch of elements, of that queue."""
    items = QueueSpec.check(handle).items
    if len(components) != len(items):
        wanted = ", ".join(map(str, items))
        raise ValueError(f"{len(components)} components were given, an element has {len(items)}: {wanted}")
    length: Any = dtypes.Dimension(None)
    for place, (component, item) in enumerate(zip(components, items, strict=True)):
        if component.dtype is not item.dtype:
            raise TypeError(f"component {place} is {component.dtype.name}, the queue holds {item.dtype.name} there")
        shape = component.shape
        if batch:
            if shape.sizes == ():
                raise ValueError(f"component {place} of a batch has a first dimension, for its elements, not shape ()")
            length = length.merge_with(shape[0] if shape.sizes is not None else None)
            shape = shape[1:]
        if not shape.is_compatible_with(item.shape):
            rows = "the rows of component" if batch else "component"
            raise ValueError(f"{rows} {place} must have shape {item.shape}, not {shape}")


@op(waits=True)
def queue_enqueue(handle: Spec, components: Sequence[Spec]) -> None:
    """Adds one element to the queue, as soon as it has room. CancelledError if the queue is closed."""
    _components_of(handle, components, batch=False)


@queue_enqueue.kernel(CPU, fresh=True)
async def _(ctx: Context, queue: Queue, components: Sequence[Array], *, node: NodeView) -> None:
    elements = _elements(queue)
    if _is_large(components):
        item = await ctx.step.in_thread(elements.item, components)
    else:
        item = elements.item(components)
    await queue.put_item(item, node)
    ctx.put(functools.partial(queue.take_out, [item]))


@op(waits=True)
def queue_enqueue_many(handle: Spec, components: Sequence[Spec], atomic: bool = False) -> None:
    """Adds the rows of the components to the queue: each as soon as it has room, or all at once if `atomic`.

    CancelledError if the queue is closed or the step ends meanwhile; rows added before stay in the queue.
    """
    _components_of(handle, components, batch=True)


@queue_enqueue_many.kernel(CPU, fresh=True)
async def _(ctx: Context, queue: Queue, components: Sequence[Array], *, atomic: bool, node: NodeView) -> None:
    items = await _rows(ctx, _elements(queue), components)
    await queue.put_items(items, atomic, node)
    ctx.put(functools.partial(queue.take_out, items))


@op(waits=True)
def queue_give_back(handle: Spec, components: Sequence[Spec], many: bool = False) -> None:
    """One more element, or the rows of the components, are in the queue at once: even if it is full, or closed."""
    _components_of(handle, components, batch=many)


@queue_give_back.kernel(CPU, fresh=True)
async def _(ctx: Context, queue: Queue, components: Sequence[Array], *, many: bool) -> None:
    elements = _elements(queue)
    if many:
        items = await _rows(ctx, elements, components)
    elif _is_large(components):
        items = [await ctx.step.in_thread(elements.item, components)]
    else:
        items = [elements.item(components)]
    queue.give_back(items)
    ctx.put(functools.partial(queue.take_out, items))


async def _rows(ctx: Context, elements: Elements, components: Sequence[Array]) -> list[Item]:
    """The elements of a batch; the loop turns while there are many, and copies many bytes on a thread."""
    count = len(components[0]) if np.ndim(components[0]) else 0
    if count <= AT_A_TIME:
        large = _is_large(components)
        return await ctx.step.in_thread(elements.rows, components) if large else elements.rows(components)
    items: list[Item] = []
    for first in range(0, max(map(len, components)), AT_A_TIME):
        items += await _rows(ctx, elements, [column[first : first + AT_A_TIME] for column in components])
        await asyncio.sleep(0)
    return items


def _elements(queue: Queue) -> Elements:
    assert queue.elements is not None
    return queue.elements


def _is_large(components: Sequence[Array]) -> bool:
    return sum([getattr(component, "nbytes", 0) for component in components]) > LARGE


# Taking


@op(waits=True)
def queue_dequeue(handle: Spec) -> tuple[Spec, ...]:
    """Removes the next element, as soon as the queue has one. OutOfRangeError if it is closed and empty."""
    items = QueueSpec.check(handle).items
    return tuple(
        [item if item.shape.is_fully_defined() else Spec(item.dtype, TensorShape(item.shape)) for item in items]
    )


@queue_dequeue.kernel(CPU, fresh=True)
async def _(ctx: Context, queue: Queue, *, node: NodeView) -> Any:
    taken = await queue.take_one_marked(node)
    ctx.took(functools.partial(queue.put_back, taken))
    item = taken[0][-1]
    return item[0] if len(item) == 1 else item


@op(waits=True)
def queue_dequeue_many(handle: Spec, n: Ints) -> tuple[Spec, ...]:
    """Removes the next `n` elements, as soon as the queue has that many; each component is stacked.

    Until then all of them stay in the queue; a cancelled dequeue removes none. OutOfRangeError if the queue is closed
    and has fewer than `n`, which stay.
    """
    return QueueSpec.check(handle).batched(_count(n))


@op(waits=True)
def queue_dequeue_up_to(handle: Spec, n: Ints) -> tuple[Spec, ...]:
    """As `queue_dequeue_many`, but a closed queue gives the remaining elements, if at least one is left."""
    _count(n)
    return QueueSpec.check(handle).batched(None)


def _count(n: Spec) -> int | None:
    count = known.scalar(n, "n")
    if count is not None and count < 0:
        raise ValueError(f"n={count} elements cannot be taken of a queue")
    return count


@queue_dequeue_many.kernel(CPU, fresh=True)
async def _(ctx: Context, queue: Queue, n: Array, *, node: NodeView) -> Any:
    return await _batch(ctx, queue, int(n), False, node)


async def _batch(ctx: Context, queue: Queue, count: int, fewer: bool, node: NodeView) -> Any:
    batch, taken = await queue.take_batch_marked(count, fewer, node, ctx.step.in_thread)
    ctx.took(functools.partial(queue.put_back, taken))
    return batch[0] if len(batch) == 1 else batch


@queue_dequeue_up_to.kernel(CPU, fresh=True)
async def _(ctx: Context, queue: Queue, n: Array, *, node: NodeView) -> Any:
    return await _batch(ctx, queue, int(n), True, node)


# Closing, asking


@op(waits=True)
def queue_close(handle: Spec, cancel_pending_enqueues: bool = False) -> None:
    """Closes the queue: later enqueues fail. Pending enqueues complete first, or fail if `cancel_pending_enqueues`.

    Waits for the pending enqueues. CancelledError if the queue is closed already.
    """
    QueueSpec.check(handle)


@queue_close.kernel(CPU, fresh=True)
async def _(ctx: Context, queue: Queue, *, cancel_pending_enqueues: bool, node: NodeView) -> None:
    await queue.close(cancel_pending_enqueues, node)


@op(stateful=True)
def queue_size(handle: Spec) -> Spec:
    """How many elements are in the queue."""
    QueueSpec.check(handle)
    return Spec(dtypes.int32, SCALAR)


queue_size.kernel(CPU, fresh=True, binds=True)(lambda xp, node: lambda queue: np.int32(queue.size))


@op(stateful=True)
def queue_is_closed(handle: Spec) -> Spec:
    """Whether the queue is closed."""
    QueueSpec.check(handle)
    return Spec(dtypes.bool_, SCALAR)


queue_is_closed.kernel(CPU, fresh=True, binds=True)(lambda xp, node: lambda queue: np.bool_(queue.closed))

for _op in (queue_enqueue, queue_enqueue_many, queue_give_back, queue_close):
    _op.no_gradient("it changes state")
for _taking in (queue_dequeue, queue_dequeue_many, queue_dequeue_up_to):
    _taking.no_gradient("an element's history ends where it entered the queue")
for _asking in (queue_size, queue_is_closed):
    _asking.no_gradient("it reads the state of a queue")
