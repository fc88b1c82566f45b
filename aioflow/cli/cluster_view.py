"""A running cluster as lines and tables: its tasks, connections, queues, memory and waits."""

import datetime
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from aioflow.cli.quantities import in_bytes, in_seconds, number
from aioflow.cli.tables import Line, Part, Row, Table
from aioflow.dashboard.board import Board
from aioflow.dashboard.messages import Cluster, Event, Message, Points, Task, TaskLink, Waiter, Waits

_WAITERS: Final = 10
"""Waiting operations that are shown: the oldest."""
_STYLES: Final = {"up": "", "lost": "bad"}


class ClusterView:
    """The newest state of the cluster on a board.

    Attributes:
        cluster: its tasks; None before the first answer.
        looks: how often they were looked at.
        trouble: why the tasks are unknown; empty if they are known.

    Args:
        board: has the messages of a `ClusterSource` with waits.
        changed: is called after each message.
    """

    def __init__(self, board: Board, changed: Callable[[], object]) -> None:
        self.cluster: Cluster | None = None
        self.looks: int = 0
        self.trouble: str = ""
        self._waits: Waits | None = None
        self._numbers: Mapping[str, float] = {}
        self._changed: Final = changed
        board.listen(self._take)

    def _take(self, message: Message) -> None:
        match message:
            case Cluster():
                self.cluster, self.trouble = message, ""
            case Points():
                self._numbers = message.values
            case Waits():  # the last message of a look
                self._waits = message
                self.looks += 1
            case Event(level="bad", task="", text=text):
                self.trouble = text
        self._changed()

    def parts(self) -> Iterator[Part]:
        """The whole view."""
        if self.cluster is None:
            yield Line(self.trouble or "asking for the tasks of the cluster", "bad" if self.trouble else "")
            return
        yield self._summary(self.cluster)
        yield Line("")
        yield self._tasks(self.cluster)
        yield from _with_space(_connections(self.cluster))
        yield from _with_space(self._group("queue", "elements", number))
        yield from _with_space(self._group("memory", "live bytes", in_bytes, "device"))
        if self._waits is not None:
            yield from _deadlocks(self._waits)
            yield from _waiters(self._waits)

    def _summary(self, cluster: Cluster) -> Line:
        at = datetime.datetime.fromtimestamp(cluster.time).strftime("%H:%M:%S")
        lost = sum([task.state != "up" for task in cluster.tasks])
        speed = sum([value for name, value in self._numbers.items() if name.startswith("task:")])
        tasks = f"{len(cluster.tasks)} tasks, {lost} of them lost" if lost else f"{len(cluster.tasks)} tasks"
        state = "going on" if self._waits is None else _state(self._waits)
        bad = lost or state != "going on"
        return Line(f"{at}  {tasks}  {number(speed)} steps/s of tasks  {state}", "bad" if bad else "good")

    def _tasks(self, cluster: Cluster) -> Table:
        columns = ("task", "state", "address", "steps/s", "steps", "running", "memory", "round trip")
        return Table(columns, tuple([self._task(task) for task in cluster.tasks]), texts=3)

    def _task(self, task: Task) -> Row:
        about, style = (short(task.name), task.state), _STYLES.get(task.state, "")
        if task.state != "up":
            return Row((*about, task.why or task.address, "", number(task.steps), "", "", ""), style)
        speed = self._numbers.get(f"task:{task.name}")
        counts = number(speed), number(task.steps), number(task.running)
        return Row((*about, task.address, *counts, in_bytes(task.memory or None), in_seconds(task.round_trip)), style)

    def _group(self, group: str, unit: str, text: Callable[[float], str], title: str = "") -> Table | None:
        """The numbers of a group of series; None if there are none."""
        found = {name.partition(":")[2]: value for name, value in self._numbers.items() if name.startswith(f"{group}:")}
        rows = [Row((short(name), text(value))) for name, value in found.items()]
        return Table((title or group, unit), tuple(rows)) if rows else None


def short(name: str) -> str:
    """The name of a task or device as people say it: `worker 1`, `worker 1 CPU:0`."""
    if not name.startswith("/job:"):
        return name
    return name.removeprefix("/job:").replace("/replica:0", "").replace("/task:", " ").replace("/device:", " ")


def _state(waits: Waits) -> str:
    return "DEADLOCK" if waits.cycles else "STUCK" if waits.stuck else "going on"


def _with_space(table: Table | None) -> Iterator[Part]:
    if table is not None:
        yield Line("")
        yield table


def _connections(cluster: Cluster) -> Table | None:
    rows = [_connection(task, link) for task in cluster.tasks for link in task.links]
    return Table(("from", "to", "", "sent", "received", "round trip"), tuple(rows), texts=3) if rows else None


def _connection(task: Task, link: TaskLink) -> Row:
    ends = short(task.name), short(link.task), "interrupted" if link.interrupted else ""
    numbers = in_bytes(link.sent), in_bytes(link.received), in_seconds(link.round_trip)
    return Row((*ends, *numbers), "bad" if link.interrupted else "")


def _deadlocks(waits: Waits) -> Iterator[Part]:
    for cycle in waits.cycles:
        yield Line("")
        yield Line(f"deadlock of {len(cycle.edges)} operations", "bad")
        for edge in cycle.edges:
            yield Line(f"  {edge.operation} ({edge.op_type}) waits to {edge.what}, which needs {edge.awaited}", "bad")


def _waiters(waits: Waits) -> Iterator[Part]:
    """The oldest operations under way, and the number of the others."""
    shown = waits.waiters[:_WAITERS]
    if not shown:
        return
    rows = [_waiter(waiter, waits.stuck) for waiter in shown]
    yield Line("")
    yield Table(("operation", "type", "task", "does", "since"), tuple(rows), texts=4)
    more = len(waits.waiters) - len(shown) + waits.left_out
    if more:
        yield Line(f"and {more} further operations")


def _waiter(waiter: Waiter, is_stuck: bool) -> Row:
    doing = f"waits to {waiter.what}" if waiter.what else "computes" if waiter.computes else "has not ended"
    cells = waiter.operation, waiter.op_type, short(waiter.task), doing, in_seconds(waiter.seconds)
    return Row(cells, "bad" if is_stuck and not waiter.computes else "")
