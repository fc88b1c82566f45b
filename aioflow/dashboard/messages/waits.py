"""The waits of operations, as `session.explain()` reports them."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Waiter:
    """An operation under way, as `session.explain()` reports it.

    Attributes:
        step: the number of its step.
        operation: its name.
        op_type: its type.
        line: the user's line.
        seconds: for how long it has waited or computed.
        what: the action that it waits to do; empty if it computes.
        task: its task; empty in this process.
        iteration: the iterations of the loops around it.
        computes: whether a kernel of it computes.
        holder: the text about the operation that holds the lock it waits for; empty if it waits for none.
    """

    step: int
    operation: str
    op_type: str
    line: str
    seconds: float
    what: str
    task: str
    iteration: str
    computes: bool
    holder: str


@dataclasses.dataclass(frozen=True, slots=True)
class WaitingCaller:
    """Application code that waits for a queue or the like."""

    what: str
    seconds: float
    task: str
    line: str


@dataclasses.dataclass(frozen=True, slots=True)
class WaitEdge:
    """One operation of a cycle, and the one that would wake it."""

    step: int
    operation: str
    op_type: str
    line: str
    place: str
    what: str
    awaited: str
    awaited_step: int


@dataclasses.dataclass(frozen=True, slots=True)
class WaitCycle:
    """A deadlock: each operation waits for the next one, the last one for the first."""

    edges: tuple[WaitEdge, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Waits:
    """The operations that wait, and what each waits for.

    Attributes:
        time: the time of the report.
        stuck: whether no operation has ended for longer than a few seconds while some wait, or there is a cycle.
        waiters: operations under way, the oldest first.
        callers: application code that waits, the oldest first.
        cycles: deadlocks.
        notes: queue runners that never started, kernels left behind, tasks without a report.
        left_out: waiters beyond the most that are kept.
    """

    time: float
    stuck: bool
    waiters: tuple[Waiter, ...]
    callers: tuple[WaitingCaller, ...]
    cycles: tuple[WaitCycle, ...]
    notes: tuple[str, ...]
    left_out: int = 0
