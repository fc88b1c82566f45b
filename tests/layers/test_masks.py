"""Masks: made by embeddings and `Masking`, passed on by layers, used by layers, losses and metrics."""

import numpy as np
import pytest

import aioflow as af
from aioflow import layers
from aioflow.layers.masks import give_masks, mask_of

RANDOM = np.random.default_rng(8)
IDS = np.array([[3, 1, 2, 0, 0], [5, 4, 1, 2, 6], [2, 0, 3, 0, 0]])
KEPT = IDS != 0


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        af.set_random_seed(5)
        yield graph


async def run(*fetches):
    async with af.Session() as session:
        await session.run(af.global_variables_initializer())
        return await session.run(fetches)


def embedded():
    return layers.Embedding(7, 3, mask_zero=True)(af.constant(IDS))


async def test_masks_are_made_passed_on_and_lost():
    rows, other = embedded(), layers.Masking()(af.constant([[[0.0, 1.0], [0.0, 0.0], [2.0, 0.0]]]))
    dense = layers.Dense(3, "relu")(layers.Dropout(0.5)(rows))
    line = af.Sequential([layers.LayerNormalization(), layers.TimeDistributed(layers.Dense(3))])(dense)
    again = layers.LSTM(3, return_sequences=True)(line)
    both = layers.Bidirectional(layers.GRU(3, return_sequences=True))(again)
    joined = layers.Concatenate()([both, layers.Dense(2)(af.zeros([3, 5, 1]))])
    added = layers.Add()([rows, again])
    states = layers.LSTM(2, return_sequences=True, return_state=True)(rows)
    kept = [rows, dense, line, again, both, added, states[0]]
    for mask in await run(*[mask_of(tensor) for tensor in kept]):
        np.testing.assert_array_equal(mask, KEPT)
    np.testing.assert_array_equal(*await run(mask_of(other)), [[True, False, True]])
    assert (await run(mask_of(joined)))[0].all()  # the second input has no mask
    lost = [rows * 2.0, layers.Flatten()(rows), layers.GRU(3)(rows), layers.Conv1D(2, 2)(rows), states[1]]
    lost += [layers.Add()([rows, rows * 1.0]), layers.Embedding(7, 3)(af.constant(IDS))]
    assert [mask_of(tensor) for tensor in lost] == [None] * len(lost)


