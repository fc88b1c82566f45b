"""Shared parts of the kernels of special functions: they compute in float64, with a formula per region of the inputs.

All of them run on the CPU only. Narrower floats are computed in float64 and rounded once.

Modified Bessel functions of the first kind, scaled by exp(-|x|) so that they never overflow.

Up to 8 they are series of Chebyshev's polynomials of |x| / 4 - 1, the odd one times x; beyond, 1 / sqrt(|x|) times
series of 16 / |x| - 1. The coefficients were computed with fifty digits.

The error function, by W. J. Cody's rational Chebyshev approximations (Mathematics of Computation 23, 1969).

Near 0 erf is x P(x^2) / Q(x^2); beyond, erfc is exp(-x^2) times a rational function of x, and far out of 1 / x^2. Each
is good to a few units in the last place of a float64; narrower floats are computed in float64 and rounded.

The inverses of the normal distribution and of the error function, by M. J. Wichura's AS241 (Applied Statistics 37).

For p from 0.075 to 0.925 the quantile is a rational function of (p - 1/2)^2; further out, of r = sqrt(-log(tail)).
Each is accurate to about 1e-16.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.composed import dispatching
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.array.select import select
from aioflow.kernels.families import CPU, costs, elementwise
from aioflow.kernels.math.comparison import less
from aioflow.kernels.math.elementwise import abs, exp, sign, square
from aioflow.kernels.math.no_nan import multiply_no_nan, scaled
from aioflow.tensors.dtypes import FLOAT, Array, Namespace

Function = Callable[..., Array]
FORMULAS: Final[dict[str, Function]] = {}
"""{name of an op: its function of flat float64 arrays}"""
_BLOCK: Final = 1024
_SERIES_BELOW: Final = 0.4
_ARTANH: Final = tuple(2 / k for k in range(23, 1, -2))
_EXP: Final = tuple(1 / math.factorial(k) for k in range(14, 1, -1))


def special(made: Op[Any], per_element: float) -> Callable[[Function], Function]:
    """Declare the kernel from a function of flat float64 arrays of one length, and the cost of an element.

    The inputs are broadcast together; the op's attributes are passed by keyword.
    """

    def declare(function: Function) -> Function:
        @made.kernel(CPU, fresh=True, binds=True)
        def _(xp: Namespace, node: NodeView) -> Function:
            compute, dtype = functools.partial(function, **node.attrs), node.output_specs[0].dtype.np

            def call(*inputs: Array) -> Array:
                arrays = np.broadcast_arrays(*inputs) if len(inputs) > 1 else inputs
                result = compute(*[np.ravel(array).astype(np.float64) for array in arrays])
                return result.astype(dtype, copy=False).reshape(arrays[0].shape)

            return call

        costs(made, per_element)
        FORMULAS[made.name] = function
        return function

    return declare


def pieces(choices: Sequence[tuple[Array, Function]], *inputs: Array) -> Array:
    """Applies each function where its mask is true; NaN where no mask is. At most one mask may be true.

    A formula that is written down, not computed, has a `by_region` of its own.
    """
    by_region = getattr(inputs[0], "by_region", None)
    if by_region is not None:
        chosen: Array = by_region(choices, *inputs)
        return chosen
    result = np.full(inputs[0].shape, np.nan)
    for mask, function in choices:
        if mask.all():
            return function(*inputs)
        if mask.any():
            result[mask] = function(*[values[mask] for values in inputs])
    return result


def polynomial(coefficients: Sequence[float], x: Array) -> Array:
    """The polynomial of these coefficients, the highest power first."""
    result = coefficients[0] * x + coefficients[1]
    for coefficient in coefficients[2:]:
        result *= x
        result += coefficient
    return result


def chebyshev(coefficients: Sequence[float], x: Array) -> Array:
    """The sum of c[k] T_k(x), by Clenshaw's recurrence, for x from -1 to 1."""
    twice = 2 * x
    later, latest = np.zeros_like(x), np.zeros_like(x)
    for coefficient in coefficients[:0:-1]:
        latest, later = twice * latest - later + coefficient, latest
    return x * latest - later + coefficients[0]


