"""Runs a program for one step: a ready queue over units, each a coroutine that computes some outputs from some inputs.

Scheduling is the same for the plain program and for the fused one [P15 section 3.1]: every unit has a pending count,
the number of units that it still waits for. At zero it is ready. Ready units run in the order the user built them,
those of older iterations first. `program/ready.py` tracks ready and dead units in the iterations of loops.

A unit that never suspends is driven here to its end, on the loop if it is light and on a compute thread if it is heavy.
A heavy one that is known to be brief stays on the loop, if no other step or device could compute meanwhile.
A unit that may suspend is awaited in the caller's own task if no other unit can run meanwhile. It gets a Task only if
it suspends while another unit can run.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, Protocol

from aioflow import errors
from aioflow.graph.operation import describe_line
from aioflow.kernels.context import Context, Stop
from aioflow.kernels.control.control_flow import DEAD
from aioflow.plan.passes.flow import Value
from aioflow.program.error_location import located, reraise
from aioflow.program.program import Outputs, Program, RunningUnit, Unit, UnitCoroutine
from aioflow.program.ready import Activation, Frames, StraightLine
from aioflow.tensors.dtypes import Array
from aioflow.waiting.tasks import begin

_TURN: Final = 256
"""Primitives run in a row before the loop gets a turn."""


class Host(Protocol):
    """The interface of the executor to its step."""

    context: Context

    async def pause(self) -> None:
        """Let the loop turn if the slice of time is used up."""

    async def inline(self, unit: Unit, bucket: int, coroutine: UnitCoroutine) -> Outputs:
        """Drive a coroutine that never waits here, letting the loop turn when its slice of time is used up."""

    def exchanging(self, coroutine: UnitCoroutine) -> UnitCoroutine:
        """A coroutine of several nodes that sends and receives, as it is driven here."""

    def keeps(self, unit: Unit, bucket: int) -> bool:
        """Whether a heavy unit runs on the loop, since to wake a thread would take longer."""

    def offload(self, unit: Unit, bucket: int, coroutine: UnitCoroutine, stop: Stop) -> UnitCoroutine:
        """Drive a coroutine that never waits on a compute thread. Cancelling asks it to stop."""

    def clock(self) -> float:
        """Seconds."""

    def pending_operations(self) -> str:
        """The operations that the step computes and waits for, the cause of the delay first; empty if none."""

    def finished(self, unit: Unit, inputs: Outputs, outputs: Outputs, start: float) -> None:
        """Called after each unit."""


Begun = tuple[Unit, Activation, Outputs, float, UnitCoroutine]
"""A unit under way: the unit, its iteration, its inputs, its start time and its coroutine."""


class Execution:
    """One run of a program. `await run(values)` gives the fetched values, and leaves no task behind however it ends."""

    def __init__(self, program: Program, host: Host) -> None:
        self.program: Final = program
        self._host = host
        self._frames = Frames(program) if program.flows else StraightLine(program)
        self._tasks: dict[asyncio.Task[Outputs], Begun] = {}
        self._done: list[asyncio.Task[Outputs]] = []
        self._wake: asyncio.Future[None] | None = None
        self._single: tuple[Unit, float, UnitCoroutine] | None = None
        self._stopped_by: BaseException | None = None
        self._flown = 0

    async def run(self, feeds: Outputs) -> list[Array]:
        """Execute every unit, once in each iteration. Raises the first error of a unit, as an OpError that names it.

        InvalidArgumentError if a fetch has no value.
        """
        frames, flows, advance = self._frames, self.program.flows, self._advance
        slots = frames.root.slots
        frames.feed(self.program, feeds)
        try:
            while frames.open or self._tasks:
                while frames.open:
                    activation, unit = frames.next()
                    if flows and (unit.role is not None or (unit.place in activation.dead and not unit.always)):
                        self._flow(activation, unit)
                        if not self._flown % _TURN:
                            await asyncio.sleep(0)
                    else:
                        await advance(activation, unit)
                if self._tasks:
                    await self._collect()
            return self._fetched(slots)
        except BaseException as error:
            note_standing(error, self._host)
            self._stopped_by = None  # its traceback refers to this frame
            cancelled = await self._stop()
            frames.drop()
            if cancelled is not None and not isinstance(error, asyncio.CancelledError):
                raise asyncio.CancelledError(*cancelled) from error
            raise

    def under_way(self) -> list[RunningUnit]:
        """The units that have begun and not ended, without those that only pass known values on."""
        device = self._host.context.device.name
        begun = [] if self._single is None else [RunningUnit(*self._single, device, self._stopped_by)]
        begun += [RunningUnit(unit, start, made, device) for unit, _, _, start, made in self._tasks.values()]
        return [each for each in begun if each.unit.nodes]

    @property
    def is_ready(self) -> bool:
        """Whether some unit is ready and has not begun."""
        return bool(self._frames.open)

    def _fetched(self, slots: list[Array]) -> list[Array]:
        values = [slots[slot] for slot in self.program.fetches]
        if self.program.flows:
            stalled = self._frames.stalled()
            if stalled is not None:
                raise _endless(stalled)
            for value, fetched in zip(values, self.program.fetched, strict=True):
                if value is DEAD:
                    raise _without_value(fetched)
        return values

    def _flow(self, activation: Activation, unit: Unit) -> None:
        """Run a unit without a kernel: a control-flow primitive, or a dead unit."""
        start = self._host.clock()
        inputs = self._frames.take(activation, unit)
        try:
            outputs = self._frames.flow(activation, unit, inputs)
        except ValueError as error:
            reraise(self._blamed(error, unit, activation, inputs))
        if outputs is not None:
            self._host.finished(unit, inputs, outputs, start)
        self._flown += 1

    async def _advance(self, activation: Activation, unit: Unit) -> None:
        inputs: Outputs = self._frames.take(activation, unit)
        start = self._host.clock()
        driven, waits, coroutine = self._begin(activation, unit, inputs)
        if unit.frees:
            inputs = ()
        if waits and (self._frames.open or self._tasks):
            self._spawn((unit, activation, inputs, start, coroutine), driven)
            return
        self._single = unit, start, coroutine
        try:
            outputs = await driven
        except BaseException as error:
            self._stopped_by = error
            reraise(self._blamed(error, unit, activation, inputs))
        self._single = None
        self._host.finished(unit, inputs, outputs, start)
        self._frames.finish(activation, unit, outputs)
        if self._frames.open:  # nothing is awaited between the last effect and the return of the values
            await self._host.pause()

    def _begin(self, activation: Activation, unit: Unit, inputs: Outputs) -> tuple[UnitCoroutine, bool, UnitCoroutine]:
        """The unit's coroutine, driven where it belongs; whether it may suspend for long; the coroutine itself."""
        context = self._host.context
        if activation.frame is not None:
            context = activation.context = activation.context or context.at(activation.iteration)
        if unit.waits:
            coroutine = unit.begin(context, *inputs)
            return coroutine if unit.kernel is not None else self._host.exchanging(coroutine), True, coroutine
        bucket = unit.cost.bucket(inputs)
        begin = unit.begin
        if unit.cost.heavy(bucket, inputs) and not unit.always:  # a send belongs to the loop's thread
            begin = unit.heavy or begin
            if not self._host.keeps(unit, bucket):
                own = context.stoppable()
                coroutine = begin(own, *inputs)
                return self._host.offload(unit, bucket, coroutine, own.stop), True, coroutine
        coroutine = begin(context, *inputs)
        return self._host.inline(unit, bucket, coroutine), False, coroutine

    def _spawn(self, begun: Begun, coroutine: UnitCoroutine) -> None:
        """Begin the unit; give it a Task if it suspends."""
        try:
            suspended = begin(coroutine)
        except StopIteration as done:
            self._finish(begun, done.value)
            return
        except BaseException as error:
            reraise(self._blamed(error, *begun[:3]))
        task = asyncio.get_running_loop().create_task(suspended)
        self._tasks[task] = begun
        task.add_done_callback(self._on_done)

    def _on_done(self, task: "asyncio.Task[Outputs]") -> None:
        self._done.append(task)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _collect(self) -> None:
        """Wait until at least one Task is done, and accept its outputs."""
        if not self._done:
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
            self._wake = None
        done, self._done = self._done[::-1], []
        failed: list[BaseException] = []
        while done:
            failed += self._take_in(done.pop())
        if failed:
            reraise(failed.pop(0))

    def _take_in(self, task: "asyncio.Task[Outputs]") -> Sequence[BaseException]:
        """Hand on the outputs of a Task. Returns its error as the user sees it, if it failed."""
        begun = self._tasks.pop(task)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None:
            return [self._blamed(error, *begun[:3])]
        self._finish(begun, task.result())
        return ()

    def _finish(self, begun: Begun, outputs: Outputs) -> None:
        unit, activation, inputs, start, _ = begun
        self._host.finished(unit, inputs, outputs, start)
        self._frames.finish(activation, unit, outputs)

    def _blamed(self, error: BaseException, unit: Unit, activation: Activation, inputs: Outputs) -> BaseException:
        """The error as the user sees it: with its place, and the iteration it happened in."""
        made = located(error, unit.find, unit.nodes[0], inputs, self._host.context.device.name)
        if activation.frame is not None and isinstance(made, errors.OpError):
            made.add_note(f"aioflow: {activation.describe()}")
        return made

    async def _stop(self) -> tuple[Any, ...] | None:
        """Cancel and await every remaining Task. Returns the arguments of a cancellation of the caller meanwhile.

        The error itself is not returned, since its traceback refers to this frame.
        """
        cancelled = None
        for task in self._tasks:
            task.cancel()
        while pending := [task for task in self._tasks if not task.done()]:
            try:
                await asyncio.wait(pending)
            except asyncio.CancelledError as error:
                cancelled = error.args
        for task in self._tasks:
            if not task.cancelled():
                task.exception()  # the first error is the one raised; those that followed are seen by this
        self._tasks.clear()
        self._done.clear()
        return cancelled


