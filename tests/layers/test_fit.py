"""`fit`, `evaluate` and `predict`: the same as the loop written by hand, over arrays and whatever gives batches."""

import asyncio
import contextlib

import numpy as np
import pytest

import aioflow as af
from aioflow import layers
from aioflow.layers import callbacks
from aioflow.layers.batches import GivenBatches

RANDOM = np.random.default_rng(11)
X = RANDOM.standard_normal((50, 6)).astype(np.float32)
Y = (X @ RANDOM.standard_normal((6, 3))).argmax(1)
FIRST = [RANDOM.standard_normal(size).astype(np.float32) * 0.3 for size in ((6, 8), (8,), (8, 3), (3,))]


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def model():
    async with af.Sequential([layers.Dense(8, activation="tanh", input_shape=[6]), layers.Dense(3)]) as model:
        model.compile("sgd", af.losses.SparseCategoricalCrossentropy(from_logits=True), ["accuracy"])
        await model.set_weights(FIRST)
        yield model


async def by_hand(batches, rate=0.01, weights=None):
    """The losses of a training written by hand, and the weights after it."""
    with af.Graph().as_default() as graph:
        x, y = af.placeholder(af.float32, [None, 6]), af.placeholder(af.int64, [None])
        w = af.placeholder(af.float32, [None])
        one, two, three, four = variables = [af.Variable(value) for value in FIRST]
        logits = af.tanh(x @ one + two) @ three + four
        losses = af.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        loss = af.reduce_mean(losses * w)
        train = af.train.GradientDescentOptimizer(rate).minimize(loss)
        async with af.Session(graph=graph) as session:
            await session.run(af.global_variables_initializer())
            found = []
            for rows in batches:
                factors = np.ones(len(X[rows])) if weights is None else weights[rows]
                found.append((await session.run([loss, train], {x: X[rows], y: Y[rows], w: factors}))[0])
            return found, await session.run(variables)


IN_ORDER = [slice(start, start + 16) for start in (0, 16, 32, 48)]
SIZES = [16, 16, 16, 2]


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


async def test_arrays_are_shuffled_in_each_epoch_and_every_element_is_used_once(model):
    seen = []

    def noted(labels, predictions):
        return af.py_func(lambda values: seen.append(values.copy()) or np.float32(0), [labels], af.float32)

    model.compile("sgd", "mse", [noted])
    numbers = np.arange(150, dtype=np.float32).reshape(50, 3)
    await model.fit(X, numbers, 16, epochs=2, verbose=0)
    first, second = (np.concatenate(seen[start : start + 4]) for start in (0, 4))
    for epoch in (first, second):
        assert not np.array_equal(epoch, numbers)
        np.testing.assert_array_equal(np.sort(epoch, 0), numbers)
    assert not np.array_equal(first, second)


def pairs():
    yield from [(X[rows], Y[rows]) for rows in IN_ORDER]


async def waiting_pairs():
    for pair in pairs():
        await asyncio.sleep(1)
        yield pair


class Again:
    """Gives the batches anew each time."""

    def __aiter__(self):
        return waiting_pairs()


@pytest.mark.parametrize("given", [lambda: list(pairs()), Again], ids=["list", "async iterable"])
async def test_what_can_be_iterated_again_is_iterated_in_each_epoch(model, given):
    history = await model.fit(given(), epochs=2, verbose=0)
    losses, _ = await by_hand(IN_ORDER * 2)
    expected = [np.average(losses[4 * epoch : 4 * epoch + 4], weights=SIZES) for epoch in (0, 1)]
    np.testing.assert_allclose(history.history["loss"], expected, rtol=1e-5)


@pytest.mark.parametrize("given", [pairs, waiting_pairs])
async def test_a_generator_goes_on_in_the_next_epoch(model, given):
    history = await model.fit(given(), epochs=2, steps_per_epoch=2, verbose=0)
    losses, _ = await by_hand(IN_ORDER)
    expected = [np.mean(losses[:2]), np.average(losses[2:], weights=SIZES[2:])]
    np.testing.assert_allclose(history.history["loss"], expected, rtol=1e-5)


