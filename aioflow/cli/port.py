"""`aioflow port`: TensorFlow 1 programs, changed into programs for aioflow."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aioflow.porting.tensorflow1.port import Port

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
    states = [state.state for state, _ in ported.names]
    counts = ", ".join(f"{states.count(state)} {state}" for state in ("same", "differs", "missing") if state in states)
    lines = [f"{ported.name}: {len(states)} names of TensorFlow's: {counts}", ""]
    width = max((len(state.path) for state, _ in ported.names), default=0) + len("tf.")
    for state, numbers in sorted(ported.names, key=lambda row: ("missing", "differs", "same").index(row[0].state)):
        places = ", ".join(map(str, numbers))
        lines.append(
            f"  {state.state:<7}  {'tf.' + state.path:<{width}}  line {places}" + f": {state.text}" * bool(state.text)
        )
    made = ", ".join(f"{kind} {number}" for kind, number in ported.changes.items())
    lines += ["", f"changed: {made or 'nothing'}", f"left to you: {len(ported.notes) or 'nothing'}"]
    return lines + [f"  line {note.line}: {note.text}" for note in ported.notes]
