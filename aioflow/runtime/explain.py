"""Reports the operations of a session that wait at one moment: for what, how long, their source lines and deadlocks."""

import asyncio
import dataclasses
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple, Protocol

from aioflow.devices.gpu import Gpu
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.runtime.session_state import SessionState
from aioflow.runtime.wait_graph import Cycle, named
from aioflow.runtime.waiters import ActiveOperation, Snapshot, waited
from aioflow.waiting.lines import Attempt, Waitable

_log: Final = logging.getLogger("aioflow.session")
_MACHINERY: Final = tuple(str(path) + os.sep for path in (Path(__file__).parents[1], Path(asyncio.__file__).parent))
"""Where code lies that waits on behalf of others."""


class LockHolder(NamedTuple):
    """The operation that holds a lock.

    Attributes:
        step: the number of its step; 0 for a step of another session.
        operation: the name of the operation.
        op_type: its type.
        line: the user's line that built it.
        seconds: for how long it has held the lock.
    """

    step: int
    operation: str
    op_type: str
    line: str
    seconds: float

    def __str__(self) -> str:
        begin = f"held for {self.seconds:.1f} s by {named(self.step)}"
        return f"{begin}: {self.operation!r} ({self.op_type}) at {self.line}"


@dataclasses.dataclass(frozen=True, slots=True)
class Wait:
    """One operation of a running step that has not ended.

    Attributes:
        step: the number of the step.
        operation: the name of the operation.
        op_type: its type.
        line: the user's line that built it; if it waits for a value of another device, the line that built that value.
        seconds: the seconds since it began.
        what: the action that it waits to do, if it waits for a queue or the like, or for a value of another device;
            empty if it computes.
        task: the task of the cluster that it is on; empty in this process.
        iteration: the iterations of the loops around it that run as one coroutine; empty if there are none. Loops that
            run node by node are not named.
        computes: whether a kernel of it computes.
        holder: the operation that holds the lock that it waits for; None if it waits for no lock.
    """

    step: int
    operation: str
    op_type: str
    line: str
    seconds: float
    what: str
    task: str = ""
    iteration: str = ""
    computes: bool = False
    holder: LockHolder | None = None

    def __str__(self) -> str:
        doing = f"waits to {self.what}" if self.what else "computes" if self.computes else "has not ended"
        where = f" on {self.task}" * bool(self.task)
        begin = f"step {self.step}, {self.seconds:.1f} s{where}"
        iteration = f" {self.iteration}" * bool(self.iteration)
        holder = "" if self.holder is None else f"\n    {self.holder}"
        return f"{begin}: {self.operation!r} ({self.op_type}) {doing}{iteration}\n    at {self.line}{holder}"


@dataclasses.dataclass(frozen=True, slots=True)
class Caller:
    """Application code that waits for a live queue or the like.

    Attributes:
        what: the action that it waits to do.
        seconds: the seconds for which it has waited.
        task: the name of its asyncio task; empty if unknown.
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
    """The state of a session at one moment. `str` gives it as text.

    Attributes:
        waits: the running operations of steps, the oldest first.
        application: the waits of application code for live queues and the like, the oldest first.
        idle_runners: queue runners of the graph that were never started in this session.
        detached: kernels that still run in C code although their run was cancelled.
        absent: tasks of the cluster without a report, and the reasons.
        cycles: deadlocks: operations that wait for each other, and that no other operation can wake.
        uncaptured: kernels of this process that no CUDA graph can contain, and the reasons.
    """

    waits: tuple[Wait, ...]
    application: tuple[Caller, ...]
    idle_runners: tuple[str, ...]
    detached: tuple[str, ...]
    absent: tuple[str, ...] = ()
    cycles: tuple[Cycle, ...] = ()
    uncaptured: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [str(cycle) for cycle in self.cycles]
        lines += [str(wait) for wait in self.waits] or ["no step is running"]
        lines += [str(caller) for caller in self.application]
        lines += [f"{name} was never started: call af.train.start_queue_runners()" for name in self.idle_runners]
        lines += [f"left behind in C code: {name}" for name in self.detached]
        lines += [f"not captured in a CUDA graph: {text}" for text in self.uncaptured]
        lines += [f"not known: {text}" for text in self.absent]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from aioflow.notebook.waits import waits_html

        return waits_html(self)


class Runner(Protocol):
    """The part of a queue runner that a report needs."""

    name: str

    def was_started(self, sess: Any) -> bool:
        """Whether it ever was."""


def explain(state: SessionState) -> Report:
    """Return the running operations of this process and their waits."""
    snapshot = Snapshot(state)
    return report_of(state, snapshot, snapshot.graph.cycles(snapshot.steps_of(state)))


def report_of(state: SessionState, snapshot: Snapshot, cycles: Sequence[Cycle] = ()) -> Report:
    """The report of a session, made from a snapshot."""
    steps = snapshot.steps_of(state)
    waits = sorted([_wait(under, steps) for under in snapshot.seen(state)], key=lambda wait: -wait.seconds)
    live = sorted([_caller(*each) for each in snapshot.live], key=lambda caller: -caller.seconds)
    detached = [name for threads in state.threads for name in threads.detached]
    uncaptured = [text for device in state.devices if isinstance(device, Gpu) for text in device.graphs.failures]
    return Report(
        tuple(sorted(waits, key=lambda wait: -wait.seconds)), tuple(live), (), tuple(detached), (), tuple(cycles),
        tuple(uncaptured),
    )  # fmt: skip


def _wait(under: ActiveOperation, steps: Mapping[str, int]) -> Wait:
    waiter, held = under.waiter, under.holder
    holder = None if held is None else LockHolder(steps.get(held.key, 0), *held[1:])
    return Wait(
        under.step.id, waiter.operation, waiter.op_type, waiter.line, under.seconds, waiter.what,
        iteration=waiter.iteration, computes=waiter.computes, holder=holder,
    )  # fmt: skip


def with_idle_runners(report: Report, session: Any, graph: Graph) -> Report:
    """The report, with the queue runners of the graph that were never started in the session."""
    runners: Iterable[Runner] = graph.get_collection(GraphKeys.QUEUE_RUNNERS)
    idle = [f"queue runner of {runner.name!r}" for runner in runners if not runner.was_started(session)]
    return dataclasses.replace(report, idle_runners=tuple(idle))


def report_stall(report: Report, seconds: float) -> None:
    """Say in the log that nothing has gone on for so long, and why."""
    _log.warning("no operation has ended for %g s:\n%s", seconds, report)


def _caller(thing: Waitable, attempt: Attempt) -> Caller:
    task = _task(attempt)
    frame = None if task is None else _user_frame(task)
    line = "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
    return Caller(thing.action(attempt), waited(attempt), "" if task is None else task.get_name(), line)


def _task(attempt: Attempt) -> "asyncio.Task[Any] | None":
    """Return the asyncio task that waits for an attempt; asyncio only links a task to its future, not the reverse."""
    for callback, _ in (attempt.future and attempt.future._callbacks) or ():
        owner = getattr(callback, "__self__", None)
        if isinstance(owner, asyncio.Task):
            return owner
    return None


def _user_frame(task: "asyncio.Task[Any]") -> FrameType | None:
    """Return the innermost visible frame in the await chain of a task that is neither aioflow's nor asyncio's."""
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
