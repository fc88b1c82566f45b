"""Graphs that leave their Python source, with their collections, and come back."""

import asyncio
import json
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import aioflow as af
from aioflow import errors

BATCH = np.arange(8, dtype=np.float32).reshape(2, 4) / 8


def model():
    """A classifier that learns by Adam, from a queue, with a loop and a branch, and a collection of each kind."""
    with af.Graph().as_default() as graph:
        queue = af.FIFOQueue(10, [af.float32], shapes=[[4]], name="input")
        af.train.add_queue_runner(af.train.QueueRunner(queue, [queue.enqueue(BATCH[0] + 1)]))
        x = af.placeholder_with_default(queue.dequeue_many(2), [None, 4], name="x")
        with af.device("/device:CPU:0"):
            weights = af.get_variable("dense/weights", [4, 4], initializer=af.random_normal_initializer(seed=1))
        bias = af.Variable(af.zeros([4]), name="bias")
        turns = af.Variable(2, trainable=False, name="turns")
        y = af.while_loop(lambda i, v: i < turns, lambda i, v: (i + 1, af.tanh(af.matmul(v, weights) + bias)), [0, x])[
            1
        ]
        y = af.cond(af.reduce_sum(y) > 0, lambda: y + bias, lambda: y - bias)
        loss = af.identity(af.reduce_mean(y * y) + af.reduce_sum(af.nn.embedding_lookup(weights, [0])), name="loss")
        step = af.train.create_global_step()
        af.train.AdamOptimizer(0.1).minimize(loss, global_step=step, name="train")
        af.identity(af.train.ExponentialMovingAverage(0.9).apply([bias]).name, name="average")
        for item in (loss, loss.op, 2.5, "text", b"\xff", [1, {"a": None}], af.SparseTensor([[0]], [loss], [1])):
            af.add_to_collection("mixed", item)
        af.add_to_collection("mixed", af.IndexedSlices(af.stack([loss]), af.constant([0])))
        af.add_to_collection(af.GraphKeys.INIT_OP, af.global_variables_initializer())
        saver = af.train.Saver({"w": weights, "b": bias, "rest": turns}, max_to_keep=3)
        af.add_to_collection(af.GraphKeys.SAVERS, af.train.Saver(name="everything"))
    return graph, saver


async def three_steps(session):
    return [float((await session.run(["loss:0", "train"], {"x:0": BATCH}))[0]).hex() for _ in range(3)]


IN_ANOTHER_PROCESS = """
import asyncio, json, sys, numpy as np, aioflow as af
meta, path = sys.argv[1:]
with af.Graph().as_default() as graph:
    af.train.import_meta_graph(meta)
    (saver,) = af.get_collection(af.GraphKeys.SAVERS)
    step = af.train.get_global_step()
async def main():
    async with af.Session(graph=graph) as session:
        await saver.restore(session, path)
        batch = np.arange(8, dtype=np.float32).reshape(2, 4) / 8
        losses = [(await session.run(["loss:0", "train"], {"x:0": batch}))[0] for _ in range(3)]
        return [float(loss).hex() for loss in losses], int(await session.run(step))
print(json.dumps(asyncio.run(main())))
"""


@pytest.mark.slow
def test_a_model_leaves_its_source_and_is_trained_on_in_a_fresh_process_with_the_same_bits(tmp_path):
    async def first():
        graph, saver = model()
        (everything,) = graph.get_collection(af.GraphKeys.SAVERS)
        async with af.Session(graph=graph) as session:
            await session.run(graph.get_collection(af.GraphKeys.INIT_OP))
            await three_steps(session)
            path = await everything.save(session, tmp_path / "model")
            await asyncio.to_thread(saver.export_meta_graph, tmp_path / "model.meta")
            return path, await three_steps(session)

    path, losses = asyncio.run(first())
    command = [sys.executable, "-c", IN_ANOTHER_PROCESS, str(tmp_path / "model.meta"), path]
    found = subprocess.run(command, capture_output=True, check=True, text=True)
    assert json.loads(found.stdout) == [losses, 6]


