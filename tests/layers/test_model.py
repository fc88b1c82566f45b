"""Models: composed by calls, in a line, by a subclass; repeated for other inputs and for training."""

import re

import numpy as np
import pytest

import aioflow as af
from aioflow import layers
from aioflow.layers import calls
from tests.support.scale import amount

X = np.random.default_rng(5).standard_normal((4, 6)).astype(np.float32)


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def run(*fetches):
    async with af.Session() as session:
        await session.run(af.global_variables_initializer())
        return await session.run(fetches)


def branched():
    """A model with two inputs, a layer used twice, operations between layers, and two outputs."""
    x, y = layers.Input([6], name="x"), layers.Input([6], name="y")
    shared = layers.Dense(3, activation="tanh")
    one, other = shared(x), shared(y)
    scale = af.constant(2.0)
    mixed = layers.Concatenate()([one * scale, af.square(other)])
    return af.Model(inputs=[x, y], outputs={"sum": layers.Dense(1)(mixed), "first": one})


async def test_a_model_called_with_other_inputs_does_the_same_with_the_same_weights():
    model = branched()
    feeds = dict(zip(model.inputs, (X, X + 1), strict=True))
    again = model([af.constant(X), af.constant(X + 1)])
    async with af.Session() as session:
        await session.run(af.global_variables_initializer())
        first, second = await session.run(model.outputs, feeds), await session.run(again)
    for name in ("sum", "first"):
        np.testing.assert_array_equal(first[name], second[name])
    assert [weight.op.name for weight in model.weights] == [
        "dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"
    ]  # fmt: skip
    assert [type(layer).__name__ for layer in model.layers] == ["Dense", "Concatenate", "Dense"]


async def test_what_does_not_depend_on_the_inputs_is_not_repeated(graph):
    model = branched()
    before = {op.name for op in graph.get_operations()}
    model([af.constant(X), af.constant(X)])
    made = [op.type for op in graph.get_operations() if op.name not in before]
    assert made.count("square") == made.count("concat") == 1
    assert made.count("constant") == 2  # those of this call


async def test_a_model_is_built_for_training_by_repeating_its_calls():
    x = layers.Input([6])
    model = af.Model(x, layers.Dropout(0.5, seed=1)(x))
    used, trained = model(af.constant(X)), model(af.constant(X), training=True)
    values = await run(used, trained)
    np.testing.assert_array_equal(values[0], X)
    assert (values[1] == 0).any()
    with calls.phase(training=True):
        assert ((await run(model(af.constant(X))))[0] == 0).any()


async def test_an_argument_of_a_call_stays_when_the_call_is_repeated():
    x = layers.Input([6])
    model = af.Model(x, layers.Dropout(0.5)(x, training=False))
    np.testing.assert_array_equal((await run(model(af.constant(X), training=True)))[0], X)


async def test_a_model_in_a_model():
    inner = branched()
    x = layers.Input([6])
    outer = af.Model(x, inner([x, x])["sum"])
    found = outer(af.constant(X))
    (value, alone) = await run(found, inner([af.constant(X), af.constant(X)])["sum"])
    np.testing.assert_array_equal(value, alone)
    assert outer.layers == [inner]
    assert outer.weights == inner.weights


@pytest.mark.parametrize("begin", ["input_shape", "Input", "the first call"])
async def test_layers_in_a_line(begin):
    first = layers.Dense(3, activation="relu", **({"input_shape": [6]} if begin == "input_shape" else {}))
    line = [first, layers.Dense(2)]
    model = af.Sequential([layers.Input([6]), *line] if begin == "Input" else line)
    assert model.built == (begin != "the first call")
    found = model(af.constant(X))
    value, *weights = await run(found, *model.weights)
    np.testing.assert_allclose(
        value, np.maximum(X @ weights[0] + weights[1], 0) @ weights[2] + weights[3], rtol=1e-5, atol=1e-6
    )
    assert model.layers == line
    if begin != "the first call":
        assert model.outputs.shape.as_list() == [None, 2]


async def test_a_subclass_is_a_model():
    class Residual(af.Model):
        def __init__(self):
            super().__init__()
            self.parts = {"inner": [layers.Dense(6, activation="relu"), layers.Dropout(0.5)]}

        def call(self, inputs, training=False):
            found = inputs
            for layer in self.parts["inner"]:
                found = layer(found)
            return found + inputs

    af.set_random_seed(1)
    model = Residual()
    value, kernel, bias = await run(model(af.constant(X)), *model.weights)
    np.testing.assert_allclose(value, np.maximum(X @ kernel + bias, 0) + X, rtol=1e-5, atol=1e-6)
    trained = model(af.constant(X), training=True)
    value, *_ = await run(trained)
    assert (value == X).mean() > 0.5
    assert [weight.op.name for weight in model.weights] == ["residual/dense/kernel", "residual/dense/bias"]


