"""Locks of variables, which are waited for without a thread: what critical sections are made of.

A lock belongs to a variable's handle, though it guards whatever its users like. By the handle the plan knows which
executions go together, and keeps those of one step in the order they were built, as it keeps a variable's reads and
updates. Without that, a second execution might hold the lock while it waits for what the first has yet to do.

An execution has a ticket, with which the lock is acquired before its body and released after it. A third operation
keeps the ticket meanwhile: it waits from before the lock is acquired until it is released, so that a step that fails or
is cancelled in between, which ends all that waits in it, leaves nothing held.
"""

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.kernels.context import Context
from aioflow.kernels.state.variables import held
from aioflow.resources.containers import VariableState
from aioflow.tensors.dtypes import DeviceKind, ResourceSpec, Spec
from aioflow.waiting.mutex import Mutex, Ticket

CPU, GPU = DeviceKind.CPU, DeviceKind.GPU


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
    """The lock is held, once all who came before have released it. If nobody keeps the ticket it is not held on to."""
    held(handle)
    ResourceSpec.check(ticket, 0)


@acquire_variable_lock.kernel(CPU, GPU)
async def _(ctx: Context, handle: VariableState, ticket: Ticket, *, node: NodeView) -> None:
    await ticket.enter(node)


@op(stateful=True, waits=True)
def release_variable_lock(handle: Spec, ticket: Spec) -> None:
    """The lock is not held with that ticket any more, and the next who waits for it holds it."""
    held(handle)
    ResourceSpec.check(ticket, 0)


@release_variable_lock.kernel(CPU, GPU)
async def _(ctx: Context, handle: VariableState, ticket: Ticket) -> None:
    ticket.leave()  # never on a compute thread: a ticket belongs to the loop


variable_lock_ticket.no_gradient("it changes state")
for _op in (keep_variable_lock, acquire_variable_lock, release_variable_lock):
    _op.no_gradient("it changes state")
