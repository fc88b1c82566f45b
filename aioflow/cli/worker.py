"""`aioflow worker`: one task of a cluster, until it is told to stop."""

import argparse
import asyncio
import contextlib
import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from aioflow import errors
from aioflow.config import Config
from aioflow.launch.functions import functions_of
from aioflow.launch.resolving import resolve
from aioflow.net.cluster import ClusterSpec, Member

if TYPE_CHECKING:
    from aioflow.net.server import Server

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

Run = Callable[[argparse.Namespace], int]


def worker(parser: argparse.ArgumentParser) -> Run:
    """Be one task of a cluster, until SIGTERM or Ctrl-C, or until somebody asks it to stop."""
    parser.add_argument(
        "--cluster", metavar="FILE",
        help='as {"ps": ["host:port"], "worker": [...]}; else the environment tells, as TF_CONFIG does',
    )  # fmt: skip
    parser.add_argument("--job", help="the name of its job in FILE (default: worker)")
    parser.add_argument("--task", type=int, help="its number in that (default: 0)")
    parser.add_argument("--host", help="the address to listen at, where that is not the one in FILE, as 0.0.0.0")
    parser.add_argument("--token-file", metavar="FILE", help="what others have to show; else AIOFLOW_TOKEN, if set")
    parser.add_argument("--tls", metavar="DIR", help="certificates, as `aioflow ca init DIR` makes them")
    parser.add_argument("--py-funcs", metavar="MODULE", help="a module with the functions that af.py_func may name")
    parser.add_argument(
        "--file-root", metavar="DIR", action="append", default=[],
        help="operations may use files below it; may be repeated. By default they may use none",
    )  # fmt: skip
    parser.add_argument(
        "--heartbeat-timeout", metavar="SECONDS", type=seconds, default=5.0,
        help="a peer of which nothing is heard for so long counts as lost (default: %(default)g)",
    )  # fmt: skip
    parser.add_argument("--loop", choices=["uvloop", "asyncio"], default="uvloop", help="default: uvloop if installed")
    return _run


def _run(options: argparse.Namespace) -> int:
    server = _server(options)
    with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
        runner.run(_serve(server))
    return 0


def _server(options: argparse.Namespace) -> "Server":
    """The task that the options tell of. InvalidArgumentError if there is no such task."""
    from aioflow.net.server import Server

    member = _member(options)
    config = Config(
        token_file=options.token_file, ssl=options.tls, file_roots=file_roots(options.file_root),
        heartbeat_timeout=options.heartbeat_timeout,
    )  # fmt: skip
    functions = {} if options.py_funcs is None else functions_of(options.py_funcs)
    return Server(member.cluster, member.job, member.index, config, py_funcs=functions, host=options.host)


def _member(options: argparse.Namespace) -> Member:
    """Which task of which cluster it is. InvalidArgumentError if there is no such task."""
    if options.cluster is None and (options.job is not None or options.task is not None):
        raise errors.InvalidArgumentError(
            "--job and --task say which task of --cluster FILE it is; without one the environment tells, so leave "
            "them out, or set AIOFLOW_CLUSTER, AIOFLOW_JOB and AIOFLOW_TASK"
        )
    if options.cluster is None:
        return resolve()
    job = "worker" if options.job is None else options.job
    member = Member(read_cluster(options.cluster), job, options.task or 0)
    try:
        _ = member.address  # ValueError if it has none
    except ValueError as error:
        raise errors.InvalidArgumentError(f"{options.cluster}: {error}") from None
    return member


def file_roots(told: Sequence[str]) -> tuple[str, ...]:
    """Folders as absolute paths, and URLs. InvalidArgumentError names a folder that is not there."""
    for root in told:
        if "://" not in root and not os.path.isdir(root):
            raise errors.InvalidArgumentError(f"--file-root {root}: there is no such folder")
    return tuple(root if "://" in root else os.path.abspath(root) for root in told)


def seconds(text: str) -> float:
    """ValueError if it is no number above 0."""
    return Config(heartbeat_timeout=float(text)).heartbeat_timeout


async def _serve(server: "Server") -> None:
    with stopping_signals(server.ask_to_stop):
        async with server:
            print(f"{server.name} listens: {server.target}", flush=True)
            await server.join()


def read_cluster(path: str) -> ClusterSpec:
    """The cluster that a file describes. InvalidArgumentError if it describes none."""
    try:
        return ClusterSpec.from_json(path)
    except (TypeError, ValueError) as error:
        raise errors.InvalidArgumentError(str(error)) from None


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """What makes the event loop: uvloop's where it is wanted and installed, else asyncio's own."""
    if name == "uvloop" and importlib.util.find_spec("uvloop"):
        import uvloop

        return uvloop.new_event_loop
    return asyncio.new_event_loop


@contextlib.contextmanager
def stopping_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Inside, the first SIGTERM or Ctrl-C calls `stop`; the second does what it does by default."""
    if sys.platform == "win32":  # where Ctrl-C cancels the program's task, and there is no SIGTERM
        yield
        return
    loop = asyncio.get_running_loop()

    def remove() -> None:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    def first() -> None:
        remove()
        stop()

    for number in _SIGNALS:
        loop.add_signal_handler(number, first)
    try:
        yield
    finally:
        remove()
