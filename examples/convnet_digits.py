"""Train a convolutional net to read handwritten digits, in about ten seconds.

A fifth of the images is held out. The last line of the output is the accuracy on them.
"""

import argparse
import asyncio
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from train_digits import Digits, Model, ProgressBar, add_loop_option, dense, load_digits, loop_factory, steps_of, train

import aioflow as af

SIDE = 8


class MovingDigits(Digits):
    """Digits that are shifted at random by up to a pixel in each direction, anew in each epoch."""

    def batches(self, random: np.random.Generator) -> Iterator[Digits]:
        """Yield all digits once, in random order, in batches."""
        for images, labels in super().batches(random):
            yield Digits(moved(images, random), labels)


def moved(images: Any, random: np.random.Generator) -> Any:
    """Return the images, each shifted by up to a pixel in both directions."""
    padded = np.pad(images.reshape(-1, SIDE, SIDE), [(0, 0), (1, 1), (1, 1)])
    rows, columns = random.integers(0, 3, [2, len(images), 1]) + np.arange(SIDE)
    planes = padded[np.arange(len(images))[:, None, None], rows[:, :, None], columns[:, None, :]]
    return planes.reshape(-1, SIDE * SIDE)


def build(steps: int, seed: int = 1) -> Model:
    """Build the graph of the net, its loss, and a training step whose learning rate falls to 0 within `steps` steps."""
    graph = af.Graph()
    with graph.as_default():
        af.set_random_seed(seed)
        images = af.placeholder(af.float32, [None, SIDE * SIDE], name="images")
        labels = af.placeholder(af.int32, [None], name="labels")
        noise = af.placeholder_with_default(0.0, [], name="noise")
        logits = net(images, noise)
        loss = af.reduce_mean(af.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        hits = af.equal(af.argmax(logits, axis=1, output_type=af.int32), labels)
        step = af.train.create_global_step()
        rate = af.train.cosine_decay(0.002, step, steps)
        return Model(
            graph=graph,
            images=images,
            labels=labels,
            noise=noise,
            probabilities=af.nn.softmax(logits),
            accuracy=af.reduce_mean(af.cast(hits, af.float32)),
            loss=loss,
            train=af.train.AdamOptimizer(rate).minimize(loss, global_step=step),
            init=af.global_variables_initializer(),
        )


def net(images: af.Tensor, noise: af.Tensor) -> af.Tensor:
    """Return the logits of the ten digits: two convolutions, each pooled, then a hidden layer.

    `noise` is the dropout rate of the inputs of the last two layers.
    """
    planes = af.reshape(images, [-1, SIDE, SIDE, 1])
    with af.name_scope("first"):
        planes = convolution(planes, 1, 32)
    with af.name_scope("second"):
        planes = convolution(planes, 32, 64)
    size = 64 * (SIDE // 4) ** 2
    with af.name_scope("hidden"):
        flat = af.nn.dropout(af.reshape(planes, [-1, size]), rate=noise)
        hidden = af.nn.relu(dense(flat, size, 128))
    with af.name_scope("logits"):
        return dense(af.nn.dropout(hidden, rate=noise), 128, 10)


def convolution(planes: af.Tensor, size: int, outputs: int) -> af.Tensor:
    """Convolve with 3x3 filters, and take the maximum of every 2x2 window."""
    filters = af.Variable(af.random_normal([3, 3, size, outputs], stddev=math.sqrt(2 / (9 * size))), name="filters")
    bias = af.Variable(af.zeros([outputs]), name="bias")
    strength = af.nn.relu(af.nn.conv2d(planes, filters, strides=1, padding="SAME") + bias)
    return af.nn.max_pool(strength, ksize=2, strides=2, padding="SAME")


async def main(epochs: int, seed: int) -> None:
    """Train the net, then test it on the held-out images."""
    seen, unseen = load_digits()
    model = build(steps_of(seen, epochs), seed)
    async with af.Session(graph=model.graph) as session:
        await session.run(model.init)
        await train(session, model, MovingDigits(*seen), epochs, ProgressBar())
        accuracy = await session.run(model.accuracy, {model.images: unseen.images, model.labels: unseen.labels})
    print(f"test accuracy {accuracy:.4f}")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=60, help="number of epochs (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the initial weights (default: %(default)s)")
    add_loop_option(parser)
    options = parser.parse_args(arguments)
    if options.epochs < 1:
        parser.error("--epochs must be at least 1")
    return options


if __name__ == "__main__":
    options = parse()
    with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
        runner.run(main(options.epochs, options.seed))
