"""The state in aioflow of each public name of TensorFlow 1: `tensorflow_names.tsv`, which `oracle.names` writes."""

from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from aioflow.name_hints import instead, is_there

SAME: Final = "same"
DIFFERS: Final = "differs"
MISSING: Final = "missing"
LEFT_OUT: Final = "left out"
"""The state of modules that the table leaves out, whose names are missing."""


class NameState(NamedTuple):
    """A name below `tf`: whether it is the same in aioflow, differs (how), or is missing (what instead)."""

    path: str
    state: str
    text: str


@cache
def name_states() -> dict[str, NameState]:
    """Return the rows of the table by path."""
    lines = Path(__file__).with_name("tensorflow_names.tsv").read_text(encoding="utf-8").splitlines()
    rows = (NameState(*line.split("\t")) for line in lines)
    return {row.path: row for row in rows}


@cache
def _modules() -> frozenset[str]:
    """The modules that the names of the table are in."""
    parts = (path.split(".") for path in name_states())
    return frozenset(".".join(each[:end]) for each in parts for end in range(len(each)))


def state_of(path: str) -> NameState | None:
    """Return the state of the name that a path below `tf` begins with; None where it only goes down to a module."""
    known, parts = name_states(), path.split(".")
    for end in range(1, len(parts) + 1):
        row = known.get(".".join(parts[:end]))
        if row is not None and row.state == LEFT_OUT:
            return NameState(path, MISSING, instead(path) or row.text)
        if row is not None:
            return row
    if path in _modules():
        return None
    return NameState(path, SAME, "") if is_there(path) else NameState(path, MISSING, instead(path))