class Stands(Protocol):
    """A step, or the part of it on one device."""

    def pending_operations(self) -> str:
        """The operations that the step computes and waits for, the cause of the delay first; empty if none."""


def note_standing(error: BaseException, step: Stands) -> None:
    """Add a note to a cancellation that names the operations that the run computed and waited for."""
    if isinstance(error, asyncio.CancelledError) and (text := step.pending_operations()):
        error.add_note(f"aioflow: {text}")


def _without_value(fetched: Value) -> errors.InvalidArgumentError:
    node = fetched.node
    made = errors.InvalidArgumentError(
        f"{node.name}:{fetched.index} has no value: it is on a branch that was not taken, or comes from a loop that "
        "did not get to it. Fetch what af.merge makes of all branches; what every iteration of a loop reads from "
        "outside must enter it with is_constant=True"
    )
    return made.at(node.name, node.definition.name, line=describe_line(node.operation), device=None, shapes=())


def _endless(stalled: Activation) -> errors.InvalidArgumentError:
    """Return the error of a loop that has come to a standstill."""
    left = zip(stalled.waiting_for, stalled.level.waiting_for, stalled.level.units, strict=True)
    names = [repr(unit.nodes[0].name) for now, before, unit in left if 0 < now < before]
    rest = f": {', '.join(names[:3])} wait for values that never come" if names else ""
    return errors.InvalidArgumentError(
        f"the loop {stalled.level.name!r} came to a standstill {stalled.describe()}{rest}. What every iteration reads "
        "from outside must enter the loop with is_constant=True"
    )
