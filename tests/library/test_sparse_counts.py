"""Counts and crosses as sparse tensors. `oracle/ops/picked.py` compares them with TensorFlow."""

import numpy as np
import pytest

import aioflow as af
from tests.support.evaluate import evaluate

VALUES, WEIGHTS = [[1, 1, 3], [0, 3, 3]], [[0.5, 1.0, 2.0], [4.0, 8.0, 16.0]]


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def sparse(values):
    return af.SparseTensor([[0, 0], [0, 2], [2, 1]], values, [3, 4])


async def test_values_are_counted_together_or_row_by_row(graph):
    counts = {
        "all": (af.sparse.bincount(VALUES), [1, 2, 0, 3]),
        "rows": (af.sparse.bincount(VALUES, axis=-1), [[0, 2, 0, 1], [1, 0, 0, 2]]),
        "weights": (af.sparse.bincount(VALUES, WEIGHTS, axis=-1), [[0, 1.5, 0, 2], [4, 0, 0, 24]]),
        "binary": (af.sparse.bincount(VALUES, axis=-1, binary_output=True), [[0, 1, 0, 1], [1, 0, 0, 1]]),
        "short": (af.sparse.bincount(VALUES, axis=-1, maxlength=2), [[0, 2], [1, 0]]),
        "long": (af.sparse.bincount(VALUES, minlength=6), [1, 2, 0, 3, 0, 0]),
        "sparse": (af.sparse.bincount(sparse([2, 2, 1]), axis=-1), [[0, 0, 2], [0, 0, 0], [0, 1, 0]]),
        "a vector": (af.sparse.bincount([1, 1], axis=-1), [0, 2]),
        "none": (af.sparse.bincount(np.zeros((2, 0), np.int32), axis=-1), [[], []]),
    }
    async with af.Session(graph=graph) as session:
        found = await session.run({name: af.sparse.to_dense(made) for name, (made, _) in counts.items()})
        with pytest.raises(af.errors.InvalidArgumentError, match="only values from 0 on are counted"):
            await session.run(af.sparse.bincount([-1]))
    assert {name: value.tolist() for name, value in found.items()} == {name: want for name, (_, want) in counts.items()}


def test_features_of_each_row_are_crossed():
    made = af.sparse.cross([sparse(["a", "b", "c"]), [[1], [2], [3]]], separator="-")
    indices, values, shape = evaluate([made.indices, made.values, made.dense_shape])
    assert values.tolist() == [b"a-1", b"b-1", b"c-3"]
    assert (indices.tolist(), shape.tolist()) == ([[0, 0], [0, 1], [2, 0]], [3, 2])
    assert evaluate(af.sparse.cross([[["x"]]]).values).tolist() == [b"x"]


def test_wrong_arguments_are_named():
    for build, text in (
        (lambda: af.sparse.bincount(VALUES, axis=1), "axis is 0, None or -1, not 1"),
        (lambda: af.sparse.bincount([[[1]]], axis=-1), r"values: rank 2 is needed, the shape is \[1, 1, 1\]"),
        (lambda: af.sparse.bincount(VALUES, WEIGHTS, binary_output=True), "weights have no effect on a binary output"),
        (lambda: af.sparse.cross([]), "a list of inputs is needed"),
        (lambda: af.sparse.cross([[[1.5]]]), r"inputs\[0\] must be strings or integers, not float32"),
        (lambda: af.sparse.cross([[1]]), r"inputs\[0\]: rank 2 is needed"),
    ):
        with pytest.raises((ValueError, TypeError), match=text):
            build()
    with pytest.raises(ValueError, match="row 1 is none of 1 rows; all inputs have the same number of rows"):
        evaluate(af.sparse.cross([[["a"]], [["b"], ["c"]]]).values)
