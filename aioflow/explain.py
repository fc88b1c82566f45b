"""Who waits for what, since when, and where the user built it: what to say of a session that does not go on."""

import asyncio
import dataclasses
import logging
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final, Protocol

from aioflow.graph import Graph
from aioflow.graph_keys import GraphKeys
from aioflow.local import Local, Running
from aioflow.node import describe_line
from aioflow.rendezvous import Waiting
from aioflow.waiting import Attempt, Waitable

_log: Final = logging.getLogger("aioflow.session")
_Waiting = tuple[Waitable, Attempt]
_Channel = tuple[str, str, str]
"""An edge between devices, and from which to which it goes."""
_MACHINERY: Final = tuple(str(Path(path).parent) + os.sep for path in (__file__, asyncio.__file__))
"""Where code lies that waits on behalf of others."""


@dataclasses.dataclass(frozen=True, slots=True)
class Wait:
    """One operation of a running step that has not ended.

    Attributes:
        step: the number of the step.
        operation: its name.
        op_type: its type.
        line: the user's line that built it, or, if it waits for a value of another device, that which built that.
        seconds: how long it has been under way.
        what: what it waits to do, as far as it waits for a queue or the like, or for a value of another device; empty
            for one that computes.
        task: the task of the cluster that it is on; empty in this process.
    """

    step: int
    operation: str
    op_type: str
    line: str
    seconds: float
    what: str
    task: str = ""

    def __str__(self) -> str:
        doing = f"waits to {self.what}" if self.what else "has not ended"
        where = f" on {self.task}" * bool(self.task)
        begin = f"step {self.step}, {self.seconds:.1f} s{where}"
        return f"{begin}: {self.operation!r} ({self.op_type}) {doing}\n    at {self.line}"


@dataclasses.dataclass(frozen=True, slots=True)
class Caller:
    """Application code that waits for a live queue or the like.

    Attributes:
        what: what it waits to do.
        seconds: how long it has waited.
        task: the name of its task; empty if that cannot be told.
        line: its innermost line that is neither aioflow's nor asyncio's; empty if the task has none.
    """

    what: str
    seconds: float
    task: str
    line: str

    def __str__(self) -> str:
        task = f" in task {self.task!r}" * bool(self.task)
        line = f"\n    at {self.line}" * bool(self.line)
        return f"the application, {self.seconds:.1f} s{task}: waits to {self.what}{line}"


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """A session at one moment. Its text says the same.

    Attributes:
        waits: what is under way in running steps, the oldest first.
        application: what application code waits to do with live queues and the like, the oldest first.
        idle_runners: queue runners of the graph that were never started in this session.
        detached: kernels that still run in C code although their run was cancelled.
        absent: tasks of the cluster that have told nothing, and why.
    """

    waits: tuple[Wait, ...]
    application: tuple[Caller, ...]
    idle_runners: tuple[str, ...]
    detached: tuple[str, ...]
    absent: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [str(wait) for wait in self.waits] or ["no step is running"]
        lines += [str(caller) for caller in self.application]
        lines += [f"{name} was never started: call af.train.start_queue_runners()" for name in self.idle_runners]
        lines += [f"left behind in C code: {name}" for name in self.detached]
        lines += [f"not known: {text}" for text in self.absent]
        return "\n".join(lines)


class Runner(Protocol):
    """What is needed of a queue runner."""

    name: str

    def was_started(self, sess: Any) -> bool:
        """Whether it ever was."""


def explain(local: Local) -> Report:
    """What is under way in this process, and what it waits for."""
    attempts = [(thing, attempt) for thing in _waitables(local) for attempt in thing.waiting]
    by_node: dict[int, deque[_Waiting]] = {}
    for thing, attempt in sorted(attempts, key=lambda each: each[1].since):
        by_node.setdefault(id(attempt.who), deque()).append((thing, attempt))
    waits = sorted(_waits(local, by_node), key=lambda wait: -wait.seconds)
    live = sorted([_caller(*each) for each in by_node.get(id(None), ())], key=lambda caller: -caller.seconds)
    detached = [name for threads in local.threads for name in threads.detached]
    return Report(tuple(waits), tuple(live), (), tuple(detached))


