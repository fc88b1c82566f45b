import math

import numpy as np
import pytest
import scipy.special

from aioflow.autodiff.gradients import gradients
from aioflow.errors import InvalidArgumentError
from aioflow.graph.graph import Graph
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.kernels.math import (
    bessel_i,
    bessel_j_y,
    bessel_k,
    comparison,
    division,
    error_functions,
    gamma,
    incomplete_beta,
    no_nan,
    special_integrals,
)
from tests.support.evaluate import evaluate

random = np.random.default_rng(11)
inf, nan = np.inf, np.nan


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


def value(op, *inputs):
    return evaluate(op(*[constant(np.asarray(x, np.float64)) for x in inputs]))


def powers(low, high, count=2000):
    return 10 ** random.uniform(low, high, count)


def agree(op, reference, *inputs, rtol=1e-13):
    np.testing.assert_allclose(value(op, *inputs), reference(*inputs), rtol=rtol, atol=1e-305)


# Against SciPy


def test_lgamma_is_exact_everywhere_above_0_also_near_its_zeros():
    x = np.concatenate([powers(-300, 300), powers(-3, 3)])
    agree(gamma.lgamma, scipy.special.gammaln, x[np.abs(x - 1.5) > 0.6], rtol=2e-14)
    off = powers(-12, -2)
    euler, curvature = np.euler_gamma, math.pi**2 / 6
    for zero, slope, second in [(1, -euler, curvature), (2, 1 - euler, curvature - 1)]:
        exact = (zero + off) - zero
        expected = exact * (slope + exact * (second / 2))
        np.testing.assert_allclose(value(gamma.lgamma, zero + off)[off < 1e-7], expected[off < 1e-7], rtol=1e-13)


