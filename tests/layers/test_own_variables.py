"""Models whose calls make variables that are no weights of them."""

import logging

import pytest

import aioflow as af
from aioflow import layers
from tests.layers.by_hand import X

pytestmark = pytest.mark.usefixtures("graph")

Y = X[:, :1]


class Making(layers.Layer):
    """Makes another layer in each call."""

    def call(self, inputs):
        return layers.Dense(4)(inputs)


class Late(layers.Layer):
    """A layer that is used in training only, and a weight of the graph's own: the global step."""

    def __init__(self):
        super().__init__()
        self.late = layers.Dense(6)

    def call(self, inputs, training=False):
        steps = af.cast(af.train.get_or_create_global_step(), af.float32)
        return self.late(inputs) / (1 + steps) if training else inputs


def composed():
    x = layers.Input([6])
    return af.Model(x, layers.Lambda(lambda x: layers.Dense(1)(x))(x))


def in_the_loss(labels, predictions):
    return af.square(layers.Dense(2)(labels) - layers.Dense(2)(predictions))


@pytest.mark.parametrize(
    ("made", "loss", "name"),
    [
        (lambda: af.Sequential([Making(), layers.Dense(1)]), "mse", "sequential/making/dense/kernel"),
        (lambda: af.Sequential([layers.Input([6]), Making(), layers.Dense(1)]), "mse", "making/dense_1/kernel"),
        (composed, "mse", "lambda/dense_1/kernel"),
        (lambda: af.Sequential([layers.Dense(1)]), in_the_loss, "dense/kernel"),
    ],
    ids=["first batch", "input", "composed", "loss"],
)
async def test_a_layer_that_a_call_makes_is_refused_by_the_names_of_its_weights(graph, made, loss, name):
    async with made() as model:
        model.compile("sgd", loss)
        for use in (model.fit, model.evaluate, model.fit):
            with pytest.raises(ValueError, match=f"makes variables .*{name}'.*Make layers in `__init__` or `build`"):
                await use(X, Y, verbose=0)


async def test_each_replica_refuses_a_layer_that_a_call_makes(graph):
    model = af.Sequential([layers.Input([6]), Making(), layers.Dense(1)])
    model.compile("sgd", "mse", strategy=af.distribute.MirroredStrategy(["/device:CPU:0", "/device:CPU:1"]))
    async with af.Session(config=af.Config(device_count={"CPU": 2})):
        with pytest.raises(ValueError, match="makes variables that are no weights"):
            await model.fit(X, Y, verbose=0)


async def test_weights_made_late_and_the_global_step_are_no_such_variables():
    async with af.Sequential([Late(), layers.Dense(1)]) as model:
        model.compile("sgd", "mse")
        await model.fit(X, Y, verbose=0)
        assert len(model.weights) == 4


async def test_a_training_without_weights_to_train_says_so(caplog):
    async with af.Sequential([layers.Dense(1)]) as model:
        model.compile("sgd", "mse")
        for layer, whole, warnings in ((True, True, 0), (True, False, 0), (False, True, 1)):
            model.trainable, model.layers[0].trainable = whole, layer and whole
            model.compile("sgd", "mse")
            with caplog.at_level(logging.WARNING, "aioflow.layers"):
                await model.fit(X, Y, verbose=0)
            assert [each.message for each in caplog.records] == warnings * [
                "'sequential' has no weights to train: fit changes none"
            ]
