"""Whether the parts of a message agree: a recording may have been changed, or written by another program."""

from collections.abc import Iterable
from typing import Final

from aioflow.dashboard.messages.graph import Graph
from aioflow.dashboard.messages.program import History
from aioflow.dashboard.messages.step import Step
from aioflow.dashboard.messages.training import Summaries
from aioflow.dashboard.messages.waits import Waits

_DEEPEST: Final = 400
"""Scopes of a name, at most: pages draw scopes within each other."""


def check(message: object) -> None:
    """ValueError if parts of a message contradict each other, so that a page could not show it."""
    match message:
        case Step():
            _check_step(message)
        case Graph():
            _check_graph(message)
        case History(series):
            _same_lengths((name, each.times, each.values) for name, each in series.items())
        case Summaries(histograms):
            _same_lengths((each.tag, each.limits, each.counts) for each in histograms)
        case Waits(cycles=cycles) if not all(cycle.edges for cycle in cycles):
            raise ValueError("a cycle of waits has no operations")


def _check_step(step: Step) -> None:
    ends = [end for arrow in step.arrows for end in (arrow.source, arrow.target) if end != -1]
    _within([*[bar.lane for bar in step.bars], *ends], len(step.lanes), f"step {step.number}: lane")


def _check_graph(graph: Graph) -> None:
    _within(
        [number for node in graph.nodes for number in (*node.inputs, *node.controls)], len(graph.nodes), "operation"
    )
    if (deepest := max([node.name.count("/") for node in graph.nodes], default=0)) > _DEEPEST:
        raise ValueError(f"the name of an operation has {deepest} scopes; at most {_DEEPEST} are shown")


def _within(numbers: Iterable[int], count: int, what: str) -> None:
    strange = next((number for number in numbers if not 0 <= number < count), None)
    if strange is not None:
        raise ValueError(f"{what} {strange} is named, and there are {count}")


def _same_lengths(tables: Iterable[tuple[str, tuple[float, ...], tuple[float, ...]]]) -> None:
    for name, first, second in tables:
        if len(first) != len(second):
            raise ValueError(f"{name!r} has columns of {len(first)} and {len(second)} numbers")
