"""The inverses of the normal distribution and of the error function, by M. J. Wichura's AS241 (Applied Statistics 37).

For p from 0.075 to 0.925 the quantile is a rational function of (p - 1/2)^2; further out, of r = sqrt(-log(tail)).
Each is accurate to about 1e-16.
"""

import math
from typing import Final

import numpy as np

from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import elementwise
from aioflow.kernels.math.elementwise import exp
from aioflow.kernels.math.no_nan import multiply_no_nan, scaled
from aioflow.kernels.math.special import pieces, polynomial, special
from aioflow.tensors.dtypes import FLOAT, Array

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
_P_MIDDLE: Final = (
    7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
    3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0,
)  # fmt: skip
_Q_MIDDLE: Final = (
    1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
    6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0,
)  # fmt: skip
_P_FAR: Final = (
    2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
    2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0,
)  # fmt: skip
_Q_FAR: Final = (
    2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
    1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0,
)  # fmt: skip

erfinv: Final = elementwise(
    "erfinv", lambda y, x, dy: scaled(dy, exp(multiply_no_nan(y, y)) * (math.sqrt(math.pi) / 2)),
    "The number whose `erf` is x; infinite at -1 and 1, NaN beyond. On the CPU alone.", FLOAT, kernel="",
)  # fmt: skip
ndtri: Final = elementwise(
    "ndtri", lambda y, p, dy: scaled(dy, exp(multiply_no_nan(y, y) / 2) * math.sqrt(2 * math.pi)),
    "The number below which a share of p of all normal numbers lies; NaN outside [0, 1]. On the CPU alone.", FLOAT,
    kernel="",
)  # fmt: skip


@special(erfinv, 60.0)
def _(x: Array) -> Array:
    return _quantile(x / 2, (1 - np.abs(x)) / 2) / math.sqrt(2)


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
    middle = polynomial(_P_MIDDLE, near) / polynomial(_Q_MIDDLE, near)
    return np.copysign(np.where(r <= 5, middle, polynomial(_P_FAR, far) / polynomial(_Q_FAR, far)), off)


OPERATORS.update(erfinv=erfinv, ndtri=ndtri)
