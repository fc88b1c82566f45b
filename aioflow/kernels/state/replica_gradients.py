"""Ops on the gradients of one variable that replicas have stored until the quorum decides which of them count."""

from typing import Any

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.kernels import known
from aioflow.kernels.context import Context
from aioflow.kernels.state.accumulators import Steps
from aioflow.kernels.state.replicas import check_ticket, ticket_of
from aioflow.kernels.state.resource_handles import LiveSpec, again, check_component, opened
from aioflow.queues import LARGE
from aioflow.replication.gradient_store import DenseGradientStore, GradientStore, RowGradientStore, Rows
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import FLOAT, Array, DeviceKind, DType, Spec, TensorShape

CPU = DeviceKind.CPU
_INT64 = frozenset({dtypes.int64})


class SharesSpec(LiveSpec):
    """A handle to gradients like `items[0]`."""

    __slots__ = ()
    kind = "gradients of replicas"


class DenseSpec(SharesSpec):
    """A handle to gradients that are arrays."""

    __slots__ = ()


class RowsSpec(SharesSpec):
    """A handle to gradients of which only some rows are held."""

    __slots__ = ()
    kind = "sparse gradients of replicas"


@op(stateful=True, observes=True, handle=True)
def replica_gradients(dtype: DType, shape: TensorShape, container: str = "", shared_name: str = "") -> Spec:
    """A handle to the stored gradients of a variable: the same for every operation with that container and name."""
    return DenseSpec((Spec(dtype, TensorShape(shape)).only(FLOAT),))


@op(stateful=True, observes=True, handle=True)
def replica_sparse_gradients(dtype: DType, shape: TensorShape, container: str = "", shared_name: str = "") -> Spec:
    """The same of gradients of which only some rows are held."""
    item = Spec(dtype, TensorShape(shape)).only(FLOAT)
    if item.rank == 0:
        raise ValueError("a gradient of rank 0 has no rows")
    return RowsSpec((item,))


@replica_gradients.kernel(CPU)
def _(ctx: Context, *, node: NodeView) -> DenseGradientStore:
    (item,) = SharesSpec.check(node.output_specs[0]).items
    return opened(ctx, node, DenseGradientStore, lambda name: DenseGradientStore(name, item, node.attrs))


@replica_sparse_gradients.kernel(CPU)
def _(ctx: Context, *, node: NodeView) -> RowGradientStore:
    (item,) = SharesSpec.check(node.output_specs[0]).items
    return opened(ctx, node, RowGradientStore, lambda name: RowGradientStore(name, item, node.attrs))


@op(stateful=True)
def replica_put(handle: Spec, ticket: Spec, gradient: Spec) -> None:
    """A copy of the gradient is stored, unless no step can want it any more."""
    check_ticket(ticket)
    check_component(gradient, DenseSpec.check(handle).items[0], "the gradient")


@replica_put.kernel(CPU, fresh=True)
def _(ctx: Context, live: DenseGradientStore, ticket: Array, gradient: Array) -> None:
    ctx.step.check()
    live.put(ticket_of(ticket), lambda: np.array(gradient))


@op(stateful=True)
def replica_put_rows(handle: Spec, ticket: Spec, indices: Steps, values: Spec) -> None:
    """A copy of the gradient whose row `indices[i]` is `values[i]` is stored, unless no step can want it any more."""
    check_ticket(ticket)
    (item,) = RowsSpec.check(handle).items
    known.vector(indices, "indices")
    if values.rank == 0:
        raise ValueError("values has a row for each index, and so not rank 0")
    indices.shape.merge_with(values.shape[:1])
    whole = TensorShape.vector(None).concatenate(values.shape[1:])
    check_component(values.with_shape(whole), item, "the gradient")


@replica_put_rows.kernel(CPU, fresh=True)
def _(ctx: Context, live: RowGradientStore, ticket: Array, indices: Array, values: Array) -> None:
    ctx.step.check()
    live.put(ticket_of(ticket), lambda: Rows(np.array(indices), np.array(values)))


def _check_taking(step: Spec, tickets: Spec) -> None:
    known.scalar(step, "step")
    tickets.only(_INT64).shape.merge_with(TensorShape([None, 3]))


def _serials(tickets: Array) -> list[tuple[int, int]]:
    return [(int(replica), int(serial)) for replica, _, serial in tickets]


@op(waits=True)
def replica_take(handle: Spec, step: Steps, tickets: Spec) -> Spec:
    """The mean of the gradients of these tickets, added in their order; all of the step and before are forgotten.

    AbortedError if one of them is not there, or the step was taken before.
    """
    _check_taking(step, tickets)
    return again(DenseSpec.check(handle).items[0])


@replica_take.kernel(CPU, fresh=True)
async def _(ctx: Context, live: DenseGradientStore, step: Array, tickets: Array) -> Any:
    gradients = live.take(int(step), _serials(tickets))
    large = sum([gradient.nbytes for gradient in gradients]) > LARGE
    return await ctx.step.in_thread(live.mean, gradients) if large else live.mean(gradients)


@op(waits=True)
def replica_take_rows(handle: Spec, step: Steps, tickets: Spec) -> tuple[Spec, Spec]:
    """The same of rows: their indices, which ascend, and the sum of each, divided by the number of all gradients."""
    _check_taking(step, tickets)
    (item,) = RowsSpec.check(handle).items
    rows = TensorShape.vector(None)
    return Spec(dtypes.int64, rows), Spec(item.dtype, rows.concatenate(item.shape[1:]))


@replica_take_rows.kernel(CPU, fresh=True)
async def _(ctx: Context, live: RowGradientStore, step: Array, tickets: Array) -> Any:
    gradients = live.take(int(step), _serials(tickets))
    large = sum([gradient.values.nbytes for gradient in gradients]) > LARGE
    return await ctx.step.in_thread(live.mean, gradients) if large else live.mean(gradients)


@op(stateful=True)
def replica_reset(handle: Spec) -> None:
    """Nothing is stored, and no step was taken."""
    SharesSpec.check(handle)


@replica_reset.kernel(CPU, fresh=True)
def _(ctx: Context, live: GradientStore[Any]) -> None:
    ctx.step.check()
    live.reset()


for _handle in (replica_gradients, replica_sparse_gradients):
    _handle.no_gradient("a handle has no history")
for _changes in (replica_put, replica_put_rows, replica_reset):
    _changes.no_gradient("it changes state")
replica_take.no_gradient("a gradient's history ends where it was stored")
replica_take_rows.no_gradient("a gradient's history ends where it was stored")