async def test_a_dataset_begins_anew_in_another_order_in_each_epoch(model):
    numbers, seen = np.arange(48, dtype=np.float32).reshape(16, 3), []

    def noted(labels, predictions):
        return af.py_func(lambda values: seen.append(values[:, 0].tolist()) or np.float32(0), [labels], af.float32)

    model.compile("sgd", "mse", [noted])
    dataset = af.data.Dataset.from_tensor_slices((X[:16], numbers)).shuffle(16, seed=1).batch(16)
    await model.fit(dataset, epochs=2, verbose=0)
    assert sorted(seen[0]) == sorted(seen[1]) == numbers[:, 0].tolist()
    assert seen[0] != seen[1]


async def test_with_steps_a_dataset_goes_on_in_the_next_epoch_and_begins_anew_at_its_end(model):
    seen = []

    def noted(labels, predictions):
        return af.py_func(lambda values: seen.append(int(values[0])) or np.float32(0), [labels], af.float32)

    model.compile("sgd", af.losses.SparseCategoricalCrossentropy(from_logits=True), [noted])
    labels = np.array([0, 1, 2] * 5)[:, None].repeat(2, 1).reshape(-1)
    dataset = af.data.Dataset.from_tensor_slices((X[:30], labels)).batch(2).take(5)
    await model.fit(dataset, epochs=4, steps_per_epoch=2, verbose=0)
    assert seen == [0, 1, 2, 0, 1, 0, 1, 2]
    await model.fit(dataset.repeat(), epochs=1, steps_per_epoch=7, verbose=0)
    assert seen[8:] == [0, 1, 2, 0, 1, 0, 1]
    with pytest.raises(ValueError, match="has no end: give steps_per_epoch"):
        await model.fit(dataset.repeat(), verbose=0)


@pytest.mark.parametrize(("steps", "text"), [(None, "epoch 2 has 0 batches"), (3, "epoch 2 has 1 batches, and 3 were")])
async def test_a_generator_that_ends_too_soon_is_told(model, steps, text):
    with pytest.raises(af.errors.OutOfRangeError, match=text):
        await model.fit(pairs(), epochs=3, steps_per_epoch=steps, verbose=0)


