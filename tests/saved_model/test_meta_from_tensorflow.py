"""Meta graphs that TensorFlow 1 wrote: trainings go on where they were, with collections, variables and Savers."""

import logging
from pathlib import Path

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.tensorflow_files import messages

DATA = Path(__file__).parents[1] / "tensorflow_files" / "data"
X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
FEEDS = {"x:0": X, "y:0": np.float32([[1], [0.5]])}
VARIABLES = {
    "training1": ["dense/weights/part_0", "dense/weights/part_1", "dense/bias/part_0"],
    "training2": ["dense/weights/part_0", "dense/bias/part_0"],
}


def names(items):
    return [item.op.name for item in items]


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize("name", VARIABLES)
async def test_a_training_of_tensorflow_goes_on_from_its_checkpoint(name, graph, tmp_path):
    saver = af.train.import_meta_graph(DATA / name / "model.meta")
    (train,), (step,) = graph.get_collection("train"), graph.get_collection("global_step")
    (shown,), (start,) = graph.get_collection("all"), graph.get_collection("start")
    assert graph.get_collection("numbers") == [3]
    assert names(af.trainable_variables()) == VARIABLES[name]
    assert step in af.global_variables()
    async with af.Session(graph=graph) as session:
        await saver.restore(session, DATA / name / "model")
        losses = [(await session.run(["loss:0", train], FEEDS))[0] for _ in range(3)]
        np.testing.assert_allclose(losses, np.load(DATA / f"{name}.npy"), 1e-5)
        assert await session.run(step) == 5
        (value,) = af.Summary.FromString(await session.run(shown, FEEDS)).value
        assert value.tag == "shown"
        path = await saver.save(session, tmp_path / "again", step)
        await session.run(start)
        assert [float(np.max(each)) for each in await session.run(af.trainable_variables())] == pytest.approx(
            [0.25] * (len(VARIABLES[name]) - 1) + [0.5]
        )
        await saver.restore(session, path)
        assert await session.run(step) == 5
        assert {key.partition("/")[0] for key, _ in af.train.list_variables(path)} >= {"dense", "global_step"}
        assert ("dense/weights", [4, 1]) in [(key, [*shape]) for key, shape in af.train.list_variables(path)]


async def test_a_training_lies_below_a_scope_and_takes_other_inputs(graph):
    x = af.constant(X, name="mine")
    path = DATA / "training2" / "model"
    saver = af.train.import_meta_graph(f"{path}.meta", import_scope="copy", input_map={"x:0": x})
    assert names(af.trainable_variables()) == ["copy/dense/weights/part_0", "copy/dense/bias/part_0"]
    more = af.gradients(graph.get_tensor_by_name("copy/loss:0"), af.trainable_variables())
    async with af.Session(graph=graph) as session:
        await saver.restore(session, path)
        loss, slopes = await session.run(["copy/loss:0", more], {"copy/y:0": FEEDS["y:0"]})
    assert loss == pytest.approx(np.load(f"{path.parent}.npy")[0], 1e-5)
    assert [slope.shape for slope in slopes] == [(4, 1), (1,)]


def changed(change):
    meta = messages.MetaGraph.FromString((DATA / "training2" / "model.meta").read_bytes())
    change(meta)
    return meta.SerializeToString()


def with_another_initializer(meta):
    items = meta.collection_def["trainable_variables"].bytes_list.value
    items[-1] = messages.VariableDef(variable_name="dense/bias/part_0:0", initializer_name="gone").SerializeToString()


def with_op(meta):
    meta.graph_def.node.add(name="strange", op="Strange")


def with_another_saved_tensor(meta):
    next(node for node in meta.graph_def.node if node.op == "SaveV2").input[3] = "loss"


DAMAGED = {
    "no message": (b"\xff", errors.DataLossError, "no MetaGraph of TensorFlow"),
    "no graph": (b"", errors.DataLossError, "has nodes, and this one has none"),
    "an unknown op": (changed(with_op), errors.UnimplementedError, r"Strange \(node 'strange'\)"),
    "a Saver of something else": (
        changed(with_another_saved_tensor), errors.DataLossError, r"Saver saves \['loss'\], which are no variables",
    ),
    "a variable without an initializer": (
        changed(with_another_initializer), errors.DataLossError,
        "variable 'dense/bias/part_0' or its initializer is not in the graph",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGED)
def test_damage_is_named_and_nothing_is_built(what, graph, tmp_path):
    data, error, text = DAMAGED[what]
    (tmp_path / "x.meta").write_bytes(data)
    with pytest.raises(error, match=text):
        af.train.import_meta_graph(tmp_path / "x.meta")
    assert (graph.get_operations(), graph.get_all_collection_keys()) == ([], [])


def test_names_that_are_not_there_are_errors_or_logged(graph, tmp_path, caplog):
    with pytest.raises(ValueError, match="input_map has 'z:0', which is not in"):
        af.train.import_meta_graph(DATA / "training2" / "model.meta", input_map={"z:0": 1.0})
    with pytest.raises(errors.NotFoundError):
        af.train.import_meta_graph(tmp_path / "gone.meta")

    def change(meta):
        meta.collection_def["train"].node_list.value.append(b"save/restore_all")
        meta.ClearField("saver_def")

    (tmp_path / "x.meta").write_bytes(changed(change))
    with caplog.at_level(logging.WARNING, "aioflow.saved_model"):
        saver = af.train.import_meta_graph(tmp_path / "x.meta")
    assert "save/restore_all" in caplog.text
    assert len(graph.get_collection("train")) == 1
    assert names(saver.variables) == names(af.global_variables())
