"""Train a residual net to read handwritten digits, in about half a minute.

A fifth of the images is held out for the test, and a tenth of the others for validation. Training images are shifted
anew in each epoch. The training ends when the loss of the images for validation does not fall any more.
"""

import argparse
import asyncio
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from convnet_digits import SIDE, moved
from train_digits import Digits, add_loop_option, load_digits, loop_factory

import aioflow as af

BATCH = 64
RATE = 0.003
PATIENCE = 12


def build() -> af.Model:
    """Build the net: a convolution and three residual blocks, ever wider and ever smaller."""
    images = af.layers.Input([SIDE, SIDE, 1])
    x = af.nn.relu(convolution(images, 16))
    x = residual(x, 16)
    x = residual(x, 32, strides=2)
    x = residual(x, 64, strides=2)
    x = af.layers.Dropout(0.3)(af.layers.GlobalAveragePooling2D()(x))
    return af.Model(images, af.layers.Dense(10)(x))


def residual(x: af.Tensor, filters: int, strides: int = 1) -> af.Tensor:
    """Add two convolutions to their input, or to a projection of it if they change its shape."""
    y = convolution(af.nn.relu(convolution(x, filters, strides=strides)), filters)
    return af.nn.relu(y + (x if strides == 1 else convolution(x, filters, 1, strides)))


def convolution(x: af.Tensor, filters: int, size: int = 3, strides: int = 1) -> af.Tensor:
    """Convolve, and normalize each channel over the batch."""
    planes = af.layers.Conv2D(filters, size, strides, padding="same", use_bias=False)(x)
    normalized: af.Tensor = af.layers.BatchNormalization(momentum=0.9)(planes)
    return normalized


def shifted_batches(digits: Digits, seed: int) -> af.data.Dataset:
    """Return batches in random order, with the images shifted by up to a pixel in each direction."""
    random = np.random.default_rng(seed)

    def shift(images: Any, labels: Any) -> tuple[Any, Any]:
        return as_planes(moved(images, random)), labels

    dataset = af.data.Dataset.from_tensor_slices((digits.images, digits.labels))
    return dataset.shuffle(len(digits.labels), seed).batch(BATCH).map(shift).prefetch(2)


def as_planes(images: Any) -> Any:
    """Return images of 64 pixels as planes, [n, 8, 8, 1]."""
    return images.reshape(-1, SIDE, SIDE, 1)


async def main(epochs: int, seed: int) -> None:
    """Train the net, then test it on the held-out images."""
    seen, unseen = load_digits()
    count = len(seen.labels) // 10
    validation, training = [Digits(*[array[part] for array in seen]) for part in (slice(count), slice(count, None))]
    af.set_random_seed(seed)
    async with build() as model:
        model.summary()
        model.compile("adam", af.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
        await model.fit(
            shifted_batches(training, seed),
            epochs=epochs,
            validation_data=(as_planes(validation.images), validation.labels),
            callbacks=[
                af.callbacks.LearningRateScheduler(lambda epoch: RATE * (1 + math.cos(math.pi * epoch / epochs)) / 2),
                af.callbacks.EarlyStopping("val_loss", patience=PATIENCE, restore_best_weights=True),
            ],
        )
        _, accuracy = await model.evaluate(as_planes(unseen.images), unseen.labels)
    print(f"test accuracy {accuracy:.4f}")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=40, help="most epochs (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the initial weights (default: %(default)s)")
    add_loop_option(parser)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    options = parse()
    with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
        runner.run(main(options.epochs, options.seed))