async def test_all_collections_come_back_under_another_scope(tmp_path):
    graph, saver = model()
    meta = saver.export_meta_graph(tmp_path / "meta", clear_devices=True)
    with af.Graph().as_default() as again:
        af.constant(1, name="loss")
        restored = af.train.import_meta_graph(tmp_path / "meta", import_scope="copy")
        same = af.train.import_meta_graph(meta, import_scope="other", clear_devices=True)
    assert not [each.name for each in again.get_operations() if each.device]
    variables, trainable = (again.get_collection(key, "copy/") for key in ("variables", "trainable_variables"))
    assert [each.op.name for each in variables] == [f"copy/{v.op.name}" for v in graph.get_collection("variables")]
    assert [any(each is v for v in variables) for each in trainable] == [True, True]
    mixed = again.get_collection("mixed")[:8]
    loss = again.get_tensor_by_name("copy/loss:0")
    assert mixed[:6] == [loss, loss.op, 2.5, "text", b"\xff", [1, {"a": None}]]
    assert mixed[6].values.op.inputs[0] is loss
    assert mixed[7].values.op.inputs[0] is loss
    assert [each.op.name for each in restored.variables] == ["copy/dense/weights", "copy/bias", "copy/turns"]
    assert restored.as_saver_def().max_to_keep == same.as_saver_def().max_to_keep == 3
    runner = again.get_collection(af.GraphKeys.QUEUE_RUNNERS)[0]
    assert (runner.queue.queue_ref.name, runner.enqueue_ops[0].name) == ("copy/input:0", "copy/input_enqueue")
    assert runner.queue_closed_exception_types == (errors.OutOfRangeError,)
    async with af.Session(graph=again) as session:
        await session.run(again.get_collection(af.GraphKeys.INIT_OP)[0])
        async with af.train.Coordinator() as coord:
            runner.create_tasks(session, coord)
            assert (await session.run("copy/x:0")).tolist() == [[1, 1.125, 1.25, 1.375]] * 2
            coord.request_stop()
        path = await restored.save(session, tmp_path / "checkpoint")
    assert af.train.list_variables(path) == [("b", [4]), ("rest", []), ("w", [4, 4])]
    async with af.Session(graph=graph) as session:
        await saver.restore(session, path)  # the names are those of the first graph


async def test_a_part_below_a_scope_takes_its_inputs_by_a_map():
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [2], name="x")
        with af.name_scope("layer"):
            weight = af.Variable([2.0, 3.0], name="weight")
            with af.control_dependencies([x]):
                y = af.cond(x[0] > 0, lambda: x * weight, lambda: -x, name="y")
        af.add_to_collection("outputs", y)
        af.add_to_collection("outputs", x)
        meta = af.train.export_meta_graph(export_scope="layer")
    with af.Graph().as_default() as again, pytest.raises(ValueError, match="there is no 'x' to take an input from"):
        af.train.import_meta_graph(meta)
    assert again.version == 0
    with again.as_default():
        fed = af.constant([5.0, 7.0])
        saver = af.train.import_meta_graph(meta, import_scope="new", input_map={"x:0": fed, "^x": fed.op})
        (out,) = af.get_collection("outputs")
        init = af.global_variables_initializer()
    assert [each.op.name for each in saver.variables] == ["new/weight"]
    async with af.Session(graph=again) as session:
        await session.run(init)
        assert (await session.run(out)).tolist() == [10.0, 21.0]
    with graph.as_default(), pytest.raises(ValueError, match="no operation below 'nothing/'"):
        af.train.export_meta_graph(export_scope="nothing")


def test_what_cannot_be_stored_is_named_and_left_out(caplog):
    with af.Graph().as_default():
        af.Variable(1.0, constraint=af.abs, name="bounded")
        af.add_to_collection("functions", print)
        af.add_to_collection("functions", float("nan"))
        meta = af.train.export_meta_graph()
        assert af.train.export_meta_graph(collection_list=["functions"]).collection_def == {}
    assert "functions" not in meta.collection_def
    assert "<built-in function print> exists in this process alone" in caplog.text
    assert "the constraint of variable 'bounded:0' is a function" in caplog.text
    with af.Graph().as_default():
        af.py_func(abs, [1.0], af.float32)
        with pytest.raises(ValueError, match="exists only in this process"):
            af.train.export_meta_graph()


def test_savers_may_be_left_out():
    graph, saver = model()
    with graph.as_default():
        assert af.GraphKeys.SAVERS not in saver.export_meta_graph(clear_extraneous_savers=True).collection_def
        assert af.train.export_meta_graph().saver_def is None
    with af.Graph().as_default():
        assert af.train.import_meta_graph(af.MetaGraphDef(af.GraphDef())) is None


