"""Train a net whose layers are on different devices, with several steps running at the same time.

A batch is divided into micro-batches. Each micro-batch is a step, which goes forward through the devices and back, and
adds its gradients to sums beside the variables. All run concurrently in one session: while one is in the second layer,
the next can be in the first. One more step then updates the variables by the mean gradient. The losses are those of
training on one device with whole batches; the program compares the two. It computes in double precision, since training
amplifies rounding differences.
"""

import argparse
import asyncio
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from data_parallel import compare, show
from train_digits import Digits, add_loop_option, load_digits, loop_factory

import aioflow as af

WIDTHS = 64, 128, 128, 128, 10
LAYERS = len(WIDTHS) - 1
MICRO_BATCHES = 4
FLOAT = af.float64


class Layer(NamedTuple):
    """A layer: its device, its variables and the sums of their gradients."""

    device: str
    variables: list[af.Variable]
    sums: list[af.Variable]


class Model(NamedTuple):
    """A graph with its placeholders, losses and operations.

    Attributes:
        loss: the sum over all images fed.
        add: adds gradients to the sums.
        train: updates the variables by the mean gradient, and clears the sums.
    """

    graph: af.Graph
    images: af.Tensor
    labels: af.Tensor
    loss: af.Tensor
    accuracy: af.Tensor
    add: af.Operation
    train: af.Operation
    init: af.Operation


def build(devices: int) -> Model:
    """Build the graph of a net whose layers are divided among the devices."""
    graph = af.Graph()
    with graph.as_default():
        images = af.placeholder(FLOAT, [None, WIDTHS[0]], name="images")
        labels = af.placeholder(af.int32, [None], name="labels")
        layers = [make_layer(number, f"/cpu:{number * devices // LAYERS}") for number in range(LAYERS)]
        logits = images
        for layer in layers:
            with af.device(layer.device):
                logits = dense(layer, logits, last=layer is layers[-1])
        with af.device(layers[-1].device):
            seen = af.Variable(af.zeros([], FLOAT), trainable=False, name="seen")
            loss = af.reduce_sum(af.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
            hits = af.equal(af.argmax(logits, axis=1, output_type=af.int32), labels)
            count = af.assign_add(seen, af.cast(af.size(labels), FLOAT))
        return Model(
            graph=graph,
            images=images,
            labels=labels,
            loss=loss,
            accuracy=af.reduce_mean(af.cast(hits, af.float32)),
            add=af.group(count, *add_gradients(layers, loss)),
            train=apply_sums(layers, seen),
            init=af.global_variables_initializer(),
        )


def make_layer(number: int, device: str) -> Layer:
    """Create the variables of a layer, with the same random values in every graph, and the sums of their gradients."""
    rows, columns = WIDTHS[number : number + 2]
    with af.device(device), af.name_scope(f"layer{number}"):
        drawn = af.random_normal([rows, columns], stddev=math.sqrt(2 / rows), dtype=FLOAT, seed=number + 1)
        weights, bias = af.Variable(drawn), af.Variable(af.zeros([columns], FLOAT))
        sums = [af.Variable(af.zeros(variable.shape, FLOAT), trainable=False) for variable in (weights, bias)]
    return Layer(device, [weights, bias], sums)


def dense(layer: Layer, inputs: af.Tensor, last: bool) -> af.Tensor:
    """Return the outputs of a layer."""
    weights, bias = layer.variables
    outputs = af.matmul(inputs, weights) + bias
    return outputs if last else af.nn.relu(outputs)


def add_gradients(layers: Sequence[Layer], loss: af.Tensor) -> list[af.Operation]:
    """Return the operation that adds the gradients of the loss to the sums, on the device of each layer."""
    variables = [variable for layer in layers for variable in layer.variables]
    sums = [each for layer in layers for each in layer.sums]
    gradients = af.gradients(loss, variables, colocate_gradients_with_ops=True)
    return [af.assign_add(each, gradient).op for each, gradient in zip(sums, gradients, strict=True)]


def apply_sums(layers: Sequence[Layer], seen: af.Variable) -> af.Operation:
    """Return the operation that updates the variables by the mean gradient and then clears the sums."""
    means = []
    for layer in layers:
        with af.device(layer.device):
            means += [(each / seen, variable) for each, variable in zip(layer.sums, layer.variables, strict=True)]
    changed = af.train.MomentumOptimizer(0.05, 0.9).apply_gradients(means)
    with af.control_dependencies([changed]):
        cleared = [af.assign(each, af.zeros(each.shape, FLOAT)).op for layer in layers for each in layer.sums]
        return af.group(*cleared, af.assign(seen, 0.0))


class Result(NamedTuple):
    """The loss of each batch, and the accuracy on the held-out digits."""

    losses: list[float]
    accuracy: float


async def train(devices: int, parts: int, seen: Digits, unseen: Digits, epochs: int) -> Result:
    """Train on several devices, with each batch divided into parts that run at the same time."""
    model = build(devices)
    random = np.random.default_rng(1)
    losses = []
    async with af.Session(graph=model.graph, config=af.Config(device_count={"CPU": devices})) as session:
        await session.run(model.init)
        add = session.make_callable([model.loss, model.add], feeds=[model.images, model.labels])
        for _ in range(epochs):
            for batch in seen.batches(random):
                micro = zip(*[np.array_split(each, parts) for each in batch], strict=True)
                done = await asyncio.gather(*[add(images, labels) for images, labels in micro])
                await session.run(model.train)
                losses.append(sum(float(loss) for loss, _ in done) / len(batch.labels))
        accuracy = await session.run(model.accuracy, {model.images: unseen.images, model.labels: unseen.labels})
    return Result(losses, float(accuracy))


async def main(devices: int, epochs: int) -> None:
    """Train on one device with whole batches and on several with micro-batches, and print both results."""
    seen, unseen = load_digits()
    one = await train(1, 1, seen, unseen, epochs)
    several = await train(devices, MICRO_BATCHES, seen, unseen, epochs)
    show(one.losses, several.losses, f"{devices} devices")
    print(f"the losses differ by at most {compare(one.losses, several.losses):.1e}")
    print(f"test accuracy {several.accuracy:.3f}")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--devices", type=int, default=2, help=f"from 1 to the number of layers, {LAYERS} (default: 2)")
    parser.add_argument("--epochs", type=int, default=10, help="number of epochs (default: %(default)s)")
    add_loop_option(parser)
    options = parser.parse_args(arguments)
    if not 1 <= options.devices <= LAYERS or options.epochs < 1:
        parser.error(f"--devices must be from 1 to {LAYERS}, and --epochs at least 1")
    return options


if __name__ == "__main__":
    options = parse()
    with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
        runner.run(main(options.devices, options.epochs))
