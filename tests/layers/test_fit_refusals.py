"""Data and settings that `fit` and `compile` refuse."""

import re

import numpy as np
import pytest

import aioflow as af
from aioflow import layers
from tests.layers.by_hand import FIRST, X, Y, pairs

pytestmark = pytest.mark.usefixtures("graph")


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"x": X, "y": Y[:10]}, ValueError, r"\[50, 10\] elements"),
        ({"x": X[:0], "y": Y[:0]}, ValueError, "no elements"),
        ({"x": X, "y": Y, "batch_size": 0}, ValueError, "at least 1"),
        ({"x": X}, ValueError, "0 arrays of labels"),
        ({"x": [X, X], "y": Y}, ValueError, "has 1 inputs, and 2 arrays"),
        ({"x": X[:, :4], "y": Y}, ValueError, r"cannot feed a value of shape \[32, 4\]"),
        ({"x": X, "y": Y[:, None, None]}, ValueError, "do not go with"),
        ({"x": 5.0}, ValueError, "a single number has none"),
        ({"x": pairs(), "y": Y}, TypeError, "give x alone"),
        ({"x": object()}, TypeError, "iterable of batches"),
        ({"x": [(X, Y, Y, Y)]}, ValueError, "not one of 4 values"),
        ({"x": [(X, Y), (X[:0], Y[:0])]}, ValueError, "epoch 1: batch 2 has no elements"),
        (
            {"x": [(X, Y), (X, Y, Y)]},
            ValueError,
            "batch 2 has 1 inputs, 1 labels and weights, and batch 1 .* no weights",
        ),
        ({"x": [(X, Y, Y), (X, Y)]}, ValueError, "batch 2 has 1 inputs, 1 labels and no weights, and batch 1"),
        ({"x": [(X, Y), X]}, ValueError, "batch 2 has 1 inputs, 0 labels"),
        ({"x": [(3.0, Y)]}, ValueError, "epoch 1: batch 1 has no elements"),
        ({"x": [(X, Y, Y[:1])]}, ValueError, r"epoch 1: batch 1: .* have \[50, 50, 1\] elements"),
        ({"x": [[1.0, 2.0], [3.0]], "y": Y}, ValueError, r"the items of .* have different lengths.*padded_batch"),
        ({"x": X, "y": Y, "sample_weight": [1, [2]]}, ValueError, "have different lengths"),
        ({"x": None, "y": Y}, TypeError, "arrays or an iterable of batches are wanted, not NoneType"),
        ({"x": {"b": X, "a": X}, "y": Y}, ValueError, "has 1 inputs, and 2 arrays"),
        ({"x": X, "y": Y, "validation_data": iter([(X[:0], Y[:0])])}, ValueError, "batch 1 has no elements"),
        ({"x": af.data.Dataset.range(0)}, af.errors.OutOfRangeError, "epoch 1 has 0 batches: a generator"),
        ({"x": af.data.Dataset.range(1).repeat()}, ValueError, "has no end: give steps_per_epoch"),
        ({"x": pairs(), "validation_split": 0.5}, ValueError, "divides arrays"),
        ({"x": X, "y": Y, "validation_split": 0.999}, ValueError, "leaves nothing"),
        ({"x": X, "y": Y, "validation_data": (X,)}, ValueError, "perhaps with weights"),
        (
            {"x": X, "y": Y, "validation_data": 3},
            ValueError,
            r"validation_data is \(inputs, labels\), or batches .* not 3",
        ),
        ({"x": X, "y": Y, "sample_weight": ["a"] * 50}, TypeError, "sample_weight is an array of numbers, not"),
        ({"x": np.array([{}] * 50), "y": Y}, TypeError, "an array of numbers or text is wanted, not of objects"),
    ],
)
async def test_data_that_do_not_fit_are_refused(model, given, error, text):
    with pytest.raises(error, match=text):
        await model.fit(**given, verbose=0)


