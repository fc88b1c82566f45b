"""Places nodes one by one by the simulated greedy choice of the white paper [P15 section 3.2.1].

Of the nodes whose sources are placed, the node with the longest path to the end of the step is next. It is placed on
the device where it ends first, transfers included, together with all nodes that must share its device. Of devices with
equal ends, the choice is the device of its inputs, then one in use, then the first.

Two kinds of node follow their neighbours: a node without inputs, such as a read of a variable, goes to its first
reader, and a node that reads a shape goes to the tensor.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from aioflow.plan.passes.flow import Node
from aioflow.plan.placement.simulation import Layout
from aioflow.plan.placement.work import CLIENT, Work, state_bytes

_SHAPES: Final = frozenset({"shape", "rank", "size", "shape_n"})
_FEW: Final = 4
"""So many devices are all tried; of more, those that the node reads from, and of each class the one free first."""
_UNPLACED: Final = -1


Why = str | tuple[float, int, float]
"""Why a device was chosen. If by time, when the node ends, the next best device, and when it would end there."""


class Order(NamedTuple):
    """The order in which nodes are placed.

    Attributes:
        ranks: for each node the length of the longest path to the end of the step, itself and transfers included.
        floating: for each node whether it goes to its first reader.
    """

    ranks: list[float]
    floating: list[bool]


def order_of(work: Work, layout: Layout) -> Order:
    """The order for a flow: the same on all devices as on some."""
    return Order(_ranks(work, layout), [_floats(work, layout, node) for node in range(len(work.nodes))])


def _ranks(work: Work, layout: Layout) -> list[float]:
    ranks = [sum(seconds) / len(seconds) for seconds in work.seconds]
    beyond = [0.0] * len(ranks)
    for node in range(len(ranks) - 1, -1, -1):
        ranks[node] += beyond[node]
        for source, nbytes in work.reads[node]:
            if source != CLIENT:
                beyond[source] = max(beyond[source], ranks[node] + layout.typical(nbytes))
    return ranks


def _floats(work: Work, layout: Layout, node: int) -> bool:
    """Whether it has no inputs but handles, one output, and is sooner made than sent."""
    if len(work.nodes[node].output_specs) != 1 or not work.users[node]:
        return False
    if not all(source != CLIENT and work.nodes[source].definition.handle for source, _ in work.reads[node]):
        return False
    return min(work.seconds[node]) <= layout.typical(work.made[node])


class Assignment:
    """A placement in progress. With `only`, nodes that can run on one of these devices use no others.

    Attributes:
        places: for each node, the number of its device.
        why: for each node, the reason.
    """

    def __init__(self, work: Work, layout: Layout, order: Order, only: Iterable[int] | None = None) -> None:
        count = len(work.nodes)
        self.places: Final = [_UNPLACED] * count
        self.why: Final[list[Why]] = [""] * count
        self._work, self._layout = work, layout
        self._choices = _Choices(layout, only)
        begins = [layout.between(0.0, layout.client, site) for site in range(len(layout.sites))]
        self._clocks = begins + [0.0] * (layout.lanes - len(begins))
        self._used = [site == layout.client for site in range(len(layout.sites))]
        self._end = [0.0] * count
        self._done = [False] * count
        self._memory = _Memory(work, layout) if layout.limited else None
        self._order = order

    def run(self) -> "Assignment":
        """Place all nodes."""
        users, (ranks, floating) = self._work.users, self._order
        missing = self._work.missing.copy()
        ready = [(-ranks[node], node) for node, count in enumerate(missing) if not count]
        heapq.heapify(ready)
        while ready:
            node = heapq.heappop(ready)[1]
            if not floating[node]:
                self._settle(node)
            for user in users[node]:
                missing[user] -= 1
                if not missing[user]:
                    heapq.heappush(ready, (-ranks[user], user))
        return self

    # Choice

    def _sites(self, node: int) -> tuple[int, ...]:
        return self._choices.within(self._work.demands[node].sites)

    def _settle(self, node: int) -> None:
        """Place the node, unless it is placed, and simulate its run there."""
        if self.places[node] == _UNPLACED:
            self._put(node, *self._choose(node))
        for source, _ in self._work.reads[node]:
            if source != CLIENT and not self._done[source]:
                self._bring(source, self.places[node])
        self._occupy(node)

    def _bring(self, node: int, site: int) -> None:
        """Place a floating node on that device or, if that is not allowed, on another one."""
        if self.places[node] == _UNPLACED and site in self._work.demands[node].sites:
            self._put(node, site, "where it is first used")
        self._settle(node)

    def _choose(self, node: int) -> tuple[int, Why]:
        sites = self._sites(node)
        if len(sites) == 1:
            chosen = len(self._work.demands[node].sites) > 1
            return sites[0], "the step is shortest with all that may be on this one device" if chosen else ""
        if self._work.nodes[node].definition.name in _SHAPES:
            for source in self._work.sources(node):
                if self.places[source] in sites:
                    return self.places[source], f"with {self._work.nodes[source].name!r}, whose shape it reads"
        return self._soonest(node, sites)

    def _soonest(self, node: int, sites: tuple[int, ...]) -> tuple[int, Why]:
        """Where it would end first, of the devices that have memory for it."""
        near = {self.places[source] for source, _ in self._work.reads[node] if source != CLIENT}
        tried: Sequence[int] = sites if len(sites) <= _FEW else self._choices.best(sites, near, self._clocks)
        if self._memory is not None:
            tried = self._with_memory(node, tried) or self._with_memory(node, sites)
            if not tried:
                return max(sites, key=self._memory.left), "no device has enough memory, this one has most"
        ends = [(self._end_on(node, site), site not in near, not self._used[site], site) for site in tried]
        best = min(ends)
        other = min((each for each in ends if each is not best), default=best)
        return best[-1], (best[0], other[-1], other[0])

    def _with_memory(self, node: int, sites: Iterable[int]) -> list[int]:
        assert self._memory is not None
        members = self._work.demands[node].members
        return [site for site in sites if self._memory.fits(node, members, site)]

    def _lane(self, node: int, site: int) -> int:
        return self._layout.lane(self._work.seconds[node][self._layout.kind_of[site]], site)

    def _end_on(self, node: int, site: int) -> float:
        """Return the time at which it would end there, with its floating inputs placed there first."""
        between, kind = self._layout.between, self._layout.kind_of[site]
        begin = self._clocks[self._lane(node, site)]
        arrival = between(0.0, self._layout.client, site)
        for source, nbytes in self._work.reads[node]:
            if source == CLIENT:
                at = between(nbytes, self._layout.client, site)
            elif self.places[source] == _UNPLACED:
                begin += self._work.seconds[source][kind]
                continue
            else:
                at = self._end[source] + between(nbytes, self.places[source], site)
            if at > arrival:
                arrival = at
        return max(begin, arrival) + self._work.seconds[node][kind]

    # What follows

    def _put(self, node: int, site: int, why: Why) -> None:
        """Fix the device of the node, and of all that must share it."""
        members = self._work.demands[node].members
        for member in members:
            number = self._work.index[member]
            self.places[number], self.why[number] = site, f"with {self._work.nodes[node].name!r}"
        self.places[node], self.why[node] = site, why
        self._used[site] = True
        if self._memory is not None:
            self._memory.keep(members, site)

    def _occupy(self, node: int) -> None:
        """Let it run where it is put."""
        site = self.places[node]
        self._end[node] = self._clocks[self._lane(node, site)] = self._end_on(node, site)
        self._done[node] = True
        if self._memory is not None:
            self._memory.run(node, site)


class _Choices:
    """Which of the devices that are allowed are worth trying."""

    def __init__(self, layout: Layout, only: Iterable[int] | None) -> None:
        self._layout = layout
        self._only = None if only is None else frozenset(only)
        self._within: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._sets: dict[tuple[int, ...], frozenset[int]] = {}
        self._queues: dict[tuple[int, ...], list[list[tuple[float, int]]]] = {}

    def within(self, sites: tuple[int, ...]) -> tuple[int, ...]:
        """Return the devices among `only`, or all if none is."""
        if self._only is None:
            return sites
        found = self._within.get(sites)
        if found is None:
            found = self._within[sites] = tuple([site for site in sites if site in self._only]) or sites
        return found

    def best(self, sites: tuple[int, ...], near: Iterable[int], clocks: Sequence[float]) -> list[int]:
        """Those that are near, and of each class the one that is free first: transfers to the others take as long."""
        if sites not in self._queues:
            self._sets[sites] = frozenset(sites)
            self._queues[sites] = self._by_class(sites, clocks)
        allowed = self._sets[sites]
        found = [site for site in near if site in allowed]
        for queue in self._queues[sites]:
            while queue[0][0] < clocks[queue[0][1]]:  # clocks only go forward: an outdated entry is too early
                heapq.heapreplace(queue, (clocks[queue[0][1]], queue[0][1]))
            if queue[0][1] not in found:
                found.append(queue[0][1])
        return found

    def _by_class(self, sites: tuple[int, ...], clocks: Sequence[float]) -> list[list[tuple[float, int]]]:
        classes: dict[int, list[tuple[float, int]]] = {}
        for site in sites:
            classes.setdefault(self._layout.class_of[site], []).append((clocks[site], site))
        for queue in classes.values():
            heapq.heapify(queue)
        return list(classes.values())


class _Memory:
    """How many bytes the devices hold so far: state, and values until their last use."""

    def __init__(self, work: Work, layout: Layout) -> None:
        self._work, self._layout = work, layout
        limits = [site.memory_limit for site in layout.sites]
        self._left = [float("inf") if limit is None else float(limit) for limit in limits]
        self._uses = [len(users) for users in work.users]
        self._where: dict[int, dict[int, float]] = {}

    def left(self, site: int) -> float:
        """How many more there can be."""
        return self._left[site]

    def fits(self, node: int, members: Sequence[Node], site: int) -> bool:
        """Whether there is room for its outputs, its inputs and its state."""
        needed = self._work.made[node] + sum(map(state_bytes, members))
        for source, nbytes in self._work.reads[node]:
            if self._copies(source, site):
                needed += nbytes
        return needed <= self._left[site]

    def keep(self, members: Sequence[Node], site: int) -> None:
        """Hold the state of these nodes there."""
        self._left[site] -= sum(map(state_bytes, members))

    def run(self, node: int, site: int) -> None:
        """Hold the inputs and outputs of the node there, and release values without further readers."""
        self._where[node] = {}
        self._hold(node, site, self._work.made[node])
        for source, nbytes in self._work.reads[node]:
            if source != CLIENT and self._copies(source, site):
                self._hold(source, site, nbytes)
        for source in self._work.sources(node):
            self._uses[source] -= 1
            if not self._uses[source]:
                for place, nbytes in self._where[source].items():
                    self._left[place] += nbytes

    def _copies(self, source: int, site: int) -> bool:
        """Whether a reader there needs memory for it."""
        return not any(each == site or self._layout.shares(each, site) for each in self._where.get(source, ()))

    def _hold(self, node: int, site: int, nbytes: float) -> None:
        self._where[node][site] = nbytes
        self._left[site] -= nbytes
