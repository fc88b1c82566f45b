"""Simulates a step, to compare placements.

A lane runs one node at a time, the ready node with the lowest number first. Each device is a lane. The loop of each
task is one more lane, for all nodes that are too short for a thread, on any CPU of the task: spreading them over its
CPUs gains nothing. A value can be read on another device after its transfer.

The step begins and ends on the client's device, the first CPU. Other devices begin after an empty transfer, and fetched
values must come back.
"""

import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from aioflow.plan.cost_model import CostModel
from aioflow.plan.op_cost import BIG_KERNEL, Site
from aioflow.plan.placement.work import CLIENT, Work, state_bytes
from aioflow.tensors.dtypes import DeviceKind

_MOST_CLASSES: Final = 64
"""So many classes of devices are considered for the mean time of a transfer."""


class Layout:
    """The devices by number, and the costs of transfers between them.

    Attributes:
        sites: the devices.
        client: the device of feeds and fetches.
        kinds: the kinds of devices.
        kind_of: for each device, the number of its kind.
        class_of: for each device, the number of its class: devices of one kind in one task are alike.
        short_lane: for each device, the lane of nodes that are too short for a thread: that of its loop; for a GPU, its
            own.
        lanes: the number of lanes.
        limited: whether some device has a memory limit.
        roomiest: for each class of devices, the first device with the largest memory limit.
    """

    def __init__(self, sites: Sequence[Site], model: CostModel) -> None:
        self._model = model
        self.sites: Final = sites
        self.client: Final = next((i for i, site in enumerate(sites) if site.kind is DeviceKind.CPU), 0)
        self.limited: Final = any(site.memory_limit is not None for site in sites)
        self.kinds: Final = sorted({site.kind for site in sites})
        self.kind_of: Final = [self.kinds.index(site.kind) for site in sites]
        tasks = _numbered([(site.spec.job, site.spec.replica, site.spec.task) for site in sites])
        self.lanes: Final = len(sites) + max(tasks) + 1
        self.short_lane: Final = [
            len(sites) + task if site.kind is DeviceKind.CPU else number
            for number, (site, task) in enumerate(zip(sites, tasks, strict=True))
        ]
        self.class_of: Final = _numbered(list(zip(self.kind_of, tasks, strict=True)))
        classes = range(max(self.class_of) + 1)
        members: list[list[int]] = [[] for _ in classes]
        for site, number in enumerate(self.class_of):
            members[number].append(site)
        room = [math.inf if site.memory_limit is None else site.memory_limit for site in sites]
        self.roomiest: Final = [max(each, key=lambda i: (room[i], -i)) for each in members]
        self._ends: Final = [(sites[each[0]], sites[each[-1]]) for each in members]
        self._typical: dict[float, float] = {}
        self._known: dict[tuple[int, int, float], float] = {}

    def lane(self, seconds: float, site: int) -> int:
        """Return the lane of a node that takes this time."""
        return site if seconds > BIG_KERNEL else self.short_lane[site]

    def between(self, nbytes: float, source: int, target: int) -> float:
        """Return the seconds of a transfer from one device to another."""
        if source == target:
            return 0.0
        key = self.class_of[source], self.class_of[target], nbytes
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._transfer(nbytes, *key[:2])
        return found

    def _transfer(self, nbytes: float, first: int, second: int) -> float:
        """The seconds of a transfer from one class to another."""
        return self._model.transfer(nbytes, self._ends[first][0], self._ends[second][1])

    def shares(self, source: int, target: int) -> bool:
        """Whether a value read at `target` stays in the memory of `source`: both are CPUs of one task."""
        same = self.class_of[source] == self.class_of[target]
        return same and self.sites[source].kind is DeviceKind.CPU

    def typical(self, nbytes: float) -> float:
        """The mean over pairs of classes; of very many classes, over pairs of some of them."""
        found = self._typical.get(nbytes)
        if found is None:
            some = range(0, len(self._ends), math.ceil(len(self._ends) / _MOST_CLASSES))
            each = [self._transfer(nbytes, first, second) for first in some for second in some]
            found = self._typical[nbytes] = sum(each) / len(each)
        return found