def with_idle_runners(report: Report, session: Any, graph: Graph) -> Report:
    """The report, with the queue runners of the graph that were never started in the session."""
    runners: Iterable[Runner] = graph.get_collection(GraphKeys.QUEUE_RUNNERS)
    idle = [f"queue runner of {runner.name!r}" for runner in runners if not runner.was_started(session)]
    return dataclasses.replace(report, idle_runners=tuple(idle))


def report_stall(report: Report, seconds: float) -> None:
    """Say in the log that nothing has gone on for so long, and why."""
    _log.warning("no operation has ended for %g s:\n%s", seconds, report)


def _waitables(local: Local) -> list[Waitable]:
    return [thing for thing in local.resources.alive() if isinstance(thing, Waitable)]


def _waits(local: Local, by_node: dict[int, deque[_Waiting]]) -> list[Wait]:
    """What is under way. Several steps may wait at one node: who began first has waited longest there."""
    under_way = [(since, step, unit.nodes[0]) for step in local.steps for unit, since in step.under_way()]
    receives = {step: _receives(step) for _, step, node in under_way if node.definition.name == "recv"}
    found = []
    for since, step, node in sorted(under_way, key=lambda each: each[0]):
        what, seconds = "", step.clock() - since
        if attempts := by_node.get(id(node)):
            waiting = attempts.popleft()
            what, seconds = _doing(*waiting), _seconds(waiting[1])
        elif node.definition.name == "recv" and (keys := receives[step].get(_channel(node.attrs))):
            what, seconds = _receiving(keys.popleft())
        found.append(Wait(step.id, node.name, node.definition.name, describe_line(node.operation), seconds, what))
    return found


def _receives(step: Running) -> dict[_Channel, deque[Waiting]]:
    """What a step waits for that comes from other devices, iteration by iteration."""
    found: dict[_Channel, deque[Waiting]] = {}
    for waiting in step.rendezvous.waiting:
        found.setdefault(_channel(waiting.key._asdict()), deque()).append(waiting)
    return found


def _channel(of: Mapping[str, Any]) -> _Channel:
    return of["edge"], of["source"], of["target"]


def _receiving(waiting: Waiting) -> tuple[str, float]:
    key = waiting.key
    place = f" in iteration {':'.join(map(str, key.iteration))}" * bool(key.iteration)
    return f"receive {key.edge!r}{place} from {key.source} on {key.target}", _now() - waiting.since


def _caller(thing: Waitable, attempt: Attempt) -> Caller:
    task = _task(attempt)
    frame = None if task is None else _user_frame(task)
    line = "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
    return Caller(_doing(thing, attempt), _seconds(attempt), "" if task is None else task.get_name(), line)


def _task(attempt: Attempt) -> "asyncio.Task[Any] | None":
    """Who is woken when it is done: asyncio tells that of a future, and of a task only what it waits for."""
    for callback, _ in (attempt.future and attempt.future._callbacks) or ():
        owner = getattr(callback, "__self__", None)
        if isinstance(owner, asyncio.Task):
            return owner
    return None


def _user_frame(task: "asyncio.Task[Any]") -> FrameType | None:
    """The innermost frame of what awaits what in it, as far as can be seen, that is neither aioflow's nor asyncio's."""
    found = None
    for frame in _frames(task.get_coro()):
        if not frame.f_code.co_filename.startswith(_MACHINERY):
            found = frame
    return found


def _frames(awaited: Any) -> Iterator[FrameType]:
    """From the outermost on; `Task.get_stack` knows only that."""
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None:
            yield frame
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)


def _seconds(attempt: Attempt) -> float:
    """How long it has waited, on the clock of its own loop."""
    return (_now() if attempt.future is None else attempt.future.get_loop().time()) - attempt.since


def _now() -> float:
    return asyncio.get_running_loop().time()


def _doing(thing: Waitable, attempt: Attempt) -> str:
    return f"{attempt.what} {thing!r}"


__all__ = ["Caller", "Report", "Wait", "explain", "report_stall", "with_idle_runners"]
