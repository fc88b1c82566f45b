"""Train a variational autoencoder on handwritten digits, and draw what it imagines as a PNG picture.

The encoder gives each image a small cloud of points in a plane, and the decoder turns a point back into an image
[Kingma and Welling 2013]. The clouds together are made to fill the plane like a normal distribution, so that each point
of it stands for a digit. The picture shows the plane: digits change into each other from place to place.
"""

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from train_digits import BATCH, add_loop_option, load_digits, loop_factory

import aioflow as af

SIDE, PIXELS = 8, 64
TILES, SCALE = 16, 4


class Autoencoder(NamedTuple):
    """A graph with its placeholders, its losses per image, and its operations."""

    graph: af.Graph
    images: af.Tensor
    surprise: af.Tensor
    distance: af.Tensor
    train: af.Operation
    points: af.Tensor
    file: af.Tensor
    draw: af.Operation
    init: af.Operation


def build(seed: int = 1) -> Autoencoder:
    """Build the graph: encoder and decoder, their training, and the drawing of the images of some points.

    `surprise` is the cross entropy of an image and the one decoded from a point of its cloud. `distance` is the
    Kullback-Leibler divergence of the cloud and a normal distribution.
    """
    graph = af.Graph()
    with graph.as_default():
        af.set_random_seed(seed)
        images = af.placeholder(af.float32, [None, PIXELS], name="images")
        encode = layers_of(256, 4)
        decode = layers_of(256, PIXELS)
        mean, spread = af.split(encode(images), 2, axis=1)
        drawn = mean + af.exp(spread) * af.random_normal(af.shape(mean))
        errors = af.nn.sigmoid_cross_entropy_with_logits(labels=images, logits=decode(drawn))
        surprise = af.reduce_mean(af.reduce_sum(errors, 1))
        divergence = (af.square(mean) + af.exp(2 * spread) - 1) / 2 - spread
        distance = af.reduce_mean(af.reduce_sum(divergence, 1))
        points = af.placeholder(af.float32, [TILES * TILES, 2], name="points")
        file = af.placeholder(af.string, [], name="file")
        picture = tiled(af.nn.sigmoid(decode(points)))
        return Autoencoder(
            graph=graph,
            images=images,
            surprise=surprise,
            distance=distance,
            train=af.train.AdamOptimizer(0.002).minimize(surprise + distance),
            points=points,
            file=file,
            draw=af.write_file(file, af.image.encode_png(picture)),
            init=af.global_variables_initializer(),
        )


def layers_of(hidden: int, outputs: int) -> af.Sequential:
    """Return two hidden layers and one of outputs."""
    wide = [af.layers.Dense(hidden, activation="relu") for _ in range(2)]
    return af.Sequential([*wide, af.layers.Dense(outputs)])


def tiled(images: af.Tensor) -> af.Tensor:
    """Return images [TILES * TILES, PIXELS], from 0 (white) to 1, side by side as one picture, each pixel enlarged."""
    rows = af.transpose(af.reshape(images, [TILES, TILES, SIDE, SIDE]), [0, 2, 1, 3])
    whole = af.reshape(255 * (1 - rows), [1, TILES * SIDE, TILES * SIDE, 1])
    large = af.image.resize_nearest_neighbor(whole, [TILES * SIDE * SCALE] * 2)
    return af.cast(af.round(large[0]), af.uint8)


def plane() -> Any:
    """Return points in rows and columns, as many in each part of the plane as a normal distribution has there."""
    places = [NormalDist().inv_cdf((place + 0.5) / TILES) for place in range(TILES)]
    return np.stack(np.meshgrid(places, places), -1).reshape(-1, 2).astype(np.float32)


def batches(images: Any, random: np.random.Generator) -> list[Any]:
    """Return all images in batches, in random order."""
    return np.split(random.permutation(images), range(BATCH, len(images), BATCH))


async def main(epochs: int, picture: Path) -> None:
    """Train, print the losses of the held-out images now and then, and draw."""
    seen, unseen = load_digits()
    model, random, every = build(), np.random.default_rng(1), max(1, epochs // 10)
    async with af.Session(graph=model.graph) as session:
        await session.run(model.init)
        step = session.make_callable(model.train, feeds=[model.images])
        for epoch in range(1, epochs + 1):
            for images in batches(seen.images, random):
                await step(images)
            if epoch % every == 0:
                surprise, distance = await session.run([model.surprise, model.distance], {model.images: unseen.images})
                print(f"epoch {epoch}  surprise {surprise:.2f}  distance {distance:.2f}", flush=True)
        await session.run(model.draw, {model.points: plane(), model.file: str(picture)})
    print(f"the plane of digits is in {picture}")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=100, help="number of epochs (default: %(default)s)")
    parser.add_argument("--picture", type=Path, default=Path("digits.png"), help="the file (default: %(default)s)")
    add_loop_option(parser)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    options = parse()
    with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
        runner.run(main(options.epochs, options.picture))
