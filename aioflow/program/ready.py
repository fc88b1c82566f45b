"""Tracks the ready units of a program in the iterations of its frames.

The step, and every iteration of a loop, is an Activation with its own memory and pending counts. A value may be dead,
when a switch chooses its other output. Then all its readers and successors are dead, too, and do not run; their inputs
are released all the same [P15 section 4.4].

    enter            passes its value to the first iteration of a frame, a constant one to every iteration
    merge            passes the first value that is not dead; dead if all are, or if the value from an `enter` is
    switch           passes its value to one of two outputs; the other one is dead
    next_iteration   passes its value to the next iteration, which the first such value begins; waits while the most
                     concurrent iterations run; drops a dead value
    exit             passes its value to the parent of the frame; a dead one, at the end of the frame, if it had none
    control_trigger  runs even if it is dead

An iteration is done when no unit of it is ready or running, its frames are done, and so is the previous iteration; the
first one also waits for all `enter` units. Then its memory is dropped. A frame is done when no iteration is left.
"""

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, Final

import numpy as np

from aioflow.kernels.context import Context
from aioflow.kernels.control.control_flow import DEAD
from aioflow.plan.frame_levels import ROOT
from aioflow.program.program import FrameSpec, MergeInput, Outputs, Program, Unit
from aioflow.tensors.dtypes import Array


class Activation:
    """One iteration of a frame, or the step itself.

    Attributes:
        level: its level.
        frame: its frame; None for the step.
        iteration: the numbers of the surrounding iterations and of itself, outermost first.
        serial: the number of activations that began before it.
        context: the context of its kernels, made at its first use.
        slots: its values.
        uses: for each slot, the number of remaining reads.
        waiting_for: for each unit, its pending count.
        ready: the places of ready units.
        dead: the places of dead units.
        outstanding: the number of ready and running units.
        frames: the unfinished frames that were entered from it, by level.
        chosen: for each merge with a value, the number of the input and the value; None if it is dead or has run.
        missed: for each merge, the number of its dead inputs.
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
    """A running loop.

    Attributes:
        level: its level.
        parent: the activation that entered it.
        arriving: the number of units that have not entered yet.
        constants: the loop invariants: the unit, its outputs, whether they are dead.
        live: its unfinished iterations, the oldest first.
        newest: the iteration that began last.
        held: the values for the next iteration, until that may begin.
        left: the places of exits that have passed a value.
    """

    __slots__ = ("arriving", "constants", "held", "left", "level", "live", "newest", "parent")

    def __init__(self, level: FrameSpec, parent: Activation, serial: int) -> None:
        self.level: Final = level
        self.parent: Final = parent
        self.arriving: int = level.enters
        self.constants: Final[list[tuple[Unit, Outputs, bool]]] = []
        self.newest: Activation = Activation(level, serial, self, (*parent.iteration, 0))
        self.live: Final = deque([self.newest])
        self.held: list[tuple[Unit, Outputs]] = []
        self.left: Final[set[int]] = set()


class StraightLine:
    """The ready units of a program without branches and loops.

    Attributes:
        root: the step itself.
        open: empty if no unit is ready.
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
        """Remove and return the next unit to run: of the ready ones, the unit that the user built first."""
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
        """Run a primitive, or skip a dead unit. Returns the outputs; None if the unit is dead."""
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
        self.root.slots[:] = [DEAD] * len(self.root.slots)  # a slot without a value is dead
        self.open = [self.root] if program.roots else []

    def feed(self, program: Program, values: Outputs) -> None:
        """The step begins with these values for its feeds."""
        super().feed(program, values)
        for arrival, feed, value in program.given:
            self._arrive(self.root, arrival, value if feed < 0 else values[feed])

    def next(self) -> tuple[Activation, Unit]:
        """Remove and return the next unit to run: of the oldest activation, the unit that the user built first."""
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
        """Run a primitive, or skip a dead unit. Returns the outputs; None if the unit is dead."""
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

    def _arrive(self, activation: Activation, arrival: MergeInput, value: Array) -> None:
        """Pass a value, dead or not, to a merge. If it decides the output of the merge, the merge becomes ready."""
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
        """Begin the next iteration, with the loop invariants and the held values."""
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
        """Drop the iterations that are done, begin one if values are held for it, and end the frame if none is left."""
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
        del frame.newest  # it refers to the frame: no cycle is left to the garbage collector
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
    """Return the predicate of a switch as a bool. ValueError if it is not a single boolean."""
    if getattr(pred, "ndim", 0):
        raise ValueError(f"pred is one truth, of rank 0, not an array of shape {pred.shape}")
    return bool(pred)
