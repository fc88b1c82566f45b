"""`aioflow top`: what the tasks of a cluster do, in a terminal."""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aioflow import errors
from aioflow.cli.screen import Screen, pressed_key
from aioflow.cli.tables import drawn
from aioflow.cli.target import PATIENCE, add_target, network_of_target
from aioflow.cli.worker import loop_factory, stopping_signals

if TYPE_CHECKING:
    from aioflow.dashboard.monitor import Monitor

_EVERY: Final = 1.0
_WIDEST: Final = 100_000
_LOOKS: Final = 2
"""Looks at the tasks until their speeds are known."""
Run = Callable[[argparse.Namespace], int]


def top(parser: argparse.ArgumentParser) -> Run:
    """Show the tasks of a cluster, their speed, queues, memory and waits, once a second. q or Ctrl-C ends it."""
    add_target(parser)
    parser.add_argument(
        "--once", action="store_true", help="print one state as plain text, as where the output is no terminal"
    )
    return _run


def _run(options: argparse.Namespace) -> int:
    from aioflow.dashboard.watched import monitor_of_cluster

    where = network_of_target(options.target, options.token_file, options.tls)
    with asyncio.Runner(loop_factory=loop_factory("uvloop")) as runner:
        if options.once or not sys.stdout.isatty():
            print("\n".join(runner.run(snapshot(monitor_of_cluster(*where, PATIENCE)))))
        else:
            runner.run(_show(monitor_of_cluster(*where)))
    return 0


async def snapshot(monitor: "Monitor") -> list[str]:
    """Return the state of a cluster as lines, as soon as the speeds of its tasks are known.

    Raises:
        UnavailableError: the tasks are unknown.
    """
    from aioflow.cli.cluster_view import ClusterView

    changed = asyncio.Event()
    try:
        with monitor.viewer() as board:
            view = ClusterView(board, changed.set)
            while view.looks < _LOOKS:
                await changed.wait()
                changed.clear()
                if view.trouble:
                    raise errors.UnavailableError(view.trouble)
            return drawn([*view.parts()], _WIDEST, colour=False)
    finally:
        await monitor.close()


async def _show(monitor: "Monitor") -> None:
    from aioflow.cli.cluster_view import ClusterView

    stopped = asyncio.Event()
    try:
        with monitor.viewer() as board, stopping_signals(stopped.set), pressed_key("q", stopped.set):
            view = ClusterView(board, lambda: None)
            with Screen(sys.stdout) as screen:
                while not stopped.is_set():
                    screen.paint([*view.parts()])
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_EVERY):
                            await stopped.wait()
    finally:
        await monitor.close()
