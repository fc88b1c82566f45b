"""What one device does in a step: it drives the units of its part, on the loop or on a compute thread."""

import asyncio
import functools
import time
from typing import Final, Protocol

from aioflow.context import Context, StepView
from aioflow.devices.device import Device
from aioflow.executor import Outputs, Unit, UnitCoroutine
from aioflow.local import Local

_clock: Final = time.perf_counter


class Run(StepView, Protocol):
    """The step, as far as its lanes go."""

    ended: bool

    def finished(self, lane: "Lane", unit: Unit, inputs: Outputs, outputs: Outputs, start: float) -> None:
        """A unit is done."""


class Lane:
    """The `Host` of an execution on one device."""

    __slots__ = ("_local", "_step", "context", "device", "trace")

    def __init__(self, local: Local, step: Run, device: Device, context: Context) -> None:
        self._local: Final = local
        self._step: Final = step
        self.device: Final = device
        self.context = context
        self.trace: Final = None if step.trace is None else step.trace.on(device.name, device.accounts)

    clock = staticmethod(_clock)

    async def pause(self) -> None:
        """Let the loop turn if the slice of time is used up."""
        await self._local.pause()

    async def inline(self, unit: Unit, bucket: int, coroutine: UnitCoroutine) -> Outputs:
        """Drive a coroutine that never waits here, letting the loop turn when its slice of time is used up."""
        spent = 0.0
        while True:
            self.context.due = self._local.slice.begin()
            start = _clock()
            try:
                self._local.quiet.run(coroutine.send, None)
            except StopIteration as done:
                unit.cost.learn(bucket, spent + _clock() - start)
                outputs: Outputs = done.value
                return outputs
            spent += _clock() - start
            await asyncio.sleep(0)

    async def offload(self, unit: Unit, bucket: int, coroutine: UnitCoroutine) -> Outputs:
        """Drive a coroutine that never waits on a compute thread. Cancelling returns at once."""
        drive = functools.partial(self._local.quiet.copy().run, self._drive, unit, bucket, coroutine)
        return await self.device.compute.run(drive, repr(unit), coroutine.close)

    def _drive(self, unit: Unit, bucket: int, coroutine: UnitCoroutine) -> Outputs:
        if self.trace is not None:
            self.trace.on_thread(unit.nodes[0].name)
        start = _clock()
        try:
            while True:
                coroutine.send(None)
                if self._step.ended:
                    coroutine.close()
                    self._step.check()
        except StopIteration as done:
            unit.cost.learn(bucket, _clock() - start)
            outputs: Outputs = done.value
            return outputs

    def finished(self, unit: Unit, inputs: Outputs, outputs: Outputs, start: float) -> None:
        """The step is told of each unit."""
        self._step.finished(self, unit, inputs, outputs, start)


__all__ = ["Lane", "Run"]
