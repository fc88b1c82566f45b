"""Values that go between a GPU's memory and the host's. Only plans contain these ops.

`to_host` and `to_device` copy what kernels want in the other memory. `swap_out` and `swap_in` put a value away until it
is needed again.

On a GPU the copy to the host is enqueued. The way back begins when that has arrived, and what was enqueued on the GPU
before it is done, so that its memory is not taken early. On a CPU nothing is copied.
"""

from typing import Any, NamedTuple

from aioflow.context import Context
from aioflow.devices.moving import Parcel, hand_over, receive
from aioflow.dtypes import Array, DeviceKind, Spec
from aioflow.op import op

CPU, GPU = DeviceKind.CPU, DeviceKind.GPU
_REASON = "plans alone contain it"


class Away(NamedTuple):
    """An array that is in page-locked host memory once the event is done."""

    host: Any
    after: Any


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


@op(waits=True)
def swap_in(value: Spec) -> Spec:
    """What `swap_out` was given, in the memory of the device again."""
    return value


for _op in (to_host, to_device, swap_out, swap_in):
    _op.no_gradient(_REASON)
    _op.kernel(CPU)(lambda xp, value: value)


@to_host.kernel(GPU, fresh=True)
async def _(ctx: Context, value: Array) -> Array:
    gpu: Any = ctx.device
    return await receive(hand_over(value, gpu), gpu, host=True)


@to_device.kernel(GPU, fresh=True)
async def _(ctx: Context, value: Array) -> Array:
    gpu: Any = ctx.device
    return await receive(Parcel(value), gpu)


@swap_out.kernel(GPU, fresh=True)
def _(ctx: Context, value: Array) -> Any:
    gpu: Any = ctx.device
    return Away(*gpu.send_home(gpu.whole(value), gpu.mark())) if gpu.holds(value) else value


@swap_in.kernel(GPU, fresh=True)
async def _(ctx: Context, value: Any) -> Array:
    if not isinstance(value, Away):
        return value
    gpu: Any = ctx.device
    await gpu.until(value.after, value)
    host, stream = value.host, gpu.from_host
    try:
        with gpu.driver.selected():
            stream.wait_event(gpu.mark())
            target = gpu.driver.landing(host.shape, host.dtype, stream, lambda: stream.wait_event(gpu.mark()))
            gpu.driver.to_device(host, target, stream)
    except Exception as error:
        gpu.reraise(error)
        raise
    gpu.compute.wait_event(gpu.keep(stream, host))
    return target


__all__: list[str] = []
