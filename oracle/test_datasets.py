"""Datasets: aioflow's give the elements of TensorFlow's."""

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import aioflow as af

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(600)]
Build = Callable[[Any, Any, Any], Any]
"""Builds a dataset of `Dataset`, `data.experimental` and the numerical functions of a framework."""


def by_tensorflow(build: Build) -> list[Any]:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        dataset = build(tf.compat.v1.data.Dataset, tf.compat.v1.data.experimental, tf)
        element = tf.compat.v1.data.make_one_shot_iterator(dataset).get_next()
        found = []
        while True:
            try:
                found.append(plain(session.run(element)))
            except tf.errors.OutOfRangeError:
                return found


async def by_aioflow(build: Build) -> list[Any]:
    return [plain(element) async for element in build(af.data.Dataset, af.data.experimental, np)]


def plain(element: Any) -> Any:
    """An element as Python values."""
    if isinstance(element, dict):
        return {key: plain(item) for key, item in element.items()}
    if isinstance(element, tuple):
        return tuple(map(plain, element))
    return element if isinstance(element, bytes) else np.asarray(element).tolist()


def growing(data: Any, m: Any) -> Any:
    return data.range(1, 6).map(lambda number: m.ones([number], m.int64) * number)


def length(m: Any) -> Callable[[Any], Any]:
    return len if m is np else lambda row: m.shape(row)[0]


def counted(e: Any) -> Any:
    return e.Reducer(
        lambda key: (key * 10, np.int64(0)), lambda state, x: (state[0] + x, state[1] + 1), lambda total, n: (total, n)
    )


DATASETS: dict[str, Build] = {
    "unbatch": lambda d, e, m: d.range(5).batch(3).apply(e.unbatch()),
    "unique": lambda d, e, m: d.from_tensor_slices([1, 2, 1]).apply(e.unique()),
    "enumerate_dataset": lambda d, e, m: d.range(3).apply(e.enumerate_dataset(4)),
    "scan": lambda d, e, m: d.range(5).apply(e.scan(np.int64(0), lambda s, x: (s + x, s * 10))),
    "take_while": lambda d, e, m: d.range(5).apply(e.take_while(lambda x: x < 3)),
    "map_and_batch": lambda d, e, m: d.range(5).apply(e.map_and_batch(lambda x: x * 2, 2, drop_remainder=True)),
    "parallel_interleave": lambda d, e, m: d.range(5).apply(
        e.parallel_interleave(lambda x: d.from_tensors(x).repeat(4), 3, 2)
    ),
    "group_by_window": lambda d, e, m: d.range(7).apply(
        e.group_by_window(lambda x: x % 2, lambda key, window: window.batch(4), 3)
    ),
    "group_by_reducer": lambda d, e, m: d.from_tensor_slices(np.array([5, 2, 5, 1, 8], np.int64)).apply(
        e.group_by_reducer(lambda x: x % 3, counted(e))
    ),
    "bucket_by_sequence_length": lambda d, e, m: growing(d, m).apply(
        e.bucket_by_sequence_length(length(m), [3, 6], [2, 3, 1], pad_to_bucket_boundary=True)
    ),
    "bucket_by_sequence_length, padded to the batch": lambda d, e, m: growing(d, m).apply(
        e.bucket_by_sequence_length(length(m), [3, 4], [2, 3, 2])
    ),
    "dense_to_sparse_batch": lambda d, e, m: growing(d, m).apply(e.dense_to_sparse_batch(2, [6])),
    "dense_to_sparse_batch of open size": lambda d, e, m: growing(d, m).apply(e.dense_to_sparse_batch(2, [None])),
    "assert_cardinality": lambda d, e, m: d.range(4).filter(lambda x: x < 3).apply(e.assert_cardinality(3)),
    "pad_to_cardinality": lambda d, e, m: d.from_tensor_slices({"a": [1, 2]}).apply(e.pad_to_cardinality(4)),
    "choose_from_datasets": lambda d, e, m: e.choose_from_datasets([d.range(2), d.range(5, 9)], d.range(2).repeat(3)),
    "from_list": lambda d, e, m: e.from_list([([1], {"a": "x"}), ([2, 3], {"a": "y"})]),
    "Counter": lambda d, e, m: e.Counter(1, 2, af.int32 if m is np else tf.int32).take(3),
    "parse_example_dataset": lambda d, e, m: (
        d.from_tensor_slices([af.io.make_example({"age": [age], "words": [b"x"] * (age + 1)}) for age in range(3)])
        .batch(2)
        .apply(e.parse_example_dataset(features(m)))
    ),
}


def features(m: Any) -> dict[str, Any]:
    if m is np:
        return {"age": af.FixedLenFeature([], af.int64), "words": af.VarLenFeature(af.string)}
    return {"age": tf.io.FixedLenFeature([], tf.int64), "words": tf.io.VarLenFeature(tf.string)}


@pytest.mark.parametrize("name", DATASETS)
def test_elements_are_those_of_tensorflow(name: str) -> None:
    build = DATASETS[name]
    assert asyncio.run(by_aioflow(build)) == by_tensorflow(build)


def test_columns_of_files_are_those_of_tensorflow(tmp_path: Any) -> None:
    (tmp_path / "a.csv").write_text("a,b,c,d\n1,2.5,x,9999999999\n,3,y,1\n")
    (tmp_path / "b.csv").write_text("a,b,c,d\n7,1e39,z,\n")

    def build(d: Any, e: Any, m: Any) -> Any:
        return e.make_csv_dataset(str(tmp_path / "*.csv"), 2, num_epochs=1, shuffle=False)

    assert asyncio.run(by_aioflow(build)) == by_tensorflow(build)
