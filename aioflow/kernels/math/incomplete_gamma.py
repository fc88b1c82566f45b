"""The incomplete gamma functions, and their derivatives of any order by either argument.

With D = x^a exp(-x) / gamma(a), and t = x exp(s) or x exp(-s) in the integrals that define them,

    Q(a, x) = D * integral of exp(a s - x (exp(s) - 1))   over s > 0      for x from max(a, 1) on
    P(a, x) = D * integral of exp(-a s + x (1 - exp(-s))) over s > 0      below, where a is large
    P(a, x) = D / a * (1 + x / (a + 1) + x^2 / ((a + 1)(a + 2)) + ...)    below, where a is small

Both integrands fall from 1 without turning, so that 48 places give all digits. Derivatives by a are taken of the same
expressions in arithmetic on Taylor's coefficients in a, here called jets.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.op import T, op
from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import broadcast_gradient
from aioflow.kernels.math.division import xlogy
from aioflow.kernels.math.elementwise import exp, log
from aioflow.kernels.math.gamma import digamma, lgamma, log_gamma, log_gamma_1p, psi, stirling
from aioflow.kernels.math.no_nan import scaled
from aioflow.kernels.math.special import expm1_less, integral, log1p_less, pieces, special
from aioflow.kernels.math.zeta import derivative_of_psi, polygamma
from aioflow.tensors.dtypes import FLOAT, Array, Spec

_LARGE: Final = 16.0
_GONE: Final = 42.0
"""An integrand that has fallen to exp(-42) adds nothing any more."""
Jet = list[Array]


def _gradients(sign: int) -> Any:
    def rule(z: Tensor, a: Tensor, x: Tensor, dz: Tensor) -> tuple[Tensor, Tensor]:
        return scaled(dz, igamma_derivative(a, x, 1) * sign), scaled(dz, density(a, x, 0) * sign)

    return rule


@op(elementwise=True)
def igamma(a: T, x: T) -> Spec:
    """The lower regularised incomplete gamma function: the integral of t^(a-1) exp(-t) from 0 to x over gamma(a).

    0 at x = 0 and 1 at infinity; NaN where a or x is negative. On the CPU alone.
    """
    return Spec(a.only(FLOAT).same_dtype(x).dtype, a.broadcast(x))


@op(elementwise=True)
def igammac(a: T, x: T) -> Spec:
    """1 - igamma(a, x), exact also where that is near 1. On the CPU alone."""
    return Spec(a.only(FLOAT).same_dtype(x).dtype, a.broadcast(x))


broadcast_gradient(igamma, _gradients(1))
broadcast_gradient(igammac, _gradients(-1))


@op
def igamma_derivative(a: T, x: T, order: int) -> Spec:
    """The derivative of that order, 1 or more, of `igamma(a, x)` by a. On the CPU alone."""
    if order < 1:
        raise ValueError(f"order must be 1 or more, not {order}")
    return Spec(a.only(FLOAT).same_dtype(x).dtype, a.broadcast(x))


def _derivative_gradient(z: Tensor, a: Tensor, x: Tensor, dz: Tensor) -> tuple[Tensor, Tensor]:
    order = z.op.attrs["order"]
    return scaled(dz, igamma_derivative(a, x, order + 1)), scaled(dz, density(a, x, order))


broadcast_gradient(igamma_derivative, _derivative_gradient)


def density(a: Tensor, x: Tensor, order: int) -> Tensor:
    """The derivative of that order by a of x^(a-1) exp(-x) / gamma(a), which is that of igamma by x."""
    slopes = [log(x) - digamma(a), *[-polygamma(m, a) for m in range(1, order)]] if order else []
    found = [exp(xlogy(a - 1, x) - x - lgamma(a))]
    for k in range(order):
        terms = [found[j] * slopes[k - j] * math.comb(k, j) for j in range(k + 1)]
        found.append(OPERATORS["add_n"](terms))
    return found[order]


# Values


def _regions(a: Array, x: Array) -> tuple[Array, Array, Array]:
    """Where P is a series, where it is an integral, and where Q is one."""
    inside = (a >= 0) & (x > 0) & (x < math.inf) & (a < math.inf)
    above = inside & (x >= 1) & (x >= a)
    series = inside & ~above & ((a < _LARGE) | (x < 1))
    return series, inside & ~above & ~series, above


def _ends(a: Array, x: Array) -> tuple[Array, Array]:
    """Where P is 0, and where it is 1, without computing."""
    return (a >= 0) & ((x == 0) | ((a == math.inf) & (x >= 0) & (x < math.inf))), (a >= 0) & (a < x) & (x == math.inf)


def _constant(value: float) -> Any:
    return lambda a, x: np.full_like(a, value)


@special(igamma, 500.0)
def lower(a: Array, x: Array) -> Array:
    """P(a, x)."""
    series, integral, above = _regions(a, x)
    zero, one = _ends(a, x)
    return pieces(
        [
            (series, _lower_series),
            (integral, _lower_integral),
            (above, lambda a, x: 1 - _upper_integral(a, x)),
            (zero, _constant(0)),
            (one, _constant(1)),
        ],
        a,
        x,
    )


@special(igammac, 500.0)
def upper(a: Array, x: Array) -> Array:
    """Q(a, x)."""
    series, integral, above = _regions(a, x)
    zero, one = _ends(a, x)
    near_1 = np.where(x > 0.5, 1.1 * x >= a, -0.4 / np.log(x) >= a)
    alternating = series & (x < 1) & near_1
    return pieces(
        [
            (alternating, _upper_series),
            (series & ~alternating, lambda a, x: 1 - _lower_series(a, x)),
            (integral, lambda a, x: 1 - _lower_integral(a, x)),
            (above, _upper_integral),
            (zero, _constant(1)),
            (one, _constant(0)),
        ],
        a,
        x,
    )


@special(igamma_derivative, 1500.0)
def derivative(a: Array, x: Array, *, order: int) -> Array:
    """The derivative of that order of P by a."""
    series, integral, above = _regions(a, x)
    zero, one = _ends(a, x)
    coefficient = pieces(
        [
            (series, lambda a, x: _lower_series(a, x, order)),
            (integral, lambda a, x: _lower_integral(a, x, order)),
            (above, lambda a, x: -_upper_integral(a, x, order)),
            (zero | one, _constant(0)),
        ],
        np.where(a == 0, 1e-300, a),
        x,
    )
    return coefficient * math.factorial(order)


def _factor(a: Array, x: Array) -> Array:
    """x^a exp(-x) / gamma(a)."""
    large = np.maximum(a, _LARGE)
    far = np.sqrt(large / (2 * math.pi)) * np.exp(a * log1p_less((x - large) / large) - stirling(large))
    return np.where(a < _LARGE, np.exp(a * np.log(x) - x - log_gamma(a)), far)


def _lower_series(a: Array, x: Array, order: int = 0) -> Array:
    term: Jet = [np.ones_like(a), *[np.zeros_like(a) for _ in range(order)]]
    total = [part.copy() for part in term]
    n = 0
    while n == 0 or (np.abs(term[0]) > 1e-19 * total[0]).any():
        n += 1
        inverse = 1 / (a + n)
        divisor = [(-1) ** k * inverse ** (k + 1) for k in range(order + 1)]
        term = [x * part for part in _product(term, divisor)]
        for sums, part in zip(total, term, strict=True):
            sums += part
    factor = np.exp(a * np.log(x) - x - log_gamma_1p(a))
    return factor * _product(_exponential(_slopes(a + 1, x, order), order), total)[order]


def _lower_integral(a: Array, x: Array, order: int = 0) -> Array:
    length = _length(a - x, x)
    slopes = _slopes(a, x, order)
    return _factor(a, x) * integral(_falling_lower, length * (1 + length / 3), a, x, *slopes)


def _falling_lower(s: Array, a: Array, x: Array, *slopes: Array) -> Array:
    return np.exp((x - a) * s - x * expm1_less(-s)) * _weight(-s, slopes)


def _upper_integral(a: Array, x: Array, order: int = 0) -> Array:
    length = _length(x - a, x)
    length = np.where(x < 20, np.minimum(length, np.log1p(80 / x)), length)
    return _factor(a, x) * integral(_falling_upper, length, a, x, *_slopes(a, x, order))


def _falling_upper(s: Array, a: Array, x: Array, *slopes: Array) -> Array:
    return np.exp((a - x) * s - x * expm1_less(s)) * _weight(s, slopes)


def _length(slope: Array, x: Array) -> Array:
    """The s at which slope * s + x s^2 / 2 makes the integrand negligible."""
    return 2 * _GONE / (slope + np.sqrt(slope * slope + 2 * _GONE * x))


def _upper_series(a: Array, x: Array) -> Array:
    """1 - x^a / gamma(a + 1), and the rest of an alternating series."""
    total, power, n = np.zeros_like(a), np.ones_like(a), 0
    while n == 0 or (np.abs(power) > 1e-17 * np.abs(total) * (a + n)).any():
        n += 1
        power *= -x / n
        total += power / (a + n)
    log_x = np.log(x)
    return -np.expm1(a * log_x - log_gamma_1p(a)) - np.exp(a * log_x - log_gamma(a)) * total


# Jets


def _product(f: Jet, g: Jet) -> Jet:
    return [sum((f[i] * g[k - i] for i in range(1, k + 1)), f[0] * g[k]) for k in range(len(f))]


def _slopes(a: Array, x: Array, order: int) -> Jet:
    """Taylor's coefficients in a, from the first on, of log(x^a / gamma(a))."""
    if not order:
        return []
    rest = [-derivative_of_psi(np.full_like(a, m), a) / math.factorial(m + 1) for m in range(1, order)]
    return [np.log(x) - psi(a), *rest]


def _exponential(slopes: Sequence[Array], order: int) -> Jet:
    """The jet of the exponential of a function with these derivatives from the first on, and value 0."""
    result: Jet = [np.ones(())]
    for k in range(1, order + 1):
        result.append(sum((i * slopes[i - 1] * result[k - i] for i in range(1, k + 1)), np.zeros(())) / k)
    return result


def _weight(shift: Array, slopes: Sequence[Array]) -> Array:
    """The last coefficient of the exponential, log(t) being log(x) + `shift`."""
    if not slopes:
        return np.ones(())
    return _exponential([slopes[0] + shift, *slopes[1:]], len(slopes))[-1]


OPERATORS.update(igamma=igamma, igammac=igammac)
