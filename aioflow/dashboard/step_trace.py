"""The trace of a step as a message: lanes, bars, arrows, how its time divides, and its critical path."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from aioflow.dashboard.messages import Arrow, Bar, Lane, Step, clip
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation
from aioflow.tracing import NodeStats, RunMetadata, Transfer

if TYPE_CHECKING:
    from aioflow.dashboard.sampling import Sample

LARGE: Final = 1000
"""Executions: a thread reads traces with more."""
_BARS: Final = 3000
_ARROWS: Final = 1000
"""Bars and arrows that are kept, at most."""
_PATH: Final = 500
"""Operations of a critical path, at most."""
Spans = Sequence[tuple[float, float]]


def step_of(sample: "Sample", graph: Graph) -> Step:
    """The message of a traced run."""
    trace = sample.trace
    assert trace is not None
    start, end = sample.start, sample.start + sample.seconds
    computing = merged([(each.start, each.end) for each in trace.step_stats if not each.waits], start, end)
    sending = merged([(each.start, each.arrived) for each in trace.transfers], start, end)
    compute, both = length(computing), length(merged([*computing, *sending], start, end))
    lanes = _Lanes(trace)
    shown = sorted(trace.step_stats, key=lambda stats: stats.start - stats.end)[:_BARS]
    bars = [_bar(stats, lanes, start) for stats in sorted(shown, key=lambda stats: stats.start)]
    arrows = [_arrow(each, lanes, start) for each in trace.transfers[:_ARROWS]]
    return Step(
        trace.step_id or 0, sample.began, sample.seconds, compute, both - compute, sample.seconds - both,
        tuple(map(clip, sample.fetches)), tuple(map(clip, sample.feeds)), tuple(lanes.rows), tuple(bars), tuple(arrows),
        tuple(map(clip, critical_path(trace.step_stats, graph))), tuple(sample.values.found.values()),
        len(trace.step_stats) - len(bars),
    )  # fmt: skip


def merged(spans: Iterable[tuple[float, float]], start: float, end: float) -> Spans:
    """Spans of time as disjoint ones, cut to those between start and end."""
    found: list[tuple[float, float]] = []
    for begin, until in sorted(spans):
        begin, until = max(begin, start), min(until, end)
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], until)
        elif begin < until:
            found.append((begin, until))
    return found


def length(spans: Spans) -> float:
    """The seconds in disjoint spans."""
    return sum([until - begin for begin, until in spans])


def critical_path(stats: Sequence[NodeStats], graph: Graph) -> list[str]:
    """The operations that the end of the step waited for, the last one first.

    Each one is followed by the input that ended last. The plan's own nodes, as receives, and operations that it has
    folded or merged are passed over.
    """
    last = {each.name: each.end for each in stats if _operation(graph, each.name) is not None}
    path: list[str] = []
    name: str | None = max(last, key=lambda each: last[each], default=None)
    while name is not None and name not in path and len(path) < _PATH:
        path.append(name)
        name = max(_executed_before(graph, name, last), key=lambda each: last[each], default=None)
    return path


def _executed_before(graph: Graph, name: str, last: Mapping[str, float]) -> set[str]:
    """The nearest operations before that one that were executed."""
    found: set[str] = set()
    seen: set[str] = set()
    left = _before(graph, name)
    while left and len(seen) < _PATH:
        each = left.pop()
        if each in last:
            found.add(each)
        elif each not in seen:
            seen.add(each)
            left += _before(graph, each)
    return found


def _before(graph: Graph, name: str) -> list[str]:
    operation = _operation(graph, name)
    assert operation is not None
    return [*[tensor.op.name for tensor in operation.inputs], *[each.name for each in operation.control_inputs]]


def _operation(graph: Graph, name: str) -> Operation | None:
    """The operation of that name; None for a node that the plan has made."""
    try:
        return graph.get_operation_by_name(name)
    except (KeyError, ValueError):
        return None


class _Lanes:
    """The rows of a timeline: one for each thread of each device, in the order of their names."""

    def __init__(self, trace: RunMetadata) -> None:
        names = trace.thread_names
        used = {(stats.device, stats.thread) for stats in trace.step_stats}
        used |= {(each.target, each.threads[1]) for each in trace.transfers}
        used |= {(each.source, each.threads[0]) for each in trace.transfers if each.sent is not None}
        ordered = sorted(used, key=lambda lane: (lane[0], names.get(lane[1], ""), lane[1]))
        self.rows: Final = [Lane(clip(device), clip(names.get(thread, ""))) for device, thread in ordered]
        self.numbers: Final = {lane: number for number, lane in enumerate(ordered)}


def _bar(stats: NodeStats, lanes: _Lanes, start: float) -> Bar:
    lane = lanes.numbers[stats.device, stats.thread]
    times = stats.scheduled - start, stats.start - start, stats.end - start
    return Bar(clip(stats.name), clip(stats.op_type), lane, *times, stats.output_bytes, stats.waits)


def _arrow(transfer: Transfer, lanes: _Lanes, start: float) -> Arrow:
    source = lanes.numbers.get((transfer.source, transfer.threads[0]), -1) if transfer.sent is not None else -1
    target = lanes.numbers.get((transfer.target, transfer.threads[1]), -1)
    return Arrow(clip(transfer.key), source, target, transfer.start - start, transfer.arrived - start, transfer.bytes)
