"""Chooses the sources of a monitor for the program that is watched: a session, a task, a cluster or served models."""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from aioflow.dashboard.board import Board
from aioflow.dashboard.cluster_source import LIMIT, ClusterSource
from aioflow.dashboard.graph_source import GraphSource
from aioflow.dashboard.monitor import PERIOD, Monitor, Source
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
from aioflow.train.monitored_session import MonitoredSession

SESSION_PAGES: Final = ("run", "timeline", "graph", "waiting", "training")
"""The pages of a session."""
CLUSTER_PAGES: Final = ("cluster", "waiting")
"""The pages of a task or cluster of which no session is watched."""
Clock = Callable[[], float]


def monitor_of(watched: Any, clock: Clock = time.time) -> Monitor:
    """A monitor of a session, server or models. TypeError for anything else.

    RuntimeError if a monitored session is not open.
    """
    match watched:
        case Monitor():
            return watched
        case Session():
            return _monitor_of_session(lambda: None if watched.closed else watched, clock)
        case MonitoredSession():
            return _monitor_of_session(lambda: watched.opened, clock)
        case Server():
            source = ClusterSource(watched.address, watched.network, with_waits=True, clock=clock)
            return Monitor(watched.name, "task", [source], CLUSTER_PAGES, clock)
        case Models():
            title = f"models: {', '.join(watched.names())}"
            return Monitor(title, "models", [ServingSource(watched, clock)], ["serving"], clock)
    kinds = "af.Session, af.train.MonitoredSession, af.train.Server or af.serving.Models"
    raise TypeError(f"a live page shows an {kinds}, not {safe_repr(watched)}")


def monitor_of_cluster(address: str, network: Network, limit: float = LIMIT) -> Monitor:
    """A monitor of the cluster that has a task at an address. A task must answer within `limit` seconds."""
    source = ClusterSource(address, network, with_waits=True, limit=limit)
    return Monitor(f"the cluster of {address}", "cluster", [source], CLUSTER_PAGES)


def _monitor_of_session(current: Callable[[], Session | None], clock: Clock) -> Monitor:
    session = current()
    if session is None:
        raise RuntimeError("the session is closed, or not open yet: open it first")
    sources: list[Source] = [_CurrentSession(current, clock), TrainingSource(current, clock)]
    title, where = f"session of {_program()}", session.master
    if where is None:
        return Monitor(title, "session", sources, SESSION_PAGES, clock)
    sources.append(ClusterSource(where.address, where.network_of(session.config), where.settings or USUAL, clock=clock))
    return Monitor(f"{title}, at {where.address}", "session", sources, (*SESSION_PAGES, "cluster"), clock)


class _CurrentSession:
    """Looks at a session until it is closed, and then at the one that takes its place after a recovery."""

    def __init__(self, current: Callable[[], Session | None], clock: Clock) -> None:
        self._current: Final = current
        self._clock: Final = clock

    async def watch(self, board: Board) -> None:
        """Run the sources of each session."""
        while (session := self._current()) is not None:
            async with asyncio.TaskGroup() as group:
                for source in _sources_of(session, self._clock):
                    group.create_task(source.watch(board))
            await asyncio.sleep(PERIOD)


def _sources_of(session: Session, clock: Clock) -> list[Source]:
    state = session.local_state
    progress = (lambda: session.run_count) if state is None else (lambda: state.progress)
    waits = WaitSource(session.explain, progress, lambda: session.closed, clock)
    return [SessionSource(session, clock), waits, GraphSource(session)]


def _program() -> str:
    """The name of this program, and its process."""
    return f"{os.path.basename(sys.argv[0]) or 'python'}, process {os.getpid()}"
