"""64 clients query one MLP, one image per request: requests per second and the 99th percentile of latency.

Each client sends the next request as soon as it has its answer. A latency is measured from answer to answer, so it
includes the time a client waits for its turn in the loop: a side that answers inline gains nothing by delaying others.
TensorFlow is called in the threads of a ThreadPoolExecutor, as an async server would; the best number of threads
counts. NumPy by hand, in the loop, shows the floor.
"""

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import SETTLE, Step, enter, freeze, percentile, rotated
from benchmarks.mlp import Problem, with_aioflow, with_numpy, with_tensorflow
from benchmarks.report import Claim, Row, span

CLIENTS, ROUNDS, REQUESTS = 64, 11, 40
PROBLEM = Problem((784, 256, 128, 10), CLIENTS)
IMAGES = [PROBLEM.images[client : client + 1] for client in range(CLIENTS)]
INLINE = "NumPy in the loop"
CORES = os.cpu_count() or 1
THREADS = sorted({CORES, min(32, CORES + 4)})


@dataclass
class Load:
    """The throughput and latency of one side, per round."""

    rates: list[float] = field(default_factory=list)
    tails: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{statistics.median(self.rates):>8,.0f} requests/s   p99 {span(statistics.median(self.tails))}"


async def rows() -> AsyncIterator[Row]:
    """Compare aioflow inline with TensorFlow behind pools of several sizes."""
    missing: dict[str, str] = {}
    sides = {peers.AIOFLOW: with_aioflow.inference(PROBLEM), INLINE: with_numpy.inference(PROBLEM)}
    sides |= {f"{peers.TENSORFLOW}, {threads} threads": behind_pool(threads) for threads in THREADS}
    async with AsyncExitStack() as stack:
        built, _ = await enter(stack, sides, missing, first=0)
        await check(built)
        freeze()
        loads = await measure(built)
    title = f"{CLIENTS} concurrent inferences of {PROBLEM}".replace(f"batch {CLIENTS}", "batch 1")
    yield Row(title, {name: str(load) for name, load in loads.items()} | missing, claims(loads))


def claims(loads: Mapping[str, Load]) -> list[Claim]:
    """Compare with the pool that served most requests."""
    ours = loads.get(peers.AIOFLOW)
    pools = [load for name, load in loads.items() if name.startswith(peers.TENSORFLOW)]
    theirs = max(pools, key=lambda load: statistics.median(load.rates), default=None)
    rate = tail = None
    if ours and theirs:
        rate = statistics.median(a / b for a, b in zip(ours.rates, theirs.rates, strict=True))
        tail = statistics.median(a / b for a, b in zip(ours.tails, theirs.tails, strict=True))
    return [
        Claim("requests/s, aioflow / TensorFlow", rate, 2.5, at_least=True),
        Claim("p99, aioflow / TensorFlow", tail, 0.2),
    ]


@asynccontextmanager
async def behind_pool(threads: int) -> AsyncIterator[Step]:
    """Yield TensorFlow's callable, run in a pool of threads and awaited."""
    loop = asyncio.get_running_loop()
    async with with_tensorflow.inference(PROBLEM) as answer:
        with ThreadPoolExecutor(threads) as pool:

            async def infer(images: Any) -> Any:
                return await loop.run_in_executor(pool, answer, images)

            yield infer


async def check(built: Mapping[str, Step]) -> None:
    """Check that all sides give NumPy's logits."""
    _, logits = with_numpy.forward(PROBLEM.weights(), PROBLEM.images)
    for infer in built.values():
        answers = await asyncio.gather(*map(infer, IMAGES))
        np.testing.assert_allclose(np.concatenate(answers), logits, rtol=1e-3, atol=1e-4)


async def measure(built: Mapping[str, Step]) -> dict[str, Load]:
    """Measure every side's load, in alternating rounds."""
    loads = {name: Load() for name in built}
    for turn in range(ROUNDS):
        for name in rotated(list(built), turn):
            await asyncio.sleep(SETTLE)
            await storm(built[name], REQUESTS // 4)
            begin = time.perf_counter()
            latencies = await storm(built[name], REQUESTS)
            loads[name].rates.append(len(latencies) / (time.perf_counter() - begin))
            loads[name].tails.append(percentile(latencies, 0.99))
    return loads


async def storm(infer: Step, requests: int) -> list[float]:
    """Return the latencies of the requests of all clients."""
    latencies: list[float] = []
    begin = time.perf_counter()
    await asyncio.gather(*(client(infer, image, requests, begin, latencies) for image in IMAGES))
    return latencies


async def client(infer: Step, image: Any, requests: int, begin: float, latencies: list[float]) -> None:
    """Send requests again and again. The loop gets a turn between two requests, as it does when reading a socket."""
    for _ in range(requests):
        await infer(image)
        end = time.perf_counter()
        latencies.append(end - begin)
        begin = end
        await asyncio.sleep(0)
