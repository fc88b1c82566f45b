"""Losses by overlaps, and those that give easy elements less weight; `oracle/` compares them with Keras."""

import numpy as np
import pytest

import aioflow as af
from aioflow import losses

RANDOM = np.random.default_rng(8)
MASKS = RANDOM.integers(0, 2, (3, 4, 4)).astype(np.float32)
CHANCES = RANDOM.uniform(0.05, 0.95, (3, 4, 4)).astype(np.float32)
LOGITS = np.log(CHANCES / (1 - CHANCES))
RIGHT = MASKS * CHANCES + (1 - MASKS) * (1 - CHANCES)
BALANCE = MASKS * 0.3 + (1 - MASKS) * 0.7


def overlap(alpha, beta, axis):
    both = (MASKS * CHANCES).sum(axis)
    others = alpha * ((1 - MASKS) * CHANCES).sum(axis) + beta * (MASKS * (1 - CHANCES)).sum(axis)
    return 1 - both / (both + others)


async def test_losses_follow_their_definitions():
    focal = -((1 - RIGHT) ** 1.5) * np.log(RIGHT)
    cases = [
        (losses.Dice(), CHANCES, overlap(0.5, 0.5, None)),
        (losses.Dice(axis=[1, 2]), CHANCES, overlap(0.5, 0.5, (1, 2))),
        (losses.Tversky(0.2, 0.7, axis=[1, 2]), CHANCES, overlap(0.2, 0.7, (1, 2))),
        (losses.BinaryFocalCrossentropy(gamma=1.5), CHANCES, focal.mean(-1)),
        (losses.BinaryFocalCrossentropy(True, 0.3, 1.5, from_logits=True), LOGITS, (BALANCE * focal).mean(-1)),
    ]
    shares = RANDOM.dirichlet(np.ones(4), 5).astype(np.float32)
    one_hot = np.eye(4, dtype=np.float32)[[0, 1, 2, 3, 1]]
    right = (shares * one_hot).sum(1)
    with af.Graph().as_default() as graph:
        found = [loss.of(MASKS, predictions) for loss, predictions, _ in cases]
        found.append(losses.CategoricalFocalCrossentropy(0.3, 1.5).of(one_hot, shares))
        found.append(losses.CategoricalFocalCrossentropy(0.3, 1.5, True).of(one_hot, np.log(shares)))
        found.append(losses.CategoricalGeneralizedCrossEntropy(0.3).of([0, 1, 2, 3, 1], shares))
    power = -0.3 * (1 - right) ** 1.5 * np.log(right)
    wanted = [*[values for *_, values in cases], power, power, (1 - right**0.3) / 0.3]
    async with af.Session(graph=graph) as session:
        for mine, values in zip(await session.run(found), wanted, strict=True):
            np.testing.assert_allclose(mine, values, rtol=1e-4, atol=1e-6)


async def test_they_train_by_their_names():
    x = RANDOM.standard_normal((12, 3)).astype(np.float32)
    for name in ("dice", "tversky", "binary_focal_crossentropy"):
        with af.Graph().as_default():
            async with af.Sequential([af.layers.Input([3]), af.layers.Dense(1, "sigmoid")]) as model:
                model.compile("adam", name)
                history = await model.fit(x, (x[:, :1] > 0).astype("f"), epochs=20, verbose=0)
        assert history.history["loss"][-1] < history.history["loss"][0]


def test_an_exponent_outside_of_0_and_1_is_refused():
    with pytest.raises(ValueError, match="q is more than 0 and less than 1, not 1"):
        losses.CategoricalGeneralizedCrossEntropy(1)
