"""Models that are compiled without a loss: layers add it, or weights have penalties."""

import numpy as np
import pytest

import aioflow as af
from aioflow import layers

pytestmark = pytest.mark.usefixtures("graph")

RNG = np.random.default_rng(3)
X = RNG.normal(size=(20, 4)).astype(np.float32)


class Close(layers.Layer):
    """Adds the mean distance of its input from the target to the loss."""

    def __init__(self, target, **options):
        super().__init__(**options)
        self.target = target

    def call(self, inputs):
        self.add_loss(af.reduce_mean(af.square(inputs - self.target)))
        return inputs


def added_up():
    return af.Sequential(
        [layers.Input([4]), layers.Dense(3, kernel_initializer="ones", kernel_regularizer="l2"), Close(2.0)]
    )


def wanted(kernel, bias):
    return np.mean((X @ kernel + bias - 2) ** 2) + 0.01 * np.sum(kernel**2)


@pytest.mark.parametrize("labels", [None, np.zeros(20)], ids=["no labels", "labels that nothing reads"])
async def test_the_losses_of_layers_alone_are_trained(labels):
    async with added_up() as model:
        model.compile("sgd")
        before = await model.get_weights()
        assert await model.evaluate(X, labels, batch_size=20) == pytest.approx(wanted(*before), rel=1e-5)
        history = await model.fit(X, labels, epochs=5, batch_size=20, verbose=0, validation_split=0.25)
        assert await model.evaluate(X, batch_size=20) == pytest.approx(wanted(*await model.get_weights()), rel=1e-5)
        assert history.history["loss"][-1] < history.history["loss"][0]
        assert len(history.history["val_loss"]) == 5
        assert await model.train_on_batch(X) > await model.test_on_batch(X)


async def test_datasets_give_inputs_alone_and_metrics_compare_with_labels():
    async with added_up() as model:
        model.compile("sgd")
        await model.fit(af.data.Dataset.from_tensor_slices(X).batch(10), epochs=2, verbose=0)
        model.compile("sgd", metrics=["mae"])
        found = await model.evaluate(X, X[:, :3], return_dict=True)
        assert found["mae"] == pytest.approx(np.abs(await model.predict(X) - X[:, :3]).mean(), rel=1e-5)
        with pytest.raises(ValueError, match="1 outputs, and 0 arrays of labels were given"):
            await model.evaluate(X)


async def test_two_devices_train_the_losses_of_layers_alone():
    found = []
    for strategy in (None, af.distribute.MirroredStrategy(["/device:CPU:0", "/device:CPU:1"])):
        with af.Graph().as_default():
            model = added_up()
            model.compile("sgd", strategy=strategy)
            async with af.Session(config=af.Config(device_count={"CPU": 2})) as session:
                await model.fit(X, epochs=2, batch_size=10, shuffle=False, verbose=0, session=session)
                found.append(await model.get_weights(session=session))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


async def test_a_model_without_any_loss_is_refused_when_it_is_trained():
    async with af.Sequential([layers.Input([4]), layers.Dense(3)]) as model:
        with pytest.raises(RuntimeError, match="'sequential' is not compiled"):
            await model.fit(X)
        model.compile("sgd")
        assert (await model.predict(X)).shape == (20, 3)
        with pytest.raises(ValueError, match="'sequential' has no loss: compile it with one"):
            await model.fit(X, verbose=0)
