"""Training steps fed by readers, a PNG decoder and a shuffle queue, against reading, decoding and training in turn.

Decoding a batch costs as much as the training step on it: the size of the images is chosen by measuring. Both costs are
of one core, since otherwise two cores would have nothing to overlap; so all of it runs in its own process, in which
matrix products have one thread. In turn, one run reads and decodes a batch, and the next one trains on it.
"""

import itertools
import math
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.apart import apart, tell
from benchmarks.harness import Step, Timing, alternate, excuse
from benchmarks.report import Claim, Row, span, timed_row

OVERLAPPED, IN_TURN = "aioflow", "in turn"
BATCH, PICTURES, READERS = 16, 64, 4
SEEN = 64
"""The net uses 64 x 64 pixels of an image, in patches of 8 x 8."""
WIDTH = 1536


async def rows() -> AsyncIterator[Row]:
    """Measure the steps per second of both, as times per step."""
    found = await apart("benchmarks.input")
    timing = Timing(found["rounds"], found["missing"])
    claims = [Claim("in turn / aioflow", timing.ratio(IN_TURN, OVERLAPPED), 1.8, at_least=True)]
    yield timed_row(
        "steps fed by readers and a shuffle queue, decoding as expensive as a step", timing, claims, found["notes"]
    )


async def measure() -> dict[str, Any]:
    """Measure both sides in alternation. Returns plain data."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            learning = await cost(training(), 20)
            side = await balanced(Path(folder), learning)
        except Exception as error:
            return {"rounds": {}, "missing": dict.fromkeys((OVERLAPPED, IN_TURN), excuse(error)), "notes": []}
        decoding = await cost(decoded(Path(folder), side), 10)
        sides = {OVERLAPPED: overlapped(Path(folder), side), IN_TURN: in_turn(Path(folder), side)}
        timing = await alternate(sides, rounds=7, block=1.0)
    note = (
        f"batches of {BATCH} PNG files of {side} x {side}: {span(decoding)} to decode, {span(learning)} to learn from"
    )
    return {"rounds": timing.rounds, "missing": timing.missing, "notes": [note]}


async def balanced(folder: Path, learning: float) -> int:
    """Return the size of images at which decoding a batch takes as long as training on it; writes such images."""
    side = 8 * SEEN
    for _ in range(3):
        write(folder, side)
        decoding = await cost(decoded(folder, side), 10)
        wanted = max(1, round(side / SEEN * math.sqrt(learning / decoding))) * SEEN
        if wanted == side:
            break
        side = wanted
    write(folder, side)
    return side


def write(folder: Path, side: int) -> None:
    """Write images that compress about as well as photographs, with names that contain a digit."""
    from PIL import Image

    random = np.random.default_rng(1)
    for number in range(PICTURES):
        coarse = random.integers(0, 200, [8, 8])
        pixels = np.kron(coarse, np.ones([side // 8, side // 8], int)) + random.integers(0, 16, [side, side])
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number:03}-{number % 10}.png")


async def cost(side: Any, count: int) -> float:
    """Return the median seconds of a step, alone."""
    async with side as step:
        samples = []
        for _ in range(count + 5):
            begin = time.perf_counter()
            await step()
            samples.append(time.perf_counter() - begin)
        return statistics.median(samples[5:])


# Graphs


def example(files: Any, side: int) -> tuple[Any, Any]:
    """Return the next image, cropped to the pixels that the net uses, and the digit in its name."""
    af = peers.aioflow()
    name, contents = af.WholeFileReader().read(files)
    pixels = af.image.decode_png(contents, channels=1)
    pixels.set_shape([side, side, 1])
    step = side // SEEN
    label = af.string_to_number(af.substr(name, -len("5.png"), 1), af.int32)
    return pixels[::step, ::step, 0], label


def files_in(folder: Path) -> Any:
    """Return the endless queue of names."""
    af = peers.aioflow()
    return af.train.string_input_producer(sorted(map(str, folder.glob("*.png"))), seed=1)


def learn(images: Any, labels: Any) -> Any:
    """Return the loss of a training step on the patches of the images, after all weights are updated."""
    af = peers.aioflow()
    side, count = 8, SEEN // 8
    patches = af.reshape(af.cast(images, af.float32) / 255, [BATCH, count, side, count, side])
    x = af.reshape(af.transpose(patches, [0, 1, 3, 2, 4]), [BATCH * count * count, side * side])
    sizes = (side * side, WIDTH, WIDTH, 10)
    for before, after in itertools.pairwise(sizes):
        weights = af.Variable(af.random_normal([before, after], stddev=math.sqrt(1 / before), seed=1))
        x = af.matmul(x if before == sizes[0] else af.nn.relu(x), weights)
    logits = af.reduce_mean(af.reshape(x, [BATCH, count * count, 10]), axis=1)
    loss = af.reduce_mean(af.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    with af.control_dependencies([af.train.GradientDescentOptimizer(0.01).minimize(loss)]):
        return af.identity(loss)


# Sides


@asynccontextmanager
async def running(graph: Any, threads: int) -> AsyncIterator[tuple[Any, Any]]:
    """Yield a session with initialised variables and running queue runners, and their coordinator."""
    af = peers.aioflow()
    with graph.as_default():
        init = af.global_variables_initializer()
    config = af.Config(compute_threads=threads, fuse_elementwise=False)
    async with af.Session(graph=graph, config=config) as session, af.train.Coordinator() as coord:
        await session.run(init)
        af.train.start_queue_runners(session, coord)
        yield session, coord


@asynccontextmanager
async def overlapped(folder: Path, side: int) -> AsyncIterator[Step]:
    """Queue runners read and decode while the step before trains."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        files = files_in(folder)
        examples = [example(files, side) for _ in range(READERS)]
        images, labels = af.train.shuffle_batch_join(examples, BATCH, capacity=3 * BATCH, min_after_dequeue=BATCH)
        loss = learn(images, labels)
    async with running(graph, 2) as (session, _):
        yield session.make_callable(loss)


