"""The processor time of the work of a task: for a frame, a byte and a node, measured with processes.

The main thread of a task's process runs its loop. The kernel of Linux counts the nanoseconds for which a thread was on
a processor, so other work of the machine counts only by the caches that it fills. Each cost is a difference between
two kinds of steps, divided by the difference of their frames, bytes or nodes.
"""

import asyncio
import contextlib
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from aioflow.testing.processors import Costs
from benchmarks import peers
from benchmarks.cluster_processes import free_addresses, listening, stop, task_options

WORKERS = 8
STEPS, ROUNDS = 200, 5
LARGE = 4 << 20
"""Bytes of the array whose transfer is measured."""
NODES = 200


async def measured() -> Costs:
    """Measure the costs with a cluster of processes, which exchange all values over sockets."""
    async with cluster(WORKERS + 1) as (target, processes):
        master, first, second = processes[:3]
        one = await work_of([master], target, no_ops(1), STEPS)
        most = await work_of([master], target, no_ops(WORKERS), STEPS)
        empty = await work_of([first], target, chain(1), STEPS)
        long = await work_of([first], target, chain(NODES), STEPS)
        small = await work_of([first, second], target, transfer(1 << 10), STEPS // 4)
        large = await work_of([first, second], target, transfer(LARGE), STEPS // 4)
    message = (most - one) / (WORKERS - 1) / 2  # a frame to each further worker, and one from it
    node = (long - empty) / (NODES - 1)
    byte = max(0.0, large - small) / LARGE / 2
    return Costs(message=message, byte=byte, node=node)


Build = Callable[[Any], Any]


def no_ops(workers: int) -> Build:
    """Each worker does nothing."""

    def build(af: Any) -> Any:
        operations = []
        for worker in range(1, workers + 1):
            with af.device(f"/job:worker/task:{worker}"):
                operations.append(af.no_op())
        return operations

    return build


def chain(nodes: int) -> Build:
    """A worker adds to a small array again and again."""

    def build(af: Any) -> Any:
        with af.device("/job:worker/task:1"):
            value = af.random_uniform([2])
            for _ in range(nodes):
                value = value + 1.0
            return value.op

    return build


def transfer(nbytes: int) -> Build:
    """A worker gets an array of another one."""

    def build(af: Any) -> Any:
        with af.device("/job:worker/task:1"):
            value = af.zeros([nbytes // 4]) + af.random_uniform([])
        with af.device("/job:worker/task:2"):
            return (value[:1] + af.identity(value)[-1:]).op

    return build


async def work_of(processes: Sequence[int], target: str, build: Build, steps: int) -> float:
    """The processor seconds of these processes for one step: the median of some rounds."""
    af = peers.aioflow()
    with af.Graph().as_default() as graph:
        fetches = build(af)
    async with af.Session(target, graph=graph) as session:
        step = session.make_callable(fetches)
        await rounds_of(step, steps // 4)
        found = []
        for _ in range(ROUNDS):
            before = sum(map(spent, processes))
            await rounds_of(step, steps)
            found.append((sum(map(spent, processes)) - before) / steps)
    return statistics.median(found)


async def rounds_of(step: Callable[[], Awaitable[Any]], steps: int) -> None:
    """Run some steps."""
    for _ in range(steps):
        await step()


def spent(process: int) -> float:
    """Seconds for which the main thread of a process was on a processor."""
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) * 1e-9


@contextlib.asynccontextmanager
async def cluster(tasks: int) -> AsyncIterator[tuple[str, list[int]]]:
    """Start workers. Yields the target of the first and the numbers of their processes."""
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(mock.patch.dict(os.environ, {"AIOFLOW_TOKEN": secrets.token_urlsafe(32)}))
        addresses = free_addresses({"worker": tasks})
        file = folder / "cluster.json"
        file.write_text(json.dumps(addresses))
        started = await asyncio.gather(*[start(stack, task_options(file, "worker", task)) for task in range(tasks)])
        yield f"ws://{addresses['worker'][0]}", started


async def start(stack: contextlib.AsyncExitStack, options: Sequence[str]) -> int:
    """Start a task. Returns the number of its process."""
    command = (sys.executable, "-m", "aioflow", "worker", "--no-shared-memory", "--heartbeat-timeout", "60", *options)
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    stack.push_async_callback(stop, process)
    await listening(process)
    return process.pid
