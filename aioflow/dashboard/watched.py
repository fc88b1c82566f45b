"""From the thing to watch to the monitor with the sources for it."""

from typing import Any

from aioflow.dashboard.monitor import Monitor
from aioflow.dashboard.session_source import SessionSource
from aioflow.session import Session
from aioflow.tensors.recursion import safe_repr


def monitor_of(watched: Any) -> Monitor:
    """A monitor of a session, server or models. TypeError for anything else."""
    if isinstance(watched, Monitor):
        return watched
    if isinstance(watched, Session):
        return Monitor(f"session of {watched.graph!r}", "session", [SessionSource(watched)], ["run"])
    raise TypeError(f"a live page shows an af.Session, not {safe_repr(watched)}")
