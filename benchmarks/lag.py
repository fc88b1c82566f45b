"""The delay of the event loop's timers while steps of 200 ms of matrix products run.

A timer is due every millisecond. A late timer delays those that were due meanwhile, and each of them counts with its
own delay: otherwise a blocked loop would have few samples. TensorFlow is called in the loop, as code without threads
would; NumPy in a thread shows the floor of this machine, and the idle loop the floor of its timers.
"""

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import SETTLE, Step, call, enter, freeze, percentile, rotated
from benchmarks.report import Claim, Row, span

SIDE, STEP, PERIOD = 1024, 0.2, 0.001
ROUNDS, STEPS = 7, 5
IN_LOOP, IN_THREAD, IDLE = "TensorFlow in the loop", "NumPy in a thread", "idle loop"
MATRIX = (np.random.default_rng(1).standard_normal((SIDE, SIDE)) / np.sqrt(SIDE)).astype(np.float32)


async def rows() -> AsyncIterator[Row]:
    """Measure the 99th percentile of lag, the median over rounds."""
    products = calibrated()
    missing: dict[str, str] = {}
    sides = {
        peers.AIOFLOW: aioflow(products),
        IN_LOOP: tensorflow(products),
        IN_THREAD: in_thread(products),
        IDLE: idle(),
    }
    async with AsyncExitStack() as stack:
        built, _ = await enter(stack, sides, missing, first=1)
        freeze()
        lags, steps = await measure(built)
    figures = {name: f"p99 {span(lags[name]):>9}   step {span(steps[name])}" for name in lags}
    claim = Claim("aioflow, p99 lag", lags[peers.AIOFLOW] * 1e3 if peers.AIOFLOW in lags else None, 5, unit=" ms")
    yield Row(f"event-loop lag during steps of {products} products of {SIDE}x{SIDE}", figures | missing, [claim])


async def measure(built: dict[str, Step]) -> tuple[dict[str, float], dict[str, float]]:
    """Return each side's p99 lag and step time, medians over alternating rounds."""
    lags: dict[str, list[float]] = {name: [] for name in built}
    steps: dict[str, list[float]] = {name: [] for name in built}
    for turn in range(ROUNDS):
        for name in rotated(list(built), turn):
            await asyncio.sleep(SETTLE)
            await call(built[name])
            late, step = await watched(built[name])
            lags[name].append(percentile(late, 0.99))
            steps[name].append(step)
    medians = [{name: statistics.median(values) for name, values in of.items()} for of in (lags, steps)]
    return medians[0], medians[1]


async def watched(step: Step) -> tuple[list[float], float]:
    """Return the lags of all timers due during some steps, and the seconds of a step."""
    late: list[float] = []
    heart = asyncio.create_task(beat(late))
    await asyncio.sleep(5 * PERIOD)
    begin = time.perf_counter()
    for _ in range(STEPS):
        await call(step)
        await asyncio.sleep(2 * PERIOD)
    spent = time.perf_counter() - begin
    heart.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await heart
    return late, spent / STEPS - 2 * PERIOD


async def beat(late: list[float]) -> None:
    """Record the delay of each timer and of those that were due meanwhile."""
    while True:
        due = time.perf_counter() + PERIOD
        await asyncio.sleep(PERIOD)
        lag = max(0.0, time.perf_counter() - due)
        late.append(lag)
        late.extend(lag - PERIOD * missed for missed in range(1, int(lag / PERIOD) + 1))


def calibrated() -> int:
    """Return the number of products in one step's time in NumPy."""
    spent = []
    for _ in range(9):
        begin = time.perf_counter()
        np.matmul(MATRIX, MATRIX)
        spent.append(time.perf_counter() - begin)
    return max(1, round(STEP / statistics.median(spent)))


@asynccontextmanager
async def aioflow(products: int) -> AsyncIterator[Step]:
    """Compute the products in one awaited step."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        fed = x = af.placeholder(af.float32, [SIDE, SIDE])
        for _ in range(products):
            x = af.matmul(fed, x)
        total = af.reduce_mean(x)
    async with af.Session(graph=graph) as session:
        step = session.make_callable(total, feeds=[fed])

        async def once() -> Any:
            return await step(MATRIX)

        yield once


@asynccontextmanager
async def tensorflow(products: int) -> AsyncIterator[Step]:
    """Compute the products in one call that blocks the loop."""
    tf = peers.tensorflow()
    with tf.Graph().as_default(), tf.Session() as session:
        fed = x = tf.placeholder(tf.float32, [SIDE, SIDE])
        for _ in range(products):
            x = tf.matmul(fed, x)
        step = session.make_callable(tf.reduce_mean(x), feed_list=[fed])
        yield lambda: step(MATRIX)


@asynccontextmanager
async def in_thread(products: int) -> AsyncIterator[Step]:
    """Compute the products in a plain thread, awaited."""

    def multiply() -> Any:
        x = MATRIX
        for _ in range(products):
            x = np.matmul(MATRIX, x)
        return x.mean()

    async def step() -> Any:
        return await asyncio.to_thread(multiply)

    yield step


@asynccontextmanager
async def idle() -> AsyncIterator[Step]:
    """Do nothing for the time of a step."""

    async def step() -> None:
        await asyncio.sleep(STEP)

    yield step
