"""Modified Bessel functions of the first kind, scaled by exp(-|x|) so that they never overflow.

Up to 8 they are series of Chebyshev's polynomials of |x| / 4 - 1, the odd one times x; beyond, 1 / sqrt(|x|) times
series of 16 / |x| - 1. The coefficients were computed with fifty digits.
"""

from typing import Final

import ml_dtypes
import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.composed import dispatching
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.select import select
from aioflow.kernels.families import elementwise
from aioflow.kernels.math.comparison import less
from aioflow.kernels.math.elementwise import abs, exp, sign, square
from aioflow.kernels.math.no_nan import multiply_no_nan
from aioflow.kernels.math.special import chebyshev, pieces, special
from aioflow.tensors.dtypes import FLOAT, Array

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