@pytest.mark.parametrize("kind", [layers.SimpleRNN, layers.LSTM, layers.GRU])
async def test_masked_steps_leave_the_state_and_repeat_the_output(kind):
    layer, zeros = kind(4, return_sequences=True, return_state=True), kind(4, return_sequences=True)
    x = RANDOM.standard_normal((3, 5, 2)).astype(np.float32)
    outputs, *states = layer(x, mask=af.constant(KEPT))
    short, *ends = layer(x[2:, [0, 2]])
    backward = layers.Bidirectional(kind(4, return_sequences=True), merge_mode=None)
    both, plain = backward(x, mask=af.constant(KEPT)), backward(x[2:, [0, 2]])
    found = await run(outputs, states, short, ends, both, plain, zeros(x, mask=af.constant(KEPT)))
    outputs, states, short, ends, both, plain, _ = found
    np.testing.assert_allclose(outputs[2:, [0, 2]], short, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(outputs[2, [1, 3, 4]], outputs[2, [0, 2, 2]])
    for state, end in zip(states, ends, strict=True):
        np.testing.assert_allclose(state[2:], end, rtol=1e-5, atol=1e-6)
    for masked, alone in zip(both, plain, strict=True):
        np.testing.assert_allclose(masked[2:, [0, 2]], alone, rtol=1e-5, atol=1e-6)
        assert not masked[~KEPT].any()


async def test_attention_and_means_leave_out_masked_steps():
    rows = embedded()
    alone = af.gather(rows, [0])[:, :3]
    multi, additive, mean = layers.MultiHeadAttention(2, 3), layers.Attention(), layers.GlobalAveragePooling1D()
    whole = [multi(rows), additive([rows, rows]), mean(rows)]
    short = [multi(alone), additive([alone, alone]), mean(alone)]
    whole, short, mask = await run(whole, short, mask_of(whole[0]))
    for one, other in zip(whole, short, strict=True):
        np.testing.assert_allclose(one[0, :3] if one.ndim == 3 else one[0], other[0], rtol=1e-5, atol=1e-6)
    assert not whole[1][~KEPT].any()
    np.testing.assert_array_equal(mask, KEPT)


@pytest.mark.parametrize("shape", [(3, 4, 1), (3, 4, 1, 1)])
async def test_merging_layers_leave_out_what_is_masked(shape):
    x = RANDOM.uniform(1, 2, (2, 3, 4)).astype(np.float32)
    masks = np.array([[[1, 1, 0, 0]] * 3, [[1, 0, 1, 0]] * 3]) > 0
    given = [af.constant(each.reshape(shape)) for each in x]
    for tensor, mask in zip(given, masks, strict=True):
        give_masks(tensor, af.constant(mask))
    merged = [getattr(layers, name)()(given) for name in ("Multiply", "Maximum", "Concatenate")]
    product, highest, _ = [value.reshape(3, 4, -1)[..., 0] for value in await run(*merged)]
    either = masks.any(0)
    np.testing.assert_array_equal(product, np.where(masks, x, 1).prod(0) * either)
    np.testing.assert_array_equal(highest[either], np.where(masks, x, 0).max(0)[either])
    for mask in await run(*map(mask_of, merged[:2])):
        np.testing.assert_array_equal(mask, either)
    (mask,) = await run(mask_of(merged[2]))
    np.testing.assert_array_equal(mask.reshape(3, 4), either)


async def test_a_batch_without_a_kept_step_leaves_a_normalised_model_its_numbers():
    line = [layers.Embedding(7, 3, mask_zero=True), layers.BatchNormalization(momentum=0.5), layers.Dense(1)]
    async with af.Sequential([layers.Input([5], dtype=af.int64), *line]) as model:
        model.compile("sgd", "mse")
        for ids in (IDS * 0, IDS):
            await model.fit(ids, np.ones([3, 5, 1], np.float32), verbose=0)
            assert all(np.isfinite(value).all() for value in await model.get_weights())
            if not ids.any():
                moving = await model.get_weights()
                np.testing.assert_array_equal([moving[3], moving[4]], [[0.0] * 3, [0.5] * 3])


async def test_losses_and_metrics_of_fit_leave_out_masked_steps():
    labels, weights = RANDOM.integers(0, 4, IDS.shape), np.array([1.0, 3.0, 0.5], np.float32)
    line = [layers.Embedding(7, 3, mask_zero=True), layers.Dense(4, "softmax")]
    async with af.Sequential([layers.Input([5], dtype=af.int64), *line]) as model:
        loss = "sparse_categorical_crossentropy"
        model.compile("sgd", loss, ["accuracy"], weighted_metrics=["accuracy", loss])
        found = await model.evaluate(IDS, labels, sample_weight=weights, return_dict=True)
        p = await model.predict(IDS)
        losses = -np.log(np.take_along_axis(p, labels[..., None], -1))[..., 0]
        each = KEPT * weights[:, None]
        right = p.argmax(-1) == labels
        assert found["loss"] == pytest.approx((losses * each).sum() / KEPT.sum(), rel=1e-4)
        assert found["accuracy"] == pytest.approx(right[KEPT].mean())
        assert found["weighted_accuracy"] == pytest.approx((right * each).sum() / each.sum())
        assert found[loss] == pytest.approx((losses * each).sum() / each.sum(), rel=1e-4)
        table = (await model.get_weights())[0]
        await model.fit(IDS, labels, verbose=0)
        np.testing.assert_array_equal((await model.get_weights())[0][0], table[0])


async def test_a_layer_of_ones_own_gets_the_mask_and_decides_on_its_own():
    class Shifted(layers.Layer):
        supports_masking = True

        def call(self, inputs, mask=None):
            return inputs * af.cast(mask[..., None], inputs.dtype)

        def compute_mask(self, inputs, mask=None):
            return af.concat([mask[:, 1:], mask[:, :1]], 1)

    made = Shifted()(embedded())
    value, mask = await run(made, mask_of(made))
    assert not value[~KEPT].any()
    np.testing.assert_array_equal(mask, np.roll(KEPT, -1, 1))
