"""`aioflow dashboard`: the live page of a running cluster, or of a recorded run."""

import argparse
import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from aioflow.cli.target import network_of_target
from aioflow.cli.worker import loop_factory, stopping_signals

if TYPE_CHECKING:
    from aioflow.dashboard.monitor import Monitor
    from aioflow.dashboard.page import Page

Run = Callable[[argparse.Namespace], int]


def dashboard(parser: argparse.ArgumentParser) -> Run:
    """Show a running cluster, or a recorded run, in a browser."""
    parser.add_argument(
        "target", metavar="TARGET", help="the address of any task, such as ws://host:port, or a recorded run.json"
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address of the page (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8265, help="the port of the page; 0 for any (default: %(default)s)")
    parser.add_argument(
        "--token-file", metavar="FILE", help="the token of tasks, with which browsers sign in, too; else AIOFLOW_TOKEN"
    )
    parser.add_argument("--tls", metavar="DIR", help="a directory of certificates, of the tasks and for the page")
    return _run


def _run(options: argparse.Namespace) -> int:
    with asyncio.Runner(loop_factory=loop_factory("uvloop")) as runner:
        runner.run(_show(options))
    return 0


async def _show(options: argparse.Namespace) -> None:
    monitor = _monitor(options)
    stopped = asyncio.Event()
    with stopping_signals(stopped.set):
        async with page_of(monitor, options.host, options.port, options.token_file, options.tls) as page:
            print(f"the page of {options.target}: {page.url}\n", end="", flush=True)
            await stopped.wait()


def _monitor(options: argparse.Namespace) -> "Monitor":
    """The monitor of a cluster, or of a recorded run. InvalidArgumentError if the target is neither."""
    from aioflow.dashboard.recording import replay
    from aioflow.dashboard.watched import monitor_of_cluster

    target = options.target
    if "://" not in target:
        return replay(target)
    tls = options.tls if target.startswith("wss:") else None  # for the page alone
    return monitor_of_cluster(*network_of_target(target, options.token_file, tls, ", or a recorded run"))


def page_of(monitor: "Monitor", host: str, port: int, token_file: str | None, tls: str | None) -> "Page":
    """The page of a monitor, with the credentials that the options name."""
    from aioflow.dashboard.page import Page
    from aioflow.net.transport.credentials import load_token, server_tls

    return Page(monitor, host, port, load_token(token_file), None if tls is None else server_tls(tls, mutual=False))
