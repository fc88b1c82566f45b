"""Optimizers that `compile` takes by Keras's names move weights as Keras's do, over several steps."""

import asyncio
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest

import aioflow as af

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(600)]
RANDOM = np.random.default_rng(8)
X, Y = (RANDOM.standard_normal((8, size)).astype(np.float32) for size in (4, 3))
NAMES = ("adafactor", "adamax", "lamb", "lion", "nadam")
STEPS, RATE = 5, 0.05


def trained_by_keras(names: tuple[str, ...]) -> tuple[list[Any], dict[str, list[Any]]]:
    """The first weights, and for each optimizer those after the steps."""
    import keras

    x = keras.Input([4])
    model = keras.Model(x, keras.layers.Dense(3)(keras.layers.Dense(5, "tanh")(x)))
    first, found = model.get_weights(), {}
    for name in names:
        model.set_weights(first)
        model.compile(getattr(keras.optimizers, name.capitalize())(RATE), "mse")
        for _ in range(STEPS):
            model.train_on_batch(X, Y)
        found[name] = model.get_weights()
    return first, found


async def trained(name: str, first: list[Any]) -> list[Any]:
    """The weights after the steps by aioflow."""
    with af.Graph().as_default():
        x = af.layers.Input([4])
        model = af.Model(x, af.layers.Dense(3)(af.layers.Dense(5, "tanh")(x)))
    async with model:
        await model.set_weights(first)
        model.compile(name, "mse")
        await model.set_learning_rate(RATE)
        for _ in range(STEPS):
            await model.train_on_batch(X, Y)
        return await model.get_weights()


def test_weights_move_as_kerass() -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        first, wanted = process.submit(trained_by_keras, NAMES).result()
    for name in NAMES:
        for mine, theirs in zip(asyncio.run(trained(name, first)), wanted[name], strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-6, err_msg=name)
