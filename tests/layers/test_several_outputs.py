"""Models with several inputs and outputs: arrays, losses, metrics and weights by their names, as in Keras."""

import numpy as np
import pytest

import aioflow as af
from aioflow import layers

RANDOM = np.random.default_rng(5)
A, B = (RANDOM.standard_normal((10, size)).astype(np.float32) for size in (4, 2))
CLASSES, NUMBERS = np.arange(10) % 3, RANDOM.standard_normal(10).astype(np.float32)
INPUTS = {"b": B, "a": A}
LABELS = {"num": NUMBERS, "cls": CLASSES}
HEAVY, LIGHT = RANDOM.uniform(0, 3, (2, 10)).astype(np.float32)


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def model():
    a, b = layers.Input([4], name="a"), layers.Input([2], name="b")
    both = layers.Concatenate()([a, b])
    outputs = [layers.Dense(3, activation="softmax", name="cls")(both), layers.Dense(1, name="num")(both)]
    async with af.Model([a, b], outputs) as model:
        yield model


async def losses_of(model):
    """The loss of each element, for each output."""
    probabilities, numbers = await model.predict([A, B])
    return -np.log(probabilities[np.arange(10), CLASSES]), (numbers[:, 0] - NUMBERS) ** 2


async def test_the_history_has_the_loss_and_the_metrics_of_each_output_by_its_name(model):
    model.compile(
        "sgd", {"num": "mse", "cls": "sparse_categorical_crossentropy"}, {"num": ["mae"], "cls": "accuracy"},
        loss_weights={"num": 0.5}, weighted_metrics={"num": ["mae"]},
    )  # fmt: skip
    whole = await model.evaluate(INPUTS, LABELS, batch_size=4, return_dict=True)
    names = ["loss", "cls_loss", "num_loss", "cls_accuracy", "num_mae", "num_weighted_mae"]
    assert list(whole) == names
    classes, numbers = await losses_of(model)
    assert whole["cls_loss"] == pytest.approx(classes.mean(), rel=1e-5)
    assert whole["num_loss"] == pytest.approx(numbers.mean(), rel=1e-5)
    assert whole["loss"] == pytest.approx(classes.mean() + 0.5 * numbers.mean(), rel=1e-5)
    assert whole["num_mae"] == whole["num_weighted_mae"] == pytest.approx(np.sqrt(numbers).mean(), rel=1e-5)
    assert await model.evaluate([A, B], [CLASSES, NUMBERS], batch_size=4) == list(whole.values())
    for mine, other in zip(await model.predict([(INPUTS, {"foo": A})]), await model.predict([A, B]), strict=True):
        np.testing.assert_array_equal(mine, other)
    dataset = af.data.Dataset.from_tensor_slices((INPUTS, LABELS)).batch(5)
    history = await model.fit(dataset, validation_data=(INPUTS, LABELS), verbose=0)
    assert list(history.history) == [*names, *[f"val_{name}" for name in names]]
    assert history.history["val_loss"] == [(await model.evaluate(INPUTS, LABELS))[0]]


async def test_weights_of_elements_and_classes_are_given_by_output(model):
    model.compile("sgd", ["sparse_categorical_crossentropy", "mse"], weighted_metrics=[[], ["mae"]])
    classes, numbers = await losses_of(model)

    async def measured(weights, **settings):
        return (await model.evaluate(INPUTS, LABELS, sample_weight=weights, return_dict=True, **settings)).values()

    for weights in ({"num": HEAVY, "cls": LIGHT}, [LIGHT, HEAVY]):
        loss, first, second, mae = await measured(weights)
        assert (first, second) == pytest.approx(((classes * LIGHT).mean(), (numbers * HEAVY).mean()), rel=1e-5)
        assert mae == pytest.approx(np.average(np.sqrt(numbers), weights=HEAVY), rel=1e-5)
        assert loss == pytest.approx(first + second)
    for weights in ({"num": HEAVY}, [None, HEAVY]):
        _, first, second, _ = await measured(weights, batch_size=3)
        assert (first, second) == pytest.approx((classes.mean(), (numbers * HEAVY).mean()), rel=1e-5)
    _, first, second, _ = await measured(HEAVY)
    assert (first, second) == pytest.approx(((classes * HEAVY).mean(), (numbers * HEAVY).mean()), rel=1e-5)

    by_class = np.array([2.0, 0.0, 1.0])[CLASSES]
    history = await model.fit(
        INPUTS, LABELS, 10, sample_weight={"num": HEAVY}, class_weight={"cls": {0: 2.0, 1: 0.0}}, verbose=0
    )
    found = [history.history[name][0] for name in ("cls_loss", "num_loss")]
    assert found == pytest.approx([(classes * by_class).mean(), (numbers * HEAVY).mean()], rel=1e-5)


