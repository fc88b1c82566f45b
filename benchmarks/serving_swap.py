"""A model of 512 MB gives its place to the next version while 64 clients query it.

The versions are folders of one file, so that no disk is measured. A swap lasts from the look at the directory until the
last version is closed. Its latencies are those of all requests that were under way meanwhile, and are compared with
those of as many seconds before.
"""

import asyncio
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import peers
from benchmarks.harness import freeze, percentile
from benchmarks.report import Claim, Row, span

ROWS, WIDTH, CLIENTS, SWAPS = 125_000, 1024, 64, 7
NAME = "table"


class Answered(NamedTuple):
    """When a request began, and when it had its answer."""

    begin: float
    end: float


class Clients:
    """Clients that ask again and again.

    Attributes:
        answered: the requests that were answered.
        failed: how many were not.
    """

    def __init__(self, models: Any) -> None:
        self.answered: list[Answered] = []
        self.failed = 0
        self._models = models

    async def ask(self, number: int) -> None:
        """Ask until cancelled."""
        draw = np.random.default_rng(number)
        while True:
            row, begin = draw.integers(0, ROWS, 1, np.int32), time.perf_counter()
            try:
                await self._models.find(NAME).infer({"row": row})
            except Exception:
                self.failed += 1
            self.answered.append(Answered(begin, time.perf_counter()))
            await asyncio.sleep(0)

    def tail(self, begin: float, end: float) -> float:
        """Return the 99th percentile of the latencies of requests that were under way in that time."""
        return percentile(
            [each.end - each.begin for each in self.answered if each.begin < end and each.end > begin], 0.99
        )


async def rows() -> AsyncIterator[Row]:
    """Measure several swaps."""
    af = peers.aioflow()
    with tempfile.TemporaryDirectory() as folder:
        await save(af, folder)
        async with af.serving.Models() as models:
            await models.add(NAME, folder)
            freeze()
            clients = Clients(models)
            asking = [asyncio.create_task(clients.ask(number)) for number in range(CLIENTS)]
            await asyncio.sleep(1)
            pairs = [await swap(models, clients, Path(folder), number) for number in range(2, 2 + SWAPS)]
            for task in asking:
                task.cancel()
            await asyncio.wait(asking)
    before, during = (statistics.median(each) for each in zip(*pairs, strict=True))
    ratio = statistics.median(during / before for before, during in pairs)
    figures = {"before": f"p99 {span(before)}", "during a swap": f"p99 {span(during)}", "failed": str(clients.failed)}
    claims = [Claim("p99, during / before", ratio, 2), Claim("failed requests", clients.failed, 0, unit="")]
    yield Row(f"swaps of a model of {ROWS * WIDTH * 4 / 1e6:.0f} MB under {CLIENTS} clients", figures, claims)


async def save(af: Any, folder: str) -> None:
    """Save the first version."""
    with af.Graph().as_default() as graph:
        row = af.placeholder(af.int32, [None], name="row")
        table = af.get_variable("table", [ROWS, WIDTH], af.float32)
        weights = af.get_variable("weights", [WIDTH, 10], af.float32)
        signature = af.saved_model.Signature(
            inputs={"row": row}, outputs={"y": af.matmul(af.gather(table, row), weights)}
        )
        init = af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(init)
        await af.saved_model.save(session, folder, {"serving_default": signature}, version=1)


async def swap(models: Any, clients: Clients, folder: Path, number: int) -> tuple[float, float]:
    """Serve the next version. Returns the 99th percentiles before and during it."""
    await asyncio.to_thread(shutil.copytree, folder / "1", folder / str(number), copy_function=os.link)
    await asyncio.sleep(1)
    begin = time.perf_counter()
    await models.refresh(NAME)
    while len([each for each in models.status(NAME) if each.state != "ended"]) > 1:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    end = time.perf_counter()
    return clients.tail(2 * begin - end, begin), clients.tail(begin, end)
