"""Which device each node runs on, so that the values made there fit its memory: for devices that take turns.

The order of the nodes is known, so it is known from when to when each value takes memory. Node by node a device is
chosen that has room for the whole time. It is the device of the node before, if that has room, because each change
takes a transfer; else the one with the most room.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Final

import numpy as np

from aioflow.plan.op_cost import Site
from aioflow.plan.passes.flow import Flow, Node, Value
from aioflow.plan.passes.liveness import Liveness
from aioflow.plan.placement.colocation import is_everywhere
from aioflow.plan.placement.constraints import Demand, demands
from aioflow.plan.placement.report import Arrangement
from aioflow.plan.placement.work import state_bytes
from aioflow.tensors.dtypes import DeviceKind

_WHY: Final = "it has room for it"


def pack(
    flow: Flow, sites: Sequence[Site], *, soft: bool = False, homes: Mapping[Hashable, str] | None = None
) -> Arrangement:
    """Return a device for each node, so that values fit in memory if the nodes run in the order of the flow.

    Args:
        flow: the flow.
        sites: the devices.
        soft: as for `place`.
        homes: as for `place`.

    InvalidArgumentError if an operation requests a missing device. If values do not fit, the excess is kept small.
    """
    found = _Packing(flow, sites, demands(flow, sites, soft=soft, homes=homes or {})).found()
    devices = {node: sites[place].name for node, place in found.items()}
    return Arrangement(devices, dict.fromkeys(devices, _WHY), 0.0)


class _Packing:
    def __init__(self, flow: Flow, sites: Sequence[Site], demanded: Mapping[Node, Demand]) -> None:
        self._flow, self._demanded = flow, demanded
        self._limits = [math.inf if site.memory_limit is None else site.memory_limit for site in sites]
        self._live = Liveness(flow, DeviceKind.CPU)
        self._number = {node: number for number, node in enumerate(flow.nodes)}
        self._until = self._ends()
        self._held = np.zeros((len(sites), len(flow.nodes) + 1))
        """For each device the bytes that it holds while each node runs."""
        self._places: dict[Node, int] = {}
        self._began = [0] * len(sites)
        """For each device the first node of its unit; a receive begins a new unit."""

    def found(self) -> dict[Node, int]:
        """The number of the device of each node that needs one."""
        current = -1
        for node in self._flow.nodes:
            if is_everywhere(node):
                continue
            if node not in self._places:
                place = self._choose(node, current)
                self._places.update(dict.fromkeys(self._demanded[node].members or (node,), place))
                self._hold_state(node)
            place = self._places[node]
            if place != current:
                self._began[place], current = self._number[node], place
            self._hold(node, place)
            if not self._is_local(node, place):
                self._began[place] = self._number[node]
        return self._places

    def _ends(self) -> dict[Value, int]:
        """For each value, the last node that reads it."""
        found = {value: number for number, made in enumerate(self._live.makes) for value, _ in made}
        for number, reads in enumerate(self._live.reads):
            found.update(dict.fromkeys(reads, number))
        for fetch in self._flow.fetches:
            found.update(dict.fromkeys(self._live.owners[fetch], len(self._flow.nodes)))
        return found

    def _choose(self, node: Node, current: int) -> int:
        sites = self._demanded[node].sites
        members = self._demanded[node].members or (node,)
        state = sum(map(state_bytes, members))
        excess = {site: self._excess(members, site, state) for site in sites}
        if current in excess and excess[current] <= 0:
            return current
        return min(sites, key=excess.__getitem__)

    def _excess(self, members: Sequence[Node], site: int, state: float) -> float:
        """Return the bytes over the limit that the device would hold; negative if there is room."""
        if math.isinf(self._limits[site]):
            return -math.inf
        most = -math.inf
        for member in members:
            number = self._number[member]
            for begin, end, size in self._takes(member, site):
                most = max(most, float(self._held[site, begin : end + 1].max()) + size)
            most = max(most, float(self._held[site, number]) + self._live.inside[number])
        return most + state - self._limits[site]

    def _takes(self, node: Node, site: int) -> list[tuple[int, int, int]]:
        """Return the memory that the node takes on a device: the first node, the last node, and the bytes."""
        number, live = self._number[node], self._live
        made = live.makes[number]
        reused = self._is_local(node, site) and any(self._overwrites(v, number, site) for v in live.reuses[number])
        begin = number + 1 if reused else number
        found = [(begin, max(begin, self._until[value]), size) for value, size in made if self._until[value] >= begin]
        return [*found, (number, number, live.inside[number])]

    def _is_local(self, node: Node, site: int) -> bool:
        """Whether all that it reads is there."""
        return all(self._places.get(source, site) == site for source, _ in node.inputs)

    def _overwrites(self, value: Value, number: int, site: int) -> bool:
        """Whether a node of the same unit made the value, and this is its last use."""
        made_there = self._places.get(value.node) == site and self._number[value.node] >= self._began[site]
        return made_there and self._until[value] == number and self._live.can_reuse(value)

    def _hold(self, node: Node, site: int) -> None:
        for begin, end, size in self._takes(node, site):
            self._held[site, begin : end + 1] += size

    def _hold_state(self, node: Node) -> None:
        members = self._demanded[node].members or (node,)
        self._held[self._places[node]] += sum(map(state_bytes, members))
