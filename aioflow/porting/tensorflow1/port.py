"""Ports a program: makes the mechanical changes from TensorFlow 1, and notes the places that need a person.

`port` infers the meaning of the names of a program, finds the calls that wait, and lets each kind of change make its
edits. Only the changed spots differ: every other character stays.
"""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Final

from aioflow.porting.tensorflow1.arguments import change_arguments
from aioflow.porting.tensorflow1.awaiting import change_waiting
from aioflow.porting.tensorflow1.changes import Changes
from aioflow.porting.tensorflow1.entry import change_entry
from aioflow.porting.tensorflow1.flags import change_flags
from aioflow.porting.tensorflow1.imports import change_imports
from aioflow.porting.tensorflow1.names import NameState
from aioflow.porting.tensorflow1.script import Script
from aioflow.porting.tensorflow1.usage import Use, uses

_KINDS: Final = (change_imports, change_waiting, change_arguments, change_flags, change_entry)
"""In the order in which texts stand that they put at one position."""


@dataclasses.dataclass(frozen=True)
class Note:
    """A place that needs a person.

    Attributes:
        line: its line in the program before the port.
        text: what to do there.
    """

    line: int
    text: str


@dataclasses.dataclass(frozen=True)
class Port:
    """A ported program.

    Attributes:
        name: the name of its file.
        text: the program after the port.
        changes: how many changes of each kind were made.
        names: each name of TensorFlow's that the program uses, its state, and the lines with it.
        notes: the places that need a person.
    """

    name: str
    text: str
    changes: Counter[str]
    names: Sequence[tuple[NameState, Sequence[int]]]
    notes: Sequence[Note]


def port(script: Script) -> Port:
    """Return the port of a program. A program without TensorFlow stays as it is."""
    changes = Changes(script)
    found = list(uses(changes.inference))
    if changes.has_tensorflow:
        for change in _KINDS:
            change(changes)
        changes.note_missing(found)
        changes.write_imports()
    notes = sorted({Note(line, text) for line, text in changes.notes}, key=lambda note: (note.line, note.text))
    return Port(script.name, changes.edits.render(), changes.counts, _gathered(found), notes)


def _gathered(found: Sequence[Use]) -> list[tuple[NameState, Sequence[int]]]:
    """The names, each with the lines that it is used in."""
    lines: dict[NameState, list[int]] = {}
    for use in found:
        known = lines.setdefault(use.state, [])
        if use.node.lineno not in known:
            known.append(use.node.lineno)
    return sorted((state, sorted(numbers)) for state, numbers in lines.items())
