"""Lets devices take turns: the nodes of a step run in one order over all devices, so that memory use is predictable.

Usually each device runs what is ready, and the order depends on the time that kernels take. Then the memory at a moment
is uncertain. If the memory is short, a step is planned to take turns: where the order goes on to another device, a
control edge leads there, and on each device every node waits for the one before it. A value is received just before
its first reader.

A node that may wait for something outside the step, such as a dequeue, is not delayed. A flow in which another such
node might then wait for the first one cannot take turns.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from aioflow.kernels.control.control_flow import PRIMITIVES
from aioflow.plan.partition import Part
from aioflow.plan.passes.flow import Flow, Node, Value, sources_before
from aioflow.plan.passes.liveness import Liveness, constant_bytes, shares_memory
from aioflow.plan.passes.relink import relinked
from aioflow.plan.passes.timeline import Edge, edge_of, is_known
from aioflow.tensors.dtypes import DeviceKind


def can_take_turns(flow: Flow) -> bool:
    """Whether this order delays no node that a node with a wait outside the step needs."""
    if any(node.definition.name in PRIMITIVES for node in flow.nodes):
        return False
    needed: set[Node] = set()
    for node in reversed(flow.nodes):
        if node.waits or node in needed:
            needed.update(sources_before(node))
    late: set[Node] = set()
    for node in flow.nodes:
        if node.waits or not late.isdisjoint(sources_before(node)):
            late.add(node)
    held = False
    for node in flow.nodes:
        if held and node in needed and not node.waits:
            return False
        held = held or (node in late and not node.waits)
    return True


def with_turns(flow: Flow, devices: Mapping[Node, str]) -> tuple[Flow, dict[Node, str]]:
    """The flow with a control edge wherever its order goes on to another device, and the devices of its nodes."""
    controls: dict[Node, tuple[Node, ...]] = {}
    before: Node | None = None
    for node in flow.nodes:
        if node not in devices or node.waits or node.definition.handle:
            continue
        if before is not None and devices[before] != devices[node] and before not in sources_before(node):
            controls[node] = (*node.controls, before)
        before = node
    made = relinked(flow, flow.nodes, controls)
    moved = {new: devices[node] for node, new in zip(flow.nodes, made.nodes, strict=True) if node in devices}
    return made, moved


def in_turns(parts: Sequence[Part]) -> list[Part]:
    """The parts of such a flow, with each node after the one before it on its device."""
    return [dataclasses.replace(part, flow=_in_sequence(part.flow)) for part in parts]


def _in_sequence(flow: Flow) -> Flow:
    controls: dict[Node, tuple[Node, ...]] = {}
    given = set(flow.feeds)
    before: Node | None = None
    for node in flow.nodes:
        if is_known(node) or node in given or (node.waits and edge_of(node) is None):
            continue
        if before is not None and before not in sources_before(node):
            controls[node] = (*node.controls, before)
        before = node
    return relinked(flow, flow.nodes, controls)


# Memory


class _Turn(NamedTuple):
    """A node, at its place in the one order of all devices."""

    device: str
    number: int
    node: Node


def peaks_in_turns(parts: Sequence[Part], kinds: Mapping[str, DeviceKind]) -> dict[str, int]:
    """The peak bytes on each device while the parts take turns, without state. They do not depend on time."""
    peaks = _Peaks(parts, kinds).found()
    return {part.device: peaks[part.device] + constant_bytes(part.flow) for part in parts}


class _Peaks:
    """The memory of parts that take turns.

    A value takes memory where it was made, until its last reader is done, on whichever device that is. A node can
    write its result only into a value that was made in its own unit.
    """

    def __init__(self, parts: Sequence[Part], kinds: Mapping[str, DeviceKind]) -> None:
        self._lives: Final = {part.device: Liveness(part.flow, kinds[part.device]) for part in parts}
        self._turns: Final = list(_merged(parts))
        units = {part.device: _units(part.flow.nodes) for part in parts}
        self._units: Final = [(device, units[device][number]) for device, number, _ in self._turns]
        self._sent: dict[Edge, frozenset[Value]] = {}
        self._owners: dict[Value, frozenset[Value]] = {}
        """For each shared value that is received, the values of the sender whose memory it is."""
        self._made_in: dict[Value, tuple[str, int]] = {}
        self._until: dict[Value, int] = {}
        for at, turn in enumerate(self._turns):
            self._note(at, turn)
        for part in parts:
            for value in part.flow.fetches:
                self._until.update(dict.fromkeys(self._all(part.device, value), len(self._turns)))

    def found(self) -> dict[str, int]:
        """The peak of each device."""
        live = dict.fromkeys(self._lives, 0)
        peak = live.copy()
        ends: dict[int, list[tuple[str, int]]] = {}
        for at, (device, number, _) in enumerate(self._turns):
            life = self._lives[device]
            made = sum(size for _, size in life.makes[number])
            now = live[device] + made - self._reused(at) + life.inside[number]
            peak[device] = max(peak[device], now)
            live[device] += made
            for value, size in life.makes[number]:
                ends.setdefault(max(self._until[value], at), []).append((device, size))
            for where, size in ends.pop(at, ()):
                live[where] -= size
        return peak

    def _note(self, at: int, turn: _Turn) -> None:
        """Record the outputs and inputs of the node."""
        device, number, node = turn
        life, edge = self._lives[device], edge_of(node)
        for value, _ in life.makes[number]:
            self._made_in[value], self._until[value] = self._units[at], at
        read = frozenset().union(*(self._all(device, value) for value in node.inputs))
        if edge is not None and node.definition.name == "send":
            self._sent[edge] = read
        elif edge is not None:
            read = self._sent.pop(edge, read)
            if shares_memory(node):
                self._owners[Value(node, 0)] = read
        self._until.update(dict.fromkeys(read, at))

    def _all(self, device: str, value: Value) -> frozenset[Value]:
        """The values whose memory a value is, on any device."""
        own = self._lives[device].owners[value]
        return frozenset().union(*(self._owners.get(each, frozenset((each,))) for each in own))

    def _reused(self, at: int) -> int:
        """The bytes of the result that the node writes into an input."""
        device, number, _ = self._turns[at]
        life, unit = self._lives[device], self._units[at]
        for value in life.reuses[number]:
            if self._until[value] == at and self._made_in[value] == unit and life.can_reuse(value):
                return life.size(value)
        return 0


def _merged(parts: Sequence[Part]) -> Iterator[_Turn]:
    """Yield the nodes of all partitions in the order of their run: each device runs until it must receive."""
    left = {part.device: 0 for part in parts}
    flows = {part.device: part.flow.nodes for part in parts}
    sent: set[Edge] = set()
    going = True
    while going:
        going = False
        for device, nodes in flows.items():
            while left[device] < len(nodes):
                node = nodes[left[device]]
                edge = edge_of(node)
                if edge is not None and node.definition.name == "recv" and edge not in sent:
                    break
                if edge is not None:
                    sent.add(edge)
                yield _Turn(device, left[device], node)
                left[device] += 1
                going = True


def _units(nodes: Sequence[Node]) -> list[int]:
    """Return for each node of a partition the number of its unit, as assembly groups them.

    A node that waits or sends is a unit of its own. Other nodes form a unit if they wait for the same nodes and lead to
    the same send.
    """
    masks: dict[Node, int] = {}
    numbers: dict[tuple[int, int], int] = {}
    found: list[int] = []
    waiting = sends = 0
    for place, node in enumerate(nodes):
        mask = 0
        for source in sources_before(node):
            mask |= masks[source]
        if node.waits:
            mask |= 1 << waiting
            waiting += 1
        masks[node] = mask
        if node.waits or edge_of(node) is not None:
            sends += not node.waits
            found.append(-1 - place)
        else:
            found.append(numbers.setdefault((mask, sends), place))
    return found
