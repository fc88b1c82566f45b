"""RaggedTensors: what makes them, their parts, what they are made. `oracle/test_ragged.py` compares with TensorFlow."""

import numpy as np
import pytest

import aioflow as af
from aioflow.errors import InvalidArgumentError

Ragged = af.RaggedTensor
ROWS = [[3, 1], [], [4]]
DEEP = [[[1, 2], [3]], [[4, 5, 6]], [], [[], [7]]]


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def lists(graph, fetches, feeds=None):
    """The fetched values as nested lists."""
    async with af.Session(graph=graph) as session:
        found = await session.run(fetches, feeds)
    return {name: value.to_list() if hasattr(value, "to_list") else value.tolist() for name, value in found.items()}


async def test_all_descriptions_of_rows_make_the_same_rows(graph):
    made = {
        "splits": Ragged.from_row_splits([3, 1, 4], [0, 2, 2, 3]),
        "lengths": Ragged.from_row_lengths([3, 1, 4], [2, 0, 1]),
        "starts": Ragged.from_row_starts([3, 1, 4], [0, 2, 2]),
        "limits": Ragged.from_row_limits([3, 1, 4], [2, 2, 3]),
        "rowids": Ragged.from_value_rowids([3, 1, 4], [0, 0, 2]),
        "lengths of a tensor": Ragged.from_tensor([[3, 1], [9, 9], [4, 9]], lengths=[2, 0, 1]),
        "padding": Ragged.from_tensor([[3, 1], [0, 0], [4, 0]], padding=0),
        "sparse": Ragged.from_sparse(af.SparseTensor([[0, 0], [0, 1], [2, 0]], [3, 1, 4], [3, 2])),
        "constant": af.ragged.constant(ROWS),
        "sparse and back": Ragged.from_sparse(af.ragged.constant(ROWS).to_sparse()),
        "a fed one": Ragged.from_row_splits(af.placeholder_with_default([3, 1, 4], [None]), [0, 2, 2, 3]),
    }
    assert await lists(graph, made) == dict.fromkeys(made, ROWS)
    assert {name: each.shape.as_list() for name, each in made.items()}["constant"] == [3, None]


async def test_parts_of_nested_rows_are_known_by_their_names(graph):
    deep = af.ragged.constant(DEEP)
    found = await lists(
        graph,
        {
            "nrows": deep.nrows(),
            "lengths": deep.row_lengths(),
            "inner lengths": deep.row_lengths(axis=2),
            "starts": deep.row_starts(),
            "limits": deep.row_limits(),
            "rowids": deep.value_rowids(),
            "inner rowids": deep.nested_value_rowids()[1],
            "box": deep.bounding_shape(),
            "merged": deep.merge_dims(1, 2),
            "flat": deep.merge_dims(0, -1),
            "dense": deep.to_tensor(-1, shape=[None, 1, 2]),
        },
    )
    assert found == {
        "nrows": 4,
        "lengths": [2, 1, 0, 2],
        "inner lengths": [[2, 1], [3], [], [0, 1]],
        "starts": [0, 2, 3, 3],
        "limits": [2, 3, 3, 5],
        "rowids": [0, 0, 1, 3, 3],
        "inner rowids": [0, 0, 1, 2, 2, 2, 4],
        "box": [4, 2, 3],
        "merged": [[1, 2, 3], [4, 5, 6], [], [7]],
        "flat": [1, 2, 3, 4, 5, 6, 7],
        "dense": [[[1, 2]], [[4, 5]], [[-1, -1]], [[-1, -1]]],
    }
    assert (deep.ragged_rank, deep.dtype, deep.shape.as_list()) == (2, af.int32, [4, None, None])
    assert deep.with_row_splits_dtype(af.int32).values.row_splits.dtype is af.int32


