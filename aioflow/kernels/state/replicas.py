"""Ops of synchronous replicas: one quorum object decides which gradients make a step, and these ops ask it.

Each gradient has a ticket: the replica, the step, and a unique number. The gradients of a variable are stored by
replica until the quorum decides which of them count.
"""

from typing import Any

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.kernels import known
from aioflow.kernels.context import Context
from aioflow.kernels.state.accumulators import Steps
from aioflow.kernels.state.resource_handles import LiveSpec, again, check_component, opened
from aioflow.queues import LARGE
from aioflow.replication.quorum import DenseGradientStore, GradientStore, Quorum, RowGradientStore, Rows, Ticket
from aioflow.replication.waitable import WaitableQuorum, WaitableReplicas
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import FLOAT, SCALAR, Array, DeviceKind, DType, Spec, TensorShape
from aioflow.tensors.recursion import safe_repr

CPU = DeviceKind.CPU
_INT64 = frozenset({dtypes.int64})
TICKET = Spec(dtypes.int64, TensorShape([3]))
NUMBER = Spec(dtypes.int64, SCALAR)
_TEXT = Spec(dtypes.string, SCALAR)


class TogetherSpec(LiveSpec):
    """A handle to the quorum or staleness bound of a group of replicas."""

    __slots__ = ()
    kind = "replica group"


class QuorumSpec(TogetherSpec):
    """A handle to a quorum."""

    __slots__ = ()
    kind = "a quorum of replicas"


def check_replica(replica: Any) -> None:
    """ValueError unless it can be the number of a replica."""
    if not isinstance(replica, int) or replica < 0:
        raise ValueError(f"a replica has a number from 0 on, not {safe_repr(replica)}")


def ticket_of(ticket: Array) -> Ticket:
    """The ticket that an array is."""
    return Ticket(*[int(number) for number in ticket])


def check_ticket(ticket: Spec) -> None:
    """TypeError or ValueError unless it can be a ticket."""
    ticket.only(_INT64).shape.merge_with(TICKET.shape)


@op(stateful=True, observes=True, handle=True)
def replica_quorum(total: int, required: int = 0, container: str = "", shared_name: str = "") -> Spec:
    """A handle to a quorum: the same one for every operation with that container and name.

    A step needs `required` gradients; 0 for one of each replica that is there. `total` replicas are expected.
    """
    if required < 0 or total < 1:
        raise ValueError(f"{required} gradients of {total} replicas make no step")
    return QuorumSpec(())


@replica_quorum.kernel(CPU)
def _(ctx: Context, *, node: NodeView) -> WaitableQuorum:
    required, total = node.attrs["required"] or None, node.attrs["total"]
    return opened(ctx, node, WaitableQuorum, lambda name: WaitableQuorum(name, Quorum(required, total), node.attrs))


@op(stateful=True)
def replica_open(handle: Spec, step: Steps) -> None:
    """Training goes on with that step; gradients begun before are dropped.

    AbortedError if the step before it was applied in part.
    """
    QuorumSpec.check(handle)
    known.scalar(step, "step")


@replica_open.kernel(CPU, fresh=True)
def _(ctx: Context, live: WaitableQuorum, step: Array) -> None:
    ctx.step.check()
    with live.changing():
        live.quorum.open(int(step))


# Members


@op(waits=True)
def replica_present(handle: Spec, replica: int) -> None:
    """Wait as long as the replica is there: it is gone when this ends, however it ends."""
    TogetherSpec.check(handle)
    check_replica(replica)


@replica_present.kernel(CPU, fresh=True)
async def _(ctx: Context, live: WaitableReplicas, *, replica: int, node: NodeView) -> None:
    await live.present(replica, node)


@op(stateful=True)
def replica_leave(handle: Spec, replica: int) -> None:
    """Removes the replica from the group; the others no longer wait for it."""
    TogetherSpec.check(handle)
    check_replica(replica)


@replica_leave.kernel(CPU, fresh=True)
def _(ctx: Context, live: WaitableReplicas, *, replica: int) -> None:
    ctx.step.check()
    live.leave(replica)


@op(stateful=True, observes=True)
def replica_count(handle: Spec) -> Spec:
    """How many replicas are present."""
    TogetherSpec.check(handle)
    return NUMBER


@replica_count.kernel(CPU, fresh=True)
def _(ctx: Context, live: WaitableReplicas) -> Any:
    return np.int64(live.count())


# One gradient


@op(waits=True)
def replica_admit(handle: Spec, replica: int) -> Spec:
    """The step that the replica may begin, once training is open and no step is being applied."""
    QuorumSpec.check(handle)
    check_replica(replica)
    return NUMBER


@replica_admit.kernel(CPU, fresh=True)
async def _(ctx: Context, live: WaitableQuorum, *, replica: int, node: NodeView) -> Any:
    return np.int64(await live.admit(replica, node, ctx.step.check))


@op(stateful=True)
def replica_begin(handle: Spec, examples: Steps, replica: int) -> Spec:
    """A ticket for a gradient of that many examples, in the step that the replica was admitted to."""
    QuorumSpec.check(handle)
    known.scalar(examples, "examples")
    check_replica(replica)
    return TICKET


@replica_begin.kernel(CPU, fresh=True)
def _(ctx: Context, live: WaitableQuorum, examples: Array, *, replica: int) -> Any:
    ctx.step.check()
    with live.changing():
        ticket = live.quorum.begin(replica, int(examples))
    return np.array([ticket.replica, ticket.step, ticket.serial], np.int64)


