"""Looks at a session: its speed, sampled steps, queues, memory, and the lag of the event loop."""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from aioflow.dashboard.board import Board
from aioflow.dashboard.messages import Points
from aioflow.dashboard.monitor import Pace
from aioflow.dashboard.sampling import Sample, Sampler
from aioflow.dashboard.step_trace import LARGE, step_of
from aioflow.devices.device import Device
from aioflow.graph.graph import Graph
from aioflow.queues import Queue
from aioflow.runtime.session_state import SessionState
from aioflow.session import Session

_PAGE: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class SessionSource:
    """Looks at a session.

    Args:
        session: the session.
        clock: the time of day.
    """

    def __init__(self, session: Session, clock: Callable[[], float] = time.time) -> None:
        self._session: Final = session
        self._clock: Final = clock

    async def watch(self, board: Board) -> None:
        """Post numbers twice a second, and traced steps, until the session is closed."""
        session, pace = self._session, Pace()
        sampler = Sampler(session, self._clock)
        runs, then, lag = session.run_count, self._clock(), 0.0
        try:
            while not session.closed:
                sampler.ask()
                lag = await pace.rest()
                samples = sampler.take()
                with pace.look():
                    now = self._clock()
                    rate = (session.run_count - runs) / max(now - then, 1e-9)
                    runs, then = session.run_count, now
                    board.post(Points(now, {"rate:steps": rate, "lag:loop": lag, **_of_samples(samples),
                                            **memory(session.local_state), **queues(session.local_state)}))  # fmt: skip
                await _post_traces(board, samples, session.graph)
        finally:
            if not session.closed:
                sampler.stop()


def _of_samples(samples: Iterable[Sample]) -> dict[str, float]:
    """The mean seconds of the sampled steps, and the last fetched numbers."""
    plain = [sample.seconds for sample in samples if sample.trace is None]
    found = {"time:step": float(np.mean(plain))} if plain else {}
    for sample in samples:
        found |= {f"value:{name}": value for name, value in sample.numbers.items()}
    return found


async def _post_traces(board: Board, samples: Iterable[Sample], graph: Graph) -> None:
    """Post traced steps, and how their time divides. A thread reads long traces."""
    for sample in samples:
        if sample.trace is not None:
            long = len(sample.trace.step_stats) > LARGE
            step = await asyncio.to_thread(step_of, sample, graph) if long else step_of(sample, graph)
            board.post(step)
            parts = {"time:compute": step.compute, "time:wire": step.wire, "time:wait": step.wait}
            board.post(Points(step.time + step.seconds, parts))


def memory(state: SessionState | None) -> dict[str, float]:
    """The bytes alive on each device that tracks them, and those of the process."""
    used = resident()
    found = {"process:memory": used} if used else {}
    for device in () if state is None else state.devices:
        if isinstance(device, Device) and device.accounts is not None:
            found[f"memory:{device.name}"] = float(device.memory.live)
    return found


def resident() -> float:
    """The bytes of this process in memory; 0 where that is unknown."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        file = os.open("/proc/self/statm", os.O_RDONLY)
        try:
            return float(os.read(file, 100).split()[1]) * _PAGE
        finally:
            os.close(file)
    return 0.0


def queues(state: SessionState | None) -> dict[str, float]:
    """The number of elements of each queue."""
    things: Iterable[Any] = () if state is None else state.resources.alive()
    return {f"queue:{thing.name}": float(thing.size) for thing in things if isinstance(thing, Queue)}
