"""Orders the nodes to take less memory. The executor and regions run ready nodes in that order.

The pass simulates several orders, and takes the best one if it is clearly better than the order in which the user built
the nodes. One order runs next the ready node that leaves the least memory taken, and of equal ones the oldest. Another
one prefers, of equal ones, the node with the newest inputs, which finishes begun work. A third one runs every node as
late as its readers allow. With unknown sizes, an order must be good for small ones and for large ones.

Nodes that wait run as soon as they can. Nodes with effects that no edge orders keep their order. An update of a
variable runs after all readers of the old value, since otherwise the value would be copied.
"""

from collections.abc import Hashable, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from aioflow.kernels.control.control_flow import PRIMITIVES
from aioflow.plan.passes.flow import Flow, Node, Value, release, sources_before
from aioflow.plan.passes.liveness import OURS, Liveness, Run, bytes_of, peak_of
from aioflow.plan.passes.order import touched
from aioflow.tensors.dtypes import DeviceKind

LEAST: Final = 1 << 20
"""Bytes: flows whose values take no more at a time keep their order."""
_CLEARLY: Final = 0.9
"""The share of the memory that another order may take, to be chosen."""
_GUESSES: Final = (32, 1024)
"""The sizes that open axes are taken to have."""
_GRAIN: Final = 256
"""Differences below this part of all that is taken do not count."""


def memory_order(flow: Flow, kind: DeviceKind = DeviceKind.CPU, *, least: int = LEAST) -> Flow:
    """Return the flow with its nodes in the order that takes the least memory; the same flow if the gain is small.

    Args:
        flow: the flow of one device.
        kind: the kind of the device.
        least: bytes. A flow that takes no more stays as it is.
    """
    most = sum(bytes_of(spec, _GUESSES[-1]) for node in flow.nodes for spec in node.planned_specs)
    if most <= least or any(node.definition.name in PRIMITIVES for node in flow.nodes):
        return flow
    guesses = _GUESSES if any(_is_open(node) for node in flow.nodes) else _GUESSES[:1]
    sized = [Liveness(flow, kind, guess) for guess in guesses]
    try:
        return _ordered(flow, sized, least)
    finally:
        for each in sized:
            each.release()


def _ordered(flow: Flow, sized: Sequence[Liveness], least: int) -> Flow:
    """Return the flow in the best order by all of these sizes."""
    before = [peak_of(each, range(len(flow.nodes))) for each in sized]
    if max(before) <= least:
        return flow
    orders = [order for each, most in zip(sized, before, strict=True) for order in _Search(flow, each, most).orders()]
    shares = [[peak_of(each, order) / most for each, most in zip(sized, before, strict=True)] for order in orders]
    found = min(range(len(orders)), key=lambda place: (max(shares[place]), sum(shares[place])))
    if max(shares[found]) > 1 or min(shares[found]) > _CLEARLY:
        return flow
    return Flow([flow.nodes[index] for index in orders[found]], flow.feeds, flow.fetches, flow.targets)


def _is_open(node: Node) -> bool:
    return any(not spec.shape.is_fully_defined() for spec in node.planned_specs)


_HARMLESS: Final = frozenset(
    {"argument", "absent", "cond", "feed", "pulse", "recv", "send", "tensor_array", "while_loop"}
)
"""Ops that are stateful only to prevent merging. Their time has no visible effect."""


