"""A flow split over devices."""

import dataclasses
from collections.abc import Hashable, Mapping, Sequence

from aioflow.plan.partition import Part
from aioflow.plan.passes.flow import Node
from aioflow.plan.placement.colocation import state_key
from aioflow.plan.placement.work import state_bytes


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Split:
    """The partitions of a flow, with what later splits of the session depend on.

    Attributes:
        parts: the partitions, one for each device.
        homes: the device of each state that it places.
        sizes: the bytes of each of these states.
        peaks: the most bytes that each device holds, as estimated; empty if the devices have no memory limits.
    """

    parts: Sequence[Part]
    homes: Mapping[Hashable, str] = dataclasses.field(default_factory=dict)
    sizes: Mapping[Hashable, float] = dataclasses.field(default_factory=dict)
    peaks: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, parts: Sequence[Part], devices: Mapping[Node, str], peaks: Mapping[str, float]) -> "Split":
        """The split whose nodes are on these devices."""
        handles = {node: device for node, device in devices.items() if node.definition.handle}
        homes = {state_key(node): device for node, device in handles.items()}
        return cls(parts, homes, {state_key(node): state_bytes(node) for node in handles}, peaks)
