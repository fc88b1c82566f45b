"""Locks of variables, for critical sections. Waiting for a lock holds no thread.

A lock belongs to a variable's handle, though users may guard anything with it. The plan recognises the executions of
one lock by the handle and keeps those of one step in the order of construction, as it does for the reads and updates
of a variable. Otherwise a second execution might hold the lock while it waits for the first: a deadlock.

An execution has a ticket: it acquires the lock with the ticket before its body and releases it after. A third
operation keeps the ticket: it waits from before the acquisition until the release. A step that fails or is cancelled
in between ends all its waiting operations, so it leaves no lock held.
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