async def test_rows_of_one_length_are_known_before_a_run(graph):
    uniform = Ragged.from_uniform_row_length(af.ragged.constant([[1], [2, 3], [], [4]]), 2)
    assert uniform.shape.as_list() == [2, 2, None]
    found = await lists(graph, {"all": uniform, "column": uniform[:, 1], "length": uniform.uniform_row_length})
    assert found == {"all": [[[1], [2, 3]], [[], [4]]], "column": [[2, 3], [4]], "length": 2}
    assert Ragged.from_tensor(np.zeros((2, 3, 4)), ragged_rank=2).shape.as_list() == [2, 3, 4]


async def test_a_session_feeds_and_fetches_values(graph):
    fed = af.ragged.placeholder(af.int32, 2, [])
    values = af.ragged.constant_value(DEEP, af.int32)
    doubled = {"inside": [fed * 2, (fed,)]}
    async with af.Session(graph=graph) as session:
        found = await session.run(doubled, {fed: values})
        call = session.make_callable(fed.to_tensor(), [fed])
        assert (await call(af.ragged.constant_value([[[8]], []], af.int32))).tolist() == [[[8]], [[0]]]
        for wrong, text in ((values.values, "not of 1"), ([[1]], "a value that is none")):
            with pytest.raises(ValueError, match=text):
                await session.run(fed, {fed: wrong})
    assert found["inside"][0].to_list() == [[[2, 4], [6]], [[8, 10, 12]], [], [[], [14]]]
    (same,) = found["inside"][1]
    assert (same.to_list(), same.ragged_rank, same.shape) == (DEEP, 2, (4, None, None))
    assert [part.tolist() for part in same.nested_row_splits] == [[0, 2, 3, 3, 5], [0, 2, 3, 6, 6, 7]]


async def test_branches_and_loops_hold_ragged_tensors(graph):
    rows, flag = af.ragged.constant(ROWS), af.placeholder(af.bool, [])
    chosen = af.cond(flag, lambda: rows * 2, lambda: rows + 1)
    _, grown = af.while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, af.concat([x, x], 1)), [0, rows])
    uniform = af.cond(flag, lambda: af.expand_dims(rows, 1), lambda: af.expand_dims(rows, 1))
    assert uniform.shape.as_list() == [3, 1, None]
    found = await lists(graph, {"chosen": chosen, "grown": grown, "uniform": uniform}, {flag: False})
    assert found == {
        "chosen": [[4, 2], [], [5]],
        "grown": [[3, 1] * 4, [], [4] * 4],
        "uniform": [[[3, 1]], [[]], [[4]]],
    }
    assert af.is_tensor(rows)
    assert af.is_symbolic_tensor(rows)
    assert af.type_spec_from_value(rows) == af.RaggedTensorSpec([3, None], af.int32)


def test_descriptions_compare_shapes_dtypes_and_ragged_ranks():
    spec = af.RaggedTensorSpec([None, None], af.int32)
    assert spec.is_compatible_with(af.ragged.constant(ROWS))
    assert spec.is_compatible_with(af.ragged.constant_value(ROWS, af.int32))
    assert not spec.is_compatible_with(af.ragged.constant(DEEP))
    assert not spec.is_compatible_with(af.ragged.constant(ROWS, row_splits_dtype=af.int32))
    assert spec.most_specific_compatible_type(af.RaggedTensorSpec([3, None], af.int32)) == spec
    assert spec.value_type is af.RaggedTensor
    assert af.data.experimental.RaggedTensorStructure(af.int32, [None, None], 1) == spec


