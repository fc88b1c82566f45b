"""Places the flows of a session, and remembers the devices of its state."""

import dataclasses
import logging
import math
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final

from aioflow import errors
from aioflow.config import Config
from aioflow.devices.device import DeviceAttributes
from aioflow.graph.device_spec import DeviceSpec
from aioflow.graph.memo import Memo
from aioflow.plan.cost_model import CostModel
from aioflow.plan.memory_search import Found, Search, Tools, scheduled
from aioflow.plan.op_cost import Site
from aioflow.plan.partition import Part, partition
from aioflow.plan.passes.compress import Compression
from aioflow.plan.passes.fed_shapes import with_fed_shapes
from aioflow.plan.passes.flow import Flow, Node
from aioflow.plan.passes.memory_kinds import gathered, memory_kinds
from aioflow.plan.pipeline import Plan
from aioflow.plan.placement.colocation import state_key
from aioflow.plan.placement.constraints import lowered
from aioflow.plan.placement.packing import pack
from aioflow.plan.placement.refinement import place
from aioflow.plan.placement.report import Arrangement, Placement
from aioflow.plan.split import Split
from aioflow.tensors.codecs import edge_codecs
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
        self._lock = threading.RLock()
        self._expected: dict[str, float] = {}
        """The estimated peak bytes of each device in the last plan."""
        self._share_usable: dict[str, float] = {}
        """The share of the memory limit that plans may use, for devices that ran out of memory."""
        self.model: Final = config.cost_model or CostModel()
        self._settings: Final = (
            config.allow_soft_placement, config.order_for_memory, config.schedule_receives, config.recompute,
            config.swap_to_host, tuple(sorted(edge_codecs(config.compression).items())),
        )  # fmt: skip
        """The settings on which splits depend."""

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
    ) -> Split:
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
            parts = [Part(self._sites[0].name, flow, *every)]
            return Split(self._scheduled(parts, self._by_name(home), streamed))
        with self._lock:
            found = self._split(flow if fed is None else with_fed_shapes(flow, fed), streamed, home)
            self._keep(found)
            return found

    def _split(self, flow: Flow, streamed: bool, home: DeviceAttributes | None) -> Split:
        if self.is_limited and home is None:
            found = self._search(self._lowered(flow), streamed)
            self._report(found.placed)
            return Split.of(found.parts, found.placed.devices, found.peaks)
        placed, parts = self._parts(flow, home)
        self._report(placed)
        return Split.of(self._scheduled(parts, self._by_name(home), streamed), placed.devices, {})

    def shared(
        self, memo: Memo, call: Hashable, flow: Flow, fed: Sequence[Sequence[int]] | None, make: Callable[[], Plan]
    ) -> Plan:
        """Return the plan that `make` splits for this session, or an equal plan of another session.

        A plan is kept in `memo` by the call and everything on which its split depends. So the memo returns a plan only
        to a session that would make an equal one. The state that a shared plan places counts as placed there.

        Args:
            memo: the plans of the sessions of the graph.
            call: the key of the call: its flow depends on nothing else.
            flow: the flow.
            fed: the shapes of its feeds, if they are known.
            make: makes the plan by `split`.
        """
        with self._lock:
            figures = self.model.figures
            key = call, self._dependencies(flow, fed)
            plan = memo.get(key, make, lambda: self.model.figures == figures)
            self._keep(plan.split)
            return plan

    def _dependencies(self, flow: Flow, fed: Sequence[Sequence[int]] | None) -> Hashable:
        """The key of all that the split of a flow depends on besides the flow.

        These are the devices, the settings, measured costs, the homes of its state, the memory that other plans leave,
        and the shapes of its feeds.
        """
        several = len(self._sites) > 1
        costs = self.model.figures if several or self._config.recompute or self._config.swap_to_host else None
        fixed = tuple(self._sites), tuple(self._incarnations.values()), self._settings, costs
        if not several:
            return fixed
        nodes = [inner for node in flow.nodes for inner in node.everything()]
        homes = tuple([self._homes.get(state_key(node)) for node in nodes if node.definition.handle])
        lossy = any(node.definition.name == "lossy" for node in nodes)
        limited = (tuple(self._with_room(flow)), bool(self._share_usable)) if self.is_limited else None
        shapes = None if fed is None else tuple(map(tuple, fed))
        return *fixed, homes, self._compression.container if lossy else "", limited, shapes

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

    def _parts(self, flow: Flow, home: DeviceAttributes | None) -> tuple[Arrangement, Sequence[Part]]:
        at_home: frozenset[Node] = frozenset()
        if home is not None:
            flow, at_home = gathered(flow)
        flow = self._lowered(flow)
        placed = self._place(flow, self._with_room(flow))
        devices, incarnations = dict(placed.devices), self._incarnations
        if home is not None:
            devices |= dict.fromkeys(at_home, home.name)
            incarnations = {**incarnations, home.name: home.incarnation}
        return placed, partition(flow, devices, incarnations, self._compression)

    def _keep(self, split: Split) -> None:
        """Record where state is from here on, and the peaks that this plan is expected to have."""
        for key, device in split.homes.items():
            self._homes.setdefault(key, device)
        self._state.update(split.sizes)
        self._expected = dict(split.peaks) or self._expected

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
        return Search(flow, sites, tools, streamed).run(alone_first=bool(self._share_usable))

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
