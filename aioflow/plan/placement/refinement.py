"""Improves a placement: moves nodes to other devices while the simulated step gets shorter.

The time of a step is the length of a chain in which each node waits for the one before it: for an input, or for its
lane. Only a move of a node of that chain can make the step shorter, so the search tries no others.

Chooses a device for each node of a flow: several placements are refined, and the best is kept.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from aioflow.plan.cost_model import CostModel
from aioflow.plan.op_cost import Site
from aioflow.plan.passes.flow import Flow
from aioflow.plan.placement.assignment import Assignment, Why, order_of
from aioflow.plan.placement.colocation import is_everywhere
from aioflow.plan.placement.constraints import check_all, demands
from aioflow.plan.placement.report import Arrangement, Reasons
from aioflow.plan.placement.simulation import Layout, Timeline, peaks, simulate, simulate_shorter
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
        return self.makespan < other.worth_it

    @property
    def worth_it(self) -> float:
        """The seconds that a better placement with the same excess stays below."""
        return self.makespan * (1 - _WORTH)


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
        self.places: list[int] = list(places)
        self.timeline: Timeline = simulate(work, layout, self.places)
        self.score: Score = self._scored(self.places, self.timeline)
        self.moved: Final[set[int]] = set()
        self._budget = 0

    def run(self, budget: int) -> int:
        """Move nodes until no move helps, or `budget` moves are simulated. Returns the rest of the budget."""
        self._budget = budget
        while self._improve():
            pass
        return self._budget

    def _tried(self, places: Sequence[int]) -> Timeline | None:
        """The step with these places; None if it is surely no better: without limits on memory only time counts."""
        if self._layout.limited:
            return simulate(self._work, self._layout, places)
        return simulate_shorter(self._work, self._layout, places, self.score.worth_it)

    def _scored(self, places: Sequence[int], timeline: Timeline) -> Score:
        return Score(self._excess(places, timeline), timeline.makespan)

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
            timeline = self._tried(places)
            if timeline is not None and (score := self._scored(places, timeline)).beats(self.score):
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


_BUDGET: Final = 20_000
"""So many nodes are simulated to refine a placement: of a small flow much is tried, a very large one stays as it is."""


def place(
    flow: Flow,
    sites: Sequence[Site],
    model: CostModel,
    *,
    soft: bool = False,
    homes: Mapping[Hashable, str] | None = None,
) -> Arrangement:
    """Return a device for each node of the flow.

    Args:
        flow: the flow. A structured branch or loop is placed on one device as a whole.
        sites: the devices.
        model: the cost model.
        soft: whether an operation may run on another device if the requested one, by type and number, does not exist,
            has no kernel for it, or does not fit its state. Job, replica and task always hold.
        homes: the devices of existing state, by `state_key` of its handles.

    InvalidArgumentError if an operation requests a missing device, or no device fits it.
    """
    if len(sites) == 1:
        check_all(flow, sites, soft)
        nodes = [node for node in flow.nodes if not is_everywhere(node)]
        return Arrangement(dict.fromkeys(nodes, sites[0].name), dict.fromkeys(nodes, "the only device"), 0.0)
    demanded = demands(flow, sites, soft=soft, homes=homes or {})
    layout = Layout(sites, model)
    work = Work(flow, demanded, layout.kinds, model)
    chosen, why = _best(work, layout)
    devices = {node: sites[place].name for node, place in zip(work.nodes, chosen.places, strict=True)}
    return Arrangement(devices, Reasons(work, sites, why), chosen.timeline.makespan)


def _best(work: Work, layout: Layout) -> tuple[Refinement, list[Why]]:
    """The best of several refined placements: one on all devices, the others on a single device.

    The single devices are those with the most memory of each class.
    """
    order = order_of(work, layout)
    tried = [Assignment(work, layout, order)]
    if any(len(demand.sites) > 1 for demand in work.demands):
        tried += [Assignment(work, layout, order, [site]) for site in layout.roomiest]
    found = [(Refinement(work, layout, each.run().places), each.why) for each in tried]
    budget = _BUDGET
    for refinement, _ in sorted(found, key=lambda pair: pair[0].score):
        budget = refinement.run(budget)
    best, why = found[0]
    for other, its_why in found[1:]:
        if other.score.beats(best.score):
            best, why = other, its_why
    return best, ["moved: the step is shorter so" if i in best.moved else each for i, each in enumerate(why)]
