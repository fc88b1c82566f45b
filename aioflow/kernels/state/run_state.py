"""Ops that save and restore the state of a run beside variables: queue elements, reader positions, counters.

A saved queue is a JSON text and, for each component, the values of the elements end to end with their ranks and sizes.
Elements of pending enqueues are saved as if they were in the queue.

Ops that take a snapshot: the values of many variables, queues and readers at one moment.

A step first marks every object of the snapshot. When all are marked, the first `cut_...` op of a task takes the values
of all objects marked on that task, at one moment. The devices of the variables do not matter, and the ops need only
their handles.

Nothing is copied: a value that was read never changes, and a later update writes to its own copy (`VariableState`).
"""

import json
import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import numpy as np

from aioflow import errors
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.kernels.context import Context
from aioflow.kernels.state.readers import ReaderSpec, text_of
from aioflow.kernels.state.resource_handles import QueueSpec
from aioflow.kernels.state.variables import held
from aioflow.queues import Queue
from aioflow.resources.containers import VariableState, read_together
from aioflow.resources.reader import Reader
from aioflow.tensors import dtypes
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import SCALAR, STRING, Array, DeviceKind, Spec, TensorShape
from aioflow.waiting.stores import Contents

CPU, GPU = DeviceKind.CPU, DeviceKind.GPU


class HasContents(Protocol):
    """An object with contents that a snapshot can take: a queue, a reader."""

    def contents(self) -> Any:
        """The contents, sufficient to make an equal object."""


class Cut:
    """The objects that one step has marked on one task, and their contents after the snapshot."""

    def __init__(self) -> None:
        self._marked: Final[set[VariableState | HasContents]] = set()
        self._taken: dict[VariableState | HasContents, Any] = {}
        self._lock = threading.Lock()

    def mark(self, thing: VariableState | HasContents) -> None:
        """Include the object in the snapshot."""
        self._marked.add(thing)

    def value(self, thing: VariableState | HasContents) -> Any:
        """The object's contents in the snapshot; the first call takes the snapshot of all marked objects."""
        with self._lock:
            if thing not in self._taken:
                self._take(self._marked - self._taken.keys() | {thing})
            return self._taken[thing]

    def _take(self, things: set[VariableState | HasContents]) -> None:
        values = read_together({thing for thing in things if isinstance(thing, VariableState)})
        for thing in things:
            self._taken[thing] = values[thing] if isinstance(thing, VariableState) else thing.contents()


@op(stateful=True)
def mark_variable(handle: Spec) -> None:
    """The variable's value will be taken together with that of all that the step has marked on the task by then."""
    held(handle)


@mark_variable.kernel(CPU, GPU)
def _(ctx: Context, state: VariableState) -> None:
    ctx.step.common(Cut).mark(state)


@op(stateful=True)
def cut_variable(handle: Spec) -> Spec:
    """The variable's value in the step's snapshot, which no later update changes.

    FailedPreconditionError if a variable that was marked on the task is not initialized.
    """
    return held(handle)


@cut_variable.kernel(CPU, GPU)
def _(ctx: Context, state: VariableState) -> Array:
    value: Array = ctx.step.common(Cut).value(state)
    return value


mark_variable.no_gradient("it marks a variable")
cut_variable.no_gradient("it is for checkpoints; gradients flow to the reads of the variable")


CPU_ = DeviceKind.CPU
_TEXT = Spec(dtypes.string, SCALAR)
_SIZES = Spec(dtypes.int64, TensorShape([None]))


@op(stateful=True)
def mark_queue(handle: Spec) -> None:
    """Marks the queue for the step's snapshot, which takes all marked objects of a task at one moment."""
    QueueSpec.check(handle)


@op(stateful=True)
def mark_reader(reader: Spec) -> None:
    """Where the reader is will be taken together with all that the step has marked on the task by then."""
    ReaderSpec.check(reader)


for _mark in (mark_queue, mark_reader):
    _mark.no_gradient("it marks what has state")
    _mark.kernel(CPU_)(lambda ctx, thing: ctx.step.common(Cut).mark(thing))


# Queues


@op(waits=True)
def cut_queue(handle: Spec) -> tuple[Spec, ...]:
    """The queue's contents in the step's snapshot: a text, then values and sizes of each component."""
    items = QueueSpec.check(handle).items
    parts = [(Spec(item.dtype, TensorShape([None])), _SIZES) for item in items]
    return (_TEXT, *[spec for pair in parts for spec in pair])


@cut_queue.kernel(CPU_, fresh=True)
async def _(ctx: Context, queue: Queue, *, node: NodeView) -> tuple[Array, ...]:
    contents: Contents = ctx.step.common(Cut).value(queue)
    types = [spec.dtype.np for spec in node.output_specs[1::2]]
    found: tuple[Array, ...] = await ctx.step.in_thread(pack_contents, contents, types)
    return found


