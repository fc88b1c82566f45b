"""Layers and models in float64: outputs, gradients, updates, and arrays that keep their digits."""

import numpy as np
import pytest

import aioflow as af
from aioflow import layers
from tests.layers.test_every_layer import LAYERS

RANDOM = np.random.default_rng(7)
X = RANDOM.standard_normal((12, 4))
Y = X @ RANDOM.standard_normal((4, 2))
ALSO = {
    "Dense": (lambda **options: layers.Dense(3, "gelu", kernel_regularizer="l2", **options), (2, 4)),
    "LSTM": (lambda **options: layers.LSTM(3, dropout=0.1, **options), (2, 4, 6)),
    "BatchNormalization": (layers.BatchNormalization, (2, 4)),
    "SeparableConv2D": (lambda **options: layers.SeparableConv2D(3, 3, **options), (2, 4, 4, 4)),
    "AlphaDropout": (lambda **options: layers.AlphaDropout(0.5, **options), (2, 4)),
    "RNN": (lambda **options: layers.RNN(layers.GRUCell(3, **options), **options), (2, 4, 6)),
    "Bidirectional": (lambda **options: layers.Bidirectional(layers.LSTM(3, **options), **options), (2, 4, 6)),
}
WRAPPERS = {"RNN", "Bidirectional", "SpectralNormalization"}
"""Layers that compute in the dtype of the layer in them."""


@pytest.mark.whole
@pytest.mark.parametrize("training", [False, True])
async def test_every_layer_computes_in_double_precision(training):
    made = {name: make().like_this(dtype="float64") for name, (make, _) in LAYERS.items() if name not in WRAPPERS}
    made |= {name: make(dtype="float64") for name, (make, _) in ALSO.items()}
    sizes = {name: size for name, (_, size) in (LAYERS | ALSO).items()}
    with af.Graph().as_default() as graph:
        fetches = {}
        for name, layer in made.items():
            given = sizes[name] if isinstance(sizes[name], list) else [sizes[name]]
            inputs = [af.constant(RANDOM.standard_normal(size)) for size in given]
            found = af.nest.flatten(layer(inputs if len(inputs) > 1 else inputs[0], training=training))
            wanted = [*layer.trainable_weights, *inputs]
            slopes = [each for each in af.gradients(af.reduce_sum(found[0]), wanted) if each is not None]
            assert {each.dtype for each in (*found, *slopes, *layer.weights)} == {af.float64}, name
            fetches[name] = [*found, *slopes]
        async with af.Session(graph=graph) as session:
            await session.run(af.global_variables_initializer())
            await session.run([fetches, graph.get_collection(af.GraphKeys.UPDATE_OPS)])


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "momentum", "rmsprop", "adagrad", "adadelta", "ftrl"])
async def test_a_model_trains_in_double_precision(optimizer):
    with af.Graph().as_default():
        line = [layers.Dense(3, "tanh", dtype="float64"), layers.Dense(2, dtype="float64")]
        async with af.Sequential(line) as model:
            model.compile(optimizer, "mse", metrics=["mae"])
            history = await model.fit(X, Y, epochs=3, shuffle=False, verbose=0)
            first, one, second, other = await model.get_weights()
            found = await model.predict(X)
            assert {each.dtype for each in (first, one, second, other, found)} == {np.dtype(np.float64)}
            np.testing.assert_allclose(found, np.tanh(X @ first + one) @ second + other, rtol=1e-12)
            np.testing.assert_allclose((await model.evaluate(X, Y))[0], ((found - Y) ** 2).mean(), rtol=1e-12)
            np.testing.assert_array_equal(
                await model.predict(X.astype("f")), await model.predict(X.astype("f").astype("d"))
            )
    assert history.history["loss"][-1] != history.history["loss"][0]


async def test_arrays_become_float32_for_inputs_that_are():
    with af.Graph().as_default():
        seen = []

        def noted(labels, predictions):
            seen.append((labels.dtype, predictions.dtype))
            return predictions

        x = layers.Input([4])
        async with af.Model(x, x[:, :2] * 1.0) as model:
            model.compile("sgd", "mse", metrics=[noted])
            await model.evaluate(X, Y)
            assert (await model.predict(X)).dtype == np.float32
        y = layers.Input([4], dtype="float64")
        async with af.Model(y, y[:, :2] * 1.0) as model:
            model.compile("sgd", "mse", metrics=[noted])
            await model.evaluate(X, Y)
            np.testing.assert_array_equal(await model.predict(X), X[:, :2])
    assert seen == [(af.float32, af.float32)] * (len(seen) // 2) + [(af.float64, af.float64)] * (len(seen) // 2)


def test_arrays_given_to_layers_take_the_precision_of_their_weights():
    x, states = X.reshape(4, 3, 4), [np.zeros((4, 5)), np.zeros((4, 5))]
    assert layers.Dense(3)(X).dtype is af.float32
    assert layers.MultiHeadAttention(2, 3)(x, x).dtype is af.float32
    assert layers.LSTM(5)(x, initial_state=states).dtype is af.float32
    assert layers.Bidirectional(layers.LSTM(5))(x).dtype is af.float32
    assert af.Sequential([layers.Flatten(), layers.Dense(3)])(X).dtype is af.float32
    assert layers.TimeDistributed(layers.Dense(3, dtype="float64"))(x).dtype is af.float64
    assert af.Sequential([layers.Dropout(0.5), layers.Dense(3, dtype="float64")])(X).dtype is af.float64
    assert af.Sequential([layers.Input([4], dtype="float64"), layers.Dropout(0.5)])(X).dtype is af.float64
    assert layers.Flatten()(X).dtype is af.float64
