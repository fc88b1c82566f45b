"""The messages from a monitor to pages and recordings: frozen records of plain data, each one object of JSON.

This file is the schema. A message is written as an object with the name of its class as `kind`, its fields by name, and
records inside it as objects, too:

    {"kind": "Points", "time": 1767225600.5, "values": {"rate:steps": 812.0, "time:step": 1.2}}

Times of day are seconds since 1970, durations are seconds. The name of a series is `group:name`; `GROUPS` lists the
groups. Texts come from graphs and programs, so they may be anything; `clip` bounds their length.
"""

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

GROUPS: Final[Mapping[str, str]] = {
    "rate": "steps per second",
    "time": "seconds of a step: in all, and those in which it computes, sends values, or waits",
    "lag": "seconds by which a timer of the event loop is late",
    "queue": "elements of a queue",
    "memory": "bytes of live results on a device",
    "process": "`process:memory`: bytes of the process in memory",
    "value": "a number that a step fetched, or a scalar of a summary",
    "calls": "calls of a served model per second",
    "latency": "seconds: the 50th and 99th percentile of the time of a call of a served model, as `latency:p99 NAME`",
    "batch": "mean rows of a batch of a served model",
    "task": "steps per second of a task of a cluster",
    "train": "a loss or metric that training reports; `train:step` is the step",
}
"""The groups of series, with the meaning and unit of their numbers."""
_LONGEST: Final = 400
"""Characters of a text, at most."""


def clip(text: str, most: int = _LONGEST) -> str:
    """The text, or its begin and end with `…` between them if it is longer than `most` characters."""
    return text if len(text) <= most else f"{text[: most * 2 // 3]}…{text[-(most // 3) :]}"


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """What is watched.

    Attributes:
        title: its name.
        what: "session", "task", "models" or "cluster".
        version: the version of aioflow.
        began: since when it is watched.
        pages: the pages that have something to show.
    """

    title: str
    what: str
    version: str
    began: float
    pages: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Points:
    """The numbers of one moment, by series."""

    time: float
    values: Mapping[str, float]