@pytest.mark.parametrize("end", ["an error", "a cancellation"])
async def test_a_generator_is_closed_however_training_ends(model, end):
    closed = []

    async def batches():
        try:
            yield X, Y
            if end == "an error":
                raise ConnectionError("the source is gone")
            await asyncio.sleep(1e6)
        finally:
            closed.append(True)

    task = asyncio.create_task(model.fit(batches(), verbose=0))
    await asyncio.sleep(10)
    task.cancel()
    with pytest.raises((ConnectionError, asyncio.CancelledError)):
        await task
    assert closed == [True]


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
    assert await model.test_on_batch(X, Y) == pytest.approx(losses.mean(), rel=1e-5)
    np.testing.assert_allclose(await model.predict_on_batch(X[:3]), logits[:3], rtol=1e-4, atol=1e-5)
    assert await model.train_on_batch(X, Y) == pytest.approx(losses.mean(), rel=1e-5)
    assert await model.test_on_batch(X, Y) < losses.mean()


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


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam", "rmsprop", "adagrad", "adadelta", "ftrl"])
async def test_every_optimizer_has_a_name(model, name):
    model.compile(name, af.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = await model.fit(X, Y, epochs=3, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]


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


# Callbacks


class Told(callbacks.Callback):
    def __init__(self):
        self.said = []

    def __getattribute__(self, name):
        if not name.startswith("on_"):
            return super().__getattribute__(name)
        return lambda *given: self.said.append((name, *given[:-1]))


async def test_callbacks_are_told_in_order(model):
    told = Told()
    await model.fit(X, Y, batch_size=32, epochs=1, verbose=0, callbacks=[told], validation_data=(X, Y))
    assert told.said == [
        ("on_train_begin",), ("on_epoch_begin", 0), ("on_train_batch_begin", 0), ("on_train_batch_end", 0),
        ("on_train_batch_begin", 1), ("on_train_batch_end", 1), ("on_test_begin",), ("on_test_batch_begin", 0),
        ("on_test_batch_end", 0), ("on_test_batch_begin", 1), ("on_test_batch_end", 1), ("on_test_end",),
        ("on_epoch_end", 0), ("on_train_end",),
    ]  # fmt: skip
    told.said.clear()
    await model.evaluate(X, Y, batch_size=50, callbacks=[told])
    await model.predict(X, batch_size=50, callbacks=[told])
    assert told.said == [
        ("on_test_begin",), ("on_test_batch_begin", 0), ("on_test_batch_end", 0), ("on_test_end",),
        ("on_predict_begin",), ("on_predict_batch_begin", 0), ("on_predict_batch_end", 0), ("on_predict_end",),
    ]  # fmt: skip


async def test_a_hook_may_be_a_coroutine_function_and_a_lambda(model):
    said = []

    async def wait(epoch, logs):
        await asyncio.sleep(1)
        said.append(epoch)

    await model.fit(X, Y, epochs=2, verbose=0, callbacks=[callbacks.LambdaCallback(on_epoch_end=wait)])
    assert said == [0, 1]
    with pytest.raises(TypeError, match="no hook 'on_epoch'"):
        callbacks.LambdaCallback(on_epoch=wait)
    with pytest.raises(TypeError, match=r"af\.callbacks\.Callback"):
        await model.fit(X, Y, verbose=0, callbacks=[wait])


async def test_training_stops_early_with_the_best_weights(model):
    kept = []

    async def spoil(epoch, logs):
        if epoch == 0:
            kept.append(await model.get_weights())
        else:
            logs["val_loss"] = 10.0 + epoch

    early = callbacks.EarlyStopping(patience=2, restore_best_weights=True)
    watched = [callbacks.LambdaCallback(on_epoch_end=spoil), early]
    history = await model.fit(X, Y, epochs=9, verbose=0, validation_data=(X, Y), callbacks=watched)
    assert history.epoch == [0, 1, 2]
    assert early.stopped_epoch == 2
    for found, value in zip(await model.get_weights(), kept[0], strict=True):
        np.testing.assert_array_equal(found, value)


async def test_the_learning_rate_follows_a_schedule_or_falls_on_a_plateau(model):
    rates = []

    async def note(epoch, logs):
        session = model._session_for(None)
        rates.append(float(await session.run(model.learning_rate)))

    noting = callbacks.LambdaCallback(on_epoch_end=note)
    schedule = callbacks.LearningRateScheduler(lambda epoch, rate: 0.5 / (epoch + 1))
    await model.fit(X, Y, epochs=2, verbose=0, callbacks=[schedule, noting])
    flat = callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: logs.update(val_loss=1.0))
    plateau = callbacks.ReduceLROnPlateau(factor=0.5, patience=1, min_lr=0.1)
    await model.fit(X, Y, epochs=4, verbose=0, callbacks=[flat, plateau, noting])
    assert rates == pytest.approx([0.5, 0.25, 0.25, 0.125, 0.1, 0.1])


async def test_a_rate_that_cannot_be_changed_is_told(model):
    model.compile(af.train.AdamOptimizer(0.1), af.losses.SparseCategoricalCrossentropy(from_logits=True))
    with pytest.raises(ValueError, match="given by its name"):
        await model.fit(X, Y, verbose=0, callbacks=[callbacks.LearningRateScheduler(lambda epoch: 0.1)])


async def test_training_ends_at_a_loss_that_is_no_number(model):
    bad = X.copy()
    bad[0] = np.nan
    history = await model.fit(bad, Y, 16, 5, verbose=0, shuffle=False, callbacks=[callbacks.TerminateOnNaN()])
    assert history.epoch == [0]


async def test_checkpoints_are_saved_after_epochs(model, tmp_path):
    path = str(tmp_path / "weights-{epoch:02d}")
    await model.fit(X, Y, epochs=2, verbose=0, callbacks=[callbacks.ModelCheckpoint(path)])
    last = await model.get_weights()
    await model.load_weights(path.format(epoch=2))
    np.testing.assert_array_equal((await model.get_weights())[0], last[0])
    await model.load_weights(path.format(epoch=1))
    assert not np.array_equal((await model.get_weights())[0], last[0])


async def test_a_value_that_the_logs_lack_is_told(model):
    with pytest.raises(ValueError, match="the logs have no 'val_loss'; they have loss, accuracy"):
        await model.fit(X, Y, verbose=0, callbacks=[callbacks.EarlyStopping()])


