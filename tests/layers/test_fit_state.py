"""The weights, metrics and sessions of models that share them."""

import asyncio

import numpy as np
import pytest

import aioflow as af
from aioflow import layers
from aioflow.layers import callbacks
from tests.layers.by_hand import FIRST, X, Y

pytestmark = pytest.mark.usefixtures("graph")


async def test_a_model_uses_the_session_that_is_entered_or_given(model, graph):
    async with af.Session(graph=graph) as session:
        await model.fit(X, Y, verbose=0)
        inside = await model.get_weights()
    np.testing.assert_array_equal((await model.get_weights())[0], FIRST[0])
    assert not np.array_equal(inside[0], FIRST[0])
    async with af.Session(graph=af.Graph()) as other:
        with pytest.raises(ValueError, match="another graph"):
            await model.predict(X, session=other)
    assert session.closed


async def test_weights_are_saved_and_loaded(model, tmp_path):
    path = await model.save_weights(str(tmp_path / "weights"))
    await model.fit(X, Y, verbose=0)
    await model.load_weights(path)
    for found, value in zip(await model.get_weights(), FIRST, strict=True):
        np.testing.assert_array_equal(found, value)


async def test_predict_makes_and_initializes_the_weights():
    async with af.Sequential([layers.Dense(3, kernel_initializer="ones")]) as model:
        found = await model.predict(X)
        np.testing.assert_allclose(found, np.repeat(X.sum(1, keepdims=True), 3, 1), atol=1e-5)
    async with af.Sequential([layers.Dense(3, kernel_initializer="ones", input_shape=[6])]) as model:
        assert (await model.predict(X)).shape == (50, 3)


async def test_a_layer_added_after_use_is_trained_and_saved(model, tmp_path):
    await model.fit(X, Y, verbose=0)
    await model.save_weights(str(tmp_path / "three"))
    model.add(layers.Dense(2))
    await model.fit(X, Y % 2, verbose=0)
    changed = await model.get_weights()
    path = await model.save_weights(str(tmp_path / "four"))
    await model.set_weights([value * 0 for value in changed])
    await model.load_weights(path)
    found = await model.get_weights()
    assert len(found) == 6
    for one, other in zip(found, changed, strict=True):
        np.testing.assert_array_equal(one, other)


async def test_evaluations_between_steps_leave_the_metrics_of_training_alone(model):
    async def disturb(batch, logs):
        await model.test_on_batch(X[:1], Y[:1])
        await model.evaluate(X[:5], Y[:5])

    def mean_label(labels, found):
        return af.cast(labels, af.float32)

    model.compile("sgd", af.losses.SparseCategoricalCrossentropy(from_logits=True), [mean_label])
    hook = callbacks.LambdaCallback(on_train_batch_end=disturb)
    history = await model.fit(X, Y, batch_size=25, callbacks=[hook], verbose=0)
    assert history.history["mean_label"] == pytest.approx([Y.mean()])


async def test_models_that_share_layers_share_their_values():
    x = layers.Input([6])
    hidden = layers.Dense(4)
    one, other = af.Model(x, layers.Dense(3)(hidden(x))), af.Sequential([hidden])
    one.compile("sgd", af.losses.SparseCategoricalCrossentropy(from_logits=True))
    async with other:
        async with one:
            await one.fit(X, Y, verbose=0)
            trained = await one.get_weights()
            np.testing.assert_allclose(await other.predict(X), X @ trained[0] + trained[1], rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal((await other.get_weights())[0], trained[0])
        session = other._session_for(None)
    assert session.closed


async def test_a_model_of_models_that_were_used_before_has_their_values():
    noise, x = layers.Input([4]), layers.Input([6])
    made, judged = af.Model(noise, layers.Dense(6)(noise)), af.Model(x, layers.Dense(1)(x))
    async with made, judged, af.Model(noise, judged(made(noise))) as whole:
        apart = await judged.predict(await made.predict(X[:, :4]))
        np.testing.assert_allclose(await whole.predict(X[:, :4]), apart, rtol=1e-5, atol=1e-6)


async def test_evaluations_at_the_same_time_have_metrics_of_their_own(model):
    class Slow:
        def __init__(self, rows):
            self.rows = rows

        async def __aiter__(self):
            for row in self.rows:
                await asyncio.sleep(1)
                yield X[row : row + 1], Y[row : row + 1]

    halves = range(25), range(25, 50)
    alone = [await model.evaluate(Slow(half)) for half in halves]
    fitting = model.fit(X, Y, epochs=0, verbose=0)
    together = await asyncio.gather(*[model.evaluate(Slow(half)) for half in halves], fitting)
    assert together[:2] == alone
    (steps,) = model._steps.values()
    assert len(steps.evaluation._free) == 2
    await asyncio.gather(*[model.evaluate(Slow(half)) for half in halves])
    assert len(steps.evaluation._free) == 2
