"""`aioflow explain`: who waits for whom in a running cluster."""

import argparse
import asyncio
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from aioflow.cli.tables import Line, drawn
from aioflow.cli.target import PATIENCE, add_target, network_of_target
from aioflow.cli.worker import loop_factory

if TYPE_CHECKING:
    from aioflow.runtime.explain import Report

_WIDEST: Final = 100_000
"""Characters of a line: the terminal breaks it."""
Run = Callable[[argparse.Namespace], int]


def explain(parser: argparse.ArgumentParser) -> Run:
    """Show which operations of a cluster wait, for what, and their deadlocks. Exit status 1 if there is a deadlock."""
    add_target(parser)
    return _run


def _run(options: argparse.Namespace) -> int:
    from aioflow.dashboard.cluster_source import ClusterSource

    where = network_of_target(options.target, options.token_file, options.tls)
    source = ClusterSource(*where, limit=PATIENCE)
    with asyncio.Runner(loop_factory=loop_factory("uvloop")) as runner:
        report = runner.run(source.explain())
    print("\n".join(drawn([*_lines(report)], _WIDEST, colour=sys.stdout.isatty())))
    return 1 if report.cycles else 0


def _lines(report: "Report") -> Iterator[Line]:
    """The text of the report, with deadlocks in the style of errors."""
    bad = sum([len(str(cycle).splitlines()) for cycle in report.cycles])
    for number, text in enumerate(str(report).splitlines()):
        yield Line(text, "bad" if number < bad or text.startswith("not known: ") else "")
