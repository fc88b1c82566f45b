"""Which units of a program are ready, in which iteration of which frame: what the executor knows, without running it.

The step and every iteration of a loop is an Activation: memory of its own, counts of its own. A value may be dead: a
switch sends it the other way, and then whatever reads it or comes after it is dead, and is passed over; its inputs are
released all the same [P15 section 4.4].

    enter            hands its value to the first iteration of a frame, a constant one to every iteration
    merge            hands on the first value that is not dead; dead if all are, or at once if what enters a loop is
    switch           hands its value to one of two outputs; the other is dead
    next_iteration   hands its value to the next iteration, which it begins if it is the first to come; held back
                     while as many iterations are under way as may be; nothing if the value is dead
    exit             hands its value to where the frame was entered; dead there, when the frame is done, if it never has
    control_trigger  runs even if it is dead

An iteration is done when nothing in it is ready or under way, its frames are done, and so is the iteration before; the
first also waits for all that enters. Then its memory is dropped. A frame is done when no iteration is left.
"""

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, Final

import numpy as np

from aioflow.kernels.context import Context
from aioflow.kernels.control.control_flow import DEAD
from aioflow.plan.frame_levels import ROOT
from aioflow.program.program import Arrival, FrameSpec, Outputs, Program, Unit
from aioflow.tensors.dtypes import Array


class Activation:
    """One iteration of a frame, or the step itself.

    Attributes:
        level: what runs in it.
        frame: the frame it is an iteration of, None for the step.
        iteration: the numbers of the iterations around and of itself, outermost first.
        serial: how many had begun before it.
        context: what its kernels see, made when first needed.
        slots: its values.
        uses: for each slot, how often it will still be read.
        waiting_for: for each unit, how many others it still waits for.
        ready: the places of units whose inputs are there.
        dead: the places of units that are dead.
        outstanding: how many units are ready or under way.
        frames: the frames entered from it that are not done, by level.
        chosen: for each merge that has its value, which input it is and the value; None if it is dead or has run.
        missed: for each merge, how many of its inputs were dead.
        following: the next iteration, once it has begun.
    """

    __slots__ = (
        "chosen", "context", "dead", "following", "frame", "frames", "iteration", "level", "missed", "outstanding",
        "ready", "serial", "slots", "uses", "waiting_for",
    )  # fmt: skip

    def __init__(self, level: FrameSpec, serial: int, frame: "Frame | None", iteration: tuple[int, ...]) -> None:
        self.level: Final = level
        self.serial: Final = serial
        self.frame: Final = frame
        self.iteration: Final = iteration
        self.context: Context | None = None
        self.slots: Final[list[Array]] = [None] * len(level.uses)
        self.uses: Final = level.uses.copy()
        self.waiting_for: Final = level.waiting_for.copy()
        self.ready: Final[list[int]] = []
        self.dead: Final[set[int]] = set()
        self.outstanding: int = 0
        self.frames: Final[dict[int, Frame]] = {}
        self.chosen: Final[dict[int, tuple[int, Array] | None]] = {}
        self.missed: Final[dict[int, int]] = {}
        self.following: Activation | None = None

    def __lt__(self, other: "Activation") -> bool:
        """Whether it is the older one."""
        return self.serial < other.serial

    def describe(self) -> str:
        """As `in iteration 3 of 'inner', in iteration 0 of 'outer'`; empty for the step itself."""
        places = []
        inner: Activation | None = self
        while inner is not None and inner.frame is not None:
            places.append(f"in iteration {inner.iteration[-1]} of {inner.level.name!r}")
            inner = inner.frame.parent
        return ", ".join(places)


