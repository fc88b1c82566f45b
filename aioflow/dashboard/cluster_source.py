"""The tasks of a cluster: which are there, what they do, whom they are connected to, and what happens to them."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from aioflow import errors
from aioflow.dashboard.board import Board
from aioflow.dashboard.messages import Cluster, Event, Points, Task, TaskLink, Waits, clip
from aioflow.dashboard.monitor import Pace
from aioflow.dashboard.wait_source import waits_of
from aioflow.net.peer.handshake import connect
from aioflow.net.peer.peer import Peer
from aioflow.net.transport.channel import Network
from aioflow.net.wire.identity import USUAL, Identity, Settings
from aioflow.net.wire.master_verbs import ListTasks
from aioflow.net.wire.worker_verbs import Inspect
from aioflow.net.worker.introspection import TaskReport, joined
from aioflow.runtime.explain import Report

_EVERY: Final = 1.0
LIMIT: Final = 3.0
"""Seconds in which a task must answer."""
_STUCK: Final = 5.0


class ClusterSource:
    """Looks at all tasks of a cluster, by connections of its own.

    Attributes:
        limit: the seconds in which a task must answer.

    Args:
        address: the address of any task.
        network: the network of the tasks.
        settings: how it treats its peers.
        with_waits: whether it also posts the waits of all tasks; for a cluster whose session nobody watches here.
        clock: the time of day.
        limit: sets the attribute.
    """

    def __init__(
        self, address: str, network: Network, settings: Settings = USUAL, *, with_waits: bool = False,
        clock: Callable[[], float] = time.time, limit: float = LIMIT,
    ) -> None:  # fmt: skip
        self._address: Final = address
        self._network: Final = network
        self._settings: Final = settings
        self._with_waits: Final = with_waits
        self._clock: Final = clock
        self.limit: Final = limit

    async def watch(self, board: Board) -> None:
        """Post the state of all tasks every second, and an event whenever a task is lost or is back."""
        watched = self._watched(await self._tasks(board))
        waits = _Waits(self._clock)
        pace = Pace(_EVERY)
        try:
            while True:
                reports = await asyncio.gather(*[task.look(board) for task in watched])
                with pace.look():
                    now = self._clock()
                    board.post(Cluster(now, tuple([task.message for task in watched])))
                    board.post(Points(now, _speeds(watched) | _uses(reports)))
                    if self._with_waits:
                        board.post(waits.message(watched, reports))
                await pace.rest()
        finally:
            await asyncio.gather(*[task.close() for task in watched])

    async def explain(self) -> Report:
        """The waits of all tasks at one moment, as `session.explain()` reports those of a session.

        Raises:
            UnavailableError: the task at the address does not answer.
        """
        watched, board = self._watched(await self._ask_for_tasks()), Board()
        try:
            reports = await asyncio.gather(*[task.look(board) for task in watched])
        finally:
            await asyncio.gather(*[task.close() for task in watched])
        return _Waits(self._clock).report(watched, reports)

    def _watched(self, tasks: Mapping[str, str]) -> "list[_WatchedTask]":
        return [_WatchedTask(self, task, address) for task, address in tasks.items()]

    async def _tasks(self, board: Board) -> Mapping[str, str]:
        """The addresses of all tasks by name, as soon as one tells them."""
        said = ""
        while True:
            try:
                return await self._ask_for_tasks()
            except errors.OpError as error:
                text = f"the tasks of the cluster are unknown: {error.message}"
                if text != said:
                    board.post(Event(self._clock(), "bad", clip(text)))
                said = text
            await asyncio.sleep(_EVERY)

    async def _ask_for_tasks(self) -> Mapping[str, str]:
        """The addresses of all tasks by name. OpError if the task at the address does not tell them."""
        try:
            peer = await self.connect(self._address, "")
        except TimeoutError:
            raise errors.UnavailableError(f"{self._address} does not answer within {self.limit:g} s") from None
        try:
            return dict((await peer.request(ListTasks(), deadline=self.deadline())).addresses)
        finally:
            await peer.close()

    async def connect(self, address: str, task: str) -> Peer:
        """A connection to a task. TimeoutError if it takes too long."""
        async with asyncio.timeout(self.limit):
            return await connect(self._network, address, Identity(), target=task, settings=self._settings)

    def now(self) -> float:
        """The time of day."""
        return self._clock()

    def deadline(self) -> float:
        """The time by which a task must answer, on the loop's clock."""
        return asyncio.get_running_loop().time() + self.limit


