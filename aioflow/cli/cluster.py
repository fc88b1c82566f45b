"""`aioflow cluster`: starts or stops all tasks of a cluster."""

import argparse
import asyncio
import logging
import os
import secrets
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aioflow import errors
from aioflow.cli.worker import file_roots, loop_factory, read_cluster, stopping_signals
from aioflow.config import Config

if TYPE_CHECKING:
    from aioflow.launch.launcher import Cluster

Run = Callable[[argparse.Namespace], int]


def cluster(parser: argparse.ArgumentParser) -> Run:
    """Start a cluster on this machine, or stop a cluster anywhere."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_up(commands.add_parser("up", help="start tasks on this machine, until SIGTERM or Ctrl-C"))
    _add_down(commands.add_parser("down", help="ask all tasks of a cluster to stop"))
    return lambda options: options.action(options) or 0


def _add_up(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--workers", type=int, default=1, help="tasks of the job worker (default: %(default)s)")
    parser.add_argument("--ps", type=int, default=0, help="tasks of the job ps (default: %(default)s)")
    parser.add_argument("--token-file", metavar="FILE", help="the token that clients must have; a new one by default")
    parser.add_argument(
        "--file-root",
        metavar="DIR",
        action="append",
        default=[],
        help="a folder whose files operations may use",
    )
    parser.add_argument("--tls", metavar="DIR", help="a directory of certificates made by `aioflow ca init DIR`")
    parser.add_argument("--py-funcs", metavar="MODULE", help="the module whose functions af.py_func may name")
    parser.add_argument("--restart", action="store_true", help="restart a task that dies, up to 5 times in 10 minutes")
    parser.set_defaults(action=_up)


def _up(options: argparse.Namespace) -> int:
    logging.basicConfig(format="aioflow: %(message)s")
    if options.workers < 1 or options.ps < 0:
        raise errors.InvalidArgumentError(
            f"--workers must be at least 1 and --ps at least 0, not {options.workers}, {options.ps}"
        )
    with tempfile.TemporaryDirectory(prefix="aioflow-") as folder:
        file = options.token_file or _new_token(Path(folder))
        with asyncio.Runner(loop_factory=loop_factory("uvloop")) as runner:
            config = Config(token_file=file, file_roots=file_roots(options.file_root), ssl=options.tls)
            return runner.run(_launch(options, config))


def _new_token(folder: Path) -> str:
    """Write a new token to a file that no other user may read. Returns its path."""
    file = folder / "token"
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
        opened.write(secrets.token_urlsafe(32))
    return str(file)


async def _launch(options: argparse.Namespace, config: Config) -> int:
    """Serve until a signal comes or a task is lost for good. Returns the exit status."""
    from aioflow.launch.launcher import RESTARTS
    from aioflow.launch.local_processes import local

    restarts = RESTARTS if options.restart else 0
    stopped = asyncio.Event()
    with stopping_signals(stopped.set):
        async with local(
            options.workers, ps=options.ps, config=config, py_funcs=options.py_funcs, restarts=restarts
        ) as launched:
            for task, address in launched.spec:
                print(f"{task} at {address}")
            print(f"target {'ws' if config.ssl is None else 'wss'}://{launched.spec.task_address('worker', 0)}")
            print(f"token file {config.token_file}", flush=True)
            await _wait_first(stopped.wait(), launched.watch())
            return _status(launched)


async def _wait_first(*awaited: Coroutine[Any, Any, object]) -> None:
    """Wait until one of them ends, then cancel the others."""
    tasks = [asyncio.ensure_future(each) for each in awaited]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _status(launched: "Cluster") -> int:
    """The shell's exit status for the first lost task: 0 if no task was lost, 1 if the status is unknown."""
    for status in launched.statuses.values():
        return 1 if status is None else status if status >= 0 else 128 - status
    return 0


def _add_down(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cluster", required=True, metavar="FILE", help="the cluster file of its workers")
    parser.add_argument("--token-file", metavar="FILE", help="their token; else AIOFLOW_TOKEN, if set")
    parser.add_argument("--tls", metavar="DIR", help="a directory of certificates")
    parser.set_defaults(action=_down)


def _down(options: argparse.Namespace) -> None:
    from aioflow.net.server import stop_servers

    logging.basicConfig(format="aioflow: %(message)s")
    config = Config(token_file=options.token_file, ssl=options.tls)
    asyncio.run(stop_servers(read_cluster(options.cluster), config, "aioflow cluster down"))
