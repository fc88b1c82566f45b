"""The watched program, its numbers and its events."""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """The watched program.

    Attributes:
        title: its name.
        what: "session", "task", "models" or "cluster".
        version: the version of aioflow.
        began: the time from which it is watched.
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
    """An event of the watched program, such as a lost task.

    Attributes:
        time: the time of the event.
        level: "good", "info", "bad".
        text: the description of the event.
        task: the task of the cluster; empty if it is none or all.
    """

    time: float
    level: str
    text: str
    task: str = ""
