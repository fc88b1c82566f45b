"""Who waits for what, since when, and where the user built it: what to say of a session that does not go on."""

import asyncio
import dataclasses
import logging
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, Protocol

from aioflow.graph import Graph
from aioflow.graph_keys import GraphKeys
from aioflow.node import describe_line
from aioflow.step import Local
from aioflow.waiting import Attempt, Waitable

_log: Final = logging.getLogger("aioflow.session")
_Waiting = tuple[Waitable, Attempt]


@dataclasses.dataclass(frozen=True, slots=True)
class Wait:
    """One operation of a running step that has not ended.

    Attributes:
        step: the number of the step.
        operation: its name.
        op_type: its type.
        line: the user's line that built it.
        seconds: how long it has been under way.
        what: what it waits to do, as far as it waits for a queue or the like; empty for one that computes.
    """

    step: int
    operation: str
    op_type: str
    line: str
    seconds: float
    what: str

    def __str__(self) -> str:
        doing = f"waits to {self.what}" if self.what else "has not ended"
        return (
            f"step {self.step}, {self.seconds:.1f} s: {self.operation!r} ({self.op_type}) {doing}\n    at {self.line}"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """A session at one moment. Its text says the same.

    Attributes:
        waits: what is under way in running steps, the oldest first.
        application: what application code waits to do with live queues and the like.
        idle_runners: queue runners of the graph that were never started in this session.
        detached: kernels that still run in C code although their run was cancelled.
    """

    waits: tuple[Wait, ...]
    application: tuple[str, ...]
    idle_runners: tuple[str, ...]
    detached: tuple[str, ...]

    def __str__(self) -> str:
        lines = [str(wait) for wait in self.waits] or ["no step is running"]
        lines += [f"the application waits to {text}" for text in self.application]
        lines += [f"{name} was never started: call af.train.start_queue_runners()" for name in self.idle_runners]
        lines += [f"left behind in C code: {name}" for name in self.detached]
        return "\n".join(lines)


class Runner(Protocol):
    """What is needed of a queue runner."""

    name: str

    def was_started(self, sess: Any) -> bool:
        """Whether it ever was."""


def explain(session: Any, local: Local, graph: Graph) -> Report:
    """What is under way in a session, and what it waits for."""
    attempts = [(thing, attempt) for thing in _waitables(local) for attempt in thing.waiting]
    by_node: dict[int, deque[_Waiting]] = {}
    for thing, attempt in sorted(attempts, key=lambda each: each[1].since):
        by_node.setdefault(id(attempt.who), deque()).append((thing, attempt))
    waits = sorted(_waits(local, by_node), key=lambda wait: -wait.seconds)
    live = [_doing(thing, attempt) for thing, attempt in attempts if attempt.who is None]
    runners: Iterable[Runner] = graph.get_collection(GraphKeys.QUEUE_RUNNERS)
    idle = [f"queue runner of {runner.name!r}" for runner in runners if not runner.was_started(session)]
    detached = [name for threads in local.threads for name in threads.detached]
    return Report(tuple(waits), tuple(live), tuple(idle), tuple(detached))


def report_stall(session: Any, local: Local, graph: Graph, seconds: float) -> None:
    """Say in the log that nothing has gone on for so long, and why."""
    _log.warning("no operation has ended for %g s:\n%s", seconds, explain(session, local, graph))


def _waitables(local: Local) -> list[Waitable]:
    return [thing for thing in local.resources.alive() if isinstance(thing, Waitable)]


def _waits(local: Local, by_node: dict[int, deque[_Waiting]]) -> list[Wait]:
    """What is under way. Several steps may wait at one node: who began first has waited longest there."""
    under_way = [(since, step, unit.nodes[0]) for step in local.steps for unit, since in step.under_way()]
    found = []
    for since, step, node in sorted(under_way, key=lambda each: each[0]):
        attempts = by_node.get(id(node))
        waiting = attempts.popleft() if attempts else None
        what = "" if waiting is None else _doing(*waiting)
        line = describe_line(node.operation)
        seconds = step.clock() - since if waiting is None else _now() - waiting[1].since
        found.append(Wait(step.id, node.name, node.definition.name, line, seconds, what))
    return found


def _now() -> float:
    return asyncio.get_running_loop().time()


def _doing(thing: Waitable, attempt: Attempt) -> str:
    return f"{attempt.what} {thing!r}"


__all__ = ["Report", "Wait", "explain", "report_stall"]
