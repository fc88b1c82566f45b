"""Schedules the partitions of a step to take less memory.

recompute     computes long-lived values again, if the session enables it
swap          moves long-lived values of a GPU to host memory meanwhile, if the session enables it
memory_order  orders the nodes so that they take less memory
delay         receives large values just before they are needed
"""

import dataclasses
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from aioflow.config import Config
from aioflow.plan.cost_model import CostModel
from aioflow.plan.op_cost import Site
from aioflow.plan.partition import Part
from aioflow.plan.passes.flow import Flow, Node
from aioflow.plan.passes.liveness import constant_bytes, peak
from aioflow.plan.passes.memory_order import memory_order
from aioflow.plan.passes.receives import delay_receives
from aioflow.plan.passes.recompute import recompute, swap
from aioflow.plan.placement.work import state_bytes

_log: Final = logging.getLogger("aioflow.plan")
_COMFORTABLE: Final = 0.9
"""The share of a device's memory from which on values are swapped out; below 1, because estimates are inexact."""


def scheduled(
    parts: Sequence[Part],
    sites: Mapping[str, Site],
    model: CostModel,
    config: Config,
    *,
    streamed: bool = False,
    ordered: bool = False,
) -> list[Part]:
    """Return the partitions, scheduled as the Config of the session says.

    Args:
        parts: the partitions.
        sites: the devices, by name.
        model: the cost model.
        config: the configuration of the session.
        streamed: whether feeds arrive while the partitions run.
        ordered: whether nodes keep their order.
    """
    flows = {part.device: _smaller(part.flow, sites[part.device], model, config, ordered) for part in parts}
    if config.schedule_receives and len(parts) > 1 and not ordered:
        flows = delay_receives(
            flows,
            lambda nbytes, source, target: model.transfer(nbytes, sites[source], sites[target]),
            lambda node, device: model.seconds(node, sites[device].kind),
            streamed=streamed,
        )
    return [dataclasses.replace(part, flow=flows[part.device]) for part in parts]


def _smaller(flow: Flow, site: Site, model: CostModel, config: Config, ordered: bool) -> Flow:
    """The flow of one device, taking less memory."""

    def seconds(node: Node) -> float:
        return model.seconds(node, site.kind)

    if config.recompute:
        before, flow = flow, recompute(flow, seconds=seconds, kind=site.kind)
        _tell_cost(before, flow, seconds, site)
    if config.swap_to_host:
        limit = site.memory_limit
        target, most = (0, 1.0) if limit is None else (int(_COMFORTABLE * limit) - _always(flow), math.inf)
        flow = swap(flow, model.to_host, target=target, most=most, seconds=seconds, kind=site.kind)
    return memory_order(flow, site.kind) if config.order_for_memory and not ordered else flow


def _tell_cost(before: Flow, after: Flow, seconds: Callable[[Node], float], site: Site) -> None:
    """Log the estimated cost of recomputing."""
    if after is before or not _log.isEnabledFor(logging.INFO):
        return
    more = sum(map(seconds, after.nodes)) / sum(map(seconds, before.nodes)) - 1
    peaks = peak(before, site.kind) / 1e6, peak(after, site.kind) / 1e6
    again = len(after.nodes) - len(before.nodes)
    _log.info(
        "%s recomputes %d nodes: an estimated %.0f%% more time, and a peak of %.1f MB instead of %.1f MB",
        site.name, again, 100 * more, peaks[1], peaks[0],
    )  # fmt: skip


def _always(flow: Flow) -> int:
    """The bytes that stay on the device between steps: state and constants."""
    return constant_bytes(flow) + int(sum(map(state_bytes, flow.nodes)))