async def test_an_output_without_a_loss_is_measured_and_does_not_train(model):
    model.compile("sgd", {"cls": None, "num": "mse"}, metrics={"cls": ["accuracy"]})
    first = {weight.op.name: value for weight, value in zip(model.weights, await model.get_weights(), strict=True)}
    history = await model.fit(INPUTS, LABELS, verbose=0)
    assert list(history.history) == ["loss", "num_loss", "cls_accuracy"]
    for weight, value in zip(model.weights, await model.get_weights(), strict=True):
        assert np.array_equal(value, first[weight.op.name]) == weight.op.name.startswith("cls")


async def test_an_output_without_a_loss_and_metrics_needs_no_labels(graph, model):
    settings = {"loss": {"cls": None, "num": "mse"}, "metrics": {"num": ["mae"]}}
    model.compile("sgd", **settings)
    everything = await model.evaluate(INPUTS, LABELS, batch_size=4, sample_weight={"num": HEAVY})
    for labels in ({"num": NUMBERS}, {"num": NUMBERS, "cls": None}, [None, NUMBERS]):
        assert await model.evaluate(INPUTS, labels, batch_size=4, sample_weight={"num": HEAVY}) == everything
    dataset = af.data.Dataset.from_tensor_slices((INPUTS, {"num": NUMBERS})).batch(5)
    history = await model.fit(dataset, validation_data=(INPUTS, [None, NUMBERS]), verbose=0)
    assert list(history.history) == ["loss", "num_loss", "num_mae", "val_loss", "val_num_loss", "val_num_mae"]
    found = await model.train_on_batch(INPUTS, {"num": NUMBERS}, return_dict=True)
    assert list(found) == ["loss", "num_loss", "num_mae"]
    assert found["loss"] < history.history["loss"][0]
    only = {"class_weight": {"num": {0: 2.0}}, "shuffle": False, "verbose": 0}
    await model.fit(INPUTS, {"num": NUMBERS}, **only)
    with pytest.raises(ValueError, match="class_weight has factors for an output without labels"):
        await model.fit(INPUTS, {"num": NUMBERS}, class_weight={"cls": {0: 2.0}})
    model.compile("sgd", **settings, strategy=af.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]))
    async with af.Session(graph=graph, config=af.Config(device_count={"CPU": 2})):
        history = await model.fit(INPUTS, {"num": NUMBERS}, verbose=0)
    assert list(history.history) == ["loss", "num_loss", "num_mae"]
    for broken in ({"loss": "mse"}, settings | {"metrics": {"cls": ["accuracy"]}}):
        model.compile("sgd", **broken)
        with pytest.raises(ValueError, match=r"no labels were given for the output 'cls' .* has a loss or metrics"):
            await model.evaluate(INPUTS, {"num": NUMBERS})


async def test_several_devices_measure_the_loss_of_each_output_over_the_whole_batch(graph, model):
    model.compile("sgd", {"cls": "sparse_categorical_crossentropy", "num": "mse"}, loss_weights={"num": 0.5})
    strategy = af.distribute.MirroredStrategy(["/device:CPU:0", "/device:CPU:1"])
    async with af.Session(graph=graph, config=af.Config(device_count={"CPU": 2})):
        classes, numbers = await losses_of(model)
        weights = {"num": HEAVY, "cls": LIGHT}
        history = await model.fit(INPUTS, LABELS, 10, sample_weight=weights, strategy=strategy, verbose=0)
    found = [history.history[name][0] for name in ("loss", "cls_loss", "num_loss")]
    first, second = (classes * LIGHT).mean(), (numbers * HEAVY).mean()
    assert found == pytest.approx([first + 0.5 * second, first, second], rel=1e-5)


