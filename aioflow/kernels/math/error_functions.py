"""The error function, and the inverses of it and of the normal distribution.

The error function is computed by W. J. Cody's rational Chebyshev approximations (Mathematics of Computation 23, 1969).
Near 0 erf is x P(x^2) / Q(x^2); beyond, erfc is exp(-x^2) times a rational function of x, and far out of 1 / x^2. Each
is good to a few units in the last place of a float64; narrower floats are computed in float64 and rounded.

The inverses are computed by M. J. Wichura's AS241 (Applied Statistics 37). For p from 0.075 to 0.925 the quantile is a
rational function of (p - 1/2)^2; further out, of r = sqrt(-log(tail)). Each is accurate to about 1e-16.
"""

import functools
import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import CPU, elementwise
from aioflow.kernels.math.elementwise import exp
from aioflow.kernels.math.no_nan import multiply_no_nan, scaled
from aioflow.kernels.math.special import FORMULAS, pieces, polynomial, special
from aioflow.tensors.dtypes import FLOAT, Array, Namespace

_NEAR: Final = 0.46875
_FAR: Final = 4.0
_ERF_IS_1: Final = 6.0
_ERFC_IS_0: Final = 27.5

# Numerators and denominators, the highest power first.
_P_NEAR: Final = (
    1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3,
)  # fmt: skip
_Q_NEAR: Final = (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3)
_P_MIDDLE: Final = (
    2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e1, 2.98635138197400131e2,
    8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3,
)  # fmt: skip
_Q_MIDDLE: Final = (
    1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
    3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3,
)  # fmt: skip
_P_FAR: Final = (
    1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
    1.60837851487422766e-2, 6.58749161529837803e-4,
)  # fmt: skip
_Q_FAR: Final = (
    1.0, 2.56852019228982242e0, 1.87295284992346725e0, 5.27905102951428412e-1, 6.05183413124413191e-2,
    2.33520497626869185e-3,
)  # fmt: skip


def _slope(x: Tensor) -> Tensor:
    return exp(-x * x) * (2 / math.sqrt(math.pi))


erf: Final = elementwise(
    "erf",
    lambda y, x, dy: dy * _slope(x),
    """The integral of exp(-t^2) for t from 0 to x, times 2 / sqrt(pi). On the CPU alone.

    Examples:
        >>> await session.run(af.erf([0.0, 1.0]))
        array([0.       , 0.8427008], dtype=float32)
    """,
    FLOAT,
    kernel="",
    slow=True,
)
erfc: Final = elementwise(
    "erfc",
    lambda y, x, dy: -dy * _slope(x),
    """1 - erf(x), exact also where erf(x) is near 1. On the CPU alone.

    Examples:
        >>> await session.run(af.erfc([0.0, 1.0]))
        array([1.       , 0.1572992], dtype=float32)
    """,
    FLOAT,
    kernel="",
    slow=True,
)


@erf.kernel(CPU, fresh=True)
def erf_of(xp: Namespace, x: Array) -> Array:
    """Erf of each element, computed in float64."""
    wide = x.astype(xp.float64)
    size = xp.minimum(xp.abs(wide), _ERF_IS_1)
    tail = xp.copysign(1 - _middle(xp, size), wide)
    return xp.where(size > _NEAR, tail, _near(xp, wide)).astype(x.dtype)


@erfc.kernel(CPU, fresh=True)
def erfc_of(xp: Namespace, x: Array) -> Array:
    """1 - erf of each element, computed in float64."""
    wide = x.astype(xp.float64)
    size = xp.minimum(xp.abs(wide), _ERFC_IS_0)
    tail = xp.where(size > _FAR, _far(xp, size), _middle(xp, size))
    beyond = xp.where(wide < 0, 2 - tail, tail)
    return xp.where(size > _NEAR, beyond, 1 - _near(xp, wide)).astype(x.dtype)


FORMULAS["erfc"] = functools.partial(erfc_of, np)


def _near(xp: Namespace, x: Array) -> Array:
    """erf(x) for |x| up to 0.46875."""
    square = xp.square(xp.clip(x, -_NEAR, _NEAR))
    return x * (_polynomial(_P_NEAR, square) / _polynomial(_Q_NEAR, square))


def _middle(xp: Namespace, x: Array) -> Array:
    """erfc(x) for x from 0.46875 to 4, and beyond, where it is tiny, to a few digits."""
    return _exp_of_minus_square(xp, x) * (_polynomial(_P_MIDDLE, x) / _polynomial(_Q_MIDDLE, x))