def pack_contents(contents: Contents, types: Sequence[np.dtype[Any]]) -> tuple[Array, ...]:
    """The contents of a queue as text and arrays."""
    state = {"closed": contents.closed, "count": len(contents.items), "generator": contents.generator}
    columns = list(zip(*contents.items, strict=True)) or [()] * len(types)
    parts = [part for column, dtype in zip(columns, types, strict=True) for part in _flat(column, dtype)]
    return (_scalar(json.dumps(state).encode()), *parts)


def _flat(column: Sequence[Any], dtype: np.dtype[Any]) -> tuple[AnyArray, AnyArray]:
    """Values end to end; rank and sizes of each."""
    shapes = [np.shape(value) for value in column]
    values = np.empty(sum(map(math.prod, shapes)), dtype)
    place = 0
    for value, shape in zip(column, shapes, strict=True):
        end = place + math.prod(shape)
        values[place:end] = np.asarray(value, dtype).ravel()
        place = end
    sizes = [number for shape in shapes for number in (len(shape), *shape)]
    return values, np.array(sizes, np.int64)


@op(waits=True)
def restore_queue(handle: Spec, state: Spec, parts: Sequence[Spec]) -> None:
    """Fills the queue with saved contents. DataLossError if they do not have the saved form."""
    items = QueueSpec.check(handle).items
    state.only(STRING).with_rank(0)
    if len(parts) != 2 * len(items):
        raise ValueError(f"elements of {len(items)} components are saved in {2 * len(items)} parts, not {len(parts)}")


@restore_queue.kernel(CPU_, fresh=True)
async def _(ctx: Context, queue: Queue, state: Array, parts: Sequence[Array]) -> None:
    contents = await ctx.step.in_thread(unpack_contents, text_of(state), list(parts))
    assert queue.elements is not None
    items = [queue.elements.item(item) for item in contents.items]
    ctx.step.check()
    queue.refill(Contents(items, contents.closed, contents.generator))


def unpack_contents(text: bytes, parts: Sequence[Array]) -> Contents:
    """The contents of a queue from the result of `pack_contents`. DataLossError if text and arrays are malformed."""
    try:
        state = json.loads(text)
        closed, count, generator = state["closed"] is True, int(state["count"]), state["generator"]
        columns = [_column(count, values, sizes) for values, sizes in zip(parts[::2], parts[1::2], strict=True)]
        items = list(zip(*columns, strict=True)) if columns else [()] * count
        return Contents(items, closed, generator and (generator[0], tuple(generator[1]), generator[2]))
    except (KeyError, TypeError, ValueError, StopIteration) as error:
        raise errors.DataLossError(f"the saved contents of a queue are malformed: {error!r}") from None


def _column(count: int, values: AnyArray, sizes: AnyArray) -> list[Any]:
    numbers: Iterator[int] = iter(sizes.tolist())
    found, place = [], 0
    for _ in range(count):
        rank = next(numbers)
        shape = [next(numbers) for _ in range(rank)]
        end = place + math.prod(shape)
        found.append(values[place:end].reshape(shape))
        place = end
    return found


# Readers


@op(stateful=True)
def cut_reader(reader: Spec) -> Spec:
    """Where the reader was at the moment of the step's cut, as a string for `reader_restore_state`."""
    ReaderSpec.check(reader)
    return _TEXT


@cut_reader.kernel(CPU_)
def _(ctx: Context, reader: Reader) -> Array:
    return _scalar(ctx.step.common(Cut).value(reader))


# Counts


@op(stateful=True)
def run_counts() -> Spec:
    """How often operations have run in this session on this task, of those that ask for it, as text."""
    return _TEXT


@run_counts.kernel(CPU_)
def _(ctx: Context) -> Array:
    return _scalar(json.dumps(ctx.step.counts()).encode())


@op(stateful=True)
def restore_run_counts(state: Spec) -> None:
    """Sets the run counters of operations to the saved counts."""
    state.only(STRING).with_rank(0)


@restore_run_counts.kernel(CPU_)
def _(ctx: Context, state: Array) -> None:
    counts = json.loads(text_of(state))
    if not isinstance(counts, dict) or not all(type(count) is int and count >= 0 for count in counts.values()):
        raise errors.DataLossError("this is not how often operations ran")
    ctx.step.recount(counts)


def _scalar(text: bytes) -> Array:
    value = np.empty((), object)
    value[()] = text
    return value


for _taking in (cut_queue, cut_reader, run_counts):
    _taking.no_gradient("it is for checkpoints")
for _giving in (restore_queue, restore_run_counts):
    _giving.no_gradient("it changes state")
