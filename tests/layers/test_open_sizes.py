"""Models that know their inputs by their first batch, and batches of other sizes."""

import numpy as np
import pytest

import aioflow as af
from aioflow import layers

pytestmark = pytest.mark.usefixtures("graph")

RNG = np.random.default_rng(5)
WORDS = RNG.integers(1, 20, (12, 7))
LABELS = WORDS[:, 0] > 10


class Reader(af.Model):
    """Reads words, up to the first 0."""

    def __init__(self):
        super().__init__()
        self.words = layers.Embedding(20, 4, mask_zero=True)
        self.memory = layers.LSTM(3)
        self.decision = layers.Dense(1, activation="sigmoid")

    def call(self, inputs):
        return self.decision(self.memory(self.words(inputs)))


@pytest.mark.parametrize("build", [Reader, lambda: af.Sequential(Reader().layers)])
async def test_sequences_of_other_lengths_are_read_by_the_same_weights(build):
    padded = np.pad(WORDS, [[0, 0], [0, 3]])
    async with build() as model:
        model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
        await model.fit(WORDS, LABELS, verbose=0)
        expected, weights = await model.predict(WORDS), await model.get_weights()
        np.testing.assert_allclose(await model.predict(padded), expected, rtol=1e-5)
        both = await model.predict([(WORDS[:5],), (padded[5:],)])
        np.testing.assert_allclose(both, expected, rtol=1e-5)
        for one, other in zip(weights, await model.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)
        measured = await model.evaluate(WORDS, LABELS)
        assert await model.evaluate(padded, LABELS) == pytest.approx(measured, rel=1e-5)
        history = await model.fit(padded, LABELS, epochs=30, verbose=0)
        assert history.history["loss"][-1] < measured[0]


@pytest.mark.parametrize(
    ("first", "other"), [([4, 3], [4, 2]), ([4, 5, 3], [4, 3]), ([4, 2, 6], [4, 3, 6])], ids=["width", "rank", "flat"]
)
async def test_sizes_that_weights_depend_on_stay_as_they_are(first, other):
    model = af.Sequential([*([layers.Flatten()] if first[1:] == [2, 6] else []), layers.Dense(2)])
    async with model:
        await model.predict(np.ones(first, np.float32))
        with pytest.raises(ValueError, match=r"cannot feed a value of shape \[4"):
            await model.predict(np.ones(other, np.float32))
        assert (await model.predict(np.ones(first, np.float32))).shape[-1] == 2


async def test_sizes_that_an_input_states_hold():
    async with af.Sequential([layers.Input([5], dtype=af.int32), layers.Embedding(20, 2)]) as model:
        with pytest.raises(ValueError, match=r"cannot feed a value of shape \[12, 7\] .* \[\?, 5\]"):
            await model.predict(WORDS)


class Parts:
    """Batches by their numbers."""

    def __init__(self):
        self.ends = 0

    def __len__(self):
        return 3

    def __getitem__(self, index):
        part = slice(4 * index, 4 * index + 4)
        return WORDS[part], LABELS[part]

    def on_epoch_end(self):
        self.ends += 1


async def test_an_object_with_numbered_batches_is_iterated_in_each_epoch():
    parts = Parts()
    async with Reader() as model:
        model.compile("sgd", "binary_crossentropy")
        seen = []
        count = af.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(batch))
        history = await model.fit(parts, epochs=2, verbose=0, callbacks=[count], validation_data=parts)
        assert (seen, parts.ends) == ([0, 1, 2] * 2, 4)
        assert history.params["steps"] == 3
        whole = await model.evaluate(WORDS, LABELS, batch_size=4)
        assert await model.evaluate(Parts()) == pytest.approx(whole, rel=1e-5)


def bucketed():
    """Batches of words of several lengths, with the shorter ones first."""
    lengths = [4, 7, 9, 4]
    return [(np.pad(WORDS[3 * i : 3 * i + 3], [[0, 0], [0, 2]])[:, :size], LABELS[3 * i : 3 * i + 3]) for i, size in
            enumerate(lengths)]  # fmt: skip


async def test_the_batches_of_an_epoch_may_have_several_lengths():
    found = []
    for begin in ([], [layers.Input([None], dtype=af.int64)]):
        with af.Graph().as_default():
            af.set_random_seed(1)
            async with af.Sequential([*begin, *Reader().layers]) as model:
                model.compile("adam", "binary_crossentropy", metrics=["accuracy", "AUC"])
                if found:
                    await model.set_weights(found[0])
                else:
                    await model.predict(bucketed()[0][0])
                    found.append(await model.get_weights())
                measured = await model.evaluate(bucketed(), return_dict=True)
                history = await model.fit(bucketed(), epochs=3, verbose=0, validation_data=bucketed())
                found.append((measured, history.history, await model.get_weights()))
    (one, past, weights), (other, wanted, same) = found[1:]
    assert one == pytest.approx(other, rel=1e-5)
    assert past.keys() == wanted.keys()
    for name, values in past.items():
        assert values == pytest.approx(wanted[name], rel=1e-4)
    for mine, given in zip(weights, same, strict=True):
        np.testing.assert_allclose(mine, given, rtol=1e-4, atol=1e-6)
