"""`aioflow serve`: models on a port, until it is told to stop."""

import argparse
import asyncio
import contextlib
import gc
import logging
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Final

from aioflow import errors
from aioflow.cli.serve_cluster import add_cluster, cluster_config, replicas_of
from aioflow.cli.worker import loop_factory, seconds, stopping_signals

if TYPE_CHECKING:
    from aioflow.serving.grpc_listener import GrpcListener
    from aioflow.serving.models import Models
    from aioflow.serving.server import HttpServer
    from aioflow.serving.service import Service

    Servers = Sequence[HttpServer | GrpcListener]

_YOUNG: Final = 10_000
"""Objects after whose making the garbage collector comes."""
Run = Callable[[argparse.Namespace], int]


def serve(parser: argparse.ArgumentParser) -> Run:
    """Serve saved models, by the Open Inference Protocol over HTTP and gRPC, and by TensorFlow Serving's REST."""
    add = parser.add_argument
    add(
        "--model", metavar="NAME=DIR", type=_pair, action="append", default=[],
        help="a model, and the folder with a folder for each of its versions; may be repeated",
    )  # fmt: skip
    add(
        "--label", metavar="NAME:LABEL=VERSION", type=_label, action="append", default=[],
        help="a name for a version of a model, as digits:stable=3; may be repeated",
    )  # fmt: skip
    add(
        "--config", metavar="FILE",
        help="TOML with models, their labels, splits and batching, and limits, by the names of the Python API",
    )  # fmt: skip
    add("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    add("--port", type=int, default=8500, help="the port to listen on; 0 for any (default: %(default)s)")
    add("--grpc-port", type=int, metavar="PORT", help="a port for gRPC, too; 0 for any (default: none)")
    add("--workers", type=_count, default=1, help="processes that share the port (default: %(default)s)")
    add(
        "--token-file", metavar="FILE", action="append", default=[],
        help="a token that clients may show, each with quotas of its own; may be repeated; else AIOFLOW_TOKEN, if set",
    )  # fmt: skip
    add(
        "--tls", metavar="DIR", help="certificates made by `aioflow ca init DIR`; clients without a token show one, too"
    )
    add(
        "--origin", metavar="URL", action="append", default=[],
        help="a web page whose requests are answered, as https://example.org; may be repeated",
    )  # fmt: skip
    _add_limits(parser)
    add_cluster(parser)
    add("--poll", metavar="SECONDS", type=seconds, default=1.0, help="looks for new versions (default: %(default)g)")
    add(
        "--drain-delay", metavar="SECONDS", type=float, default=1.0,
        help="at the end, the time between turning unready and refusing connections (default: %(default)g)",
    )  # fmt: skip
    add("--access-log", action="store_true", help="write a line of JSON for each request to the standard error")
    add("--metrics", action="store_true", help="show metrics for Prometheus at /metrics")
    add("--loop", choices=["uvloop", "asyncio"], default="uvloop", help="default: uvloop if installed")
    return _run


def _add_limits(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--max-rows", type=_count, default=64, help="rows of a batch, at most (default: %(default)s)")
    add(
        "--max-delay", metavar="SECONDS", type=seconds, default=0.002,
        help="the time that a request waits for others, at most (default: %(default)g)",
    )  # fmt: skip
    add("--max-waiting", type=_count, default=4096, help="rows that wait, at most (default: %(default)s)")
    add("--max-requests", type=_count, default=1024, help="requests at a time, at most (default: %(default)s)")
    add("--max-body", metavar="MIB", type=_count, default=64, help="MiB of a body, at most (default: %(default)s)")


def _pair(text: str) -> tuple[str, str]:
    name, equals, directory = text.partition("=")
    if not name or not equals or not directory or "/" in name:
        raise argparse.ArgumentTypeError(f"{text!r} must be NAME=DIR, as digits=models/digits")
    return name, directory


def _label(text: str) -> tuple[str, str, int]:
    model, _, rest = text.partition(":")
    label, _, version = rest.partition("=")
    if not model or not label or not (version.isascii() and version.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} must be NAME:LABEL=VERSION, as digits:stable=3")
    return model, label, int(version)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} must be a number above 0")
    return int(text)


def _run(options: argparse.Namespace) -> int:
    logging.basicConfig(format="aioflow: %(message)s")
    _check(options)
    if options.workers > 1:
        from aioflow.cli.serve_workers import run_workers

        return run_workers(options)

    async def alone() -> None:
        stopped = asyncio.Event()
        with stopping_signals(stopped.set):
            async with open_servers(options) as (models, servers):
                collect_seldom()
                print(f"serving {describe(models)} at {urls(servers)}", flush=True)
                await serve_all(servers, stopped, options.drain_delay)

    with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
        runner.run(alone())
    return 0


def _check(options: argparse.Namespace) -> None:
    """Raise InvalidArgumentError for options that contradict each other."""
    from aioflow.cli.serve_config import read_config

    names = [model.name for model in read_config(options).models]
    for name, label, _ in options.label:
        if name not in names:
            raise errors.InvalidArgumentError(f"--label {name}:{label}: there is no --model {name}=DIR")


@contextlib.asynccontextmanager
async def open_servers(options: argparse.Namespace) -> AsyncIterator[tuple["Models", "Servers"]]:
    """The models of the options, and servers that listen, inside the block. New versions are looked for meanwhile."""
    from aioflow.cli.serve_config import read_config
    from aioflow.net.transport.credentials import check_binding, load_token, server_tls
    from aioflow.serving.access_log import log_request
    from aioflow.serving.metrics import Metrics
    from aioflow.serving.models import Models
    from aioflow.serving.server import HttpServer, bind
    from aioflow.serving.service import Service
    from aioflow.serving.tokens import Tokens

    found = [load_token(file) for file in options.token_file or [None]]
    tokens = [token for token in found if token is not None]
    tls = None if options.tls is None else server_tls(options.tls, mutual=not tokens)
    check_binding(options.host, found[0], tls)
    if options.access_log:
        _log_requests()
    config, replicas = read_config(options), replicas_of(options)
    with bind(options.host, options.port, options.workers > 1) as listening:
        metrics = Metrics() if options.metrics else None
        async with (
            Models(cluster_config(options), poll_interval=options.poll, metrics=metrics) as models,
            contextlib.AsyncExitStack() as stack,
        ):
            for model in config.models:
                await models.add(
                    model.name, model.directory, labels=model.labels, batching=model.batching, replicas=replicas
                )
                models.split(model.name, model.split)
            service = Service(
                models, config.limits, tokens=Tokens(tokens), origins=options.origin, observers=[log_request]
            )
            by_grpc = _grpc_listener(options, service, mutual=not tokens)
            servers: Servers = [HttpServer(service, listening, tls), *by_grpc]
            stack.push_async_callback(_end, asyncio.ensure_future(models.watch()))
            if metrics is not None:
                stack.push_async_callback(_end, asyncio.ensure_future(metrics.watch_loop()))
            for server in servers:
                stack.push_async_callback(server.close)
                await server.start()
            yield models, servers


def _grpc_listener(options: argparse.Namespace, service: "Service", mutual: bool) -> "list[GrpcListener]":
    """Return the server of gRPC, if the options ask for one."""
    if options.grpc_port is None:
        return []
    from aioflow.serving.grpc_listener import GrpcListener

    shared = options.workers > 1
    return [GrpcListener(service, options.host, options.grpc_port, tls=options.tls, mutual=mutual, shared=shared)]


async def _end(task: asyncio.Future[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


async def serve_all(servers: "Servers", stopped: asyncio.Event, delay: float) -> None:
    """Serve until the event is set, and end all servers at the same time."""
    async with asyncio.TaskGroup() as group:
        for server in servers:
            group.create_task(server.serve(stopped, delay))


def collect_seldom() -> None:
    """Let the garbage collector leave alone what there is, as the graphs of the models, and come seldom.

    Some hundred requests at a time have thousands of objects, which end without it. By Python's defaults it would come
    for each few requests, and a look at the graphs holds up all of them for tens of milliseconds.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG)


def _log_requests() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logging.getLogger("aioflow.serving.access")
    log.addHandler(handler)
    log.propagate = False
    log.setLevel(logging.INFO)


def describe(models: "Models") -> str:
    """Return the models and their newest versions, as `digits (version 3)` or `digits (version 3, 2 replicas)`."""
    return ", ".join(_describe(models, name) for name in models.names())


def _describe(models: "Models", name: str) -> str:
    newest = models.versions(name)[-1]
    replicas = len(models.find(name, newest).replicas)
    return f"{name} (version {newest}{f', {replicas} replicas' if replicas else ''})"


def urls(servers: "Servers") -> str:
    """Return where servers listen."""
    return " and ".join(server.url for server in servers)