@pytest.mark.parametrize("verbose", [0, 1, 2])
async def test_progress_is_written(model, capsys, verbose):
    await model.fit(X, Y, 16, epochs=2, verbose=verbose)
    text = capsys.readouterr().out
    assert ("Epoch 2/2" in text) == ("accuracy: " in text) == (verbose > 0)
    assert ("\r" in text) == (verbose == 1)
    assert text.count("4/4 [====================]") >= (2 if verbose else 0)


# Bad input


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


async def test_settings_that_cannot_work_are_refused(model):
    for given, error, text in (
        ({"optimizer": "adma", "loss": "mse"}, ValueError, "did you mean 'adam'"),
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
        fresh.compile("sgd")
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


async def test_losses_may_be_classes_and_by_name_of_the_only_output(model):
    model.compile("sgd", {"out": af.losses.MeanSquaredError}, loss_weights={"out": 2.0})
    labels = np.ones((50, 3), np.float32)
    expected = 2 * np.mean((await model.predict(X) - labels) ** 2)
    assert await model.evaluate(X, labels) == pytest.approx(expected, rel=1e-5)


async def test_predict_makes_and_initializes_the_weights():
    async with af.Sequential([layers.Dense(3, kernel_initializer="ones")]) as model:
        found = await model.predict(X)
        np.testing.assert_allclose(found, np.repeat(X.sum(1, keepdims=True), 3, 1), atol=1e-5)
    async with af.Sequential([layers.Dense(3, kernel_initializer="ones", input_shape=[6])]) as model:
        assert (await model.predict(X)).shape == (50, 3)


async def test_an_epoch_that_ends_with_the_data_is_followed_by_one_that_begins_anew(model):
    batches = [(X[rows], Y[rows]) for rows in IN_ORDER]
    history = await model.fit(batches, epochs=3, steps_per_epoch=4, verbose=0)
    assert len(history.history["loss"]) == 3
    with pytest.raises(af.errors.OutOfRangeError):
        await model.fit(af.data.Dataset.range(0), epochs=2, steps_per_epoch=1, verbose=0)


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


async def test_steps_limit_the_batches_of_arrays(model):
    seen = []
    counting = callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(batch))
    await model.fit(X, Y, batch_size=16, epochs=2, steps_per_epoch=3, callbacks=[counting], verbose=0)
    assert seen == [0, 1, 2] * 2
    seen.clear()
    await model.fit(X, Y, batch_size=16, steps_per_epoch=6, callbacks=[counting], verbose=0)
    assert seen == [0, 1, 2, 3, 4, 5]
    first = await model.evaluate(X[:16], Y[:16], batch_size=16)
    assert await model.evaluate(X, Y, batch_size=16, steps=1) == first
    assert (await model.predict(X, batch_size=16, steps=2)).shape == (32, 3)


async def test_validation_data_replaces_a_split_and_class_weights_are_for_training(model):
    split = await model.fit(X, Y, batch_size=50, validation_split=0.5, class_weight={0: 9.0}, verbose=0)
    expected = await model.evaluate(X[25:], Y[25:])
    assert split.history["val_loss"] == pytest.approx([expected[0]])
    whole = await model.fit(X, Y, batch_size=50, validation_split=0.5, validation_data=(X, Y), verbose=0)
    assert whole.params["steps"] == 1
    assert whole.history["val_loss"] == pytest.approx([(await model.evaluate(X, Y))[0]])
    with pytest.raises(ValueError, match="class_weight is for arrays"):
        await model.fit([(X, Y)], class_weight={0: 9.0}, verbose=0)


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


async def test_early_stopping_restores_the_best_weights_below_an_unbeaten_baseline(model):
    stop = callbacks.EarlyStopping("loss", 100.0, baseline=-1.0, patience=2, restore_best_weights=True)
    kept = []

    async def remember(epoch, logs):
        kept.append(await model.get_weights())

    keep = callbacks.LambdaCallback(on_epoch_end=remember)
    history = await model.fit(X, Y, epochs=9, batch_size=50, callbacks=[keep, stop], verbose=0)
    assert len(history.epoch) == 2
    assert stop.best == history.history["loss"][0]
    for found, value in zip(await model.get_weights(), kept[0], strict=True):
        np.testing.assert_array_equal(found, value)