class Frame:
    """A loop under way.

    Attributes:
        level: what runs in it.
        parent: where it was entered.
        arriving: how many units will still enter it.
        constants: what is handed to every iteration: the unit, its outputs, whether they are dead.
        live: its iterations that are not done, the oldest first.
        newest: the iteration that began last.
        held: what goes to the next iteration when that may begin.
        left: the places of exits that have handed out a value.
    """

    __slots__ = ("arriving", "constants", "held", "left", "level", "live", "newest", "parent")

    def __init__(self, level: FrameSpec, parent: Activation, serial: int) -> None:
        self.level: Final = level
        self.parent: Final = parent
        self.arriving = level.enters
        self.constants: Final[list[tuple[Unit, Outputs, bool]]] = []
        self.newest: Activation = Activation(level, serial, self, (*parent.iteration, 0))
        self.live: Final = deque([self.newest])
        self.held: list[tuple[Unit, Outputs]] = []
        self.left: Final[set[int]] = set()


class StraightLine:
    """What is ready of a program that is executed once, with neither branches nor loops.

    Attributes:
        root: the step itself.
        open: empty if nothing is ready.
    """

    __slots__ = ("_units", "open", "root")

    def __init__(self, program: Program) -> None:
        self.root: Final = Activation(program.levels[ROOT], 0, None, ())
        self.root.ready.extend(program.roots)
        self.open: list[Any] = self.root.ready
        self._units: Final = self.root.level.units

    def feed(self, program: Program, values: Outputs) -> None:
        """The step begins with these values for its feeds."""
        for slot, value in zip(program.feeds, values, strict=True):
            self.root.slots[slot] = value

    def next(self) -> tuple[Activation, Unit]:
        """What runs next: of what is ready, the unit that the user built first. It is ready no more."""
        return self.root, self._units[heappop(self.open)]

    def take(self, activation: Activation, unit: Unit) -> list[Array]:
        """The unit's inputs; a slot is emptied by its last reader."""
        slots, uses, taken = activation.slots, activation.uses, []
        for slot in unit.inputs:
            taken.append(slots[slot])
            uses[slot] -= 1
            if not uses[slot]:
                slots[slot] = None
        return taken

    def finish(self, activation: Activation, unit: Unit, outputs: Outputs) -> None:
        """The unit's kernel has made its outputs."""
        slots, uses, waiting_for = activation.slots, activation.uses, activation.waiting_for
        for slot, value in zip(unit.outputs, outputs, strict=True):
            if uses[slot]:
                slots[slot] = value
        for place in unit.successors:
            waiting_for[place] -= 1
            if not waiting_for[place]:
                heappush(self.open, place)

    def flow(self, activation: Activation, unit: Unit, inputs: Outputs) -> Outputs | None:
        """Do what a primitive does, or pass over a unit that is dead. Returns the outputs, None if it is dead."""
        raise NotImplementedError

    def stalled(self) -> Activation | None:
        """An iteration that is not done, though nothing is left to run."""
        return None

    def drop(self) -> None:
        """Forget all values: the run has failed."""


