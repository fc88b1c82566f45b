"""Where the nodes of a run are put, device by device."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from aioflow.notebook.card import card, more, table
from aioflow.notebook.markup import Markup, element
from aioflow.notebook.quantities import counted, seconds

if TYPE_CHECKING:
    from aioflow.plan.placement.report import Placed, Placement

_ROWS: Final = 200
"""Nodes that are shown, at most, of all devices together."""
_DEVICES: Final = 50


def placement_html(placement: "Placement") -> str:
    """The nodes of each device, with the reasons why they are there."""
    found: dict[str, list[Placed]] = {}
    for node in placement.nodes:
        found.setdefault(node.device, []).append(node)
    shown = dict(sorted(found.items())[:_DEVICES])
    each = max(1, _ROWS // max(1, len(shown)))
    devices = [_device(name, nodes, each) for name, nodes in shown.items()]
    takes = f", estimated to take {seconds(placement.makespan)}" if placement.makespan else ""
    note = f"{counted(len(placement.nodes), 'node')} on {counted(len(found), 'device')}{takes}"
    return card("Placement", *devices, more(len(found) - len(shown), "devices"), note=note)


def _device(name: str, nodes: "Sequence[Placed]", most: int) -> Markup:
    head = element("summary", name, element("span", f"  {counted(len(nodes), 'node')}", class_="muted"))
    rows = table([(node.name, node.op_type, node.reason) for node in nodes[:most]], ("node", "type", "reason"))
    return element("details", head, rows, more(len(nodes) - most, "nodes"), open=True)
