import math as pure

import numpy as np
import pytest

from aioflow.autodiff.gradients import gradients
from aioflow.graph.graph import Graph
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.kernels.math import (
    complex,
    elementwise,
    error_functions,
    rounding,
)
from aioflow.tensors.dtypes import bfloat16
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


def value(tensor):
    return evaluate(tensor)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_sigmoid_never_overflows(dtype):
    x = constant([-1e4, -20, 0, 20, 1e4, np.inf, -np.inf], dtype)
    y = value(elementwise.sigmoid(x))
    np.testing.assert_allclose(y.astype(float), [0, 2.06e-9, 0.5, 1, 1, 1, 0], rtol=0.01, atol=1e-7)
    assert y.dtype == x.dtype.np


def test_the_complex_sigmoid_does_not_overflow():
    np.testing.assert_allclose(value(elementwise.sigmoid(constant([-1e4 + 1j, 1e4 - 1j]))), [0, 1], atol=1e-12)


def test_the_modulus_of_a_complex_number_is_real():
    y = elementwise.abs(constant([3 + 4j], "complex64"))
    assert y.dtype.name == "float32"
    assert value(y).tolist() == [5]


def test_abs_and_sign_have_a_gradient_of_zero_at_zero():
    for dtype in ("float64", "complex128"):
        x = placeholder(dtype, [1])
        for op in (elementwise.abs, elementwise.sign):
            y = op(x)
            (dx,) = gradients(y, x, constant([1], y.dtype))
            assert evaluate(dx, {x: np.zeros(1, x.dtype.np)}) == 0


def test_parts_of_a_real_number_are_itself_and_zero():
    x = constant([1.5, -2.5])
    assert complex.real(x) is x
    assert complex.conj(x) is x
    assert value(complex.imag(x)).tolist() == [0, 0]
    with pytest.raises(TypeError, match="is not numeric"):
        complex.real(["text"])


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int32", "complex64"])
def test_the_angle_of_a_negative_number_is_pi_and_its_gradient_zero(dtype):
    x = constant([1.5, -2.5, 0.0, -1.0], dtype) if dtype != "int32" else constant([1, -2, 0, -1])
    y = complex.angle(x)
    assert y.dtype.name == {"int32": "float64", "complex64": "float32"}.get(dtype, dtype)
    np.testing.assert_array_equal(value(y), np.array([0, np.pi, 0, np.pi], y.dtype.np))
    if y.dtype is x.dtype:
        assert value(gradients(y, x)[0]).tolist() == [0] * 4


def test_the_angle_of_real_numbers_is_numpys_at_the_edges():
    x = np.array([-0.0, 0.0, -np.inf, np.inf, np.nan])
    np.testing.assert_array_equal(value(complex.angle(constant(x))), np.angle(x))


def test_infinite_parts_stay_what_they_are():
    z = value(complex.complex(constant([np.inf, 1.0]), constant([1.0, np.inf])))
    assert z.dtype == np.complex64
    np.testing.assert_array_equal(z.real, [np.inf, 1])
    np.testing.assert_array_equal(z.imag, [1, np.inf])


def test_descending_against_the_gradient_of_a_complex_number_lowers_a_real_loss():
    z = placeholder("complex128", [])
    loss = elementwise.square(elementwise.abs(z - (1 + 2j)))
    (dz,) = gradients(loss, z)
    np.testing.assert_allclose(evaluate(dz, {z: np.complex128(4 - 2j)}), 2 * (3 - 4j))


def test_erf_and_erfc_are_exact_to_a_few_units_in_the_last_place():
    x = np.concatenate([np.linspace(-6.5, 6.5, 5001), [1e-300, -1e-20, 26.0]])
    for op, exact in [(error_functions.erf, pure.erf), (error_functions.erfc, pure.erfc)]:
        np.testing.assert_allclose(value(op(constant(x))), [exact(each) for each in x], rtol=2e-15)


def test_erf_reaches_its_limits():
    ends = constant([-np.inf, -0.0, 0.0, np.inf, np.nan])
    np.testing.assert_array_equal(value(error_functions.erf(ends)), [-1, 0, 0, 1, np.nan])
    np.testing.assert_array_equal(value(error_functions.erfc(ends)), [2, 1, 1, 0, np.nan])
    assert np.signbit(value(error_functions.erf(ends))[1])


@pytest.mark.parametrize(
    "op", [error_functions.erf, elementwise.tanh, elementwise.rsqrt, rounding.floor, rounding.round]
)
def test_functions_keep_narrow_dtypes_and_empty_shapes(op):
    x = placeholder("bfloat16", [None, 3])
    for rows in (0, 2):
        y = evaluate(op(x), {x: np.ones((rows, 3), bfloat16.np)})
        assert (y.dtype, y.shape) == (bfloat16.np, (rows, 3))


def test_halves_are_rounded_to_the_even_number():
    halves = constant([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])
    for op in (rounding.round, rounding.rint):
        assert value(op(halves)).tolist() == [-2, -2, 0, 0, 2, 2]
    integers = constant([1, 2])
    assert rounding.round(integers) is integers


def test_clipping_keeps_within_limits_and_stops_gradients_beyond_them():
    x = placeholder("float64", [4])
    y = rounding.clip_by_value(x, -1.0, [1.0, 1.0, 2.0, 2.0], name="clipped")
    assert y.name == "clipped:0"
    assert y.shape == [4]
    clipped, slope = evaluate([y, *gradients(y, x)], {x: np.array([-3.0, 0.5, 1.5, 9.0])})
    assert clipped.tolist() == [-1, 0.5, 1.5, 2]
    assert slope.tolist() == [0, 1, 1, 0]
    with pytest.raises(ValueError, match=r"limits of shape \[2, 4\] do not broadcast to \[4\]"):
        rounding.clip_by_value(x, np.zeros((2, 4)), 1.0)


def test_integers_have_no_transcendental_functions():
    with pytest.raises(TypeError, match="exp: dtype int32 is not supported; use one of "):
        elementwise.exp(constant([1]))