async def test_a_meta_graph_and_a_saved_model_are_told_apart(tmp_path):
    with af.Graph().as_default() as graph:
        y = af.constant(1)
        af.train.export_meta_graph(tmp_path / "meta")
        with pytest.raises(errors.AlreadyExistsError):
            af.train.export_meta_graph(tmp_path / "meta")
    async with af.Session(graph=graph) as session:
        with pytest.raises(errors.InvalidArgumentError, match=r"is a meta graph.*import_meta_graph"):
            await af.saved_model.load(tmp_path / "meta", session)
        path = await af.saved_model.save(session, tmp_path / "model", {"f": af.saved_model.Signature({}, {"y": y})})
    with pytest.raises(errors.InvalidArgumentError, match=r"is a saved model: use af.saved_model.load"):
        af.train.import_meta_graph(path)
    with pytest.raises(errors.NotFoundError):
        af.train.import_meta_graph(tmp_path / "missing")


def variables(meta):
    return meta["collections"]["variables"]


DAMAGE = {
    "a variable that is not there": lambda meta: variables(meta)[0]["variable"].update(variable_name="gone:0"),
    "a variable that is none": lambda meta: variables(meta)[0]["variable"].update(variable_name="w/read:0"),
    "a name that is a number": lambda meta: variables(meta)[0]["variable"].update(variable_name=3),
    "a kind that is none": lambda meta: variables(meta).append({"object": "os.system"}),
    "an item of two kinds": lambda meta: variables(meta).append({"value": 1, "tensor": "w:0"}),
    "an item that is none": lambda meta: variables(meta).append(7),
    "no collections": lambda meta: meta.pop("collections"),
    "a collection that is none": lambda meta: meta["collections"].update(variables="w"),
    "a Saver that is a list": lambda meta: meta.update(saver=[]),
    "a Saver without operations": lambda meta: meta["saver"].pop("nodes"),
    "a Saver of others": lambda meta: meta["saver"]["nodes"]["feeds"].update(path="gone:0"),
    "a Saver of strange options": lambda meta: meta["saver"]["options"].update(max_to_keep="many"),
    "a strange mode": lambda meta: meta["saver"]["options"].update(mode="at once"),
}


@pytest.mark.whole
@pytest.mark.parametrize("what", DAMAGE)
def test_a_forged_meta_graph_is_refused_and_adds_nothing(tmp_path, what):
    with af.Graph().as_default():
        af.Variable(1.0, name="w")
        af.train.Saver().export_meta_graph(tmp_path / "meta")
    file = Path(tmp_path, "meta", "saved_model.json")
    data = json.loads(file.read_bytes())
    del data["checksum"]
    DAMAGE[what](data["meta"])
    text = json.dumps(data, separators=(",", ":")).encode()[:-1]
    file.write_bytes(text + b',"checksum":%d}' % zlib.crc32(text))
    with af.Graph().as_default() as graph, pytest.raises(errors.DataLossError):
        af.train.import_meta_graph(tmp_path / "meta")
    assert (graph.version, graph.get_all_collection_keys()) == (0, [])


def test_names_that_are_taken_are_refused():
    with af.Graph().as_default() as graph:
        af.Variable(1.0, name="w")
        meta = af.train.export_meta_graph()
        before = graph.version
        with pytest.raises(ValueError, match=r"has an operation .* already"):
            af.train.import_meta_graph(meta)
    assert (graph.version, len(graph.get_collection("variables"))) == (before, 1)


def test_a_graph_is_written_as_text_and_as_bytes(tmp_path):
    with af.Graph().as_default() as graph:
        af.add(1, 2, name="sum")
        text = af.train.write_graph(graph, tmp_path / "new", "graph.json")
        data = af.io.write_graph(graph.as_graph_def(), tmp_path, "graph.bin", as_text=False)
        assert af.GraphDef.from_json(Path(text).read_text()) == graph.as_graph_def()
        assert af.GraphDef.from_msgpack(Path(data).read_bytes()) == graph.as_graph_def()
        with pytest.raises(TypeError, match="a graph or a GraphDef is needed, not 7"):
            af.train.write_graph(7, tmp_path, "graph")
