"""Delays large receives, since a value that arrives long before its use takes memory meanwhile [P15 section 5.2].

The pass simulates two schedules of the step: in one, all units begin as soon as possible; in the other, as late as
possible without a longer step. A mixed schedule runs the successors of large receives late, and all else soon. A large
`recv` that would end long before its reader must begin gets a control edge from a node of its own device: the last one
that is done before the transfer must begin. All edges go forward in the mixed schedule, so there is no cycle.

A delayed `recv` never waits for a node that may be dead, or that may wait for the caller or for a queue. Receives
inside a frame are not delayed. The result is simulated again: a `recv` that now holds up its reader starts earlier. If
the step would still take longer, or save little memory, nothing changes.
"""

import functools
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

from aioflow.kernels.control.control_flow import PRIMITIVES
from aioflow.plan.passes.flow import Flow, Node, sources_before
from aioflow.plan.passes.relink import in_place, relinked
from aioflow.plan.passes.timeline import (
    Schedule,
    Seconds,
    Timeline,
    Transfer,
    Unit,
    estimated,
    latest,
    receives,
    simulated,
    size_of,
)  # fmt: skip

SMALLEST: Final = 1 << 16
"""Bytes. Smaller values may come early."""
WORTH: Final = 1 << 20
"""Bytes to be saved on all devices together, for the step to be changed at all."""
_TOLERANCE: Final = 1e-6
"""The share of the step's time by which it may take longer in the simulation."""
_LEAD: Final = 2.0
"""How many times its transfer before it is needed a value is asked for; twice that, if it came too late."""
_LONGEST_LEAD: Final = 16.0
_ROUNDS: Final = 8


def delay_receives(
    flows: Mapping[str, Flow],
    transfer: Transfer,
    seconds: Seconds = estimated,
    *,
    streamed: bool = False,
    smallest: int = SMALLEST,
    worth: int = WORTH,
) -> dict[str, Flow]:
    """Return the flows of a step by device, with large receives delayed until just before their use.

    An unchanged flow is the same object.

    Args:
        flows: the flows that run together.
        transfer: (bytes, source, target) -> seconds of a transfer.
        seconds: (node, device) -> seconds of a node.
        streamed: whether feeds arrive while the step runs, so that no receive may wait for them.
        smallest: bytes below which a value may come early.
        worth: the least bytes to save.
    """
    large = [
        size for flow in flows.values() for node in flow.nodes if receives(node) and (size := size_of(node)) >= smallest
    ]
    if not large or sum(large) < worth:
        return dict(flows)
    found = _Delays(flows, transfer, seconds, streamed, smallest).found(worth)
    return {device: _with_triggers(flow, found) for device, flow in flows.items()}


def received_bytes(
    flows: Mapping[str, Flow], transfer: Transfer, seconds: Seconds = estimated, *, streamed: bool = False
) -> dict[str, int]:
    """For each device, the most bytes that received values take at a time, simulated."""
    timeline = Timeline(flows, seconds, transfer, {}, streamed)
    return _peaks(flows, timeline, simulated(timeline.units))


