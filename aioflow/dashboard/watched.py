"""From the thing to watch to the monitor with the sources for it."""

from typing import Any, Final

from aioflow.dashboard.graph_source import GraphSource
from aioflow.dashboard.monitor import Monitor, Source
from aioflow.dashboard.session_source import SessionSource
from aioflow.dashboard.wait_source import WaitSource
from aioflow.session import Session
from aioflow.tensors.recursion import safe_repr

SESSION_PAGES: Final = ("run", "timeline", "graph", "waiting")
"""The pages of a session."""


def monitor_of(watched: Any) -> Monitor:
    """A monitor of a session, server or models. TypeError for anything else."""
    if isinstance(watched, Monitor):
        return watched
    if isinstance(watched, Session):
        return Monitor(f"session of {watched.graph!r}", "session", sources_of(watched), SESSION_PAGES)
    raise TypeError(f"a live page shows an af.Session, not {safe_repr(watched)}")


def sources_of(session: Session) -> list[Source]:
    """What looks at a session."""
    state = session.local_state
    progress = (lambda: session.run_count) if state is None else (lambda: state.progress)
    waits = WaitSource(session.explain, progress, lambda: session.closed)
    return [SessionSource(session), waits, GraphSource(session)]
