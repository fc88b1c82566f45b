"""The command line: `aioflow COMMAND`, also `python -m aioflow COMMAND`.

A command is a function that declares its options on a parser and returns the function to run; `COMMANDS` lists them.
That function returns the exit status: 0 done, 1 failed. A command line with errors ends with 2, Ctrl-C with 130.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.cli.authority import ca
from aioflow.cli.cluster import cluster
from aioflow.cli.dashboard import dashboard
from aioflow.cli.explain import explain
from aioflow.cli.graph import graph
from aioflow.cli.port import port
from aioflow.cli.report import report
from aioflow.cli.serve import serve
from aioflow.cli.top import top
from aioflow.cli.trace import trace
from aioflow.cli.worker import worker
from aioflow.graph.op import REGISTRY, Op
from aioflow.tensors.dtypes import DeviceKind
from aioflow.version import __version__

Run = Callable[[argparse.Namespace], int]
Command = Callable[[argparse.ArgumentParser], Run]


def ops(parser: argparse.ArgumentParser) -> Run:
    """List all ops with their devices and gradients, and whether they may wait."""
    parser.add_argument("--json", action="store_true", help="print a list of objects instead of a table")

    def run(options: argparse.Namespace) -> int:
        REGISTRY.complete()
        facts = [_facts(REGISTRY[name]) for name in sorted(REGISTRY)]
        print(json.dumps(facts, indent=1) if options.json else _table(facts))
        return 0

    return run


COMMANDS: Final[tuple[Command, ...]] = (
    ca,
    cluster,
    dashboard,
    explain,
    graph,
    ops,
    port,
    report,
    serve,
    top,
    trace,
    worker,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default the process's own, and return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    except (errors.OpError, OSError) as error:
        print(f"aioflow: {error}", file=sys.stderr)
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("aioflow", description="TensorFlow's dataflow system for asyncio.")
    parser.add_argument("--version", action="version", version=f"aioflow {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        text = (command.__doc__ or "").strip()
        parser_of_it = commands.add_parser(command.__name__, help=text, description=text)
        parser_of_it.set_defaults(run=command(parser_of_it))
    return parser


# Ops


def _facts(op: Op[Any]) -> dict[str, Any]:
    reason = op.gradient_reason or "none was declared"
    return {
        "name": op.name,
        "devices": [str(kind) for kind in DeviceKind if op.kernels.get(kind)],
        "gradient": True if op.gradient_rule is not None else reason,
        "waits": op.waits,
    }


def _table(facts: Iterable[dict[str, Any]]) -> str:
    rows = [("op", "devices", "waits", "gradient")]
    for fact in facts:
        gradient = "yes" if fact["gradient"] is True else f"no: {fact['gradient']}"
        rows.append((fact["name"], " ".join(fact["devices"]) or "none", "yes" if fact["waits"] else "no", gradient))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)
