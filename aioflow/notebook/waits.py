"""What `session.explain()` reports: who waits for what, since when, and deadlocks."""

from typing import TYPE_CHECKING, Final

from aioflow.notebook.card import card, lines, more, table
from aioflow.notebook.markup import Markup, clip, element, joined
from aioflow.notebook.quantities import counted, seconds

if TYPE_CHECKING:
    from aioflow.runtime.explain import Caller, Report, Wait

_ROWS: Final = 100
"""Rows of each kind, at most."""
_COLUMNS: Final = ("for", "who", "does", "built at")


def waits_html(report: "Report") -> str:
    """The operations under way, the application code that waits, deadlocks, and what else a report tells."""
    rows = [*map(_wait, report.waits[:_ROWS]), *map(_caller, report.application[:_ROWS])]
    left = max(0, len(report.waits) - _ROWS) + max(0, len(report.application) - _ROWS)
    cycles = [element("div", *_lines(str(cycle)), class_="bad") for cycle in report.cycles[:_ROWS]]
    notes = [f"{name} was never started: call af.train.start_queue_runners()" for name in report.idle_runners]
    notes += [f"left behind in C code: {name}" for name in report.detached]
    notes += [f"not captured in a CUDA graph: {each}" for each in report.uncaptured]
    notes += [f"not known: {each}" for each in report.absent]
    body = table(rows, _COLUMNS) if rows else None
    under_way = counted(len(report.waits), "operation") + " under way" if report.waits else "no step is running"
    note = f"{counted(len(report.cycles), 'deadlock')}, {under_way}" if report.cycles else under_way
    return card("Waiting", *cycles, body, more(left, "waits"), lines(notes[:_ROWS]), note=note)


def _lines(plain: str) -> list[Markup]:
    """A text line by line, of which each may be long."""
    return [element("div", line) for line in plain.split("\n")[:_ROWS]]


def _wait(wait: "Wait") -> tuple[str, ...]:
    about = [f"{wait.op_type}, step {wait.step}", *filter(None, (wait.task, wait.iteration))]
    who = joined([element("b", wait.operation), f"\n{', '.join(about)}"])
    doing = f"waits to {wait.what}" if wait.what else "computes" if wait.computes else "has not ended"
    holder = "" if wait.holder is None else f"\n{clip(str(wait.holder))}"
    return seconds(wait.seconds), who, joined([clip(doing), holder]), wait.line


def _caller(caller: "Caller") -> tuple[str, ...]:
    who = joined([element("b", caller.task or "the application"), "\nan asyncio task" if caller.task else None])
    return seconds(caller.seconds), who, f"waits to {caller.what}", caller.line
