"""`aioflow serve --workers N`: processes that share a port.

The first process keeps the port, and starts the others, `python -m aioflow.cli.serve_workers`. Each gets the options as
a line of JSON on its standard input, answers with a line when it listens, and stops when its input ends: also when the
first process is killed.
"""

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from typing import Final

from aioflow import errors
from aioflow.cli.serve import collect_seldom, describe, open_servers, serve_all, urls
from aioflow.cli.worker import loop_factory, stopping_signals
from aioflow.launch.local_processes import THREADS
from aioflow.serving.metrics import SHARED

_NO_OPTIONS: Final = ("run",)


def run_workers(options: argparse.Namespace) -> int:
    """Serve by processes until a signal comes, or one of them ends, which is a failure. Returns the exit status."""
    from aioflow.serving.server import bind

    with contextlib.ExitStack() as reserved:
        for name in ("port", "grpc_port"):
            if getattr(options, name) is not None:
                bound = reserved.enter_context(bind(options.host, getattr(options, name), shared=True))
                setattr(options, name, bound.getsockname()[1])
        with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
            return runner.run(_supervise(options))


async def _supervise(options: argparse.Namespace) -> int:
    stopped = asyncio.Event()
    with stopping_signals(stopped.set), tempfile.TemporaryDirectory() as metrics:
        environment = _environment(options.workers, metrics)
        async with contextlib.AsyncExitStack() as stack:
            workers = [await stack.enter_async_context(_worker(options, environment)) for _ in range(options.workers)]
            line = [await _first_line(worker) for worker in workers][-1]
            print(f"{line} by {options.workers} processes", flush=True)
            ends = [asyncio.ensure_future(worker.wait()) for worker in workers]
            asked = asyncio.ensure_future(stopped.wait())
            await asyncio.wait([asked, *ends], return_when=asyncio.FIRST_COMPLETED)
            lost = [end.result() for end in ends if end.done() and not stopped.is_set()]
            for task in (asked, *ends):
                task.cancel()
            for worker in workers:
                _tell_to_stop(worker)  # all at once: each may have to wait for its requests
    if lost:
        print(f"aioflow: a process ended with status {lost[0]}", file=sys.stderr)
    return 1 if lost else 0


@contextlib.asynccontextmanager
async def _worker(
    options: argparse.Namespace, environment: Mapping[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that serves. At the end of the block it is told to stop, and has stopped."""
    facts = {name: value for name, value in vars(options).items() if name not in _NO_OPTIONS}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "aioflow.cli.serve_workers", stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE, env=environment, start_new_session=True,
    )  # fmt: skip
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(facts).encode() + b"\n")
        yield process
    finally:
        _tell_to_stop(process)
        await process.wait()


def _tell_to_stop(process: asyncio.subprocess.Process) -> None:
    """End the standard input of a process. Twice is allowed."""
    assert process.stdin is not None
    process.stdin.close()


def _environment(workers: int, metrics: str) -> Mapping[str, str]:
    """Return the environment of a worker: the workers divide the cores for matrix products, and share metrics."""
    threads = str(max(1, (os.cpu_count() or 1) // workers))
    return {**dict.fromkeys(THREADS, threads), SHARED: metrics, **os.environ}


async def _first_line(process: asyncio.subprocess.Process) -> str:
    """Return the line with which a process says that it serves. UnavailableError if it ends instead."""
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode().strip()
    if not line:
        raise errors.UnavailableError("a process ended before it served; its reason stands above")
    return line


def main() -> int:
    """Run one of the processes."""
    options = argparse.Namespace(**json.loads(sys.stdin.readline()))
    try:
        with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
            runner.run(_serve(options))
    except (errors.OpError, OSError) as error:
        print(f"aioflow: {error}", file=sys.stderr)
        return 1
    return 0


async def _serve(options: argparse.Namespace) -> None:
    stopped = asyncio.Event()
    with stopping_signals(stopped.set):
        async with open_servers(options) as (models, servers):
            collect_seldom()
            print(f"serving {describe(models)} at {urls(servers)}", flush=True)
            watching = asyncio.ensure_future(_input_ended(stopped))
            try:
                await serve_all(servers, stopped, options.drain_delay)
            finally:
                watching.cancel()
                await asyncio.wait([watching])


async def _input_ended(stopped: asyncio.Event) -> None:
    """Set the event when the standard input ends."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    try:
        await reader.read()
        stopped.set()
    finally:
        transport.close()


if __name__ == "__main__":
    sys.exit(main())
