"""The error function, by W. J. Cody's rational Chebyshev approximations (Mathematics of Computation 23, 1969).

Near 0 erf is x P(x^2) / Q(x^2); beyond, erfc is exp(-x^2) times a rational function of x, and far out of 1 / x^2. Each
is good to a few units in the last place of a float64; narrower floats are computed in float64 and rounded.
"""

import math
from collections.abc import Sequence
from typing import Final

from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import CPU, elementwise
from aioflow.kernels.math.elementwise import exp
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
    "erf", lambda y, x, dy: dy * _slope(x),
    "The integral of exp(-t^2) for t from 0 to x, times 2 / sqrt(pi). On the CPU alone.", FLOAT, kernel="", slow=True,
)  # fmt: skip
erfc: Final = elementwise(
    "erfc", lambda y, x, dy: -dy * _slope(x),
    "1 - erf(x), exact also where erf(x) is near 1. On the CPU alone.", FLOAT, kernel="", slow=True,
)  # fmt: skip


@erf.kernel(CPU, fresh=True)
def _(xp: Namespace, x: Array) -> Array:
    wide = x.astype(xp.float64)
    size = xp.minimum(xp.abs(wide), _ERF_IS_1)
    tail = xp.copysign(1 - _middle(xp, size), wide)
    return xp.where(size > _NEAR, tail, _near(xp, wide)).astype(x.dtype)


@erfc.kernel(CPU, fresh=True)
def _(xp: Namespace, x: Array) -> Array:
    wide = x.astype(xp.float64)
    size = xp.minimum(xp.abs(wide), _ERFC_IS_0)
    tail = xp.where(size > _FAR, _far(xp, size), _middle(xp, size))
    beyond = xp.where(wide < 0, 2 - tail, tail)
    return xp.where(size > _NEAR, beyond, 1 - _near(xp, wide)).astype(x.dtype)


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


__all__ = ["erf", "erfc"]

OPERATORS.update({name: globals()[name] for name in __all__})
