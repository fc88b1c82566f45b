"""Clusters of processes on this machine: aioflow's workers, and TensorFlow's grpc servers.

Both are started before the measurement, and one is idle while the other is measured. Clients are in the benchmark's
process.
"""

import asyncio
import contextlib
import importlib.util
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from aioflow.launch.local_processes import THREADS
from benchmarks import peers

STARTING, ENDING = 120.0, 10.0
"""Seconds that a task may take to listen, and to end."""
READY = b"listens"
FUNCTIONS = "benchmarks.cluster_functions"
PATIENT = ("--heartbeat-timeout", "120")
"""The heartbeat timeout: our client does not listen while TensorFlow's works in the same process."""
SCHEMES = {peers.AIOFLOW: "ws", peers.TENSORFLOW: "grpc"}


@dataclass(frozen=True)
class Targets:
    """The masters of both clusters: the first task of each."""

    found: Mapping[str, str] = field(default_factory=dict)

    def of(self, side: str) -> str:
        """Return the session target of that side. ImportError if it is not installed."""
        if side not in self.found:
            raise ImportError(f"{side} has no servers")
        return self.found[side]


@asynccontextmanager
async def clusters(
    sizes: Mapping[str, int],
    *,
    absent: Collection[tuple[str, int]] = (),
    options: Sequence[str] = (),
    tensorflow: bool = True,
) -> AsyncIterator[Targets]:
    """Start a cluster with that many tasks of each job, except the absent ones, and one of `tensorflow` if wanted.

    The master is the first task of the job `worker`. Workers of aioflow get the `options`.
    """
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(mock.patch.dict(os.environ, {"AIOFLOW_TOKEN": secrets.token_urlsafe(32)}))
        ours = ("aioflow", "worker", "--py-funcs", FUNCTIONS, *PATIENT, *options)
        starts: dict[str, tuple[str, ...]] = {peers.AIOFLOW: ours}
        if tensorflow and importlib.util.find_spec("tensorflow"):
            starts[peers.TENSORFLOW] = ("benchmarks.cluster_tensorflow",)
        found = {}
        for side, module in starts.items():
            cluster = free_addresses(sizes)
            file = folder / f"{side}.json"
            file.write_text(json.dumps(cluster))
            tasks = [(job, task) for job, size in sizes.items() for task in range(size) if (job, task) not in absent]
            environment = shared_cores(len(tasks)) if side == peers.AIOFLOW else {}
            await start(stack, [(*module, *task_options(file, job, task)) for job, task in tasks], environment)
            found[side] = f"{SCHEMES[side]}://{cluster['worker'][0]}"
        yield Targets(found)


def task_options(file: Path, job: str, task: int) -> Sequence[str]:
    """Return the options of both kinds of servers."""
    return "--cluster", str(file), "--job", job, "--task", str(task)


def shared_cores(tasks: int) -> dict[str, str]:
    """Return variables that divide the cores among the tasks for matrix products, as `aioflow cluster up` does."""
    return dict.fromkeys(THREADS, str(max(1, (os.cpu_count() or 1) // tasks)))


async def start(
    stack: AsyncExitStack, commands: Sequence[Sequence[str]], variables: Mapping[str, str] | None = None
) -> None:
    """Run all these modules until the stack is closed. Returns when all listen."""
    async with asyncio.TaskGroup() as group:
        for command in commands:
            group.create_task(start_one(stack, command, variables or {}))


async def start_one(stack: AsyncExitStack, command: Sequence[str], variables: Mapping[str, str]) -> str:
    """Run a module until the stack is closed. Returns the line that says it listens."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *command, stdout=subprocess.PIPE, env={**variables, **os.environ}
    )
    stack.push_async_callback(stop, process)
    async with asyncio.timeout(STARTING):
        return await listening(process)


async def listening(process: asyncio.subprocess.Process) -> str:
    """Return the line that says the process listens. RuntimeError if it ends instead."""
    assert process.stdout is not None
    async for line in process.stdout:
        if READY in line:
            return line.decode()
    raise RuntimeError(f"a task ended with {await process.wait()} instead of listening")


async def stop(process: asyncio.subprocess.Process) -> None:
    """Stop the process, gracefully if possible."""
    for end in (process.terminate, process.kill):
        with contextlib.suppress(ProcessLookupError):
            end()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ENDING):
                await process.wait()
                return


def free_addresses(sizes: Mapping[str, int]) -> dict[str, list[str]]:
    """Return unused loopback addresses."""
    with ExitStack() as stack:
        return {job: [free_address(stack) for _ in range(size)] for job, size in sizes.items()}


def free_address(stack: ExitStack) -> str:
    """Return one address, which stays reserved until the stack is closed."""
    found = stack.enter_context(socket.socket())
    found.bind(("127.0.0.1", 0))
    return f"127.0.0.1:{found.getsockname()[1]}"
