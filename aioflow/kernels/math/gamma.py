"""The logarithm of the gamma function, and its derivative.

Near 2, log(gamma) is (x - 2) times a polynomial fitted at Chebyshev's points, so that it is exact near its zeros at 1
and 2; up to 10 the functional equation leads there; beyond 10 Stirling's series applies, and below 0 reflection.

Hurwitz's zeta function by Euler and Maclaurin's sum, and the derivatives of digamma, which follow from it.

The incomplete gamma functions, and their derivatives of any order by either argument.

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

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.op import Op, T, op
from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import broadcast_gradient, elementwise
from aioflow.kernels.math.arithmetic import subtract
from aioflow.kernels.math.division import xlogy
from aioflow.kernels.math.elementwise import exp, log
from aioflow.kernels.math.no_nan import scaled
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.kernels.math.special import expm1_less, integral, log1p_less, pieces, polynomial, special
from aioflow.tensors.dtypes import FLOAT, Array, Spec

_FAR: Final = 10.0
_HALF_LOG_2_PI: Final = 0.5 * math.log(2 * math.pi)

# Coefficients, the highest power first: of log(gamma(2 + t)) / t; and of Stirling's series, times x or x^2.
_LGAMMA_AT_2: Final = (
    6.473973449314896e-08, -1.341570273460026e-07, 2.0192169921430407e-07, -4.303234692956732e-07,
    9.584290249224467e-07, -2.044935323180052e-06, 4.374221208333783e-06, -9.438454884054723e-06,
    2.0507292365464966e-05, -4.492635166770342e-05, 9.945750665169756e-05, -0.00022315475069647703,
    0.0005096695250262799, -0.0011927539120033873, 0.0028905103307343394, -0.007385551028668096,
    0.02058080842778463, -0.06735230105319814, 0.3224670334241132, 0.42278433509846713,
)  # fmt: skip
_STIRLING: Final = (-3617 / 122400, 1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
_DIGAMMA: Final = (-3617 / 8160, 1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)

lgamma: Final = elementwise(
    "lgamma",
    lambda y, x, dy: scaled(dy, digamma(x)),
    """The logarithm of |gamma(x)|; infinite at 0 and the negative integers. On the CPU alone.

    Examples:
        >>> await session.run(af.lgamma([5.0]))
        array([3.1780539], dtype=float32)
    """,
    FLOAT,
    kernel="",
)
digamma: Op[Tensor] = elementwise(
    "digamma",
    lambda y, x, dy: scaled(dy, OPERATORS["polygamma"](1, x)),
    """The derivative of `lgamma`; NaN at the negative integers. On the CPU alone.

    Examples:
        >>> await session.run(af.digamma([1.0]))
        array([-0.5772157], dtype=float32)
    """,
    FLOAT,
    kernel="",
)


@special(lgamma, 40.0)
def log_gamma(x: Array) -> Array:
    """The logarithm of |gamma(x)|."""
    return pieces([((x > 0) & (x < _FAR), _near), (x >= _FAR, _far), (x <= 0, _reflected)], x)


def log_gamma_1p(t: Array) -> Array:
    """log(gamma(1 + t)) for t not below 0, exact also near t = 0."""
    small = np.minimum(t, 0.5)
    return np.where(t > 0.5, log_gamma(1 + t), small * polynomial(_LGAMMA_AT_2, small) - np.log1p(small))


def _near(x: Array) -> Array:
    whole = np.rint(x)
    t = x - whole
    near = t * polynomial(_LGAMMA_AT_2, t)
    product = np.ones_like(x)
    for k in range(1, int(_FAR) - 1):
        product *= np.where(whole - 2 >= k, x - k, 1)
    below = np.where(whole == 1, np.log1p(t), np.log(x) + np.log1p(x))
    return near + np.where(whole < 2, -below, np.log(product))


def _far(x: Array) -> Array:
    return (x - 0.5) * (np.log(x) - 1) + (_HALF_LOG_2_PI - 0.5 + stirling(x))


def stirling(x: Array) -> Array:
    """log(gamma(x)) - ((x - 1/2) log(x) - x + log(2 pi) / 2), for x >= 10."""
    return polynomial(_STIRLING, 1 / (x * x)) / x


def _reflected(x: Array) -> Array:
    sine = np.sin(math.pi * (x - np.rint(x)))
    return np.where(np.isinf(x), math.inf, math.log(math.pi) - np.log(np.abs(sine)) - log_gamma(1 - x))


@special(digamma, 30.0)
def psi(x: Array) -> Array:
    """The derivative of log(gamma(x))."""
    return pieces([((x > 0) & (x < _FAR), _psi_near), (x >= _FAR, _psi_far), (x <= 0, _psi_reflected)], x)


def _psi_near(x: Array) -> Array:
    result = _psi_far(x + _FAR)
    for k in range(int(_FAR) - 1, -1, -1):
        result -= 1 / (x + k)
    return result


def _psi_far(x: Array) -> Array:
    inverse = 1 / (x * x)
    return np.log(x) - 0.5 / x - polynomial(_DIGAMMA, inverse) * inverse


def _psi_reflected(x: Array) -> Array:
    part = x - np.rint(x)
    pole = np.where(x == 0, np.copysign(math.inf, -x), math.nan)
    return np.where(part == 0, pole, psi(1 - x) - math.pi / np.tan(math.pi * part))


@transactional
def lbeta(x: NumberLike, name: str | None = None) -> Tensor:
    """The logarithm of the absolute Beta function of the numbers along the last axis.

    It is sum(lgamma(x)) - lgamma(sum(x)), and -inf for an empty axis.

    Examples:
        >>> await session.run(af.lbeta([1.0, 1.0]))
        np.float32(0.0)
    """
    value = convert_to_tensor(x)
    return subtract(reduce_sum(lgamma(value), -1), lgamma(reduce_sum(value, -1)), name=name or "lbeta")


OPERATORS.update(lgamma=lgamma, digamma=digamma)


_SUMMED: Final = 10
_TAIL: Final = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
    -3617 / 10670622842880000, 43867 / 5109094217170944000, -174611 / 802857662698291200000,
    77683 / 14101100039391805440000, -236364091 / 1693824136731743669452800000,
)  # fmt: skip
"""Bernoulli's numbers B(2j) / (2j)! for j from 1 on."""
_FACTORIALS: Final = np.array([float(math.factorial(k)) for k in range(171)])