REFUSED = {
    "the constructor": (lambda: Ragged(af.constant([1]), None, False), ValueError, "from_row_splits"),
    "splits of another end": (lambda: Ragged.from_row_splits([1], [0, 2]), InvalidArgumentError, "they are [0, 2]"),
    "splits that fall": (lambda: Ragged.from_row_splits([1, 2], [0, 3, 2]), InvalidArgumentError, "not fall"),
    "no splits": (lambda: Ragged.from_row_splits([1], np.zeros(0, np.int64)), ValueError, "is empty"),
    "splits of floats": (lambda: Ragged.from_row_splits([1], [0.0, 1.0]), TypeError, "must be integers, not float32"),
    "splits of rank 2": (lambda: Ragged.from_row_splits([1], [[0, 1]]), ValueError, "a vector, not of shape [1, 2]"),
    "a scalar": (lambda: Ragged.from_row_splits(1, [0, 1]), ValueError, "are a scalar"),
    "lengths": (lambda: Ragged.from_row_lengths([1], [2]), InvalidArgumentError, "they are [0, 2]"),
    "a row that is none": (lambda: Ragged.from_value_rowids([1], [5], nrows=2), ValueError, "row 5, and nrows is 2"),
    "a negative length": (lambda: Ragged.from_uniform_row_length([1], -1), ValueError, "is -1"),
    "a loop over rows": (lambda: list(af.ragged.constant([[1]])), TypeError, "cannot be iterated"),
    "a truth": (lambda: bool(af.ragged.constant([[1]])), TypeError, "known only in a run"),
    "two kinds of splits": (
        lambda: Ragged.from_row_splits(
            af.ragged.constant([[1]], row_splits_dtype=af.int32), af.constant([0, 1], "int64")
        ),
        ValueError,
        "with_row_splits_dtype",
    ),
    "lengths and padding": (lambda: Ragged.from_tensor([[1]], [1], 0), ValueError, "cannot both be given"),
    "a vector": (lambda: Ragged.from_tensor([1]), ValueError, "rank"),
    "sparse of rank 1": (
        lambda: Ragged.from_sparse(af.SparseTensor([[0]], [1], [2])),
        ValueError,
        "must be 2, and is 1",
    ),
    "nested_nrows": (lambda: Ragged.from_nested_value_rowids([1], [[0]], []), ValueError, "has 0 numbers"),
    "uneven lists": (lambda: af.ragged.constant([[1], 2]), ValueError, "same nesting depth"),
    "ragged_rank": (lambda: af.ragged.constant([[1]], ragged_rank=2), ValueError, "from 0 to 1"),
    "inner_shape": (lambda: af.ragged.constant([[[1, 2]]], inner_shape=(3,)), ValueError, "inner_shape is [3]"),
    "a dense tensor": (lambda: af.convert_to_tensor(af.ragged.constant([[1]])), TypeError, "use its to_tensor()"),
    "other values": (lambda: af.ragged.constant([[1]]).with_values([1, 2]), ValueError, "[2]"),
    "an axis": (lambda: af.ragged.constant([[1]]).row_lengths(axis=2), ValueError, "axis is 2"),
    "axes in turn": (lambda: af.ragged.constant([[1]]).merge_dims(1, 0), ValueError, "outer_axis is 1"),
    "a shape": (lambda: af.ragged.constant([[1]]).to_tensor(shape=[1]), ValueError, "has rank 2"),
    "a spec": (lambda: af.RaggedTensorSpec(), ValueError, "known rank"),
    "a spec of a vector": (lambda: af.RaggedTensorSpec([None], ragged_rank=1), ValueError, "below the rank"),
    "splits of int16": (lambda: af.ragged.constant([[1]], row_splits_dtype=af.int16), ValueError, "not int16"),
}


@pytest.mark.whole
@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_rows_is_refused_when_it_is_built(case):
    build, kind, text = REFUSED[case]
    with pytest.raises(kind) as caught:
        build()
    assert text in str(caught.value)


async def test_a_run_refuses_rows_that_do_not_fit_fed_values(graph):
    values = af.placeholder(af.int32, [None])
    sparse = af.SparseTensor([[0, 1]], [5], [1, 2])
    cases = {
        "row_splits must end": Ragged.from_row_splits(values, [0, 2]),
        "nrows": Ragged.from_uniform_row_length(values, 2),
        "must not fall": Ragged.from_value_rowids(values, af.placeholder_with_default([1, 0, 1], [None])),
        "without gaps": Ragged.from_sparse(sparse),
    }
    async with af.Session(graph=graph) as session:
        for text, made in cases.items():
            with pytest.raises(InvalidArgumentError, match=text):
                await session.run(made, {values: [1, 2, 3]})
