"""`fit`, `evaluate` and `predict`: the same as the loop written by hand."""

import numpy as np
import pytest

import aioflow as af
from aioflow import layers
from tests.layers.by_hand import FIRST, IN_ORDER, RANDOM, SIZES, Again, X, Y, by_hand

pytestmark = pytest.mark.usefixtures("graph")


async def test_fit_does_what_the_loop_by_hand_does(model):
    history = await model.fit(X, Y, batch_size=16, epochs=2, shuffle=False, verbose=0)
    losses, weights = await by_hand(IN_ORDER * 2)
    expected = [np.average(losses[4 * epoch : 4 * epoch + 4], weights=SIZES) for epoch in (0, 1)]
    np.testing.assert_allclose(history.history["loss"], expected, rtol=1e-5)
    for found, value in zip(await model.get_weights(), weights, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-6)
    assert history.epoch == [0, 1]


async def test_weights_of_elements_and_classes_count(model):
    factors = RANDOM.uniform(0, 2, 50).astype(np.float32)
    history = await model.fit(X, Y, 16, shuffle=False, verbose=0, sample_weight=factors, class_weight={0: 2.0, 1: 0.5})
    by_class = factors * np.array([2.0, 0.5, 1.0])[Y]
    losses, _ = await by_hand(IN_ORDER, weights=by_class)
    np.testing.assert_allclose(history.history["loss"], [np.average(losses, weights=SIZES)], rtol=1e-5)


async def test_validation_uses_other_data_and_changes_nothing(model):
    history = await model.fit(X, Y, 16, shuffle=False, verbose=0, validation_split=0.2)
    assert list(history.history) == ["loss", "accuracy", "val_loss", "val_accuracy"]
    loss, accuracy = await model.evaluate(X[40:], Y[40:])
    assert (history.history["val_loss"], history.history["val_accuracy"]) == ([loss], [accuracy])
    again = await model.fit(X, Y, verbose=0, validation_data=Again())
    assert again.history["val_loss"] == pytest.approx([(await model.evaluate(X, Y))[0]])


async def test_evaluate_measures_over_all_elements(model):
    found = await model.evaluate(X, Y, batch_size=16, return_dict=True)
    logits = np.tanh(X @ FIRST[0] + FIRST[1]) @ FIRST[2] + FIRST[3]
    losses = np.log(np.exp(logits).sum(1)) - logits[np.arange(50), Y]
    assert found["loss"] == pytest.approx(losses.mean(), rel=1e-5)
    assert found["accuracy"] == pytest.approx((logits.argmax(1) == Y).mean())
    np.testing.assert_allclose(await model.predict(X, batch_size=16), logits, rtol=1e-4, atol=1e-5)
    wanted = [pytest.approx(losses.mean(), rel=1e-5), pytest.approx((logits.argmax(1) == Y).mean())]
    assert await model.test_on_batch(X, Y) == wanted
    np.testing.assert_allclose(await model.predict_on_batch(X[:3]), logits[:3], rtol=1e-4, atol=1e-5)
    assert await model.train_on_batch(X, Y) == wanted
    assert (await model.test_on_batch(X, Y, return_dict=True))["loss"] < losses.mean()
    by_class = dict(zip(np.unique(Y).tolist(), (0.5, 2.0, 1.0, 4.0), strict=False))
    weights = np.array([by_class[label] for label in Y.tolist()], np.float32)
    before = await model.test_on_batch(X, Y, weights)
    assert await model.train_on_batch(X, Y, class_weight=by_class) == pytest.approx(before, rel=1e-5)


async def test_each_output_has_its_loss_its_weight_and_its_metrics():
    x = layers.Input([6])
    hidden = layers.Dense(4, activation="relu")(x)
    outputs = {"class": layers.Dense(3, activation="softmax")(hidden), "number": layers.Dense(1)(hidden)}
    async with af.Model(x, outputs) as model:
        model.compile(
            "adam", {"class": "sparse_categorical_crossentropy", "number": "mse"},
            metrics={"class": ["accuracy", "sparse_top_k_categorical_accuracy"], "number": ["mae"]},
            loss_weights={"class": 2.0, "number": 0.0},
        )  # fmt: skip
        found = await model.evaluate(X, {"class": Y, "number": X[:, 0]}, return_dict=True)
        only = await model.predict(X)
        expected = 2 * -np.log(only["class"][np.arange(50), Y]).mean()
        assert found["loss"] == pytest.approx(expected, rel=1e-4)
        assert found["number_mae"] == pytest.approx(np.abs(only["number"][:, 0] - X[:, 0]).mean(), rel=1e-4)
        assert found["class_sparse_top_k_categorical_accuracy"] == 1.0


