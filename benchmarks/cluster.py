"""Steps of a cluster that do next to nothing: what they cost, how soon an error is known, and who is missed.

Each task is a process of this machine. The master is `/job:worker/task:0`, and the client a process of its own.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from typing import Any

from benchmarks import peers
from benchmarks.cluster_processes import Targets, clusters
from benchmarks.cluster_sides import Built, both
from benchmarks.harness import alternate, percentile
from benchmarks.report import Claim, Row, span, timed_row

MASTER, OTHER = "/job:worker/task:0", "/job:worker/task:1"
TWICE = 2
FAILURES = 200


async def rows() -> AsyncIterator[Row]:
    """The steps, the error."""
    async with clusters({"worker": 2}) as targets:
        yield await small_step(targets, "null step on the master's task", null(MASTER))
        yield await small_step(targets, "null step on another worker", null(OTHER))
        yield await small_step(targets, "variable of 4 bytes, pulled from a worker by another", pulled)
        yield await small_step(targets, "variable of 4 bytes, pulled from a worker by the client", fetched)
        yield await remote_error(targets)


async def small_step(targets: Targets, title: str, build: Any) -> Row:
    """A step of both sides."""
    timing = await alternate(both(targets, build))
    ratio = timing.ratio(peers.TENSORFLOW, peers.AIOFLOW)
    return timed_row(title, timing, [Claim("TensorFlow / aioflow", ratio, TWICE, at_least=True)])


def null(place: str) -> Any:
    """A no_op there."""

    def build(m: Any) -> Built:
        with m.device(place):
            return Built(m.no_op())

    return build


def pulled(m: Any) -> Built:
    """The master's task uses a value of another, and the client gets nothing."""
    value, init = variable(m)
    with m.device(MASTER):
        return Built(m.identity(value).op, init=init)


def fetched(m: Any) -> Built:
    """The client gets the value."""
    value, init = variable(m)
    with m.device(OTHER):
        return Built(m.identity(value), init=init)


def variable(m: Any) -> tuple[Any, Any]:
    """A float on the task that is no master, and what gives it its value."""
    with m.device(OTHER):
        value = m.Variable(1.0, name="scalar")
        return value, value.initializer


async def remote_error(targets: Targets) -> Row:
    """The time from an error on a worker, while another waits for what will not come, to the exception in the client."""
    af = peers.aioflow()
    with af.Graph().as_default() as graph:
        with af.device(OTHER):
            broken = af.py_func("fail", [], af.float32)
            broken.set_shape([])
        with af.device(MASTER):
            result = broken + 1.0
    late = []
    async with af.Session(targets.of(peers.AIOFLOW), graph=graph) as session:
        call = session.make_callable(result)
        for _ in range(FAILURES):
            try:
                await call()
            except af.errors.InvalidArgumentError as error:
                now = time.clock_gettime(time.CLOCK_MONOTONIC)
                late.append(now - float(str(error).partition("failed at ")[2].partition(". ")[0].split()[0].rstrip(".")))
            await asyncio.sleep(0)
    figures = {peers.AIOFLOW: f"{span(statistics.median(late))}   p99 {span(percentile(late, 0.99))}"}
    claim = Claim("from the kernel to the client", statistics.median(late) * 1e3, 5, unit=" ms")
    return Row("an error on a worker, seen by the client", figures, [claim])