@pytest.mark.parametrize(
    ("batch", "error", "text"),
    [
        (None, TypeError, "an array of numbers or text is wanted, not of objects: None"),
        ((X, Y, None, None), ValueError, "a batch is inputs, or a tuple of inputs, labels and weights, not one of 4"),
        ((X[:, :4], Y), ValueError, r"cannot feed a value of shape \[50, 4\]"),
        ((X.astype(complex), Y), TypeError, "is complex, and dtype float32 is not"),
        ((X, Y.astype(str)), TypeError, "cannot feed 'labels"),
    ],
)
async def test_a_batch_that_does_not_fit_is_refused_with_its_place(model, batch, error, text):
    async def batches():
        yield X, Y
        yield batch

    for use, place in (
        (model.fit(batches(), verbose=0), "epoch 1: batch 2"), (model.evaluate(batches()), "the data: batch 2"),
        (model.fit(X, Y, validation_data=batches(), verbose=0), "the validation of epoch 1: batch 2"),
    ):  # fmt: skip
        with pytest.raises(error, match=f"^{place}: .*{text}"):
            await use
    if batch is not None and batch[0] is not X:
        with pytest.raises(error, match=f"^the data: batch 2: .*{text}"):
            await model.predict(batches())


async def test_an_error_of_a_callback_or_of_a_subclass_of_value_error_stays_as_it_is(model):
    class Odd(ValueError):
        pass

    def odd():
        yield X, Y
        raise Odd("as it is")

    def refuse(batch, logs):
        raise ValueError("as it is")

    refusing = af.callbacks.LambdaCallback(on_train_batch_end=refuse)
    for given, error in (((odd(),), Odd), (([(X, Y)], None, None, 1, 0, [refusing]), ValueError)):
        with pytest.raises(error, match=r"^as it is"):
            await model.fit(*given)


async def test_a_call_without_tensors_and_a_missing_call_of_the_base_are_told():
    class Returning(af.Model):
        def __init__(self, value):
            super().__init__(name="returning")
            self.value = value

        def call(self, inputs):
            return self.value

    class Bare(layers.Layer):
        def __init__(self):
            self.part = layers.Dense(2)

        def call(self, inputs):
            return self.part(inputs)

    for value in (None, 3.0, "x", [], {}):
        with pytest.raises(TypeError, match=rf"returning'?[: ].*`call` returns .*{re.escape(str(value))}"):
            await Returning(value).predict(X)
    with pytest.raises(TypeError, match=r"outputs of a model are one tensor or several, not \{\}"):
        af.Model(layers.Input([6]), {})
    for use in (lambda: Bare()(af.constant(X)), lambda: Bare().weights, lambda: af.Sequential([Bare()])):
        with pytest.raises(AttributeError, match=r"call super\(\).__init__\(\) first in Bare.__init__"):
            use()
    assert not hasattr(layers.Dense(2), "part")


async def test_settings_that_cannot_work_are_refused(model):
    for given, error, text in (
        ({"optimizer": "adma", "loss": "mse"}, ValueError, "did you mean .*'adam'"),
        ({"optimizer": 0.1, "loss": "mse"}, TypeError, "an optimizer is a name"),
        ({"loss": "mes"}, ValueError, "did you mean 'mse'"),
        ({"loss": 3}, TypeError, "a loss is a name"),
        ({"loss": ["mse", "mae"]}, ValueError, "2 values for one output"),
        ({"loss": "mse", "metrics": ["acuracy"]}, ValueError, "did you mean 'accuracy'"),
        ({"loss": "mse", "metrics": "accuracy"}, TypeError, "metrics is a list of names and functions, not 'accuracy'"),
        ({"loss": "mse", "metrics": [3]}, TypeError, "a metric is a name or a function"),
        ({"loss": "mse", "loss_weights": "a"}, TypeError, "a factor of loss_weights is a number, not 'a'"),
    ):
        with pytest.raises(error, match=text):
            model.compile(**given)
    with pytest.raises(ValueError, match="there are no arrays"):
        await model.evaluate([])
    async with af.Sequential([layers.Dense(2)]) as fresh:
        with pytest.raises(RuntimeError, match="call compile"):
            await fresh.fit(X, Y)
        with pytest.raises(ValueError, match="no weights yet"):
            await fresh.save_weights("nowhere")
    with pytest.raises(ValueError, match="has 4 weights, and 0 values"):
        await model.set_weights([])
    for call, text in (
        (model.set_weights(3), "weights is a list with an array for each weight, not 3"),
        (model.set_learning_rate("fast"), "rate is a number, not 'fast'"),
        (model.predict(X, session="s"), "session is an af.Session, not 's'"),
        (model.evaluate(X, Y, return_dict=1), "return_dict is True or False, not 1"),
    ):
        with pytest.raises(TypeError, match=text):
            await call


