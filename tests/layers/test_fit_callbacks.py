"""What `fit`, `evaluate` and `predict` tell callbacks, and what callbacks do to a training."""

import asyncio
import io
import sys

import numpy as np
import pytest

import aioflow as af
from aioflow.layers import callbacks
from tests.layers.by_hand import Told, X, Y

pytestmark = pytest.mark.usefixtures("graph")


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
    assert text.count("4/4 [====================]  ") >= (2 if verbose == 1 else 0)
    assert text.count("\n4/4  ") == (2 if verbose == 2 else 0)
    await model.evaluate(X, Y, 16, verbose=verbose)
    assert ("4 steps  " in capsys.readouterr().out) == (verbose > 0)


async def test_training_goes_on_when_nobody_reads_its_bar_any_more(model, monkeypatch, caplog):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    sys.stdout.close()
    history = await model.fit(X, Y, 16, epochs=2)
    assert history.epoch == [0, 1]
    assert caplog.text.count("progress is not shown any more: I/O operation on closed file") == 1


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
