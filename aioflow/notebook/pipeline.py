"""A dataset: its stages, from the sources to the last one."""

from typing import TYPE_CHECKING, Final

from aioflow.notebook.card import card, facts, more, table
from aioflow.notebook.markup import clip
from aioflow.notebook.quantities import counted

if TYPE_CHECKING:
    from aioflow.data.stage import Stage

_STAGES: Final = 50


def dataset_html(last: "Stage") -> str:
    """The stages of a dataset, in the order in which elements pass them, and what an element is."""
    stages = _in_order(last)
    places = {id(stage): str(number) for number, stage in enumerate(stages, 1)}
    rows = [
        (places[id(stage)], stage.name, clip(stage.details()), ", ".join([places[id(each)] for each in stage.inputs]),
         _count(stage), stage.line)
        for stage in stages[:_STAGES]
    ]  # fmt: skip
    body = table(rows, ("", "stage", "with", "takes from", "elements", "made at"))
    element = "decided by a function" if last.spec is None else clip(str(last.spec))
    left = more(len(stages) - _STAGES, "stages")
    return card("Dataset", body, left, facts([("an element", element)]), note=counted(len(stages), "stage"))


def _in_order(last: "Stage") -> "list[Stage]":
    """Each stage once, after its inputs. No call recurs: a dataset may have thousands of stages."""
    found: dict[int, Stage] = {}
    waiting = [(last, False)]
    while waiting:
        stage, are_inputs_found = waiting.pop()
        if are_inputs_found:
            found.setdefault(id(stage), stage)
        elif id(stage) not in found:
            waiting += [(stage, True), *[(each, False) for each in reversed(stage.inputs)]]
    return list(found.values())


def _count(stage: "Stage") -> str:
    count = stage.cardinality()
    return "not known" if count is None else "no end" if count == float("inf") else f"{count:,.0f}"