@asynccontextmanager
async def in_turn(folder: Path, side: int) -> AsyncIterator[Step]:
    """One run reads and decodes a batch, the next trains on it."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        batch = stacked(folder, side)
        fed = [af.placeholder(tensor.dtype, tensor.shape) for tensor in batch]
        loss = learn(*fed)
    async with running(graph, 1) as (session, _):
        take, step = session.make_callable(batch), session.make_callable(loss, feeds=fed)

        async def both() -> Any:
            return await step(*await take())

        yield both


def stacked(folder: Path, side: int) -> list[Any]:
    """Return a batch whose images are all read and decoded in the same run."""
    af = peers.aioflow()
    files = files_in(folder)
    images, labels = zip(*[example(files, side) for _ in range(BATCH)], strict=True)
    return [af.stack(images), af.stack(labels)]


@asynccontextmanager
async def decoded(folder: Path, side: int) -> AsyncIterator[Step]:
    """Read and decode a batch."""
    graph = peers.aioflow().Graph()
    with graph.as_default():
        batch = stacked(folder, side)
    async with running(graph, 1) as (session, _):
        yield session.make_callable(batch)


@asynccontextmanager
async def training() -> AsyncIterator[Step]:
    """Train on one batch again and again."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default():
        images, labels = af.placeholder(af.uint8, [BATCH, SEEN, SEEN]), af.placeholder(af.int32, [BATCH])
        loss = learn(images, labels)
    pixels = np.random.default_rng(1).integers(0, 255, [BATCH, SEEN, SEEN]).astype(np.uint8)
    async with running(graph, 1) as (session, _):
        step = session.make_callable(loss, feeds=[images, labels])
        yield lambda: step(pixels, np.arange(BATCH, dtype=np.int32) % 10)


if __name__ == "__main__":
    tell(measure())