def test_lgamma_and_digamma_below_0():
    x = -random.uniform(0, 60, 2000)
    np.testing.assert_allclose(value(gamma.lgamma, x), scipy.special.gammaln(x), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(value(gamma.digamma, x), scipy.special.digamma(x), rtol=1e-11, atol=1e-11)


def test_digamma_and_polygamma_over_many_powers_of_ten():
    x = np.concatenate([powers(-300, 300), powers(-3, 3)])
    agree(gamma.digamma, scipy.special.digamma, x[np.abs(x - 1.4616) > 0.05], rtol=5e-14)
    order = random.integers(1, 12, 2000).astype(float)
    agree(gamma.polygamma, lambda n, x: scipy.special.polygamma(n.astype(int), x), order, powers(-3, 5))


def test_zeta_over_many_powers_of_ten():
    agree(gamma.zeta, scipy.special.zeta, 1 + powers(-6, 1.5), powers(-3, 4), rtol=1e-14)
    agree(gamma.zeta, scipy.special.zeta, random.integers(2, 9, 2000) * 2.0, -random.uniform(0, 30, 2000))


def test_zeta_does_not_slow_down_far_below_0():
    far = value(gamma.zeta, [2.0, 3.0], [-1e9 - 0.25, -1e9 - 0.5])
    np.testing.assert_allclose(far, [2 * math.pi**2 - 1e-9, 0], rtol=1e-12, atol=1e-9)


def test_quantiles_over_all_shares():
    tails = powers(-300, -1)
    agree(error_functions.ndtri, scipy.special.ndtri, np.concatenate([random.uniform(0, 1, 2000), tails]), rtol=5e-15)
    small = np.concatenate([random.uniform(-1, 1, 2000), tails, 1 - powers(-15, -1)])
    agree(error_functions.erfinv, scipy.special.erfinv, small, rtol=5e-15)


def test_bessel_functions_over_all_sizes():
    x = np.concatenate([random.normal(0, 10, 2000), powers(-300, 300)])
    agree(bessel_i.bessel_i0e, scipy.special.i0e, x, rtol=3e-15)
    agree(bessel_i.bessel_i1e, scipy.special.i1e, x, rtol=5e-15)


@pytest.mark.parametrize(("low", "high"), [(-3, 0), (0, 1), (1, 2.3)])
def test_incomplete_gamma_functions_over_many_sizes(low, high):
    a = powers(low, high)
    for x in (a * np.exp(random.normal(0, 0.7, 2000)), np.abs(a + 2 * np.sqrt(a) * random.normal(0, 1, 2000))):
        agree(gamma.igamma, scipy.special.gammainc, a, x, rtol=5e-13)
        keep = scipy.special.gammaincc(a, x) > 1e-280
        agree(gamma.igammac, scipy.special.gammaincc, a[keep], x[keep], rtol=5e-13)


def test_incomplete_gamma_functions_of_large_numbers():
    """Computed with 40 digits; SciPy's own are off by 1e-8 and more here."""
    cases = [
        (965556.1319661011, 956476.1330120345, 9.36687114961136e-21, 1),
        (3186620.5694915145, 3167615.5392454253, 7.225599881426897e-27, 1),
        (2522816.373952347, 2532448.8428291585, 1, 6.933934271922001e-10),
        (43589748.732178666, 43623091.3652343, 1, 2.2211864185482245e-07),
    ]
    a, x, lower, upper = np.array(cases).T
    np.testing.assert_allclose(value(gamma.igamma, a[:2], x[:2]), lower[:2], rtol=2e-13)
    np.testing.assert_allclose(value(gamma.igammac, a[2:], x[2:]), upper[2:], rtol=2e-13)


@pytest.mark.parametrize(("low", "high"), [(-4, 0), (-2, 1), (0, 2), (1, 5)])
def test_the_incomplete_beta_function_over_many_sizes(low, high):
    a, b = powers(low, high), powers(low, high)
    mean = a / (a + b)
    x = np.clip(mean + 3 * random.normal(0, 1, 2000) * np.sqrt(mean * (1 - mean) / (a + b + 1)), 1e-9, 1 - 1e-9)
    for points in (x, np.where(scipy.special.betainc(a, b, x**3) > 1e-200, x**3, x)):
        agree(incomplete_beta.betainc, scipy.special.betainc, a, b, points, rtol=5e-12)


def test_the_incomplete_beta_function_far_out():
    """Computed with 40 digits; SciPy's own are off by up to a fifth here."""
    a = np.array([2226.0058876127423, 1589.341458123681, 860.1005782105536])
    b = np.array([34.84748188077784, 37.85861318512693, 29.511419396404857])
    x = np.array([0.7143534637349568, 0.6262086587345217, 0.42417745801905793])
    exact = [3.907128160044597834e-269, 2.801377728652143244e-264, 3.004289591868200567e-274]
    np.testing.assert_allclose(value(incomplete_beta.betainc, a, b, x), exact, rtol=1e-12)


def test_both_sides_of_the_incomplete_functions_make_one():
    a, x = powers(-3, 4), powers(-3, 4)
    both = value(gamma.igamma, a, x) + value(gamma.igammac, a, x)
    np.testing.assert_allclose(both, 1, rtol=1e-14)
    b, share = powers(-3, 4), random.uniform(0, 1, 2000)
    both = value(incomplete_beta.betainc, a, b, share) + value(incomplete_beta.betainc, b, a, 1 - share)
    np.testing.assert_allclose(both, 1, rtol=1e-11)


# Ends


@pytest.mark.parametrize(
    ("op", "inputs", "expected"),
    [
        (gamma.lgamma, [[0, -0.0, -1, -2, inf, -inf, nan, 1, 2]], [inf, inf, inf, inf, inf, inf, nan, 0, 0]),
        (gamma.digamma, [[0.0, -0.0, -1, -2, inf, -inf, nan]], [-inf, inf, nan, nan, inf, nan, nan]),
        (gamma.lbeta, [[[1, 1], [2, 3]]], [0, math.log(1 / 12)]),
        (gamma.lbeta, [np.zeros((2, 0))], [-inf, -inf]),
        (gamma.zeta, [[1, 0.5, 2, 2, 2.5, 2, nan, inf, 3], [2, 1, 0, -3, -0.5, inf, 1, 2, nan]],
         [inf, nan, inf, inf, nan, 0, nan, 0, nan]),
        (gamma.polygamma, [[0, -1, 0.5, 1, 1, 2], [1, 1, 1, inf, 0, 0]], [-np.euler_gamma, nan, nan, 0, inf, -inf]),
        (error_functions.ndtri, [[0, 1, 0.5, -0.1, 1.1, nan]], [-inf, inf, 0, nan, nan, nan]),
        (error_functions.erfinv, [[-1, 1, 0, 1.1, nan]], [-inf, inf, 0, nan, nan]),
        (bessel_i.bessel_i0e, [[0, inf, -inf, nan]], [1, 0, 0, nan]),
        (bessel_i.bessel_i1e, [[0, inf, -inf, nan]], [0, 0, 0, nan]),
        (gamma.igamma, [[1, 0, 2, 2, inf, -1, 1, nan, 1], [0, 1, inf, 0, 5, 1, -1, 1, nan]],
         [0, 1, 1, 0, 0, nan, nan, nan, nan]),
        (gamma.igammac, [[1, 0, 2, 2, inf, -1, 1, nan, 1], [0, 1, inf, 0, 5, 1, -1, 1, nan]],
         [1, 0, 0, 1, 1, nan, nan, nan, nan]),
        (incomplete_beta.betainc, [[2, 2, 2, 2, 0, 2, nan], [3, 3, 3, 3, 1, -1, 1], [0, 1, -0.1, 1.1, 0.5, 0.5, 0.5]],
         [0, 1, nan, nan, nan, nan, nan]),
        (division.log_sigmoid, [[-1e4, 0, 1e4, nan]], [-1e4, math.log(0.5), 0, nan]),
        (division.xlogy, [[0, 0, 0, 2, nan], [0, nan, inf, 0, 1]], [0, 0, 0, -inf, nan]),
        (no_nan.xdivy, [[0, 0, 2, nan], [0, nan, 0, 1]], [0, 0, inf, nan]),
        (no_nan.div_no_nan, [[1, nan, 0, 3], [0, 0, 0, 2]], [0, 0, 0, 1.5]),
        (no_nan.multiply_no_nan, [[1, nan, inf, 3], [0, 0, 0, 2]], [0, 0, 0, 6]),
        (division.reciprocal_no_nan, [[0, 4]], [0, 0.25]),
    ],
)  # fmt: skip
def test_ends_and_poles(op, inputs, expected):
    np.testing.assert_allclose(value(op, *inputs), expected, rtol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64", "complex128"])
def test_a_kept_0_has_no_sign_whichever_the_other_elements_are(dtype):
    for other in (1, np.nan):
        zeros, others = np.array([0, other, -0.0], dtype), np.array([-2, other, 3], dtype)
        a, b = constant(zeros), constant(others)
        kept = no_nan.xdivy(a, b), division.xlogy(a, b), no_nan.multiply_no_nan(b, a), no_nan.div_no_nan(b, a)
        for found in evaluate(kept):
            assert not found[[0, 2]].tobytes().strip(b"\0")


@pytest.mark.parametrize(
    "op", [gamma.lgamma, gamma.digamma, error_functions.ndtri, bessel_i.bessel_i1e, gamma.zeta, gamma.igamma]
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_narrow_floats_are_computed_wide_and_rounded_once(op, dtype):
    inputs = [placeholder(dtype, [None, 2]) for _ in op.params]
    arrays = [np.full((3, 2), 1.5 - i if op is gamma.zeta else 0.75, x.dtype.np) for i, x in enumerate(inputs)]
    y = op(*inputs)
    found = evaluate(y, dict(zip(inputs, arrays, strict=True)))
    wide = value(op, *[array.astype(np.float64) for array in arrays])
    assert (found.dtype, found.shape) == (y.dtype.np, (3, 2))
    np.testing.assert_array_equal(found, wide.astype(found.dtype))


def test_special_functions_broadcast_and_take_nothing():
    a, x = placeholder("float32", [None, 1]), placeholder("float32", [3])
    y = gamma.igamma(a, x)
    assert y.shape.as_list() == [None, 3]
    for rows in (0, 2):
        assert evaluate(y, {a: np.ones((rows, 1), "f"), x: np.ones(3, "f")}).shape == (rows, 3)
    assert incomplete_beta.betainc(constant(1.0), constant([1.0, 2.0]), constant([[0.5]])).shape == [1, 2]
    with pytest.raises(TypeError, match="igamma: dtype int32 is not supported"):
        gamma.igamma(constant([1]), constant([2]))
    with pytest.raises(ValueError, match="cannot be broadcast"):
        incomplete_beta.betainc(constant([1.0, 2.0]), constant([1.0, 2.0, 3.0]), 0.5)


# Gradients where functions are delicate


def slope(op, *inputs, by=0):
    tensors = [placeholder("float64", np.shape(x)) for x in inputs]
    (dx,) = gradients(op(*tensors), tensors[by])
    return evaluate(dx, dict(zip(tensors, map(np.asarray, inputs), strict=True)))


def test_no_gradient_is_nan_where_a_factor_is_0():
    x, y = np.array([0.0, 0.0, 2.0]), np.array([0.0, 3.0, 4.0])
    np.testing.assert_allclose(slope(division.xlogy, x, y), [0, math.log(3), math.log(4)])
    np.testing.assert_allclose(slope(division.xlogy, x, y, by=1), [0, 0, 0.5])
    np.testing.assert_allclose(slope(no_nan.xdivy, x, y), [0, 1 / 3, 0.25])
    np.testing.assert_allclose(slope(no_nan.xdivy, x, y, by=1), [0, 0, -1 / 8])
    np.testing.assert_allclose(slope(no_nan.div_no_nan, y, x), [0, 0, 0.5])
    np.testing.assert_allclose(slope(no_nan.div_no_nan, y, x, by=1), [0, 0, -1])


def test_bessel_functions_have_their_gradient_at_0():
    assert slope(bessel_i.bessel_i0e, [0.0]) == [0]
    assert slope(bessel_i.bessel_i1e, [0.0]) == pytest.approx([0.5])


def test_a_gradient_of_0_stays_0_where_bessel_functions_overflow():
    at, arriving = placeholder("float64", [3]), placeholder("float64", [3])
    for function in (bessel_i.bessel_i0, bessel_i.bessel_i1):
        (slopes,) = gradients(function(at), at, arriving)
        assert evaluate(slopes, {at: np.array([1e3, -1e4, 1e300]), arriving: np.zeros(3)}).tolist() == [0, 0, 0]


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-7), ("float32", 3e-5)])
def test_bessel_functions_have_their_gradients_near_0(dtype, rtol):
    x = np.array([0, 1e-310, 1e-45, 1e-20, 1e-6, 1e-4, 2e-4, 0.01, 0.02, 0.3], dtype)
    at = placeholder(dtype, x.shape)
    (first,) = gradients(bessel_i.bessel_i1(at), at)
    (second,) = gradients(first, at)
    i0, i1, i2, i3 = (scipy.special.iv(order, np.maximum(x, 1e-100).astype(float)) for order in range(4))
    np.testing.assert_allclose(evaluate(first, {at: x}), (i0 + i2) / 2, rtol)
    np.testing.assert_allclose(evaluate(second, {at: x}), (3 * i1 + i3) / 4, rtol, rtol)


