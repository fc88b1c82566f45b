"""Plain safetensors files: written for other programs."""

import numpy as np
import pytest
from safetensors.numpy import load_file

from aioflow import errors
from aioflow.checkpoint import export_safetensors, import_safetensors
from tests.checkpoint.test_importing import STATE, check


def test_other_programs_read_the_file_and_a_new_one_replaces_it(tmp_path):
    path = tmp_path / "state.safetensors"
    plain = {name: STATE[name] for name in ("layer.weight", "mask", "scalar", "empty")}
    for state in ({"old": np.ones(3)}, plain):
        assert export_safetensors(path, state) == str(path)
        found = load_file(path)
        assert found.keys() == state.keys()
        for name, value in state.items():
            np.testing.assert_array_equal(found[name], value)
    assert [each.name for each in tmp_path.iterdir()] == ["state.safetensors"]


def test_every_dtype_of_the_format_is_read_again(tmp_path):
    export_safetensors(tmp_path / "state.safetensors", STATE)
    check(import_safetensors(tmp_path / "state.safetensors"), STATE)


def test_texts_are_refused(tmp_path):
    with pytest.raises(errors.UnimplementedError, match="'words' is an array of texts"):
        export_safetensors(tmp_path / "state.safetensors", {"words": np.array([b"tea"], object)})
    assert list(tmp_path.iterdir()) == []
