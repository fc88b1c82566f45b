"""Where the nodes of a flow are put, and why: for people."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from aioflow.cost_model import duration
from aioflow.costs import Site
from aioflow.passes.flow import Node
from aioflow.placement.assignment import Why
from aioflow.placement.work import Work


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Where the nodes of a flow are put, and why.

    Attributes:
        devices: the name of the device of each node that needs one: not of feeds and constants, which are on all.
        reasons: for each of these nodes, how that came about.
        makespan: the seconds that the step is estimated to take; 0 where there was nothing to choose.
    """

    devices: Mapping[Node, str]
    reasons: Mapping[Node, str]
    makespan: float

    def __str__(self) -> str:
        """A table: a line for each node."""
        rows = [(node.name, node.definition.name, device, self.reasons[node]) for node, device in self.devices.items()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:3] if rows else []
        lines = ["  ".join([*map(str.ljust, row[:3], widths), row[3]]).rstrip() for row in rows]
        return "\n".join([repr(self)[1:-1], *lines])

    def __repr__(self) -> str:
        devices = len(set(self.devices.values()))
        takes = f", estimated to take {duration(self.makespan)}" if self.makespan else ""
        return f"<Placement of {len(self.devices)} nodes on {devices} device{'s' * (devices != 1)}{takes}>"


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


__all__ = ["Placement", "Reasons"]
