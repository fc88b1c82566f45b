"""How a value gets from one device to another: `send` puts it into the step's rendezvous, `recv` takes it out.

Only plans contain them: partition makes a pair for each value and each device that reads it [P15 section 3.2.2].
"""

import numpy as np

from aioflow.devices.transfer import Transfer, receive, start_transfer
from aioflow.graph.op import op
from aioflow.kernels.context import Context
from aioflow.kernels.control.control_flow import DEAD
from aioflow.rendezvous import Key
from aioflow.tensors.dtypes import SCALAR, Array, DeviceKind, DType, Namespace, Spec, TensorShape, bool_
from aioflow.tensors.validation import check_fits

CPU, GPU = DeviceKind.CPU, DeviceKind.GPU
_REASON = "plans alone contain it"


@op(stateful=True)
def send(value: Spec, edge: str, source: str, incarnation: int, target: str) -> None:
    """Puts the value into the step's rendezvous, for the `recv` of that edge, in this iteration. It never waits.

    It runs even if the value is dead: the `recv` of a dead value is dead, too.
    """


send.no_gradient(_REASON)


@send.kernel(CPU, GPU)
def _(ctx: Context, value: Array, *, edge: str, source: str, incarnation: int, target: str) -> None:
    key = Key(edge, source, incarnation, target, ctx.iteration)
    if ctx.step.trace is not None:
        ctx.step.trace.sent(key)
    ctx.step.rendezvous.send(key, start_transfer(value, ctx.device))


@op(waits=True)
def recv(
    dtype: DType, shape: TensorShape, edge: str, source: str, incarnation: int, target: str, mortal: bool = False,
    host: bool = False,
) -> Spec:  # fmt: skip
    """Waits for the value of the `send` of that edge, in this iteration; it may be dead only if `mortal`.

    The value is in the memory of the device, or in the host's if `host`.
    """
    return Spec(dtype, TensorShape(shape))


recv.no_gradient(_REASON)


@recv.kernel(CPU, GPU)
async def _(
    ctx: Context, *, dtype: DType, shape: TensorShape, edge: str, source: str, incarnation: int, target: str, host: bool
) -> Array:
    key = Key(edge, source, incarnation, target, ctx.iteration)
    trace = ctx.step.trace
    if trace is None:
        return await _arrived(ctx, await ctx.step.rendezvous.recv(key), dtype, shape, host)
    asked = trace.now()
    value = await _arrived(ctx, await ctx.step.rendezvous.recv(key), dtype, shape, host)
    trace.on(target).received(key, source, getattr(value, "nbytes", 0), asked)
    return value


async def _arrived(ctx: Context, transfer: Transfer, dtype: DType, shape: TensorShape, host: bool) -> Array:
    """The received value, in the memory of its consumers. A dead value has no memory."""
    if transfer.foreign and transfer.value is not DEAD:
        check_fits("the received value", dtype, shape, transfer.value)
    return DEAD if transfer.value is DEAD else await receive(transfer, ctx.device, host=host)


@op(stateful=True)
def pulse() -> Spec:
    """A bool that carries a control edge between devices: its control inputs have run."""
    return Spec(bool_, SCALAR)


pulse.no_gradient(_REASON)


@pulse.kernel(CPU, GPU)
def _(xp: Namespace) -> Array:
    return np.True_
