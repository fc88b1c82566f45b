"""Hurwitz's zeta function by Euler and Maclaurin's sum, and the derivatives of digamma, which follow from it."""

import math
from typing import Final

import numpy as np

from aioflow.graph.op import T, op
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import broadcast_gradient
from aioflow.kernels.math.gamma import log_gamma, psi
from aioflow.kernels.math.no_nan import scaled
from aioflow.kernels.math.special import pieces, special
from aioflow.tensors.dtypes import FLOAT, Array, Spec

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
    """
    return Spec(x.only(FLOAT).same_dtype(q).dtype, x.broadcast(q))


@op(elementwise=True)
def polygamma(a: T, x: T) -> Spec:
    """The derivative of order a, a whole number not below 0, of digamma at x; NaN for another a. On the CPU alone.

    No gradient flows to a, though the value depends on it: `gradients` for it is None.
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
