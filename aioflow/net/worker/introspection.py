"""Reports of a task in msgpack: the waits of its steps, the contents of its memory, the savings of lossy codecs."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgpack

from aioflow.devices.memory import Holder, MemoryUse
from aioflow.kernels.control.lossy import savings_of
from aioflow.plan.placement.report import Placed, Placement
from aioflow.runtime.activity import NO_ACTIVITY, Activity, Connection, QueueUse, activity_of
from aioflow.runtime.explain import Caller, LockHolder, Report, Wait, report_of
from aioflow.runtime.session_state import SessionState
from aioflow.runtime.wait_graph import Cycle, Edge, WaitGraph
from aioflow.runtime.waiters import Snapshot, key_of
from aioflow.tensors.codecs import Saving
from aioflow.tensors.plain_data import unpack
from aioflow.tracing import RunMetadata

T = TypeVar("T")
_PARTS: Final = {"waits", "application", "detached", "absent", "cycles", "graph", "memory", "savings", "activity"}
_NOTHING: Final = WaitGraph((), (), {})


@dataclasses.dataclass(frozen=True, slots=True)
class TaskReport:
    """The report of one task, or of several.

    Attributes:
        report: the waits of its steps.
        memory: the contents of its devices' memory, where that is tracked.
        savings: the bytes that lossy codecs have saved, by edge.
        graph: its wait-for graph, if another task searches for cycles.
        activity: what it does, in numbers; nothing for several tasks.
    """

    report: Report
    memory: Mapping[str, MemoryUse]
    savings: Mapping[str, Saving]
    graph: WaitGraph = _NOTHING
    activity: Activity = NO_ACTIVITY

    def pack(self) -> bytes:
        """In msgpack."""
        report = self.report
        data: bytes = msgpack.packb(
            {
                "waits": [_row(wait) for wait in report.waits],
                "application": [_row(caller) for caller in report.application],
                "detached": list(report.detached),
                "absent": list(report.absent),
                "cycles": [[list(edge) for edge in cycle.edges] for cycle in report.cycles],
                "graph": [
                    list(map(list, self.graph.waiters)),
                    list(map(list, self.graph.promises)),
                    self.graph.served,
                    dict(self.graph.sent),
                ],
                "memory": {
                    name: [*use[:3], [list(holder) for holder in use.by_op]] for name, use in self.memory.items()
                },
                "savings": {edge: _row(saving) for edge, saving in self.savings.items()},
                "activity": [
                    *self.activity[:3],
                    list(map(list, self.activity.queues)),
                    list(map(list, self.activity.connections)),
                ],
            }
        )
        return data

    @classmethod
    def unpack(cls, data: bytes) -> "TaskReport":
        """Read the data of `pack`. ValueError for other data."""
        return _unpacked(data, cls._from_plain)

    @classmethod
    def _from_plain(cls, plain: Any) -> "TaskReport":
        if plain.keys() != _PARTS:
            raise ValueError(f"it has {', '.join(map(str, plain))}")
        report = Report(
            tuple([_wait(row) for row in plain["waits"]]),
            tuple([Caller(*row) for row in plain["application"]]),
            (),
            tuple(plain["detached"]),
            tuple(plain["absent"]),
            tuple([Cycle(tuple([Edge(*edge) for edge in cycle])) for cycle in plain["cycles"]]),
        )
        graph = WaitGraph.from_plain(plain["graph"])
        memory = {
            name: MemoryUse(live, peak, limit, tuple([Holder(*row) for row in by_op]))
            for name, (live, peak, limit, by_op) in plain["memory"].items()
        }
        steps, progress, running, queues, connections = plain["activity"]
        activity = Activity(
            steps, progress, running, tuple([QueueUse(*row) for row in queues]),
            tuple([Connection(*row) for row in connections]),
        )  # fmt: skip
        return cls(report, memory, {edge: Saving(*row) for edge, row in plain["savings"].items()}, graph, activity)


def report_of_task(state: SessionState, connections: Iterable[Connection] = ()) -> TaskReport:
    """Return the report of a task, with the connections that it has dialled."""
    snapshot = Snapshot(state)
    report = report_of(state, snapshot)
    waits = tuple([dataclasses.replace(wait, task=state.task) for wait in report.waits])
    detached = tuple([f"{name} on {state.task}" for name in report.detached])
    report = dataclasses.replace(report, waits=waits, detached=detached)
    activity = activity_of(state, connections)
    return TaskReport(report, state.memory(), savings_of(state.resources).edges, snapshot.graph, activity)


def joined(reports: Iterable[TaskReport], absent: Iterable[str], steps: Mapping[int, int]) -> TaskReport:
    """Join the reports of several tasks.

    Args:
        reports: the reports.
        absent: the reasons why other tasks have no report.
        steps: the numbers of the reported steps, by their numbers on the tasks.
    """
    found = list(reports)
    waits = [_of_session(wait, steps) for each in found for wait in each.report.waits if wait.step in steps]
    graph = WaitGraph.joined(each.graph for each in found)
    cycles = graph.cycles({key_of(step): number for step, number in steps.items()})
    report = Report(
        tuple(sorted(waits, key=lambda wait: -wait.seconds)),
        tuple([caller for each in found for caller in each.report.application]),
        (),
        tuple([name for each in found for name in each.report.detached]),
        tuple(absent),
        tuple([cycle for cycle in cycles if any(edge.step for edge in cycle.edges)]),
    )
    memory = {name: use for each in found for name, use in each.memory.items()}
    return TaskReport(report, memory, {edge: saving for each in found for edge, saving in each.savings.items()})


def _of_session(wait: Wait, steps: Mapping[int, int]) -> Wait:
    """The same report with the session's numbers of the steps."""
    holder = None if wait.holder is None else wait.holder._replace(step=steps.get(wait.holder.step, 0))
    return dataclasses.replace(wait, step=steps[wait.step], holder=holder)


def _wait(row: Any) -> Wait:
    *plain, holder = row
    return dataclasses.replace(Wait(*plain), holder=None if holder is None else LockHolder(*holder))


def pack_placement(placement: Placement) -> bytes:
    """A placement in msgpack."""
    data: bytes = msgpack.packb([placement.makespan, [list(node) for node in placement.nodes]])
    return data


def unpack_placement(data: bytes) -> Placement:
    """Read the data of `pack_placement`. ValueError for other data."""
    return _unpacked(data, lambda plain: Placement(tuple([Placed(*row) for row in plain[1]]), plain[0]))


def pack_trace(metadata: RunMetadata) -> bytes:
    """Return the trace of a step in msgpack, with times on this process's clock."""
    data: bytes = msgpack.packb(metadata.to_plain(0.0))
    return data


def unpack_trace(data: bytes, metadata: RunMetadata, ahead: float) -> None:
    """Add the trace of another process, whose clock is `ahead` seconds ahead of this one's."""
    _unpacked(data, lambda plain: metadata.add_plain(plain, -ahead))


def _row(thing: Any) -> list[Any]:
    return [getattr(thing, field.name) for field in dataclasses.fields(thing)]


def _unpacked(data: bytes, make: Callable[[Any], T]) -> T:
    try:
        return make(unpack(data))
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise ValueError(f"malformed report: {type(error).__name__}: {error}") from error
