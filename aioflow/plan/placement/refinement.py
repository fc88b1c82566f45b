"""A placement made better: nodes moved to other devices for as long as the simulated step gets shorter by it.

What a step takes is the length of a chain in which each node waits for the one before: for what it reads, or for the
lane it runs on. Only by moving what is in that chain the step gets shorter, so nothing else is tried.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from aioflow.plan.placement.simulation import Layout, Timeline, peaks, simulate
from aioflow.plan.placement.work import CLIENT, Work

_OPTIONS: Final = 8
"""So many devices are tried beside those of the neighbours."""
_WORTH: Final = 1e-3
"""Of its length: a step that gets shorter by less is not shorter, as far as estimates go."""


class Score(NamedTuple):
    """How good a placement is; less is better: bytes over the limits of the devices, then seconds."""

    excess: float
    makespan: float

    def beats(self, other: "Score") -> bool:
        """Whether it is better by more than the estimates may be wrong."""
        if self.excess != other.excess:
            return self.excess < other.excess
        return self.makespan < other.makespan * (1 - _WORTH)


class Refinement:
    """Places of nodes, better after `run` and never worse.

    Attributes:
        places: for each node, the number of its device.
        timeline: the step that they make.
        score: how good it is.
        moved: the nodes that are no longer where they were.
    """

    def __init__(self, work: Work, layout: Layout, places: Sequence[int]) -> None:
        self._work, self._layout = work, layout
        self.places = list(places)
        self.timeline, self.score = self._tried(self.places)
        self.moved: Final[set[int]] = set()
        self._budget = 0

    def run(self, budget: int) -> int:
        """Move nodes until no move helps, or so many have been simulated. Returns how many are left of these."""
        self._budget = budget
        while self._improve():
            pass
        return self._budget

    def _tried(self, places: Sequence[int]) -> tuple[Timeline, Score]:
        timeline = simulate(self._work, self._layout, places)
        return timeline, Score(self._excess(places, timeline), timeline.makespan)

    def _excess(self, places: Sequence[int], timeline: Timeline) -> float:
        if not self._layout.limited:
            return 0.0
        found = peaks(self._work, self._layout, places, timeline)
        limits = [site.memory_limit for site in self._layout.sites]
        return sum(max(0.0, peak - limit) for peak, limit in zip(found, limits, strict=True) if limit is not None)

    def _improve(self) -> bool:
        for members, site in self._moves():
            if self._budget < len(self.places):
                return False
            self._budget -= len(self.places)
            places = self.places.copy()
            for node in members:
                places[node] = site
            timeline, score = self._tried(places)
            if score.beats(self.score):
                self.places, self.timeline, self.score = places, timeline, score
                self.moved.update(members)
                return True
        return False

    def _moves(self) -> Iterator[tuple[list[int], int]]:
        """What may be moved, with all that must share its device, and where to: to its neighbours first."""
        seen: set[tuple[int, int]] = set()
        for node in self._chain():
            sites = self._work.demands[node].sites
            if len(sites) == 1:
                continue
            members = self._work.members(node)
            for site in dict.fromkeys([*[site for site in self._near(node) if site in sites], *sites[:_OPTIONS]]):
                if site != self.places[node] and (members[0], site) not in seen:
                    seen.add((members[0], site))
                    yield members, site

    def _near(self, node: int) -> list[int]:
        return [self.places[other] for other in (*self._work.sources(node), *self._work.users[node])]

    def _chain(self) -> Iterator[int]:
        """The nodes that the step waits for, from the last. Each once: what takes no time ends when it begins."""
        _, end, lane, node, _ = self.timeline
        by_end = {(lane[node], end[node]): node for node in range(len(end))}
        seen = set()
        while node >= 0 and node not in seen:
            seen.add(node)
            yield node
            node = self._before(node, by_end)

    def _before(self, node: int, by_end: dict[tuple[int, float], int]) -> int:
        """What it waits for: what it reads comes late, or its lane is not free."""
        start, end, lane = self.timeline.start[node], self.timeline.end, self.timeline.lane
        place, between = self.places[node], self._layout.between
        for source, nbytes in self._work.reads[node]:
            if source != CLIENT and end[source] + between(nbytes, self.places[source], place) >= start:
                return source
        return by_end.get((lane[node], start), -1)
