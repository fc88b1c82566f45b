"""Runs a program for one step: a ready queue over units, each a coroutine that computes some outputs from some inputs.

A unit is one node in the plain program, which defines the meaning, or a region: many nodes that never wait, compiled
into one coroutine. Scheduling is the same for both [P15 section 3.1]: every unit has a count of units it still waits
for; at zero it is ready; ready units run in the order the user built them.

A unit that never waits is driven here to its end, on the loop if it is light and on a compute thread if it is heavy.
One that may wait is awaited by the caller's own task if nothing else can go on meanwhile, and gets a Task only if it
suspends while something else can.
"""

import asyncio
import functools
import heapq
import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, Final, Protocol

from aioflow.blame import Finder, located
from aioflow.context import Context
from aioflow.costs import RegionCost
from aioflow.dtypes import Array
from aioflow.passes.flow import Node

Outputs = Sequence[Array]
UnitCoroutine = Coroutine[Any, Any, Outputs]


class Unit:
    """What the executor schedules. Slots are places for values in the step's memory.

    Attributes:
        index: its place in the order the user built.
        nodes: the nodes it runs.
        inputs: slots it reads.
        outputs: slots it writes, in the order of its results.
        begin: (context, *inputs) -> a coroutine of the outputs.
        waits: whether the coroutine may suspend for something other than its slice of time.
        cost: what it costs.
        find: which of its nodes an error came from, if it has several.
        heavy: the same as `begin`, made for a compute thread when one first runs it; None if there is no better way.
    """

    __slots__ = ("begin", "cost", "find", "heavy", "index", "inputs", "nodes", "outputs", "waits")

    def __init__(
        self,
        index: int,
        nodes: Sequence[Node],
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        begin: Callable[..., UnitCoroutine],
        waits: bool,
        cost: RegionCost,
        find: Finder | None = None,
        heavy: Callable[..., UnitCoroutine] | None = None,
    ) -> None:
        self.heavy: Final = heavy
        self.find: Final = find
        self.index: Final = index
        self.nodes: Final = nodes
        self.inputs: Final = inputs
        self.outputs: Final = outputs
        self.begin: Final = begin
        self.waits: Final = waits
        self.cost: Final = cost

    def __repr__(self) -> str:
        names = ", ".join(node.name for node in self.nodes[:3])
        return f"<Unit {self.index}: {names}{' …' if len(self.nodes) > 3 else ''}>"


class Program:
    """Units with their dependencies, frozen. `feeds` are the slots of what the caller gives, `fetches` of what it gets.

    Attributes:
        waiting_for: for each unit, how many others it waits for.
        successors: for each unit, those that wait for it.
        uses: for each slot, how often it is read or fetched; its value is dropped after the last.
    """

    __slots__ = ("feeds", "fetches", "roots", "successors", "units", "uses", "waiting_for")

    def __init__(
        self,
        units: Sequence[Unit],
        successors: Sequence[Sequence[int]],
        slots: int,
        feeds: tuple[int, ...],
        fetches: tuple[int, ...],
    ) -> None:
        self.units: Final = tuple(units)
        self.successors: Final = tuple(successors)
        self.feeds: Final = feeds
        self.fetches: Final = fetches
        self.waiting_for: Final = [0] * len(self.units)
        for following in successors:
            for index in following:
                self.waiting_for[index] += 1
        self.roots: Final = [index for index, count in enumerate(self.waiting_for) if count == 0]
        self.uses: Final = [0] * slots
        for slot in [*fetches, *[slot for unit in self.units for slot in unit.inputs]]:
            self.uses[slot] += 1


class Host(Protocol):
    """What the executor needs of the step it runs for."""

    context: Context
    ended: bool

    async def pause(self) -> None:
        """Let the loop turn if the slice of time is used up."""

    async def inline(self, unit: Unit, bucket: int, coroutine: UnitCoroutine) -> Outputs:
        """Drive a coroutine that never waits here, letting the loop turn when its slice of time is used up."""

    def offload(self, unit: Unit, bucket: int, coroutine: UnitCoroutine) -> UnitCoroutine:
        """Drive a coroutine that never waits on a compute thread."""

    def clock(self) -> float:
        """Seconds."""

    def finished(self, unit: Unit, inputs: Outputs, outputs: Outputs, start: float) -> None:
        """Called after each unit."""