def test_a_model_is_made_of_tensors_and_a_list_of_layers():
    for make, text in (
        (lambda: af.Sequential(layers.Dense(3)), r"layers is a list of layers, as af.Sequential\(\[layer\]\)"),
        (lambda: af.Sequential(3), "layers is a list of layers"),
        (lambda: af.Model(3, 4), "inputs of a model are tensors, such as those of af.layers.Input, not 3"),
        (lambda: af.Model(layers.Input([3]), layers.Dense(3)), "are tensors, not layers: call 'dense' with a tensor"),
        (lambda: layers.Input("a"), "shape is a list of sizes, not 'a'"),
        (lambda: layers.Input([3], batch_size="a"), "batch_size is a whole number, not 'a'"),
    ):
        with pytest.raises(TypeError, match=text):
            make()


async def test_a_number_that_is_no_class_fails(model):
    for loss in ("sparse_categorical_crossentropy", af.losses.SparseCategoricalCrossentropy(from_logits=True)):
        model.compile("sgd", loss)
        with pytest.raises(af.errors.InvalidArgumentError, match="3"):
            await model.evaluate(X, np.full(50, 3))


async def test_labels_of_another_size_than_predictions_fail_in_the_run():
    labels, predictions = af.placeholder(af.float32, [None, 3]), af.placeholder(af.float32, [None, 3])
    values = {labels: np.ones([1, 3], "f"), predictions: np.ones([4, 3], "f")}
    made = [
        af.losses.MeanSquaredError()(labels, predictions), af.losses.mean_squared_error(labels, predictions),
        af.losses.softmax_cross_entropy(labels, predictions), af.metrics.mean_absolute_error(labels, predictions)[1],
    ]  # fmt: skip
    async with af.Session() as session:
        await session.run(af.local_variables_initializer())
        for fetch in made:
            with pytest.raises(af.errors.InvalidArgumentError, match="one label for each prediction"):
                await session.run(fetch, values)


@pytest.mark.parametrize(
    ("settings", "kind", "text"),
    [
        ({"batch_size": 2.5}, TypeError, "batch_size is a whole number, not 2.5"),
        ({"batch_size": 0}, ValueError, "batch_size is at least 1, not 0"),
        ({"epochs": -1}, ValueError, "epochs is at least 0, not -1"),
        ({"epochs": "3"}, TypeError, "epochs is a whole number, not '3'"),
        ({"initial_epoch": -1}, ValueError, "initial_epoch is at least 0, not -1"),
        ({"steps_per_epoch": 0}, ValueError, "the number of steps is at least 1, not 0"),
        ({"validation_split": 0.5, "validation_steps": 0}, ValueError, "validation_steps is at least 1, not 0"),
        ({"class_weight": [1, 2]}, TypeError, "class_weight is a dict"),
        ({"class_weight": {"cat": 2.0}}, TypeError, "a class of class_weight is a number, not 'cat'"),
        ({"class_weight": {1: "heavy"}}, TypeError, "the factor of class 1 is a number, not 'heavy'"),
        ({"validation_split": "half"}, TypeError, "validation_split is a number, not 'half'"),
        ({"validation_split": float("nan")}, ValueError, "validation_split is more than 0 and less than 1, not nan"),
        ({"callbacks": 3}, TypeError, "callbacks is a callback, or a list of these, not 3"),
        ({"verbose": "foo"}, ValueError, "verbose is 'auto', 0, 1 or 2, not 'foo'"),
        ({"verbose": 7}, ValueError, "verbose is 'auto', 0, 1 or 2, not 7"),
        ({"session": 3}, TypeError, "session is an af.Session, not 3"),
        ({"shuffle": "no"}, TypeError, "shuffle is True or False, not 'no'"),
        ({"validation_freq": 0}, ValueError, "validation_freq is at least 1, not 0"),
        ({"validation_data": (X, Y), "validation_batch_size": 0}, ValueError, "batch_size is at least 1, not 0"),
    ],
)
async def test_settings_of_fit_that_mean_nothing_are_refused_by_name(model, settings, kind, text):
    with pytest.raises(kind, match=text):
        await model.fit(X, Y, **({"verbose": 0} | settings))


async def test_a_step_on_a_batch_without_elements_is_refused_and_changes_no_weight(model):
    with pytest.raises(ValueError, match="the batch has no elements"):
        await model.train_on_batch(X[:0], Y[:0])
    with pytest.raises(ValueError, match=r"the batch: .* have \[50, 10\] elements"):
        await model.train_on_batch(X, Y[:10])
    with pytest.raises(ValueError, match="the batch has no elements"):
        await model.predict_on_batch(X[:0])
    for found, first in zip(await model.get_weights(), FIRST, strict=True):
        np.testing.assert_array_equal(found, first)
