"""Blocks of batches, and `fit`, `evaluate` and `predict` with them beside a block for each batch."""

import numpy as np
import pytest

import aioflow as af
from aioflow import layers
from aioflow.layers import batches, blocks, callbacks
from aioflow.layers.blocks import Block
from aioflow.layers.fed import Batch
from tests.layers.by_hand import FIRST, X, Y

LONG = {"sample_weight": np.linspace(0, 2, 50), "validation_split": 0.3}


def block(rows, batch_size):
    return Block(Batch([np.arange(rows)], [np.arange(rows) * 2, None]), batch_size)


@pytest.mark.parametrize(("rows", "batch_size"), [(7, 3), (6, 3), (2, 3), (3, 1)])
def test_a_block_is_cut_into_its_batches(rows, batch_size):
    cut = [batch.values for batch in block(rows, batch_size).batches()]
    expected = np.array_split(np.arange(rows), range(batch_size, rows, batch_size))
    assert block(rows, batch_size).batch_count == len(cut)
    np.testing.assert_equal(cut, [[each, each * 2] for each in expected])


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_divided_block_has_the_same_batches(count):
    whole = block(7, 3)
    first, others = whole.divided(count)
    assert first.batch_count == min(count, 3)
    parts = [*first.batches(), *(others.batches() if others else ())]
    np.testing.assert_equal([each.values for each in parts], [each.values for each in whole.batches()])


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(("steps", "done"), [(None, 0), (None, 3), (5, 0), (23, 12)])
async def test_arrays_give_the_same_batches_in_blocks_of_any_length(monkeypatch, shuffle, steps, done):
    async def given(most):
        monkeypatch.setattr(blocks, "_BYTES", most)
        random = np.random.default_rng(3) if shuffle else None
        arrays = batches.ArrayBatches(Batch([X], [Y]), 6, steps, random)
        arrays.go_on(arrays.position(), done)
        found = [[each async for each in arrays.epoch("epoch")] for _ in range(2)]
        return [block.batch_count for each in found for block in each], [
            batch.values for epoch in found for block in epoch for batch in block.batches()
        ]

    (single, expected), (several, found) = await given(1), await given(1000)
    assert set(single) == {1}
    assert max(several) == 1000 // (32 * 6)
    np.testing.assert_equal(found, expected)


class Stopping(callbacks.Callback):
    """Stops in the second epoch after a batch within a block, and notes what it is told."""

    def __init__(self):
        self.said = []

    def on_train_batch_end(self, batch, logs):
        self.said.append((batch, logs["loss"]))
        self.model.stop_training = len(self.said) == 13


@pytest.mark.parametrize(
    "settings", [{}, LONG, {"steps_per_epoch": 20}, {"class_weight": {0: 2.0}}, {"shuffle": False}]
)
@pytest.mark.parametrize("told", [False, True])
async def test_training_in_blocks_has_the_bits_of_training_by_single_batches(monkeypatch, settings, told):
    async def trained(most):
        monkeypatch.setattr(blocks, "_BYTES", most)
        with af.Graph().as_default():
            af.set_random_seed(7)
            stopping = Stopping()
            async with af.Sequential([layers.Dense(8, "tanh", input_shape=[6]), layers.Dense(3)]) as model:
                model.compile("sgd", af.losses.SparseCategoricalCrossentropy(from_logits=True), ["accuracy"])
                await model.set_weights(FIRST)
                more = settings | {"callbacks": [stopping] if told else None}
                history = await model.fit(X.astype(np.float64), Y, 5, epochs=3, verbose=0, **more)
                measured = await model.evaluate(X, Y, 5), await model.predict(X, 5)
                return history.history, stopping.said, measured, await model.get_weights()

    np.testing.assert_equal(await trained(1 << 20), await trained(1))