async def test_statistics_move_and_penalties_count_in_training():
    normal = layers.BatchNormalization(momentum=0.0)
    line = [layers.Dense(2, input_shape=[6], kernel_regularizer="l2"), normal, layers.Dropout(0.5)]
    async with af.Sequential(line) as model:
        model.compile("sgd", "mse")
        kernel, bias = (await model.get_weights())[:2]
        found = await model.evaluate(X, np.zeros([50, 2]))
        used = (X @ kernel + bias) / np.sqrt(1 + 1e-3)
        assert found == pytest.approx((used**2).mean() + 0.01 * (kernel**2).sum(), rel=1e-4)
        await model.fit(X, np.zeros([50, 2]), batch_size=50, verbose=0, shuffle=False)
        moved = (await model.get_weights())[-2]
        np.testing.assert_allclose(moved, (X @ kernel + bias).mean(0), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam", "adamw", "rmsprop", "adagrad", "adadelta", "ftrl"])
async def test_every_optimizer_has_a_name(model, name):
    model.compile(name, af.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = await model.fit(X, Y, epochs=3, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]


async def test_a_subclass_is_composed_for_its_first_batch():
    class Net(af.Model):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(3)

        def call(self, inputs, training=False):
            one, other = inputs
            return self.dense(one + other)

    async with Net() as model:
        model.compile("sgd", af.losses.SparseCategoricalCrossentropy(from_logits=True))
        history = await model.fit([X, X], Y, epochs=2, verbose=0)
        assert len(history.history["loss"]) == 2
        assert (await model.predict([X, X])).shape == (50, 3)


async def test_losses_may_be_classes_and_by_name_of_the_only_output(model):
    model.compile("sgd", {"out": af.losses.MeanSquaredError}, loss_weights={"out": 2.0})
    labels = np.ones((50, 3), np.float32)
    expected = 2 * np.mean((await model.predict(X) - labels) ** 2)
    assert await model.evaluate(X, labels) == pytest.approx(expected, rel=1e-5)


async def test_penalties_count_once_and_those_of_activities_in_evaluation_too():
    shared = layers.Dense(6, kernel_regularizer="l2", activity_regularizer="l1", input_shape=[6])
    async with af.Sequential([shared, shared]) as model:
        model.compile("sgd", "mse")
        assert len(model.losses) == 1
        loss = await model.evaluate(X, X, batch_size=50)
        kernel, _ = await model.get_weights()
    one, two = X @ kernel, X @ kernel @ kernel
    activities = (np.abs(one).sum() + np.abs(two).sum()) / 50
    expected = np.square(two - X).mean() + 0.01 * np.square(kernel).sum() + 0.01 * activities
    assert loss == pytest.approx(expected, rel=1e-4)


async def test_a_function_as_loss_gets_labels_like_the_predictions():
    async with af.Sequential([layers.Dense(1, kernel_initializer="ones", input_shape=[6])]) as model:
        model.compile("sgd", lambda labels, found: af.reduce_mean(af.square(labels - found), -1))
        labels = X.sum(1)
        assert await model.evaluate(X, labels) == pytest.approx(0.0, abs=1e-6)


async def test_fit_counts_the_global_step_and_initializes_what_the_optimizer_reads(model):
    counter = af.train.get_or_create_global_step()
    rate = af.Variable(0.5, trainable=False)
    model.compile(
        af.train.GradientDescentOptimizer(rate * 0.5), af.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    async with af.Session() as session:
        await model.set_weights(FIRST, session=session)
        await model.fit(X, Y, batch_size=16, epochs=2, verbose=0, shuffle=False, session=session)
        assert await session.run(counter) == 8
        _, weights = await by_hand(IN_ORDER * 2, rate=0.25)
        for found, value in zip(await model.get_weights(session), weights, strict=True):
            np.testing.assert_allclose(found, value, atol=1e-5)


async def test_a_frozen_model_trains_without_an_update_and_its_parts_are_frozen_too(model):
    model.trainable = False
    assert not any(layer.trainable for layer in model.layers)
    await model.fit(X, Y, verbose=0)
    for found, value in zip(await model.get_weights(), FIRST, strict=True):
        np.testing.assert_array_equal(found, value)
    model.trainable = True
    assert len(model.trainable_weights) == 4
    late = layers.Dense(2, trainable=False, input_shape=[6])
    af.Sequential([late])
    assert late.trainable_weights == []
    late.trainable = True
    assert len(late.trainable_weights) == 2


@pytest.mark.long
async def test_weights_reach_metrics_of_every_shape():
    x = layers.Input([6])
    labels, weights = (RANDOM.uniform(size=(50, 3)) > 0.5).astype(np.float32), RANDOM.uniform(0.1, 2, 50)
    async with af.Model(x, layers.Dense(3, "sigmoid")(x)) as model:
        model.compile("sgd", "mse", weighted_metrics=["precision", "auc", "recall"], metrics=["precision"])
        found = await model.evaluate(X, labels, sample_weight=weights, return_dict=True)
        chosen = (await model.predict(X)) > 0.5
        each = np.broadcast_to(weights[:, None], chosen.shape)
        assert found["precision"] == pytest.approx((labels * chosen).sum() / chosen.sum(), rel=1e-5)
        assert found["weighted_precision"] == pytest.approx(
            (labels * chosen * each).sum() / (chosen * each).sum(), rel=1e-5
        )
        assert found["recall"] == pytest.approx((labels * chosen * each).sum() / (labels * each).sum(), rel=1e-5)
        with pytest.raises(ValueError, match=r"weights of shape \[\?, \?\] do not fit values of shape \[\?\]"):
            await model.evaluate(X, labels, sample_weight=np.ones([50, 3]))
    steps = layers.Input([4, 2])
    async with af.Model(steps, layers.Dense(8, "softmax")(steps)) as model:
        model.compile("sgd", "sparse_categorical_crossentropy", weighted_metrics=["sparse_top_k_categorical_accuracy"])
        inputs, classes = RANDOM.standard_normal((5, 4, 2)), RANDOM.integers(0, 8, (5, 4))
        _, found = await model.evaluate(inputs, classes, sample_weight=weights[:5])
        best = np.argsort(-(await model.predict(inputs)), -1)[..., :5]
        right = (best == classes[..., None]).any(-1).mean(1)
        assert found == pytest.approx(np.average(right, weights=weights[:5]), rel=1e-5)
        each = np.broadcast_to(weights[:5, None], [5, 4])
        halves = dict.fromkeys(range(8), 0.5)
        model.compile("sgd", "sparse_categorical_crossentropy", weighted_metrics=["accuracy"])
        _, found = await model.evaluate(inputs, classes, sample_weight=each)
        right = (await model.predict(inputs)).argmax(-1) == classes
        assert found == pytest.approx((right * each).sum() / each.sum(), rel=1e-5)
        model.compile(af.train.GradientDescentOptimizer(0.0), "sparse_categorical_crossentropy")
        plain = await model.evaluate(inputs, classes, sample_weight=weights[:5])
        fitted = await model.fit(inputs, classes, sample_weight=each, class_weight=halves, verbose=0)
        assert fitted.history["loss"] == [pytest.approx(plain / 2, rel=1e-4)]


async def test_losses_of_layers_outside_of_fit_are_in_the_collection():
    layer = layers.Dense(2, activity_regularizer="l2", kernel_regularizer="l2", kernel_initializer="ones")
    layer(af.ones([5, 3]))
    async with af.Session() as session:
        await session.run(af.global_variables_initializer())
        assert await session.run(af.losses.get_regularization_loss()) == pytest.approx(0.01 * (6 + 18))

    class Inside(layers.Layer):
        def call(self, inputs):
            return af.cond(af.reduce_sum(inputs) > 0, lambda: self.penalty(inputs), lambda: inputs)

        def penalty(self, inputs):
            self.add_loss(af.reduce_sum(inputs + 1.0))
            return inputs

    with pytest.raises(ValueError, match="inside a branch or loop"):
        Inside()(af.ones([2]))


@pytest.mark.parametrize("loss", ["MSE", "mse", "MeanSquaredError", "mean_squared_error", "Mse"])
async def test_names_in_other_spellings_and_a_single_callback_are_taken(loss, graph):
    seen = []
    count = af.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(epoch))
    async with af.Sequential([layers.Input([5]), layers.Dense(1)]) as model:
        names = ["MAE", "RootMeanSquaredError", "cosine_similarity"]
        model.compile("SGD", loss, metrics=[loss, *names])
        history = await model.fit(X[:, :5], Y, epochs=2, verbose=0, callbacks=count)
        assert list(history.history) == ["loss", loss, *names]
        assert history.history[loss] == pytest.approx(history.history["loss"])
        assert seen == [0, 1]


@pytest.mark.parametrize(
    ("loss", "labels", "text"),
    [
        ("categorical_crossentropy", [0, 1], "the numbers of classes go with SparseCategoricalCrossentropy"),
        ("sparse_categorical_crossentropy", np.eye(3)[:2], "give the number of a class for each; shares of classes"),
    ],
)
async def test_labels_of_the_other_kind_name_the_loss_for_them(loss, labels, text, graph):
    async with af.Sequential([layers.Input([2]), layers.Dense(3, activation="softmax")]) as model:
        model.compile("sgd", loss)
        with pytest.raises(ValueError, match=text):
            await model.fit(np.ones((2, 2)), np.array(labels), verbose=0)
