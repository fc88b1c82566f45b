"""32 clients query LeNet and ResNet-50, one image per request, and batches of up to 32 are computed together.

`session.batched` gathers the requests of aioflow. ONNX Runtime gets the 32 images as one batch, as a batcher without
cost would hand them to it, and one by one. It has as many threads as there are cores. Its LeNet is the one that
`af.onnx.save` writes; aioflow's ResNet-50 is the one that `af.onnx.load` reads.
"""

import asyncio
import importlib
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import lenet, peers
from benchmarks.harness import SETTLE, enter, rotated
from benchmarks.image_networks import Floats, images, model
from benchmarks.inference import CORES
from benchmarks.lenet import with_aioflow
from benchmarks.report import Claim, Row

CLIENTS = 32
WHOLE, SINGLE = "ONNX Runtime, one batch", "ONNX Runtime, one by one"
Storm = Callable[[], Awaitable[Floats]]
"""Answers the images of all clients once."""
OpenModel = AbstractAsyncContextManager[tuple[Any, Any, Any]]
"""A session of aioflow with initialised variables, the placeholder for images, and the output."""


class Network(NamedTuple):
    """A network as both libraries have it.

    Attributes:
        name: its name.
        images: an image for each client.
        rounds: how many rounds are measured.
        storms: how often all clients ask in a round.
        open: builds it in aioflow.
        save: returns its file of ONNX for batches of that many images.
    """

    name: str
    images: Floats
    rounds: int
    storms: int
    open: Callable[[], OpenModel]
    save: Callable[[int], Awaitable[bytes]]


async def rows() -> AsyncIterator[Row]:
    """Measure the images per second of each network."""
    yield await row(Network("LeNet", lenet.Problem(CLIENTS).images, 11, 16, lenet_model, save_lenet))
    yield await row(Network("ResNet-50", images(CLIENTS), 3, 1, resnet_model, save_resnet))


async def row(network: Network) -> Row:
    """Measure one network."""
    sides = {peers.AIOFLOW: aioflow(network), WHOLE: onnxruntime(network, CLIENTS), SINGLE: onnxruntime(network, 1)}
    missing: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        built, _ = await enter(stack, sides, missing, first=0)
        rates = await measure(network, built)
    figures = {name: f"{statistics.median(found):>8,.1f} images/s" for name, found in rates.items()}
    title = f"{CLIENTS} clients of {network.name}, one image per request"
    return Row(title, figures | missing, [claim(rates, other) for other in (WHOLE, SINGLE)])


def claim(rates: Mapping[str, list[float]], other: str) -> Claim:
    """Compare images per second."""
    name, ratio = f"images/s, aioflow / {other}", None
    if peers.AIOFLOW in rates and other in rates:
        ratio = statistics.median(a / b for a, b in zip(rates[peers.AIOFLOW], rates[other], strict=True))
    return Claim(name, ratio, 1, at_least=True)


async def measure(network: Network, built: Mapping[str, Storm]) -> dict[str, list[float]]:
    """Return the images per second of each side in alternating rounds, after one that shows that all agree."""
    first = [await storm() for storm in built.values()]
    for other in first[1:]:
        np.testing.assert_allclose(first[0], other, rtol=1e-2, atol=1e-4)
    rates: dict[str, list[float]] = {name: [] for name in built}
    for turn in range(network.rounds):
        for name in rotated(list(built), turn):
            await asyncio.sleep(SETTLE)
            begin = time.perf_counter()
            for _ in range(network.storms):
                await built[name]()
            rates[name].append(network.storms * CLIENTS / (time.perf_counter() - begin))
    return rates


# The sides


@asynccontextmanager
async def aioflow(network: Network) -> AsyncIterator[Storm]:
    """Yield a storm of clients of `session.batched`."""
    given = [image[np.newaxis] for image in network.images]
    async with network.open() as (session, feed, output):
        infer = session.batched(output, feeds=[feed], max_rows=CLIENTS)

        async def storm() -> Floats:
            return np.concatenate(await asyncio.gather(*map(infer, given)))

        yield storm


@asynccontextmanager
async def onnxruntime(network: Network, batch: int) -> AsyncIterator[Storm]:
    """Yield what answers all images in batches of that size, in a thread."""
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = CORES, 4
    session = runtime.InferenceSession(await network.save(batch), options, ["CPUExecutionProvider"])
    given, name = network.images, session.get_inputs()[0].name

    def answer() -> Any:
        parts = range(0, CLIENTS, batch)
        return np.concatenate([session.run(None, {name: given[at : at + batch]})[0] for at in parts])

    async def storm() -> Floats:
        found: Floats = await asyncio.to_thread(answer)
        return found

    yield storm


# The networks


@asynccontextmanager
async def lenet_model() -> AsyncIterator[tuple[Any, Any, Any]]:
    """Build LeNet."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        feed, logits = with_aioflow.model(lenet.Problem(CLIENTS))
        init = af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(init)
        yield session, feed, logits


async def save_lenet(batch: int) -> bytes:
    """Write LeNet for any number of images."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"lenet-{batch}.onnx"
        async with lenet_model() as (session, feed, logits):
            await peers.aioflow().onnx.save(path, {"images": feed}, {"logits": logits}, session)
        return path.read_bytes()


@asynccontextmanager
async def resnet_model() -> AsyncIterator[tuple[Any, Any, Any]]:
    """Read ResNet-50."""
    af = peers.aioflow()
    imported = af.onnx.load(await save_resnet(CLIENTS), af.Graph())
    (feed,), (output,) = imported.inputs.values(), imported.outputs.values()
    async with af.Session(graph=imported.graph) as session:
        await session.run(imported.initializer)
        yield session, feed, output


async def save_resnet(batch: int) -> bytes:
    """Write ResNet-50 for that many images."""
    data: bytes = model("ResNet-50", batch).SerializeToString()
    return data
