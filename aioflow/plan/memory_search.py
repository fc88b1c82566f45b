"""Searches for a plan that keeps to the memory limits of devices.

The bytes on a device depend on its nodes and on their order. So the search splits and schedules each plan before it
estimates the peaks. It tries these plans in order:

placed        the fastest placement; a device that exceeds its limit gets a smaller limit in the next try
alone         everything on one device
in turns      the devices take turns, in an order that takes little memory, with each value where there is room

It returns the first plan whose peaks certainly fit. That can be known of nodes that run in one order: those of one
device, and those of devices that take turns. Devices that run at the same time certainly fit only if they need never
free anything; otherwise their peaks are estimates, which must leave room. If no plan fits, the search returns the plan
that exceeds the limits least.

Schedules the partitions of a step to take less memory.

recompute     computes long-lived values again, if the session enables it
swap          moves long-lived values of a GPU to host memory meanwhile, if the session enables it
memory_order  orders the nodes so that they take less memory
delay         receives large values just before they are needed
"""

import dataclasses
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from aioflow.config import Config
from aioflow.kernels.control.control_flow import PRIMITIVES
from aioflow.plan.cost_model import CostModel
from aioflow.plan.op_cost import Site
from aioflow.plan.partition import Part
from aioflow.plan.passes.flow import Flow, Node
from aioflow.plan.passes.liveness import Liveness, constant_bytes, peak, peak_of_part
from aioflow.plan.passes.memory_order import memory_order
from aioflow.plan.passes.receives import delay_receives
from aioflow.plan.passes.recompute import recompute, swap
from aioflow.plan.passes.share_order import mark_shares
from aioflow.plan.passes.timeline import LONGEST
from aioflow.plan.placement.report import Arrangement
from aioflow.plan.placement.work import state_bytes
from aioflow.plan.turns import can_take_turns, in_turns, peaks_in_turns, with_turns
from aioflow.tensors.dtypes import DeviceKind

_TRIES: Final = 6
"""The most placements that are tried of a kind."""
_LESS: Final = 0.7
"""The factor by which a device's limit shrinks at least, from one try to the next."""
_ROOMY: Final = 0.6
"""The share of the limit up to which the estimate for devices that run at the same time is trusted."""
_COPIES: Final = ("to_device", "to_host")


class Found(NamedTuple):
    """A plan that was tried.

    Attributes:
        excess: the bytes beyond the limits of all devices.
        number: the number of plans tried before.
        flow: the flow.
        placed: the device of each node.
        parts: the partitions.
        peaks: the most bytes that each device holds, with state.
    """

    excess: float
    number: int
    flow: Flow
    placed: Arrangement
    parts: Sequence[Part]
    peaks: Mapping[str, float]


class Tools(NamedTuple):
    """The functions of the search.

    Attributes:
        place: the fastest placement on these devices.
        pack: a placement by memory, for the flow's order.
        alone: the placement on one device; None if a node requires another one.
        split: the parts of a flow whose nodes are placed.
        schedule: the parts scheduled to take less memory, and whether nodes stay in their order.
    """

    place: Callable[[Flow, Sequence[Site]], Arrangement]
    pack: Callable[[Flow, Sequence[Site]], Arrangement]
    alone: Callable[[Flow, Site], Arrangement | None]
    split: Callable[[Flow, Mapping[Node, str]], Sequence[Part]]
    schedule: Callable[[Sequence[Part], bool], Sequence[Part]]


