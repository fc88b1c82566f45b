"""Checkpoints that TensorFlow wrote are read as aioflow's own are; damage is found."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import aioflow as af
from aioflow.checkpoint import Checkpoint, latest_checkpoint
from aioflow.checkpoint.bundle import slice_key

FOLDER = Path(__file__).parents[1] / "tensorflow_files" / "data" / "checkpoint"
PATH = FOLDER / "model.ckpt-3"
PARTED = np.array([[1, 1], [1, 1], [1, 1], [2, 2], [2, 2]], np.float32)


def test_tensors_in_one_piece_or_several_and_texts_are_read():
    found = Checkpoint.open(PATH)
    assert len(found.tensors) == 23
    np.testing.assert_array_equal(found.read("parted"), PARTED)
    np.testing.assert_array_equal(found.read("parted", [2, 1], [2, 1]), [[1], [2]])
    assert found.read("texts").tolist() == [b"a", b"bcd", b""]
    assert found.read("scope/step") == 7
    assert [found.read(f"scope/layer_{i}/bias").tolist() for i in range(20)] == [[i] * 3 for i in range(20)]
    np.testing.assert_array_equal(found.map(["parted"])["parted"], PARTED)
    found.verify()


def test_the_functions_for_checkpoints_of_aioflow_read_it():
    assert af.train.load_variable(PATH, "scope/layer_4/bias").tolist() == [4, 4, 4]
    assert af.train.list_variables(FOLDER)[0] == ("parted", [5, 2])
    assert latest_checkpoint(FOLDER) == str(PATH)
    assert af.train.checkpoint_exists(PATH)


async def test_savers_and_initializers_restore_from_it():
    with af.Graph().as_default() as graph:
        parted = af.Variable(af.zeros([5, 2]), name="parted")
        other = af.Variable(af.zeros([3]), name="other")
        af.train.init_from_checkpoint(PATH, {"scope/layer_7/bias": other})
        saver = af.train.Saver([parted], extra=True)
    async with af.Session(graph=graph) as session:
        await saver.restore(session, PATH)
        await session.run(other.initializer)
        np.testing.assert_array_equal(await session.run(parted), PARTED)
        assert (await session.run(other)).tolist() == [7, 7, 7]


@pytest.mark.parametrize("file", ["model.ckpt-3.index", "model.ckpt-3.data-00000-of-00001"])
def test_every_changed_byte_is_found(tmp_path, file):
    whole = (FOLDER / file).read_bytes()
    sound = {name: Checkpoint.open(PATH).read(name).tolist() for name in Checkpoint.open(PATH).tensors}
    shutil.copytree(FOLDER, tmp_path / "damaged")
    for place in range(0, len(whole), 37):
        changed = bytearray(whole)
        changed[place] ^= 5
        (tmp_path / "damaged" / file).write_bytes(changed)
        try:
            found = Checkpoint.open(tmp_path / "damaged" / PATH.name)
            values = {name: found.read(name).tolist() for name in found.tensors}
        except (af.errors.DataLossError, af.errors.UnimplementedError):
            continue
        assert values == sound, f"byte {place} was not missed: it is padding"


def test_files_that_are_missing_or_cut_off_are_named(tmp_path):
    shutil.copytree(FOLDER, tmp_path / "cut")
    data = tmp_path / "cut" / "model.ckpt-3.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(af.errors.DataLossError, match=r"data-00000.* lies behind"):
        Checkpoint.open(tmp_path / "cut" / PATH.name)
    data.unlink()
    with pytest.raises(af.errors.NotFoundError, match="data-00000"):
        Checkpoint.open(tmp_path / "cut" / PATH.name)
    index = tmp_path / "cut" / "model.ckpt-3.index"
    index.write_bytes(index.read_bytes()[:-9])
    with pytest.raises(af.errors.DataLossError, match="cut off"):
        Checkpoint.open(tmp_path / "cut" / PATH.name)


def test_keys_of_slices_have_the_order_of_their_numbers():
    places = [0, 1, 63, 64, 8191, 8192, 1 << 20, 1 << 40]
    keys = [slice_key(b"name", [(place, 5)]) for place in places]
    assert keys == sorted(keys)
    assert slice_key(b"v", [(0, -1)]) == b"\0v\0\x01\x01\x01\x80\x7f"
    assert slice_key(b"a\0b", [])[:6] == b"\0a\0\xffb\0"
