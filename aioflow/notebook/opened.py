"""A session: its graph, its runs and its devices."""

from typing import TYPE_CHECKING, Final

from aioflow.notebook.card import card, facts, more, table
from aioflow.notebook.quantities import counted, size

if TYPE_CHECKING:
    from aioflow.session import Session

_DEVICES: Final = 50


def session_html(session: "Session") -> str:
    """A session: its state, its graph, its cluster, how many runs began, and its devices."""
    where = session.master
    rows = [
        ("graph", counted(session.graph.version, "operation")),
        ("runs", f"{counted(session.run_count, 'run')} began"),
        ("master", "" if where is None else str(where.address)),
    ]
    devices = session.list_devices()
    limits = [
        (each.name, "no limit" if each.memory_limit is None else f"at most {size(each.memory_limit)}")
        for each in devices
    ]
    listed = table(limits[:_DEVICES], ("device", "memory")) if devices else None
    state = "closed" if session.closed else "open"
    return card("Session", facts(rows), listed, more(len(devices) - _DEVICES, "devices"), note=state)
