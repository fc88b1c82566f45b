"""Rows sent away and stitched, positions changed, sequences turned and compared, variables changed in part."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioflow as af
from aioflow import constant, errors, placeholder
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.array import partition, sequence
from aioflow.kernels.array.scatter import tensor_scatter_add, tensor_scatter_update
from aioflow.library import state
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


# Parted and stitched


@given(st.lists(st.integers(0, 3), max_size=12))
def test_what_is_parted_is_stitched_together_again(numbers):
    rows = np.arange(2.0 * len(numbers)).reshape(-1, 2)
    with af.Graph().as_default():
        places = np.array(numbers, np.int32)
        parts = partition.dynamic_partition(rows, places, 4)
        where = partition.dynamic_partition(np.arange(len(numbers)), places, 4)
        np.testing.assert_array_equal(evaluate(partition.dynamic_stitch(where, parts)), rows)


def test_text_is_parted_and_stitched():
    words = constant(["a", "b", "c"])
    first, second = partition.dynamic_partition(words, [1, 0, 1], 2)
    assert [value.tolist() for value in evaluate([first, second])] == [[b"b"], [b"a", b"c"]]
    assert evaluate(partition.dynamic_stitch([[3], [0, 1]], [first, second])).tolist() == [b"a", b"c", b"", b"b"]


def test_rows_that_were_stitched_over_have_no_gradient():
    x, y = constant([1.0, 2.0]), constant([3.0])
    whole = partition.dynamic_stitch([[0, 1], [1]], [x, y])
    assert [gradient.tolist() for gradient in evaluate(af.gradients(whole * [5.0, 7.0], [x, y]))] == [[5, 0], [7]]


def test_the_number_of_stitched_rows_is_known_from_constant_places():
    x = placeholder(af.float32, [2, 3])
    assert partition.dynamic_stitch([[4, 0]], [x]).shape == (5, 3)
    assert partition.dynamic_stitch([placeholder(af.int32, [2])], [x]).shape.as_list() == [None, 3]
    assert partition.dynamic_partition(x, [0, 1], 2)[0].shape.as_list() == [None, 3]


# Refused when built

X = np.zeros((2, 3), np.float32)
REFUSED = {
    "no parts": (lambda: partition.dynamic_partition(X, [0, 1], 0), "at least one partition is needed"),
    "numbers of another shape": (lambda: partition.dynamic_partition(X, [0], 1), "does not begin with shape [1]"),
    "fractions": (lambda: partition.dynamic_partition(X, [0.5, 1.0], 1), "partitions must be made of integers"),
    "nothing stitched": (lambda: partition.dynamic_stitch([], []), "at least one tensor is needed"),
    "rows that differ": (lambda: partition.dynamic_stitch([0, 1], [X[0], X[0, :2]]), "not compatible"),
    "a shape it cannot have": (lambda: partition.ensure_shape(X, [None, 4]), "not compatible"),
    "shapes that do not broadcast": (lambda: partition.broadcast_dynamic_shape([2], [3]), "cannot be broadcast"),
    "static shapes": (lambda: partition.broadcast_static_shape([2], [3]), "cannot be broadcast"),
    "updates that do not fit": (lambda: tensor_scatter_add(X, [[0]], [[1.0]]), "not compatible"),
    "no axis to turn": (lambda: sequence.reverse_sequence(X, [1, 2]), "needs a seq_axis"),
    "one axis for both": (lambda: sequence.reverse_sequence(X, [1, 2], 0), "seq_axis and batch_axis are both 0"),
    "too few lengths": (lambda: sequence.reverse_sequence(X, [1], 1), "a batch of 2 needs as many lengths"),
    "shifts without axes": (lambda: sequence.roll(X, [1, 2], [0]), "shifts of shape [2] do not fit axis (0,)"),
    "no such axis": (lambda: sequence.roll(X, 1, 2), "axis 2 is out of range for rank 2"),
    "no such side": (lambda: sequence.searchsorted([1.0], [1.0], "middle"), "side is 'left' or 'right'"),
    "other batches": (lambda: sequence.searchsorted(X, X[:1]), "not compatible"),
    "a narrow place": (lambda: sequence.setdiff1d([1], [2], af.int8), "index_dtype is int32 or int64"),
    "a dense distance": (lambda: sequence.edit_distance(X, X), "neither a SparseTensor nor"),
    "a batch of no indices": (lambda: partition.batch_gather(X, 1), "known rank, 1 or more"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_built_is_refused_with_a_reason(case):
    build, message = REFUSED[case]
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        build()


# Refused in a run

FAILS = {
    "a part too many": (lambda n: partition.dynamic_partition(X, n, 2)[0], [0, 2], "partition 2 is out of range"),
    "a negative place": (lambda n: partition.dynamic_stitch([n], [X]), [0, -1], "index -1 is out of range"),
    "a length too long": (lambda n: sequence.reverse_sequence(X, n, 1), [0, 4], "must be from 0 to 3"),
    "a position outside": (
        lambda n: tensor_scatter_update(X, af.expand_dims(n, 1), X), [0, 2], "index 2 along axis 0 is out of range",
    ),
    "shapes": (lambda n: partition.broadcast_dynamic_shape(n, [3]), [2, 2], "cannot be broadcast together"),
    "a shape": (lambda n: partition.ensure_shape(af.fill(n, 1.0), [2, 3]), [2, 4], "the shape is [2, 4], not [2, 3]"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILS)
def test_what_only_a_run_tells_is_checked_there(case):
    build, numbers, message = FAILS[case]
    given_numbers = placeholder(af.int32, [None])
    with pytest.raises(ValueError, match=re.escape(message)):
        evaluate(build(given_numbers), {given_numbers: np.array(numbers, np.int32)})


# Sequences


@given(st.text("abc", max_size=8), st.text("abc", max_size=8))
def test_distances_are_the_fewest_edits(a, b):
    table = {(i, 0): i for i in range(len(a) + 1)} | {(0, j): j for j in range(len(b) + 1)}
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            replaced = table[i - 1, j - 1] + (a[i - 1] != b[j - 1])
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, replaced)
    count = sequence.levenshtein(np.array([*a], object), np.array([*b], object))
    assert count == table[len(a), len(b)]


def test_distances_of_nothing():
    def sparse(row, *items):
        return SparseTensor(np.array([[row, place] for place in range(len(items))]), list(items), [3, 4])

    found = evaluate(sequence.edit_distance(sparse(0, "a", "b"), sparse(1, "a"), normalize=True))
    assert found.tolist() == [np.inf, 1, 0]
    assert found.dtype == np.float32


def test_texts_that_end_in_zeros_are_equal_to_themselves_only():
    texts = [SparseTensor([[0, 0]], [text], [1, 1]) for text in (b"a\0", b"a\0", b"a")]
    assert [evaluate(sequence.edit_distance(texts[0], text)).tolist() for text in texts] == [[0], [0], [1]]


def test_names_of_several_results():
    assert sequence.setdiff1d([1, 2, 3], [2])._fields == ("out", "idx")
    y, idx, count = evaluate(list(sequence.unique_with_counts(constant([5, 7, 5]), af.int64)))
    assert (y.tolist(), idx.tolist(), count.tolist()) == ([5, 7], [0, 1, 0], [2, 1])
    assert count.dtype == np.int64


def test_shapes_are_combined_as_far_as_they_are_known():
    assert partition.broadcast_static_shape([None, 1], [3]).as_list() == [None, 3]
    assert partition.broadcast_dynamic_shape([2, 1], [3]).spec.known == (2, 3)
    x = placeholder(af.float32)
    assert partition.ensure_shape(x, [None, 3]).shape.as_list() == [None, 3]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_single_position_is_set_as_among_others(depth):
    x, places = np.arange(24.0).reshape(2, 3, 4), np.array([[1, 2, 3], [0, 1, 0]])[:, :depth]
    update = -np.arange(2.0 * x[tuple(places[0])].size).reshape(2, *x.shape[depth:])
    whole, indices, updates = placeholder(af.float64), placeholder(af.int64), placeholder(af.float64)
    y = tensor_scatter_update(whole, indices, updates)
    together = evaluate(y, {whole: x, indices: places, updates: update})
    for place in range(2):
        feeds = {indices: places[place : place + 1], updates: update[place : place + 1]}
        x = evaluate(y, {whole: x, **feeds})
        with pytest.raises(ValueError, match="out of range"):
            evaluate(y, {whole: x, **feeds, indices: feeds[indices] + 4})
        with pytest.raises(ValueError, match="do not fit"):
            evaluate(y, {whole: x, **feeds, updates: feeds[updates][0]})
    np.testing.assert_array_equal(x, together)


# Variables changed in part


async def run(graph, *tensors):
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        return [(await session.run(tensor)).tolist() for tensor in tensors]


async def test_rows_are_changed_one_update_after_the_other(graph):
    v = af.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert await run(
        graph,
        state.scatter_mul(v, [0, 0], [[2.0, 2.0], [3.0, 3.0]]),
        state.scatter_div(v, [1], [[3.0, 4.0]]),
        state.scatter_min(v, [2], 5.5),
        state.scatter_max(v, 2, [5.25, 9.0]),
        state.assign_mul(v, 2.0),
    ) == [
        [[6, 12], [3, 4], [5, 6]],
        [[6, 12], [1, 1], [5, 6]],
        [[6, 12], [1, 1], [5, 5.5]],
        [[6, 12], [1, 1], [5.25, 9]],
        [[12, 24], [2, 2], [10.5, 18]],
    ]


async def test_integers_are_divided_towards_zero(graph):
    v = af.Variable([7, -7, 9, -(2**31)])
    assert await run(graph, state.scatter_div(v, [0, 1, 0, 3], [2, 2, -1, 3])) == [[-3, -3, 9, -715827882]]
    with pytest.raises(errors.InvalidArgumentError, match="integers cannot be divided by 0"):
        await run(graph, state.scatter_div(v, [0], [0]))
    assert await run(graph, state.scatter_div(af.Variable([[]], dtype=af.int32), [], np.zeros((0, 0)))) == [[[]]]


async def test_positions_of_a_variable_are_changed(graph):
    v = af.Variable([[1.0, 2.0], [3.0, 4.0]])
    assert await run(
        graph,
        state.scatter_nd_update(v, [[0, 1], [1, 1]], [7.0, 8.0]),
        state.scatter_nd_add(v, [[1], [1]], [[1.0, 1.0], [2.0, 2.0]]),
        state.scatter_nd_sub(v, [[0, 0], [0, 0]], [1.0, 1.0]),
    ) == [[[1, 7], [3, 8]], [[1, 7], [6, 11]], [[-1, 7], [6, 11]]]
    with pytest.raises(ValueError, match="index 2 along axis 0 is out of range"):
        state.scatter_nd_add(v, [[2, 0]], [1.0])
    below = constant([[2, 0]]) - 3
    with pytest.raises(errors.InvalidArgumentError, match="index -1 along axis 0 is out of range"):
        await run(graph, state.scatter_nd_add(v, below, [1.0]))
    with pytest.raises(ValueError, match="not compatible"):
        state.scatter_nd_add(v, [[0]], [1.0])
    with pytest.raises(TypeError, match="only a variable can be assigned"):
        state.scatter_mul(constant([1.0]), [0], [1.0])


async def test_rows_are_updated_batch_by_batch(graph):
    v = af.Variable(np.zeros((2, 3, 2), np.float32))
    assert await run(graph, af.batch_scatter_update(v, [[0, 2], [1, 0]], np.arange(8.0).reshape(2, 2, 2))) == [
        [[[0, 1], [0, 0], [2, 3]], [[6, 7], [4, 5], [0, 0]]]
    ]
    w = af.Variable([1.0, 2.0, 3.0])
    assert await run(graph, af.batch_scatter_update(w, [2], [7.0])) == [[1, 2, 7]]
    with pytest.raises(ValueError, match="indices have batch axes"):
        af.batch_scatter_update(w, 0, 1.0)


async def test_a_variable_counts_up_to_its_limit(graph):
    v = af.Variable(0, name="n")
    count = state.count_up_to(v, 2)
    async with af.Session(graph=graph) as session:
        await session.run(v.initializer)
        assert [await session.run(count) for _ in range(2)] == [0, 1]
        for _ in range(2):
            with pytest.raises(errors.OutOfRangeError, match="'n' has reached its limit 2"):
                await session.run(count)
        assert await session.run(v) == 2
    with pytest.raises(TypeError, match="dtype float32 is not supported"):
        state.count_up_to(af.Variable(0.0), 2)
