"""What a part runs, and when, chosen to take less memory: receives just in time, the order of nodes, values dropped.

recompute     long-lived values are computed again, if the session asks for that
swap          those of a GPU are put away in host memory meanwhile, if the session asks for that
memory_order  of all that may come next comes what takes the least memory
delay         large values are received just before they are needed
"""

import dataclasses
from collections.abc import Mapping, Sequence

from aioflow.config import Config
from aioflow.cost_model import CostModel
from aioflow.costs import Site
from aioflow.partition import Part
from aioflow.passes.flow import Flow, Node
from aioflow.passes.memory_order import memory_order
from aioflow.passes.receives import delay_receives
from aioflow.passes.recompute import recompute, swap


def scheduled(
    parts: Sequence[Part], sites: Mapping[str, Site], model: CostModel, config: Config, streamed: bool
) -> list[Part]:
    """The same parts, as the session's Config has them scheduled. `streamed`: feeds arrive while they run."""
    flows = {part.device: _smaller(part.flow, sites[part.device], model, config) for part in parts}
    if config.schedule_receives and len(parts) > 1:
        flows = delay_receives(
            flows,
            lambda nbytes, source, target: model.transfer(nbytes, sites[source], sites[target]),
            lambda node, device: model.seconds(node, sites[device].kind),
            streamed=streamed,
        )
    return [dataclasses.replace(part, flow=flows[part.device]) for part in parts]


def _smaller(flow: Flow, site: Site, model: CostModel, config: Config) -> Flow:
    """The flow of one device, taking less memory."""

    def seconds(node: Node) -> float:
        return model.seconds(node, site.kind)

    if config.recompute:
        flow = recompute(flow, seconds=seconds, kind=site.kind)
    if config.swap_to_host:
        flow = swap(flow, model.to_host, seconds=seconds, kind=site.kind)
    return memory_order(flow, site.kind) if config.order_for_memory else flow


__all__ = ["scheduled"]
