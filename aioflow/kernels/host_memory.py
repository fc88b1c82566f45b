"""Values that a device puts away in host memory until they are needed again. Only plans contain them.

On a GPU the copy to the host is enqueued. The way back begins when that has arrived, and what was enqueued on the GPU
before it is done, so that its memory is not taken early. On a CPU nothing is copied.
"""

from typing import Any, NamedTuple

from aioflow.context import Context
from aioflow.dtypes import Array, DeviceKind, Spec
from aioflow.op import op

CPU, GPU = DeviceKind.CPU, DeviceKind.GPU
_REASON = "plans alone contain it"


class Away(NamedTuple):
    """An array that is in page-locked host memory once the event is done."""

    host: Any
    after: Any


@op
def swap_out(value: Spec) -> Spec:
    """`value` in host memory: for `swap_in` alone."""
    return value


@op(waits=True)
def swap_in(value: Spec) -> Spec:
    """What `swap_out` was given, in the memory of the device again."""
    return value


for _op in (swap_out, swap_in):
    _op.no_gradient(_REASON)
    _op.kernel(CPU)(lambda xp, value: value)


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