def test_incomplete_gamma_functions_have_gradients_of_any_order_by_both_arguments():
    a, x = placeholder("float64", []), placeholder("float64", [])
    y = gamma.igamma(a, x)
    for _ in range(3):
        (y,) = gradients(y, a)
    h = 0.02
    at, weights = np.arange(-4, 5), np.array([-7, 72, -338, 488, 0, -488, 338, -72, 7]) / 240
    for point in [(0.4, 0.3), (2.5, 4.0), (30.0, 28.0), (300.0, 330.0)]:
        step = h * max(1, point[0] ** 0.5)
        numeric = weights @ scipy.special.gammainc(point[0] + step * at, point[1]) / step**3
        assert evaluate(y, {a: np.float64(point[0]), x: np.float64(point[1])}) == pytest.approx(
            numeric, rel=1e-3, abs=1e-9
        )
    with pytest.raises(ValueError, match="order must be 1 or more, not 0"):
        gamma.igamma_derivative(a, x, 0)


def test_no_gradient_flows_to_what_a_docstring_excludes():
    a, b = placeholder("float64", []), placeholder("float64", [])
    assert gradients(gamma.zeta(a, b), a) == [None]
    assert gradients(gamma.polygamma(a, b), a) == [None]
    assert gradients(incomplete_beta.betainc(a, b, 0.5), [a, b]) == [None, None]


