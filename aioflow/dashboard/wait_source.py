"""The waits of operations, as `session.explain()` reports them."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from aioflow.dashboard.board import Board
from aioflow.dashboard.messages import WaitCycle, WaitEdge, Waiter, WaitingCaller, Waits, clip
from aioflow.dashboard.monitor import Pace
from aioflow.runtime.explain import Caller, Report, Wait
from aioflow.runtime.wait_graph import Edge

_EVERY: Final = 1.0
_STUCK: Final = 5.0
"""Seconds without the end of an operation or run after which waiting operations count as stuck."""
_WAITERS: Final = 200


class WaitSource:
    """Looks at waits.

    Args:
        explain: returns the report.
        progress: a number that changes while the program goes on.
        is_over: whether there is nothing left to look at.
        clock: the time of day.
    """

    def __init__(
        self, explain: Callable[[], Awaitable[Report]], progress: Callable[[], int],
        is_over: Callable[[], bool] = lambda: False, clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._explain: Final = explain
        self._progress: Final = progress
        self._is_over: Final = is_over
        self._clock: Final = clock

    async def watch(self, board: Board) -> None:
        """Post the waits every second, while there are any, and once when there are none any more."""
        pace = Pace(_EVERY)
        seen, since = self._progress(), asyncio.get_running_loop().time()
        while not self._is_over():
            with pace.look():
                report = await self._explain()
                now = asyncio.get_running_loop().time()
                if self._progress() != seen:
                    seen, since = self._progress(), now
                waits = waits_of(report, self._clock(), stuck=now - since >= _STUCK)
                before = board.newest(Waits)
                if waits.waiters or waits.callers or not isinstance(before, Waits) or before.waiters or before.callers:
                    board.post(waits)
            await pace.rest()


def waits_of(report: Report, now: float, stuck: bool) -> Waits:
    """The message of a report. With `stuck`, operations that wait count as stuck."""
    waiters = [_waiter(wait) for wait in report.waits[:_WAITERS]]
    idle = [f"{name} was never started: call af.train.start_queue_runners()" for name in report.idle_runners]
    left = [f"left behind in C code: {name}" for name in report.detached]
    absent = [f"not known: {text}" for text in report.absent]
    return Waits(
        now, bool(report.cycles) or (stuck and any(not waiter.computes for waiter in waiters)), tuple(waiters),
        tuple([_caller(caller) for caller in report.application[:_WAITERS]]),
        tuple([WaitCycle(tuple([_edge(edge) for edge in cycle.edges])) for cycle in report.cycles[:_WAITERS]]),
        tuple([clip(text) for text in (*idle, *left, *absent)[:_WAITERS]]), max(0, len(report.waits) - _WAITERS),
    )  # fmt: skip


def _waiter(wait: Wait) -> Waiter:
    return Waiter(
        wait.step, clip(wait.operation), wait.op_type, clip(wait.line), wait.seconds, clip(wait.what), wait.task,
        clip(wait.iteration), wait.computes, "" if wait.holder is None else clip(str(wait.holder)),
    )  # fmt: skip


def _caller(caller: Caller) -> WaitingCaller:
    return WaitingCaller(clip(caller.what), caller.seconds, clip(caller.task), clip(caller.line))


def _edge(edge: Edge) -> WaitEdge:
    return WaitEdge(
        edge.step, clip(edge.operation), edge.op_type, clip(edge.line), edge.place, clip(edge.what),
        clip(edge.awaited), edge.awaited_step,
    )  # fmt: skip
