"""Ops that compute the rows of several steps in one of them: rows into batches, results back, and their gradients."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels import known
from aioflow.kernels.context import Context, Undo
from aioflow.kernels.state.resource_handles import LiveSpec, opened
from aioflow.queues import LARGE
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import SCALAR, Array, DeviceKind, Spec, TensorShape
from aioflow.waiting.batching import Limits, RowBatches
from aioflow.waiting.row_batch import Rows, Values

CPU = DeviceKind.CPU
_PLACE: Final = 3
"""Numbers in a row of `index`: the number of a step's rows, the first row, and the row after the last."""


class BatchesSpec(LiveSpec):
    """A handle to batches of rows."""

    __slots__ = ()
    kind = "batches of rows"


@op(stateful=True, observes=True, handle=True)
def row_batches(
    num_batch_threads: int,
    max_batch_size: int,
    batch_timeout_micros: int,
    allowed_batch_sizes: Sequence[int] = (),
    max_enqueued_batches: int = 10,
    held: bool = False,
    container: str = "",
    shared_name: str = "",
) -> Spec:
    """A handle to batches of rows: the same ones for every operation with that container and name."""
    limits = {
        "num_batch_threads": (num_batch_threads, 1),
        "max_batch_size": (max_batch_size, 1),
        "batch_timeout_micros": (batch_timeout_micros, 0),
        "max_enqueued_batches": (max_enqueued_batches, 1),
    }
    for name, (given, least) in limits.items():
        if not isinstance(given, int) or isinstance(given, bool):
            raise TypeError(f"{name} is a whole number, not {given!r}")
        if given < least:
            raise ValueError(f"{name} is {given}, and must be at least {least}")
    sizes = list(allowed_batch_sizes)
    if not all(isinstance(size, int) for size in sizes):
        raise TypeError(f"allowed_batch_sizes are whole numbers, not {sizes}")
    if sizes and (sizes[0] < 1 or sizes != sorted(set(sizes)) or sizes[-1] != max_batch_size):
        text = f"allowed_batch_sizes must increase up to max_batch_size={max_batch_size}"
        raise ValueError(f"{text}, and are {sizes}")
    return BatchesSpec(())


@row_batches.kernel(CPU)
def _(ctx: Context, *, node: NodeView) -> RowBatches:
    attrs = node.attrs
    limits = Limits(
        attrs["max_batch_size"],
        attrs["batch_timeout_micros"] * 1e-6,
        attrs["max_enqueued_batches"],
        attrs["num_batch_threads"],
        attrs["allowed_batch_sizes"],
    )
    return opened(ctx, node, RowBatches, lambda name: RowBatches(name, limits, attrs["held"], attrs))


class _Members:
    """The rows that a step has in batches. Their numbers are valid as long as the step keeps this."""

    def __init__(self) -> None:
        self._rows: Final[list[Rows]] = []

    def add(self, ctx: Context, live: RowBatches, rows: Rows) -> None:
        """Keep rows. If the step fails, they leave their batch."""
        self._rows.append(rows)
        ctx.step.common(Undo).add(functools.partial(live.leave, rows))


async def _in_thread_if_large(ctx: Context, values: Sequence[Array], work: Any, *args: Any) -> Any:
    if sum([value.nbytes for value in values]) > LARGE:
        return await ctx.step.in_thread(work, *args)
    return work(*args)


# Into batches


@op(waits=True)
def batch(handle: Spec, tensors: Sequence[Spec]) -> tuple[Spec, ...]:
    """The rows of all steps of a batch, the places of each step's rows in it, and the number of this step's rows.

    Only one step of a batch gets the rows and the places; the others get none. Waits until the batch begins. Each
    place is the number of a step's rows, the first row, and the row after the last. A batch is filled up to an allowed
    size with its first row. ResourceExhaustedError if too many batches wait.
    """
    BatchesSpec.check(handle)
    if not tensors:
        raise ValueError("a batch is made of at least one tensor, and none is given")
    for place, spec in enumerate(tensors):
        if spec.rank == 0:
            raise ValueError(f"tensor {place} is a scalar: a batch is made of tensors with rows in axis 0")
    sizes = sorted({size for spec in tensors for size in (spec.sizes or ())[:1] if size is not None})
    if len(sizes) > 1:
        raise ValueError(f"tensors of one batch have the same number of rows, not {', '.join(map(str, sizes))}")
    batched = [_any_rows(spec) for spec in tensors]
    return *batched, Spec(dtypes.int64, TensorShape((None, _PLACE))), Spec(dtypes.int64, SCALAR)


def _any_rows(spec: Spec) -> Spec:
    """A tensor with any number of rows like these."""
    return Spec(spec.dtype, TensorShape(None if spec.sizes is None else (None, *spec.sizes[1:])))


@batch.kernel(CPU, fresh=True)
async def _(ctx: Context, live: RowBatches, tensors: Sequence[Array], *, node: NodeView) -> tuple[Any, ...]:
    count = _count(tensors)
    key = tuple([(tensor.dtype, tensor.shape[1:]) for tensor in tensors])
    given = await _in_thread_if_large(ctx, tensors, _copies, tensors)
    rows = await live.join(given, count, key, node)
    ctx.step.common(_Members).add(ctx, live, rows)
    if not rows.leads:
        return *[tensor[:0].copy() for tensor in tensors], np.empty((0, _PLACE), np.int64), np.int64(rows.id)
    parts, size = live.take(rows.batch), rows.batch.rows
    filled = next((allowed for allowed in live.limits.sizes if allowed >= size), size)
    columns = [list(column) for column in zip(*parts, strict=True)]
    joined = await _in_thread_if_large(ctx, [each for column in columns for each in column], _joined, columns, filled)
    index = np.array([(number, *place) for number, place in rows.batch.places.items()], np.int64)
    return *joined, index, np.int64(rows.id)


