import ml_dtypes
import numpy as np
import pytest

from aioflow import errors
from aioflow.autodiff.gradients import gradients
from aioflow.graph.graph import Graph
from aioflow.graph.indexed_slices import IndexedSlices, dense
from aioflow.kernels.array import sorting
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.kernels.math import cumulative, histograms, reduction, variance
from aioflow.kernels.math import segments as families
from aioflow.kernels.math import unsorted_segments as unsorted
from aioflow.kernels.sparse import sparse_segments as sparse
from tests.support.evaluate import evaluate

SORTED = [families.segment_mean, families.segment_prod, families.segment_max, families.segment_min]
UNSORTED = [
    unsorted.unsorted_segment_mean, unsorted.unsorted_segment_sqrt_n, unsorted.unsorted_segment_prod,
    unsorted.unsorted_segment_max, unsorted.unsorted_segment_min,
]  # fmt: skip
SPARSE = [sparse.sparse_segment_sum, sparse.sparse_segment_mean, sparse.sparse_segment_sqrt_n]


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


def fed(op, *arrays, **attrs):
    """The value of `op` of placeholders of unknown sizes that are fed these arrays."""
    arrays = [np.asarray(array) for array in arrays]
    feeds = {placeholder(array.dtype, [None] * array.ndim): array for array in arrays}
    return evaluate(op(*feeds, **attrs), feeds)


def slope(op, x, *others):
    tensor = placeholder("float64", np.shape(x))
    (dx,) = gradients(op(tensor, *others), tensor)
    return evaluate(dense(dx), {tensor: np.asarray(x, np.float64)})


# Segments


@pytest.mark.parametrize("op", SORTED)
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "float16", "bfloat16", "float32"])
def test_segments_keep_the_dtype(op, dtype):
    data = constant([[1, 2], [3, 5], [2, 2]], dtype)
    y = op(data, [0, 0, 2])
    assert y.shape.as_list() == [None, 2]
    found = evaluate(y)
    first = {"segment_mean": [2, 3.5], "segment_prod": [3, 10], "segment_max": [3, 5], "segment_min": [1, 2]}[op.name]
    none = 1 if op.name == "segment_prod" else 0
    assert found.dtype == data.dtype.np
    expected = np.array([first, [none, none], [2, 2]])
    np.testing.assert_array_equal(found.astype(float), np.trunc(expected) if data.dtype.is_integer else expected)


@pytest.mark.parametrize("op", UNSORTED)
@pytest.mark.parametrize("dtype", ["int32", "bfloat16", "float32"])
def test_unsorted_segments_of_no_rows_have_the_value_that_changes_nothing(op, dtype):
    data = constant([3, 5, 8], dtype)
    if op is unsorted.unsorted_segment_sqrt_n and data.dtype.is_integer:
        return
    y = op(data, [1, -1, 1], 3)
    assert y.shape == [3]
    name = op.__name__.removeprefix("unsorted_segment_")
    by_name = {"mean": (5.5, 0), "sqrt_n": (11 / 2**0.5, 0), "prod": (24, 1), "max": (8, data.dtype.min)}
    some, none = by_name.get(name, (3, data.dtype.max))
    found = evaluate(y)
    divided = name == "mean" and data.dtype.is_integer
    assert found.dtype == (np.float64 if divided else data.dtype.np)
    expected = np.array([none, some, none]).astype(found.dtype).astype(float)
    np.testing.assert_allclose(found.astype(float), expected, rtol=1e-6)


def test_complex_numbers_have_means_and_products_by_segment():
    data = np.array([1 + 1j, 2j, 3, 1j])
    np.testing.assert_allclose(fed(families.segment_mean, data, [0, 0, 1, 1]), [0.5 + 1.5j, 1.5 + 0.5j])
    np.testing.assert_allclose(fed(families.segment_prod, data, [0, 0, 1, 1]), [-2 + 2j, 3j])
    np.testing.assert_allclose(fed(sparse.sparse_segment_mean, data, [0, 3], [0, 0]), [0.5 + 1j])
    with pytest.raises(TypeError, match="segment_max: dtype complex128 is not supported"):
        families.segment_max(constant(data), [0, 0, 1, 1])


def test_the_gradient_of_a_product_does_not_divide_by_zero():
    data, ids = [0.0, 2.0, 3.0, 0.0, 0.0, 7.0], [0, 0, 0, 1, 1, 3]
    assert slope(families.segment_prod, data, ids).tolist() == [6, 0, 0, 0, 0, 1]
    order = [3, 0, 5, 1, 4, 2]
    shuffled = slope(unsorted.unsorted_segment_prod, np.take(data, order), np.take(ids, order), 4)
    assert shuffled.tolist() == np.take([6, 0, 0, 0, 0, 1], order).tolist()
    assert slope(unsorted.unsorted_segment_prod, [2.0, 5.0], [-1, 0], 1).tolist() == [0, 1]


