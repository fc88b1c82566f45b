"""`aioflow worker`: one task of a cluster, until it is told to stop."""

import argparse
import asyncio
import contextlib
import importlib.util
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from aioflow import errors
from aioflow.config import Config
from aioflow.launch.functions import load_functions
from aioflow.launch.resolvers import resolve
from aioflow.net.cluster import ClusterSpec, Member

if TYPE_CHECKING:
    from aioflow.dashboard.page import Page
    from aioflow.net.server import Server

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

Run = Callable[[argparse.Namespace], int]


def worker(parser: argparse.ArgumentParser) -> Run:
    """Run one task of a cluster, until SIGTERM or Ctrl-C, or until a client asks it to stop."""
    parser.add_argument(
        "--cluster", metavar="FILE",
        help='a file such as {"ps": ["host:port"], "worker": [...]}; else variables such as TF_CONFIG',
    )  # fmt: skip
    parser.add_argument("--job", help="the job of this task in FILE (default: worker)")
    parser.add_argument("--task", type=int, help="the number of this task in its job (default: 0)")
    parser.add_argument("--host", help="the address to listen at, if not the one in FILE, such as 0.0.0.0")
    parser.add_argument("--token-file", metavar="FILE", help="the token of the cluster; else AIOFLOW_TOKEN, if set")
    parser.add_argument("--tls", metavar="DIR", help="a directory of certificates made by `aioflow ca init DIR`")
    parser.add_argument("--py-funcs", metavar="MODULE", help="the module whose functions af.py_func may name")
    parser.add_argument(
        "--file-root", metavar="DIR", action="append", default=[],
        help="a folder whose files operations may use; may be repeated. By default they may use no files",
    )  # fmt: skip
    parser.add_argument(
        "--heartbeat-timeout", metavar="SECONDS", type=seconds, default=5.0,
        help="a peer that is silent for this long counts as lost (default: %(default)g)",
    )  # fmt: skip
    parser.add_argument(
        "--no-shared-memory", action="store_true", help="send large values to processes of this host by sockets, too"
    )
    parser.add_argument(
        "--no-busy-poll", action="store_true", help="sleep until a message comes, also if messages come fast"
    )
    parser.add_argument(
        "--dashboard", metavar="PORT", type=int,
        help="show the cluster in browsers on this port of --host, or else of this machine alone; 0 for any",
    )  # fmt: skip
    parser.add_argument("--loop", choices=["uvloop", "asyncio"], default="uvloop", help="default: uvloop if installed")
    return _run


def _run(options: argparse.Namespace) -> int:
    server = _server(options)
    with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
        runner.run(_serve(server, options))
    return 0


def _server(options: argparse.Namespace) -> "Server":
    """Return the server that the options describe. InvalidArgumentError if there is no such task."""
    from aioflow.net.server import Server

    member = _find_member(options)
    config = Config(
        token_file=options.token_file, ssl=options.tls, file_roots=file_roots(options.file_root),
        heartbeat_timeout=options.heartbeat_timeout, shared_memory=not options.no_shared_memory,
        busy_poll=not options.no_busy_poll,
    )  # fmt: skip
    functions = {} if options.py_funcs is None else load_functions(options.py_funcs)
    return Server(member.cluster, member.job, member.index, config, py_funcs=functions, host=options.host)


def _find_member(options: argparse.Namespace) -> Member:
    """Return the task that the options name. InvalidArgumentError if there is no such task."""
    if options.cluster is None and (options.job is not None or options.task is not None):
        raise errors.InvalidArgumentError(
            "--job and --task select a task of --cluster FILE; without FILE, variables select it: leave --job and "
            "--task out, or set AIOFLOW_CLUSTER, AIOFLOW_JOB and AIOFLOW_TASK"
        )
    if options.cluster is None:
        return resolve()
    job = "worker" if options.job is None else options.job
    member = Member(read_cluster(options.cluster), job, options.task or 0)
    try:
        _ = member.address  # ValueError if there is no such task
    except ValueError as error:
        raise errors.InvalidArgumentError(f"{options.cluster}: {error}") from None
    return member


def file_roots(roots: Sequence[str]) -> tuple[str, ...]:
    """Return folders as absolute paths, and URLs unchanged. InvalidArgumentError names a missing folder."""
    for root in roots:
        if "://" not in root and not os.path.isdir(root):
            raise errors.InvalidArgumentError(f"--file-root {root}: there is no such folder")
    return tuple(root if "://" in root else os.path.abspath(root) for root in roots)


def seconds(text: str) -> float:
    """Return the number in the text, an option whose errors name this function. ValueError if it is not above 0."""
    return Config(heartbeat_timeout=float(text)).heartbeat_timeout


async def _serve(server: "Server", options: argparse.Namespace) -> None:
    with stopping_signals(server.ask_to_stop):
        async with server, _page(server, options) as page:
            text = "" if page is None else f"its page: {page.url}\n"
            print(f"{server.name} listens: {server.target}\n{text}", end="", flush=True)  # in one write
            await server.join()


@contextlib.asynccontextmanager
async def _page(server: "Server", options: argparse.Namespace) -> "AsyncIterator[Page | None]":
    """The live page of the task, if the options ask for one."""
    if options.dashboard is None:
        yield None
        return
    from aioflow.cli.dashboard import page_of
    from aioflow.dashboard.watched import monitor_of

    host = options.host or "127.0.0.1"
    async with page_of(monitor_of(server), host, options.dashboard, options.token_file, options.tls) as page:
        yield page


def read_cluster(path: str) -> ClusterSpec:
    """Return the cluster in a file. InvalidArgumentError if the file describes none."""
    try:
        return ClusterSpec.from_json(path)
    except (TypeError, ValueError) as error:
        raise errors.InvalidArgumentError(str(error)) from None


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return the factory of the event loop: uvloop's if that is wanted and installed, else asyncio's."""
    if name == "uvloop" and importlib.util.find_spec("uvloop"):
        import uvloop

        return uvloop.new_event_loop
    return asyncio.new_event_loop


@contextlib.contextmanager
def stopping_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Inside, the first SIGTERM or Ctrl-C calls `stop`; the second one has its default effect."""
    if sys.platform == "win32":  # Ctrl-C cancels the program's task there, and there is no SIGTERM
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
