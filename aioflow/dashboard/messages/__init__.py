"""The messages from a monitor to pages and recordings: frozen records of plain data, each one object of JSON.

The files of this folder are the schema. A message is written as an object with the name of its class as
`kind`, its fields by name, and records inside it as objects, too:

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

from aioflow.dashboard.messages.cluster import Cluster as Cluster
from aioflow.dashboard.messages.cluster import Task as Task
from aioflow.dashboard.messages.cluster import TaskLink as TaskLink
from aioflow.dashboard.messages.graph import Graph as Graph
from aioflow.dashboard.messages.graph import GraphNode as GraphNode
from aioflow.dashboard.messages.graph import GraphSummary as GraphSummary
from aioflow.dashboard.messages.graph import PlacedCall as PlacedCall
from aioflow.dashboard.messages.graph import PlacedNode as PlacedNode
from aioflow.dashboard.messages.program import Event as Event
from aioflow.dashboard.messages.program import History as History
from aioflow.dashboard.messages.program import Points as Points
from aioflow.dashboard.messages.program import SeriesHistory as SeriesHistory
from aioflow.dashboard.messages.program import Subject as Subject
from aioflow.dashboard.messages.serving import ServedModel as ServedModel
from aioflow.dashboard.messages.serving import ServedVersion as ServedVersion
from aioflow.dashboard.messages.serving import Serving as Serving
from aioflow.dashboard.messages.step import Arrow as Arrow
from aioflow.dashboard.messages.step import Bar as Bar
from aioflow.dashboard.messages.step import Lane as Lane
from aioflow.dashboard.messages.step import Step as Step
from aioflow.dashboard.messages.step import StepSummary as StepSummary
from aioflow.dashboard.messages.step import ValueStatistics as ValueStatistics
from aioflow.dashboard.messages.texts import clip as clip
from aioflow.dashboard.messages.training import Epoch as Epoch
from aioflow.dashboard.messages.training import Histogram as Histogram
from aioflow.dashboard.messages.training import Picture as Picture
from aioflow.dashboard.messages.training import Summaries as Summaries
from aioflow.dashboard.messages.training import Training as Training
from aioflow.dashboard.messages.waits import WaitCycle as WaitCycle
from aioflow.dashboard.messages.waits import WaitEdge as WaitEdge
from aioflow.dashboard.messages.waits import Waiter as Waiter
from aioflow.dashboard.messages.waits import WaitingCaller as WaitingCaller
from aioflow.dashboard.messages.waits import Waits as Waits

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
Message: TypeAlias = (
    Subject | Points | History | Event | Graph | GraphSummary | PlacedCall | Step | StepSummary | Waits | Cluster
    | Training | Summaries | Serving
)  # fmt: skip
KINDS: Final[Mapping[str, type]] = {kind.__name__: kind for kind in typing.get_args(Message)}


def to_json(message: Message) -> str:
    """The message as one line of JSON."""
    return json.dumps(to_plain(message), separators=(",", ":"), default=_plain)


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
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
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
