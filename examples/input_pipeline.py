"""Train a net on PNG files that are read, decoded, shuffled and batched during the training.

The digits are written as PNG files into a temporary folder. Several queue runners read and decode them; the training
loop takes its batches from a shuffling queue. The last lines print the share of the time that it waited for batches,
and the accuracy on the held-out images.
"""

import argparse
import asyncio
import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from convnet_digits import SIDE, build
from train_digits import (
    BATCH,
    BRIGHTEST,
    Digits,
    Model,
    Progress,
    ProgressBar,
    add_loop_option,
    load_digits,
    loop_factory,
)

import aioflow as af

NOISE = 0.3
MIXED = 400
"""The smallest number of images in the queue from which a batch is drawn."""


async def write_files(digits: Digits, folder: Path) -> None:
    """Write each image as a PNG file whose name ends with its digit: `0017-5.png`."""
    graph = af.Graph()
    with graph.as_default():
        image, name = af.placeholder(af.float32, [SIDE * SIDE]), af.placeholder(af.string, [])
        grey = af.cast(af.round(image * BRIGHTEST * 15), af.uint8)
        write = af.write_file(name, af.image.encode_png(af.reshape(grey, [SIDE, SIDE, 1])))
    async with af.Session(graph=graph) as session:
        step = session.make_callable(write, feeds=[image, name])
        for number, (pixels, label) in enumerate(zip(*digits, strict=True)):
            await step(pixels, str(folder / f"{number:04}-{label}.png"))


def batches(pattern: str, epochs: int, runners: int) -> tuple[af.Tensor, af.Tensor]:
    """Return batches of images and labels in random order, for `epochs` epochs, read by several queue runners."""
    names = af.train.match_filenames_once(pattern)
    files = af.train.string_input_producer(names, num_epochs=epochs)
    examples = [example(files) for _ in range(runners)]
    images, labels = af.train.shuffle_batch_join(
        examples, BATCH, capacity=2 * MIXED, min_after_dequeue=MIXED, allow_smaller_final_batch=True
    )
    return images, labels


def example(files: af.QueueBase) -> tuple[af.Tensor, af.Tensor]:
    """Return the next image, float32 [64] from 0 to 1, shifted by up to a pixel in both directions, and its digit."""
    name, contents = af.WholeFileReader().read(files)
    grey = af.image.decode_png(contents, channels=1)
    grey.set_shape([SIDE, SIDE, 1])
    moved = af.random_crop(af.pad(grey, [[1, 1], [1, 1], [0, 0]]), [SIDE, SIDE, 1])
    label = af.string_to_number(af.substr(name, -len("5.png"), 1), af.int32)
    return af.reshape(af.cast(moved, af.float32) / (15 * BRIGHTEST), [SIDE * SIDE]), label


class Times(NamedTuple):
    """Seconds of training, and how many of them were spent waiting for batches."""

    whole: float
    waiting: float


async def train(session: af.Session, model: Model, batch: Sequence[af.Tensor], steps: int) -> Times:
    """Train with batch after batch until the input ends."""
    report, step, waiting = ProgressBar(), 0, 0.0
    take = session.make_callable(batch)
    learn = session.make_callable([model.loss, model.train], feeds=[model.images, model.labels, model.noise])
    begin = time.perf_counter()
    async with af.train.Coordinator() as coord:
        af.train.start_queue_runners(session, coord)
        while not coord.should_stop():
            asked = time.perf_counter()
            images, labels = await take()
            waiting += time.perf_counter() - asked
            loss, _ = await learn(images, labels, NOISE)
            step += 1
            report(Progress(step, steps, float(loss)))
    return Times(time.perf_counter() - begin, waiting)


async def main(epochs: int, runners: int) -> None:
    """Write the files, train on them, then test the net on the held-out images."""
    seen, unseen = load_digits()
    steps = math.ceil(epochs * len(seen.labels) / BATCH)
    model = build(steps)
    with tempfile.TemporaryDirectory() as folder:
        await write_files(seen, Path(folder))
        with model.graph.as_default():
            batch = batches(f"{folder}/*.png", epochs, runners)
            init = af.local_variables_initializer()
        async with af.Session(graph=model.graph) as session:
            await session.run([model.init, init])
            times = await train(session, model, batch, steps)
            accuracy = await session.run(model.accuracy, {model.images: unseen.images, model.labels: unseen.labels})
    share = times.waiting / times.whole
    print(f"{steps} steps in {times.whole:.1f} s, of which {share:.0%} waiting for {runners} runners")
    print(f"test accuracy {accuracy:.3f}")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=15, help="number of epochs (default: %(default)s)")
    parser.add_argument("--runners", type=int, default=4, help="number of queue runners (default: %(default)s)")
    add_loop_option(parser)
    options = parser.parse_args(arguments)
    if options.epochs < 1 or options.runners < 1:
        parser.error("--epochs and --runners must be at least 1")
    return options


if __name__ == "__main__":
    options = parse()
    with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
        runner.run(main(options.epochs, options.runners))
