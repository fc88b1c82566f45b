"""Transfers between devices: `send` puts a value into the step's rendezvous, `recv` takes it out.

Only plans contain them: partition makes a pair for each value and each device that reads it [P15 section 3.2.2].

Plans also contain transfers between a GPU's memory and the host's.

`to_host` and `to_device` copy values for kernels that need them in the other memory. `swap_out` and `swap_in` keep a
value in host memory until it is needed again.

On a GPU the copies are enqueued without waiting. A swapped-out value keeps its GPU memory until `swap_free`; kernels
enqueued after that wait for the copy. `swap_in` waits for the kernels enqueued before it, so that it takes no memory
early. On a CPU nothing is copied.
"""

from typing import Any, Final

import numpy as np

from aioflow.devices.gpu import SwappedValue
from aioflow.devices.transfer import Transfer, receive, start_transfer
from aioflow.graph.op import op
from aioflow.kernels.context import Context
from aioflow.kernels.control.control_flow import DEAD
from aioflow.rendezvous import Key, edge_of
from aioflow.tensors.dtypes import SCALAR, Array, DeviceKind, DType, Namespace, Spec, TensorShape, bool_
from aioflow.tensors.validation import check_fits

CPU, GPU = DeviceKind.CPU, DeviceKind.GPU
_REASON = "plans alone contain it"


@op(stateful=True)
def send(
    value: Spec, edge: str, source: str, incarnation: int, target: str, window: int = 0, section: str = "",
    position: float = 0.0,
) -> None:  # fmt: skip
    """Puts the value into the step's rendezvous, for the `recv` of that edge, in this iteration. It never waits.

    It runs even if the value is dead: the `recv` of a dead value is dead, too. With a `window` the value is a credit:
    the device has received the values of another one up to this iteration. One credit is sent for several iterations.
    `section` and `position` say when a loop over several devices sends the value, see `plan/passes/loop_sections.py`,
    or the share of a device that is one coroutine, see `plan/passes/share_order.py`.
    """


send.no_gradient(_REASON)


@send.kernel(CPU, GPU)
def _(ctx: Context, value: Array, *, edge: str, source: str, incarnation: int, target: str, window: int) -> None:
    if window and (ctx.iteration[-1] + 1) % _credited(window):
        return
    key = Key(edge_of(edge, source, incarnation, target), ctx.iteration)
    if ctx.step.trace is not None:
        ctx.step.trace.sent(key)
    ctx.step.rendezvous.send(key, start_transfer(value, ctx.device))


@op(waits=True)
def recv(
    dtype: DType, shape: TensorShape, edge: str, source: str, incarnation: int, target: str, mortal: bool = False,
    guarded: bool = False, host: bool = False, window: int = 0, section: str = "", position: float = 0.0,
) -> Spec:  # fmt: skip
    """Waits for the value of the `send` of that edge, in this iteration; it may be dead only if `mortal`.

    A value that is not `guarded` is dead only in the last iteration of a loop. The value is in the memory of the
    device, or in the host's if `host`. With a `window` it waits for a credit, so that the iteration is less than
    `window` iterations ahead of the other device. `section` and `position` are as in `send`.
    """
    return Spec(dtype, TensorShape(shape))


recv.no_gradient(_REASON)


@recv.kernel(CPU, GPU)
async def _(
    ctx: Context, *, dtype: DType, shape: TensorShape, edge: str, source: str, incarnation: int, target: str,
    host: bool, window: int,
) -> Array:  # fmt: skip
    iteration = ctx.iteration
    if window:
        needed = credit_needed(iteration[-1], window)
        if needed is None:
            return np.True_
        iteration = (*iteration[:-1], needed)
    key = Key(edge_of(edge, source, incarnation, target), iteration)
    trace = ctx.step.trace
    if trace is None:
        return await _arrived(ctx, await ctx.step.rendezvous.recv(key), dtype, shape, host)
    asked = trace.now()
    value = await _arrived(ctx, await ctx.step.rendezvous.recv(key), dtype, shape, host)
    trace.on(target).received(key, source, getattr(value, "nbytes", 0), asked)
    return value


def _credited(window: int) -> int:
    """The number of iterations that a credit stands for."""
    return max(1, window // 2)


def credit_needed(iteration: int, window: int) -> int | None:
    """The iteration of the other device after which this one may begin; None if it may begin now."""
    each = _credited(window)
    done = iteration + each - window
    if iteration % each or done <= 0:
        return None
    return -(-done // each) * each - 1


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


@op(waits=True)
def to_host(value: Spec) -> Spec:
    """`value`, which is in the device's memory, in host memory, once it has arrived."""
    return value


@op(waits=True)
def to_device(value: Spec) -> Spec:
    """`value`, which is in host memory, in the device's, for kernels enqueued from then on."""
    return value


@op
def swap_out(value: Spec) -> Spec:
    """`value` in host memory: for `swap_in` alone."""
    return value


@op
def swap_free(away: Spec, value: Spec) -> Spec:
    """`away`, the result of `swap_out(value)`; the GPU memory of `value` is freed."""
    return away


@op
def swap_in(value: Spec) -> Spec:
    """Copies the input of `swap_out` back to the memory of the device."""
    return value


for _op in (to_host, to_device, swap_out, swap_in):
    _op.no_gradient(_REASON)
    _op.kernel(CPU)(lambda xp, value: value)
swap_free.no_gradient(_REASON)
swap_free.kernel(CPU)(lambda xp, away, value: away)


@to_host.kernel(GPU, fresh=True)
async def _(ctx: Context, value: Array) -> Array:
    gpu: Any = ctx.device
    return await receive(start_transfer(value, gpu), gpu, host=True)


@to_device.kernel(GPU, fresh=True)
async def _(ctx: Context, value: Array) -> Array:
    gpu: Any = ctx.device
    return await receive(Transfer(value), gpu)


@swap_out.kernel(GPU, fresh=True)
def _(ctx: Context, value: Array) -> Any:
    gpu: Any = ctx.device
    return gpu.swap_out(value) if gpu.holds(value) else value


@swap_free.kernel(GPU, fresh=True)
def _(ctx: Context, away: Any, value: Array) -> Any:
    gpu: Any = ctx.device
    if isinstance(away, SwappedValue):
        gpu.release(away)
    return away


@swap_in.kernel(GPU, fresh=True)
def _(ctx: Context, value: Any) -> Array:
    gpu: Any = ctx.device
    found: Array = gpu.swap_in(value) if isinstance(value, SwappedValue) else value
    return found


# For loops and stacks, which swap values out one by one


def put_away(device: Any, value: Any) -> Any:
    """`value`; or its copy in host memory, if it is large and its GPU is nearly full."""
    is_on_gpu = device.kind is GPU and device.holds(value)
    if not is_on_gpu or value.nbytes <= _SMALLEST or not device.is_nearly_full:
        return value
    away = device.swap_out(value)
    device.release(away)
    return away


def taken_back(device: Any, value: Any) -> Array:
    """The value given to `put_away`, on the device."""
    found: Array = device.swap_in(value) if isinstance(value, SwappedValue) else value
    return found


_SMALLEST: Final = 2048
"""Values of at most this many bytes stay on the GPU."""
