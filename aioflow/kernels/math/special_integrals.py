"""Integrals without a closed form: Dawson's, the exponential, Fresnel's and Spence's, in float64.

Near 0 each is a series of Chebyshev's polynomials, times a power of x or beside a logarithm. Beyond, such series hold
the rest beside the growth or the waves of the function. The coefficients were computed with fifty digits.
"""

import functools
import math
from typing import Final

import ml_dtypes
import numpy as np

from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.select import select
from aioflow.kernels.families import elementwise
from aioflow.kernels.math.comparison import less
from aioflow.kernels.math.elementwise import abs, cos, exp, log, sin, square
from aioflow.kernels.math.no_nan import divided, scaled
from aioflow.kernels.math.special import chebyshev, pieces, special
from aioflow.tensors.dtypes import FLOAT, Array

# Dawson

_DAWSN_UP_TO: Final = 5.0
_DAWSN_NEAR: Final = (
    0.1772453850902791, -0.27449077018166923, 0.2008907701804693, -0.13855477018186832, 0.0898891701801088,
    -0.05480590618249315, 0.03140025625901689, -0.016913964194060348, 0.008574058018138897, -0.004095653364288093,
    0.0018463775176037363, -0.0007868721507131541, 0.0003175653204049755, -0.00012158452128144187,
    4.4239289220330554e-05, -1.5324191348797377e-05, 5.061986349643029e-06, -1.597156876012634e-06,
    4.821016872425284e-07, -1.3942674216842947e-07, 3.868939081765656e-08, -1.0314981957969098e-08,
    2.6456916669710896e-09, -6.536414083167736e-10, 1.5573204847430266e-10, -3.582098282767749e-11,
    7.963000319977222e-12, -1.712503304769159e-12, 3.5662814155107424e-13, -7.19818445025842e-14,
    1.4093795825613889e-14, -2.679088532423727e-15, 4.948114462214065e-16, -8.886066749094144e-17,
    1.552763068703898e-17, -2.641929225491113e-18,
)  # fmt: skip
_DAWSN_FAR: Final = (
    0.5052465199077777, 0.005332594427422036, 8.85533671420732e-05, 2.584841984005503e-06, 1.1223753891246858e-07,
    6.732468572166737e-09, 5.400107833909702e-10, 5.744649131410629e-11, 7.99993281296062e-12, 1.3515027900472426e-12,
    2.2959364018456163e-13, 2.4013996605627538e-14, -5.597657640645069e-15, -4.4255869885007335e-15,
    -1.3828461658020002e-15, -1.4514205760330854e-16, 7.772884740793366e-17, 4.0971046792634656e-17,
    4.94828526104857e-18, -2.9725405599502753e-18, -1.3663457364706915e-18,
)  # fmt: skip

dawsn: Op[Tensor] = elementwise(
    "dawsn",
    lambda y, x, dy: dy * (1 - 2 * x * y),
    """Dawson's integral: exp(-x^2) times the integral of exp(t^2) for t from 0 to x. On the CPU alone.

    Examples:
        >>> await session.run(af.math.special.dawsn([0.0, 1.0]))
        array([0.       , 0.5380795], dtype=float32)
    """,
    FLOAT,
    kernel="",
)


@special(dawsn, 80.0)
def _(x: Array) -> Array:
    near = np.abs(x) <= _DAWSN_UP_TO

    def far(x: Array) -> Array:
        inverse = _DAWSN_UP_TO / x
        return chebyshev(_DAWSN_FAR, 2 * inverse * inverse - 1) / x

    return pieces([(near, lambda x: chebyshev(_DAWSN_NEAR, 0.08 * x * x - 1) * x), (np.abs(x) > _DAWSN_UP_TO, far)], x)


# The exponential integral