class Frames(StraightLine):
    """The activations of one run of a program with primitives of control flow.

    Attributes:
        open: a heap of the activations in which units are ready.
    """

    __slots__ = ("_count", "_levels")

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._levels: Final = program.levels
        self._count = 0
        self.root.outstanding = len(program.roots)
        self.root.slots[:] = [DEAD] * len(self.root.slots)  # what never gets a value is dead
        self.open = [self.root] if program.roots else []

    def feed(self, program: Program, values: Outputs) -> None:
        """The step begins with these values for its feeds."""
        super().feed(program, values)
        for arrival, feed, value in program.given:
            self._arrive(self.root, arrival, value if feed < 0 else values[feed])

    def next(self) -> tuple[Activation, Unit]:
        """What runs next: of the oldest activation, the unit that the user built first. It is ready no more."""
        activation = self.open[0]
        place = heappop(activation.ready)
        if not activation.ready:
            heappop(self.open)
        return activation, activation.level.units[place]

    def finish(self, activation: Activation, unit: Unit, outputs: Outputs) -> None:
        """The unit's kernel has made its outputs."""
        if unit.always and (unit.place in activation.dead or any(value is DEAD for value in outputs)):
            self._deliver(activation, unit, [DEAD] * len(unit.outputs), True)
        else:
            self._deliver(activation, unit, outputs, False)
        activation.outstanding -= 1
        if not activation.outstanding and activation.frame is not None:
            self._settle(activation.frame)

    def stalled(self) -> Activation | None:
        """An iteration that is not done, though nothing is left to run."""
        found = None if not self.root.frames else self.root
        while found is not None and found.frames:
            found = next(iter(found.frames.values())).live[0]
        return found

    def drop(self) -> None:
        """Forget all values: the run has failed."""
        waiting = [self.root]
        while waiting:
            activation = waiting.pop()
            for frame in activation.frames.values():
                waiting.extend(frame.live)
                frame.live.clear()
                del frame.newest
            activation.frames.clear()
            activation.slots.clear()

    def flow(self, activation: Activation, unit: Unit, inputs: Outputs) -> Outputs | None:
        """Do what a primitive does, or pass over a unit that is dead. Returns the outputs, None if it is dead."""
        dead = unit.place in activation.dead
        if unit.route.fixed:
            taken = iter(inputs)
            inputs = [next(taken) if value is None else value for value in unit.route.fixed]
        if unit.role is None:
            made = self._pass_over(activation, unit)
        else:
            made = _ROLES[unit.role](self, activation, unit, inputs, dead)
        activation.outstanding -= 1
        if not activation.outstanding and activation.frame is not None:
            self._settle(activation.frame)
        return made

    # Edges

    def _push(self, activation: Activation, place: int) -> None:
        """The unit is ready."""
        activation.outstanding += 1
        if not activation.ready:
            heappush(self.open, activation)
        heappush(activation.ready, place)

    def _deliver(self, activation: Activation, unit: Unit, outputs: Outputs, dead: bool) -> None:
        """Hand outputs to those that wait for them in an activation."""
        uses = activation.uses
        for slot, value in zip(unit.outputs, outputs, strict=True):
            if uses[slot]:
                activation.slots[slot] = value
        if unit.successors:
            waiting_for = activation.waiting_for
            for place in unit.successors:
                waiting_for[place] = left = waiting_for[place] - 1
                if not left:
                    self._push(activation, place)
            if dead:
                activation.dead.update(unit.successors)
        for arrival in unit.route.arrivals:
            self._arrive(activation, arrival, outputs[arrival.output])

    def _arrive(self, activation: Activation, arrival: Arrival, value: Array) -> None:
        """A value, dead or not, comes to a merge: if it decides what the merge hands on, that waits for it no more."""
        place = arrival.place
        if place in activation.chosen:
            return
        if value is not DEAD:
            activation.chosen[place] = arrival.number, value
        else:
            missed = activation.missed[place] = activation.missed.get(place, 0) + 1
            if not arrival.final and missed < activation.level.inputs[place]:
                return
            activation.chosen[place] = None
        activation.waiting_for[place] -= 1
        if not activation.waiting_for[place]:
            self._push(activation, place)

    # Primitives: (activation, unit, inputs, whether it is dead) -> outputs, None if they are dead

    def _pass_on(self, activation: Activation, unit: Unit, results: tuple[Array, ...]) -> Outputs:
        outputs = [results[port] for port in unit.route.ports]
        self._deliver(activation, unit, outputs, False)
        return outputs

    def _pass_over(self, activation: Activation, unit: Unit) -> Outputs | None:
        self._deliver(activation, unit, [DEAD] * len(unit.outputs), True)
        return None

    def _loop_cond(self, activation: Activation, unit: Unit, inputs: Outputs, dead: bool) -> Outputs | None:
        return self._pass_over(activation, unit) if dead else self._pass_on(activation, unit, (inputs[0],))

    def _control_trigger(self, activation: Activation, unit: Unit, inputs: Outputs, dead: bool) -> Outputs:
        return self._pass_on(activation, unit, ())

    def _switch(self, activation: Activation, unit: Unit, inputs: Outputs, dead: bool) -> Outputs | None:
        if dead:
            return self._pass_over(activation, unit)
        data, chosen = inputs[0], truth(inputs[1])
        outputs = self._pass_on(activation, unit, (DEAD, data) if chosen else (data, DEAD))
        activation.dead.update(unit.route.readers[not chosen])
        return outputs

    def _merge(self, activation: Activation, unit: Unit, inputs: Outputs, dead: bool) -> Outputs | None:
        found = activation.chosen[unit.place]
        activation.chosen[unit.place] = None
        if found is None:
            return self._pass_over(activation, unit)
        return self._pass_on(activation, unit, (found[1], np.int32(found[0])))

    def _enter(self, activation: Activation, unit: Unit, inputs: Outputs, dead: bool) -> Outputs | None:
        target = self._levels[unit.route.target]
        frame = activation.frames.get(target.number)
        if frame is None:
            frame = activation.frames[target.number] = Frame(target, activation, self._serial())
        outputs = [DEAD if dead else inputs[0]] * len(unit.outputs)
        iterations: Sequence[Activation] = [frame.live[0]]
        if unit.nodes[0].attrs["is_constant"]:
            frame.constants.append((unit, outputs, dead))
            iterations = frame.live
        for each in iterations:
            self._deliver(each, unit, outputs, dead)
        frame.arriving -= 1
        self._settle(frame)
        return None if dead else outputs

    def _exit(self, activation: Activation, unit: Unit, inputs: Outputs, dead: bool) -> Outputs | None:
        frame = activation.frame
        assert frame is not None
        if dead or unit.place in frame.left:
            return None
        frame.left.add(unit.place)
        return self._pass_on(frame.parent, unit, (inputs[0],))

    def _next_iteration(self, activation: Activation, unit: Unit, inputs: Outputs, dead: bool) -> Outputs | None:
        frame = activation.frame
        assert frame is not None
        if dead:
            return None
        if activation.following is None and len(frame.live) < frame.level.parallel:
            self._iterate(frame)
        if activation.following is not None:
            return self._pass_on(activation.following, unit, (inputs[0],))
        outputs = [inputs[0]] * len(unit.outputs)
        frame.held.append((unit, outputs))
        return outputs

    # The life of frames

    def _serial(self) -> int:
        self._count += 1
        return self._count

    def _iterate(self, frame: Frame) -> None:
        """Begin the next iteration, with the constants and what was held back for it."""
        before = frame.newest
        made = Activation(frame.level, self._serial(), frame, (*frame.parent.iteration, before.iteration[-1] + 1))
        before.following = frame.newest = made
        frame.live.append(made)
        held, frame.held = frame.held, []
        for unit, outputs, dead in frame.constants:
            self._deliver(made, unit, outputs, dead)
        for unit, outputs in held:
            self._deliver(made, unit, outputs, False)

    def _settle(self, frame: Frame) -> None:
        """Drop the iterations that are done, begin one that was held back, and end the frame if none is left."""
        live = frame.live
        while live and not (frame.arriving or live[0].outstanding or live[0].frames):
            live.popleft()
            if frame.held:
                self._iterate(frame)
        if not live:
            self._close(frame)

    def _close(self, frame: Frame) -> None:
        """The frame is done: exits that handed out nothing are dead where it was entered."""
        parent = frame.parent
        del parent.frames[frame.level.number]
        del frame.newest  # which knows the frame: nothing is to be left to the garbage collector
        for unit in frame.level.exits:
            if unit.place not in frame.left:
                self._pass_over(parent, unit)
        if not parent.outstanding and parent.frame is not None:
            self._settle(parent.frame)


_ROLES: Final[dict[str, Callable[[Frames, Activation, Unit, Outputs, bool], Outputs | None]]] = {
    "switch": Frames._switch,
    "merge": Frames._merge,
    "enter": Frames._enter,
    "exit": Frames._exit,
    "next_iteration": Frames._next_iteration,
    "loop_cond": Frames._loop_cond,
    "control_trigger": Frames._control_trigger,
}


def truth(pred: Array) -> bool:
    """What a switch chooses by. ValueError if it is not one truth."""
    if getattr(pred, "ndim", 0):
        raise ValueError(f"pred is one truth, of rank 0, not an array of shape {pred.shape}")
    return bool(pred)