def _count(tensors: Sequence[Array]) -> int:
    """How many rows the tensors have. InvalidArgumentError if they have none, or different numbers."""
    shapes = [list(np.shape(tensor)) for tensor in tensors]
    if not all(shapes) or any(shape[0] != shapes[0][0] for shape in shapes):
        text = f"tensors of shapes {', '.join(map(str, shapes))} make no batch"
        raise errors.InvalidArgumentError(f"{text}: they need rows in axis 0, and all the same number of them")
    return int(shapes[0][0])


def _copies(tensors: Sequence[Array]) -> list[Array]:
    """Copies, since other steps read them later."""
    return [tensor.copy() for tensor in tensors]


def _joined(columns: Sequence[Sequence[Array]], size: int) -> list[Array]:
    """For each tensor the rows of all parts, filled up to a size with the first row."""
    joined = []
    for column in columns:
        rows = np.concatenate(column)
        missing = size - len(rows) if len(rows) else 0
        joined.append(np.concatenate([rows, np.repeat(rows[:1], missing, axis=0)]) if missing else rows)
    return joined


# Back to the steps


@op(waits=True)
def unbatch(handle: Spec, index: Ints, id: Ints, tensors: Sequence[Spec], results: str = "") -> tuple[Spec, ...]:
    """The rows of each tensor that belong to this step.

    The step that got the rows of the batch gives results with a row for each; the others wait for them, in an operation
    with the same name, or the same `results`. `index` and `id` are those of `batch`. AbortedError if the step that
    computes the results ends without them.
    """
    _check(handle, index, id)
    if not tensors:
        raise ValueError("no tensor is given to be divided")
    for place, spec in enumerate(tensors):
        if spec.rank == 0:
            raise ValueError(f"tensor {place} is a scalar, and has no rows in axis 0 to be divided")
    return tuple([_any_rows(spec) for spec in tensors])


def _check(handle: Spec, index: Spec, id: Spec) -> None:
    BatchesSpec.check(handle)
    known.scalar(id, "id")
    if index.dtype is not dtypes.int64 or id.dtype is not dtypes.int64:
        raise TypeError(f"index and id are the int64 outputs of `batch`, not {index} and {id}")
    if index.rank not in (None, 2):
        raise ValueError(f"index has a row of {_PLACE} numbers for each step of the batch, not shape {index.shape}")


@unbatch.kernel(CPU, fresh=True)
async def _(
    ctx: Context, live: RowBatches, index: Array, id: Array, tensors: Sequence[Array], *, results: str, node: NodeView
) -> Any:
    rows, name = live.part(int(id)), results or node.name
    if rows.leads:
        divided = await _in_thread_if_large(ctx, tensors, rows.batch.divided, tensors)
        ctx.step.check()
        live.give(rows.batch, name, divided)
    own = await live.results(rows, name, node)
    return own[0] if len(own) == 1 else tuple(own)


@op(waits=True)
def unbatch_grad(
    handle: Spec, index: Ints, id: Ints, tensors: Sequence[Spec], gradients: Sequence[Spec]
) -> tuple[Spec, ...]:
    """The gradients of `tensors`, of which `gradients` are those of this step's rows.

    The step that got the rows of the batch waits for the gradients of the others. Rows of steps that ended, and rows
    that fill a batch up, have gradients of 0.
    """
    _check(handle, index, id)
    if not tensors or len(tensors) != len(gradients):
        raise ValueError(f"{len(gradients)} gradients were given for {len(tensors)} tensors")
    return tuple([Spec(spec.dtype, spec.shape) for spec in tensors])


@unbatch_grad.kernel(CPU, fresh=True)
async def _(
    ctx: Context,
    live: RowBatches,
    index: Array,
    id: Array,
    tensors: Sequence[Array],
    gradients: Sequence[Array],
    *,
    node: NodeView,
) -> Any:
    rows = live.part(int(id))
    live.share(rows, node.name, _copies(gradients))
    shares = await live.shares(rows.batch, node.name, node) if rows.leads else {}
    work = functools.partial(_placed, tensors, rows.batch.places, shares)
    whole = await _in_thread_if_large(ctx, tensors, work)
    return whole[0] if len(whole) == 1 else tuple(whole)


def _placed(tensors: Values, places: Mapping[int, tuple[int, int]], shares: Mapping[int, Values]) -> list[Array]:
    """The shares at their places in values that are otherwise 0."""
    whole = [np.zeros_like(tensor) for tensor in tensors]
    for number, values in shares.items():
        start, stop = places[number]
        for value, share in zip(whole, values, strict=True):
            value[start:stop] = share
    return whole


# Gradients


@batch.gradient
def _(op: Operation, *grads: Tensor) -> Sequence[Tensor | None]:
    handle, *tensors = op.inputs
    index, id = op.outputs[-2:]
    return None, *_each(unbatch(handle, index, id, grads[: len(tensors)]))


@unbatch.gradient
def _(op: Operation, *grads: Tensor) -> Sequence[Tensor | None]:
    handle, index, id, *tensors = op.inputs
    return None, None, None, *_each(unbatch_grad(handle, index, id, tensors, grads))


@unbatch_grad.gradient
def _(op: Operation, *grads: Tensor) -> Sequence[Tensor | None]:
    handle, index, id = op.inputs[:3]
    return *[None] * (3 + len(grads)), *_each(unbatch(handle, index, id, grads))


def _each(made: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    return [made] if isinstance(made, Tensor) else made


row_batches.no_gradient("a handle has no history")
