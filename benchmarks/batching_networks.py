"""32 clients query ResNet-50, one image per request, and batches of up to 32 are computed together.

`session.batched` gathers the requests of aioflow. ONNX Runtime gets the 32 images as one batch, as a batcher without
cost would hand them to it, and one by one. It has as many threads as there are cores.
"""

import asyncio
import importlib
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import SETTLE, enter, rotated
from benchmarks.image_networks import Floats, images, model
from benchmarks.inference import CORES
from benchmarks.report import Claim, Row

NETWORK, CLIENTS, ROUNDS = "ResNet-50", 32, 3
WHOLE, SINGLE = "ONNX Runtime, one batch", "ONNX Runtime, one by one"
Storm = Callable[[], Awaitable[Floats]]
"""Answers the images of all clients once."""


async def rows() -> AsyncIterator[Row]:
    """Measure the images per second."""
    sides = {peers.AIOFLOW: aioflow(), WHOLE: onnxruntime(CLIENTS), SINGLE: onnxruntime(1)}
    missing: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        built, _ = await enter(stack, sides, missing, first=0)
        rates = await measure(built)
    figures = {name: f"{statistics.median(found):>6.1f} images/s" for name, found in rates.items()}
    title = f"{CLIENTS} clients of {NETWORK}, one image per request"
    yield Row(title, figures | missing, [claim(rates, other) for other in (WHOLE, SINGLE)])


def claim(rates: Mapping[str, list[float]], other: str) -> Claim:
    """Compare images per second."""
    name, ratio = f"images/s, aioflow / {other}", None
    if peers.AIOFLOW in rates and other in rates:
        ratio = statistics.median(a / b for a, b in zip(rates[peers.AIOFLOW], rates[other], strict=True))
    return Claim(name, ratio, 1, at_least=True)


async def measure(built: Mapping[str, Storm]) -> dict[str, list[float]]:
    """Return the images per second of each side in alternating rounds, after one that shows that all agree."""
    first = [await storm() for storm in built.values()]
    for other in first[1:]:
        np.testing.assert_allclose(first[0], other, rtol=1e-2, atol=1e-4)
    rates: dict[str, list[float]] = {name: [] for name in built}
    for turn in range(ROUNDS):
        for name in rotated(list(built), turn):
            await asyncio.sleep(SETTLE)
            begin = time.perf_counter()
            await built[name]()
            rates[name].append(CLIENTS / (time.perf_counter() - begin))
    return rates


@asynccontextmanager
async def aioflow() -> AsyncIterator[Storm]:
    """Yield a storm of clients of `session.batched`."""
    af = peers.aioflow()
    imported = af.onnx.load(model(NETWORK, CLIENTS).SerializeToString(), af.Graph())
    given = [image[np.newaxis] for image in images(CLIENTS)]
    async with af.Session(graph=imported.graph) as session:
        await session.run(imported.initializer)
        (output,), inputs = imported.outputs.values(), [*imported.inputs.values()]
        infer = session.batched(output, feeds=inputs, max_rows=CLIENTS)

        async def storm() -> Floats:
            return np.concatenate(await asyncio.gather(*map(infer, given)))

        yield storm


@asynccontextmanager
async def onnxruntime(batch: int) -> AsyncIterator[Storm]:
    """Yield what answers all images in batches of that size, in a thread."""
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = CORES, 4
    session = runtime.InferenceSession(model(NETWORK, batch).SerializeToString(), options, ["CPUExecutionProvider"])
    given, name = images(CLIENTS), session.get_inputs()[0].name

    def answer() -> Any:
        parts = range(0, CLIENTS, batch)
        return np.concatenate([session.run(None, {name: given[at : at + batch]})[0] for at in parts])

    async def storm() -> Floats:
        found: Floats = await asyncio.to_thread(answer)
        return found

    yield storm