_EI_UP_TO: Final = 6.0
_EI_NEAR: Final = (
    4.9111058843464575, 5.666113598608016, 2.3492626676137034, 0.7563543093844007, 0.19920229382356897,
    0.04442875265306707, 0.008598716638276844, 0.0014705025963922846, 0.00022533301939463562, 3.1284662784803325e-05,
    3.9711039220839795e-06, 4.643268488593228e-07, 5.032918336954619e-08, 5.084550545442788e-09,
    4.810144028835289e-10, 4.278742020424449e-11, 3.5916634036991113e-12, 2.8542399260415613e-13,
    2.1535115484481425e-14, 1.5466334313866187e-15, 1.0598041657122702e-16,
)  # fmt: skip
_EI_6_12: Final = (
    1.186519731605943, 0.08867277799156566, 0.004538849615854891, -0.0007360917133533506, -0.0001311802094421383,
    1.860281858277769e-05, 1.7610424153850599e-06, -6.410426692376372e-07, 4.3431190977401596e-08,
    9.457713014017885e-09, -2.804867660824966e-09, 2.9077513809389464e-10, 1.5005396668585005e-11,
    -1.1038674953026538e-11, 2.0752769575841014e-12, -1.824894014255641e-13, -1.3060424323093775e-14,
    8.22817443438954e-15, -1.7064640854405607e-15, 2.0895115006185691e-16, -6.96952388785186e-18,
    -3.985678032031781e-18,
)  # fmt: skip
_EI_12_24: Final = (
    1.0733284937260361, 0.028589376984320986, 0.0009877354599019657, 6.535142674684368e-05, 4.080867437625506e-06,
    -3.589926611838061e-07, -1.3445734356897559e-07, -3.096554001036047e-09, 2.9939580378560676e-09,
    6.636901195446687e-11, -7.580298873512545e-11, 2.91093271006445e-12, 1.6949183480316525e-12,
    -2.4843531143767757e-13, -1.4921371160913075e-14, 8.569592517547666e-15, -8.552327771250706e-16,
    -9.567382338710219e-17, 3.92278471915959e-17, -4.34268592032165e-18,
)  # fmt: skip
_EI_24_48: Final = (
    1.0335633144954905, 0.01194944774791583, 0.00014984654203383354, 3.1020372988441315e-06, 9.655715284928462e-08,
    4.421953602438201e-09, 2.961811656103438e-10, 2.532877233740852e-11, 1.759338647355267e-12,
    -8.195941935743879e-14, -5.291781796133732e-14, -6.672672088083768e-15, 3.4527393101734467e-16,
    1.8789530911802142e-16, 5.122811993425012e-18, -4.2991421600959165e-18,
)  # fmt: skip
_EI_48: Final = (
    1.0107605092742287, 0.010878323438924555, 0.00011979560394849838, 2.026995752581765e-06, 4.6900702245060815e-08,
    1.3931421596912e-09, 5.108132848770682e-11, 2.251871069398116e-12, 1.1717193052565767e-13, 7.102165089449786e-15,
    4.968725666498446e-16, 3.988627092302658e-17, 3.66433176083224e-18,
)  # fmt: skip
_EI_FAR: Final = ((6.0, 12.0, _EI_6_12), (12.0, 24.0, _EI_12_24), (24.0, 48.0, _EI_24_48), (48.0, math.inf, _EI_48))
"""The series for each range of x, of the place of 1 / x in it: they hold Ei(x) x exp(-x)."""

expint: Op[Tensor] = elementwise(
    "expint",
    lambda y, x, dy: divided(scaled(dy, exp(x)), x),
    """The exponential integral Ei: that of exp(t) / t for t from -infinity to x; NaN below 0. On the CPU alone.

    Examples:
        >>> await session.run(af.math.special.expint([0.0, 1.0]))
        array([    -inf, 1.8951179], dtype=float32)
    """,
    FLOAT,
    kernel="",
)


@special(expint, 100.0)
def _(x: Array) -> Array:
    pole = (x == 0, lambda x: np.full_like(x, -math.inf))
    endless = (np.isposinf(x), lambda x: x)
    near = ((x > 0) & (x <= _EI_UP_TO), _ei_near)
    far = [
        ((x > low) & (x <= high) & np.isfinite(x), functools.partial(_ei_far, low=low, high=high, series=series))
        for low, high, series in _EI_FAR
    ]
    return pieces([pole, endless, near, *far], x)


def _ei_near(x: Array) -> Array:
    return np.euler_gamma + np.log(x) + chebyshev(_EI_NEAR, x / 3 - 1) * x


def _ei_far(x: Array, low: float, high: float, series: tuple[float, ...]) -> Array:
    place = 2 * (1 / x - 1 / high) / (1 / low - 1 / high) - 1
    half = np.exp(x / 2)  # exp(x) itself overflows earlier than the result
    return chebyshev(series, place) / x * half * half


# Fresnel

