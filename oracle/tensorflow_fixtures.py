"""Writes the files of TensorFlow that tests of aioflow read: `python -m oracle.tensorflow_fixtures`.

Each has its inputs and the numbers that TensorFlow gives for them beside it.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from oracle import tensorflow_models as models
from oracle.both import tensorflow

DATA = Path(__file__).parents[1] / "tests" / "tensorflow_files" / "data"
X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


def write_graphs(tf: Any) -> None:
    for model in models.FUNCTIONS:
        with tf.Graph().as_default() as graph:
            x = tf.placeholder(tf.float32, [None, 4], name="x")
            y = tf.identity(model(tf, x), name="y")
            with tf.Session(graph=graph) as session:
                np.save(DATA / f"{model.__name__}.npy", session.run(y, {x: X}))
        (DATA / f"{model.__name__}.pb").write_bytes(graph.as_graph_def().SerializeToString())


def write_checkpoint(tf: Any) -> None:
    """A checkpoint with a variable in parts, texts, and many names, in two files."""
    folder = DATA / "checkpoint"
    folder.mkdir()
    with tf.Graph().as_default() as graph:
        tf.get_variable("parted", [5, 2], partitioner=tf.fixed_size_partitioner(2), initializer=tf.zeros_initializer())
        parts = tf.global_variables()
        changes = [part.assign(part + 1.0 + i) for i, part in enumerate(parts)]
        tf.Variable(["a", "bcd", ""], name="texts")
        tf.Variable(7, dtype=tf.int64, name="scope/step")
        for i in range(20):
            tf.Variable([float(i)] * 3, name=f"scope/layer_{i}/bias")
        with tf.Session(graph=graph) as session:
            session.run(tf.global_variables_initializer())
            session.run(changes)
            path = str(folder / "model.ckpt")
            tf.train.Saver(sharded=True).save(session, path, 3, write_meta_graph=False, write_state=False)


def write_first_model(tf: Any) -> None:
    """A saved model of TensorFlow 1: an embedding of words by a table in an asset, and a dense layer."""
    folder = DATA / "model1"
    vocabulary = Path("words.txt")  # the model has its path
    vocabulary.write_text("the\ncat\nsat\n")
    with tf.Graph().as_default() as graph:
        words = tf.placeholder(tf.string, [None, 2], name="words")
        index = tf.lookup.TextFileIndex
        columns = tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER
        table = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(str(vocabulary), *columns), 3)
        rows = tf.get_variable("rows", [4, 3], initializer=tf.random_normal_initializer(seed=1))
        weights = tf.Variable(np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2), name="weights", use_resource=False)
        y = tf.nn.softmax(tf.matmul(tf.reduce_mean(tf.nn.embedding_lookup(rows, table.lookup(words)), 1), weights))
        with tf.Session(graph=graph) as session:
            session.run([tf.global_variables_initializer(), tf.tables_initializer()])
            np.save(DATA / "model1.npy", session.run(y, {words: WORDS}))
            signature = tf.saved_model.predict_signature_def({"words": words}, {"y": y})
            builder = tf.saved_model.Builder(str(folder))
            builder.add_meta_graph_and_variables(
                session,
                ["serve"],
                {"serving_default": signature},
                main_op=tf.tables_initializer(),
                assets_collection=tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
            )
            builder.save()
    vocabulary.unlink()


def write_trainings(tf: Any) -> None:
    """Meta graphs and checkpoints of two trainings after two steps, and their losses in the next three."""
    for name, resource, optimizer, parts in (
        ("training1", False, tf.train.AdamOptimizer(0.1), 2),
        ("training2", True, tf.train.MomentumOptimizer(0.1, 0.9), 1),
    ):  # fmt: skip
        with tf.Graph().as_default() as graph:
            _write_training(tf, graph, name, resource, optimizer, parts)


def _write_training(tf: Any, graph: Any, name: str, resource: bool, optimizer: Any, parts: int) -> None:
    x, y = tf.placeholder(tf.float32, [None, 4], name="x"), tf.placeholder(tf.float32, [None, 1], name="y")
    with tf.variable_scope("dense", use_resource=resource, partitioner=tf.fixed_size_partitioner(parts)):
        weights = tf.get_variable("weights", [4, 1], initializer=tf.constant_initializer(0.25))
        bias = tf.get_variable("bias", [1], initializer=tf.constant_initializer(0.5), partitioner=None)
    loss = tf.reduce_mean(tf.square(tf.nn.relu(tf.tanh(tf.matmul(x, weights) + bias)) - y), name="loss")
    train = optimizer.minimize(loss, tf.train.get_or_create_global_step(), name="train")
    start = tf.global_variables_initializer()
    tf.summary.scalar("shown", loss)
    for key, item in {"all": tf.summary.merge_all(), "start": start, "train": train, "numbers": 3}.items():
        tf.add_to_collection(key, item)
    saver = tf.train.Saver(max_to_keep=3)
    feeds = {x: X, y: [[1.0], [0.5]]}
    with tf.Session(graph=graph) as session:
        session.run(start)
        session.run(train, feeds)
        session.run(train, feeds)
        saver.save(session, str(DATA / name / "model"), write_state=False)
        np.save(DATA / f"{name}.npy", [session.run([loss, train], feeds)[0] for _ in range(3)])


WORDS = np.array([["the", "cat"], ["sat", "dog"], ["cat", "cat"]])


def write_second_model() -> None:
    """A saved model of TensorFlow 2, in a process of its own: the others build graphs."""
    import multiprocessing

    process = multiprocessing.get_context("spawn").Process(target=_second_model)
    process.start()
    process.join()


def _second_model() -> None:
    import tensorflow as tf

    class Model(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = tf.Variable(np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2))
            self.bias = tf.Variable([0.5, -0.5])

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, "x")])
        def __call__(self, x: Any) -> Any:
            y = tf.matmul(x, self.weights) + self.bias
            for _ in tf.range(3):
                y = tf.where(tf.reduce_sum(y) > 0, y * 0.5, y + self.bias)
            return {"y": y}

    model = Model()
    np.save(DATA / "model2.npy", model(tf.constant(X))["y"].numpy())
    tf.saved_model.save(model, str(DATA / "model2"), signatures=model.__call__)


def main() -> None:
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    tf = tensorflow()
    write_graphs(tf)
    write_checkpoint(tf)
    write_trainings(tf)
    os.chdir(tempfile.mkdtemp())
    write_first_model(tf)
    write_second_model()


if __name__ == "__main__":
    main()