async def test_equal_names_are_numbered_and_inputs_keep_the_names_that_they_were_given():
    layers.Input([4], name="a")  # another model of the graph has an input of that name
    x, dense = layers.Input([4], name="a"), layers.Dense(1, name="num")
    async with af.Model([x], [dense(x), dense(x * 2.0), dense(x) + 1.0]) as model:
        model.compile("sgd", "mse", metrics={"num_1": ["mae"]})
        found = await model.evaluate({"a": A}, [NUMBERS] * 3, return_dict=True)
    assert list(found) == ["loss", "num_loss", "num_1_loss", "add_loss", "num_1_mae"]


async def test_a_metric_of_the_name_of_the_loss_does_not_take_its_place():
    async with af.Sequential([layers.Input([4]), layers.Dense(1)]) as model:
        model.compile("sgd", "mse", metrics=[af.metrics.MeanAbsoluteError(name="loss"), "mse"])
        found = await model.evaluate(A, NUMBERS, return_dict=True)
    assert list(found) == ["loss", "loss_1", "mse"]
    assert found["loss"] == pytest.approx(found["mse"], rel=1e-5)


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"loss": {"cls": "mse"}}, ValueError, "loss has no key for num: give each output a loss, or None"),
        ({"loss": {"cls": "mse", "num": "mse", "foo": "mse"}}, ValueError, "loss has the key 'foo', .* are cls, num"),
        ({"loss": "mse", "metrics": {"foo": ["mae"]}}, ValueError, "metrics has the key 'foo', .* are cls, num"),
        ({"loss": "mse", "metrics": ["mae"]}, ValueError, "metrics has no value for each of .* cls, num: 1 item"),
        ({"loss": ["mse"] * 3}, ValueError, "loss has no value for each of the outputs cls, num: 3 items"),
        ({"loss": "mse", "loss_weights": {"foo": 1.0}}, ValueError, "loss_weights has the key 'foo', .* are cls, num"),
        ({"loss": "mse", "loss_weights": {"num": "a"}}, TypeError, "a factor of loss_weights is a number, not 'a'"),
    ],
)
def test_settings_by_names_that_the_model_has_not_are_refused(model, settings, error, text):
    with pytest.raises(error, match=text):
        model.compile("sgd", **settings)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"x": {0: A, "b": B}}, TypeError, "in the order of its keys, and 0, 'b' have none: give keys of one type"),
        ({"x": {"a": A, "c": B}}, ValueError, "inputs were given by the keys a, c, and those of the model are a, b"),
        (
            {"y": {"cls": CLASSES, "foo": NUMBERS}},
            ValueError,
            "the dict of labels has the key 'foo', and the names of the model are cls, num",
        ),
        ({"sample_weight": {"foo": HEAVY}}, ValueError, "sample_weight has the key 'foo', and the names .* cls, num"),
        ({"sample_weight": {"num": ["a"] * 10}}, TypeError, "sample_weight is an array of numbers"),
        ({"sample_weight": {"num": HEAVY[:3]}}, ValueError, r"have \[10, 10, 10, 10, 3\] elements"),
        ({"class_weight": {0: 2.0}}, ValueError, "is for one output, and there are 2: .* which are cls, num"),
        ({"class_weight": {"foo": {0: 2.0}}}, ValueError, "class_weight has the key 'foo', and the names"),
        ({"class_weight": {"num": {0: 2.0}, "cls": 3}}, TypeError, "of an output is a dict from classes to factors"),
        ({"class_weight": {"cls": {0: "a"}}}, TypeError, "the factor of class 0 is a number, not 'a'"),
    ],
)
async def test_data_by_names_that_the_model_has_not_are_refused(model, given, error, text):
    model.compile("sgd", "mse")
    with pytest.raises(error, match=text):
        await model.fit(**{"x": INPUTS, "y": LABELS, "verbose": 0} | given)
