"""Nearly empty steps of a cluster: their cost, the delay of an error, and the report of a missing task.

Each task is a process on this machine. The master is `/job:worker/task:0`; the client has its own process.
"""

import asyncio
import re
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.cluster_processes import Targets, clusters
from benchmarks.cluster_sides import Build, Built, both
from benchmarks.harness import Side, Step, alternate, call, percentile
from benchmarks.report import Claim, Row, span, timed_row

MASTER, OTHER = "/job:worker/task:0", "/job:worker/task:1"
FASTER = 3
FAILURES = 300
DEADLINE, PATIENCE = 2.0, 10.0
"""Seconds that a session may take to open; TensorFlow's is given up afterwards."""


async def rows() -> AsyncIterator[Row]:
    """Measure the steps, the errors and the missing task."""
    async with clusters({"worker": 2}) as targets:
        yield await small_step(targets, "null step on the master's task", null(MASTER))
        yield await small_step(targets, "null step on another worker", null(OTHER))
        yield await small_step(targets, "variable of 4 bytes, pulled from a worker by another", pulled)
        yield await small_step(targets, "variable of 4 bytes, pulled from a worker by the client", fetched)
        yield await remote_error(targets)
        yield await failing_step(targets)
    async with clusters({"worker": 2}, absent=[("worker", 1)]) as targets:
        yield await absent_task(targets)


async def small_step(targets: Targets, title: str, build: Build) -> Row:
    """Measure a step on both sides."""
    timing = await alternate(both(targets, build))
    ratio = timing.ratio(peers.TENSORFLOW, peers.AIOFLOW)
    return timed_row(title, timing, [Claim("TensorFlow / aioflow", ratio, FASTER, at_least=True)])


def null(place: str) -> Build:
    """A no_op on that task."""

    def build(m: Any) -> Built:
        with m.device(place):
            return Built(m.no_op())

    return build


def pulled(m: Any) -> Built:
    """The master's task uses a value of another task; the client gets nothing."""
    value, init = variable(m)
    with m.device(MASTER):
        return Built(m.identity(value).op, init=init)


def fetched(m: Any) -> Built:
    """The client gets the value."""
    value, init = variable(m)
    with m.device(OTHER):
        return Built(m.identity(value), init=init)


def variable(m: Any) -> tuple[Any, Any]:
    """Return a float variable on another task than the master, and its initialiser."""
    with m.device(OTHER):
        value = m.Variable(1.0, name="scalar")
        return value, value.initializer


# Errors


async def remote_error(targets: Targets) -> Row:
    """Measure the time from an error on a worker, whose value another task needs, to the exception in the client."""
    af = peers.aioflow()
    with af.Graph().as_default() as graph:
        with af.device(OTHER):
            broken = af.py_func("fail", [], af.float32)
            broken.set_shape([])
        with af.device(MASTER):
            result = broken + 1.0
    late = []
    async with af.Session(targets.of(peers.AIOFLOW), graph=graph) as session:
        step = session.make_callable(result)
        for _ in range(FAILURES):
            try:
                await step()
            except af.errors.InvalidArgumentError as error:
                late.append(time.clock_gettime(time.CLOCK_MONOTONIC) - failed_at(error))
    median = statistics.median(late)
    figures = {peers.AIOFLOW: f"{span(median)}   p99 {span(percentile(late, 0.99))}"}
    claim = Claim("from the kernel to the client", median * 1e3, 5, unit=" ms")
    return Row("an error on a worker, until the client has it", figures, [claim])


def failed_at(error: Exception) -> float:
    """Return the time at which the function `fail` raised the error."""
    found = re.search(r"failed at (\d+\.\d+)", str(error))
    assert found is not None
    return float(found[1])


async def failing_step(targets: Targets) -> Row:
    """Measure a whole failing step on both sides."""
    sides = {side: failing(context) for side, context in both(targets, not_finite).items()}
    timing = await alternate(sides)
    return timed_row("a step that fails on a worker, from its beginning to the exception in the client", timing, [])


def not_finite(m: Any) -> Built:
    """The master's task waits for a value whose computation fails."""
    with m.device(OTHER):
        fed = m.placeholder(m.float32, [])
        checked = m.check_numerics(fed, "it is not finite")
    with m.device(MASTER):
        return Built(checked + 1.0, [fed], [np.float32("nan")])


@asynccontextmanager
async def failing(side: Side) -> AsyncIterator[Step]:
    """Yield a step that succeeds when the step of that side fails."""
    async with side as step:

        async def failed() -> None:
            try:
                await call(step)
            except Exception as error:
                if type(error).__name__ != "InvalidArgumentError":
                    raise
            else:
                raise RuntimeError("the step did not fail")

        yield failed


# Absence


async def absent_task(targets: Targets) -> Row:
    """Measure how long a session waits for a missing task, and show its error."""
    figures = {peers.AIOFLOW: await aioflow_waits(targets), peers.TENSORFLOW: await tensorflow_waits(targets)}
    seconds, text = figures[peers.AIOFLOW]
    claims = [
        Claim("until it fails", seconds, DEADLINE * 1.05, unit=" s"),
        Claim("times the absent task is named", float(text.count("/job:worker/replica:0/task:1")), 1, at_least=True),
    ]
    title = f"a session with one task absent, deadline {DEADLINE:g} s"
    told = {side: f"{span(seconds)}: {' '.join(text.split())}" for side, (seconds, text) in figures.items()}
    return Row(title, told, claims)


async def aioflow_waits(targets: Targets) -> tuple[float, str]:
    """Return the seconds and the text of the error."""
    af = peers.aioflow()
    with af.Graph().as_default() as graph:
        nothing = af.no_op()
    begin = time.perf_counter()
    config = af.Config(operation_timeout=DEADLINE)
    async with af.Session(targets.of(peers.AIOFLOW), graph=graph, config=config) as session:
        try:
            await session.run(nothing)
        except af.errors.OpError as error:
            return time.perf_counter() - begin, f"{type(error).__name__}: {error.message}"
    raise RuntimeError("the session opened without the task")


async def tensorflow_waits(targets: Targets) -> tuple[float, str]:
    """Do the same with TensorFlow. The waiting thread ends with the server at the latest."""
    try:
        target, tf = targets.of(peers.TENSORFLOW), peers.tensorflow()
    except ImportError:
        return 0.0, "not installed"

    def waits() -> str:
        config = tf.ConfigProto(operation_timeout_in_ms=int(DEADLINE * 1e3))
        try:
            with tf.Graph().as_default(), tf.Session(target, config=config) as session:
                session.run(tf.no_op())
        except tf.errors.OpError as error:
            return f"{type(error).__name__}: {error.message}"
        return "the session opened"

    begin = time.perf_counter()
    waiting = asyncio.get_running_loop().run_in_executor(None, waits)
    await asyncio.wait([waiting], timeout=PATIENCE)
    return time.perf_counter() - begin, waiting.result() if waiting.done() else "still waiting, and given up"
