"""What joins and splits tensors, picks elements by indices, masks, segments or order, and counts."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from aioflow.autodiff.gradients import gradients
from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.graph import Graph
from aioflow.graph.indexed_slices import IndexedSlices, dense
from aioflow.kernels.array.arrays import diag
from aioflow.kernels.array.concat import concat, split, stack, unstack
from aioflow.kernels.array.constants import constant, identity_n, placeholder
from aioflow.kernels.array.gather import gather, gather_nd, scatter_nd
from aioflow.kernels.array.ranges import linspace, one_hot
from aioflow.kernels.array.ranges import range as range_
from aioflow.kernels.array.select import boolean_mask, sequence_mask
from aioflow.kernels.array.shapes import reshape, shape, shape_n
from aioflow.kernels.array.sorting import in_top_k, invert_permutation, top_k, unique
from aioflow.kernels.math.segments import segment_sum, unsorted_segment_sum
from aioflow.tensors.dtypes import (
    Dimension,
    TensorShape,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint8,
)
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


# Joining and splitting


def test_lists_that_hold_tensors_are_packed():
    x = placeholder(float32, [None, 4])
    value = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert evaluate(reshape(x, [shape(x)[0], 2, -1]), {x: value}).shape == (3, 2, 2)
    assert evaluate(reshape(x, [x.shape[1], -1]), {x: value}).shape == (4, 3)
    nested = convert_to_tensor([[x[0, 0], 1], (x[0, 1], np.float32(2))])
    assert nested.shape == [2, 2]
    np.testing.assert_array_equal(evaluate(nested, {x: value}), [[0, 1], [1, 2]])


def test_packed_numbers_take_the_dtype_of_the_tensors():
    assert convert_to_tensor([1, constant(2, int64)]).dtype is int64
    assert convert_to_tensor([[1, 2], [constant(2, uint8), 3]]).dtype is uint8
    assert convert_to_tensor([constant(1), 2], int32).dtype is int32
    with pytest.raises(TypeError, match=r"1\.5 .*int64"):
        convert_to_tensor([1.5, constant(2, int64)])
    with pytest.raises(TypeError, match="has dtype int32, int64 is needed"):
        convert_to_tensor([constant(2, int64), constant(2)])


def test_lists_of_sizes_alone_are_constants():
    assert convert_to_tensor([Dimension(3), 4, TensorShape([5, 6])[0]]).op.type == "constant"


def test_a_failed_packing_leaves_the_graph_as_it_was(graph):
    x = constant([1.0, 2.0])
    before = graph.version
    with pytest.raises(ValueError, match="not compatible"):
        convert_to_tensor([x, [1.0, 2.0, 3.0]])
    assert graph.version == before


SPLITS = {
    "a size that is no multiple": (lambda x: split(x, 2), ValueError, "axis 0 of size 5 cannot be split into 2 equal"),
    "sizes that do not add up": (lambda x: split(x, [2, 2]), ValueError, r"sizes \[2, 2\] do not add up to 5"),
    "sizes too large for a rest": (lambda x: split(x, [9, -1]), ValueError, r"sizes \[9, -1\] do not add up to 5"),
    "two rests": (lambda x: split(x, [-1, -1]), ValueError, "only one size may be -1"),
    "a number of pieces not known": (lambda x: split(x, placeholder(int32, [None])), ValueError, "num is needed"),
    "another number of pieces": (lambda x: unstack(x, 3), ValueError, "dimensions 5 and 3"),
    "an open number": (lambda x: unstack(placeholder(float32, [None])), ValueError, "num is needed"),
    "scalars joined": (lambda x: concat([x[0], x[1]], 0), ValueError, "use stack"),
    "nothing joined": (lambda x: concat([], 0), ValueError, "at least one value"),
    "shapes that differ": (lambda x: stack([x, x[1:]]), ValueError, r"shapes \[5\] and \[4\]"),
    "dtypes that differ": (lambda x: concat([x, constant([1])], 0), TypeError, "int32"),
}


@pytest.mark.parametrize("case", SPLITS)
def test_what_cannot_be_joined_or_split_is_refused(case):
    build, kind, text = SPLITS[case]
    with pytest.raises(kind, match=text):
        build(placeholder(float32, [5]))


@pytest.mark.parametrize(
    "build", [lambda x: split(x, 2), lambda x: split(x, [3, 4]), lambda x: unstack(x, 4), lambda x: split(x, [9, -1])]
)
def test_sizes_that_only_a_run_tells_are_checked_there(build):
    x = placeholder(float32, [None])
    with pytest.raises(ValueError, match="5"):
        evaluate(build(x), {x: np.zeros(5, np.float32)})


def test_one_piece_is_a_tuple_of_one_tensor():
    x = placeholder(float32, [None])
    for (piece,) in (split(x, 1), split(x, [-1]), unstack(x, 1)):
        np.testing.assert_array_equal(evaluate(piece, {x: np.ones(1, np.float32)}), np.ones(piece.shape.ndims * (1,)))


# Indices


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint64])
@pytest.mark.parametrize(("axis", "batch_dims"), [(0, 0), (1, 0), (1, 1)])
def test_an_index_out_of_range_is_named_with_its_bound(dtype, axis, batch_dims):
    x, i = placeholder(float32, [3, 3]), placeholder(dtype, [3, 1])
    picked = gather(x, i, axis=axis, batch_dims=batch_dims)
    for wrong in [3, 100] + [-1, -3] * (np.iinfo(dtype).min < 0):
        with pytest.raises((ValueError, IndexError), match=f"index {wrong} is out of range for size 3"):
            evaluate(picked, {x: np.zeros((3, 3), np.float32), i: np.array([[0], [wrong], [1]], dtype)})


def test_a_constant_index_out_of_range_is_refused_when_the_graph_is_built():
    with pytest.raises(ValueError, match="index 3 is out of range for size 3"):
        gather(placeholder(float32, [3, None]), [0, 3])
    with pytest.raises(TypeError, match="indices must be made of integers, not float32"):
        gather(placeholder(float32, [3]), [0.5])


def test_positions_out_of_range_are_named_with_their_axis():
    x, i = placeholder(float32, [2, 3]), placeholder(int32, [None, 2])
    feeds = {x: np.zeros((2, 3), np.float32), i: np.array([[1, 2], [0, 3]], np.int32)}
    with pytest.raises(ValueError, match="index 3 along axis 1 is out of range for size 3"):
        evaluate(gather_nd(x, i), feeds)
    with pytest.raises(ValueError, match="positions of 3 numbers do not fit"):
        gather_nd(x, [[0, 0, 0]])
    with pytest.raises(ValueError, match="not compatible"):
        scatter_nd([[0], [1]], [1.0, 2.0, 3.0], [4])


def test_whole_rows_have_a_gradient_of_slices_and_others_a_dense_one():
    x = placeholder(float32, [4, 3])
    (rows,) = gradients(gather(x, [[1, 1], [0, 3]]), x)
    assert isinstance(rows, IndexedSlices)
    assert rows.values.shape == [4, 3]
    np.testing.assert_array_equal(evaluate(dense(rows))[:, 0], [1, 2, 0, 1])
    (columns,) = gradients(gather(x, [1, 1], axis=1), x)
    np.testing.assert_array_equal(evaluate(columns, {x: np.zeros((4, 3), np.float32)})[0], [0, 2, 0])


def test_text_is_picked_as_arrays():
    text = constant([["a", "b"], ["c", "d"]])
    mask = [[False, True], [False, False]]
    for picked in (gather(text[0], 1), gather_nd(text, [0, 1]), gather(text[1], [0])[0], boolean_mask(text, mask)[0]):
        assert isinstance(evaluate(picked), np.ndarray)
    assert evaluate(gather(text[0], 1))[()] == evaluate(gather_nd(text, [0, 1]))[()] == b"b"


def test_masks_that_do_not_fit_are_refused():
    x, mask = placeholder(float32, [2, None]), placeholder(bool_, [None])
    assert boolean_mask(x, mask, axis=1).shape.as_list() == [2, None]
    with pytest.raises(ValueError, match=r"a mask of shape \[3\] does not fit \[2, \?\] from axis 0 on"):
        boolean_mask(x, [True, False, True])
    with pytest.raises(TypeError, match="int32"):
        boolean_mask(x, [1, 0])
    with pytest.raises(IndexError, match=r"3.*2|2.*3"):
        evaluate(boolean_mask(x, mask, axis=1), {x: np.zeros((2, 3), np.float32), mask: np.array([True, False])})


def test_a_sequence_mask_is_as_wide_as_the_longest_sequence():
    lengths = placeholder(int32, [None])
    for given_lengths, width in (([3, 1], 3), ([0], 0), ([], 0), ([-2], 0)):
        assert evaluate(sequence_mask(lengths), {lengths: np.array(given_lengths, np.int32)}).shape[1] == width
    assert sequence_mask(lengths, 5).shape.as_list() == [None, 5]


# Segments


@given(
    arrays(np.int64, st.integers(0, 20), elements=st.integers(-2, 5)),
    st.sampled_from([np.int32, np.int64, np.float16, np.float32, np.float64, np.complex64, ml_dtypes.bfloat16]),
    st.sampled_from([(), (3,), (2, 2)]),
)
def test_segment_sums_are_sums_by_segment(ids, dtype, row):
    rows = np.arange(ids.size * np.prod(row, dtype=int)).reshape(ids.shape + row).astype(dtype)
    with Graph().as_default():
        data = placeholder(dtype, [None, *row])
        total = unsorted_segment_sum(data, ids, 6)
    found = evaluate(total, {data: rows})
    wide = rows.astype(np.complex128)
    assert found.dtype == dtype
    for segment in range(6):
        np.testing.assert_allclose(found[segment].astype(np.complex128), wide[ids == segment].sum(0), rtol=1e-2)


def test_narrow_floats_are_summed_as_wide_ones():
    ones = np.ones(4096)
    for dtype in (float16, bfloat16):
        total = unsorted_segment_sum(constant(ones, dtype), np.zeros(4096, np.int32), 1)
        assert evaluate(total)[0] == 4096


def test_segment_ids_out_of_range_or_order_are_refused():
    data, ids = placeholder(float32, [3]), placeholder(int32, [3])

    def given_ids(*numbers):
        return {data: np.ones(3, np.float32), ids: np.array(numbers, np.int32)}

    for wrong in ((0, 2, 1), (-1, 2, 0)):
        with pytest.raises(ValueError, match="segment id 2 is out of range for size 2"):
            evaluate(unsorted_segment_sum(data, ids, 2), given_ids(*wrong))
    with pytest.raises(ValueError, match="rising order"):
        evaluate(segment_sum(data, ids), given_ids(0, 2, 1))
    with pytest.raises(ValueError, match=r"data of shape \[3\] must begin with the shape of segment_ids, \[2\]"):
        unsorted_segment_sum(data, [0, 1], 2)
    np.testing.assert_array_equal(evaluate(segment_sum(data, ids), given_ids(0, 0, 2)), [2, 0, 1])


# Order


MANY_EQUAL = st.sampled_from([0, 1, 2, np.inf, -np.inf, np.nan]) | st.floats(0, 3, width=16)


@given(arrays(np.float32, (2, 80), elements=MANY_EQUAL), st.sampled_from([0, 1, 2, 5, 19, 80]))
def test_of_equal_elements_the_first_is_the_greater(x, k):
    with Graph().as_default():
        greatest = top_k(x, k)
    found, where = evaluate([greatest.values, greatest.indices])
    number = np.nan_to_num(x.astype(np.float64), nan=1e300, posinf=1e200, neginf=-1e200)
    expected = np.lexsort((np.arange(80)[None] + np.zeros((2, 1)), -number))[:, :k]
    np.testing.assert_array_equal(where, expected)
    np.testing.assert_array_equal(found, np.take_along_axis(x, expected, -1))
    assert (found.dtype, where.dtype) == (np.float32, np.int32)


def test_more_elements_than_there_are_cannot_be_the_greatest():
    with pytest.raises(ValueError, match="the 4 greatest of 3 elements are asked for"):
        top_k(placeholder(float32, [2, 3]), 4)
    x = placeholder(float32, [None])
    with pytest.raises(ValueError, match="the 4 greatest of 3 elements are asked for"):
        evaluate(top_k(x, 4)[0], {x: np.zeros(3, np.float32)})


def test_in_top_k_says_no_where_it_cannot_say():
    predictions = np.array([[1, 2, 3], [1, 1, 1], [np.nan, 2, 3], [1, np.inf, 0], [3, 2, 1]], np.float32)
    targets = np.array([0, 2, 2, 1, 3], np.int32)
    np.testing.assert_array_equal(evaluate(in_top_k(predictions, targets, 1)), [False, True, False, False, False])


@given(
    st.sampled_from([st.integers(-3, 3), st.floats(-2, 2, width=16), st.sampled_from([b"a", b"bc", b""])]).flatmap(
        st.lists
    )
)
def test_distinct_elements_come_in_the_order_of_their_first_occurrence(items):
    dtype = object if items and isinstance(items[0], bytes) else None
    with Graph().as_default():
        y, index = unique(np.array(items, dtype))
    distinct, places = evaluate([y, index])
    assert distinct.tolist() == list(dict.fromkeys(items))
    assert [distinct[place] for place in places] == items


def test_nan_is_distinct_from_nan():
    distinct, places = evaluate(list(unique(constant([np.nan, 1.0, np.nan]))))
    np.testing.assert_array_equal(distinct, [np.nan, 1, np.nan])
    np.testing.assert_array_equal(places, [0, 1, 2])


def test_what_is_no_permutation_has_no_inverse():
    with pytest.raises(ValueError, match=r"\[0, 2\] is not a permutation of the numbers 0 to 1"):
        invert_permutation([0, 2])
    x = placeholder(int32, [None])
    for wrong in ([0, 0], [1, 2], [0, -1]):
        with pytest.raises(ValueError, match="is not a permutation of the numbers 0 to 1"):
            evaluate(invert_permutation(x), {x: np.array(wrong, np.int32)})
    assert invert_permutation([2, 0, 1]).spec.known == (1, 2, 0)


# Counting

RANGES = {
    "to a limit": (lambda: range_(5), int32, [0, 1, 2, 3, 4]),
    "in steps": (lambda: range_(3, 10, 3), int32, [3, 6, 9]),
    "backwards": (lambda: range_(2, -1, -1), int32, [2, 1, 0]),
    "of nothing": (lambda: range_(3, 3), int32, []),
    "of fractions": (lambda: range_(0.0, 1.0, 0.25), float32, [0, 0.25, 0.5, 0.75]),
    "of the highest dtype": (lambda: range_(1, constant(3, int64), np.int32(1)), int64, [1, 2]),
    "of integers and fractions": (lambda: range_(1, 2, 0.5), float32, [1, 1.5]),
    "of a given dtype": (lambda: range_(1, 3, dtype=float64), float64, [1, 2]),
    "of a narrow dtype": (lambda: range_(constant(3, bfloat16)), bfloat16, [0, 1, 2]),
}


@pytest.mark.parametrize("case", RANGES)
def test_ranges(case):
    build, dtype, expected = RANGES[case]
    numbers = build()
    assert numbers.dtype is dtype
    assert numbers.shape == [len(expected)]
    np.testing.assert_array_equal(evaluate(numbers).astype(float), expected)


def test_steps_that_lead_nowhere_are_refused():
    n = placeholder(int32, [])
    for build in (lambda: range_(1, 5, -1), lambda: range_(5, 1), lambda: range_(0.5, 0.0)):
        with pytest.raises(ValueError, match="does not lead from"):
            build()
    with pytest.raises(ValueError, match="delta cannot be 0"):
        range_(1, 5, 0)
    with pytest.raises(ValueError, match="a step of 1 does not lead from 0 to -2"):
        evaluate(range_(n), {n: np.int32(-2)})
    with pytest.raises(TypeError, match="range: dtype bool is not supported"):
        range_(True)
    with pytest.raises(ValueError, match="num must be 1 or more, not 0"):
        linspace(0.0, 1.0, 0)


def test_what_is_many_tensors_is_a_list():
    x = placeholder(float32, [2])
    for made in (split(x, 2), split(x, [1, 1]), unstack(x), identity_n([x, x]), shape_n([x, x])):
        assert type(made) is list


def test_numbers_that_are_stacked_take_one_dtype():
    x = constant([1, 2.0])
    assert evaluate(stack([1, 2.0], name="both")).tolist() == [1.0, 2.0]
    assert evaluate(stack([x, [3, 4.0]])).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert evaluate(stack((np.int64(1), 2))).dtype == np.int32


def test_one_tensor_is_a_single_value_to_concat():
    assert evaluate(concat(constant([[1, 2]]), 0)).tolist() == [[1, 2]]


def test_one_hot_refuses_a_negative_depth_in_a_run():
    depth = placeholder(int32, [])
    with pytest.raises(ValueError, match="depth cannot be negative: -2"):
        evaluate(one_hot([1], depth), {depth: np.int32(-2)})


def test_one_hot_takes_the_dtype_of_its_values():
    assert one_hot([1], 3).dtype is float32
    assert one_hot([1], 3, 5, 0).dtype is int32
    assert one_hot([1], 3, True, False).dtype is bool_
    assert one_hot([1], 3, on_value=constant(2, int64)).dtype is int64
    assert one_hot([1], 3, dtype=uint8).dtype is uint8
    with pytest.raises(TypeError, match=r"2\.5"):
        one_hot([1], 3, 2.5, 0, dtype=int32)


def test_an_index_outside_is_cold():
    np.testing.assert_array_equal(evaluate(one_hot([-1, 0, 2], 2, 5, 1)), [[1, 1], [5, 1], [1, 1]])
    np.testing.assert_array_equal(evaluate(one_hot(constant([255, 1], uint8), 300))[:, [1, 255]], [[0, 1], [1, 0]])


def test_the_diagonal_of_what_is_empty_is_empty():
    assert evaluate(diag(np.zeros((0, 2), np.float32))).shape == (0, 2, 0, 2)


@pytest.mark.parametrize(
    ("updates", "expected"),
    [(["a", "b", "c"], [b"ac", b"", b"b"]), ([True, False, False], [True, False, False])],
)
def test_text_is_joined_and_bools_are_united_where_positions_meet(updates, expected):
    made = scatter_nd([[0], [2], [0]], updates, [3])
    assert made.shape == [3]
    assert evaluate(made).tolist() == expected
