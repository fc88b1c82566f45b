"""`aioflow port`: TensorFlow 1 programs, changed into programs for aioflow."""

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aioflow.porting.tensorflow1.port import Port

_ORDER: Final = ("missing", "differs", "same")
Run = Callable[[argparse.Namespace], int]


def port(parser: argparse.ArgumentParser) -> Run:
    """Change a TensorFlow 1 program into one for aioflow, and report its names and the places left to you."""
    parser.add_argument("script", metavar="SCRIPT", help="a program in Python 3 that imports TensorFlow; it is not run")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the changed program there, or print it with `-`")
    return _run


def _run(options: argparse.Namespace) -> int:
    from aioflow.porting.tensorflow1.port import port as made
    from aioflow.porting.tensorflow1.script import read_script

    script = read_script(options.script)
    ported = made(script)
    if options.output == "-":
        sys.stdout.write(ported.text)
        return 0
    print("\n".join(report(ported)))
    if options.output is not None:
        Path(options.output).write_bytes(ported.text.encode(script.encoding))
        print(f"\nwritten to {options.output}")
    return 0


def report(ported: "Port") -> list[str]:
    """Return the lines of a report: the names by state, the changes, and the places that need a person."""
    if not ported.names and not ported.changes:
        return [f"{ported.name}: no TensorFlow program, nothing to change"]
    states = Counter(state.state for state, _ in ported.names)
    counts = ", ".join(f"{states[state]} {state}" for state in reversed(_ORDER) if states[state])
    made = ", ".join(f"{kind} {number}" for kind, number in ported.changes.items())
    return [
        f"{ported.name}: {states.total()} names of TensorFlow's: {counts}\n",
        *_names(ported),
        f"\nchanged: {made or 'nothing'}",
        f"left to you: {len(ported.notes) or 'nothing'}",
        *(f"  line {note.line}: {note.text}" for note in ported.notes),
    ]


def _names(ported: "Port") -> list[str]:
    """A line for each name: the missing ones first."""
    width = max((len(state.path) for state, _ in ported.names), default=0)
    lines = []
    for state, numbers in sorted(ported.names, key=lambda row: _ORDER.index(row[0].state)):
        text = f": {state.text}" if state.text else ""
        places = ", ".join(map(str, numbers))
        lines.append(f"  {state.state:<7}  tf.{state.path:<{width}}  line {places}{text}")
    return lines