class _Search:
    """Orders of the nodes of a flow, by their numbers."""

    def __init__(self, flow: Flow, liveness: Liveness, most: int) -> None:
        self._liveness = liveness
        self._grain = max(most // _GRAIN, 1)
        self._before = _sources(flow, liveness)
        self._after: list[list[int]] = [[] for _ in flow.nodes]
        self._first = [node.waits for node in flow.nodes]
        for index, sources in enumerate(self._before):
            for source in sources:
                self._after[source].append(index)

    def orders(self) -> list[list[int]]:
        """All that are tried. It is not used any more after that."""
        try:
            return [self.greedy(newest=False), self.greedy(newest=True), self.late()]
        finally:
            release(self._before)
            release(self._after)

    def greedy(self, newest: bool) -> list[int]:
        """Return an order that runs next the ready node that leaves the least memory taken."""
        readers = _readers(self._liveness)
        run = Run(self._liveness)
        missing = [len(sources) for sources in self._before]
        age = [0] * len(missing)
        order: list[int] = []

        def rank(index: int) -> tuple[bool, int, int, int]:
            if self._first[index]:
                return False, 0, 0, index
            return True, run.growth(index) // self._grain, -age[index] if newest else 0, index

        ready = [rank(index) for index, count in enumerate(missing) if not count]
        heapify(ready)
        placed = [False] * len(missing)
        while ready:
            index = heappop(ready)[3]
            if placed[index]:
                continue
            placed[index] = True
            order.append(index)
            changed = self._last_readers(run.run(index), readers, placed)
            for following in self._after[index]:
                missing[following] -= 1
                age[following] = len(order)
                changed.append(following)
            for each in changed:
                if not missing[each] and not placed[each]:
                    heappush(ready, rank(each))
        release(readers)
        return order

    def _last_readers(self, values: Sequence[Value], readers: dict[Value, list[int]], placed: list[bool]) -> list[int]:
        """Return the nodes that are the only remaining reader of one of these values."""
        found = []
        for value in values:
            left = readers[value]
            while left and placed[left[-1]]:
                left.pop()
            found += left[-1:]
        return found

    def late(self) -> list[int]:
        """Every node as late as those that need it allow; of these, the one built first."""
        placed = [False] * len(self._before)
        order: list[int] = []
        roots = [i for i in range(len(placed)) if self._first[i]]
        roots += [i for i in range(len(placed)) if not self._after[i]]
        for root in roots:
            stack = [root]
            while stack:
                index = stack[-1]
                left = [each for each in self._before[index] if not placed[each]]
                if left and not placed[index]:
                    stack += sorted(left, reverse=True)
                    continue
                stack.pop()
                if not placed[index]:
                    placed[index] = True
                    order.append(index)
        return order


def _readers(liveness: Liveness) -> dict[Value, list[int]]:
    found: dict[Value, list[int]] = {value: [] for value in liveness.readers}
    for index, reads in enumerate(liveness.reads):
        for value in reads:
            found[value].append(index)
    return found


def _sources(flow: Flow, liveness: Liveness) -> list[set[int]]:
    """Return for each node the nodes that it must run after."""
    number = {node: index for index, node in enumerate(flow.nodes)}
    before = [{number[source] for source in sources_before(node)} for node in flow.nodes]
    _keep_effects(flow, before)
    _keep_values(flow, liveness, before)
    return before


def _keep_effects(flow: Flow, before: list[set[int]]) -> None:
    """Keep nodes with effects, and nodes that wait, in their order where no edge orders them."""
    last: dict[bool, int] = {}
    for index, node in enumerate(flow.nodes):
        if any(_has_effect(inner) for inner in node.everything()):
            if node.waits in last:
                before[index].add(last[node.waits])
            last[node.waits] = index


def _has_effect(node: Node) -> bool:
    """Whether the time of its run has a visible effect that no edge orders; random numbers and transfers have none."""
    own = node.definition
    harmless = own.observes or own.counted or own.handle or own.name in _HARMLESS
    return own.stateful and not harmless and not any(touched(node, {}).values())


def _keep_values(flow: Flow, liveness: Liveness, before: list[set[int]]) -> None:
    """Keep an update of a variable behind all readers of the old value."""
    held: dict[Value, set[Hashable]] = {}
    users: dict[Hashable, set[int]] = {}
    for index, node in enumerate(flow.nodes):
        things = touched(node, {})
        uses = {key for value in node.inputs for key in held.get(value, ())}
        for key, changes in things.items():
            if changes:
                before[index] |= users.pop(key, set()) - {index}
            else:
                uses.add(key)
        for key in uses:
            users.setdefault(key, set()).add(index)
        if uses:
            values = [Value(node, output) for output in range(len(node.output_specs))]
            held.update({value: uses for value in values if liveness.owners[value] == OURS})
