"""Saved models of TensorFlow 1 and 2 are loaded with signatures, variables, tables and assets."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import aioflow as af

DATA = Path(__file__).parents[1] / "tensorflow_files" / "data"
X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
WORDS = np.array([["the", "cat"], ["sat", "dog"], ["cat", "cat"]])


async def result(path, feeds, session):
    model = await af.saved_model.load(path, session)
    signature = model.signatures["serving_default"]
    (output,) = signature.outputs.values()
    return model, await session.run(output, {signature.inputs[name]: value for name, value in feeds.items()})


async def test_a_model_of_tensorflow_1_has_its_variables_its_table_and_its_asset(tmp_path):
    shutil.copytree(DATA / "model1", tmp_path / "moved")
    async with af.Session(graph=af.Graph()) as session:
        model, y = await result(tmp_path / "moved", {"words": WORDS}, session)
        np.testing.assert_allclose(y, np.load(DATA / "model1.npy"), 1e-5)
        assert model.assets == {"words.txt": f"{tmp_path}/moved/assets/words.txt"}
        assert {name: each.trainable for name, each in model.variables.items()} == {"rows": True, "weights": True}
        assert model.signatures["serving_default"].describe().startswith("(words: string[?, 2]) -> (y: float32")


async def test_a_model_of_tensorflow_2_is_inlined_as_often_as_it_is_loaded():
    async with af.Session(graph=af.Graph()) as session:
        for _ in range(2):
            model, y = await result(DATA / "model2", {"x": X}, session)
            np.testing.assert_allclose(y, np.load(DATA / "model2.npy"), 1e-5)
            await session.run([each.assign(each * 0.0) for each in model.variables.values()])
        assert len(session.graph.get_collection(af.GraphKeys.TRAINABLE_VARIABLES)) == 4


async def test_a_model_is_saved_again_in_the_format_of_aioflow(tmp_path):
    async with af.Session(graph=af.Graph()) as session:
        model, y = await result(DATA / "model2", {"x": X}, session)
        await af.saved_model.save(session, tmp_path / "own", signatures=dict(model.signatures))
    async with af.Session(graph=af.Graph()) as session:
        np.testing.assert_array_equal((await result(tmp_path / "own", {"x": X}, session))[1], y)


@pytest.mark.parametrize("file", ["saved_model.pb", "variables/variables.index", "assets/words.txt"])
async def test_a_model_without_one_of_its_files_is_refused(tmp_path, file):
    shutil.copytree(DATA / "model1", tmp_path / "model")
    (tmp_path / "model" / file).unlink()
    async with af.Session(graph=af.Graph()) as session:
        with pytest.raises((af.errors.NotFoundError, af.errors.DataLossError)):
            await af.saved_model.load(tmp_path / "model", session)


async def test_a_damaged_model_is_refused_and_nothing_is_built(tmp_path):
    shutil.copytree(DATA / "model1", tmp_path / "model")
    file = tmp_path / "model" / "saved_model.pb"
    file.write_bytes(file.read_bytes()[:-20])
    async with af.Session(graph=af.Graph()) as session:
        with pytest.raises(af.errors.DataLossError, match="SavedModel of TensorFlow"):
            await af.saved_model.load(tmp_path / "model", session)
        assert session.graph.version == 0
