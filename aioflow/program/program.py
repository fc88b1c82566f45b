"""The program of a device for the executor: frozen units with their dependencies.

A unit is one node in the plain program, which defines the meaning, or a region: many nodes that never suspend, compiled
into one coroutine. Every unit belongs to a level: the step itself, or a frame, which is a loop. The units of a level
run once in each of its iterations, on the memory of that iteration: slots for values, and pending counts.

The programs of a plan, one for each device.
"""

import dataclasses
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple

from aioflow.devices.device import AnyDevice
from aioflow.graph.kernel import Kernel
from aioflow.kernels.context import Context
from aioflow.plan.frame_levels import ROOT, decides
from aioflow.plan.op_cost import RegionCost
from aioflow.plan.passes.flow import Node, Value
from aioflow.program.error_location import Finder, Place, Placer
from aioflow.program.handles import Handle, Objects, resolved
from aioflow.tensors.dtypes import Array

Outputs = Sequence[Array]
UnitCoroutine = Coroutine[Any, Any, Outputs]
Begin = Callable[..., UnitCoroutine]
"""(context, *inputs) -> a coroutine of the outputs."""
Link = Callable[[Objects], tuple[Begin, Begin | None]]
"""Gives `begin` and `heavy` of a unit for the objects of a session."""


class RunningUnit(NamedTuple):
    """A unit that has begun and not ended.

    Attributes:
        unit: the unit.
        since: when it began, on the clock of its step.
        coroutine: the coroutine that computes its outputs; None for a unit of one node that waits.
        device: the name of the device it runs on.
        stopped_by: the error that has ended the coroutine, if the step is being stopped.
    """

    unit: "Unit"
    since: float
    coroutine: UnitCoroutine | None
    device: str
    stopped_by: BaseException | None = None

    @property
    def place(self) -> Place:
        """The node that it computes now, and a text with the iterations of the loops around it."""
        unit = self.unit
        if self.stopped_by is not None and unit.find is not None and (left := unit.find(self.stopped_by)):
            node, _, iteration = left
            return node, iteration
        found = None if unit.computes is None or self.coroutine is None else unit.computes(self.coroutine)
        return found or (unit.nodes[0], "")


class MergeInput(NamedTuple):
    """A value that goes into a merge.

    Attributes:
        output: which of the unit's outputs it is.
        place: the merge, by its place in its level.
        number: which of the merge's inputs it is.
        final: whether the merge is dead at once if this value is: it enters a loop.
    """

    output: int
    place: int
    number: int
    final: bool


class OutsideValue(NamedTuple):
    """A value that enters a merge from outside: a feed, by its number, or a value known before the step."""

    arrival: MergeInput
    feed: int
    value: Array


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """The place of a unit and its successors.

    Attributes:
        place: its place in its level.
        successors: the places of the units that wait for it, in the level of its outputs.
        level: its level.
        target: the level of its outputs: another one for `enter` and `exit`.
        role: its type if it is a primitive of control flow, which the executor runs itself.
        ports: for a primitive, the numbers of its outputs.
        readers: for a switch, the successors that read output_false, and those that read output_true.
        arrivals: its values that enter merges.
        fixed: for a primitive, the inputs that are known before a step, and None for the others.
    """

    place: int
    successors: tuple[int, ...] = ()
    level: int = ROOT
    target: int = ROOT
    role: str | None = None
    ports: tuple[int, ...] = ()
    readers: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    arrivals: tuple[MergeInput, ...] = ()
    fixed: tuple[Array | None, ...] = ()

    def linked(self, objects: Objects) -> "Route":
        """The same with the objects of a session."""
        return dataclasses.replace(self, fixed=tuple([resolved(value, objects) for value in self.fixed]))


