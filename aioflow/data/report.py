"""What an iterator waits for at one moment: its stages, their elements and buffers."""

import dataclasses
from typing import Any

from aioflow.data.stage import Cursor


@dataclasses.dataclass(frozen=True, slots=True)
class StageReport:
    """One stage of an iterator.

    Attributes:
        name: the method or class that made it.
        line: the user's line that made it.
        depth: the number of stages between it and the consumer.
        given: the number of elements that it has given.
        waits_for: what it waits for, to make its next element; empty if nobody has asked for one.
        buffered: the number of elements in its buffer; None without a buffer.
        capacity: the most elements in its buffer; None without a buffer.
    """

    name: str
    line: str
    depth: int
    given: int
    waits_for: str
    buffered: int | None
    capacity: int | None

    def __str__(self) -> str:
        buffer = "" if self.buffered is None else f", {self.buffered} of {self.capacity} in its buffer"
        doing = f"waits for {self.waits_for}" if self.waits_for else "is not asked for an element"
        at = f"\n    at {self.line}" * bool(self.line)
        return f"{'  ' * self.depth}{self.name}: {self.given} elements given{buffer}; {doing}{at}"


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """The stages of an iterator at one moment. `str` gives it as text.

    Attributes:
        stages: the last stage, which gives the elements to the consumer, and those before it.
        ended: whether the iterator has ended or failed, or was closed.
    """

    stages: tuple[StageReport, ...]
    ended: bool

    def __str__(self) -> str:
        return "\n".join(["the iterator has ended"] * self.ended + [str(stage) for stage in self.stages])


def report(last: Cursor[Any], ended: bool) -> Report:
    """Return the report of an iterator."""
    return Report(tuple([_stage(depth, cursor, ended) for depth, cursor in last.walk()]), ended)


def innermost_wait(last: Cursor[Any]) -> str:
    """Return which stage holds the others back, and what it waits for; empty if none makes an element."""
    busy = [cursor for _, cursor in last.walk() if cursor.busy]
    if not busy:
        return ""
    stage = busy[-1].stage
    return f"{stage.name}{f' at {stage.line}' * bool(stage.line)}, which waits for {busy[-1].waits_for()}"


def _stage(depth: int, cursor: Cursor[Any], ended: bool) -> StageReport:
    buffered, capacity = cursor.buffered() or (None, None)
    waits_for = cursor.waits_for() if cursor.busy and not ended else ""
    return StageReport(cursor.stage.name, cursor.stage.line, depth, cursor.given, waits_for, buffered, capacity)
