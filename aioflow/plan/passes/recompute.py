"""Two options that save memory: recompute long-lived values, or swap them to host memory meanwhile.

Both look at the values that are alive at the peak, and are used before it and long after it, but not between: in a
training step, the forward values that the gradients wait for.

`recompute` drops such a value after its early uses. Right before its first late use it puts copies of the node that
makes it, and of its sources back to values that are still alive. It prefers large values that live long and take little
time. It simulates several lengths of chains of dropped values, and takes the best. Only nodes without state, whose
results are always equal, run twice.

`swap` copies such a value to the host after its early uses and back before its late ones; the link does one copy at a
time. If copies take longer than the computation beside them, the step waits, within a bound.

A copy that must not run early waits for a node just before the late use. All sources of that node are sources of the
late use, too, so there is no cycle, also not over other devices.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import aioflow.kernels.control.transfer  # noqa: F401  # declares swap_out and swap_in
from aioflow.graph.op import REGISTRY
from aioflow.kernels.control.control_flow import PRIMITIVES
from aioflow.plan.passes.flow import Flow, Node, Value, sources_before
from aioflow.plan.passes.liveness import Liveness, Run, peak
from aioflow.plan.passes.relink import relinked
from aioflow.plan.passes.timeline import estimated, is_known
from aioflow.tensors.dtypes import DeviceKind

SMALLEST: Final = 1 << 16
"""Bytes. Smaller values are kept."""
OPEN: Final = 256
"""The size that open axes are taken to have."""
_SWAPS: Final = frozenset({"swap_free", "swap_in", "swap_out"})
_RUNS: Final = (1, 2, 4, 8, 16)
"""How many dropped values in a row are computed again one from the other."""
_ROUNDS: Final = 4
_SWAP_ROUNDS: Final = 32
_LONGEST: Final = 64
"""Nodes computed again for one value."""
_HARDLY: Final = 0.98
"""The share of the memory above which another round is not worth it."""
Cost = Callable[[Node], float]


def recompute(
    flow: Flow,
    *,
    target: int = 0,
    most: float = 0.1,
    seconds: Cost = lambda node: estimated(node, ""),
    kind: DeviceKind = DeviceKind.CPU,
    guess: int = OPEN,
    smallest: int = SMALLEST,
) -> Flow:
    """Return the flow with values recomputed instead of kept; the same flow if that would not help.

    Args:
        flow: the flow of one device.
        target: bytes. With a peak of at most this, the other values are kept.
        most: the extra time that the step may take, as a share of the time of its nodes.
        seconds: node -> its seconds.
        kind: the kind of the device.
        guess: the size of axes of unknown size.
        smallest: bytes: smaller values are kept.
    """
    if any(node.definition.name in PRIMITIVES for node in flow.nodes):
        return flow
    allowed = sum(map(seconds, flow.nodes)) * (1 + most)
    for _ in range(_ROUNDS):
        now = peak(flow, kind, guess)
        if now <= target:
            break
        left = allowed - sum(map(seconds, flow.nodes))
        found = [_Recomputing(_Peak(flow, kind, guess, smallest), seconds, left, run).flow() for run in _RUNS]
        best = min(found, key=lambda each: peak(each, kind, guess))
        if peak(best, kind, guess) > now * _HARDLY:
            break
        flow = best
    return flow


def swap(
    flow: Flow,
    transfer: Callable[[int], float],
    *,
    target: int = 0,
    most: float = 1.0,
    seconds: Cost = lambda node: estimated(node, ""),
    kind: DeviceKind = DeviceKind.GPU,
    guess: int = OPEN,
    smallest: int = 1 << 20,
) -> Flow:
    """Return the flow with values swapped to host memory meanwhile; the same flow on a CPU, or if it would not help.

    Args:
        flow: the flow of one device.
        transfer: bytes -> seconds of a copy to the host or back.
        target: bytes. No more values are swapped out once the peak is at most this.
        most: the time that swapping may add to the step, as a share of the time of its nodes.
        seconds: node -> its seconds.
        kind: the kind of the device.
        guess: the size of axes of unknown size.
        smallest: bytes: smaller values stay.
    """
    if kind is DeviceKind.CPU or any(node.definition.name in PRIMITIVES for node in flow.nodes):
        return flow
    allowed = most * sum(map(seconds, flow.nodes))
    least, found = peak(flow, kind, guess), flow
    enough = least * _HARDLY
    now = least
    for _ in range(_SWAP_ROUNDS):
        if now <= target:
            break
        choice = _Swapping(_Peak(found, kind, guess, smallest), seconds, transfer, now - target, allowed)
        if not choice.trips:
            break
        found, allowed = choice.flow(), choice.allowed
        now = peak(found, kind, guess)  # another node may have the same peak, so one round may not lower it
        if now < least and now <= enough:
            flow, least = found, now
    return flow


@dataclasses.dataclass(frozen=True, slots=True)
class _Held:
    """A value that is alive at the peak, but not used there.

    Attributes:
        value: the owner of the memory.
        size: its bytes.
        handed: itself and the values that share its memory, if they are read later.
        last: the number of the last node before the peak that uses it.
        first: the number of the first node after the peak that uses it.
    """

    value: Value
    size: int
    handed: tuple[Value, ...]
    last: int
    first: int


class _Peak:
    """The peak of a flow's memory, and the values that are alive there.

    Attributes:
        number: the number of each node.
        at: the number of the node that runs at the peak.
        held: the values that are alive and not used, by the owner of the memory.
        alive: the owners of all memory that is used later.
        late: for each value made before the peak, its readers after it.
    """

    def __init__(self, flow: Flow, kind: DeviceKind, guess: int, smallest: int) -> None:
        self.flow: Final = flow
        self.liveness: Final = Liveness(flow, kind, guess)
        self.number: Final = {node: index for index, node in enumerate(flow.nodes)}
        run = Run(self.liveness)
        for index in range(len(flow.nodes)):
            run.run(index)
        self.at: Final = run.peak_at
        self.late: Final[dict[Value, list[int]]] = {}
        self._early: dict[Value, int] = {}
        self._look()
        self.alive: Final = {owner for value in self.late for owner in self.liveness.owners[value]}
        self.held: Final = self._find(smallest)
        self._waits = self._masks()
        self._given = set(flow.feeds)

    def _look(self) -> None:
        for index, node in enumerate(self.flow.nodes):
            for value in dict.fromkeys(node.inputs):
                if index > self.at and self.number[value.node] <= self.at:
                    self.late.setdefault(value, []).append(index)
            if index <= self.at:
                self._early.update(dict.fromkeys(self.liveness.reads[index], index))

    def _find(self, smallest: int) -> dict[Value, _Held]:
        sizes = {value: size for made in self.liveness.makes for value, size in made}
        fetched = {owner for value in self.flow.fetches for owner in self.liveness.owners[value]}
        handed: dict[Value, list[Value]] = {}
        for value in self.late:
            for owner in self.liveness.owners[value]:
                handed.setdefault(owner, []).append(value)
        found = {}
        for owner, values in handed.items():
            last = max(self._early.get(owner, 0), self.number[owner.node])
            if sizes[owner] >= smallest and owner not in fetched and last < self.at:
                first = min(self.late[value][0] for value in values)
                found[owner] = _Held(owner, sizes[owner], tuple(values), last, first)
        return found

    def _masks(self) -> dict[Node, int]:
        """For each node a bit for each waiting node that it comes after."""
        masks: dict[Node, int] = {}
        bits = itertools.count()
        for node in self.flow.nodes:
            mask = 1 << next(bits) if node.waits else 0
            for source in sources_before(node):
                mask |= masks[source]
            masks[node] = mask
        return masks

    def before(self, index: int, until: int | None = None) -> Node | None:
        """Return the node that a copy for this one waits for: the last before it, or before `until`, after the peak."""
        reader = self.flow.nodes[index]
        for place in range(index - 1 if until is None else min(until, index - 1), self.at - 1, -1):
            node = self.flow.nodes[place]
            if not is_known(node) and node not in self._given and not self._waits[node] & ~self._waits[reader]:
                return node
        return None


class _Recomputing:
    """A choice of values to compute again, and the flow that does so."""

    def __init__(self, found: _Peak, seconds: Cost, allowed: float, run: int) -> None:
        self._peak = found
        self._seconds = seconds
        self._allowed = allowed
        self._run = run
        self._dropped: dict[Value, int] = {}
        """With how many dropped values in a row each ends."""
        self._kept: set[Value] = set()
        self._twice: set[Node] = set()
        self._names = {node.name for node in found.flow.nodes}
        for held in self._ranked():
            self._consider(held)

    def _ranked(self) -> list[_Held]:
        """Return the values that can be dropped, the best first: large, long-lived, quickly computed."""
        ranked = []
        for held in self._peak.held.values():
            nodes = self._needed(held)
            if nodes is not None and all(
                self._peak.before(i) is not None for v in held.handed for i in self._peak.late[v]
            ):
                cost = sum(map(self._seconds, nodes[0]))
                ranked.append((held.size * (held.first - held.last) / cost, -held.first, held))
        return [held for *_, held in sorted(ranked, key=lambda each: each[:2], reverse=True)]

    def _consider(self, held: _Held) -> None:
        if held.value in self._kept:
            return
        needed = self._needed(held)
        if needed is None:
            return
        nodes, anchors, length = needed
        cost = sum(self._seconds(node) for node in nodes if node not in self._twice)
        if length <= self._run and cost <= self._allowed:
            self._allowed -= cost
            self._dropped[held.value] = length
            self._kept |= anchors
            self._twice |= nodes

    def _needed(self, held: _Held) -> tuple[set[Node], set[Value], int] | None:
        """The nodes that make it again, the values alive that they start from, and how many are dropped in a row."""
        nodes: set[Node] = set()
        anchors: set[Value] = set()
        length = 1
        stack = list(held.handed)
        while stack:
            value = stack.pop()
            owners = self._peak.liveness.owners[value]
            if not owners or (held.value not in owners and self._is_there(owners)):
                anchors |= owners
                continue
            length = max([length, *[1 + self._dropped[owner] for owner in owners if owner in self._dropped]])
            if value.node in nodes:
                continue
            if not _repeatable(value.node) or len(nodes) >= _LONGEST:
                return None
            nodes.add(value.node)
            stack.extend(value.node.inputs)
        return nodes, anchors, length

    def _is_there(self, owners: Iterable[Value]) -> bool:
        return all(owner in self._peak.alive and owner not in self._dropped for owner in owners)

    def flow(self) -> Flow:
        """Return the flow with the chosen changes."""
        flow, copies = self._peak.flow, dict[Node, Node]()
        ordered: list[Node] = []
        inputs: dict[Node, tuple[Value, ...]] = {}
        for index, node in enumerate(flow.nodes):
            if index > self._peak.at:
                moved = {v: self._copied(v, index, copies, ordered) for v in node.inputs if self._is_dropped(v)}
                if moved:
                    inputs[node] = tuple([moved.get(value, value) for value in node.inputs])
            ordered.append(node)
        return relinked(flow, ordered, {}, inputs) if inputs else flow

    def _is_dropped(self, value: Value) -> bool:
        return value in self._peak.late and not self._dropped.keys().isdisjoint(self._peak.liveness.owners[value])

    def _copied(self, value: Value, index: int, copies: dict[Node, Node], ordered: list[Node]) -> Value:
        """The same value of a copy, which is put there if it is new, with those before it."""
        if value.node not in copies:
            node = value.node
            inputs = [self._copied(v, index, copies, ordered) if v.node in self._twice else v for v in node.inputs]
            trigger = self._peak.before(index)
            assert trigger is not None
            copies[node] = self._copy(node, tuple(inputs), trigger)
            ordered.append(copies[node])
        return Value(copies[value.node], value.index)

    def _copy(self, node: Node, inputs: tuple[Value, ...], trigger: Node) -> Node:
        name = next(n for i in itertools.count() if (n := f"{node.name}/again{i or ''}") not in self._names)
        self._names.add(name)
        controls = tuple(dict.fromkeys((*node.controls, trigger)))
        made = Node(node.operation, node.definition, name, inputs, controls, node.attrs, node.output_specs)
        made.sized = node.sized
        return made


def _repeatable(node: Node) -> bool:
    """Whether a second run has the same results and no effects."""
    return node.pure and not (node.blocks or node.waits) and node.definition.name not in _SWAPS


class _SwapCopies(NamedTuple):
    """The copies of one value to the host and back.

    Attributes:
        out: the number of the node after which it is swapped out.
        free: the number of the node after which its GPU memory is freed.
        back: the node that the copy back waits for.
    """

    out: int
    free: int
    back: Node


class _Swapping:
    """A choice of values to swap out, and the flow with the copies.

    Attributes:
        allowed: the seconds that the step may still wait for copies.
        trips: the values that are swapped out, with their copies.
    """

    def __init__(
        self, found: _Peak, seconds: Cost, transfer: Callable[[int], float], excess: int, allowed: float
    ) -> None:
        self.allowed = allowed
        self._peak = found
        self._ends = list(itertools.accumulate(map(seconds, found.flow.nodes)))
        self.trips: dict[Value, _SwapCopies] = {}
        self._gone, self._back = 0.0, self._ends[-1] if self._ends else 0.0
        """When the link to the host becomes free, and when the next copy back must have ended."""
        for held in self._ranked():
            if excess <= 0:
                break
            if self._consider(held, transfer(held.size)):
                excess -= held.size

    def _ranked(self) -> list[_Held]:
        """Return the values that can be swapped, those used last first: they have the most time."""
        whole = [held for held in self._peak.held.values() if held.handed == (held.value,)]
        return sorted(whole, key=lambda held: -held.first)

    def _consider(self, held: _Held, takes: float) -> bool:
        """Choose the value if the step may wait for as long as its copies would delay it."""
        ends, at = self._ends, self._peak.at
        arrived = max(self._gone, ends[held.last]) + takes
        waits_out = max(0.0, arrived - ends[at - 1])
        due = min(self._back, ends[held.first - 1]) - takes
        earliest = max(ends[at], arrived)
        waits_back = max(0.0, earliest - due)
        trigger = self._trigger(held, max(due, ends[at]))
        if trigger is None or waits_out + waits_back > self.allowed:
            return False
        self.allowed -= waits_out + waits_back
        free = next((i for i in range(held.last, at) if ends[i] >= arrived), at - 1)
        self.trips[held.value] = _SwapCopies(held.last, free, trigger)
        self._gone, self._back = arrived - waits_out, max(due, ends[at])
        return True

    def _trigger(self, held: _Held, due: float) -> Node | None:
        """Return the last node after the peak that is done before the copy back must begin."""
        last = next((i for i in range(held.first - 1, self._peak.at - 1, -1) if self._ends[i] <= due), None)
        return None if last is None else self._peak.before(held.first, last)

    def flow(self) -> Flow:
        """Return the flow with the chosen changes."""
        flow, into = self._peak.flow, dict[Value, Node]()
        after: dict[Node, list[Node]] = {}
        for value, trip in self.trips.items():
            out = _moving("swap_out", value, (value,), ())
            free = _moving("swap_free", value, (Value(out, 0), value), ())
            into[value] = _moving("swap_in", value, (Value(free, 0),), (trip.back,))
            after.setdefault(flow.nodes[trip.out], []).append(out)
            after.setdefault(flow.nodes[trip.free], []).append(free)
            after.setdefault(trip.back, []).append(into[value])
        ordered = [each for node in flow.nodes for each in (node, *after.get(node, ()))]
        late = [node for node in flow.nodes[self._peak.at + 1 :] if any(value in into for value in node.inputs)]
        return relinked(flow, ordered, {}, {node: _through(node.inputs, into) for node in late}) if late else flow


def _through(inputs: Sequence[Value], into: Mapping[Value, Node]) -> tuple[Value, ...]:
    return tuple([Value(into[value], 0) if value in into else value for value in inputs])


def _moving(op: str, of: Value, reads: tuple[Value, ...], controls: tuple[Node, ...]) -> Node:
    node = of.node
    made = Node(node.operation, REGISTRY[op], f"{node.name}/{op}", reads, controls, {}, [of.spec])
    made.sized = [of.planned_spec]
    return made