def test_the_gradient_of_extremes_is_shared():
    ids = [0, 0, 0, 2, 2]
    assert slope(families.segment_max, [4.0, 1.0, 4.0, 2.0, 3.0], ids).tolist() == [0.5, 0, 0.5, 0, 1]
    assert slope(unsorted.unsorted_segment_min, [4.0, 4.0, 5.0, 0.0], [1, 1, 1, -1], 3).tolist() == [0.5, 0.5, 0, 0]


def test_the_gradient_of_looked_up_segments_is_sparse():
    table = placeholder("float64", [1000, 2])
    y = sparse.sparse_segment_mean(table, [7, 3, 7], [0, 0, 1], num_segments=4)
    assert y.shape == [4, 2]
    (gradient,) = gradients(y, table)
    assert isinstance(gradient, IndexedSlices)
    values, places = evaluate([gradient.values, gradient.indices])
    assert places.tolist() == [7, 3, 7]
    assert values.tolist() == [[0.5, 0.5], [0.5, 0.5], [1, 1]]


def test_ids_may_have_many_axes_where_they_are_unsorted():
    data, ids = np.arange(12.0).reshape(2, 2, 3), np.array([[0, 1], [1, -1]])
    assert fed(unsorted.unsorted_segment_max, data, ids, 2).tolist() == [[0, 1, 2], [6, 7, 8]]
    assert fed(unsorted.unsorted_segment_mean, data, ids, np.int64(2)).tolist() == [[0, 1, 2], [4.5, 5.5, 6.5]]
    np.testing.assert_allclose(slope(unsorted.unsorted_segment_prod, data, ids, 2)[1], [[3, 4, 5], [0, 0, 0]])


def test_a_lot_of_rows_by_segment_are_what_a_loop_makes_of_them():
    random = np.random.default_rng(5)
    data, ids = random.standard_normal((4000, 3)), np.sort(random.integers(0, 300, 4000))
    for op, function in zip(SORTED, (np.mean, np.prod, np.max, np.min), strict=True):
        expected = [function(data[ids == s], axis=0) for s in range(ids.max() + 1)]
        np.testing.assert_allclose(fed(op, data, ids), expected, rtol=1e-11, atol=1e-300)


@pytest.mark.parametrize("op", SORTED)
@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([0, 2, 1], "rising order: 1 follows 2"),
        ([-1, 0, 1], "must not be negative: -1"),
        ([0, 1], "2 segment ids are given for 3 rows"),
    ],
)
def test_ids_that_are_not_sorted_are_refused(op, ids, message):
    with pytest.raises((errors.InvalidArgumentError, ValueError), match=message):
        fed(op, np.ones((3, 2)), ids)


def test_segments_that_cannot_be_are_refused():
    data = constant([[1.0], [2.0]])
    with pytest.raises(
        ValueError, match=r"data of shape \[2, 1\] must have a row for each of segment_ids of shape \[3\]"
    ):
        families.segment_mean(data, [0, 1, 2])
    with pytest.raises(TypeError, match="segment_ids must be made of integers, not float32"):
        families.segment_mean(data, [0.5, 1.5])
    with pytest.raises(ValueError, match="num_segments cannot be negative: -2"):
        unsorted.unsorted_segment_max(data, [0, 1], -2)
    for op in UNSORTED:
        with pytest.raises(ValueError, match="segment id 3 is out of range for size 2"):
            fed(op, np.ones(2), [0, 3], 2)
    for op in SPARSE:
        with pytest.raises(ValueError, match="index 9 is out of range for size 2"):
            fed(op, np.ones(2), [0, 9], [0, 0])
        with pytest.raises(ValueError, match="segment id 4 is out of range for size 3"):
            fed(op, np.ones(2), [0, 1], [0, 4], num_segments=3)
        with pytest.raises(ValueError, match="1 segment ids are given for 2 rows"):
            fed(op, np.ones(2), [0, 1], [0])


# Counting


def test_counting_values():
    assert evaluate(histograms.bincount(constant([1, 1, 3]))).tolist() == [0, 2, 0, 1]
    assert evaluate(histograms.bincount(constant([], "int32"), minlength=2)).tolist() == [0, 0]
    assert evaluate(histograms.bincount([1, 7, 7], maxlength=5)).tolist() == [0, 1, 0, 0, 0]
    assert evaluate(histograms.bincount([1, 7], [0.5, 0.25], minlength=9)).tolist() == [0, 0.5, 0, 0, 0, 0, 0, 0.25, 0]
    assert histograms.bincount(placeholder("int32", [None]), minlength=6, maxlength=5).shape == [5]
    assert evaluate(histograms.bincount([1], dtype="float32")).dtype == np.float32
    with pytest.raises(ValueError, match="only values from 0 on are counted, not -3"):
        evaluate(histograms.bincount([1, -3]))
    with pytest.raises(ValueError, match=r"weights of shape \[2\] do not fit arr of shape \[3\]"):
        histograms.bincount([1, 1, 3], [0.5, 0.5])