# Division and bits


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint16", "int64", "float32", "float64", "bfloat16"])
def test_truncating_division_is_that_of_c(dtype):
    pairs = [(7, 2), (8, 4), (0, 3)] + ([] if dtype == "uint16" else [(-7, 2), (7, -2), (-7, -2), (-8, 4)])
    x, y = (constant(list(side), dtype) for side in zip(*pairs, strict=True))
    quotient, rest = evaluate([division.truncatediv(x, y), division.truncatemod(x, y)])
    assert quotient.astype(int).tolist() == [int(a / b) for a, b in pairs]
    assert rest.astype(int).tolist() == [int(math.fmod(a, b)) for a, b in pairs]
    assert quotient.dtype == rest.dtype == x.dtype.np


def test_integers_are_not_divided_by_zero():
    for op in (division.truncatediv, division.truncatemod):
        with pytest.raises(InvalidArgumentError, match="integer division by zero"):
            evaluate(op(constant([1, 2]), constant([1, 0])))
        assert not np.isfinite(evaluate(op(constant([1.0]), constant([0.0]))))


def test_div_is_that_of_python_2():
    assert evaluate(division.div(constant([7, -7]), 2, name="d")).tolist() == [3, -4]
    assert evaluate(division.div(constant([7.0, -7.0]), 2)).tolist() == [3.5, -3.5]
    assert evaluate(division.div(7, constant(2))) == 3
    assert division.floor_div(constant([7]), 2).op.type == "floordiv"


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_bits_are_those_of_the_dtype(dtype):
    x = constant([0, 1, 100, 127], dtype)
    width, one = 8 * x.dtype.size, constant(1, dtype)
    assert evaluate(comparison.population_count(x)).tolist() == [0, 1, 3, 7]
    assert evaluate(comparison.population_count(x)).dtype == np.uint8
    assert evaluate(comparison.left_shift(one, [width - 1, width, 3])).tolist()[1:] == [0, 8]
    assert evaluate(comparison.right_shift(x, 2)).tolist() == [0, 0, 25, 31]
    if not x.dtype.is_unsigned:
        minus = constant([-1, -8], dtype)
        assert evaluate(comparison.population_count(minus)).tolist() == [width, width - 3]
        assert evaluate(comparison.right_shift(minus, 1)).tolist() == [-1, -4]
    with pytest.raises(TypeError, match="dtype float32 is not supported"):
        comparison.population_count(constant([1.5]))


