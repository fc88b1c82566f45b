import numpy as np
import pytest

from aioflow import errors
from aioflow.autodiff.gradients import gradients
from aioflow.graph.graph import Graph
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.kernels.math import arithmetic
from aioflow.tensors import dtypes
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


def value(tensor):
    return evaluate(tensor)


@pytest.mark.parametrize(
    ("dtype", "quotient"),
    [("int8", "float32"), ("uint16", "float32"), ("int32", "float64"), ("int64", "float64"), ("uint64", "float64"),
     ("float16", "float16"), ("float32", "float32"), ("bfloat16", "bfloat16"), ("complex64", "complex64")],
)  # fmt: skip
def test_division_is_true_division(dtype, quotient):
    y = constant([7, 1], dtype) / 2
    assert y.dtype.name == quotient
    assert value(y).dtype == y.dtype.np
    assert value(y).tolist() == [3.5, 0.5]


def test_floordiv_and_mod_follow_pythons_signs():
    for dtype in ("int32", "float64"):
        x = constant([7, -7, 7, -7], dtype)
        y = constant([2, 2, -2, -2], dtype)
        assert value(x // y).tolist() == [3, -4, -4, 3]
        assert value(x % y).tolist() == [1, 1, -1, -1]


@pytest.mark.parametrize("divide", [arithmetic.floordiv, arithmetic.mod])
def test_integers_are_not_divided_by_zero(divide):
    with pytest.raises(errors.InvalidArgumentError, match="integer division by zero"):
        value(divide([1, 2], [1, 0]))
    zero = placeholder("int32", [])
    with pytest.raises(errors.InvalidArgumentError, match="integer division by zero"):
        evaluate(divide([1, 2], zero), {zero: np.int32(0)})
    assert evaluate(divide([4, 6], zero), {zero: np.int32(4)}).dtype == np.int32


def test_floats_divided_by_zero_are_infinite_or_nan():
    np.testing.assert_array_equal(value(constant([1.0, -1.0, 0.0]) / 0.0), [np.inf, -np.inf, np.nan])


def test_a_negative_power_of_integers_is_refused():
    with pytest.raises(ValueError, match="negative integer powers"):
        value(arithmetic.pow([2, 3], [-1, 2]))


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 0.5, -1.0, 3.0])
def test_a_constant_exponent_gives_the_power_and_its_gradient_also_at_zero(exponent):
    x = placeholder("float32", [3])
    points = np.array([0.0, 2.0, 4.0], np.float32)
    y = x**exponent
    power, slope = evaluate([y, *gradients(y, x)], {x: points})
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(power, points**exponent)
        expected = exponent * points ** (exponent - 1) if exponent else points * 0
    np.testing.assert_allclose(slope, expected)
    assert slope.dtype == np.float32


def test_the_gradient_by_an_exponent_is_zero_where_the_base_is_not_positive():
    x, y = placeholder("float64", [3]), placeholder("float64", [3])
    (dy,) = gradients(x**y, y)
    (dydx,) = gradients(dy, x)
    feeds = {x: np.array([-1.0, 0.0, 2.0]), y: np.array([2.0, 2.0, 3.0])}
    np.testing.assert_allclose(evaluate(dy, feeds), [0, 0, 8 * np.log(2)])
    assert np.isfinite(evaluate(dydx, feeds)).all()


def test_the_gradient_by_an_exponent_is_nan_where_the_power_is():
    x, y = placeholder("float64", [3]), placeholder("float64", [3])
    feeds = {x: np.array([-3.0, 2.0, -2.0]), y: np.array([0.5, np.nan, 2.0])}
    np.testing.assert_array_equal(evaluate(gradients(x**y, y)[0], feeds), [np.nan, np.nan, 0])


def test_extremes_give_the_gradient_of_ties_to_x():
    x, y = placeholder("float64", [3]), placeholder("float64", [3])
    feeds = {x: np.array([1.0, 2.0, 3.0]), y: np.array([2.0, 2.0, 2.0])}
    for extreme, dx, dy in [
        (arithmetic.maximum, [0, 1, 1], [1, 0, 0]),
        (arithmetic.minimum, [1, 1, 0], [0, 0, 1]),
    ]:
        found = evaluate(gradients(extreme(x, y), [x, y]), feeds)
        np.testing.assert_array_equal(found, [dx, dy])


def test_texts_are_put_one_after_the_other():
    x = placeholder("string", [None])
    assert value(constant("a") + "b") == b"ab"
    assert value("b" + constant(["x", b"\xff"])).tolist() == [b"bx", b"b\xff"]
    assert value(arithmetic.add(["a"], "é")).tolist() == ["aé".encode()]
    assert evaluate(x + "b", {x: np.zeros(0, object)}).shape == (0,)
    with pytest.raises(TypeError, match="dtypes string and float32 differ"):
        constant("a") + 1.0


def test_extremes_keep_nan():
    assert np.isnan(value(arithmetic.maximum([np.nan, 1.0], [1.0, np.nan]))).all()


def test_complex_squared_differences_are_real_numbers():
    np.testing.assert_allclose(value(arithmetic.squared_difference(constant([3 + 4j]), 0)), [25 + 0j])


def test_add_n_takes_one_shape_only():
    with pytest.raises(ValueError, match=r"add_n: shapes \[2\] and \[3\] are not compatible"):
        arithmetic.add_n([[1.0, 2.0], [1.0, 2.0, 3.0]])
    with pytest.raises(ValueError, match="add_n: at least one tensor is needed"):
        arithmetic.add_n([])
    x, y = placeholder("float32", [None]), placeholder("float32", [None])
    with pytest.raises(errors.InvalidArgumentError, match=r"the shapes differ: \[2\], \[1\]"):
        evaluate(arithmetic.add_n([x, y]), {x: np.ones(2, np.float32), y: np.ones(1, np.float32)})


def test_add_n_merges_what_is_known_of_the_shapes():
    x, y = placeholder("float32", [None, 3]), placeholder("float32", [2, None])
    assert arithmetic.add_n([x, y]).shape == [2, 3]
    assert arithmetic.add_n([x, placeholder("float32", None)]).shape is x.shape


def test_integers_wrap_around():
    assert value(constant([127], dtypes.int8) + 1).tolist() == [-128]