def log1p_less(x: Array) -> Array:
    """log(1 + x) - x, exact also near x = 0."""
    small = np.abs(x) < _SERIES_BELOW
    return pieces([(small, _log1p_less), (~small, lambda x: np.log1p(x) - x)], x)


def _log1p_less(x: Array) -> Array:
    """With r = x / (2 + x), log(1 + x) is 2 artanh(r) = 2r + 2r^3 (1/3 + r^2/5 + ...), and 2r - x is -r x."""
    r = x / (2 + x)
    square = r * r
    return r * (square * polynomial(_ARTANH, square) - x)


def expm1_less(x: Array) -> Array:
    """exp(x) - 1 - x, exact also near x = 0."""
    small = np.abs(x) < 0.5
    series = (small, lambda x: polynomial(_EXP, x) * x * x)
    return pieces([series, (~small, lambda x: np.expm1(x) - x)], x)


@functools.cache
def _rule(count: int) -> tuple[Array, Array]:
    """Gauss and Legendre's places and weights for integrals from 0 to 1."""
    places, weights = np.polynomial.legendre.leggauss(count)
    return (places + 1) / 2, weights / 2


def integral(integrand: Function, length: Array, *inputs: Array, places: int = 48) -> Array:
    """The integral of `integrand(s, *inputs)` for s from 0 to `length`, which must be smooth: Gauss and Legendre's."""
    at, weights = _rule(places)
    result = np.empty_like(length)
    for start in range(0, len(length), _BLOCK):
        part = slice(start, start + _BLOCK)
        columns = [values[part, None] for values in inputs]
        result[part] = integrand(length[part, None] * at, *columns) @ weights
    return result * length


_BESSEL_NEAR: Final = 8.0

_I0_NEAR: Final = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764, 0.04930528423967071,
    -0.02373741480589947, 0.010546460394594998, -0.004324309995050576, 0.0016394756169413357,
    -0.0005763755745385824, 0.00018850288509584165, -5.754195010082104e-05, 1.6448448070728896e-05,
    -4.4167383584587505e-06, 1.1173875391201037e-06, -2.670793853940612e-07, 6.046995022541919e-08,
    -1.300025009986248e-08, 2.6598237246823866e-09, -5.189795601635263e-10, 9.675809035373237e-11,
    -1.726826291441556e-11, 2.95505266312964e-12, -4.856446783111929e-13, 7.676185498604936e-14,
    -1.1685332877993451e-14, 1.715391285555133e-15, -2.431279846547955e-16, 3.3307945188222384e-17,
    -4.4153416464793395e-18, 5.669178006921496e-19,
)  # fmt: skip
_I0_FAR: Final = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
    2.0489185894690638e-07, 2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10,
    1.1889147107846439e-11, -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12,
    7.180124451383666e-13, 3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14,
    -9.554846698828307e-15, 3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16,
    -2.8276239805165836e-16, 3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18,
    -7.233180487874754e-18, 9.921475412173699e-19, 1.193650890845982e-18,
)  # fmt: skip
_I1_NEAR: Final = (
    0.12629359322181682, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499, 0.024726449030626516,
    -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532, 0.0005122859561685758,
    -0.00016176081582589674, 4.781565107550054e-05, -1.3273163656039436e-05, 3.4702513081376785e-06,
    -8.568720264695455e-07, 2.0032947535521353e-07, -4.445059128796328e-08, 9.381537386495773e-09,
    -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11, 1.1736186298890901e-11,
    -1.9839743977649436e-12, 3.223793365945575e-13, -5.042185504727912e-14, 7.600684294735408e-15,
    -1.1055969477353862e-15, 1.5536319577362005e-16, -2.111421214358166e-17, 2.7779141127610464e-18,
    -3.541581772542136e-19,
)  # fmt: skip
_I1_FAR: Final = (
    0.38928811750914005, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09, -5.589743462196584e-10,
    -1.8974958123505413e-11, 3.2526035830154884e-11, 1.4125807436613782e-11, 2.0356285441470896e-12,
    -7.198551776245908e-13, -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14,
    1.0420276984128802e-14, -3.8144030724370075e-15, -1.8803547755107825e-15, 3.3082023109209285e-16,
    2.96262899764595e-16, -3.209525921993424e-17, -4.6503053684893586e-17, 4.414348323071708e-18,
    7.517296310842105e-18, -9.314178867326884e-19, -1.242193275194891e-18,
)  # fmt: skip