class Execution:
    """One run of a program. `await run(values)` gives the fetched values, and leaves no task behind however it ends."""

    def __init__(self, program: Program, host: Host) -> None:
        self._program = program
        self._host = host
        self._slots: list[Array] = [None] * len(program.uses)
        self._uses = list(program.uses)
        self._waiting_for = list(program.waiting_for)
        self._ready = list(program.roots)
        self._tasks: dict[asyncio.Task[Outputs], tuple[Unit, Outputs, float]] = {}
        self._done: list[asyncio.Task[Outputs]] = []
        self._wake: asyncio.Future[None] | None = None
        self._lone: Unit | None = None

    async def run(self, feeds: Outputs) -> list[Array]:
        """Execute every unit once. The first error of a unit is raised, as an OpError that names its node."""
        for slot, value in zip(self._program.feeds, feeds, strict=True):
            self._slots[slot] = value
        try:
            while self._ready or self._tasks:
                while self._ready:
                    await self._advance(self._program.units[heapq.heappop(self._ready)])
                if self._tasks:
                    await self._collect()
        except BaseException as error:
            _note(error, self.waiting())
            cancelled = await self._stop()
            if cancelled is not None and not isinstance(error, asyncio.CancelledError):
                raise cancelled from error
            raise
        return [self._slots[slot] for slot in self._program.fetches]

    def waiting(self) -> list[Unit]:
        """The units that have begun and not ended."""
        lone = [] if self._lone is None else [self._lone]
        return lone + [unit for unit, _, _ in self._tasks.values()]

    async def _advance(self, unit: Unit) -> None:
        inputs = self._take(unit)
        start = self._host.clock()
        coroutine, waits = self._begin(unit, inputs)
        if waits and (self._ready or self._tasks):
            self._spawn(unit, inputs, start, coroutine)
            return
        self._lone = unit if waits else None
        try:
            outputs = await coroutine
        except BaseException as error:
            made = located(error, unit.find, unit.nodes[0], inputs)
            raise made from made.__cause__
        self._lone = None
        self._finish(unit, inputs, outputs, start)
        await self._host.pause()

    def _begin(self, unit: Unit, inputs: Outputs) -> tuple[UnitCoroutine, bool]:
        """The unit's coroutine, driven where it belongs, and whether it may suspend for long."""
        context = self._host.context
        if unit.waits:
            return unit.begin(context, *inputs), True
        bucket = unit.cost.bucket(inputs)
        if unit.cost.heavy(bucket, inputs):
            return self._host.offload(unit, bucket, (unit.heavy or unit.begin)(context, *inputs)), True
        return self._host.inline(unit, bucket, unit.begin(context, *inputs)), False

    def _spawn(self, unit: Unit, inputs: Outputs, start: float, coroutine: UnitCoroutine) -> None:
        """Begin the unit; give it a Task if it suspends."""
        try:
            waiting_on = coroutine.send(None)
        except StopIteration as done:
            self._finish(unit, inputs, done.value, start)
            return
        except BaseException as error:
            made = located(error, unit.find, unit.nodes[0], inputs)
            raise made from made.__cause__
        task = asyncio.get_running_loop().create_task(_resumed(coroutine, waiting_on))
        self._tasks[task] = (unit, inputs, start)
        task.add_done_callback(functools.partial(self._on_done, coroutine))

    def _on_done(self, coroutine: UnitCoroutine, task: "asyncio.Task[Outputs]") -> None:
        coroutine.close()  # a task that is cancelled before its first turn never reaches its coroutine
        self._done.append(task)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _collect(self) -> None:
        """Wait until at least one task is done, and take in what it made."""
        if not self._done:
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
            self._wake = None
        done, self._done = self._done, []
        failed: tuple[BaseException, Unit, Outputs] | None = None
        for task in done:
            unit, inputs, start = self._tasks.pop(task)
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            if error is None:
                self._finish(unit, inputs, task.result(), start)
            elif failed is None:
                failed = error, unit, inputs
        if failed is not None:
            error, unit, inputs = failed
            made = located(error, unit.find, unit.nodes[0], inputs)
            raise made from made.__cause__

    def _take(self, unit: Unit) -> list[Array]:
        """The unit's inputs; a slot is emptied by its last reader."""
        slots, uses, taken = self._slots, self._uses, []
        for slot in unit.inputs:
            taken.append(slots[slot])
            uses[slot] -= 1
            if not uses[slot]:
                slots[slot] = None
        return taken

    def _finish(self, unit: Unit, inputs: Outputs, outputs: Outputs, start: float) -> None:
        for slot, value in zip(unit.outputs, outputs, strict=True):
            if self._uses[slot]:
                self._slots[slot] = value
        self._host.finished(unit, inputs, outputs, start)
        for index in self._program.successors[unit.index]:
            self._waiting_for[index] -= 1
            if not self._waiting_for[index]:
                heapq.heappush(self._ready, index)

    async def _stop(self) -> asyncio.CancelledError | None:
        """Cancel and await every task that is left. Returns a cancellation of the caller that came meanwhile."""
        cancelled = None
        if self._tasks:
            try:
                await asyncio.sleep(0)  # a task cancelled before its first turn could not end its kernel in order
            except asyncio.CancelledError as error:
                cancelled = error
        for task in self._tasks:
            task.cancel()
        while pending := [task for task in self._tasks if not task.done()]:
            try:
                await asyncio.wait(pending)
            except asyncio.CancelledError as error:
                cancelled = error
        for task in self._tasks:
            if not task.cancelled():
                task.exception()  # the first error is the one raised; those that followed are seen by this
        self._tasks.clear()
        return cancelled


async def _resumed(coroutine: UnitCoroutine, waiting_on: Any) -> Outputs:
    """Carry on a coroutine that was begun by hand and now waits on `waiting_on`."""
    return await _driven(coroutine, waiting_on)  # since 3.12 a Task takes no generator, whatever its decorator says


@types.coroutine
def _driven(coroutine: UnitCoroutine, waiting_on: Any) -> Generator[Any, Any, Outputs]:
    try:
        while True:
            try:
                value = yield waiting_on
            except BaseException as error:
                waiting_on = coroutine.throw(error)
            else:
                waiting_on = coroutine.send(value)
    except StopIteration as done:
        outputs: Outputs = done.value
        return outputs


def _note(error: BaseException, units: list[Unit]) -> None:
    if isinstance(error, asyncio.CancelledError) and units:
        names = ", ".join(f"{node.name!r} ({node.definition.name})" for unit in units for node in unit.nodes[:1])
        error.add_note(f"aioflow: the run was waiting for {names}")


__all__ = ["Execution", "Host", "Program", "Unit"]
