"""Safetensors files that others wrote: opened as checkpoints are."""

import json

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from aioflow import errors
from aioflow.checkpoint import differences, import_safetensors
from aioflow.files.filesystem import Files
from aioflow.tensors import dtypes

STATE = {
    "layer.weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "layer.bias": np.arange(4).astype(ml_dtypes.bfloat16),
    "mask": np.array([True, False]),
    "scalar": np.array(3, np.int64),
    "empty": np.zeros((0, 2), np.float16),
    "complex": np.array([1 + 2j], np.complex64),
    "eight": np.array([1, 2, 0.5]).astype(ml_dtypes.float8_e4m3fn),
}


def check(checkpoint, state):
    assert checkpoint.tensors.keys() == state.keys()
    for name, value in state.items():
        found = checkpoint.read(name)
        assert (found.dtype, found.shape, found.tolist()) == (value.dtype, value.shape, value.tolist())
    checkpoint.verify()


def folder(tmp_path, weight_map=None, index="model.safetensors.index.json"):
    """A model in two files, as from the Hugging Face hub."""
    names = [*STATE]
    shards = {"model-1.safetensors": names[:3], "model-2.safetensors": names[3:]}
    for file, held in shards.items():
        save_file({name: STATE[name] for name in held}, tmp_path / file, {"format": "pt"})
    placed = {name: file for file, held in shards.items() for name in held}
    told = {"metadata": {"total_size": 1}, "weight_map": weight_map or placed}
    (tmp_path / index).write_text(json.dumps(told))
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


def test_one_file_is_read(tmp_path):
    save_file(STATE, tmp_path / "model.safetensors", {"format": "pt"})
    check(import_safetensors(tmp_path / "model.safetensors"), STATE)
    check(import_safetensors(tmp_path), STATE)


@pytest.mark.parametrize("index", ["model.safetensors.index.json", "diffusion_pytorch_model.safetensors.index.json"])
def test_a_folder_with_an_index_is_read(tmp_path, index):
    check(import_safetensors(f"{folder(tmp_path, index=index)}/"), STATE)


def test_slices_are_read_and_differences_told(tmp_path):
    checkpoint = import_safetensors(folder(tmp_path))
    assert checkpoint.read("layer.weight", (1, 1), (2, 2)).tolist() == [[5, 6], [9, 10]]
    wanted = {name: (stored.dtype, stored.shape) for name, stored in checkpoint.tensors.items()}
    assert differences(checkpoint, wanted) == []
    assert differences(checkpoint, wanted | {"other": (dtypes.int8, ())}) == ["'other' is missing"]


@pytest.mark.parametrize("file", ["../model.safetensors", "/model.safetensors", "sub/model.safetensors", "a.bin"])
def test_an_index_names_no_files_elsewhere(tmp_path, file):
    with pytest.raises(errors.PermissionDeniedError, match="no other file is read"):
        import_safetensors(folder(tmp_path, {"a": file}))


def test_an_index_is_of_names(tmp_path):
    with pytest.raises(errors.DataLossError, match="'a' of type"):
        import_safetensors(folder(tmp_path, {"a": 1}))


def test_an_index_says_what_is_in_which_file(tmp_path):
    placed = dict.fromkeys(STATE, "model-1.safetensors")
    with pytest.raises(errors.DataLossError, match=r"'scalar' is not in 'model-1\.safetensors'"):
        import_safetensors(folder(tmp_path, placed))


def test_an_index_leads_through_no_link(tmp_path):
    there = folder(tmp_path)
    (tmp_path / "model-1.safetensors").rename(tmp_path / "blob")
    (tmp_path / "model-1.safetensors").symlink_to(tmp_path / "blob")
    with pytest.raises(errors.PermissionDeniedError, match="is a link"):
        import_safetensors(there)


def test_one_file_may_be_named_by_a_link(tmp_path):
    save_file(STATE, tmp_path / "blob")
    (tmp_path / "model.safetensors").symlink_to(tmp_path / "blob")
    check(import_safetensors(tmp_path / "model.safetensors"), STATE)
    with pytest.raises(errors.PermissionDeniedError, match="may not be used"):
        import_safetensors(tmp_path / "model.safetensors", Files([tmp_path / "elsewhere"]))


def test_a_file_that_an_index_names_may_not_be_missing(tmp_path):
    there = folder(tmp_path)
    (there / "model-2.safetensors").unlink()
    with pytest.raises(errors.NotFoundError, match=r"model-2\.safetensors"):
        import_safetensors(there)


def test_what_is_a_model_is_not_guessed(tmp_path):
    for there in (tmp_path / "none", tmp_path / "empty"):
        with pytest.raises(errors.NotFoundError):
            import_safetensors(there)
    (tmp_path / "empty").mkdir()
    with pytest.raises(errors.OpError):
        import_safetensors(tmp_path / "empty")
    save_file(STATE, tmp_path / "a.safetensors")
    save_file(STATE, tmp_path / "b.safetensors")
    with pytest.raises(errors.NotFoundError, match="exactly one safetensors file"):
        import_safetensors(tmp_path)


def test_two_files_may_not_hold_the_same(tmp_path):
    there = folder(tmp_path)
    save_file(STATE, there / "model-2.safetensors")
    with pytest.raises(errors.DataLossError, match="do not make up"):
        import_safetensors(there)