def test_bessel_functions_and_integrals_are_exact_to_1e_12_away_from_their_zeros():
    x = np.sort(np.concatenate([powers(-8, 2.5), random.uniform(0, 60, 4000)]))
    for op, reference in {
        bessel_k.bessel_k0: scipy.special.k0,
        bessel_k.bessel_k0e: scipy.special.k0e,
        bessel_k.bessel_k1: scipy.special.k1,
        bessel_k.bessel_k1e: scipy.special.k1e,
        special_integrals.dawsn: scipy.special.dawsn,
        special_integrals.fresnel_cos: lambda x: scipy.special.fresnel(x)[1],
        special_integrals.fresnel_sin: lambda x: scipy.special.fresnel(x)[0],
    }.items():
        agree(op, reference, x, rtol=1e-12)
    for op, reference in {
        bessel_j_y.bessel_j0: scipy.special.j0,
        bessel_j_y.bessel_j1: scipy.special.j1,
        bessel_j_y.bessel_y0: scipy.special.y0,
        bessel_j_y.bessel_y1: scipy.special.y1,
        special_integrals.expint: scipy.special.expi,
        special_integrals.spence: scipy.special.spence,
    }.items():
        agree(op, reference, x[np.abs(reference(x)) > 0.02 / (1 + np.sqrt(x))], rtol=1e-12)
    agree(
        error_functions.erfcinv,
        scipy.special.erfcinv,
        np.concatenate([powers(-300, -0.1), random.uniform(1.1, 2, 500)]),
    )


def test_bessel_functions_and_spence_have_gradients_at_removable_poles():
    for op, at, first, second in [(bessel_j_y.bessel_j1, 0.0, 0.5, 0.0), (special_integrals.spence, 1.0, -1.0, 0.5)]:
        x = constant(np.float64(at))
        slope = gradients(op(x), x)[0]
        assert evaluate([slope, gradients(slope, x)[0]]) == pytest.approx([first, second])
