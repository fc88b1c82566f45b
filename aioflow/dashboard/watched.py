"""From the thing to watch to the monitor with the sources for it."""

import os
import sys
from typing import Any, Final

from aioflow.dashboard.cluster_source import ClusterSource
from aioflow.dashboard.graph_source import GraphSource
from aioflow.dashboard.monitor import Monitor, Source
from aioflow.dashboard.serving_source import ServingSource
from aioflow.dashboard.session_source import SessionSource
from aioflow.dashboard.training_source import TrainingSource
from aioflow.dashboard.wait_source import WaitSource
from aioflow.net.server import Server
from aioflow.net.transport.channel import Network
from aioflow.net.wire.identity import USUAL
from aioflow.serving.models import Models
from aioflow.session import Session
from aioflow.tensors.recursion import safe_repr

SESSION_PAGES: Final = ("run", "timeline", "graph", "waiting", "training")
"""The pages of a session."""
CLUSTER_PAGES: Final = ("cluster", "waiting")
"""The pages of a task or cluster of which no session is watched."""


def monitor_of(watched: Any) -> Monitor:
    """A monitor of a session, server or models. TypeError for anything else."""
    if isinstance(watched, Monitor):
        return watched
    if isinstance(watched, Session):
        return _monitor_of_session(watched)
    if isinstance(watched, Server):
        source = ClusterSource(watched.address, watched.network, with_waits=True)
        return Monitor(watched.name, "task", [source], CLUSTER_PAGES)
    if isinstance(watched, Models):
        return Monitor(f"models: {', '.join(watched.names())}", "models", [ServingSource(watched)], ["serving"])
    raise TypeError(f"a live page shows an af.Session, af.train.Server or af.serving.Models, not {safe_repr(watched)}")


def monitor_of_cluster(address: str, network: Network) -> Monitor:
    """A monitor of the cluster that has a task at an address."""
    source = ClusterSource(address, network, with_waits=True)
    return Monitor(f"the cluster of {address}", "cluster", [source], CLUSTER_PAGES)


def _monitor_of_session(session: Session) -> Monitor:
    state, where = session.local_state, session.master
    progress = (lambda: session.run_count) if state is None else (lambda: state.progress)
    waits = WaitSource(session.explain, progress, lambda: session.closed)
    sources: list[Source] = [SessionSource(session), waits, GraphSource(session), TrainingSource(session)]
    if where is None:
        return Monitor(f"session of {_program()}", "session", sources, SESSION_PAGES)
    sources.append(ClusterSource(where.address, where.network, where.settings or USUAL))
    return Monitor(f"session of {_program()} at {where.address}", "session", sources, (*SESSION_PAGES, "cluster"))


def _program() -> str:
    """The name of this program, and its process."""
    return f"{os.path.basename(sys.argv[0]) or 'python'}, process {os.getpid()}"
