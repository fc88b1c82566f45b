"""The order of nodes chosen to take less memory: the executor and regions run what could run next in that order.

Several orders are simulated, and the best is taken if it is clearly better than that in which the user built the nodes.
In each, of the nodes that could come next, comes the one after which the least memory is taken; of equal ones the one
built first, or the one whose inputs are the newest, which finishes what was begun; or else every node comes as late as
those that need it allow. Where sizes are open, an order has to be good for small ones and for large ones.

Whatever waits comes as soon as it can. What has an effect that no edge puts in order keeps its order. A variable is not
updated before those have run who read its value before, for then the value would have to be copied.
"""

from collections.abc import Hashable, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from aioflow.kernels.control.control_flow import PRIMITIVES
from aioflow.plan.passes.flow import Flow, Node, Value, sources_before
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
    """The Flow with its nodes in the order that takes the least memory; itself if that is hardly less.

    Args:
        flow: what one device runs.
        kind: of which kind the device is.
        least: bytes: what takes no more stays as it is.
    """
    most = sum(bytes_of(spec, _GUESSES[-1]) for node in flow.nodes for spec in node.planned_specs)
    if most <= least or any(node.definition.name in PRIMITIVES for node in flow.nodes):
        return flow
    guesses = _GUESSES if any(_is_open(node) for node in flow.nodes) else _GUESSES[:1]
    sized = [Liveness(flow, kind, guess) for guess in guesses]
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
"""Stateful so that they are never merged, but nobody can tell when they run."""


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
        """All that are tried."""
        return [self.greedy(newest=False), self.greedy(newest=True), self.late()]

    def greedy(self, newest: bool) -> list[int]:
        """Of what could come next, what leaves the least memory taken."""
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
        return order

    def _last_readers(self, values: Sequence[Value], readers: dict[Value, list[int]], placed: list[bool]) -> list[int]:
        """Those who alone will still read these values."""
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
    """What each node must come after."""
    number = {node: index for index, node in enumerate(flow.nodes)}
    before = [{number[source] for source in sources_before(node)} for node in flow.nodes]
    _keep_effects(flow, before)
    _keep_values(flow, liveness, before)
    return before


def _keep_effects(flow: Flow, before: list[set[int]]) -> None:
    """What has an effect stays behind the one before it, where no edge says so; so does what waits."""
    last: dict[bool, int] = {}
    for index, node in enumerate(flow.nodes):
        if any(_has_effect(inner) for inner in node.everything()):
            if node.waits in last:
                before[index].add(last[node.waits])
            last[node.waits] = index


def _has_effect(node: Node) -> bool:
    """Whether others could tell when it runs: not of what is ordered by edges, nor of random numbers and transfers."""
    own = node.definition
    harmless = own.observes or own.counted or own.handle or own.name in _HARMLESS
    return own.stateful and not harmless and not any(touched(node, {}).values())


def _keep_values(flow: Flow, liveness: Liveness, before: list[set[int]]) -> None:
    """An update of a variable stays behind all that use what was read of it before."""
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
