"""Weights that are restored by their names: from checkpoints and plain files, all of them or those that fit."""

import numpy as np
import pytest
from safetensors.numpy import load_file

import aioflow as af
from aioflow import layers


def network(classes=3, head="head"):
    return af.Sequential([layers.Input([4]), layers.Dense(5, name="body"), layers.Dense(classes, name=head)])


@pytest.fixture
async def saved(tmp_path):
    """The paths of a checkpoint and of a plain file of the same weights, and their values."""
    with af.Graph().as_default():
        async with network() as model:
            await model.save_weights(str(tmp_path / "saved"))
            (plain,) = af.gfile.Glob(str(tmp_path / "saved" / "*.safetensors"))
            return str(tmp_path / "saved"), plain, await model.get_weights()


def assert_equal(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", [0, 1], ids=["checkpoint", "file"])
async def test_weights_that_fit_are_restored_and_all_others_keep_their_values(saved, kind):
    path, values = saved[kind], saved[2]
    refusals = af.errors.InvalidArgumentError, af.errors.NotFoundError
    for classes, head, kept in ((3, "head", []), (7, "head", ["head/kernel", "head/bias"]), (3, "new", None)):
        with af.Graph().as_default():
            async with network(classes, head) as model:
                before = await model.get_weights()
                skipped = await model.load_weights(path, skip_mismatch=True)
                assert skipped == (["new/kernel", "new/bias"] if kept is None else kept)
                assert_equal((await model.get_weights())[:2], values[:2])
                assert_equal((await model.get_weights())[2:], values[2:] if kept == [] else before[2:])
                if skipped:
                    with pytest.raises(refusals[kept is None], match=r"(head|new)/bias"):
                        await model.load_weights(path)


async def test_a_path_that_ends_in_safetensors_becomes_a_plain_file(tmp_path):
    path = str(tmp_path / "weights.safetensors")
    with af.Graph().as_default():
        async with network() as model:
            assert await model.save_weights(path) == path
            values = await model.get_weights()
    found = load_file(path)
    assert_equal([found[name] for name in ("body/kernel", "body/bias", "head/kernel", "head/bias")], values)
    with af.Graph().as_default():
        async with network() as model:
            await model.load_weights(path)
            assert_equal(await model.get_weights(), values)


async def test_a_file_without_any_weight_that_fits_is_refused(saved):
    with af.Graph().as_default():
        async with af.Sequential([layers.Input([2]), layers.Dense(1, name="other")]) as model:
            with pytest.raises(af.errors.InvalidArgumentError, match=r"has none of the 2 weights .*'other/kernel' of"):
                await model.load_weights(saved[0], skip_mismatch=True)
            with pytest.raises(af.errors.NotFoundError):
                await model.load_weights("nowhere", skip_mismatch=True)
            for skip in (False, True):
                with pytest.raises(af.errors.NotFoundError, match=r"no such file: .*nothere.safetensors"):
                    await model.load_weights("nothere.safetensors", skip_mismatch=skip)
