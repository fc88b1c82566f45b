"""Ops of asynchronous replicas with a staleness bound: how stale a gradient is, and which replica must wait."""

from typing import Any

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.kernels import known
from aioflow.kernels.context import Context
from aioflow.kernels.state.accumulators import Steps
from aioflow.kernels.state.replicas import NUMBER, TogetherSpec, check_replica
from aioflow.kernels.state.resource_handles import opened
from aioflow.replication.staleness import StalenessBound
from aioflow.replication.waitable import WaitableStalenessBound
from aioflow.tensors.dtypes import Array, DeviceKind, Spec

CPU = DeviceKind.CPU
UNBOUNDED = -1


class TurnsSpec(TogetherSpec):
    """A handle to turns of replicas."""

    __slots__ = ()
    kind = "turns of replicas"


@op(stateful=True, observes=True, handle=True)
def replica_turns(bound: int = UNBOUNDED, container: str = "", shared_name: str = "") -> Spec:
    """A handle to the turns of replicas whose gradients are at most so stale; -1 for any staleness."""
    if bound < UNBOUNDED:
        raise ValueError(f"a staleness is 0 or more, not {bound}")
    return TurnsSpec(())


@replica_turns.kernel(CPU)
def _(ctx: Context, *, node: NodeView) -> WaitableStalenessBound:
    bound = None if node.attrs["bound"] == UNBOUNDED else node.attrs["bound"]
    return opened(
        ctx, node, WaitableStalenessBound, lambda name: WaitableStalenessBound(name, StalenessBound(bound), node.attrs)
    )


@op(waits=True)
def replica_read_turn(handle: Spec, replica: int) -> Spec:
    """Lets the replica read the variables; returns the number of updates that the read includes."""
    TurnsSpec.check(handle)
    check_replica(replica)
    return NUMBER


@replica_read_turn.kernel(CPU, fresh=True)
async def _(ctx: Context, live: WaitableStalenessBound, *, replica: int, node: NodeView) -> Any:
    return np.int64(await live.read(replica, node, ctx.step.check))


@op(stateful=True)
def replica_begin_turn(handle: Spec, replica: int) -> Spec:
    """A ticket for the gradient that the replica computes now; each replica has one ticket at a time."""
    TurnsSpec.check(handle)
    check_replica(replica)
    return NUMBER


@replica_begin_turn.kernel(CPU, fresh=True)
def _(ctx: Context, live: WaitableStalenessBound, *, replica: int) -> Any:
    ctx.step.check()
    with live.changing():
        return np.int64(live.turns.begin(replica))


@op(waits=True)
def replica_apply_turn(handle: Spec, ticket: Steps, replica: int) -> Spec:
    """Lets the replica update the variables; returns the number of its update. Waits if it is too far ahead."""
    TurnsSpec.check(handle)
    known.scalar(ticket, "ticket")
    check_replica(replica)
    return NUMBER


@replica_apply_turn.kernel(CPU, fresh=True)
async def _(ctx: Context, live: WaitableStalenessBound, ticket: Array, *, replica: int, node: NodeView) -> Any:
    return np.int64(await live.apply(replica, int(ticket), node, ctx.step.check))


@op(stateful=True)
def replica_finish_turn(handle: Spec, number: Steps, replica: int) -> Spec:
    """That update of the replica is done: the staleness that its gradient has at most."""
    TurnsSpec.check(handle)
    known.scalar(number, "number")
    check_replica(replica)
    return NUMBER


@replica_finish_turn.kernel(CPU, fresh=True)
def _(ctx: Context, live: WaitableStalenessBound, number: Array, *, replica: int) -> Any:
    ctx.step.check()
    with live.changing():
        return np.int64(live.turns.finish(replica, int(number)))


replica_turns.no_gradient("a handle has no history")
replica_finish_turn.no_gradient("numbers of updates have no gradient")
replica_begin_turn.no_gradient("numbers of tickets have no gradient")
replica_read_turn.no_gradient("numbers of updates have no gradient")
replica_apply_turn.no_gradient("numbers of updates have no gradient")
