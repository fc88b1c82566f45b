import ml_dtypes
import numpy as np
import pytest

from aioflow import errors
from aioflow.autodiff.gradients import gradients
from aioflow.graph.graph import Graph
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.kernels.math import broadcasting, cumulative, reduction
from tests.support.evaluate import evaluate

SUMS = [reduction.reduce_sum, reduction.reduce_mean, reduction.reduce_prod, reduction.reduce_max, reduction.reduce_min]


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


def value(tensor):
    return evaluate(tensor)


@pytest.mark.parametrize("op", SUMS)
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "float16", "bfloat16", "float8_e4m3fn", "float32"])
def test_reductions_keep_the_dtype(op, dtype):
    x = placeholder(dtype, [None, 3])
    for axis, shape in [(None, ()), (0, (3,)), (-1, (2,)), ([], (2, 3))]:
        y = op(x, axis)
        result = evaluate(y, {x: np.ones((2, 3), x.dtype.np)})
        assert (result.dtype, result.shape) == (x.dtype.np, shape)


def test_the_shape_of_a_reduction_is_as_known_as_it_can_be():
    x, anything = placeholder("float32", [None, 3]), placeholder("float32", None)
    assert reduction.reduce_sum(x, 0).shape == [3]
    assert reduction.reduce_sum(x, 1).shape.as_list() == [None]
    assert reduction.reduce_sum(x, [0, 1], keepdims=True).shape == [1, 1]
    assert reduction.reduce_sum(x, []).shape is x.shape
    assert reduction.reduce_sum(anything).shape == []
    assert reduction.reduce_sum(anything, 0).shape.rank is None
    assert reduction.reduce_sum(x, constant([0])).shape == [3]


def test_axes_that_are_not_there_are_refused():
    x = constant([[1.0, 2.0]])
    with pytest.raises(ValueError, match="reduce_sum: axis 2 is out of range for rank 2"):
        reduction.reduce_sum(x, 2)
    with pytest.raises(ValueError, match=r"reduce_max: axes \[0, -2\] name an axis twice"):
        reduction.reduce_max(x, [0, -2])


def test_reductions_of_nothing():
    nothing = np.zeros((0, 2), np.float32)
    np.testing.assert_array_equal(value(reduction.reduce_sum(nothing, 0)), [0, 0])
    np.testing.assert_array_equal(value(reduction.reduce_prod(nothing, 0)), [1, 1])
    np.testing.assert_array_equal(value(reduction.reduce_mean(nothing, 0)), [np.nan, np.nan])
    np.testing.assert_array_equal(value(reduction.reduce_max(nothing, 0)), [-np.inf, -np.inf])
    np.testing.assert_array_equal(value(reduction.reduce_min(nothing, 0)), [np.inf, np.inf])
    np.testing.assert_array_equal(value(reduction.reduce_logsumexp(nothing, 0)), [-np.inf, -np.inf])
    np.testing.assert_array_equal(value(reduction.reduce_max(nothing.astype(np.int16), 0)), [-(2**15)] * 2)
    np.testing.assert_array_equal(value(reduction.reduce_all(nothing > 0, 0)), [True, True])
    np.testing.assert_array_equal(value(reduction.reduce_any(nothing > 0, 0)), [False, False])
    assert value(reduction.reduce_sum(nothing, 1)).shape == (0,)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_are_summed_as_float32(dtype):
    ones = np.ones((4099, 2), dtype)
    assert value(reduction.reduce_sum(ones, 0)).astype(float).tolist() == [np.float64(dtype(4099))] * 2
    assert value(reduction.reduce_mean(ones)) == 1
    assert value(broadcasting.sum_to_shape(ones, [2])).astype(float).tolist() == [np.float64(dtype(4099))] * 2
    assert float(value(cumulative.cumsum(ones))[-1, 0]) == np.float64(dtype(4099))
    assert value(reduction.l2_loss(ones)) == dtype(4099)


def test_integer_means_cut_off_the_fraction_and_do_not_wrap_around():
    assert value(reduction.reduce_mean(constant([-1, -2]))) == -1
    assert value(reduction.reduce_mean(constant([100, 100, 100], "int8"))) == 100
    assert value(reduction.reduce_mean(constant([2**32 - 1] * 2, "uint32"))) == 2**32 - 1