_FRESNEL_UP_TO: Final = 1.6
_S_NEAR: Final = (
    0.3142743195347836, -0.18188587850106117, 0.025424557742876257, -0.0019214582098450639, 8.966525954745101e-05,
    -2.830802868181572e-06, 6.442546962604405e-08, -1.1068235106036057e-09, 1.4862338485609142e-11,
    -1.6028109554824476e-13, 1.4188008517448966e-15, -1.0494270345038239e-17,
)  # fmt: skip
_C_NEAR: Final = (
    0.5282931311708557, -0.37676220250161824, 0.08537377549656906, -0.009010259972062552, 0.0005393127720408215,
    -2.075044934605623e-05, 5.564687021283882e-07, -1.0999812843114444e-08, 1.6696510396208076e-10,
    -2.00773053966069e-12, 1.9601599749420958e-14, -1.5849094421108914e-16, 1.0788395601770007e-18,
)  # fmt: skip
_F_FAR: Final = (
    0.31254764582660344, -0.005352623205198717, 0.00035367733366899114, -4.518359772877913e-05, 8.191349886490222e-06,
    -1.8542130829125956e-06, 4.90439256600537e-07, -1.457461008215322e-07, 4.7445661589889145e-08,
    -1.6627307963813895e-08, 6.194725238648375e-09, -2.4306351550899532e-09, 9.971823999778694e-10,
    -4.2531276245079486e-10, 1.8772673474516986e-10, -8.542678642929862e-11, 3.9953510763360784e-11,
    -1.915432341104742e-11, 9.392004771578003e-12, -4.701052475387219e-12, 2.3980289358941858e-12,
    -1.2448163418464006e-12, 6.56739324215299e-13, -3.5174425782270194e-13, 1.910604597593859e-13,
    -1.0515602605642476e-13, 5.859579289615559e-14, -3.303324571914822e-14, 1.8827903852818986e-14,
    -1.084321233918359e-14, 6.306398174191168e-15, -3.702154469653664e-15, 2.1926914041502444e-15,
    -1.3096832753375493e-15, 7.885894163854906e-16, -4.78491560981477e-16, 2.9247615912041464e-16,
    -1.8003790658396216e-16, 1.115754041909792e-16, -6.959630338510524e-17, 4.368243946281114e-17,
    -2.75821045330996e-17, 1.7516643677728797e-17, -1.118629787083771e-17, 7.182046424730489e-18,
    -4.63506296297362e-18, 3.0063006287078256e-18, -1.95932428185572e-18, 1.2829472240745e-18, -8.438675153715117e-19,
)  # fmt: skip
_G_FAR: Final = (
    0.09343258697382721, -0.0069974585428067195, 0.0007334529305691418, -0.00012155175150988579,
    2.6308449794693854e-05, -6.803067504065727e-06, 2.0008656881474195e-06, -6.4933044193278e-07,
    2.2787475887162257e-07, -8.526292707526677e-08, 3.366277448789065e-08, -1.3913865642371005e-08,
    5.984006574976713e-09, -2.664787113434062e-09, 1.2238793516304895e-09, -5.778321066256572e-10,
    2.796828837462438e-10, -1.384612475679234e-10, 6.997315140865853e-11, -3.603594951364017e-11,
    1.888420522762549e-11, -1.005671661031091e-11, 5.436402077306155e-12, -2.9800526667809597e-12,
    1.6550079238178184e-12, -9.304380307339046e-13, 5.291375632418598e-13, -3.041980250476534e-13,
    1.7668114112782957e-13, -1.0361736140152849e-13, 6.13290584846578e-14, -3.6617815356837225e-14,
    2.204590100986717e-14, -1.3378386707981542e-14, 8.180202153854652e-15, -5.0380688390096045e-15,
    3.1244213814299983e-15, -1.950542981637246e-15, 1.2254773010463929e-15, -7.746577982250006e-16,
    4.925693961068526e-16, -3.149794620607441e-16, 2.0251841918217952e-16, -1.3089703913502978e-16,
    8.503515866234162e-17, -5.551310523177257e-17, 3.6412439454149984e-17, -2.3993518905562838e-17,
    1.588049104767027e-17, -1.055597239514034e-17, 7.045910627000736e-18, -4.721944338204482e-18,
    3.176776537034612e-18, -2.145174149536904e-18, 1.4536337544891102e-18, -9.88152328548407e-19,
    6.734905108533002e-19, -4.597662992081956e-19, 3.137458125219919e-19, -2.131563130658824e-19,
)  # fmt: skip

fresnel_cos: Op[Tensor] = elementwise(
    "fresnel_cos",
    lambda y, x, dy: dy * cos(square(x) * (math.pi / 2)),
    """Fresnel's cosine integral: that of cos(pi t^2 / 2) for t from 0 to x. On the CPU alone.

    Examples:
        >>> await session.run(af.math.special.fresnel_cos([0.0, 1.0]))
        array([0.       , 0.7798934], dtype=float32)
    """,
    FLOAT,
    kernel="",
)
fresnel_sin: Op[Tensor] = elementwise(
    "fresnel_sin",
    lambda y, x, dy: dy * sin(square(x) * (math.pi / 2)),
    """Fresnel's sine integral: that of sin(pi t^2 / 2) for t from 0 to x. On the CPU alone.

    Examples:
        >>> await session.run(af.math.special.fresnel_sin([0.0, 1.0]))
        array([0.        , 0.43825915], dtype=float32)
    """,
    FLOAT,
    kernel="",
)


