"""A session's placement: where nodes of its plans go, and where what has state has gone before."""

import logging
import threading
from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from aioflow.config import Config
from aioflow.cost_model import CostModel
from aioflow.costs import Site
from aioflow.device_spec import DeviceSpec
from aioflow.devices.device import Device
from aioflow.partition import Part, partition
from aioflow.passes.compress import Compression
from aioflow.passes.flow import Flow, Node
from aioflow.passes.lower import lower
from aioflow.placement import Placement, place
from aioflow.placement.colocation import Together, operations_in, state_key, together
from aioflow.placement.constraints import ANYWHERE, conflict, requested, spans

_log: Final = logging.getLogger("aioflow.placement")


class Placer:
    """Splits flows over the devices of a session. What holds state stays where it was placed first.

    Attributes:
        model: what things cost, estimated or measured.
    """

    def __init__(self, config: Config, devices: Sequence[Device]) -> None:
        self._config = config
        self._sites = [Site(device.name, device.spec, device.kind, device.memory.limit) for device in devices]
        self._incarnations = {device.name: device.incarnation for device in devices}
        self._compression = Compression(config.compression)
        self._homes: dict[Hashable, str] = {}
        self._lock = threading.Lock()
        self.model: Final = config.cost_model or CostModel()

    def split(self, flow: Flow) -> Sequence[Part]:
        """The parts of a flow, one for each device. InvalidArgumentError, saying why, if something has no place."""
        if len(self._sites) == 1 and not _asks(flow):
            every = tuple(range(len(flow.feeds))), tuple(range(len(flow.fetches)))
            return [Part(self._sites[0].name, flow, *every)]
        with self._lock:
            flow = self._lowered(flow)
            placed = self._place(flow)
            for node, device in placed.devices.items():
                if node.definition.handle:
                    self._homes.setdefault(state_key(node), device)
        if self._config.log_device_placement:
            _log.info("%s", placed)
        return partition(flow, placed.devices, self._incarnations, self._compression)

    def placement(self, flow: Flow) -> Placement:
        """Where each node of a flow would go, and why; branches and loops that span devices node by node."""
        return self._place(self._lowered(flow))

    def _lowered(self, flow: Flow) -> Flow:
        """The flow with primitives for branches and loops that span devices."""
        if len(self._sites) == 1:
            return flow
        flow = lower(flow, spans)
        while torn := _torn(flow, self._homes):
            flow = lower(flow, torn.__contains__)
        return flow

    def _place(self, flow: Flow) -> Placement:
        soft = self._config.allow_soft_placement
        return place(flow, self._sites, self.model, soft=soft, homes=self._homes)


def _asks(flow: Flow) -> bool:
    """Whether anything asks for a device."""
    return any(inner.operation.device for node in flow.nodes for inner in node.everything())


def _torn(flow: Flow, homes: Mapping[Hashable, str]) -> set[Node]:
    """The branches and loops that cannot be in one piece on the device of the state that they work on."""
    if not any(node.blocks for node in flow.nodes):
        return set()
    return {node for each in together(flow) if _is_torn(each, homes) for node in each.members if node.blocks}


def _is_torn(group: Together, homes: Mapping[Hashable, str]) -> bool:
    """Whether what is asked for in a group, and where its state lives, cannot be one device."""
    wanted = [requested(operation) for node in group.members for operation in operations_in(node)]
    wanted += [DeviceSpec.from_string(homes[key]) for key, _ in group.states if key in homes]
    merged = ANYWHERE
    for each in wanted:
        if conflict(merged, each) is not None:
            return True
        merged = merged.merge(each)
    return False


__all__ = ["Placer"]
