"""64 clients query one MLP, one image per request: requests per second and the 99th percentile of latency.

Each client sends the next request as soon as it has its answer. A latency is measured from answer to answer, so it
includes the time a client waits for its turn in the loop: a side that answers inline gains nothing by delaying others.
TensorFlow is called in the threads of a ThreadPoolExecutor, as an async server would; the best number of threads
counts. NumPy by hand, in the loop, shows the floor.
"""

import asyncio
import os
import statistics
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.clients import Load, measure
from benchmarks.harness import Step, enter, freeze
from benchmarks.mlp import Problem, with_aioflow, with_numpy, with_tensorflow
from benchmarks.report import Claim, Row

CLIENTS, ROUNDS, REQUESTS = 64, 11, 40
PROBLEM = Problem((784, 256, 128, 10), CLIENTS)
IMAGES = [PROBLEM.images[client : client + 1] for client in range(CLIENTS)]
INLINE = "NumPy in the loop"
CORES = os.cpu_count() or 1
THREADS = sorted({CORES, min(32, CORES + 4)})


async def rows() -> AsyncIterator[Row]:
    """Compare aioflow inline with TensorFlow behind pools of several sizes."""
    missing: dict[str, str] = {}
    sides = {peers.AIOFLOW: with_aioflow.inference(PROBLEM), INLINE: with_numpy.inference(PROBLEM)}
    sides |= {f"{peers.TENSORFLOW}, {threads} threads": behind_pool(PROBLEM, threads) for threads in THREADS}
    async with AsyncExitStack() as stack:
        built, _ = await enter(stack, sides, missing, first=0)
        await check(built)
        freeze()
        loads = await measure(built, IMAGES, ROUNDS, REQUESTS)
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
async def behind_pool(problem: Problem, threads: int) -> AsyncIterator[Step]:
    """Yield TensorFlow's callable, run in a pool of threads and awaited."""
    async with with_tensorflow.inference(problem) as answer, in_pool(answer, threads) as infer:
        yield infer


@asynccontextmanager
async def in_pool(answer: Step, threads: int) -> AsyncIterator[Step]:
    """Yield a plain function as a coroutine function, which runs it in a pool of threads."""
    loop = asyncio.get_running_loop()
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