def _numbered(keys: Sequence[object]) -> list[int]:
    """Equal numbers for equal keys, from 0."""
    numbers: dict[object, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


class Timeline(NamedTuple):
    """The times of a simulated step.

    Attributes:
        start: for each node, its start.
        end: for each node, its end.
        lane: for each node, its lane.
        last: the node that the call waits for last; -1 for no nodes.
        makespan: the time at which the call returns.
    """

    start: list[float]
    end: list[float]
    lane: list[int]
    last: int
    makespan: float


def simulate(work: Work, layout: Layout, places: Sequence[int]) -> Timeline:
    """The step with node i on device `places[i]`."""
    return _Simulation(work, layout, places, math.inf).run()


def simulate_shorter(work: Work, layout: Layout, places: Sequence[int], limit: float) -> Timeline | None:
    """The same step; None, as soon as that is certain, if it takes `limit` seconds or more."""
    try:
        found = _Simulation(work, layout, places, limit).run()
    except _TooLong:
        return None
    return found if found.makespan < limit else None


class _TooLong(Exception):
    """The step takes longer than it may."""


class _Simulation:
    def __init__(self, work: Work, layout: Layout, places: Sequence[int], limit: float) -> None:
        self._work = work
        self._layout = layout
        self._places = places
        self._limit = limit
        kind_of = layout.kind_of
        self._took = [seconds[kind_of[place]] for seconds, place in zip(work.seconds, places, strict=True)]
        self._lane = [layout.lane(took, place) for took, place in zip(self._took, places, strict=True)]
        self._left = [0.0] * layout.lanes
        """The time of what each lane has not begun."""
        for took, lane in zip(self._took, self._lane, strict=True):
            self._left[lane] += took
        self._missing = work.missing.copy()
        self._start = [0.0] * len(places)
        self._end = [0.0] * len(places)
        self._waiting: list[list[int]] = [[] for _ in range(layout.lanes)]
        self._busy = [False] * layout.lanes
        self._events: list[tuple[float, int]] = []
        """When a node has its inputs, or, by its complement, when it ends."""

    def run(self) -> Timeline:
        """All of it."""
        for node, missing in enumerate(self._missing):
            if not missing:
                self._announce(node)
        events, lane = self._events, self._lane
        while events:
            now = events[0][0]
            touched = set()
            while events and events[0][0] <= now:
                node = heapq.heappop(events)[1]
                touched.add(lane[node if node >= 0 else ~node])
                self._happen(node)
            for each in touched:
                if self._waiting[each] and not self._busy[each]:
                    self._begin(each, now)
        return Timeline(self._start, self._end, lane, *self._returned())

    def _announce(self, node: int) -> None:
        """All that it reads is made: it can start when that has arrived."""
        place, between, client = self._places[node], self._layout.between, self._layout.client
        ready = between(0.0, client, place)
        for source, nbytes in self._work.reads[node]:
            if source == CLIENT:
                arrival = between(nbytes, client, place)
            else:
                arrival = self._end[source] + between(nbytes, self._places[source], place)
            if arrival > ready:
                ready = arrival
        heapq.heappush(self._events, (ready, node))

    def _happen(self, node: int) -> None:
        if node >= 0:
            heapq.heappush(self._waiting[self._lane[node]], node)
            return
        self._busy[self._lane[~node]] = False
        missing = self._missing
        for user in self._work.users[~node]:
            missing[user] -= 1
            if not missing[user]:
                self._announce(user)

    def _begin(self, lane: int, now: float) -> None:
        node = heapq.heappop(self._waiting[lane])
        self._busy[lane] = True
        self._start[node] = now
        self._end[node] = end = now + self._took[node]
        self._left[lane] -= self._took[node]
        if end + max(self._left[lane], self._work.after[node]) >= self._limit:
            raise _TooLong
        heapq.heappush(self._events, (end, ~node))

    def _returned(self) -> tuple[int, float]:
        """The node that is back with the client last, and when."""
        back = [self._layout.between(0.0, place, self._layout.client) for place in range(len(self._layout.sites))]
        ends = [
            (end + back[place], node) for node, (end, place) in enumerate(zip(self._end, self._places, strict=True))
        ]
        for node, nbytes in self._work.fetched:
            ends.append((self._end[node] + self._layout.between(nbytes, self._places[node], self._layout.client), node))
        makespan, last = max(ends, default=(0.0, -1))
        return last, makespan


def peaks(work: Work, layout: Layout, places: Sequence[int], timeline: Timeline) -> list[float]:
    """The most bytes that each device holds at a time, as far as is known before a run."""
    changes: list[list[tuple[float, float]]] = [[] for _ in layout.sites]
    for place, begin, end, nbytes in _holdings(work, layout, places, timeline):
        changes[place] += [(begin, nbytes), (end, -nbytes)]
    states = [0.0] * len(layout.sites)
    for node, place in zip(work.nodes, places, strict=True):
        states[place] += state_bytes(node)
    return [
        state + max(itertools.accumulate([change for _, change in sorted(each)], initial=0.0))
        for state, each in zip(states, changes, strict=True)
    ]


def _holdings(
    work: Work, layout: Layout, places: Sequence[int], timeline: Timeline
) -> Iterator[tuple[int, float, float, float]]:
    """Return the memory held on each device over time: the outputs of a node, and their copies on other devices."""
    start, end = timeline.start, timeline.end
    until = list(end)
    copies: dict[tuple[int, float, int], float] = {}
    for node, reads in enumerate(work.reads):
        for source, nbytes in reads:
            if source != CLIENT:
                until[source] = max(until[source], end[node])
                if places[source] != places[node] and not layout.shares(places[source], places[node]):
                    key = source, nbytes, places[node]
                    copies[key] = max(copies.get(key, 0.0), end[node])
    for source, _ in work.fetched:
        until[source] = timeline.makespan
    for node, place in enumerate(places):
        yield place, start[node], until[node], work.made[node]
    for (source, nbytes, place), last in copies.items():
        yield place, end[source], last, nbytes