def test_weights_come_layer_by_layer_as_in_keras():
    line = [layers.Dense(2, input_shape=[6]), layers.BatchNormalization(), layers.Dense(1)]
    model = af.Sequential(line)
    assert [weight.op.name for weight in model.weights] == [
        "dense/kernel", "dense/bias", "batch_normalization/gamma", "batch_normalization/beta",
        "batch_normalization/moving_mean", "batch_normalization/moving_variance", "dense_1/kernel", "dense_1/bias",
    ]  # fmt: skip
    assert len(model.trainable_weights) == 6
    line[1].trainable = False
    assert len(model.weights) == 8
    assert len(model.trainable_weights) == 4


def test_losses_and_updates_of_calls_are_gathered():
    layer = layers.Dense(2, activity_regularizer="l2")
    normal = layers.BatchNormalization()
    with calls.gathered_effects() as effects:
        normal(layer(af.constant(X)), training=True)
    assert len(effects.losses) == 1
    assert len(effects.updates) == 2


async def test_a_deep_model_is_repeated_without_recursion():
    x = found = layers.Input([2])
    deep = amount(1100, 1500)  # beyond the limit of Python's stack
    for _ in range(deep):
        found = found + 1.0
    model = af.Model(x, layers.Activation("relu")(found))
    (value,) = await run(model(af.zeros([1, 2])))
    np.testing.assert_array_equal(value, np.full([1, 2], float(deep)))


def test_a_summary_names_layers_weights_and_their_number():
    model = branched()
    lines = []
    model.summary(lines.append)
    text = "\n".join(lines)
    assert "dense (Dense)" in text
    (first,) = [line for line in lines if line.startswith("dense (Dense)")]
    assert re.split("  +", first) == ["dense (Dense)", "[?, 3]", "[6, 3], [3]", "21"]
    assert "Parameters: 28, of them trainable: 28" in text
    with pytest.raises(ValueError, match="not built yet"):
        af.Sequential([layers.Dense(2)]).summary()


def test_layers_are_found_by_name_and_number():
    model = branched()
    assert model.get_layer("dense_1") is model.get_layer(index=2)
    for given, text in ((("other",), "no layer 'other'; there are"), ((), "by its name or by its index")):
        with pytest.raises(ValueError, match=text):
            model.get_layer(*given)


def test_models_that_cannot_be_are_refused():
    x, y = layers.Input([6]), layers.Input([6])
    with pytest.raises(ValueError, match="not among the inputs"):
        af.Model(x, x + y)
    with pytest.raises(ValueError, match="inputs and outputs"):
        af.Model(x)
    with pytest.raises(TypeError, match="a sequential model has layers"):
        af.Sequential([layers.Dense(2), "relu"])
    with pytest.raises(ValueError, match="does not fit the structure"):
        branched()(af.constant(X))


async def test_layers_built_in_a_call_that_fails_are_built_anew(graph):
    class Failing(layers.Layer):
        def __init__(self):
            super().__init__()
            self.inner, self.fails = layers.Dense(2, kernel_regularizer="l2"), True

        def call(self, inputs):
            outputs = self.inner(inputs)
            if self.fails:
                raise ValueError("not yet")
            return outputs

    outer = Failing()
    with pytest.raises(ValueError, match="not yet"):
        outer(af.constant(X))
    assert not outer.inner.built
    assert outer.weights == outer.losses == []
    outer.fails = False
    found = outer(af.constant(X))
    assert [weight.op.name for weight in outer.weights] == ["failing/dense/kernel", "failing/dense/bias"]
    assert (await run(found))[0].shape == (4, 2)


async def test_a_model_that_could_not_be_composed_can_be_used_later():
    first = layers.Dense(2)
    model = af.Sequential([first, layers.Reshape([5])])
    with pytest.raises(ValueError, match="cannot have the shape"):
        await model.predict(X)
    assert not first.built
    async with af.Sequential([first]) as other:
        assert (await other.predict(X)).shape == (4, 2)
    await model.close()


async def test_the_variables_between_layers_are_weights_of_the_model_and_are_trained(graph):
    x = layers.Input([3])
    scale, free = af.Variable(2.0, name="scale"), af.Variable(1.0, trainable=False, name="free")
    loose = af.Variable(5.0, name="loose")
    y = layers.Dense(1, name="head")(x * af.exp(scale) + free)
    model = af.Model(x, y)
    assert [weight.op.name for weight in model.weights] == ["scale", "free", "head/kernel", "head/bias"]
    assert [weight.op.name for weight in af.Model(x, y * loose).trainable_weights][1:] == [
        "loose", "head/kernel", "head/bias",
    ]  # fmt: skip
    lines = []
    model.summary(lines.append)
    assert any(line.startswith("outside of layers") and line.endswith(" 2") for line in lines)
    async with model:
        model.compile("sgd", "mse")
        before = await model.get_weights()
        await model.fit(np.ones((8, 3)), np.zeros(8), verbose=0)
        changed = [bool((one != other).any()) for one, other in zip(before, await model.get_weights(), strict=True)]
        assert changed == [True, False, True, True]