@dataclasses.dataclass(frozen=True, slots=True)
class SeriesHistory:
    """The numbers of one series so far. Older points are means over longer times."""

    times: tuple[float, ...]
    values: tuple[float, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class History:
    """All numbers so far. A page that gets it forgets those that it has."""

    series: Mapping[str, SeriesHistory]


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """Something that happened.

    Attributes:
        time: when.
        level: "good", "info", "bad".
        text: what.
        task: the task of the cluster; empty if it is none or all.
    """

    time: float
    level: str
    text: str
    task: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class GraphNode:
    """An operation.

    Attributes:
        name: its name.
        op_type: its type.
        inputs: the numbers of the operations whose outputs it takes, in the order of its inputs.
        controls: the numbers of the operations that it runs after.
        outputs: the dtype and shape of each output.
        device: the device that the program asks for; empty for any.
        line: the user's line that built it.
    """

    name: str
    op_type: str
    inputs: tuple[int, ...]
    controls: tuple[int, ...]
    outputs: tuple[str, ...]
    device: str
    line: str


@dataclasses.dataclass(frozen=True, slots=True)
class Graph:
    """A graph. Its nodes are listed such that inputs come before the nodes that take them, except in loops."""

    version: int
    nodes: tuple[GraphNode, ...]
    left_out: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class GraphSummary:
    """That there is a graph, for which a page can ask."""

    version: int
    count: int


@dataclasses.dataclass(frozen=True, slots=True)
class PlacedNode:
    """Where a plan has put an operation, and why."""

    name: str
    device: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class PlacedCall:
    """The placement of the call that was traced last."""

    nodes: tuple[PlacedNode, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Bar:
    """One execution of an operation. Times are seconds since the begin of the step.

    Attributes:
        name: the operation.
        op_type: its type.
        lane: the number of the lane of its device and thread.
        ready: when its inputs were there.
        start: when its kernel began.
        end: when it was done.
        bytes: the size of its outputs.
        waits: whether it may have waited between start and end.
    """

    name: str
    op_type: str
    lane: int
    ready: float
    start: float
    end: float
    bytes: int
    waits: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Arrow:
    """A value that went from one device to another.

    Attributes:
        key: the name it was sent with.
        source: the lane of the sender; -1 if unknown.
        target: the lane of the receiver; -1 if unknown.
        sent: when it was sent.
        arrived: when the receiver had it.
        bytes: its size.
    """

    key: str
    source: int
    target: int
    sent: float
    arrived: float
    bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class Lane:
    """A row of the timeline: a thread of a device."""

    device: str
    thread: str


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One traced step. Its parts sum up to its seconds.

    Attributes:
        number: its number.
        time: when it began.
        seconds: how long it took, traced.
        compute: the seconds in which an operation computed.
        wire: the further seconds in which a value was on its way.
        wait: the other seconds.
        fetches: what was fetched.
        feeds: what was fed.
        lanes: the rows of its timeline.
        bars: executions of operations, by their begin.
        arrows: transfers.
        critical: the names of the operations of the critical path, the last one first.
        left_out: the executions beyond the most that are kept: the shortest.
    """

    number: int
    time: float
    seconds: float
    compute: float
    wire: float
    wait: float
    fetches: tuple[str, ...]
    feeds: tuple[str, ...]
    lanes: tuple[Lane, ...]
    bars: tuple[Bar, ...]
    arrows: tuple[Arrow, ...]
    critical: tuple[str, ...]
    left_out: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class StepSummary:
    """That there is a traced step, whose timeline a page can ask for."""

    number: int
    time: float
    seconds: float
    compute: float
    wire: float
    wait: float
    fetches: tuple[str, ...]


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
    """Who waits for whom.

    Attributes:
        time: when that was so.
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


@dataclasses.dataclass(frozen=True, slots=True)
class TaskLink:
    """A connection that a task has dialled: bytes since it was made, and the seconds of a round trip."""

    task: str
    sent: int
    received: int
    round_trip: float | None
    interrupted: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Task:
    """A task of a cluster.

    Attributes:
        name: its name.
        address: where it listens.
        state: "up", "lost", or "unknown" before the first answer.
        incarnation: the number of the process that answers there, in hex; another one after a restart.
        since: when it came into this state.
        steps: the steps, or shares of steps, that it has begun.
        running: the steps that run.
        memory: the bytes alive on its devices, where they are tracked.
        round_trip: the seconds of a request of this monitor.
        links: the connections that it has dialled.
        why: why it is lost.
    """

    name: str
    address: str
    state: str
    incarnation: str
    since: float
    steps: int = 0
    running: int = 0
    memory: int = 0
    round_trip: float | None = None
    links: tuple[TaskLink, ...] = ()
    why: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Cluster:
    """The tasks of a cluster at one moment."""

    time: float
    tasks: tuple[Task, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Epoch:
    """The values of one epoch, validation included."""

    number: int
    values: Mapping[str, float]


@dataclasses.dataclass(frozen=True, slots=True)
class Training:
    """How far training is.

    Attributes:
        time: when it was there.
        step: the steps that are done; None if unknown.
        steps: all steps; None if unknown.
        epoch: the number of the epoch, from 0; None if there are none.
        epochs: how many there are.
        left: the seconds that are left; None if unknown.
        values: losses, metrics and the like.
        history: the last epochs.
    """

    time: float
    step: int | None
    steps: int | None
    epoch: int | None
    epochs: int | None
    left: float | None
    values: Mapping[str, float]
    history: tuple[Epoch, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Histogram:
    """A summary of many numbers: `counts[i]` of them lie below `limits[i]`, and not below the limit before."""

    tag: str
    step: int
    least: float
    most: float
    limits: tuple[float, ...]
    counts: tuple[float, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Picture:
    """A summary with a picture: PNG in base64."""

    tag: str
    step: int
    png: str


@dataclasses.dataclass(frozen=True, slots=True)
class Summaries:
    """The last histogram and picture of each tag."""

    histograms: tuple[Histogram, ...]
    pictures: tuple[Picture, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ServedVersion:
    """A version of a served model, with the labels that name it, and why it has failed."""

    number: int
    state: str
    labels: tuple[str, ...]
    error: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class ServedModel:
    """A served model. Counts begin when the page is opened; percentiles are those of the last requests and calls.

    Attributes:
        name: its name.
        versions: its versions, the newest first.
        requests: the requests that have ended, by status.
        calls: the calls of its batchers: requests, and those of the program itself.
        rows: the rows of its batches.
        waiting: the rows that wait now.
        refused: the calls for which there was no room.
        batches: its batches by why they began.
        batch_rows: how many batches had up to so many rows: 1, 2, 4 and so on.
        request_seconds: the 50th, 90th and 99th percentile of the time of a request.
        call_seconds: the same of the time of a call: its wait, and the run of its batch.
        wait_seconds: the same of the wait before the batch.
    """

    name: str
    versions: tuple[ServedVersion, ...]
    requests: Mapping[str, int]
    calls: int
    rows: int
    waiting: int
    refused: int
    batches: Mapping[str, int]
    batch_rows: tuple[int, ...]
    request_seconds: tuple[float, ...]
    call_seconds: tuple[float, ...]
    wait_seconds: tuple[float, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Serving:
    """The models of a server at one moment."""

    time: float
    models: tuple[ServedModel, ...]


Message: TypeAlias = (
    Subject | Points | History | Event | Graph | GraphSummary | PlacedCall | Step | StepSummary | Waits | Cluster
    | Training | Summaries | Serving
)  # fmt: skip
KINDS: Final[Mapping[str, type]] = {kind.__name__: kind for kind in typing.get_args(Message)}


def to_json(message: Message) -> str:
    """The message as one line of JSON."""
    return json.dumps(to_plain(message), ensure_ascii=False, separators=(",", ":"), default=_plain)


def to_plain(message: Message) -> dict[str, Any]:
    """The message as an object with its kind; records inside it stay records."""
    return {"kind": type(message).__name__, **_plain(message)}


def _plain(record: Any) -> dict[str, Any]:
    return {name: _finite(getattr(record, name)) for name in record.__slots__}


def _finite(value: Any) -> Any:
    """Numbers that JSON lacks become None, which charts show as gaps."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return [_finite(each) for each in value]
    return value


def from_json(text: str) -> Message:
    """Read a message. ValueError for a text that is none."""
    try:
        plain = json.loads(text)
        made: Message = _record(KINDS[plain.pop("kind")], plain)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no message of a live page: {type(error).__name__}: {error}") from None
    return made


def _record(kind: type, plain: Mapping[str, Any]) -> Any:
    """A record of that class, whose fields have the declared types."""
    hints = typing.get_type_hints(kind)
    if strange := plain.keys() - hints.keys():
        raise ValueError(f"no message of a live page: {kind.__name__} has no {', '.join(sorted(strange))}")
    return kind(**{name: _value(hints[name], value) for name, value in plain.items()})


def _value(kind: Any, plain: Any) -> Any:
    """Read the value of a field."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return tuple([_value(arguments[0], each) for each in plain])
    if origin is Mapping or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return {str(name): _value(arguments[1], each) for name, each in plain.items()}
    if origin is types.UnionType:
        return None if plain is None else _value(arguments[0], plain)
    if kind is float:
        return math.nan if plain is None else float(plain)
    if dataclasses.is_dataclass(kind):
        return _record(typing.cast(type, kind), plain)
    if type(plain) is not kind:
        raise TypeError(f"{plain!r} is no {kind.__name__}")
    return plain
