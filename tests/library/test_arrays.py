"""Older names, and what is composed of a few ops: library/arrays.py."""

import numpy as np
import pytest

import aioflow as af
from aioflow.library import arrays
from tests.support.evaluate import evaluate

MATRIX = np.arange(6).reshape(2, 3)


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: arrays.arg_max(MATRIX % 4, 1), [2, 0]),
        (lambda: arrays.arg_min(MATRIX % 4, dimension=0, output_type="int32"), np.array([0, 1, 1], np.int32)),
        (lambda: arrays.lin_space(0.0, 1.0, num=3), np.array([0, 0.5, 1], np.float32)),
        (lambda: arrays.reverse_v2([1, 2, 3], [0]), [3, 2, 1]),
        (lambda: arrays.to_complex64([1.0]), np.array([1], np.complex64)),
        (lambda: arrays.to_complex128([1.0]), np.array([1], np.complex128)),
        (lambda: arrays.where_v2([True, False], [[1, 2], [3, 4]], 0), [[1, 0], [3, 0]]),
        (lambda: arrays.where_v2([True, False, True]), np.array([[0], [2]])),
        (lambda: af.constant([1, 2])[:, arrays.newaxis], [[1], [2]]),
    ],
)
def test_older_names_do_what_they_did(build, expected):
    found = evaluate(build())
    np.testing.assert_array_equal(found, expected)
    assert not isinstance(expected, np.ndarray) or found.dtype == expected.dtype


@pytest.mark.parametrize(
    ("repeats", "axis", "shape"),
    [
        (2, None, [12]), (2, 0, [4, 3]), (2, -1, [2, 6]), (0, 1, [2, 0]), ([3], 1, [2, 9]),
        ([1, 2], 0, [None, 3]), ([0, 2, 1], 1, [2, None]), ([1, 0, 2, 0, 3, 1], None, [None]),
    ],
)  # fmt: skip
def test_parts_are_repeated_beside_each_other(repeats, axis, shape):
    expected = np.repeat(MATRIX, repeats, axis)
    made = arrays.repeat(MATRIX, repeats, axis)
    times = af.placeholder(af.int64, np.shape(repeats))
    fed = arrays.repeat(MATRIX, times, axis)
    assert made.shape == shape
    np.testing.assert_array_equal(evaluate(made), expected, strict=False)
    np.testing.assert_array_equal(evaluate(fed, {times: np.array(repeats)}), expected)


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda: arrays.repeat(MATRIX, [1, 2], 1), ValueError, r"shape \[2\] cannot be broadcast to \[3\]"),
        (lambda: arrays.repeat(MATRIX, [[1]]), ValueError, "must be a scalar or a vector"),
        (lambda: arrays.repeat(MATRIX, 1.0), TypeError, "dtype float32 is not supported"),
        (lambda: arrays.repeat(MATRIX, 2, 2), ValueError, "axis 2 is out of range for rank 2"),
        (lambda: arrays.repeat(MATRIX, -1, 0), ValueError, "does not lead from 0 to -2"),
        (lambda: arrays.where_v2([True], [1]), ValueError, "give both x and y, or neither"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(graph, build, error, text):
    with pytest.raises(error, match=text):
        build()
    assert graph.get_operations() == []


@pytest.mark.parametrize("batch_dims", [1, 2])
def test_positions_are_counted_within_batches(batch_dims):
    params = np.arange(48.0).reshape(2, 3, 4, 2)
    indices = np.random.default_rng(1).integers(0, 2, (2, 3, 5, 2))
    expected = np.empty((2, 3, 5, *params.shape[batch_dims + 2 :]))
    for place in np.ndindex(2, 3, 5):
        expected[place] = params[(*place[:batch_dims], *indices[place])]
    for sizes in (params.shape, [None] * 4):
        whole = af.placeholder(af.float64, sizes)
        picked = af.gather_nd(whole, indices, batch_dims=batch_dims, name="picked")
        assert picked.op.name.startswith("picked")
        np.testing.assert_array_equal(evaluate(picked, {whole: params}), expected)
    with pytest.raises(ValueError, match="batch_dims 4 does not fit"):
        af.gather_nd(params, indices, batch_dims=4)
    with pytest.raises(ValueError, match=r"\[2, 2\] and \[2, 3\] are not compatible"):
        af.gather_nd(params[:, :2], indices, batch_dims=2)


def test_names_go_where_tensorflow_has_them():
    matrix = np.arange(6.0).reshape(2, 3)
    for made in (
        af.transpose(matrix, [1, 0], "here"), af.matrix_transpose(matrix, "here"), af.matrix_diag([1.0], "here"),
        af.matrix_diag_part(matrix, "here"), af.matrix_set_diag(matrix, [0.0, 0.0], "here"),
    ):  # fmt: skip
        assert made.op.name.startswith("here")
    assert af.igamma(x=1.0, a=2.0).op.inputs[0].op.attrs["value"] == 2
    assert af.zeta(q=1.0, x=2.0).op.inputs[0].op.attrs["value"] == 2
    assert af.polygamma(x=1.0, a=2.0).op.inputs[0].op.attrs["value"] == 2
    assert af.norm(matrix, keep_dims=True).shape == [1, 1]


def test_numbers_are_told_from_other_tensors_and_stacked():
    assert af.is_numeric_tensor(af.constant(1))
    assert not any(map(af.is_numeric_tensor, (af.constant(True), af.constant("a"), 1)))
    assert evaluate(af.parallel_stack([[1, 2], [3, 4]])).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match=r"not fully|known"):
        af.parallel_stack([af.placeholder(af.float32, [None])])


@pytest.mark.parametrize(("repeats", "expected"), [([2, 0, 1], [7, 7, 9]), (2, [7, 7, 8, 8, 9, 9])])
def test_repeats_of_unknown_rank_are_one_for_all_or_one_for_each(repeats, expected):
    times = af.placeholder(af.int32)
    made = arrays.repeat([7, 8, 9], times, axis=0)
    assert evaluate(made, {times: np.array(repeats, np.int32)}).tolist() == expected
