"""A session's placement: where nodes of its plans go, and where what has state has gone before."""

import dataclasses
import logging
import threading
from collections.abc import Hashable, Sequence
from typing import Final

from aioflow.config import Config
from aioflow.cost_model import CostModel
from aioflow.costs import Site
from aioflow.device_spec import DeviceSpec
from aioflow.devices.device import DeviceAttributes
from aioflow.dtypes import DeviceKind
from aioflow.partition import Part, partition
from aioflow.passes.compress import Compression
from aioflow.passes.flow import Flow, Node
from aioflow.passes.gather import gathered
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
        self.model: Final = config.cost_model or CostModel()

    def use(self, devices: Sequence[DeviceAttributes]) -> None:
        """These are the devices from here on. What holds state is still taken to be where it was placed."""
        self._sites = list(map(_site, devices))
        self._incarnations = {device.name: device.incarnation for device in devices}

    def split(self, flow: Flow, streamed: bool = False, home: DeviceAttributes | None = None) -> Sequence[Part]:
        """The parts of a flow, one for each device. InvalidArgumentError, saying why, if something has no place.

        Args:
            flow: what is to run.
            streamed: whether its feeds arrive while it runs.
            home: the device that all feeds come to, and that all fetches come from, though it be none of the session's;
                any of these, if it is None.
        """
        sites = {site.name: site for site in [*self._sites, *([] if home is None else [_site(home)])]}
        parts = [_with_memory_kinds(part, sites[part.device].kind) for part in self._parts(flow, home)]
        return scheduled(parts, sites, self.model, self._config, streamed)

    def _parts(self, flow: Flow, home: DeviceAttributes | None) -> Sequence[Part]:
        alone = len(self._sites) == 1 and (home is None or home.name == self._sites[0].name)
        if alone and not _asks(flow) and not self._config.log_device_placement:
            every = tuple(range(len(flow.feeds))), tuple(range(len(flow.fetches)))
            return [Part(self._sites[0].name, flow, *every)]
        with self._lock:
            at_home: frozenset[Node] = frozenset()
            if home is not None:
                flow, at_home = gathered(flow)
            flow = self._lowered(flow)
            placed = self._place(flow)
            devices, incarnations = dict(placed.devices), self._incarnations
            if home is not None:
                devices |= dict.fromkeys(at_home, home.name)
                incarnations = {**incarnations, home.name: home.incarnation}
            for node, device in placed.devices.items():
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

    def _place(self, flow: Flow) -> Arrangement:
        soft = self._config.allow_soft_placement
        return place(flow, self._with_room(flow), self.model, soft=soft, homes=self._homes)

    def _with_room(self, flow: Flow) -> list[Site]:
        """The devices with the memory that the state of other plans leaves."""
        mine = {state_key(node) for node in flow.nodes if node.definition.handle}
        held = dict.fromkeys(self._incarnations, 0.0)
        for key, size in self._state.items():
            if key not in mine:
                held[self._homes[key]] += size
        return [
            site if site.memory_limit is None
            else dataclasses.replace(site, memory_limit=int(max(0, site.memory_limit - held[site.name])))
            for site in self._sites
        ]  # fmt: skip


def _site(device: DeviceAttributes) -> Site:
    spec, kind = DeviceSpec.from_string(device.name), DeviceKind(device.device_type)
    return Site(device.name, spec, kind, device.memory_limit)


def _with_memory_kinds(part: Part, kind: DeviceKind) -> Part:
    return part if kind is DeviceKind.CPU else dataclasses.replace(part, flow=memory_kinds(part.flow))


def _asks(flow: Flow) -> bool:
    """Whether anything asks for a device."""
    return any(inner.operation.device for node in flow.nodes for inner in node.everything())


__all__ = ["Placer"]
