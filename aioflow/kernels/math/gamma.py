"""The logarithm of the gamma function, and its derivative.

Near 2, log(gamma) is (x - 2) times a polynomial fitted at Chebyshev's points, so that it is exact near its zeros at 1
and 2; up to 10 the functional equation leads there; beyond 10 Stirling's series applies, and below 0 reflection.
"""

import math
from typing import Final

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import elementwise
from aioflow.kernels.math.arithmetic import subtract
from aioflow.kernels.math.no_nan import scaled
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.kernels.math.special import pieces, polynomial, special
from aioflow.tensors.dtypes import FLOAT, Array

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
    "lgamma", lambda y, x, dy: scaled(dy, digamma(x)),
    "The logarithm of |gamma(x)|; infinite at 0 and the negative integers. On the CPU alone.", FLOAT, kernel="",
)  # fmt: skip
digamma: Op[Tensor] = elementwise(
    "digamma", lambda y, x, dy: scaled(dy, OPERATORS["polygamma"](1, x)),
    "The derivative of `lgamma`; NaN at the negative integers. On the CPU alone.", FLOAT, kernel="",
)  # fmt: skip


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
    """
    value = convert_to_tensor(x)
    return subtract(reduce_sum(lgamma(value), -1), lgamma(reduce_sum(value, -1)), name=name or "lbeta")


OPERATORS.update(lgamma=lgamma, digamma=digamma)