class Unit:
    """A unit of scheduling. Slots are places for values in the memory of an iteration.

    Attributes:
        index: its place in the order the user built.
        nodes: the nodes it runs.
        inputs: the slots that it reads, in its level.
        outputs: the slots that it writes, in the order of its results, in the level of its outputs.
        begin: begins its coroutine.
        waits: whether the coroutine may suspend for something other than its slice of time.
        cost: its cost.
        find: finds the node that raised an error, if it has several.
        frees: whether it drops each input after the last use, so that no other object may hold it meanwhile.
        computes: finds the node that its coroutine computes now, if it has several nodes.
        kernel: its kernel, if it is one node alone.
        link: links it with the objects of a session; None if it needs none.
        heavy: `begin` for a compute thread, made at its first use; None if `begin` serves.
        exchanges: whether it is a region that sends or receives.
        always: whether it runs although it is dead, to send or receive that.
        route: its place and successors.
        successors: see Route.
        role: see Route.
        place: see Route.
    """

    __slots__ = (
        "always",
        "begin",
        "computes",
        "cost",
        "exchanges",
        "find",
        "frees",
        "heavy",
        "index",
        "inputs",
        "kernel",
        "link",
        "nodes",
        "outputs",
        "place",
        "role",
        "route",
        "successors",
        "waits",
    )  # fmt: skip

    def __init__(
        self,
        index: int,
        nodes: Sequence[Node],
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        begin: Begin,
        waits: bool,
        cost: RegionCost,
        route: Route,
        find: Finder | None = None,
        heavy: Begin | None = None,
        computes: Placer | None = None,
        frees: bool = False,
        kernel: Kernel | None = None,
        link: Link | None = None,
        exchanges: bool = False,
    ) -> None:
        self.exchanges: Final = exchanges
        self.link: Final = link
        self.kernel: Final = kernel
        self.frees: Final = frees
        self.computes: Final = computes
        self.heavy: Final = heavy
        self.find: Final = find
        self.index: Final = index
        self.nodes: Final = nodes
        self.inputs: Final = inputs
        self.outputs: Final = outputs
        self.begin: Final = begin
        self.waits: Final = waits
        self.cost: Final = cost
        self.always: Final = any(node.definition.name in ("send", "recv") for node in nodes)
        self.route: Final = route
        self.successors: Final = route.successors
        self.role: Final = route.role
        self.place: Final = route.place

    def linked(self, objects: Objects) -> "Unit":
        """The same with the objects of a session."""
        begin, heavy = (self.begin, self.heavy) if self.link is None else self.link(objects)
        return Unit(
            self.index, self.nodes, self.inputs, self.outputs, begin, self.waits, self.cost, self.route.linked(objects),
            self.find, heavy, self.computes, self.frees, self.kernel, exchanges=self.exchanges,
        )  # fmt: skip

    def __repr__(self) -> str:
        names = ", ".join(node.name for node in self.nodes[:3])
        return f"<Unit {self.index}: {names}{' …' if len(self.nodes) > 3 else ''}>"


class FrameSpec:
    """The constant part of the step itself, or of a frame.

    Attributes:
        number: the number of its level.
        name: the name of the frame, empty for the step itself.
        parallel: the most concurrent iterations.
        units: the units of each iteration, in the order the user built them.
        waiting_for: for each unit, its pending count; all inputs of a merge count as one.
        uses: for each slot, the number of its reads and fetches; its value is dropped after the last.
        enters: the number of units that enter it.
        exits: the units that leave it.
        inputs: for each merge, by its place, the number of its inputs.
    """

    __slots__ = ("enters", "exits", "inputs", "name", "number", "parallel", "units", "uses", "waiting_for")

    def __init__(self, number: int, name: str, parallel: int, units: tuple[Unit, ...], slots: int) -> None:
        self.number: Final = number
        self.name: Final = name
        self.parallel: Final = parallel
        self.units: Final = units
        self.uses: Final = [0] * slots
        self.waiting_for: Final = [0] * len(units)
        self.inputs: Final[dict[int, int]] = {}
        self.enters: int = 0
        self.exits: Final = [unit for unit in units if unit.role == "exit"]
        for unit in units:
            if unit.role == "merge":
                self.waiting_for[unit.place] += 1
            for slot in unit.inputs:
                self.uses[slot] += 1

    def of(self, units: Sequence[Unit]) -> "FrameSpec":
        """The same with these units of the program."""
        mine = tuple([units[unit.index] for unit in self.units])
        return FrameSpec(self.number, self.name, self.parallel, mine, len(self.uses))


