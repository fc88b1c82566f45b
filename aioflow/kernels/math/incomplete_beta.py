"""The regularised incomplete beta function.

With y = 1 - x, D = x^a y^b / B(a, b) and t / (1 - t) = x / y exp(-s) in the integral that defines it,

    I(x; a, b) = D * integral of exp(-a s) / (1 - x (1 - exp(-s)))^(a + b) over s > 0

whose integrand falls from 1 without turning for x up to a / (a + b); beyond, I(x; a, b) is 1 - I(y; b, a). Where a is
below 4 the integrand's tail is too long for 64 places, and I(x; a, b) = D / a + I(x; a + 1, b) leads up there.
"""

import math
from typing import Final

import numpy as np

from aioflow.graph.op import T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import stays, sum_to_operand
from aioflow.kernels.math.division import xlogy
from aioflow.kernels.math.elementwise import exp, log1p
from aioflow.kernels.math.gamma import lgamma, log_gamma, stirling
from aioflow.kernels.math.no_nan import scaled
from aioflow.kernels.math.special import expm1_less, integral, log1p_less, pieces, special
from aioflow.tensors.dtypes import FLOAT, Array, Spec

_LARGE: Final = 16.0
_STEPS: Final = 4
_NEAR: Final = 0.4
_GONE: Final = 42.0
_NEWTON_STEPS: Final = 12


@op
def betainc(a: T, b: T, x: T) -> Spec:
    """The integral of t^(a-1) (1-t)^(b-1) from 0 to x over Beta(a, b); all three are broadcast together.

    NaN where a or b is not above 0 or x is outside [0, 1]. On the CPU alone.

    No gradient flows to a and b, though the value depends on them: `gradients` for these is None.

    Examples:
        >>> await session.run(af.betainc(1.0, 2.0, 0.5))
        np.float32(0.75)
    """
    both = Spec(a.only(FLOAT).same_dtype(b, x).dtype, a.broadcast(b))
    return Spec(a.dtype, both.broadcast(x))


@betainc.gradient
def _(op: Operation, dz: Tensor) -> tuple[None, None, Tensor | None]:
    a, b, x = op.inputs
    log_beta = lgamma(a) + lgamma(b) - lgamma(a + b)
    powers = xlogy(a - 1, x) + (b - 1) * log1p(-x)
    dx = scaled(dz, exp(powers - log_beta))
    return None, None, dx if stays(x, op.outputs[0]) else sum_to_operand(x, dx, a, b)


@special(betainc, 800.0)
def incomplete_beta(a: Array, b: Array, x: Array) -> Array:
    """I(x; a, b)."""
    inside = (a > 0) & (b > 0) & (x > 0) & (x < 1)
    low = x * (a + b) <= a
    return pieces(
        [
            (inside & low, lambda a, b, x: _tail(a, b, x, 1 - x)),
            (inside & ~low, lambda a, b, x: 1 - _tail(b, a, 1 - x, x)),
            ((a > 0) & (b > 0) & (x == 0), lambda a, b, x: np.zeros_like(x)),
            ((a > 0) & (b > 0) & (x == 1), lambda a, b, x: np.ones_like(x)),
        ],
        a,
        b,
        x,
    )


def _tail(a: Array, b: Array, x: Array, y: Array) -> Array:
    """I(x; a, b) for x = 1 - y up to a / (a + b)."""
    term = np.exp(_log_factor(a, b, x, y)) / a
    total = np.zeros_like(term)
    for _ in range(_STEPS):
        small = a < _STEPS
        total += np.where(small, term, 0)
        term = np.where(small, term * x * (a + b) / (a + 1), term)
        a = np.where(small, a + 1, a)
    gap = a * y - b * x
    rest = pieces(
        [
            (x <= 0.5, lambda *v: integral(_falling_low, _length(*v[:4]), *v, places=64)),
            (x > 0.5, lambda *v: integral(_falling_high, _length(*v[:4]), *v, places=64)),
        ],
        a,
        b,
        x,
        y,
        gap,
    )
    return total + term * a * rest


def _falling_low(s: Array, a: Array, b: Array, x: Array, y: Array, gap: Array) -> Array:
    """The integrand, without cancellation where x is small and a s nearly equals the power's exponent."""
    m = x * np.expm1(-s)
    exact = -gap * s - (a + b) * (x * expm1_less(-s) + log1p_less(m))
    return np.exp(exact if (m > -_NEAR).all() else np.where(m > -_NEAR, exact, -a * s - (a + b) * np.log1p(m)))


def _falling_high(s: Array, a: Array, b: Array, x: Array, y: Array, gap: Array) -> Array:
    """The same where y is small: 1 - x (1 - exp(-s)) is exp(-s) (1 + y (exp(s) - 1))."""
    m = y * np.expm1(s)
    exact = -gap * s - (a + b) * (y * expm1_less(s) + log1p_less(m))
    return np.exp(exact if (m < _NEAR).all() else np.where(m < _NEAR, exact, b * s - (a + b) * np.log1p(m)))


def _length(a: Array, b: Array, x: Array, y: Array) -> Array:
    """Where the integrand is gone. Its logarithm is concave, so that Newton's steps from far out never overshoot."""
    length = (_GONE - (a + b) * np.log(y)) / a
    for _ in range(_NEWTON_STEPS):
        left = y + x * np.exp(-length)
        value = _GONE - a * length - (a + b) * np.log(left)
        slope = (a + b) * (x * np.exp(-length) / left) - a
        length -= np.where(value < 0, value / slope, 0)
    return length


# x^a y^b / B(a, b)


def _log_factor(a: Array, b: Array, x: Array, y: Array) -> Array:
    large_a, large_b = a >= _LARGE, b >= _LARGE
    return pieces(
        [
            (large_a & large_b, _by_distance),
            (~large_a & ~large_b, _by_gammas),
            (~large_a & large_b, _by_ratio),
            (large_a & ~large_b, lambda a, b, x, y: _by_ratio(b, a, y, x)),
        ],
        a,
        b,
        x,
        y,
    )


def _log(x: Array, y: Array) -> Array:
    """log(x) for x = 1 - y, exact also near x = 1."""
    return np.where(x < 0.5, np.log(x), np.log1p(-y))


def _by_gammas(a: Array, b: Array, x: Array, y: Array) -> Array:
    return a * _log(x, y) + b * _log(y, x) - (log_gamma(a) + log_gamma(b) - log_gamma(a + b))


def _by_ratio(a: Array, b: Array, x: Array, y: Array) -> Array:
    """Where b is large: gamma(a + b) / gamma(b) by Stirling's series."""
    ratio = (b - 0.5) * np.log1p(a / b) + a * (np.log(a + b) - 1) + stirling(a + b) - stirling(b)
    return a * _log(x, y) + b * _log(y, x) + ratio - log_gamma(a)


def _by_distance(a: Array, b: Array, x: Array, y: Array) -> Array:
    """Where both are large: by how far x is from a / (a + b)."""
    gap = a * y - b * x
    powers = a * _log_less(x * (a + b) / a, -gap / a) + b * _log_less(y * (a + b) / b, gap / b)
    root = 0.5 * np.log(a / (2 * math.pi) * (b / (a + b)))
    return powers + root - (stirling(a) + stirling(b) - stirling(a + b))


def _log_less(ratio: Array, off: Array) -> Array:
    """log(ratio) - off for `off` = ratio - 1, of which each is exact where the other is not."""
    return np.where(np.abs(off) < _NEAR, log1p_less(np.clip(off, -_NEAR, _NEAR)), np.log(ratio) - off)


OPERATORS.update(betainc=betainc)