@op(elementwise=True)
def zeta(x: T, q: T) -> Spec:
    """Hurwitz's zeta function, the sum of (q + k)^-x for k from 0 on. On the CPU alone.

    Infinite for x = 1 and where q is 0 or a negative integer, NaN for x below 1 and where q is negative and x no
    integer.

    No gradient flows to x, though the value depends on it: `gradients` for it is None.

    Examples:
        >>> await session.run(af.zeta([2.0], [1.0]))
        array([1.644934], dtype=float32)
    """
    return Spec(x.only(FLOAT).same_dtype(q).dtype, x.broadcast(q))


@op(elementwise=True)
def polygamma(a: T, x: T) -> Spec:
    """The derivative of order a, a whole number not below 0, of digamma at x; NaN for another a. On the CPU alone.

    No gradient flows to a, though the value depends on it: `gradients` for it is None.

    Examples:
        >>> await session.run(af.polygamma([1.0], [1.0]))
        array([1.644934], dtype=float32)
    """
    return Spec(a.only(FLOAT).same_dtype(x).dtype, a.broadcast(x))


broadcast_gradient(zeta, lambda z, x, q, dz: (None, scaled(-dz, x * zeta(x + 1, q))))
broadcast_gradient(polygamma, lambda z, a, x, dz: (None, scaled(dz, polygamma(a + 1, x))))


@special(zeta, 400.0)
def hurwitz(s: Array, q: Array) -> Array:
    """The sum of (q + k)^-s for k from 0 on."""
    pole = (s == 1) | ((s > 1) & (q <= 0) & (q == np.floor(q)))
    mirrored = (s > 1) & (q < 0) & (s == np.floor(s)) & ~pole
    return pieces(
        [(pole, lambda s, q: np.full_like(s, math.inf)), ((s > 1) & (q > 0), _positive), (mirrored, _negative)], s, q
    )


def _positive(s: Array, q: Array) -> Array:
    total = np.zeros_like(s)
    for k in range(_SUMMED):
        total += (q + k) ** -s
    w = q + _SUMMED
    power = w**-s
    tail = power * (w / (s - 1) + 0.5)
    term = power * s / w
    for j, number in enumerate(_TAIL):
        tail += term * number
        term *= (s + (2 * j + 1)) * (s + (2 * j + 2)) / (w * w)
    return total + np.where(power > 0, tail, 0)


def _negative(s: Array, q: Array) -> Array:
    """With f the part of -q after the point, the bases below 0 are -f, -f - 1 ... q, those above 1 - f, 2 - f ..."""
    part = -q - np.floor(-q)
    sign = np.where(np.fmod(s, 2) == 0, 1.0, -1.0)
    return _positive(s, 1 - part) + sign * (_positive(s, part) - _positive(s, 1 - q))


@special(polygamma, 450.0)
def derivative_of_psi(order: Array, x: Array) -> Array:
    """The derivative of that order of digamma."""
    whole = order == np.floor(order)
    return pieces([(order == 0, lambda order, x: psi(x)), (whole & (order > 0), _by_zeta)], order, x)


def _by_zeta(order: Array, x: Array) -> Array:
    sign = np.where(np.fmod(order, 2) == 0, -1.0, 1.0)
    sums = hurwitz(order + 1, x)
    factorial = _FACTORIALS[np.minimum(order, 170).astype(np.intp)]
    large = np.exp(log_gamma(order + 1) + np.log(np.abs(sums))) * np.sign(sums)
    return sign * np.where(order > 170, large, factorial * sums)


OPERATORS.update(zeta=zeta, polygamma=polygamma)


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

    Examples:
        >>> await session.run(af.igamma(1.0, 2.0))
        np.float32(0.86466473)
    """
    return Spec(a.only(FLOAT).same_dtype(x).dtype, a.broadcast(x))


@op(elementwise=True)
def igammac(a: T, x: T) -> Spec:
    """1 - igamma(a, x), exact also where that is near 1. On the CPU alone.

    Examples:
        >>> await session.run(af.igammac(1.0, 2.0))
        np.float32(0.13533528)
    """
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
