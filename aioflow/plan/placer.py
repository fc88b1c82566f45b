"""Places the flows of a session, and remembers the devices of its state."""

import dataclasses
import logging
import math
import threading
from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from aioflow import errors
from aioflow.config import Config
from aioflow.devices.device import DeviceAttributes
from aioflow.graph.device_spec import DeviceSpec
from aioflow.plan.cost_model import CostModel
from aioflow.plan.memory_search import Found, Search, Tools, scheduled
from aioflow.plan.op_cost import Site
from aioflow.plan.partition import Part, partition
from aioflow.plan.passes.compress import Compression
from aioflow.plan.passes.fed_shapes import with_fed_shapes
from aioflow.plan.passes.flow import Flow, Node
from aioflow.plan.passes.memory_kinds import gathered, memory_kinds
from aioflow.plan.placement.colocation import state_key
from aioflow.plan.placement.constraints import lowered
from aioflow.plan.placement.packing import pack
from aioflow.plan.placement.refinement import place
from aioflow.plan.placement.report import Arrangement, Placement
from aioflow.plan.placement.work import state_bytes
from aioflow.tensors.dtypes import DeviceKind

_log: Final = logging.getLogger("aioflow.placement")


class Placer:
    """Splits flows over the devices of a session. State stays on the device of its first placement.

    Attributes:
        model: the cost model.
    """

    def __init__(self, config: Config, devices: Sequence[DeviceAttributes], container: str = "") -> None:
        """Make the placer of a session.

        Args:
            config: the configuration of the session.
            devices: its devices.
            container: the container of the session's own state.
        """
        self._config = config
        self.use(devices)
        self._compression = Compression(config.compression, container)
        self._homes: dict[Hashable, str] = {}
        self._state: dict[Hashable, float] = {}
        """The bytes of the placed state."""
        self._lock = threading.Lock()
        self._expected: dict[str, float] = {}
        """The estimated peak bytes of each device in the last plan."""
        self._share_usable: dict[str, float] = {}
        """The share of the memory limit that plans may use, for devices that ran out of memory."""
        self.model: Final = config.cost_model or CostModel()

    def use(self, devices: Sequence[DeviceAttributes]) -> None:
        """Use these devices from now on. State still counts as placed where it was."""
        self._sites = list(map(_site, devices))
        self._incarnations = {device.name: device.incarnation for device in devices}

    @property
    def is_limited(self) -> bool:
        """Whether plans depend on the sizes of values: there are several devices, and one has a memory limit."""
        return len(self._sites) > 1 and any(site.memory_limit is not None for site in self._sites)

    def ran_out(self, device: str) -> None:
        """Record that a step ran out of the device's memory: later plans use a smaller share of it."""
        limits = {site.name: site.memory_limit for site in self._sites}
        expected = self._expected.get(device, math.inf) / (limits.get(device) or math.inf)
        with self._lock:
            self._share_usable[device] = min(self._share_usable.get(device, 1.0), expected) * _LESS

    def split(
        self,
        flow: Flow,
        streamed: bool = False,
        home: DeviceAttributes | None = None,
        fed: Sequence[Sequence[int]] | None = None,
    ) -> Sequence[Part]:
        """Return the partitions of a flow, one for each device. InvalidArgumentError if a node has no possible device.

        Args:
            flow: the flow.
            streamed: whether its feeds arrive while it runs.
            home: the device of all feeds and fetches; it need not be a device of the session. None for any device of
                the session.
            fed: the shapes of its feeds, if they are known.
        """
        if self._is_alone(flow, home):
            every = tuple(range(len(flow.feeds))), tuple(range(len(flow.fetches)))
            return self._scheduled([Part(self._sites[0].name, flow, *every)], self._by_name(home), streamed)
        with self._lock:
            if fed is not None:
                flow = with_fed_shapes(flow, fed)
            if self.is_limited and home is None:
                found = self._search(self._lowered(flow), streamed)
                self._keep_homes(found.placed.devices)
                self._report(found.placed)
                return found.parts
            return self._scheduled(self._parts(flow, home), self._by_name(home), streamed)

    def _by_name(self, home: DeviceAttributes | None) -> dict[str, Site]:
        return {site.name: site for site in [*self._sites, *([] if home is None else [_site(home)])]}

    def _is_alone(self, flow: Flow, home: DeviceAttributes | None) -> bool:
        """Whether the session has one device without a memory limit, so that nothing must be placed."""
        alone = len(self._sites) == 1 and (home is None or home.name == self._sites[0].name)
        return alone and not _asks(flow) and not self._config.log_device_placement

    def _scheduled(
        self, parts: Sequence[Part], sites: Mapping[str, Site], streamed: bool = False, ordered: bool = False
    ) -> Sequence[Part]:
        whole = [_with_memory_kinds(part, sites[part.device].kind) for part in parts]
        return scheduled(whole, sites, self.model, self._config, streamed=streamed, ordered=ordered)

    def _parts(self, flow: Flow, home: DeviceAttributes | None) -> Sequence[Part]:
        at_home: frozenset[Node] = frozenset()
        if home is not None:
            flow, at_home = gathered(flow)
        flow = self._lowered(flow)
        placed = self._place(flow, self._with_room(flow))
        devices, incarnations = dict(placed.devices), self._incarnations
        if home is not None:
            devices |= dict.fromkeys(at_home, home.name)
            incarnations = {**incarnations, home.name: home.incarnation}
        self._keep_homes(placed.devices)
        self._report(placed)
        return partition(flow, devices, incarnations, self._compression)

    def _keep_homes(self, devices: Mapping[Node, str]) -> None:
        """Record where state is from here on."""
        for node, device in devices.items():
            if node.definition.handle:
                self._homes.setdefault(state_key(node), device)
                self._state[state_key(node)] = state_bytes(node)

    def _report(self, placed: Arrangement) -> None:
        if self._config.log_device_placement:
            _log.info("%s", placed.report())

    def placement(self, flow: Flow) -> Placement:
        """Where each node of a flow would go, and why; branches and loops that span devices node by node."""
        flow = self._lowered(flow)
        return self._place(flow, self._with_room(flow)).report()

    def _lowered(self, flow: Flow) -> Flow:
        """The flow with primitives for branches and loops that span devices."""
        return flow if len(self._sites) == 1 else lowered(flow, self._sites, self._homes)

    def _place(self, flow: Flow, sites: Sequence[Site]) -> Arrangement:
        soft = self._config.allow_soft_placement
        return place(flow, sites, self.model, soft=soft, homes=self._homes)

    def _search(self, flow: Flow, streamed: bool) -> Found:
        """A plan that fits the devices' memory, or else the one that exceeds it least."""
        sites = self._with_room(flow)
        by_name = {site.name: site for site in sites}
        tools = Tools(
            self._place,
            lambda ordered, rooms: pack(ordered, rooms, soft=self._config.allow_soft_placement, homes=self._homes),
            self._place_alone,
            lambda placed, devices: partition(placed, devices, self._incarnations, self._compression),
            lambda parts, ordered: self._scheduled(parts, by_name, streamed, ordered),
        )
        found = Search(flow, sites, tools, streamed).run(alone_first=bool(self._share_usable))
        self._expected = dict(found.peaks)
        return found

    def _place_alone(self, flow: Flow, site: Site) -> Arrangement | None:
        """The placement of all nodes on one device; None if a node requires another device."""
        keys = [state_key(node) for node in flow.nodes if node.definition.handle]
        if any(self._homes.get(key, site.name) != site.name for key in keys):
            return None
        try:
            return place(flow, [site], self.model, homes=self._homes)
        except errors.InvalidArgumentError:
            return None

    def _with_room(self, flow: Flow) -> list[Site]:
        """The devices with the memory that the state of other plans leaves."""
        mine = {state_key(node) for node in flow.nodes if node.definition.handle}
        held = dict.fromkeys(self._incarnations, 0.0)

        def usable(site: Site) -> float:
            return (site.memory_limit or 0) * self._share_usable.get(site.name, 1.0)

        for key, size in self._state.items():
            if key not in mine:
                held[self._homes[key]] += size
        return [
            site if site.memory_limit is None
            else dataclasses.replace(site, memory_limit=int(max(0, usable(site) - held[site.name])))
            for site in self._sites
        ]  # fmt: skip


_LESS: Final = 0.7
"""The factor by which the usable share of a device's memory shrinks when a step runs out of it."""


def _site(device: DeviceAttributes) -> Site:
    spec, kind = DeviceSpec.from_string(device.name), DeviceKind(device.device_type)
    return Site(device.name, spec, kind, device.memory_limit)


def _with_memory_kinds(part: Part, kind: DeviceKind) -> Part:
    return part if kind is DeviceKind.CPU else dataclasses.replace(part, flow=memory_kinds(part.flow))


def _asks(flow: Flow) -> bool:
    """Whether anything asks for a device."""
    return any(inner.operation.device for node in flow.nodes for inner in node.everything())
