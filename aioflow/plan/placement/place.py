"""Chooses a device for each node of a flow: several placements are refined, and the best is kept."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from aioflow.plan.cost_model import CostModel
from aioflow.plan.op_cost import Site
from aioflow.plan.passes.flow import Flow
from aioflow.plan.placement.assignment import Assignment, Why, order_of
from aioflow.plan.placement.colocation import is_everywhere
from aioflow.plan.placement.constraints import check_all, demands
from aioflow.plan.placement.refinement import Refinement
from aioflow.plan.placement.report import Arrangement, Reasons
from aioflow.plan.placement.simulation import Layout
from aioflow.plan.placement.work import Work

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
