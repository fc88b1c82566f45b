"""Finds the devices that may run their share of a step as one coroutine, though kernels may be heavy.

Node by node, a device goes on with all that is ready while it waits for a value. One coroutine does one thing after the
other, but takes far less time between two of them. The planner sees what happens on the other devices meanwhile. So it
can tell what a device would lose:

    in the order of the coroutine        loses nothing, since
    recv a, heavy h, send s              h needs a, and s needs both
    recv a, recv b, heavy h of b         all that a needs on other devices, b needs too: a is there before b
    recv a, heavy h of a, send s         h takes less time than to wake a thread, which the executor does for h

All devices receive in one order: that of the sends in the whole graph. Sends come as soon as what they need is there.
So devices never wait for each other in a circle. Values that come at about the same time are received one after the
other, and the kernels that need them run together after the last one.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from aioflow.plan import op_cost
from aioflow.plan.frame_levels import is_known, role_of
from aioflow.plan.guards import TRANSFERS, is_guarded
from aioflow.plan.passes.compress import same_task
from aioflow.plan.passes.flow import Flow, Node, sources_before
from aioflow.plan.passes.relink import in_place
from aioflow.plan.passes.timeline import Edge, Seconds, edge_of
from aioflow.rendezvous import PUSHED

SHARE: Final = "share"
"""The section of the transfers of a share that may run as one coroutine."""
AT_ONCE: Final = "share/at once"
"""The section of a receive in it whose value comes with the one before."""
_MOST: Final = 5_000
"""The most nodes of a step that is examined: the search takes up to 50 us for each."""
_LONGEST: Final = 500
"""The most nodes of a share: Python holds the interpreter while it compiles the coroutine, 10 us for each."""
_SLOW: Final = 5e-6
"""Seconds. Shorter kernels count as nothing."""


def mark_shares(flows: Mapping[str, Flow], seconds: Seconds) -> None:
    """Mark the transfers of each share of a step that loses nothing as one coroutine.

    Args:
        flows: the flows that run together, by device.
        seconds: (node, device) -> seconds of a node.
    """
    shares = [flow.nodes for flow in flows.values() if _can_be_coroutine(flow)]
    if not shares or sum(len(flow.nodes) for flow in flows.values()) > _MOST:
        return
    needs = _Needs(flows, seconds)
    found: list[list[Node]] = []
    for nodes in shares:
        if needs.are_met(_marked(nodes, needs)):
            found.append(nodes)
        else:
            _mark(nodes, "")
    if not needs.are_acyclic(map(share_order, found)):
        for nodes in found:
            _mark(nodes, "")


def is_marked(node: Node) -> bool:
    """Whether it sends or receives in a share that may run as one coroutine."""
    return node.definition.name in TRANSFERS and node.attrs["section"] in (SHARE, AT_ONCE)


def share_order(nodes: Iterable[Node]) -> list[Node]:
    """The nodes in the order of the coroutine.

    The stage of a node is the number of the last receive that it depends on; values that come at once have one number.
    In a stage receives come first, then sends with what they need.
    """
    given = list(nodes)
    receives = sorted([node for node in given if node.definition.name == "recv"], key=_position)
    begins = itertools.accumulate([node.attrs["section"] != AT_ONCE for node in receives])
    numbers = dict(zip(receives, begins, strict=True))
    stages: dict[Node, int] = {}
    for node in given:
        sources = [stages[source] for source in sources_before(node) if source in stages]
        stages[node] = numbers.get(node, max(sources, default=0))
    urgent = _urgency(given)

    def turn(node: Node) -> tuple[float, ...]:
        return stages[node], *((0, _position(node)) if node in numbers else (1, urgent.get(node, len(given))))

    return sorted(given, key=turn)


def _mark(nodes: Iterable[Node], section: str) -> None:
    for node in nodes:
        if node.definition.name in TRANSFERS:
            node.attrs["section"] = section


def _marked(nodes: Sequence[Node], needs: "_Needs") -> list[Node]:
    """The order of the coroutine of a share, whose transfers are marked."""
    _mark(nodes, SHARE)
    first: Node | None = None
    for node in share_order(nodes):
        if node.definition.name == "send":
            first = None
        elif node.definition.name == "recv" and first is not None and needs.come_together(first, node):
            node.attrs["section"] = AT_ONCE
        elif node.definition.name == "recv":
            first = node
    return share_order(nodes)


def _urgency(nodes: Sequence[Node]) -> dict[Node, int]:
    """For each node that a send depends on, the number of the first such send."""
    found: dict[Node, int] = {}
    for number, send in enumerate(sorted([each for each in nodes if each.definition.name == "send"], key=_position)):
        stack = [send]
        while stack:
            node = stack.pop()
            if node not in found:
                found[node] = number
                stack += sources_before(node)
    return found


def _position(node: Node) -> float:
    return float(node.attrs["position"])


def _can_be_coroutine(flow: Flow) -> bool:
    """Whether it sends or receives, and nothing in it waits for anything else or may be dead."""
    computing = [node for node in flow.nodes if node.definition.name not in TRANSFERS and node not in flow.feeds]
    transfers = [node for node in flow.nodes if node.definition.name in TRANSFERS]
    is_plain = not any(node.waits or role_of(node) for node in computing)
    return bool(transfers) and len(flow.nodes) <= _LONGEST and is_plain and all(map(_comes_early, transfers))


def _comes_early(node: Node) -> bool:
    """Whether a received value comes without a request, so that it need not be awaited early, and is never dead."""
    if node.definition.name == "send":
        return not node.attrs["window"]
    is_pushed = node.attrs["edge"].startswith(PUSHED) or same_task(node.attrs["source"], node.attrs["target"])
    return is_pushed and not is_guarded(node) and not node.attrs["window"]


class _Needs:
    """The slow things that each node of a step needs, on all devices, as bits of a number.

    These are kernels, ways from task to task, loops, and waits for something outside of the step. Loops and waits may
    take forever.
    """

    def __init__(self, flows: Mapping[str, Flow], seconds: Seconds) -> None:
        self._devices: Final = {node: device for device, flow in flows.items() for node in flow.nodes}
        self._given: Final = {node for flow in flows.values() for node in flow.feeds}
        self._seconds: Final = seconds
        self._senders: Final = _senders(self._devices)
        self._costs: Final[list[float]] = []
        self._ways: Final[dict[tuple[str, str], int]] = {}
        self._of: Final[dict[Node, int]] = {}
        self._known: dict[int, bool] = {}
        """Whether the sets that were asked for take time."""
        for node in in_place(self._devices, self._sources):
            needed = self._own(node)
            for source in self._sources(node):
                needed |= self._of[source]
            self._of[node] = needed

    def are_met(self, order: Sequence[Node]) -> bool:
        """Whether what comes too late, since something slow comes before that it does not need, takes no time."""
        if any(node not in self._of for node in order):
            return False
        before, late = 0, 0.0
        for node in order:
            if node.definition.name != "recv" and self._takes_time(before & ~self._of[node]):
                if node.definition.name == "send":
                    return False
                late += self._cost(node)
            before |= self._of[node]
        return late <= op_cost.WAKE

    def come_together(self, one: Node, other: Node) -> bool:
        """Whether the second of two values comes no later than the first one, but for the time to wake a thread."""
        return not self._takes_time(self._of.get(other, 0) & ~self._of.get(one, 0))

    def are_acyclic(self, orders: Iterable[Sequence[Node]]) -> bool:
        """Whether the devices never wait for each other in a circle, if these are the orders of their coroutines."""
        previous = {node: order[place] for order in orders for place, node in enumerate(order[1:])}

        def before(node: Node) -> list[Node]:
            return [*self._sources(node), *([previous[node]] if node in previous else [])]

        return len(in_place(self._of, before)) == len(self._of)

    def _sources(self, node: Node) -> list[Node]:
        """The nodes that a node waits for, on other devices too."""
        edge = edge_of(node) if node.definition.name == "recv" else None
        return sources_before(node) + ([self._senders[edge]] if edge in self._senders else [])

    def _own(self, node: Node) -> int:
        """The bit of a kernel, or of the way that a value takes."""
        if node.definition.name in TRANSFERS:
            return self._way(node) if node.definition.name == "recv" else 0
        cost = self._cost(node)
        return self._bit(cost) if cost > _SLOW else 0

    def _cost(self, node: Node) -> float:
        if node in self._given or is_known(node):
            return 0.0
        has_loop = any(each.definition.name == "while_loop" for each in node.everything())
        is_endless = node.waits or role_of(node) is not None or has_loop
        return math.inf if is_endless else self._seconds(node, self._devices[node])

    def _way(self, node: Node) -> int:
        way = node.attrs["source"], node.attrs["target"]
        if way not in self._ways:
            self._ways[way] = 0 if same_task(*way) else self._bit(math.inf)
        return self._ways[way]

    def _bit(self, cost: float) -> int:
        self._costs.append(cost)
        return 1 << len(self._costs) - 1

    def _takes_time(self, needed: int) -> bool:
        """Whether all in a set take longer than to wake a thread."""
        if needed not in self._known:
            left, seconds = needed, 0.0
            while left and seconds <= op_cost.WAKE:
                lowest = left & -left
                seconds += self._costs[lowest.bit_length() - 1]
                left ^= lowest
            self._known[needed] = seconds > op_cost.WAKE
        return self._known[needed]


def _senders(nodes: Iterable[Node]) -> dict[Edge | None, Node]:
    return {edge_of(node): node for node in nodes if node.definition.name == "send" and not node.attrs["window"]}