def _far(xp: Namespace, x: Array) -> Array:
    """erfc(x) for x above 4."""
    inverse = 1 / xp.square(xp.maximum(x, _FAR))
    quotient = _polynomial(_P_FAR, inverse) / _polynomial(_Q_FAR, inverse)
    return _exp_of_minus_square(xp, x) * (1 / math.sqrt(math.pi) - inverse * quotient) / x


def _exp_of_minus_square(xp: Namespace, x: Array) -> Array:
    """exp(-x^2), where rounding x^2 would cost digits: x is sixteenths, whose square is exact, and a rest."""
    coarse = xp.floor(x * 16) / 16
    return xp.exp(-coarse * coarse) * xp.exp((coarse - x) * (coarse + x))


def _polynomial(coefficients: Sequence[float], x: Array) -> Array:
    result = coefficients[0]
    for coefficient in coefficients[1:]:
        result = result * x + coefficient
    return result


_CENTRAL: Final = 0.425

# Numerators and denominators, the highest power first.
_P_CENTRE: Final = (
    2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
    1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080e0,
)  # fmt: skip
_Q_CENTRE: Final = (
    5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
    5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0,
)  # fmt: skip
_NORMAL_P_MIDDLE: Final = (
    7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
    3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0,
)  # fmt: skip
_NORMAL_Q_MIDDLE: Final = (
    1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
    6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0,
)  # fmt: skip
_NORMAL_P_FAR: Final = (
    2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
    2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0,
)  # fmt: skip
_NORMAL_Q_FAR: Final = (
    2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
    1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0,
)  # fmt: skip

erfinv: Final = elementwise(
    "erfinv",
    lambda y, x, dy: scaled(dy, exp(multiply_no_nan(y, y)) * (math.sqrt(math.pi) / 2)),
    """The number whose `erf` is x; infinite at -1 and 1, NaN beyond. On the CPU alone.

    Examples:
        >>> await session.run(af.erfinv([0.0, 0.5]))
        array([0.        , 0.47693628], dtype=float32)
    """,
    FLOAT,
    kernel="",
)
erfcinv: Final = elementwise(
    "erfcinv",
    lambda y, x, dy: scaled(dy, exp(multiply_no_nan(y, y)) * (-math.sqrt(math.pi) / 2)),
    """The number whose `erfc` is x; infinite at 0 and 2, NaN beyond. On the CPU alone.

    Examples:
        >>> await session.run(af.math.erfcinv([0.5, 1.0]))
        array([0.47693628, 0.        ], dtype=float32)
    """,
    FLOAT,
    kernel="",
)
ndtri: Final = elementwise(
    "ndtri",
    lambda y, p, dy: scaled(dy, exp(multiply_no_nan(y, y) / 2) * math.sqrt(2 * math.pi)),
    """The number below which a share of p of all normal numbers lies; NaN outside [0, 1]. On the CPU alone.

    Examples:
        >>> await session.run(af.ndtri([0.5, 0.975]))
        array([0.       , 1.9599644], dtype=float32)
    """,
    FLOAT,
    kernel="",
)


@special(erfinv, 60.0)
def _(x: Array) -> Array:
    return _quantile(x / 2, (1 - np.abs(x)) / 2) / math.sqrt(2)


@special(erfcinv, 60.0)
def _(x: Array) -> Array:
    tail = np.minimum(x, 2 - x)
    return _quantile((1 - x) / 2, np.where(tail < 0, math.nan, tail / 2)) / math.sqrt(2)


@special(ndtri, 60.0)
def _(p: Array) -> Array:
    return _quantile(p - 0.5, np.minimum(p, 1 - p))


def _quantile(off: Array, tail: Array) -> Array:
    """The quantile of 1/2 + `off`, beyond which lies a share of `tail` on that side."""
    choices = [
        (np.abs(off) <= _CENTRAL, _central),
        ((np.abs(off) > _CENTRAL) & (tail > 0), _outer),
        (tail == 0, lambda off, tail: np.copysign(math.inf, off)),
    ]
    return pieces(choices, off, tail)


def _central(off: Array, tail: Array) -> Array:
    r = _CENTRAL * _CENTRAL - off * off
    return off * (polynomial(_P_CENTRE, r) / polynomial(_Q_CENTRE, r))


def _outer(off: Array, tail: Array) -> Array:
    r = np.sqrt(-np.log(tail))
    near, far = np.minimum(r, 5) - 1.6, np.maximum(r, 5) - 5
    middle = polynomial(_NORMAL_P_MIDDLE, near) / polynomial(_NORMAL_Q_MIDDLE, near)
    return np.copysign(np.where(r <= 5, middle, polynomial(_NORMAL_P_FAR, far) / polynomial(_NORMAL_Q_FAR, far)), off)


OPERATORS.update(erf=erf, erfc=erfc, erfinv=erfinv, ndtri=ndtri)
