"""Callbacks that write: tables, event files, weights, lines of text; and what they refuse."""

import csv
import re

import numpy as np
import pytest

import aioflow as af
from aioflow import layers
from aioflow.layers import callbacks
from aioflow.layers.log_callbacks import CSVLogger, TensorBoard
from tests.support.event_files import events_of, needs_tensorboard

X = np.random.default_rng(2).standard_normal((20, 4)).astype(np.float32)
Y = X.sum(1, keepdims=True)


@pytest.fixture
async def model():
    with af.Graph().as_default():
        async with af.Sequential([layers.Dense(1, input_shape=[4])]) as model:
            model.compile("sgd", "mse", ["mae"])
            yield model


async def test_a_table_has_a_line_for_each_epoch_and_is_continued(model, tmp_path):
    path = tmp_path / "new" / "log.csv"
    validated = {"validation_data": (X, Y), "validation_freq": 2, "verbose": 0}
    history = await model.fit(X, Y, epochs=2, callbacks=[CSVLogger(path, separator=";")], **validated)
    await model.fit(X, Y, initial_epoch=2, epochs=3, verbose=0, callbacks=[CSVLogger(path, ";", append=True)])
    lines = list(csv.DictReader(path.read_text().splitlines(), delimiter=";"))
    assert list(lines[0]) == ["epoch", "loss", "mae", "val_loss", "val_mae"]
    assert [line["epoch"] for line in lines] == ["0", "1", "2"]
    assert [line["val_loss"] == "NA" for line in lines] == [True, False, True]
    assert [float(line["loss"]) for line in lines[:2]] == history.history["loss"]
    assert len(history.history["val_loss"]) == 1


@needs_tensorboard
async def test_event_files_have_the_logs_and_weights_and_are_closed_after_a_failure_too(model, tmp_path):
    board = TensorBoard(tmp_path, histogram_freq=2, update_freq="batch", write_steps_per_second=True)
    fail = callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: 1 / (2 - epoch))
    told = []
    listen = callbacks.LambdaCallback(on_train_begin=lambda logs: listen.session.listeners.add(told.append))
    with pytest.raises(ZeroDivisionError):
        await model.fit(X, Y, 10, epochs=3, verbose=0, callbacks=[listen, board, fail], validation_data=(X, Y))
    (summaries,) = [report.summaries for report in told if report.summaries]
    assert b"dense/kernel" in summaries
    trained = [value for event in events_of(tmp_path / "train") for value in event.summary.value]
    tags = [value.tag for value in trained]
    assert tags.count("batch_loss") == 4
    for name in ("epoch_loss", "epoch_mae", "epoch_learning_rate", "epoch_steps_per_second"):
        assert tags.count(name) == 2
    assert tags.count("dense/kernel") == tags.count("dense/bias") == 1
    validated = [value.tag for event in events_of(tmp_path / "validation") for value in event.summary.value]
    assert validated == ["epoch_loss", "epoch_mae"] * 2


async def test_weights_are_saved_after_batches_and_only_below_a_threshold(model, tmp_path, capsys):
    often = callbacks.ModelCheckpoint(tmp_path / "often-{epoch}-{batch}", save_freq=2, verbose=1)
    never = callbacks.ModelCheckpoint(tmp_path / "never", "loss", save_best_only=True, initial_value_threshold=0.0)
    rare = callbacks.ModelCheckpoint(tmp_path / "rare-{epoch}", "val_loss", save_best_only=True)
    await model.fit(
        X, Y, 5, epochs=2, verbose=0, callbacks=[often, never, rare], validation_data=(X, Y), validation_freq=2
    )
    said = re.findall(r"epoch (\d): saved .*/often-(\S+)", capsys.readouterr().out)
    assert said == [("1", "1-2"), ("1", "1-4"), ("2", "2-2"), ("2", "2-4")]
    names = {path.name.split(".")[0] for path in tmp_path.iterdir()}
    assert {"often-1-2", "often-2-4", "rare-2"} <= names
    assert not any(name.startswith(("never", "rare-1")) for name in names)


