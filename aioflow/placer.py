"""A session's placement: where nodes of its plans go, and where what has state has gone before."""

import dataclasses
import logging
import math
import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final

from aioflow import errors
from aioflow.config import Config
from aioflow.cost_model import CostModel
from aioflow.costs import Site
from aioflow.device_spec import DeviceSpec
from aioflow.devices.device import DeviceAttributes
from aioflow.dtypes import DeviceKind
from aioflow.partition import Part, partition
from aioflow.passes.compress import Compression
from aioflow.passes.fed_shapes import with_fed_shapes
from aioflow.passes.flow import Flow, Node
from aioflow.passes.gather import gathered
from aioflow.passes.liveness import peak_of_part
from aioflow.passes.memory_kinds import memory_kinds
from aioflow.placement import Arrangement, Placement, lowered, place, state_bytes, state_key
from aioflow.scheduling import scheduled

_log: Final = logging.getLogger("aioflow.placement")


class Placer:
    """Splits flows over the devices of a session. What holds state stays where it was placed first.

    Attributes:
        model: what things cost, estimated or measured.
    """

    def __init__(self, config: Config, devices: Sequence[DeviceAttributes], container: str = "") -> None:
        """Of a session.

        Args:
            config: how it works.
            devices: what it can use.
            container: where there is on these devices what is the session's alone.
        """
        self._config = config
        self.use(devices)
        self._compression = Compression(config.compression, container)
        self._homes: dict[Hashable, str] = {}
        self._state: dict[Hashable, float] = {}
        """The bytes of what is at home."""
        self._lock = threading.Lock()
        self._expected: dict[str, float] = {}
        """The estimated peak bytes of each device in the last plan."""
        self._share_usable: dict[str, float] = {}
        """The share of the memory limit that plans may use, for devices that ran out of memory."""
        self.model: Final = config.cost_model or CostModel()

    def use(self, devices: Sequence[DeviceAttributes]) -> None:
        """These are the devices from here on. What holds state is still taken to be where it was placed."""
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
        """The parts of a flow, one for each device. InvalidArgumentError, saying why, if something has no place.

        Args:
            flow: what is to run.
            streamed: whether its feeds arrive while it runs.
            home: the device of all feeds and fetches; it need not be a device of the session. None for any device of
                the session.
            fed: the shapes of its feeds, if they are known.
        """
        sites = {site.name: site for site in [*self._sites, *([] if home is None else [_site(home)])]}
        return self._scheduled(self._parts(flow, home, fed), sites, streamed)

    def _scheduled(self, parts: Sequence[Part], sites: Mapping[str, Site], streamed: bool = False) -> Sequence[Part]:
        whole = [_with_memory_kinds(part, sites[part.device].kind) for part in parts]
        return scheduled(whole, sites, self.model, self._config, streamed)

    def _parts(self, flow: Flow, home: DeviceAttributes | None, fed: Sequence[Sequence[int]] | None) -> Sequence[Part]:
        alone = len(self._sites) == 1 and (home is None or home.name == self._sites[0].name)
        if alone and not _asks(flow) and not self._config.log_device_placement:
            every = tuple(range(len(flow.feeds))), tuple(range(len(flow.fetches)))
            return [Part(self._sites[0].name, flow, *every)]
        with self._lock:
            at_home: frozenset[Node] = frozenset()
            sized = flow if fed is None else with_fed_shapes(flow, fed)
            if home is not None:
                flow, at_home = gathered(flow)
                sized, _ = gathered(sized)
            flow, sized = self._lowered(flow), self._lowered(sized)
            placed = self._place_with_room(sized) if self.is_limited and home is None else self._place(sized)
            twins = {node: twin for node, twin in zip(flow.nodes, sized.nodes, strict=True) if twin in placed.devices}
            devices = {node: placed.devices[twin] for node, twin in twins.items()}
            incarnations = self._incarnations
            if home is not None:
                devices |= dict.fromkeys(at_home, home.name)
                incarnations = {**incarnations, home.name: home.incarnation}
            for node in twins:
                device = placed.devices[twins[node]]
                if node.definition.handle:
                    self._homes.setdefault(state_key(node), device)
                    self._state[state_key(node)] = state_bytes(node)
        if self._config.log_device_placement:
            _log.info("%s", placed.report())
        return partition(flow, devices, incarnations, self._compression)

    def placement(self, flow: Flow) -> Placement:
        """Where each node of a flow would go, and why; branches and loops that span devices node by node."""
        return self._place(self._lowered(flow)).report()

    def _lowered(self, flow: Flow) -> Flow:
        """The flow with primitives for branches and loops that span devices."""
        return flow if len(self._sites) == 1 else lowered(flow, self._sites, self._homes)

    def _place(self, flow: Flow, sites: Sequence[Site] | None = None) -> Arrangement:
        soft = self._config.allow_soft_placement
        return place(flow, sites or self._with_room(flow), self.model, soft=soft, homes=self._homes)

    def _place_with_room(self, flow: Flow) -> Arrangement:
        """A placement that fits the devices' memory; if none of those tried fits, the one that exceeds it least.

        The bytes on a device depend on its nodes and their order. So each placement is split and scheduled before its
        peaks are estimated. A device that exceeds its limit gets a smaller limit in the next try. If that does not
        help, each device is tried alone. After a step ran out of memory, each device is tried alone first, because
        estimates for devices that wait for each other are less certain.
        """
        rooms = self._with_room(flow)
        found: list[tuple[float, int, Arrangement, dict[str, float]]] = []
        for number, placed in enumerate(self._tries(flow, rooms, found)):
            peaks = self._peaks(flow, placed, rooms)
            found.append((sum(_over(site, peaks) for site in rooms), number, placed, peaks))
            if not found[-1][0]:
                break
        *_, placed, self._expected = min(found)
        return placed

    def _tries(
        self, flow: Flow, rooms: Sequence[Site], found: Sequence[tuple[float, int, Arrangement, dict[str, float]]]
    ) -> Iterator[Arrangement]:
        """The placements to try, in order. `found` holds the results of earlier ones."""
        alone = (placed for site in rooms if (placed := self._place_alone(flow, site)) is not None)
        if self._share_usable:
            yield from alone
        sites = rooms
        for _ in range(_TRIES):
            yield self._place(flow, sites)
            sites = [_tighter(site, room, found[-1][-1]) for site, room in zip(sites, rooms, strict=True)]
        yield from alone

    def _place_alone(self, flow: Flow, site: Site) -> Arrangement | None:
        """The placement of all nodes on one device; None if a node requires another device."""
        keys = [state_key(node) for node in flow.nodes if node.definition.handle]
        if any(self._homes.get(key, site.name) != site.name for key in keys):
            return None
        try:
            return place(flow, [site], self.model, homes=self._homes)
        except errors.InvalidArgumentError:
            return None

    def _peaks(self, flow: Flow, placed: Arrangement, sites: Sequence[Site]) -> dict[str, float]:
        """The estimated peak bytes of each device, including state."""
        by_name = {site.name: site for site in sites}
        parts = self._scheduled(partition(flow, dict(placed.devices), self._incarnations, self._compression), by_name)
        found = {part.device: float(peak_of_part(part.flow, by_name[part.device].kind)) for part in parts}
        for node, device in placed.devices.items():
            found[device] = found.get(device, 0.0) + state_bytes(node)
        return found

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