async def test_callbacks_that_change_the_rate_build_once_and_begin_anew(model, graph):
    plateau = callbacks.ReduceLROnPlateau("loss", patience=1, min_delta=100.0, min_lr=0.0025)
    for _ in range(2):
        model.compile("sgd", af.losses.SparseCategoricalCrossentropy(from_logits=True))
        await model.fit(X, Y, epochs=4, callbacks=[plateau], verbose=0)
        assert float(await model._session_for(None).run(model.learning_rate)) == pytest.approx(0.0025)
    schedule = callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
    await model.fit(X, Y, epochs=2, callbacks=[schedule], verbose=0)
    before = len(graph.get_operations())
    await model.fit(X, Y, epochs=5, callbacks=[schedule], verbose=0)
    assert len(graph.get_operations()) == before


async def test_a_generator_that_raises_is_closed_and_leaves_the_model_usable(model):
    closed = []

    def failing(batches):
        try:
            yield from batches
            raise RuntimeError("no more pictures")
        finally:
            closed.append(True)

    for use in (model.fit, model.evaluate, model.predict):
        with pytest.raises(RuntimeError, match="no more pictures"):
            await use(
                failing([(X, Y)] if use != model.predict else [X]), **({"verbose": 0} if use == model.fit else {})
            )
    assert len(closed) == 3
    assert len((await model.fit(X, Y, verbose=0)).history["loss"]) == 1


async def test_a_generator_without_an_end_is_used_as_far_as_steps_say_and_closed_when_cancelled(model):
    closed = []

    async def endless():
        try:
            while True:
                yield X, Y
                await asyncio.sleep(1)
        finally:
            closed.append(True)

    history = await model.fit(endless(), steps_per_epoch=2, epochs=3, verbose=0)
    assert len(history.history["loss"]) == 3
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(10):
            await model.fit(endless(), verbose=0)
    assert len(closed) == 2


# State


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


async def test_sequences_of_one_step_may_come_before_longer_ones():
    model = af.Sequential([layers.Input([None, 2]), layers.Dense(1)])
    model.compile("sgd", "mse", weighted_metrics=["mae"])
    values = [np.ones([3, steps, 1], np.float32) for steps in (1, 4, 2)]
    async with model:
        for weights in (True, False):
            batches = [(value[..., [0, 0]], value, *[value[..., 0]] * weights) for value in values]
            await model.set_weights([np.ones([2, 1]), np.ones([1])])
            assert await model.evaluate(batches) == [4.0, 2.0]
            assert len((await model.fit(batches, verbose=0)).history["loss"]) == 1


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


async def test_one_set_of_operations_serves_labels_of_all_lengths():
    x = layers.Input([None, 2])
    async with af.Model(x, layers.LSTM(3, return_sequences=True)(x)) as model:
        model.compile("sgd", "mse")
        sizes = (4, 5, 7)
        await model.fit([(np.ones([2, n, 2], "f"), np.ones([2, n, 3], "f")) for n in sizes], verbose=0)
        for n in sizes:
            await model.evaluate(np.ones([2, n, 2], "f"), np.ones([2, n, 3], "f"))
        assert len(model._steps) == 1


@pytest.mark.parametrize("layer", [layers.Dense(2), layers.Flatten()])
async def test_integers_are_inputs_of_layers_with_weights(layer):
    async with af.Sequential([layer, layers.Dense(1, kernel_initializer="ones")]) as model:
        model.compile("sgd", "mse")
        await model.fit(np.arange(6).reshape(3, 2), np.arange(3), verbose=0)
        assert (await model.predict(np.arange(6).reshape(3, 2))).dtype == np.float32


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
        assert found["precision_1"] == pytest.approx((labels * chosen * each).sum() / (chosen * each).sum(), rel=1e-5)
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


def with_dropout():
    """A model whose training is random in three ways, but for seeds."""
    af.set_random_seed(4)
    model = af.Sequential([layers.Dense(8, activation="tanh", input_shape=[6]), layers.Dropout(0.3), layers.Dense(3)])
    model.compile("adam", af.losses.SparseCategoricalCrossentropy(from_logits=True), ["accuracy"])
    return model


class Interrupted(Exception):
    pass