def test_extremes_keep_nan_and_share_the_gradient_of_ties():
    assert np.isnan(value(reduction.reduce_max([1.0, np.nan])))
    x = placeholder("float64", [2, 3])
    points = {x: np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])}
    for keepdims in (False, True):
        (dx,) = gradients(reduction.reduce_max(x, 1, keepdims), x)
        np.testing.assert_allclose(evaluate(dx, points), [[0, 0.5, 0.5], [1 / 3] * 3])


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1), (1, 0)])
def test_the_gradient_of_a_product_is_right_where_elements_are_zero(axis):
    x = placeholder("float64", None)
    points = np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 5.0], [1.0, 7.0, 2.0]])
    (dx,) = evaluate(gradients(reduction.reduce_prod(x, axis), x), {x: points})
    expected = np.empty_like(points)
    for place in np.ndindex(points.shape):
        others = points.copy()
        others[place] = 1
        line = {0: np.s_[:, place[1]], 1: np.s_[place[0]], -1: np.s_[place[0]]}.get(axis, np.s_[:])
        expected[place] = others[line].prod()
    np.testing.assert_allclose(dx, expected)


def test_logsumexp_overflows_nowhere():
    x = constant([[1000.0, 1000.0], [-1000.0, -1000.0], [np.inf, 0.0], [-np.inf, -np.inf], [np.nan, 0.0]])
    two = np.log(2)
    np.testing.assert_allclose(
        value(reduction.reduce_logsumexp(x, 1)), [1000 + two, -1000 + two, np.inf, -np.inf, np.nan], rtol=1e-6
    )


def test_counting_takes_truth_values_and_a_dtype():
    y = reduction.count_nonzero(constant([[True, False], [True, True]]), axis=1, dtype="int32")
    assert value(y).tolist() == [1, 2]
    assert value(y).dtype == np.int32


def test_positions_are_the_first_of_equals():
    x = constant([[1.0, 3.0, 3.0], [2.0, 2.0, 1.0]])
    assert value(reduction.argmax(x, 1)).tolist() == [1, 0]
    assert value(reduction.argmin(x, axis=-1)).tolist() == [0, 2]
    assert value(reduction.argmax(x)).tolist() == [1, 0, 0]
    assert value(reduction.argmax(x, 0, output_type="int32")).dtype == np.int32
    assert value(reduction.argmax(constant([[False, True, True]]), 1)).tolist() == [1]
    with pytest.raises(ValueError, match=r"argmax: axis 1 of shape \[2, 0\] is empty"):
        reduction.argmax(np.zeros((2, 0)), 1)
    with pytest.raises(TypeError, match="output_type is int32 or int64, not float32"):
        reduction.argmax(x, output_type="float32")


def test_running_sums_and_products_keep_the_dtype():
    x = placeholder("int8", [None])
    feeds = {x: np.array([1, 2, 3], np.int8)}
    for op, expected in [(cumulative.cumsum, [1, 3, 6]), (cumulative.cumprod, [1, 2, 6])]:
        result = evaluate(op(x), feeds)
        assert result.dtype == np.int8
        assert result.tolist() == expected
    with pytest.raises(ValueError, match="cumsum: axis 1 is out of range for rank 1"):
        cumulative.cumsum(x, 1)


def test_a_sum_to_a_shape_that_does_not_broadcast_is_refused():
    x, shape = placeholder("float32", None), placeholder("int32", [None])
    y = broadcasting.sum_to_shape(x, shape)
    for sizes in ([3], [2, 2, 2], [4, 2]):
        with pytest.raises(errors.InvalidArgumentError, match=r"does not broadcast to \[2, 2\]"):
            evaluate(y, {x: np.ones((2, 2), np.float32), shape: np.array(sizes, np.int32)})
    with pytest.raises(ValueError, match=r"sum_to_shape: shape \[3\] does not broadcast to \[2, 2\]"):
        broadcasting.sum_to_shape(np.ones((2, 2)), [3])


def test_a_mean_is_shared_out_by_how_many_there_are_in_the_run():
    x = placeholder("float32", [None, None])
    (dx,) = gradients(reduction.reduce_mean(x), x)
    np.testing.assert_allclose(evaluate(dx, {x: np.ones((4, 2), np.float32)}), np.full((4, 2), 1 / 8))
    assert evaluate(dx, {x: np.ones((0, 2), np.float32)}).shape == (0, 2)