async def test_what_callbacks_change_is_written_on_request(model, capsys):
    flat = callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: logs.update(val_loss=1.0))
    plateau = callbacks.ReduceLROnPlateau(patience=1, factor=0.5, verbose=1)
    early = callbacks.EarlyStopping(patience=2, verbose=1)
    schedule = callbacks.LearningRateScheduler(lambda epoch: 0.25, verbose=1)
    await model.fit(X, Y, epochs=9, verbose=0, callbacks=[flat, schedule, plateau, early])
    text = capsys.readouterr().out
    assert "epoch 1: the learning rate becomes 0.25" in text
    assert "epoch 2: the learning rate becomes 0.125" in text
    assert "epoch 3: training ends, for val_loss has not become better" in text
    await model.evaluate(X, Y, verbose=1)
    assert re.match(r"1 steps +[\d.]+ m?s  loss: \S+  mae: \S+\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("callback", "rates"),
    [
        (callbacks.LearningRateScheduler(lambda epoch: 0.5 / (epoch + 1)), [0.5, 0.25]),
        (callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=1e9), [0.01, 0.01, 0.005]),
    ],
    ids=["schedule", "plateau"],
)
async def test_the_history_has_the_learning_rate_of_each_epoch_that_a_callback_changes(model, callback, rates):
    history = await model.fit(X, Y, epochs=len(rates), verbose=0, callbacks=[callback])
    np.testing.assert_allclose(history.history["learning_rate"], rates, rtol=1e-6)


async def test_a_loss_that_is_no_number_may_fail(model):
    with pytest.raises(RuntimeError, match="the loss of batch 1 is nan"):
        await model.fit(X * np.nan, Y, verbose=0, callbacks=[callbacks.TerminateOnNaN(raise_error=True)])


async def test_a_path_with_a_name_that_the_logs_lack_is_told(model, tmp_path):
    with pytest.raises(ValueError, match="names 'val_loss', and there are epoch, loss, mae"):
        await model.fit(X, Y, verbose=0, callbacks=[callbacks.ModelCheckpoint(tmp_path / "{val_loss}")])


async def test_a_schedule_that_gives_no_rate_is_told(model):
    with pytest.raises(TypeError, match="the learning rate that the schedule gives is a number, not None"):
        await model.fit(X, Y, verbose=0, callbacks=[callbacks.LearningRateScheduler(lambda epoch: None)])


@pytest.mark.whole
@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: callbacks.EarlyStopping(patience=-1), ValueError, "patience is at least 0, not -1"),
        (lambda: callbacks.EarlyStopping(monitor=3), TypeError, "monitor is the name of a value"),
        (lambda: callbacks.EarlyStopping(min_delta="a"), TypeError, "min_delta is a number, not 'a'"),
        (lambda: callbacks.EarlyStopping(baseline="a"), TypeError, "baseline is a number, not 'a'"),
        (lambda: callbacks.ReduceLROnPlateau(factor="a"), TypeError, "factor is a number, not 'a'"),
        (lambda: callbacks.ReduceLROnPlateau(cooldown=-1), ValueError, "cooldown is at least 0, not -1"),
        (lambda: callbacks.LearningRateScheduler(3), TypeError, "schedule is a function of the epoch and the rate"),
        (lambda: callbacks.ModelCheckpoint(3), TypeError, "a path must be text or a Path, not 3"),
        (lambda: callbacks.ModelCheckpoint("a", save_weights_only=False), ValueError, "weights are saved, not models"),
        (
            lambda: callbacks.ModelCheckpoint("a", save_freq=0),
            ValueError,
            "save_freq is 'epoch' or a number of batches",
        ),
        (lambda: callbacks.LambdaCallback(on_epoch_end=3), TypeError, "on_epoch_end is a function, not 3"),
        (lambda: CSVLogger("a", separator="::"), ValueError, "separator is one character, not '::'"),
        (lambda: TensorBoard(update_freq="often"), TypeError, "update_freq is a whole number, not 'often'"),
    ],
)
def test_settings_that_mean_nothing_are_refused_when_a_callback_is_made(make, kind, text):
    with pytest.raises(kind, match=text):
        make()
