"""Data for `fit`, `evaluate` and `predict`: arrays, iterables, datasets and generators."""

import asyncio

import numpy as np
import pytest

import aioflow as af
from aioflow import layers
from aioflow.layers import callbacks
from tests.layers.by_hand import IN_ORDER, SIZES, Again, X, Y, by_hand, pairs, waiting_pairs

pytestmark = pytest.mark.usefixtures("graph")


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


async def orders(model, seen, **settings):
    """The orders in which one call of `fit` after the other takes the rows in a new session: 3 calls of 2 epochs."""
    async with af.Session(graph=model.graph) as session:
        found = []
        for _ in range(3):
            seen.clear()
            await model.fit(X, Y, epochs=2, verbose=0, session=session, **settings)
            found.append(tuple(seen))
        return found


@pytest.mark.parametrize("settings", [{}, {"class_weight": {0: 2.0}, "validation_split": 0.2}])
async def test_the_seed_of_the_graph_decides_the_orders_of_the_calls_of_fit_in_each_session(model, settings):
    def noted(labels, predictions):
        return af.py_func(lambda values: seen.extend(values.ravel().tolist()) or np.float32(0), [labels], af.float32)

    async def trained(seed):
        with af.Graph().as_default():
            af.set_random_seed(seed)
            model = af.Sequential([layers.Input([6]), layers.Dense(3)])
            model.compile("sgd", "sparse_categorical_crossentropy", [noted])
            return [await orders(model, seen, **settings) for _ in range(2)]

    seen = []
    first, again, other = await trained(5), await trained(np.int64(5)), await trained(-6)
    assert first[0] == first[1] == again[0]
    assert len({*first[0], *other[0]}) == 6
    model.compile("sgd", "sparse_categorical_crossentropy", [noted])
    assert await orders(model, seen, **settings) != await orders(model, seen, **settings)


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
    with pytest.raises(af.errors.OutOfRangeError, match=r"the validation of epoch 2 has 0 batches.* validation_steps"):
        await model.fit(X, Y, epochs=3, validation_data=pairs(), verbose=0)


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


async def test_a_list_is_inputs_labels_and_weights_unless_the_model_has_as_many_inputs_and_needs_no_labels(model):
    async def listed(*parts):
        for rows in IN_ORDER:
            yield [part[rows] for part in parts]

    weights = np.linspace(0, 2, 50)
    for parts in ((X, Y), (X, Y, weights)):
        expected = await model.evaluate(X, Y, sample_weight=(*parts, None)[2])
        assert await model.evaluate(listed(*parts)) == pytest.approx(expected)
        history = await model.fit(X, Y, validation_data=listed(*parts), verbose=0)
        expected = await model.evaluate(X, Y, sample_weight=(*parts, None)[2])
        assert history.history["val_loss"] == pytest.approx(expected[:1])
        await model.fit(listed(*parts), verbose=0)
        np.testing.assert_allclose(await model.predict(listed(*parts)), await model.predict(X), rtol=1e-5)

    class Distance(af.Model):
        def call(self, inputs, training=False):
            self.add_loss(af.reduce_mean(af.square(inputs[0] - inputs[1])))
            return inputs[0] - inputs[1]

    async with Distance() as distance:
        distance.compile("sgd")
        np.testing.assert_array_equal(await distance.predict(listed(X, X / 2)), X - X / 2)
        assert await distance.evaluate(listed(X, X / 2)) == pytest.approx(np.square(X / 2).mean(), rel=1e-5)
        distance.compile("sgd", "mse")
        nested = ([[X[rows], X[rows] / 2], X[rows] / 2] for rows in IN_ORDER)
        assert await distance.evaluate(nested) == pytest.approx(np.square(X / 2).mean(), rel=1e-5)


async def test_an_epoch_that_ends_with_the_data_is_followed_by_one_that_begins_anew(model):
    batches = [(X[rows], Y[rows]) for rows in IN_ORDER]
    history = await model.fit(batches, epochs=3, steps_per_epoch=4, verbose=0)
    assert len(history.history["loss"]) == 3
    with pytest.raises(af.errors.OutOfRangeError):
        await model.fit(af.data.Dataset.range(0), epochs=2, steps_per_epoch=1, verbose=0)


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


async def test_inputs_and_labels_given_by_keys_go_to_the_tensors_of_these_keys_or_are_refused():
    one, two = (layers.Input([1], name=name) for name in ("zebra", "ant"))
    ones = np.ones((2, 1), np.float32)
    async with af.Model({"p": one, "q": two}, {"r": one * 10.0 + two}) as model:
        model.compile("sgd", "mse")
        np.testing.assert_array_equal((await model.predict({"q": ones, "p": 2 * ones}))["r"], 21 * ones)
        for inputs in ({"p": ones, "x": ones}, [({"x": ones, "p": ones}, ones)]):
            with pytest.raises(ValueError, match="inputs were given by the keys p, x, and those of the model are p, q"):
                await model.predict(inputs)
        with pytest.raises(ValueError, match="labels has the key 's', and the names of the model are r"):
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
