"""The loss of pairs; `oracle/` compares it with Keras."""

import numpy as np
import pytest

import aioflow as af

RANDOM = np.random.default_rng(4)
VECTORS = RANDOM.standard_normal((7, 3))
VECTORS = (VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)).astype(np.float32)
CLASSES = np.array([0, 1, 0, 2, 1, 1, 3])
ALONE = np.array([3, 6])
"""Elements without another one of their class."""


def by_hand(gamma, margin, remove_diagonal):
    """The losses by sums over pairs, in double precision."""
    losses = np.zeros(7)
    for one in range(7):
        sums = [0.0, 0.0]
        for other in range(7):
            distance = max(1.0 - float(VECTORS[one].astype(float) @ VECTORS[other]), 0.0)
            if CLASSES[one] != CLASSES[other]:
                sums[0] += np.exp(gamma * max(1 + margin - distance, 0.0) * (1 - margin - distance))
            elif one != other or not remove_diagonal:
                sums[1] += np.exp(gamma * max(margin + distance, 0.0) * (distance - margin))
        losses[one] = np.log1p(sums[0] * sums[1])
    return losses


async def test_losses_are_sums_over_pairs_and_elements_without_pairs_do_not_count():
    weights, mask = RANDOM.uniform(0, 2, 7).astype(np.float32), np.array([1, 1, 0, 1, 1, 0, 1], bool)
    with af.Graph().as_default() as graph:
        vectors = af.placeholder(af.float32, [None, 3])
        loss, own = af.losses.Circle(2.0, 0.3), af.losses.Circle(2.0, 0.3, remove_diagonal=False)
        found = [loss.of(CLASSES, vectors), own.of(CLASSES[:, None], vectors), loss(CLASSES, vectors)]
        found += [loss(CLASSES, vectors, weights, mask), loss(np.arange(7), vectors), loss(np.zeros(7), vectors)]
        slopes = [af.gradients(each, vectors)[0] for each in (found[2], found[4])]
    async with af.Session(graph=graph) as session:
        values, slopes = await session.run([found, slopes], {vectors: VECTORS})
    wanted, counted = by_hand(2.0, 0.3, True), np.isin(np.arange(7), ALONE, invert=True)
    assert (wanted[ALONE] == 0).all()
    kept = counted & mask
    for mine, expected in zip(
        values,
        [
            wanted, by_hand(2.0, 0.3, False), wanted[counted].mean(),
            (wanted * weights)[kept].sum() / kept.sum(), 0.0, 0.0,
        ],
        strict=True,
    ):  # fmt: skip
        np.testing.assert_allclose(mine, expected, rtol=1e-5)
    assert np.isfinite(slopes[0]).all()
    assert slopes[0].any()
    assert not slopes[1].any()


@pytest.mark.parametrize("devices", [1, 2])
async def test_it_trains_by_its_name(devices):
    x = np.random.default_rng(1).standard_normal((24, 3)).astype(np.float32)
    with af.Graph().as_default() as graph:
        af.set_random_seed(1)
        model = af.Sequential([af.layers.Input([3]), af.layers.Dense(2), af.layers.UnitNormalization()])
        places = [f"/device:CPU:{number}" for number in range(devices)]
        model.compile(
            af.train.AdamOptimizer(0.05),
            "circle",
            strategy=af.distribute.MirroredStrategy(places) if devices > 1 else None,
        )
        async with af.Session(graph=graph, config=af.Config(device_count={"CPU": devices})):
            history = await model.fit(x, (x[:, 0] > 0).astype(int), epochs=20, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]


def test_labels_and_predictions_of_other_shapes_are_refused():
    with af.Graph().as_default():
        for labels, vectors, text in (
            ([0, 1], np.ones([2, 3, 4]), "predictions: rank 2 is needed"),
            (np.eye(2), np.ones([2, 3]), r"labels have shape \[2, 2\], predictions \[2, 1\]"),
        ):
            with pytest.raises(ValueError, match=text):
                af.losses.Circle()(labels, vectors)