def test_the_gradient_of_weighted_counts_skips_what_is_left_out():
    assert slope(lambda w: histograms.bincount([1, 5, 0], w, maxlength=3), [1.0, 2.0, 3.0]).tolist() == [1, 0, 1]


def test_histograms_put_everything_but_nan_into_a_bin():
    values = constant([-np.inf, -1.0, 0.0, 1.5, 2.0, 5.0, np.inf, np.nan])
    assert evaluate(histograms.histogram_fixed_width(values, [0.0, 5.0], 5)).tolist() == [3, 1, 1, 0, 2]
    assert evaluate(histograms.histogram_fixed_width_bins(values, [0.0, 5.0], 5)).tolist() == [0, 0, 0, 1, 2, 4, 4, -1]
    assert histograms.histogram_fixed_width(values, [0.0, 5.0]).shape == [100]
    assert evaluate(histograms.histogram_fixed_width(constant([3, 4]), [0, 8], nbins=2, dtype="int64")).tolist() == [
        1,
        1,
    ]
    with pytest.raises(ValueError, match=r"value_range \[5, 5\] is empty"):
        evaluate(histograms.histogram_fixed_width(values, [5.0, 5.0], 5))
    with pytest.raises(ValueError, match="nbins must be 1 or more, not 0"):
        histograms.histogram_fixed_width(values, [0.0, 5.0], 0)


def test_confusion_of_classes():
    y = histograms.confusion_matrix([1, 0, 1], [1, 1, 0], name="matrix")
    assert y.name == "matrix:0"
    assert evaluate(y).tolist() == [[0, 1], [1, 1]]
    column = placeholder("int64", [None, 1])
    z = histograms.confusion_matrix(column, constant([1, 0]), 3, "float32", weights=[0.5, 2.0])
    assert z.shape == [3, 3]
    assert evaluate(z, {column: np.array([[2], [0]])}).tolist() == [[2, 0, 0], [0, 0, 0], [0, 0.5, 0]]
    assert evaluate(histograms.confusion_matrix(constant([], "int32"), constant([], "int32"))).shape == (0, 0)
    with pytest.raises(ValueError, match="label 3 is out of range for size 3"):
        evaluate(histograms.confusion_matrix([3], [0], 3))
    with pytest.raises(ValueError, match="prediction -1 is out of range for size 2"):
        evaluate(histograms.confusion_matrix([1], [-1]))


# Order


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float16", "bfloat16", "float8_e5m2", "float32", "float64"])
def test_sorting_keeps_the_dtype_and_is_stable(dtype):
    x = constant([[2, 1, 2, 0], [1, 1, 1, 3]], dtype)
    up, down, places, back = evaluate([
        sorting.sort(x), sorting.sort(x, direction="DESCENDING"), sorting.argsort(x),
        sorting.argsort(x, direction="DESCENDING"),
    ])  # fmt: skip
    assert up.dtype == down.dtype == x.dtype.np
    assert up.astype(int).tolist() == [[0, 1, 2, 2], [1, 1, 1, 3]]
    assert down.astype(int).tolist() == [[2, 2, 1, 0], [3, 1, 1, 1]]
    assert places.dtype == np.int32
    assert places.tolist() == [[3, 1, 0, 2], [0, 1, 2, 3]]
    assert back.tolist() == [[0, 2, 1, 3], [3, 0, 1, 2]]


def test_nan_counts_as_greatest():
    x = constant([1.0, np.nan, -np.inf, np.inf])
    np.testing.assert_array_equal(evaluate(sorting.sort(x)), [-np.inf, 1, np.inf, np.nan])
    np.testing.assert_array_equal(evaluate(sorting.sort(x, direction="DESCENDING")), [np.nan, np.inf, 1, -np.inf])


def test_sorting_what_cannot_be_sorted_is_refused():
    x = constant([[1.0, 2.0]])
    with pytest.raises(ValueError, match="direction must be 'ASCENDING' or 'DESCENDING', not 'UP'"):
        sorting.sort(x, direction="UP")
    with pytest.raises(ValueError, match="argsort: axis 2 is out of range for rank 2"):
        sorting.argsort(x, 2)
    with pytest.raises(ValueError, match="a scalar has no axis"):
        sorting.sort(1.5)


