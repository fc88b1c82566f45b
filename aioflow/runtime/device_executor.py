"""Drives the units of one device in a step, on the loop or on a compute thread."""

import asyncio
import functools
import time
from collections.abc import Callable
from typing import Any, ClassVar, Final, Protocol

from aioflow import errors
from aioflow.devices import openmp
from aioflow.devices.cpu import Threads
from aioflow.devices.device import AnyDevice, Device
from aioflow.devices.gpu import Gpu, GpuTrace
from aioflow.kernels.context import Context, StepView, Stop
from aioflow.plan.op_cost import RegionCost
from aioflow.program.heavy_runs import HeavyWork
from aioflow.program.program import Outputs, Unit, UnitCoroutine
from aioflow.runtime.session_state import SessionState
from aioflow.tracing import Trace
from aioflow.waiting.tasks import in_context

_clock: Final = time.perf_counter


Work = Unit | HeavyWork
"""Kernels that are driven together."""


class Run(StepView, Protocol):
    """The step, as far as its lanes go."""

    ended: bool

    @property
    def computes_alone(self) -> bool:
        """Whether no other step and no other device of its session computes here at the same time."""

    def pending_operations(self) -> str:
        """The operations that it computes and waits for, the cause of the delay first."""

    def flush(self) -> None:
        """Send values to other tasks now, unless another device of the step may send more in this turn of the loop."""

    def finished(self, executor: "DeviceExecutor", unit: Unit, inputs: Outputs, outputs: Outputs, start: float) -> None:
        """A unit is done."""


class DeviceExecutor:
    """The `Host` of an execution on one device."""

    __slots__ = ("_run", "_state", "_step", "context", "device", "trace")

    def __init__(self, state: SessionState, step: Run, device: AnyDevice, context: Context) -> None:
        self._state: Final = state
        self._step: Final = step
        quiet = state.quiet.run
        self._run: Final = functools.partial(_on_stream, device, quiet) if isinstance(device, Gpu) else quiet
        self.device: Final = device
        self.context: Context = context
        self.trace: Final = None if step.trace is None else _trace_on(step.trace, device)

    clock: ClassVar[Callable[[], float]] = staticmethod(_clock)

    async def pause(self) -> None:
        """Let the loop turn if the slice of time is used up."""
        await self._state.pause()

    async def inline(self, unit: Unit, bucket: int, coroutine: UnitCoroutine) -> Outputs:
        """Drive a coroutine that never waits here, letting the loop turn when its slice of time is used up."""
        if isinstance(self.trace, GpuTrace) and not unit.nodes[0].at_home:
            self.trace.mark_launch()
        return await self._in_slices(unit, bucket, coroutine, functools.partial(self._run, coroutine.send, None))

    async def _in_slices(
        self, work: Work, bucket: int, coroutine: UnitCoroutine, proceed: Callable[[], object]
    ) -> Outputs:
        """The outputs of a coroutine that never waits; `proceed` runs a slice of it."""
        slices, spent = self._state.slice, 0.0
        take_threads(work.cost, bucket)
        while True:
            self._begin_slice()
            start = slices.clock()
            try:
                proceed()
            except StopIteration as done:
                work.cost.learn(bucket, spent + slices.clock() - start)
                outputs: Outputs = done.value
                return outputs
            spent += slices.clock() - start
            await asyncio.sleep(0)

    async def compute(self, context: Context, work: HeavyWork, inputs: Outputs) -> Outputs:
        """The results of kernels between two transfers of a coroutine that `exchanging` drives."""
        bucket = work.cost.bucket(inputs)
        if work.cost.heavy(bucket, inputs) and not (work.cost.short(bucket) or self.keeps(work, bucket)):
            own = context.stoppable()
            coroutine = work.heavy(own, *inputs)
            outputs = await self.offload(work, bucket, coroutine, own.stop)
        else:
            await self._state.pause()
            coroutine = work.here(context, *inputs)
            outputs = await self._in_slices(work, bucket, coroutine, functools.partial(coroutine.send, None))
        self._state.progress += 1
        return outputs

    def exchanging(self, coroutine: UnitCoroutine) -> UnitCoroutine:
        """A coroutine of several nodes that sends and receives, as it is driven here: in slices of time.

        The values that it has sent leave when it suspends.
        """
        return in_context(self._state.quiet, coroutine, self._begin_slice, self._step.flush)

    def _begin_slice(self) -> None:
        self.context.due = self._state.slice.begin()

    def keeps(self, unit: Work, bucket: int) -> bool:
        """Whether a heavy unit runs on the loop, since to wake a thread would take longer.

        It was measured to be done within a slice of time, and the present one is not used up. Other steps and devices,
        which could compute at the same time, are not held up.
        """
        return unit.cost.brief(bucket) and self._step.computes_alone and not self._state.slice.used_up()

    async def offload(self, unit: Work, bucket: int, coroutine: UnitCoroutine, stop: Stop) -> Outputs:
        """Drive a coroutine that never waits on a compute thread.

        Cancelling returns at once; the thread finishes the current kernel and stops before the next.
        """
        assert isinstance(self.device, Device)
        compute = self.device.compute
        openmp.hand_to(compute)
        drive = functools.partial(self._state.quiet.copy().run, self._drive, compute, unit, bucket, coroutine)
        try:
            return await compute.run(drive, repr(unit), coroutine.close)
        except BaseException:
            stop.asked = True
            raise

    def _drive(self, compute: Threads, unit: Work, bucket: int, coroutine: UnitCoroutine) -> Outputs:
        if self.trace is not None:
            self.trace.on_thread(unit.nodes[0].name)
        clock = self._state.slice.clock
        start = clock()
        try:
            coroutine.send(None)
        except StopIteration as done:
            unit.cost.learn(bucket, clock() - start)
            if openmp.is_taken(compute) or (unit.cost.brief(bucket) and self._step.computes_alone):
                openmp.end()  # the loop computes
            outputs: Outputs = done.value
            return outputs
        raise errors.InternalError(f"{unit!r} suspended on a compute thread")

    def seen(self, values: Outputs) -> Outputs:
        """The values in host memory, for checks. Blocks until a GPU has made them."""
        device = self.device
        if not isinstance(device, Gpu):
            return values
        return [device.peek(value) if device.holds(value) else value for value in values]

    async def settled(self) -> None:
        """Wait until a GPU has finished its work. Raises the error of a failed kernel."""
        if isinstance(self.device, Gpu):
            await self.device.settled()
        if isinstance(self.trace, GpuTrace):
            self.trace.settle()

    def pending_operations(self) -> str:
        """The operations that the step computes and waits for, the cause of the delay first."""
        return self._step.pending_operations()

    def finished(self, unit: Unit, inputs: Outputs, outputs: Outputs, start: float) -> None:
        """Report each finished unit to the step."""
        self._step.finished(self, unit, inputs, outputs, start)


def take_threads(cost: RegionCost, bucket: int) -> None:
    """Before work on the loop: take OpenMP's worker threads from the compute threads if it may use some."""
    if openmp.holders and cost.spreads(bucket):
        openmp.take()


def _on_stream(gpu: Gpu, run: Callable[..., Any], send: Callable[..., Any], value: None) -> Any:
    with gpu:
        return run(send, value)


def _trace_on(trace: Trace, device: AnyDevice) -> Trace:
    if isinstance(device, Gpu):
        return GpuTrace(trace.metadata, device)
    return trace.on(device.name, device.accounts)
