"""Where the nodes of a flow are put, and why: for people."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from aioflow.plan.cost_model import duration
from aioflow.plan.op_cost import Site
from aioflow.plan.passes.flow import Node
from aioflow.plan.placement.assignment import Why
from aioflow.plan.placement.work import Work


class Placed(NamedTuple):
    """One node, and where it is put.

    Attributes:
        name: its name.
        op_type: its type.
        device: the name of the device.
        reason: how that came about.
    """

    name: str
    op_type: str
    device: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """Where the nodes of a run are put, and why. Its text is a table: a line for each node.

    Attributes:
        nodes: those that need a device: not feeds and constants, which are on all.
        makespan: the seconds that the step is estimated to take; 0 where there was nothing to choose.

    Examples:
        >>> x = af.add(1, 2, name="sum")
        >>> placement = await session.placement(x)
        >>> type(placement).__name__
        'Placement'
    """

    nodes: tuple[Placed, ...]
    makespan: float

    @property
    def devices(self) -> dict[str, str]:
        """The device of each node, by names."""
        return {node.name: node.device for node in self.nodes}

    def __str__(self) -> str:
        widths = [max(map(len, column)) for column in zip(*self.nodes, strict=True)][:3]
        lines = ["  ".join([*map(str.ljust, node[:3], widths), node.reason]).rstrip() for node in self.nodes]
        return "\n".join([repr(self)[1:-1], *lines])

    def __repr__(self) -> str:
        devices = len(set(self.devices.values()))
        takes = f", estimated to take {duration(self.makespan)}" if self.makespan else ""
        return f"<Placement of {len(self.nodes)} nodes on {devices} device{'s' * (devices != 1)}{takes}>"

    def _repr_html_(self) -> str:
        from aioflow.notebook.placed import placement_html

        return placement_html(self)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Arrangement:
    """The same of the nodes of a flow.

    Attributes:
        devices: the name of the device of each node that needs one.
        reasons: for each of these nodes, how that came about.
        makespan: the seconds that the step is estimated to take.
    """

    devices: Mapping[Node, str]
    reasons: Mapping[Node, str]
    makespan: float

    def report(self) -> Placement:
        """It in words."""
        nodes = [
            Placed(node.name, node.definition.name, device, self.reasons[node]) for node, device in self.devices.items()
        ]
        return Placement(tuple(nodes), self.makespan)


class Reasons(Mapping[Node, str]):
    """The reasons in words, which are made when they are asked for."""

    def __init__(self, work: Work, sites: Sequence[Site], why: Sequence[Why]) -> None:
        self._index: Final = work.index
        self._demands: Final = work.demands
        self._sites: Final = sites
        self._why: Final = why

    def __getitem__(self, node: Node) -> str:
        number = self._index[node]
        demand, why = self._demands[number], self._why[number]
        chosen = why if isinstance(why, str) else self._in_time(*why)
        return "; ".join(filter(None, [demand.why, chosen])) or "no other device has a kernel for it"

    def _in_time(self, at: float, other: int, later: float) -> str:
        text = f"ends first, at {duration(at)}"
        return text if later <= at else f"{text}; on {self._sites[other].name} at {duration(later)}"

    def __iter__(self) -> Iterator[Node]:
        return iter(self._index)

    def __len__(self) -> int:
        return len(self._index)