@special(fresnel_cos, 150.0)
def _(x: Array) -> Array:
    size = np.abs(x)
    near = (size <= _FRESNEL_UP_TO, lambda x: chebyshev(_C_NEAR, _fourth(x / _FRESNEL_UP_TO)) * x)
    far = (size > _FRESNEL_UP_TO, lambda x: 0.5 + _remainder(x, 0))
    return np.copysign(pieces([near, far], size), x)


@special(fresnel_sin, 150.0)
def _(x: Array) -> Array:
    size = np.abs(x)
    near = (size <= _FRESNEL_UP_TO, lambda x: chebyshev(_S_NEAR, _fourth(x / _FRESNEL_UP_TO)) * x * x * x)
    far = (size > _FRESNEL_UP_TO, lambda x: 0.5 + _remainder(x, 1))
    return np.copysign(pieces([near, far], size), x)


def _fourth(ratio: Array) -> Array:
    """The place from -1 to 1 of a fourth power from 0 to 1."""
    square = ratio * ratio
    return 2 * square * square - 1


def _remainder(x: Array, quarters: int) -> Array:
    """F(x) sin(phase) - g(x) cos(phase), the phase turned back by some quarters of a circle."""
    x = np.minimum(x, 1e18)  # beyond, nothing remains
    place = _fourth(_FRESNEL_UP_TO / x)
    coarse = x.astype(np.float32).astype(np.float64)  # its square is exact
    phase = math.pi / 2 * (np.fmod(coarse * coarse, 4) + (x - coarse) * (x + coarse) - quarters)
    return chebyshev(_F_FAR, place) / x * np.sin(phase) - chebyshev(_G_FAR, place) / x**3 * np.cos(phase)


# Spence

_SPENCE: Final = (
    -1.0149416064096537, 0.13148012838765802, -0.015313452518102082, 0.002272188943655959, -0.00038516199300815945,
    7.103404374209115e-05, -1.3885622487404779e-05, 2.8323954583854513e-06, -5.968314737835964e-07,
    1.2902312437546724e-07, -2.8475309127972237e-08, 6.392641519505728e-09, -1.4558235675968631e-09,
    3.356030027905024e-10, -7.818019409066589e-11, 1.8379324194103908e-11, -4.355524622917214e-12,
    1.0395111785603755e-12, -2.496666278162975e-13, 6.030470288343577e-14, -1.4640624936086265e-14,
    3.570903196070032e-15, -8.746346791364233e-16, 2.1505456792131715e-16, -5.3064798693556575e-17,
    1.3136479985932125e-17, -3.2618102770187097e-18,
)  # fmt: skip


def _spence_gradient(y: Tensor, x: Tensor, dy: Tensor) -> Tensor:
    """Near 1, where log(x) / (1 - x) would be 0 / 0, the quotient is the first terms of its series."""
    off = x - 1
    near = less(abs(off), float(ml_dtypes.finfo(x.dtype.np).eps) ** 0.25)  # type: ignore[no-untyped-call]
    series = ((off / 4 - 1 / 3) * off + 1 / 2) * off - 1
    return scaled(dy, select(near, series, log(x) / select(near, 1, -off)))


spence: Op[Tensor] = elementwise(
    "spence",
    _spence_gradient,
    """Spence's integral, the dilogarithm of 1 - x: that of log(t) / (1 - t) for t from 1 to x; NaN below 0.

    On the CPU alone.

    Examples:
        >>> await session.run(af.math.special.spence([0.0, 1.0]))
        array([1.644934, 0.      ], dtype=float32)
    """,
    FLOAT,
    kernel="",
)


@special(spence, 100.0)
def _(x: Array) -> Array:
    inner = ((x > 0) & (x <= 2), _spence_to_2)
    outer = (x > 2, lambda x: -0.5 * np.log(x) ** 2 - _spence_to_2(1 / x))
    return pieces([(x == 0, lambda x: np.full_like(x, math.pi**2 / 6)), inner, outer], x)


def _spence_to_2(x: Array) -> Array:
    """For x from 0 to 2: the series is for x from 1/2 to 3/2, and two identities lead there."""
    small, great = x < 0.5, x > 1.5
    off = np.where(small, -x, np.where(great, 1 / np.maximum(x, 0.5) - 1, x - 1))
    middle = 0.0 + chebyshev(_SPENCE, 2 * off) * off  # at 1 it is 0, not -0
    log = np.log(np.maximum(x, 5e-324))
    below = math.pi**2 / 6 - log * np.log1p(-np.minimum(x, 0.5)) - middle
    return np.where(small, below, np.where(great, -0.5 * log * log - middle, middle))
