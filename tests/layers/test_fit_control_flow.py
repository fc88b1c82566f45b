"""Layers called in branches and loops, which `fit` calls again for training."""

import numpy as np
import pytest

import aioflow as af
from aioflow import layers
from tests.layers.by_hand import X

pytestmark = pytest.mark.usefixtures("graph")


async def test_layers_called_in_a_branch_are_trained_and_know_the_phase():
    x = layers.Input([6])
    dense, drop = layers.Dense(3, name="inside"), layers.Dropout(0.5)
    y = af.cond(af.reduce_sum(x) > -1e9, lambda: drop(dense(x)) * 2.0, lambda: x[:, :3])
    async with af.Model(x, y) as model:
        assert model.layers == [dense, drop]
        model.compile("sgd", "mse")
        before = await model.predict(X)
        kernel, bias = await model.get_weights()
        np.testing.assert_allclose(before, 2 * (X @ kernel + bias), rtol=1e-5, atol=1e-5)
        trained = model(X, training=True)
        dropped = await model._session_for(None).run(trained)
        assert 0.2 < (dropped == 0).mean() < 0.8
        await model.fit(X, before * 0, verbose=0)
        assert not np.array_equal((await model.get_weights())[0], kernel)


class NegatedInTraining(layers.Layer):
    def call(self, inputs, training=False):
        return -inputs if training else inputs


async def test_layers_called_in_a_loop_are_trained_by_any_strategy_and_know_the_phase():
    x = layers.Input([6])
    dense, negated = layers.Dense(6, name="inside"), NegatedInTraining()
    half = af.constant(0.5)

    def step(i, y):
        each = af.map_fn(lambda row: dense(row[None])[0] * half, y)
        return i + 1, af.cond(i > 0, lambda: negated(each), lambda: each)

    counted = af.while_loop(lambda i, y: i < 9, step, [af.constant(0), x * 2.0], maximum_iterations=2)[1]
    model, found = af.Model(x, counted), []
    devices = [f"/device:CPU:{number}" for number in range(2)]
    assert model.layers == [dense, negated]
    async with af.Session(config=af.Config(device_count={"CPU": 2})) as session:
        model.compile("sgd", "mse")
        before = await model.get_weights()
        once = X * 2.0 @ before[0] * 0.5
        twice = once @ before[0] * 0.5
        np.testing.assert_allclose(await model.predict(X), twice, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(await session.run(model(X, training=True)), -twice, rtol=1e-4, atol=1e-5)
        for strategy in (None, af.distribute.MirroredStrategy(devices)):
            model.compile("sgd", "mse", strategy=strategy)
            await model.set_weights(before)
            await model.fit(X, X, 25, 1, verbose=0, shuffle=False)
            found.append(await model.get_weights())
    for one, other, first in zip(*found, before, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
        assert not np.array_equal(one, first)


async def test_layers_in_nested_loops_and_branches_are_called_with_tensors_outside_of_all():
    x = layers.Input([6])
    inside, other = layers.Dense(6, name="inside"), layers.Dense(6, name="other")

    def inner(i, y):
        return i + 1, af.cond(i > 0, lambda: inside(y) + other(x), lambda: inside(x) + y)

    def outer(i, y):
        return i + 1, af.while_loop(lambda j, z: j < 2, inner, [af.constant(0), y])[1]

    model = af.Model(x, af.while_loop(lambda i, y: i < 2, outer, [af.constant(0), x])[1])
    model.compile("sgd", "mse")
    async with model:
        kernel, _, second, _ = before = await model.get_weights()
        expected = X
        for _ in range(2):
            expected = (X @ kernel + expected) @ kernel + X @ second
        np.testing.assert_allclose(await model.predict(X), expected, rtol=1e-4, atol=1e-4)
        await model.fit(X, X, 25, 1, verbose=0)
        for one, first in zip(await model.get_weights(), before, strict=True):
            assert not np.array_equal(one, first)


async def test_loops_are_repeated_with_their_shape_invariants_and_the_penalties_of_layers_made_in_them():
    x = layers.Input([6])
    dense = layers.Dense(6, kernel_regularizer=lambda kernel: af.reduce_sum(kernel**2))

    def step(i, y, rows):
        return i + 1, af.concat([dense(y), y], 0), rows.write(i, y[0])

    variables = [af.constant(0), af.reshape(x, [5, 6]), af.TensorArray(af.float32, 2)]
    shapes = [af.TensorShape([]), af.TensorShape([None, 6]), af.TensorShape(None)]
    _, grown, rows = af.while_loop(lambda i, y, rows: i < 2, step, variables, shape_invariants=shapes)
    model = af.Model(x, grown[:5] + rows.stack()[:1])
    model.compile("sgd", "mse")
    async with model:
        kernel, _ = await model.get_weights()
        expected = X[:5] @ kernel @ kernel + X[:1]
        np.testing.assert_allclose(await model.predict(X[:5]), expected, rtol=1e-4, atol=1e-5)
        assert await model.evaluate(X[:5], expected) == pytest.approx(np.square(kernel).sum(), rel=1e-5)


def test_updates_of_layers_in_a_loop_are_refused():
    normal = layers.BatchNormalization()
    with pytest.raises(ValueError, match="would run outside of it: call the layer before or after it, or with"):
        af.while_loop(lambda y: True, lambda y: normal(y, training=True), [af.ones([2, 3])], maximum_iterations=2)


@pytest.mark.parametrize("kind", ["loop", "branches"])
async def test_each_call_of_a_model_has_gradients_of_its_own(kind):
    def between(y):
        if kind == "loop":
            return af.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * y), (0, y))[1]
        return af.cond(af.reduce_sum(y) < 1e9, lambda: af.exp(af.sin(y)), lambda: y)

    batches = [np.linspace(-1, 1, 4 * rows, dtype=np.float32).reshape(rows, 4) for rows in (2, 3)]
    with af.Graph().as_default() as graph:
        x, fed = af.layers.Input([4]), [af.placeholder(af.float32, [None, 4]) for _ in batches]
        made = af.Model(x, between(x * 0.5))
        found = [af.gradients(made(each, training=True), [each])[0] for each in fed]
        wanted = [af.gradients(between(each * 0.5), [each])[0] for each in fed]
    async with af.Session(graph=graph) as session:
        for mine, its in await session.run([*zip(found, wanted, strict=True)], dict(zip(fed, batches, strict=True))):
            np.testing.assert_allclose(mine, its, rtol=1e-6)
