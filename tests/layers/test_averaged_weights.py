"""Moving averages of weights that take the place of the weights."""

import contextlib

import numpy as np
import pytest

import aioflow as af
from aioflow.layers import callbacks
from tests.layers.by_hand import FIRST, IN_ORDER, X, Y, by_hand

pytestmark = pytest.mark.usefixtures("graph")

MOMENTUM = 0.6


async def averages_by_hand(steps):
    """The weights after that many steps, and their averages."""
    averages, now = None, None
    for count in range(1, steps + 1):
        _, now = await by_hand((IN_ORDER * 3)[:count])
        before = now if averages is None else averages
        averages = [MOMENTUM * old + (1 - MOMENTUM) * new for old, new in zip(before, now, strict=True)]
    return now, averages


def assert_close(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("swap_on_epoch", [False, True])
async def test_averages_are_validated_and_stay_while_training_goes_on_with_the_weights(model, swap_on_epoch):
    seen = {}

    def seeing(hook):
        async def see(*given):
            seen.setdefault(hook, []).append(await model.get_weights())

        return see

    hooks = "on_test_begin", "on_epoch_end", "on_epoch_begin", "on_train_end", "on_train_batch_end"
    see = callbacks.LambdaCallback(**{hook: seeing(hook) for hook in hooks})
    swap = callbacks.SwapEMAWeights(swap_on_epoch, MOMENTUM)
    await model.fit(X, Y, 16, 2, 0, [swap, see], shuffle=False, validation_data=(X, Y))
    for epoch in range(2):
        weights, averages = await averages_by_hand(4 * (epoch + 1))
        assert_close(seen["on_test_begin"][epoch], averages)
        assert_close(seen["on_epoch_end"][epoch], averages if swap_on_epoch else weights)
        assert_close(seen["on_train_batch_end"][4 * epoch + 3], weights)
    assert_close(seen["on_train_end"][0], averages)
    await model.evaluate(X, Y, callbacks=[swap])
    assert_close(await model.get_weights(), averages)
    await model.set_weights(FIRST)
    await model.fit(X, Y, 16, 1, 0, [swap], shuffle=False)
    assert_close(await model.get_weights(), (await averages_by_hand(4))[1])


@pytest.mark.parametrize("swap_on_epoch", [False, True])
@pytest.mark.parametrize("save_freq", ["epoch", 3])
async def test_averages_go_on_from_a_backup(model, swap_on_epoch, save_freq, tmp_path):
    def stop(batch, logs):
        stopped.append(batch)
        if len(stopped) == 8:
            raise EOFError

    stopped = []
    stopping = callbacks.LambdaCallback(on_train_batch_begin=stop)
    for more, ending in (([stopping], pytest.raises(EOFError)), ([], contextlib.nullcontext())):
        await model.set_weights(FIRST)
        swap = callbacks.SwapEMAWeights(swap_on_epoch, MOMENTUM)
        backup = callbacks.BackupAndRestore(tmp_path, save_freq)
        with ending:
            await model.fit(X, Y, 16, 2, 0, [swap, backup, *more], shuffle=False)
    assert_close(await model.get_weights(), (await averages_by_hand(8))[1])


async def test_averages_have_copies_on_all_devices(graph):
    found = []
    for devices in (1, 2):
        with af.Graph().as_default():
            model = af.Sequential([af.layers.Dense(1, kernel_initializer="ones", input_shape=[6])])
            strategy = af.distribute.MirroredStrategy([f"/device:CPU:{number}" for number in range(devices)])
            model.compile("sgd", "mse", strategy=strategy)
            async with af.Session(config=af.Config(device_count={"CPU": 2})):
                swap = callbacks.SwapEMAWeights(True, MOMENTUM)
                await model.fit(X, X[:, :1], 16, 3, 0, [swap], shuffle=False)
                found.append(await model.get_weights())
    assert_close(*found)


def test_a_momentum_that_forgets_nothing_is_refused():
    with pytest.raises(ValueError, match="momentum is at least 0 and less than 1, not 1"):
        callbacks.SwapEMAWeights(momentum=1)
