"""Estimates the times of units on their devices, and of values on the links between devices.

The units are those of assembly: nodes that never suspend are grouped by the nodes that they wait for, and a node that
may suspend is a unit of its own. A device runs one unit at a time, the ready unit with the lowest node first. A link
moves one value at a time; its latency holds up no other value. A wait for anything but a value from another device is
assumed to take no time.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final

from aioflow.kernels.control.control_flow import PRIMITIVES
from aioflow.plan import op_cost
from aioflow.plan.passes.flow import Flow, Node, sources_before
from aioflow.plan.passes.relink import in_place

Seconds = Callable[[Node, str], float]
"""How long a node takes on a device."""
Transfer = Callable[[int, str, str], float]
"""(bytes, source, target) -> seconds."""
Edge = tuple[str, str, str]
"""The key of a `send` and its `recv`: edge, source, target."""
LONGEST: Final = 2000
"""Nodes in a unit."""
_ITERATIONS: Final = 16
"""How often a loop is taken to go round."""
_SHORTEST: Final = 1e-9
"""Seconds. Every unit takes at least this, so that its sources begin before it."""


@dataclasses.dataclass(slots=True)
class Unit:
    """Nodes that run together.

    Attributes:
        device: the device.
        nodes: the nodes.
        waits: whether it takes no time of the device.
        seconds: the time of its run, or of its received value on the link.
        latency: the additional time until the received value is there.
        size: the bytes of the received value.
        edge: the received edge, if it receives.
        sends: the sent edges, with the seconds until each is sent.
        before: the units it waits for.
        after: the units that wait for it.
    """

    device: str
    nodes: list[Node]
    waits: bool
    seconds: float = 0.0
    latency: float = 0.0
    size: int = 0
    edge: Edge | None = None
    sends: list[tuple[float, Edge]] = dataclasses.field(default_factory=list)
    before: set[int] = dataclasses.field(default_factory=set)
    after: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Schedule:
    """The begin and end of each unit, and of each transfer."""

    begin: list[float]
    end: list[float]

    @property
    def makespan(self) -> float:
        """When all is done."""
        return max(self.end, default=0.0)


def edge_of(node: Node) -> Edge | None:
    """Return the edge that the node sends or receives; None for other nodes, and for credits of earlier iterations."""
    if node.definition.name not in ("send", "recv") or node.attrs["window"]:
        return None
    return node.attrs["edge"], node.attrs["source"], node.attrs["target"]


def receives(node: Node) -> bool:
    """Whether it takes a value from another device."""
    return node.definition.name == "recv"


def size_of(node: Node) -> int:
    """Return the bytes of its outputs, with a guess for unknown sizes."""
    return sum(op_cost.elements(spec) * spec.dtype.size for spec in node.planned_specs)


class Timeline:
    """The units of the parts of a step.

    Attributes:
        units: all of them; those of a device in order.
        home: the unit of each node that runs.
    """

    def __init__(
        self,
        flows: Mapping[str, Flow],
        seconds: Seconds,
        transfer: Transfer,
        triggers: Mapping[Node, Node],
        streamed: bool,
    ) -> None:
        self.units: Final[list[Unit]] = []
        self.home: Final[dict[Node, int]] = {}
        self._seconds = seconds
        self._transfer = transfer
        self._triggers = triggers
        self._streamed = streamed
        for device, flow in flows.items():
            self._group(device, flow)
        for node, index in self.home.items():
            self.units[index].before |= {self.home[each] for each in self._sources(node) if each in self.home} - {index}
        for index, unit in enumerate(self.units):
            for each in unit.before:
                self.units[each].after.append(index)

    def _sources(self, node: Node) -> list[Node]:
        """Return the nodes that a node waits for, with its trigger."""
        return [*sources_before(node), *([self._triggers[node]] if node in self._triggers else [])]

    def _group(self, device: str, flow: Flow) -> None:
        given = set() if self._streamed else set(flow.feeds)
        masks: dict[Node, int] = {}
        separate = 0
        grouped: dict[int, int] = {}
        for node in in_place(flow.nodes, self._sources, self._triggers) if self._triggers else flow.nodes:
            if is_known(node) or node in given:
                continue
            mask = 0
            for source in self._sources(node):
                mask |= masks.get(source, 0)
            waits = node.waits or node.definition.name == "feed"
            if waits or node.definition.name in PRIMITIVES:
                masks[node] = mask | 1 << separate
                separate += 1
                self._put(node, self._opened(device, waits))
                continue
            masks[node] = mask
            found = grouped.get(mask)
            if found is None or len(self.units[found].nodes) >= LONGEST:
                found = grouped[mask] = self._opened(device, False)
            self._put(node, found)

    def _opened(self, device: str, waits: bool) -> int:
        self.units.append(Unit(device, [], waits))
        return len(self.units) - 1

    def _put(self, node: Node, index: int) -> None:
        self.home[node] = index
        unit = self.units[index]
        unit.nodes.append(node)
        edge = edge_of(node)
        if edge is not None and receives(node):
            _, source, target = unit.edge = edge
            unit.size = size_of(node)
            unit.latency = self._transfer(0, source, target)
            unit.seconds = self._transfer(unit.size, source, target) - unit.latency
            return
        unit.seconds += max(self._seconds(node, unit.device), _SHORTEST)
        if edge is not None:
            unit.sends.append((unit.seconds, edge))


def is_known(node: Node) -> bool:
    """Whether it is known before any step."""
    return (node.definition.name == "constant" or node.definition.handle) and not node.controls


def estimated(node: Node, device: str) -> float:
    """Seconds by shapes alone."""
    if not node.blocks:
        return op_cost.seconds(node, node.planned_inputs, node.planned_specs)
    rounds = _ITERATIONS if node.definition.name == "while_loop" else 1
    return rounds * sum(estimated(inner, device) for block in node.blocks for inner in block.flow.nodes)


def simulated(units: Sequence[Unit]) -> Schedule:
    """The schedule if every unit begins as soon as it can."""
    return _Run(units).schedule()


class _Run:
    """One simulation, as events in the order of time."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._units = units
        self._begin = [math.inf] * len(units)
        self._end = [math.inf] * len(units)
        self._missing = [len(unit.before) for unit in units]
        self._links = {unit.edge: index for index, unit in enumerate(units) if unit.edge is not None}
        self._free: dict[tuple[str, str], float] = {}
        self._busy: set[str] = set()
        self._ready: dict[str, list[int]] = {unit.device: [] for unit in units}
        self._events: list[tuple[float, int, bool]] = []
        """The time, the unit, and whether its received value is sent then, or the unit ends."""
        sent = {edge for unit in units for _, edge in unit.sends}
        for edge, index in self._links.items():
            self._missing[index] += edge in sent

    def schedule(self) -> Schedule:
        """Let time pass until nothing happens any more."""
        for index, count in enumerate(self._missing):
            if not count:
                self._is_ready(index, 0.0)
        self._start_idle(0.0)
        while self._events:
            now, index, ends = heappop(self._events)
            if ends:
                self._ends(index)
                for following in self._units[index].after:
                    self._arrives(following, now)
            else:
                self._arrives(index, now)
            if not self._events or self._events[0][0] > now:
                self._start_idle(now)
        return Schedule(self._begin, self._end)

    def _ends(self, index: int) -> None:
        if not self._units[index].waits:
            self._busy.discard(self._units[index].device)

    def _arrives(self, index: int, now: float) -> None:
        self._missing[index] -= 1
        if not self._missing[index]:
            self._is_ready(index, now)

    def _is_ready(self, index: int, now: float) -> None:
        unit = self._units[index]
        if not unit.waits:
            heappush(self._ready[unit.device], index)
            return
        if unit.edge is not None:
            link = unit.edge[1:]
            now = max(now, self._free.get(link, 0.0))
            self._free[link] = now + unit.seconds
        self._begins(index, now)

    def _start_idle(self, now: float) -> None:
        for device, ready in self._ready.items():
            if ready and device not in self._busy:
                self._busy.add(device)
                self._begins(heappop(ready), now)

    def _begins(self, index: int, now: float) -> None:
        unit = self._units[index]
        self._begin[index] = now
        self._end[index] = now + unit.seconds + unit.latency
        heappush(self._events, (self._end[index], index, True))
        for offset, edge in unit.sends:
            if edge in self._links:
                heappush(self._events, (now + offset, self._links[edge], False))


def latest(units: Sequence[Unit], soonest: Schedule) -> Schedule:
    """The schedule if every unit begins as late as it can: nothing ends later, no device or link changes its order."""
    makespan = soonest.makespan
    begin, end = [makespan] * len(units), [makespan] * len(units)
    front: dict[object, float] = {}
    links = {unit.edge: index for index, unit in enumerate(units) if unit.edge is not None}
    for index in sorted(range(len(units)), key=lambda index: (-soonest.begin[index], -index)):
        unit = units[index]
        needed = min([begin[following] for following in unit.after], default=makespan)
        line: object = unit.device if not unit.waits else None if unit.edge is None else unit.edge[1:]
        start = min(needed - unit.latency, front.get(line, makespan)) - unit.seconds
        for offset, edge in unit.sends:
            if edge in links:
                start = min(start, begin[links[edge]] - offset)
        begin[index], end[index] = start, start + unit.seconds + unit.latency
        if line is not None:
            front[line] = start
    return Schedule(begin, end)