class Search:
    """The search for one flow."""

    def __init__(self, flow: Flow, sites: Sequence[Site], tools: Tools, streamed: bool) -> None:
        """Search for a plan of a flow.

        Args:
            flow: the flow.
            sites: the devices, with the memory that plans may use.
            tools: the functions of the search.
            streamed: whether its feeds arrive while it runs.
        """
        self._flow, self._sites, self._tools, self._streamed = flow, sites, tools, streamed
        self._kinds = {site.name: site.kind for site in sites}
        self._tried = 0

    def run(self, alone_first: bool) -> Found:
        """Return the first plan that fits; if none does, the one that exceeds the limits least.

        Args:
            alone_first: whether to try plans for one device first, since plans for several have run out of memory.
        """
        kinds = [self._placed, self._alone, self._turns]
        if alone_first:
            kinds.insert(0, kinds.pop(1))
        best: Found | None = None
        for each in (found for tries in kinds for found in tries()):
            best = each if best is None else min(best, each, key=lambda found: found[:2])
            if not best.excess:
                break
        assert best is not None
        return best

    def _placed(self) -> Iterator[Found]:
        return self._narrowing(lambda sites: self._tools.place(self._flow, sites), self._free, _LESS)

    def _narrowing(
        self, place: Callable[[Sequence[Site]], Arrangement], planned: Callable[[Arrangement], Found], most: float
    ) -> Iterator[Found]:
        """Plans for smaller and smaller limits of the devices that exceed theirs, until nothing moves any more.

        Args:
            place: a placement for devices.
            planned: the plan for a placement.
            most: the share of a limit that is left at most from one try to the next.
        """
        sites, before = self._sites, None
        for _ in range(_TRIES):
            placed = place(sites)
            if before is not None and placed.devices == before.devices:
                return
            found, before = planned(placed), placed
            yield found
            sites = [_tighter(site, room, found.peaks, most) for site, room in zip(sites, self._sites, strict=True)]

    def _alone(self) -> Iterator[Found]:
        for site in self._sites:
            placed = self._tools.alone(self._flow, site)
            if placed is not None:
                yield self._free(placed)

    def _turns(self) -> Iterator[Found]:
        better = memory_order(self._flow, least=0)
        orders = [better] if better is self._flow else [better, self._flow]
        for flow in () if self._streamed else filter(can_take_turns, orders):
            pack, planned = partial(self._tools.pack, flow), partial(self._in_turns, flow)
            yield from self._narrowing(pack, planned, 1.0)

    def _free(self, placed: Arrangement) -> Found:
        """A plan in which the devices run at the same time."""
        parts = self._tools.schedule(self._tools.split(self._flow, placed.devices), False)
        peaks = {part.device: float(peak_of_part(part.flow, self._kinds[part.device])) for part in parts}
        if _is_one_unit(parts):
            return self._found(self._flow, placed, parts, peaks)
        bounds = {part.device: float(_all_bytes(part.flow, self._kinds[part.device])) for part in parts}
        likely = {device: min(bounds[device], peak / _ROOMY) for device, peak in peaks.items()}
        return self._found(self._flow, placed, parts, likely)

    def _in_turns(self, flow: Flow, placed: Arrangement) -> Found:
        turned, devices = with_turns(flow, placed.devices)
        parts = in_turns(self._tools.schedule(self._tools.split(turned, devices), True))
        peaks = peaks_in_turns(parts, self._kinds)
        placed = dataclasses.replace(placed, devices=devices, reasons=dict.fromkeys(devices, "by memory"))
        return self._found(turned, placed, parts, peaks)

    def _found(self, flow: Flow, placed: Arrangement, parts: Sequence[Part], peaks: Mapping[str, float]) -> Found:
        held = dict(peaks)
        for node, device in placed.devices.items():
            held[device] = held.get(device, 0.0) + state_bytes(node)
        self._tried += 1
        return Found(sum(_over(site, held) for site in self._sites), self._tried, flow, placed, parts, held)


def _is_one_unit(parts: Sequence[Part]) -> bool:
    """Whether all runs in one piece, and so in one order, but for copies between a GPU and the host."""
    nodes = parts[0].flow.nodes
    alone = len(parts) == 1 and len(nodes) <= LONGEST
    return alone and not any(_is_separate(node) and node.definition.name not in _COPIES for node in nodes)


def _is_separate(node: Node) -> bool:
    return node.waits or node.definition.name in PRIMITIVES


def _all_bytes(flow: Flow, kind: DeviceKind) -> int:
    """Return the bytes of all values of a partition, which no order of its nodes exceeds."""
    live = Liveness(flow, kind)
    return constant_bytes(flow) + sum(live.inside) + sum(size for made in live.makes for _, size in made)


def _over(site: Site, peaks: Mapping[str, float]) -> float:
    """The bytes that a device would hold beyond its limit."""
    return 0.0 if site.memory_limit is None else max(0.0, peaks.get(site.name, 0.0) - site.memory_limit)


def _tighter(site: Site, room: Site, peaks: Mapping[str, float], most: float) -> Site:
    """The device with a smaller limit for the next try, if this one exceeds its real limit."""
    if not _over(room, peaks):
        return site
    share = (room.memory_limit or 0) / peaks[room.name]
    return dataclasses.replace(site, memory_limit=int((site.memory_limit or 0) * min(share, most)))


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

    def seconds(node: Node, device: str) -> float:
        return model.seconds(node, sites[device].kind)

    flows = {part.device: _smaller(part.flow, sites[part.device], model, config, ordered) for part in parts}
    if config.schedule_receives and len(parts) > 1 and not ordered:
        flows = delay_receives(
            flows,
            lambda nbytes, source, target: model.transfer(nbytes, sites[source], sites[target]),
            seconds,
            streamed=streamed,
        )
    if len(parts) > 1 and not (streamed or ordered):
        mark_shares(flows, seconds)
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