def interrupting(epoch, batch):
    """A callback that ends training before that batch."""
    now = []

    def check(number, logs):
        if (now[-1], number) == (epoch, batch):
            raise Interrupted

    return callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: now.append(epoch), on_train_batch_begin=check)


def as_arrays():
    return {"x": X, "y": Y, "batch_size": 8}


def as_dataset():
    return {"x": af.data.Dataset.from_tensor_slices((X, Y)).shuffle(50, seed=5).batch(8), "steps_per_epoch": 6}


def as_generator():
    return {"x": iter(list(pairs()) * 9), "steps_per_epoch": 5}


def on_two_devices():
    strategy = af.distribute.MirroredStrategy([f"/device:CPU:{number}" for number in range(2)])
    return {**as_arrays(), "strategy": strategy}


@pytest.mark.parametrize("data", [as_arrays, as_dataset, as_generator, on_two_devices])
async def test_interrupted_training_goes_on_with_the_same_numbers(data, tmp_path, monkeypatch):
    draw = np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda seed=7: draw(seed))

    async def trained(*more):
        with af.Graph().as_default():
            model = with_dropout()
            async with af.Session(config=af.Config(device_count={"CPU": 2})):
                history = await model.fit(**data(), epochs=3, verbose=0, callbacks=more)
                return history.epoch, history.history, await model.get_weights()

    epochs, expected, weights = await trained()
    async with with_dropout() as other:
        await other.save_weights(str(tmp_path / "other"))
    for at, save_freq, first in (((2, 1), "epoch", 0), ((1, 4), 3, 3)):
        with pytest.raises(Interrupted):
            await trained(callbacks.BackupAndRestore(tmp_path, save_freq), interrupting(*at))
        begun = []
        started = callbacks.LambdaCallback(on_train_batch_begin=lambda number, logs, begun=begun: begun.append(number))
        went_on, history, found = await trained(callbacks.BackupAndRestore(tmp_path, save_freq), started)
        assert (went_on, begun[0]) == (epochs[at[0] :], first)
        assert history == {name: values[at[0] :] for name, values in expected.items()}
        for one, other in zip(found, weights, strict=True):
            np.testing.assert_array_equal(one, other)
        assert af.train.latest_checkpoint(tmp_path) == str(tmp_path / "other")


async def test_a_finished_training_goes_on_with_more_epochs_if_its_backup_is_kept(tmp_path):
    async def trained(epochs, folder=tmp_path / "arrays", x=X, y=Y, **settings):
        with af.Graph().as_default():
            model = with_dropout()
            backup = callbacks.BackupAndRestore(folder, delete_checkpoint=False)
            async with model:
                history = await model.fit(x, y, 16, epochs, 0, [backup], **settings)
                return history.epoch, await model.get_weights()

    _, once = await trained(1)
    again = await trained(1)
    assert again[0] == []
    for one, other in zip(once, again[1], strict=True):
        np.testing.assert_array_equal(one, other)
    assert (await trained(3))[0] == [1, 2]
    assert [path.name for path in (tmp_path / "arrays").glob("backup-*")] == ["backup-3"]
    for settings in ({"x": [(X, Y)], "y": None}, {"shuffle": False}):
        with pytest.raises(af.errors.InvalidArgumentError, match="a training on other data, or in another order"):
            await trained(4, **settings)
    await trained(1, tmp_path / "pairs", pairs(), None, steps_per_epoch=4)
    with pytest.raises(af.errors.OutOfRangeError, match="to go on after 4 batches, and the data have 1"):
        await trained(4, tmp_path / "pairs", iter([(X, Y)]), None, steps_per_epoch=4)
    with pytest.raises(ValueError, match="save_freq is 'epoch' or a number of batches, not 0"):
        callbacks.BackupAndRestore(tmp_path, 0)


@pytest.mark.parametrize(("at", "save_freq"), [((2, 1), "epoch"), ((1, 4), 3)])
async def test_a_rate_set_when_an_epoch_begins_counts_after_an_interruption(at, save_freq, tmp_path):
    async def trained(*more):
        with af.Graph().as_default():
            model = with_dropout()
            async with model:
                rates = callbacks.LearningRateScheduler(lambda epoch, rate: rate * (epoch + 1))
                await model.fit(X, Y, 8, 3, 0, [rates, *more], shuffle=False)
                return await model.get_weights()

    expected = await trained()
    with pytest.raises(Interrupted):
        await trained(callbacks.BackupAndRestore(tmp_path, save_freq), interrupting(*at))
    for one, other in zip(await trained(callbacks.BackupAndRestore(tmp_path, save_freq)), expected, strict=True):
        np.testing.assert_array_equal(one, other)