def _i1e_gradient(y: Tensor, x: Tensor, dy: Tensor) -> Tensor:
    """Near 0, where y / x would be 0 / 0, the quotient is the first terms of its series."""
    size = abs(x)
    near = less(size, float(ml_dtypes.finfo(x.dtype.np).eps) ** 0.25)  # type: ignore[no-untyped-call]
    ratio = select(near, exp(-size) * (0.5 + square(x) / 16), y / select(near, 1, x))
    return dy * (bessel_i0e(x) - y * sign(x) - ratio)


bessel_i0e: Op[Tensor] = elementwise(
    "bessel_i0e",
    lambda y, x, dy: dy * (bessel_i1e(x) - sign(x) * y),
    """exp(-|x|) times the modified Bessel function of the first kind of order 0. On the CPU alone.

    Examples:
        >>> await session.run(af.bessel_i0e([0.0, 1.0]))
        array([1.       , 0.4657596], dtype=float32)
    """,
    FLOAT,
    kernel="",
)
bessel_i1e: Op[Tensor] = elementwise(
    "bessel_i1e",
    _i1e_gradient,
    """exp(-|x|) times the modified Bessel function of the first kind of order 1. On the CPU alone.

    Examples:
        >>> await session.run(af.bessel_i1e([0.0, 1.0]))
        array([0.        , 0.20791042], dtype=float32)
    """,
    FLOAT,
    kernel="",
)


@special(bessel_i0e, 70.0)
def _(x: Array) -> Array:
    size = np.abs(x)
    return pieces(
        [
            (size <= _BESSEL_NEAR, lambda s: chebyshev(_I0_NEAR, s / 4 - 1)),
            (size > _BESSEL_NEAR, lambda s: chebyshev(_I0_FAR, 16 / s - 1) / np.sqrt(s)),
        ],
        size,
    )


@special(bessel_i1e, 70.0)
def _(x: Array) -> Array:
    size = np.abs(x)
    result = pieces(
        [
            (size <= _BESSEL_NEAR, lambda s: chebyshev(_I1_NEAR, s / 4 - 1) * s),
            (size > _BESSEL_NEAR, lambda s: chebyshev(_I1_FAR, 16 / s - 1) / np.sqrt(s)),
        ],
        size,
    )
    return np.copysign(result, x)


@transactional
@dispatching
def bessel_i0(x: NumberLike, name: str | None = None) -> Tensor:
    """The modified Bessel function of the first kind of order 0.

    Examples:
        >>> await session.run(af.bessel_i0([0.0, 1.0]))
        array([1.      , 1.266066], dtype=float32)
    """
    value = convert_to_tensor(x)
    return multiply_no_nan(bessel_i0e(value), exp(abs(value)), name=name or "bessel_i0")


@transactional
@dispatching
def bessel_i1(x: NumberLike, name: str | None = None) -> Tensor:
    """The modified Bessel function of the first kind of order 1.

    Examples:
        >>> await session.run(af.bessel_i1([0.0, 1.0]))
        array([0.        , 0.56515914], dtype=float32)
    """
    value = convert_to_tensor(x)
    return multiply_no_nan(bessel_i1e(value), exp(abs(value)), name=name or "bessel_i1")


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


__all__ = ["erf", "erfc"]

OPERATORS.update({name: globals()[name] for name in __all__})


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


OPERATORS.update(erfinv=erfinv, ndtri=ndtri)
