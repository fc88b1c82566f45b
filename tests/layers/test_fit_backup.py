"""Interrupted trainings that go on from a backup."""

import contextlib
import shutil

import numpy as np
import pytest

import aioflow as af
from aioflow import layers
from aioflow.layers import callbacks
from aioflow.layers.batches import GivenBatches
from aioflow.layers.training_state import encode
from tests.layers.by_hand import X, Y, pairs

pytestmark = pytest.mark.usefixtures("graph")


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


TWO_DEVICES = pytest.param(on_two_devices, marks=pytest.mark.long)


@pytest.mark.parametrize("data", [as_arrays, as_dataset, as_generator, TWO_DEVICES])
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


def remembering(folder):
    """Callbacks that remember, and what each shall remember in the end."""
    early = callbacks.EarlyStopping("loss", patience=3, min_delta=0.05, restore_best_weights=True)
    plateau = callbacks.ReduceLROnPlateau("loss", patience=1, min_delta=0.05, cooldown=1)
    best = callbacks.ModelCheckpoint(folder / "best.safetensors", "loss", save_best_only=True, save_freq=5)
    return [early, plateau, best, callbacks.CSVLogger(folder / "log.csv")]


@pytest.mark.parametrize(("at", "save_freq"), [((4, 1), "epoch"), ((4, 4), 3)])
async def test_callbacks_go_on_from_a_backup_with_what_they_remember(at, save_freq, tmp_path):
    async def trained(name, *more):
        (folder := tmp_path / name).mkdir(exist_ok=True)
        with af.Graph().as_default():
            model, told = with_dropout(), remembering(folder)
            async with model:
                history = await model.fit(X, Y, 8, 9, 0, [*told, *more], shuffle=False)
                files = [(folder / name).read_bytes() for name in ("log.csv", "best.safetensors")]
                states = [each.backup_state() for each in told]
                return history.epoch, history.history, states, files, await model.get_weights()

    epochs, expected, states, files, weights = await trained("whole")
    assert len(set(expected["learning_rate"])) > 1
    assert len(epochs) < 9
    with pytest.raises(Interrupted):
        await trained("parts", callbacks.BackupAndRestore(tmp_path / "backup", save_freq), interrupting(*at))
    backup = callbacks.BackupAndRestore(tmp_path / "backup", save_freq)
    went_on, history, again, same, found = await trained("parts", backup)
    assert (went_on, history) == (epochs[4:], {name: values[4:] for name, values in expected.items()})
    assert same == files
    assert encode(again) == encode(states)
    for one, other in zip(found, weights, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("older", [False, True])
async def test_a_damaged_backup_is_told_before_training_begins(older, tmp_path):
    backup = callbacks.BackupAndRestore(tmp_path, delete_checkpoint=False)

    async def trained(*more):
        with af.Graph().as_default():
            async with with_dropout() as model:
                return (await model.fit(X, Y, 8, 3, 0, [backup, *more])).epoch

    with pytest.raises(Interrupted):
        await trained(interrupting(1, 2))
    if older:
        shutil.copytree(tmp_path / "backup-1", tmp_path / "backup-2")
    (tmp_path / ("backup-2" if older else "backup-1") / "manifest.json").unlink()
    with pytest.raises(af.errors.DataLossError, match=r"the backup '.*backup-.' is damaged or incomplete: delete it"):
        await trained()
    shutil.rmtree(tmp_path / ("backup-2" if older else "backup-1"))
    assert await trained() == ([1, 2] if older else [0, 1, 2])


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
