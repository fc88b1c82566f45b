"""Improves a placement: moves nodes to other devices while the simulated step gets shorter.

The time of a step is the length of a chain in which each node waits for the one before it: for an input, or for its
lane. Only a move of a node of that chain can make the step shorter, so the search tries no others.
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
    """A placement that `run` improves.

    Attributes:
        places: for each node, the number of its device.
        timeline: the simulated step.
        score: the score of the timeline.
        moved: the moved nodes.
    """

    def __init__(self, work: Work, layout: Layout, places: Sequence[int]) -> None:
        self._work, self._layout = work, layout
        self.places = list(places)
        self.timeline, self.score = self._tried(self.places)
        self.moved: Final[set[int]] = set()
        self._budget = 0

    def run(self, budget: int) -> int:
        """Move nodes until no move helps, or `budget` moves are simulated. Returns the rest of the budget."""
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
        """Yield moves: nodes that share a device, and a target device; devices of neighbours first."""
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
        """Yield the nodes of the chain that the step waits for, from the last, each once."""
        _, end, lane, node, _ = self.timeline
        by_end = {(lane[node], end[node]): node for node in range(len(end))}
        seen = set()
        while node >= 0 and node not in seen:
            seen.add(node)
            yield node
            node = self._before(node, by_end)

    def _before(self, node: int, by_end: dict[tuple[int, float], int]) -> int:
        """Return the node that it waits for: the source of a late input, or the previous node of its lane."""
        start, end, lane = self.timeline.start[node], self.timeline.end, self.timeline.lane
        place, between = self.places[node], self._layout.between
        for source, nbytes in self._work.reads[node]:
            if source != CLIENT and end[source] + between(nbytes, self.places[source], place) >= start:
                return source
        return by_end.get((lane[node], start), -1)