class _Delays:
    """The search for the node that each delayed `recv` waits for."""

    def __init__(
        self, flows: Mapping[str, Flow], transfer: Transfer, seconds: Seconds, streamed: bool, smallest: int
    ) -> None:
        self._flows, self._transfer, self._streamed = flows, transfer, streamed
        self._seconds = functools.cache(seconds)
        self._first = self._timeline({})
        self._soon = simulated(self._first.units)
        self._late = latest(self._first.units, self._soon)
        self._chosen = self._early(smallest)
        self._steady = self._candidates() if self._chosen else {}

    def found(self, worth: int) -> dict[Node, Node]:
        """Return for each delayed `recv` the node that it waits for."""
        leads = dict.fromkeys(self._chosen, _LEAD)
        for _ in range(_ROUNDS):
            triggers = {node: found for node, lead in leads.items() if (found := self._trigger(node, lead)) is not None}
            if not triggers:
                break
            timeline = self._timeline(triggers)
            schedule = simulated(timeline.units)
            if schedule.makespan <= self._soon.makespan * (1 + _TOLERANCE):
                return triggers if self._saved(timeline, schedule) >= worth else {}
            self._hurry(leads, triggers, timeline, schedule)
        return {}

    def _timeline(self, triggers: Mapping[Node, Node]) -> Timeline:
        return Timeline(self._flows, self._seconds, self._transfer, triggers, self._streamed)

    def _early(self, smallest: int) -> list[Node]:
        """The large receives that are done earlier than they have to be, by more than they take, outside of frames."""
        found = []
        for flow in self._flows.values():
            inside = _under_control_flow(flow)
            for node in flow.nodes:
                if receives(node) and node not in inside:
                    index = self._first.home[node]
                    unit = self._first.units[index]
                    spare = self._late.begin[index] - self._soon.begin[index]
                    if unit.size >= smallest and spare > unit.seconds + unit.latency:
                        found.append(node)
        return found

    def _candidates(self) -> dict[str, tuple[list[float], list[Node]]]:
        """Return for each device the nodes that a `recv` may wait for, by their ends in the mixed schedule."""
        units, order, before = self._first.units, self._by_begin(), self._sources()
        late = _downstream(order, before, {self._first.home[node] for node in self._chosen})
        unsteady = {i for i, unit in enumerate(units) if unit.edge is None and (unit.waits or _decides(unit))}
        unsteady = _downstream(order, before, unsteady)
        found: dict[str, list[tuple[float, int]]] = {device: [] for device in self._flows}
        for index in order:
            if not units[index].waits and index not in unsteady:
                end = (self._late if index in late else self._soon).end[index]
                found[units[index].device].append((end, index))
        ordered = {device: sorted(each) for device, each in found.items()}
        return {
            device: ([end for end, _ in each], [units[index].nodes[-1] for _, index in each])
            for device, each in ordered.items()
        }

    def _by_begin(self) -> list[int]:
        return sorted(range(len(self._first.units)), key=lambda index: self._soon.begin[index])

    def _sources(self) -> list[set[int]]:
        """The units that each waits for, on other devices too."""
        units = self._first.units
        senders = {edge: index for index, unit in enumerate(units) for _, edge in unit.sends}
        return [unit.before | ({senders[unit.edge]} if unit.edge in senders else set()) for unit in units]

    def _trigger(self, node: Node, lead: float) -> Node | None:
        """Return the last node on its device that is done before the transfer must begin; None if that is no delay."""
        index = self._first.home[node]
        unit = self._first.units[index]
        ends, nodes = self._steady[unit.device]
        due = self._late.begin[index] - (lead - 1) * (unit.seconds + unit.latency)
        place = bisect_right(ends, due) - 1
        if (
            place < 0
            or lead > _LONGEST_LEAD
            or self._soon.end[self._first.home[nodes[place]]] <= self._soon.begin[index]
        ):
            return None
        return nodes[place]

    def _hurry(
        self, leads: dict[Node, float], triggers: Mapping[Node, Node], timeline: Timeline, schedule: Schedule
    ) -> None:
        """Start the late receives earlier, or all of them if none is late."""
        allowed = self._soon.makespan * _TOLERANCE
        tardy = [
            node
            for node in triggers
            if schedule.end[timeline.home[node]] > self._late.end[self._first.home[node]] + allowed
        ]
        for node in tardy or triggers:
            leads[node] *= 2

    def _saved(self, timeline: Timeline, schedule: Schedule) -> int:
        before = _peaks(self._flows, self._first, self._soon)
        after = _peaks(self._flows, timeline, schedule)
        return sum(before.values()) - sum(after.values())


def _decides(unit: Unit) -> bool:
    """Whether the unit decides which values are dead."""
    return unit.nodes[0].definition.name in PRIMITIVES


def _downstream(order: Sequence[int], before: Sequence[set[int]], found: set[int]) -> set[int]:
    """These units and all that come after them."""
    reached = set(found)
    for index in order:
        if not reached.isdisjoint(before[index]):
            reached.add(index)
    return reached


def _peaks(flows: Mapping[str, Flow], timeline: Timeline, schedule: Schedule) -> dict[str, int]:
    fetched = {value.node for flow in flows.values() for value in flow.fetches}
    changes: dict[str, list[tuple[float, int]]] = {device: [] for device in flows}
    for index, unit in enumerate(timeline.units):
        if unit.edge is not None:
            last = max([schedule.end[each] for each in unit.after], default=schedule.end[index])
            until = schedule.makespan if unit.nodes[0] in fetched else last
            changes[unit.device] += [(schedule.begin[index], unit.size), (until, -unit.size)]
    return {device: _highest(sorted(each)) for device, each in changes.items()}


def _highest(changes: list[tuple[float, int]]) -> int:
    level = highest = 0
    for _, change in changes:
        level += change
        highest = max(highest, level)
    return highest


def _under_control_flow(flow: Flow) -> set[Node]:
    """The nodes that come after primitives of control flow."""
    found: set[Node] = set()
    for node in flow.nodes:
        if any(each in found or each.definition.name in PRIMITIVES for each in sources_before(node)):
            found.add(node)
    return found


def _with_triggers(flow: Flow, triggers: Mapping[Node, Node]) -> Flow:
    chosen = {node: (*node.controls, triggers[node]) for node in flow.nodes if node in triggers}
    if not chosen:
        return flow
    nodes = in_place(flow.nodes, lambda node: [*sources_before(node), *chosen.get(node, ())], chosen)
    return relinked(flow, nodes, chosen)