def test_the_nth_element_of_each_row():
    x = constant([[5, 1, 3], [4, 4, 9]], ml_dtypes.bfloat16)
    assert evaluate(sorting.nth_element(x, 0)).tolist() == [1, 4]
    assert evaluate(sorting.nth_element(x, 0, reverse=True)).tolist() == [5, 9]
    assert slope(lambda x: sorting.nth_element(x, 1), [[5.0, 1.0, 3.0], [4.0, 4.0, 9.0]]).tolist() == [
        [0, 0, 1],
        [0.5, 0.5, 0],
    ]
    with pytest.raises(ValueError, match="n 3 is out of range for size 3"):
        sorting.nth_element(x, 3)
    with pytest.raises(ValueError, match="n -1 is out of range for size 3"):
        fed(sorting.nth_element, np.ones((2, 3)), np.array(-1))


@pytest.mark.parametrize(
    ("x", "rises", "strictly"),
    [
        ([], True, True),
        ([5], True, True),
        ([1, 1, 2], True, False),
        ([[1, 2], [3, 4]], True, True),
        ([2, 1], False, False),
    ],
)
def test_order_is_told(x, rises, strictly):
    x = constant(np.array(x, np.float32))
    assert evaluate(sorting.is_non_decreasing(x, name="rises")) == rises
    assert evaluate(sorting.is_strictly_increasing(x)) == strictly


# Sums and spread


def test_accumulating_is_adding():
    x, y = placeholder("float32", [None, 2]), constant([[1.0, 2.0]])
    assert cumulative.accumulate_n([x, y], shape=[1, 2], name="total").name == "total:0"
    assert cumulative.accumulate_n([x, y], shape=[1, 2]).shape == [1, 2]
    assert cumulative.accumulate_n([x]) is x
    with pytest.raises(ValueError, match="a list of at least one tensor is needed"):
        cumulative.accumulate_n([])
    with pytest.raises(TypeError, match="float64 is needed"):
        cumulative.accumulate_n([x, y], tensor_dtype="float64")
    with pytest.raises(ValueError, match="not compatible"):
        cumulative.accumulate_n([y, constant([1.0])])


def test_polynomials_by_their_coefficients():
    x = constant([[0.0, 1.0], [2.0, -3.0]])
    np.testing.assert_allclose(evaluate(cumulative.polyval([2, -1, constant(3.0)], x)), [[3, 4], [9, 24]])
    assert evaluate(cumulative.polyval([], x)).tolist() == [[0, 0], [0, 0]]
    assert evaluate(cumulative.polyval([5.0], x)).tolist() == [[5, 5], [5, 5]]
    with pytest.raises(ValueError, match="coeffs must be a list, not Tensor"):
        cumulative.polyval(x, x)


def test_running_logarithms_of_sums_do_not_overflow():
    x = [1000.0, -np.inf, 1000.0, 5.0]
    two = 1000 + np.log(2)
    np.testing.assert_allclose(fed(cumulative.cumulative_logsumexp, x), [1000, 1000, two, two])
    np.testing.assert_allclose(
        fed(cumulative.cumulative_logsumexp, x, exclusive=True, reverse=True), [1000, 1000, 5, -np.inf]
    )
    slopes = slope(cumulative.cumulative_logsumexp, x)
    np.testing.assert_allclose(slopes, [3, 0, 1, 0], atol=1e-12)
    hidden = slope(cumulative.cumulative_logsumexp, [-np.inf, -np.inf, 1.0])
    np.testing.assert_allclose(hidden, [0, 0, 1])
    with pytest.raises(ValueError, match="a scalar has no axis"):
        cumulative.cumulative_logsumexp(1.5)


@pytest.mark.parametrize("dtype", ["int32", "float16", "bfloat16", "float32", "complex64"])
def test_the_euclidean_norm_keeps_the_dtype(dtype):
    x = constant([[3, 4], [0, 0], [1, 1]], dtype)
    y = reduction.reduce_euclidean_norm(x, 1)
    assert y.dtype is x.dtype
    last = 1 if x.dtype.is_integer else np.sqrt(2)
    np.testing.assert_allclose(evaluate(y).astype(complex), [5, 0, last], rtol=1e-2)


def test_the_euclidean_norm_of_zeros_has_a_gradient_of_zero():
    assert slope(reduction.reduce_euclidean_norm, [0.0, 0.0]).tolist() == [0, 0]
    np.testing.assert_allclose(slope(reduction.reduce_euclidean_norm, [3.0, 4.0]), [0.6, 0.8])


def test_spread_is_real_and_of_what_varies():
    z = constant([1 + 1j, 3 - 1j])
    assert variance.reduce_std(z).dtype.name == "float64"
    np.testing.assert_allclose(evaluate(variance.reduce_variance(z, name="spread")), 2)
    assert np.isnan(evaluate(variance.reduce_std(constant([], "float32"))))
    with pytest.raises(TypeError, match="reduce_variance: the input must be real or complex, not int32"):
        variance.reduce_std([1, 2])