async def test_a_backup_beyond_the_data_is_refused_unless_training_has_ended(tmp_path):
    async def trained(folder, x, y=None, *more, batch_size=8):
        with af.Graph().as_default():
            model = with_dropout()
            backup = callbacks.BackupAndRestore(tmp_path / folder, 2, delete_checkpoint=False)
            async with model:
                steps = 4 if hasattr(x, "__next__") else None
                history = await model.fit(x, y, batch_size, 2, 0, [backup, *more], steps_per_epoch=steps)
                return history.epoch, await model.get_weights()

    for folder, data in (("arrays", (X, Y)), ("pairs", (list(pairs()) * 2,))):
        with pytest.raises(Interrupted):
            await trained(folder, data[0], *(data[1:] or [None]), interrupting(0, 3))
    with pytest.raises(af.errors.InvalidArgumentError, match="a training on other data, or in another order"):
        await trained("arrays", X, Y, batch_size=len(X))
    with pytest.raises(af.errors.OutOfRangeError, match="epoch 1 has 2 batches"):
        await trained("pairs", (list(pairs()) * 2)[:2])
    given = (list(pairs()) * 9)[:8]
    _, once = await trained("generator", iter(given))
    epochs, again = await trained("generator", iter(given))
    assert epochs == []
    for one, other in zip(once, again, strict=True):
        np.testing.assert_array_equal(one, other)


async def test_two_backups_of_one_training_are_refused(tmp_path):
    model = with_dropout()
    async with model:
        with pytest.raises(ValueError, match="one BackupAndRestore, not 2"):
            await model.fit(X, Y, verbose=0, callbacks=[callbacks.BackupAndRestore(tmp_path) for _ in range(2)])


async def test_a_backup_has_the_position_in_the_validation_data(tmp_path):
    async def trained(*more):
        with af.Graph().as_default():
            model = with_dropout()
            validation = af.data.Dataset.from_tensor_slices((X, Y)).shuffle(50, seed=5).batch(8)
            async with model:
                return (
                    await model.fit(X, Y, 8, 3, 0, more, shuffle=False, validation_data=validation, validation_steps=2)
                ).history["val_loss"]

    expected = await trained()
    for at, save_freq in (((2, 1), "epoch"), ((2, 4), 3)):
        with pytest.raises(Interrupted):
            await trained(callbacks.BackupAndRestore(tmp_path, save_freq), interrupting(*at))
        assert await trained(callbacks.BackupAndRestore(tmp_path, save_freq)) == expected[2:]


@pytest.mark.parametrize("data", [as_arrays, as_dataset, as_generator])
@pytest.mark.parametrize("stopping", ["on_train_batch_end", "on_epoch_end"])
async def test_a_kept_backup_of_a_stopped_training_has_its_last_epoch(data, stopping, tmp_path, monkeypatch):
    draw = np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda seed=7: draw(seed))

    def stop(model):
        hooks = {stopping: lambda number, logs: setattr(model, "stop_training", number == 1)}
        return callbacks.LambdaCallback(**hooks)

    given = data()

    async def trained(epochs, stopped, **settings):
        with af.Graph().as_default():
            model = with_dropout()
            backup = callbacks.BackupAndRestore(tmp_path, delete_checkpoint=False)
            async with model:
                told = [backup, *([stop(model)] if stopped else [])]
                history = await model.fit(**(given | settings), epochs=epochs, verbose=0, callbacks=told)
                return history.epoch, await model.get_weights()

    done, weights = await trained(5, stopped=True)
    if data is as_generator:
        given = as_generator()
    went_on, same = await trained(done[-1] + 1, stopped=False)
    assert went_on == []
    for one, other in zip(weights, same, strict=True):
        np.testing.assert_array_equal(one, other)
    if data is as_generator:
        given = as_generator()
    with pytest.raises(af.errors.InvalidArgumentError, match=f"goes on in epoch {len(done)}, and initial_epoch is 4"):
        await trained(9, stopped=False, initial_epoch=4)
    assert (await trained(4, stopped=False))[0] == [*range(len(done), 4)]


