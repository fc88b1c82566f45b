"""Train a net to read handwritten digits on several devices: each computes a share of every batch.

The variables are on the first device. Every other device has a tower: a copy of the net that reads the variables and
computes the gradients of its share. When all towers are done, the mean gradient over the batch updates the variables.
The losses are those of training on one device; the program compares the two.
"""

import argparse
import asyncio
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from train_digits import Digits, add_loop_option, load_digits, loop_factory

import aioflow as af

HOME = "/cpu:0"
HIDDEN = 128
TOLERANCE = 1e-3


class Model(NamedTuple):
    """A graph with its placeholders, losses and operations."""

    graph: af.Graph
    images: af.Tensor
    labels: af.Tensor
    loss: af.Tensor
    accuracy: af.Tensor
    train: af.Operation
    init: af.Operation


class Weights(NamedTuple):
    """The variables of the net."""

    hidden: af.Variable
    hidden_bias: af.Variable
    logits: af.Variable
    logits_bias: af.Variable


def build(towers: Sequence[str]) -> Model:
    """Build the graph of a net with a tower on each of these devices, and a training step."""
    graph = af.Graph()
    with graph.as_default():
        images = af.placeholder(af.float32, [None, 64], name="images")
        labels = af.placeholder(af.int32, [None], name="labels")
        with af.device(HOME):
            weights = make_weights()
        losses, gradients = [], []
        for number, device in enumerate(towers):
            with af.device(device), af.name_scope(f"tower{number}"):
                share = slice(number, None, len(towers))
                loss = total_loss(weights, images[share], labels[share])
                losses.append(loss)
                gradients.append(af.gradients(loss, weights))
        with af.device(HOME):
            count = af.cast(af.size(labels), af.float32)
            means = [af.add_n(each) / count for each in zip(*gradients, strict=True)]
            read = af.argmax(logits_of(weights, images), axis=1, output_type=af.int32)
            return Model(
                graph=graph,
                images=images,
                labels=labels,
                loss=af.add_n(losses) / count,
                accuracy=af.reduce_mean(af.cast(af.equal(read, labels), af.float32)),
                train=af.train.MomentumOptimizer(0.05, 0.9).apply_gradients(zip(means, weights, strict=True)),
                init=af.global_variables_initializer(),
            )


def make_weights() -> Weights:
    """Create the variables, with the same random values in every graph."""

    def matrix(rows: int, columns: int, seed: int) -> af.Variable:
        return af.Variable(af.random_normal([rows, columns], stddev=math.sqrt(2 / rows), seed=seed))

    return Weights(
        matrix(64, HIDDEN, seed=1),
        af.Variable(af.zeros([HIDDEN])),
        matrix(HIDDEN, 10, seed=2),
        af.Variable(af.zeros([10])),
    )


def logits_of(weights: Weights, images: af.Tensor) -> af.Tensor:
    """Return the logits of the ten digits: one hidden layer."""
    hidden = af.nn.relu(af.matmul(images, weights.hidden) + weights.hidden_bias)
    return af.matmul(hidden, weights.logits) + weights.logits_bias


def total_loss(weights: Weights, images: af.Tensor, labels: af.Tensor) -> af.Tensor:
    """Return the sum of the losses of these images. The sums of shares add up to the sum of a batch."""
    logits = logits_of(weights, images)
    return af.reduce_sum(af.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


class Result(NamedTuple):
    """The loss of each step, and the accuracy on the held-out digits."""

    losses: list[float]
    accuracy: float


async def train(devices: int, seen: Digits, unseen: Digits, epochs: int) -> Result:
    """Train with one tower per device; 0 devices mean one tower on the device of the variables."""
    model = build([f"/cpu:{number}" for number in range(1, devices + 1)] or [HOME])
    config = af.Config(device_count={"CPU": devices + 1})
    random = np.random.default_rng(1)
    losses = []
    async with af.Session(graph=model.graph, config=config) as session:
        await session.run(model.init)
        step = session.make_callable([model.loss, model.train], feeds=[model.images, model.labels])
        for _ in range(epochs):
            for images, labels in seen.batches(random):
                loss, _ = await step(images, labels)
                losses.append(float(loss))
        accuracy = await session.run(model.accuracy, {model.images: unseen.images, model.labels: unseen.labels})
    return Result(losses, float(accuracy))


def compare(one: Sequence[float], several: Sequence[float]) -> float:
    """Return the largest difference between two loss curves. SystemExit if it is not small."""
    apart = float(np.abs(np.subtract(one, several)).max())
    if not apart <= TOLERANCE:
        raise SystemExit(f"the losses differ by up to {apart:.2g}")
    return apart


def show(one: Sequence[float], several: Sequence[float], title: str) -> None:
    """Print some points of two loss curves side by side."""
    print(f"{'step':>6} {'one device':>12} {title:>12}")
    for step in sorted({round(at) for at in np.linspace(0, len(one) - 1, 10)}):
        print(f"{step + 1:>6} {one[step]:>12.5f} {several[step]:>12.5f}")


async def main(devices: int, epochs: int) -> None:
    """Train on one device and on several, and print both results."""
    seen, unseen = load_digits()
    one, several = [await train(count, seen, unseen, epochs) for count in (0, devices)]
    show(one.losses, several.losses, f"{devices} towers")
    print(f"the losses differ by at most {compare(one.losses, several.losses):.1e}")
    print(f"test accuracy {several.accuracy:.3f}")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--devices", type=int, default=2, help="number of devices with a tower (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=10, help="number of epochs (default: %(default)s)")
    add_loop_option(parser)
    options = parser.parse_args(arguments)
    if options.devices < 1 or options.epochs < 1:
        parser.error("--devices and --epochs must be at least 1")
    return options


if __name__ == "__main__":
    options = parse()
    with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
        runner.run(main(options.devices, options.epochs))