class _WatchedTask:
    """One task, as far as it is known.

    Attributes:
        name: its name.
        message: its state.
        speed: the steps that it begins in a second.
    """

    def __init__(self, source: ClusterSource, name: str, address: str) -> None:
        self.name: Final = name
        self.message = Task(name, address, "unknown", "", source.now())
        self.speed = 0.0
        self._source: Final = source
        self._peer: Peer | None = None
        self._looked = source.now()

    async def look(self, board: Board) -> TaskReport | None:
        """Ask it for its state. None if it does not answer."""
        began = asyncio.get_running_loop().time()
        try:
            peer = await self._connected()
            answer = await peer.request(Inspect(), deadline=self._source.deadline())
            report = TaskReport.unpack(bytes(answer.report))
        except (errors.OpError, TimeoutError, ValueError) as error:
            self._is_lost(board, getattr(error, "message", "") or f"no answer within {self._source.limit:g} s")
            return None
        self._answered(board, peer, report, asyncio.get_running_loop().time() - began)
        return report

    async def _connected(self) -> Peer:
        if self._peer is None or self._peer.end is not None:
            await self.close()
            self._peer = await self._source.connect(self.message.address, self.name)
        return self._peer

    def _is_lost(self, board: Board, why: str) -> None:
        now, before = self._source.now(), self.message
        self.speed = 0.0
        if before.state != "lost":
            board.post(Event(now, "bad", clip(f"lost: {why}"), self.name))
            self.message = Task(self.name, before.address, "lost", before.incarnation, now, before.steps, why=clip(why))

    def _answered(self, board: Board, peer: Peer, report: TaskReport, round_trip: float) -> None:
        now, before, activity = self._source.now(), self.message, report.activity
        incarnation = f"{peer.remote.incarnation:016x}"
        has_restarted = before.incarnation not in ("", incarnation)
        if has_restarted:
            board.post(Event(now, "info", "restarted: a new process, without the state of the last one", self.name))
        elif before.state == "lost":
            board.post(Event(now, "good", "reached again: the same process", self.name))
        fresh = has_restarted or before.state != "up"
        self.speed = 0.0 if fresh else (activity.steps - before.steps) / max(now - self._looked, 1e-9)
        self._looked = now
        links = [
            TaskLink(each.task, each.sent, each.received, None if each.round_trip < 0 else each.round_trip,
                     each.interrupted) for each in activity.connections
        ]  # fmt: skip
        memory = sum([use.live for use in report.memory.values()])
        self.message = Task(
            self.name, before.address, "up", incarnation, now if fresh else before.since, activity.steps,
            activity.running, memory, round_trip, tuple(links),
        )  # fmt: skip

    async def close(self) -> None:
        """Leave it."""
        peer, self._peer = self._peer, None
        if peer is not None:
            await peer.close()


class _Waits:
    """The waits of all tasks together, with short numbers for their steps."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock: Final = clock
        self._numbers: dict[int, int] = {}
        self._count = 0
        self._progress: object = None
        self._since = clock()

    def message(self, watched: "Sequence[_WatchedTask]", reports: Sequence[TaskReport | None]) -> Waits:
        """The message of the reports of these tasks."""
        progress = [report.activity.progress for report in reports if report is not None]
        if progress != self._progress:
            self._progress, self._since = progress, self._clock()
        is_stuck = self._clock() - self._since >= _STUCK
        return waits_of(self.report(watched, reports), self._clock(), stuck=is_stuck)

    def report(self, watched: "Sequence[_WatchedTask]", reports: Sequence[TaskReport | None]) -> Report:
        """The reports of these tasks as one; it names the tasks without a report."""
        there = [report for report in reports if report is not None]
        steps = {wait.step for report in there for wait in report.report.waits}
        self._numbers = {step: self._number(step) for step in sorted(steps)}
        absent = [
            f"{task.name}: {task.message.why}" for task, report in zip(watched, reports, strict=True) if report is None
        ]
        return joined(there, absent, self._numbers).report

    def _number(self, step: int) -> int:
        if step in self._numbers:
            return self._numbers[step]
        self._count += 1
        return self._count


def _speeds(watched: "list[_WatchedTask]") -> dict[str, float]:
    return {f"task:{task.name}": task.speed for task in watched if task.message.state == "up"}


def _uses(reports: Sequence[TaskReport | None]) -> dict[str, float]:
    """The elements of queues, and the bytes on devices, of all tasks."""
    there = [report for report in reports if report is not None]
    queues = {f"queue:{queue.name}": float(queue.size) for report in there for queue in report.activity.queues}
    return queues | {f"memory:{name}": float(use.live) for report in there for name, use in report.memory.items()}