@pytest.mark.parametrize(
    ("given", "steps", "position"),
    [
        (list, 3, {"ended": 0, "used": 2}),
        (list, None, {"ended": 1, "used": 0}),
        (iter, 3, {"ended": 0, "used": 2}),
    ],
)
async def test_batches_count_those_after_which_training_stopped(given, steps, position):
    batches = GivenBatches(given(list(pairs())), steps)
    async with contextlib.aclosing(batches.epoch("epoch 1")) as epoch:
        await anext(epoch)
        await anext(epoch)
    assert batches.position() == position


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
        ({"callbacks": callbacks.History()}, TypeError, "callbacks is a list of callbacks"),
        ({"callbacks": 3}, TypeError, "callbacks is a list of callbacks, not 3"),
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


async def test_inputs_and_labels_given_by_keys_go_to_the_tensors_of_these_keys_or_are_refused():
    one, two = (layers.Input([1], name=name) for name in ("zebra", "ant"))
    ones = np.ones((2, 1), np.float32)
    async with af.Model({"p": one, "q": two}, {"r": one * 10.0 + two}) as model:
        model.compile("sgd", "mse")
        np.testing.assert_array_equal((await model.predict({"q": ones, "p": 2 * ones}))["r"], 21 * ones)
        for inputs in ({"p": ones, "x": ones}, [({"x": ones, "p": ones}, ones)]):
            with pytest.raises(ValueError, match="inputs were given by the keys p, x, and those of the model are p, q"):
                await model.predict(inputs)
        with pytest.raises(ValueError, match="labels were given by the keys s, and those of the model are r"):
            await model.evaluate({"p": ones, "q": ones}, {"s": ones})
        with pytest.raises(ValueError, match=r"batch 2 has 2 inputs \(p, x\).*batch 1 has 2 inputs \(p, q\)"):
            await model.evaluate([({"p": ones, "q": ones}, ones), ({"p": ones, "x": ones}, ones)])
    async with af.Model([one, two], one * 10.0 + two) as model:
        np.testing.assert_array_equal(await model.predict({"zebra": 2 * ones, "ant": ones}), 21 * ones)
        with pytest.raises(ValueError, match="keys ant, bee, and those of the model are zebra, ant"):
            await model.predict({"bee": ones, "ant": ones})


async def test_a_subclass_is_called_with_the_keys_that_it_is_given():
    class Difference(af.Model):
        def call(self, inputs, training=False):
            return inputs["b"] - inputs["a"]

    async with Difference() as model:
        np.testing.assert_array_equal(await model.predict({"b": X * 3, "a": X}), X * 3 - X)


async def test_a_step_on_a_batch_without_elements_is_refused_and_changes_no_weight(model):
    with pytest.raises(ValueError, match="the batch has no elements"):
        await model.train_on_batch(X[:0], Y[:0])
    with pytest.raises(ValueError, match=r"the batch: .* have \[50, 10\] elements"):
        await model.train_on_batch(X, Y[:10])
    with pytest.raises(ValueError, match="the batch has no elements"):
        await model.predict_on_batch(X[:0])
    for found, first in zip(await model.get_weights(), FIRST, strict=True):
        np.testing.assert_array_equal(found, first)


async def test_lists_tables_of_other_libraries_and_lists_of_batches_are_data(model):
    class Table:
        """A table of rows, as those of pandas."""

        def __array__(self, dtype=None, copy=None):
            return X

        def __iter__(self):
            return iter("columns")

    whole = await model.evaluate(X, Y)
    assert await model.evaluate(Table(), Y.tolist()) == whole
    history = await model.fit(Table(), Y, validation_data=[(X[:25], Y[:25]), (X[25:], Y[25:])], verbose=0)
    np.testing.assert_allclose(history.history["val_loss"], (await model.evaluate(X, Y))[0], rtol=1e-6)
    one, two = layers.Input([6]), layers.Input([6])
    async with af.Model([one, two], one - two) as difference:
        np.testing.assert_array_equal(await difference.predict([X, (X / 2).tolist()]), X - X / 2)