class Program:
    """Units with their dependencies. `feeds` are the slots of the fed values, `fetches` those of the fetched values.

    A program with handles runs after it is linked with the objects of a session.

    Attributes:
        units: all units, in the order the user built them.
        levels: the step itself, and the frames.
        fetched: the fetched values, for errors.
        given: the values that enter merges from outside.
        handles: the handles that stand for objects of a session.
        roots: the units that wait for nothing, by their place in the step.
        flows: whether it has control-flow primitives, so that values may be dead.
    """

    __slots__ = ("feeds", "fetched", "fetches", "flows", "given", "handles", "levels", "roots", "units")

    def __init__(
        self,
        units: Sequence[Unit],
        levels: Sequence[FrameSpec],
        feeds: tuple[int, ...],
        fetches: tuple[int, ...],
        fetched: Sequence[Value],
        given: Sequence[OutsideValue] = (),
        handles: Sequence[Handle] = (),
    ) -> None:
        self.handles: Final = tuple(handles)
        self.units: Final = tuple(units)
        self.levels: Final = tuple(levels)
        self.feeds: Final = feeds
        self.fetches: Final = fetches
        self.fetched: Final = fetched
        self.given: Final = tuple(given)
        self.flows: Final = any(unit.role is not None or _is_mortal(unit) for unit in units)
        for unit in units:
            self._count(unit)
        root = self.levels[ROOT]
        for arrival, _, _ in given:
            root.inputs[arrival.place] = root.inputs.get(arrival.place, 0) + 1
        for slot in fetches:
            root.uses[slot] += 1
        self.roots: Final = [place for place, count in enumerate(root.waiting_for) if count == 0]

    def linked(self, context: Context) -> "Program":
        """The same with the objects of a session, from its containers. Sessions share all that does not depend on them.

        OpError of a handle whose object cannot be made.
        """
        if not self.handles:
            return self
        objects = {handle: handle.find(context) for handle in self.handles}
        units = [unit.linked(objects) for unit in self.units]
        levels = [level.of(units) for level in self.levels]
        given = [outside._replace(value=resolved(outside.value, objects)) for outside in self.given]
        return Program(units, levels, self.feeds, self.fetches, self.fetched, given)

    def _count(self, unit: Unit) -> None:
        """Count the unit in the pending counts of its successors."""
        target = self.levels[unit.route.target]
        for place in unit.successors:
            target.waiting_for[place] += 1
        for arrival in unit.route.arrivals:
            target.inputs[arrival.place] = target.inputs.get(arrival.place, 0) + 1
        if unit.role == "enter":
            target.enters += 1


def _is_mortal(unit: Unit) -> bool:
    """Whether it receives a value that may be dead."""
    return len(unit.nodes) == 1 and decides(unit.nodes[0]) and unit.role is None


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceProgram:
    """The program of one device.

    Attributes:
        device: the device.
        program: its program.
        feeds: the positions of the call's feeds that it takes.
        fetches: the positions of the call's fetches that it makes.
    """

    device: AnyDevice
    program: Program
    feeds: tuple[int, ...]
    fetches: tuple[int, ...]

    def given(self, feeds: Outputs) -> list[Array]:
        """Return the fed values that it takes."""
        return [feeds[index] for index in self.feeds]


class Programs:
    """The programs of one plan.

    Attributes:
        parts: the program of each device.
        single_unit: the only unit, on the first device, if its inputs and outputs are those of the call; else None.
        exchange: likewise, if the unit waits for values of other tasks and has no heavy kernel.
    """

    __slots__ = ("_places", "exchange", "parts", "single_unit")

    def __init__(self, parts: Sequence[DeviceProgram], first: AnyDevice) -> None:
        self.parts: tuple[DeviceProgram, ...] = tuple(parts)
        fetched = [index for part in parts for index in part.fetches]
        self._places = sorted(range(len(fetched)), key=fetched.__getitem__)
        single = _single_unit(parts[0].program) if len(parts) == 1 and parts[0].device is first else None
        is_region = single is not None and single.waits and single.kernel is None
        self.single_unit: Unit | None = None if is_region else single
        self.exchange: Unit | None = single if is_region and single is not None and single.exchanges else None

    def joined(self, results: Sequence[Sequence[Array]]) -> list[Array]:
        """Return the fetches of the call, in its order, from the fetches of each device."""
        flat = [value for values in results for value in values]
        return [flat[place] for place in self._places]


def _single_unit(program: Program) -> Unit | None:
    """The only unit, if it takes the feeds and makes the fetches."""
    if len(program.units) != 1 or program.flows:
        return None
    unit = program.units[0]
    return unit if unit.inputs == program.feeds and unit.outputs == program.fetches else None