_TRIES: Final = 6
"""The most placements that are tried to find one that fits the memory."""
_LESS: Final = 0.7
"""The factor by which the usable share of a device's memory shrinks when a step runs out of it."""


def _over(site: Site, peaks: Mapping[str, float]) -> float:
    """The bytes that a device would hold beyond its limit."""
    return 0.0 if site.memory_limit is None else max(0.0, peaks.get(site.name, 0.0) - site.memory_limit)


def _tighter(site: Site, room: Site, peaks: Mapping[str, float]) -> Site:
    """The device with a smaller memory limit for the next placement, if this one exceeds its real limit."""
    if not _over(room, peaks):
        return site
    share = (room.memory_limit or 0) / peaks[room.name]
    return dataclasses.replace(site, memory_limit=int((site.memory_limit or 0) * min(share, _LESS)))


def _site(device: DeviceAttributes) -> Site:
    spec, kind = DeviceSpec.from_string(device.name), DeviceKind(device.device_type)
    return Site(device.name, spec, kind, device.memory_limit)


def _with_memory_kinds(part: Part, kind: DeviceKind) -> Part:
    return part if kind is DeviceKind.CPU else dataclasses.replace(part, flow=memory_kinds(part.flow))


def _asks(flow: Flow) -> bool:
    """Whether anything asks for a device."""
    return any(inner.operation.device for node in flow.nodes for inner in node.everything())


__all__ = ["Placer"]
