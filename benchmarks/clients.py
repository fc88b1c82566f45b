"""Clients that query a net at the same time: requests per second and the 99th percentile of latency.

Each client sends the next request as soon as it has its answer. A latency is measured from answer to answer, so it
includes the time a client waits for its turn in the loop.
"""

import asyncio
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.harness import SETTLE, Step, percentile, rotated
from benchmarks.report import span

AT_ONCE = 16
"""Clients that begin in one turn of the loop."""


@dataclass
class Load:
    """The throughput, the median latency and its 99th percentile of one side, per round."""

    rates: list[float] = field(default_factory=list)
    medians: list[float] = field(default_factory=list)
    tails: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{statistics.median(self.rates):>8,.0f} requests/s   p99 {span(statistics.median(self.tails))}"


async def measure(built: Mapping[str, Step], images: Sequence[Any], rounds: int, requests: int) -> dict[str, Load]:
    """Measure every side's load, in alternating rounds.

    Args:
        built: the functions that answer, by side.
        images: what each client sends.
        rounds: how many rounds.
        requests: how many requests each client sends in a round.
    """
    loads = {name: Load() for name in built}
    for turn in range(rounds):
        for name in rotated(list(built), turn):
            await asyncio.sleep(SETTLE)
            await storm(built[name], images, max(1, requests // 4))
            begin = time.perf_counter()
            latencies = await storm(built[name], images, requests)
            loads[name].rates.append(len(latencies) / (time.perf_counter() - begin))
            loads[name].medians.append(statistics.median(latencies))
            loads[name].tails.append(percentile(latencies, 0.99))
    return loads


async def storm(infer: Step, images: Sequence[Any], requests: int) -> list[float]:
    """Return the latencies of the requests of all clients. A few of them begin in each turn of the loop."""
    latencies: list[float] = []
    async with asyncio.TaskGroup() as group:
        for number, image in enumerate(images, 1):
            group.create_task(client(infer, image, requests, latencies))
            if not number % AT_ONCE:
                await asyncio.sleep(0)
    return latencies


async def client(infer: Step, image: Any, requests: int, latencies: list[float]) -> None:
    """Send requests again and again. The loop gets a turn between two requests, as it does when reading a socket."""
    begin = time.perf_counter()
    for _ in range(requests):
        await infer(image)
        end = time.perf_counter()
        latencies.append(end - begin)
        begin = end
        await asyncio.sleep(0)
