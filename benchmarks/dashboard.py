"""The cost of an open live page to the watched program: steps of training with a page that is open, and without.

The page is read by another process, as a browser would. Rounds with and without it alternate. A round begins some
seconds after the page was opened: the first traced step assembles its program. The processor time of the watched
process is compared, which other processes of the machine disturb less than the time on the clock. The layers of the
network are narrow, so that each product takes one thread: threads that wait for each other spin, longer on a busy
machine. The processor time of each part of the page is measured, too, where two rounds differ by more than the page
costs.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.dashboard_parts import accounted
from benchmarks.report import Claim, Row, span

ROUNDS, SECONDS, SETTLE = 4, 2.0, 2.0
PARTS_SECONDS = 12.0
BATCH, SIDE, LAYERS = 64, 64, 12
READER = """
import asyncio, sys
import aiohttp

async def main(url):
    async with aiohttp.ClientSession() as client, client.ws_connect(url + "updates", max_msg_size=0) as socket:
        print("open", flush=True)
        async for _ in socket:
            pass

asyncio.run(main(sys.argv[1]))
"""
Train = Callable[[], Awaitable[Any]]


async def rows() -> AsyncIterator[Row]:
    """Measure a step of a network, and one that computes nothing."""
    for name, training in TRAININGS.items():
        without, opened = await measured(training)
        ratio = statistics.median([with_page / alone for alone, with_page in zip(without, opened, strict=True)])
        figures = {
            "no page": span(statistics.median(without)),
            "page open": span(statistics.median(opened)),
        }
        yield Row(f"{name}, with a live page", figures, [Claim("page open / no page", ratio, 1.02)])
    for name, training in TRAININGS.items():
        shares = await shared(training)
        figures = {part: f"{share:.2%}" for part, share in shares.items()}
        yield Row(
            f"processor time of a live page, {name}", figures, [Claim("page / steps", sum(shares.values()), 0.02)]
        )


async def shared(training: Any) -> dict[str, float]:
    """The processor time of the parts of an open page, as shares of that of the steps."""
    af = peers.aioflow()
    async with training(af) as (session, step), af.dashboard.serve(session) as page:
        await timed(step, SETTLE)
        begin = time.process_time()
        with accounted() as spent:
            async with reader(page.url):
                await timed(step, PARTS_SECONDS)
            await page.monitor.close()
        used = time.process_time() - begin
    return {part: seconds / (used - spent.total()) for part, seconds in spent.most_common()}


async def measured(training: Any) -> tuple[list[float], list[float]]:
    """The seconds of a step without and with a page, of each round."""
    af = peers.aioflow()
    without, opened = [], []
    async with training(af) as (session, step), af.dashboard.serve(session) as page:
        await timed(step, SETTLE)
        for _ in range(ROUNDS):
            without.append(await timed(step, SECONDS))
            async with reader(page.url):
                await timed(step, SETTLE)
                opened.append(await timed(step, SECONDS))
    return without, opened


async def timed(step: Train, seconds: float) -> float:
    """The processor time of a step, measured over that number of seconds."""
    count, begin, used = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - begin < seconds:
        for _ in range(50):
            await step()
        await asyncio.sleep(0)
        count += 50
    return (time.process_time() - used) / count


@asynccontextmanager
async def reader(url: str) -> AsyncIterator[None]:
    """Another process reads the page inside the block."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", READER, url, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    await process.stdout.readline()
    try:
        yield
    finally:
        process.kill()
        await process.communicate()


@asynccontextmanager
async def network(af: Any) -> AsyncIterator[tuple[Any, Train]]:
    """A session, and a step of training in it."""
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None, SIDE])
        hidden = x
        for layer in range(LAYERS):
            weights = af.Variable(af.random_normal([SIDE, SIDE], stddev=0.15, seed=layer))
            hidden = af.nn.relu(af.matmul(hidden, weights))
        loss = af.reduce_mean(af.square(hidden))
        train = af.train.GradientDescentOptimizer(0.01).minimize(loss)
        init = af.global_variables_initializer()
    data = np.random.default_rng(0).standard_normal((BATCH, SIDE)).astype(np.float32)
    async with af.Session(graph=graph) as session:
        await session.run(init)
        call = session.make_callable([loss, train], feeds=[x])
        yield session, lambda: call(data)


@asynccontextmanager
async def nothing(af: Any) -> AsyncIterator[tuple[Any, Train]]:
    """A session, and a step that adds one to a scalar."""
    with af.Graph().as_default() as graph:
        fed = af.placeholder(af.float32, [])
        result = fed + 1.0
    async with af.Session(graph=graph) as session:
        call = session.make_callable(result, feeds=[fed])
        yield session, lambda: call(2.0)


TRAININGS = {"step of training, MLP": network, "null step": nothing}