@op(stateful=True)
def replica_announce(handle: Spec, ticket: Spec) -> None:
    """All parts of the gradient are stored: it is the step's, or dropped if the step is decided."""
    QuorumSpec.check(handle)
    check_ticket(ticket)


@replica_announce.kernel(CPU, fresh=True)
def _(ctx: Context, live: WaitableQuorum, ticket: Array) -> None:
    ctx.step.check()
    with live.changing():
        live.quorum.announce(ticket_of(ticket))


@op(waits=True)
def replica_settle(handle: Spec, ticket: Spec) -> tuple[Spec, Spec]:
    """Waits for the decision; returns the step the replica may begin next and whether its gradient counted."""
    QuorumSpec.check(handle)
    check_ticket(ticket)
    return NUMBER, Spec(dtypes.bool_, SCALAR)


@replica_settle.kernel(CPU, fresh=True)
async def _(ctx: Context, live: WaitableQuorum, ticket: Array, *, node: NodeView) -> Any:
    step, accepted = await live.settle(ticket_of(ticket), node, ctx.step.check)
    return np.int64(step), np.bool_(accepted)


@op(stateful=True, observes=True)
def replica_dropped(handle: Spec, since: Steps) -> Spec:
    """The gradients dropped after the first `since`: number, replica, step, examples and reason of each."""
    QuorumSpec.check(handle)
    known.scalar(since, "since")
    return Spec(dtypes.int64, TensorShape([None, 5]))


@replica_dropped.kernel(CPU, fresh=True)
def _(ctx: Context, live: WaitableQuorum, since: Array) -> Any:
    with live.changing():
        drops = live.quorum.dropped(int(since))
    rows = [[drop.number, drop.replica, drop.step, drop.examples, drop.reason] for drop in drops]
    return np.array(rows, np.int64).reshape(-1, 5)


# One step


@op(waits=True)
def replica_lead(handle: Spec, replica: int) -> tuple[Spec, Spec]:
    """The present step and the tickets of its gradients, in the order of replicas, for that replica to apply.

    They are there once they are decided and no other replica leads. OutOfRangeError when the replica has left.
    """
    QuorumSpec.check(handle)
    check_replica(replica)
    return NUMBER, Spec(dtypes.int64, TensorShape([None, 3]))


@replica_lead.kernel(CPU, fresh=True)
async def _(ctx: Context, live: WaitableQuorum, *, replica: int, node: NodeView) -> Any:
    decision = await live.lead(replica, node, ctx.step.check)
    rows = [[ticket.replica, ticket.step, ticket.serial] for ticket in decision.tickets]
    return np.int64(decision.step), np.array(rows, np.int64)


@op(stateful=True)
def replica_confirm(handle: Spec, step: Steps, global_step: Steps) -> None:
    """Claims the update of the step for the caller. AbortedError if the global step has moved past it."""
    QuorumSpec.check(handle)
    known.scalar(step, "step")
    known.scalar(global_step, "global_step")


@replica_confirm.kernel(CPU, fresh=True)
def _(ctx: Context, live: WaitableQuorum, step: Array, global_step: Array) -> None:
    ctx.step.check()
    with live.changing():
        live.quorum.confirm(int(step), int(global_step))


@op(stateful=True)
def replica_finish(handle: Spec, step: Steps) -> None:
    """The step was applied, and the next begins."""
    QuorumSpec.check(handle)
    known.scalar(step, "step")


@replica_finish.kernel(CPU, fresh=True)
def _(ctx: Context, live: WaitableQuorum, step: Array) -> None:
    ctx.step.check()
    with live.changing():
        live.quorum.finish(int(step))


@op(stateful=True)
def replica_fail(handle: Spec, why: Spec, replica: int) -> None:
    """A run by which that replica was to apply a step has failed."""
    QuorumSpec.check(handle)
    check_component(why, _TEXT, "why")
    check_replica(replica)


@replica_fail.kernel(CPU, fresh=True)
def _(ctx: Context, live: WaitableQuorum, why: Array, *, replica: int) -> None:
    ctx.step.check()
    live.fail(replica, why.item().decode())


# Between two steps


@op(waits=True)
def replica_hold(handle: Spec, mark: Steps) -> None:
    """Waits, and blocks the start of updates meanwhile; the mark identifies the owner of the hold."""
    QuorumSpec.check(handle)
    known.scalar(mark, "mark")


@replica_hold.kernel(CPU, fresh=True)
async def _(ctx: Context, live: WaitableQuorum, mark: Array, *, node: NodeView) -> None:
    await live.hold(int(mark), node)


@op(waits=True)
def replica_held(handle: Spec, mark: Steps) -> None:
    """Wait until that hold is there and no step is being applied."""
    QuorumSpec.check(handle)
    known.scalar(mark, "mark")


@replica_held.kernel(CPU, fresh=True)
async def _(ctx: Context, live: WaitableQuorum, mark: Array, *, node: NodeView) -> None:
    await live.held(int(mark), node)


replica_quorum.no_gradient("a handle has no history")
replica_dropped.no_gradient("it reads the state of a quorum")
for _op in (
    replica_open, replica_present, replica_leave, replica_announce, replica_confirm, replica_fail, replica_finish,
    replica_hold, replica_held,
):  # fmt: skip
    _op.no_gradient("it changes state")
for _counts in (replica_admit, replica_begin, replica_settle, replica_lead, replica_count):
    _counts.no_gradient("numbers of steps and replicas have no gradient")


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
