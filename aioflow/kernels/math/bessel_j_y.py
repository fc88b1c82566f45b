"""Bessel functions of the first and second kind, of orders 0 and 1, in float64.

Up to 8 they are series of Chebyshev's polynomials of x^2 / 32 - 1, the odd ones times x. Those of the second kind have
a logarithm and a pole, too. Beyond, they are waves, P cos(x - pi / 4) - Q sin(x - pi / 4) and so on,
where P sqrt(x) and Q sqrt(x) x are series of 2 (8 / x)^2 - 1. The coefficients were computed with fifty digits.
"""

import math
from collections.abc import Callable
from typing import Final

import ml_dtypes
import numpy as np

from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.select import select
from aioflow.kernels.families import elementwise
from aioflow.kernels.math.comparison import less
from aioflow.kernels.math.elementwise import abs, square
from aioflow.kernels.math.no_nan import divided, scaled
from aioflow.kernels.math.special import chebyshev, pieces, special
from aioflow.tensors.dtypes import FLOAT, Array

_NEAR: Final = 8.0

_J0_NEAR: Final = (
    0.15772797147489012, -0.008723442352852221, 0.2651786132033368, -0.37009499387264977, 0.15806710233209725,
    -0.034893769411408884, 0.004819180069467605, -0.00046062616620627504, 3.246032882100508e-05,
    -1.7619469077621507e-06, 7.608163592418782e-08, -2.679253530557673e-09, 7.848696314479465e-11,
    -1.9438346867370164e-12, 4.125320595634374e-14, -7.588508125447546e-16, 1.2218515873961411e-17,
)  # fmt: skip
_J1_NEAR: Final = (
    0.08104484632565812, -0.1489751450676521, 0.1609992623572097, -0.08268049176681791, 0.022213639654966037,
    -0.003646940600769276, 0.0004050337728354822, -3.255554866857259e-05, 1.9858774049915165e-06,
    -9.521984756750436e-08, 3.687133759097148e-09, -1.178026622695885e-10, 3.160154580348003e-12,
    -7.221755239651773e-14, 1.4232144003513942e-15, -2.4441972916190464e-17, 3.6912682997929334e-19,
)  # fmt: skip
_Y0_NEAR: Final = (
    -0.03314611320328494, -0.2744743055297453, 0.17903431407718265, 0.26156734625504663, -0.17730201278114358,
    0.04719668959576339, -0.007287962479552079, 0.0007531135932577742, -5.632079141056987e-05, 3.206532537654801e-06,
    -1.44072332740187e-07, 5.248794787330516e-09, -1.5837552541812015e-10, 4.02633081830612e-12,
    -8.747341203310769e-14, 1.6434898714919468e-15, -2.6977881152566837e-17,
)  # fmt: skip
_Y1_NEAR: Final = (
    0.0025380132357417816, -0.01608717304766875, -0.09591204536083074, 0.08445197259652346, -0.028328123944594365,
    0.005289897544167113, -0.0006414551451326356, 5.505982873338744e-05, -3.53808001868935e-06,
    1.7707804556154404e-07, -7.11055004989928e-09, 2.344337905911516e-10, -6.4651518414115946e-12,
    1.51429151205002e-13, -3.0511859694473254e-15, 5.34668038572867e-17, -8.224911372021585e-19,
)  # fmt: skip
_P0_FAR: Final = (
    0.9994603493475187, -0.0005365220468132117, 3.0751847875194745e-06, -5.1705945376060975e-08,
    1.6306464635151382e-09, -7.86409137723707e-11, 5.168262387349193e-12, -4.3045788699253914e-13,
    4.3265957431549404e-14, -5.069034095935236e-15, 6.748072215733873e-16, -1.0011513723467786e-16,
    1.6305919233744186e-17, -2.880866169482871e-18,
)  # fmt: skip
_Q0_FAR: Final = (
    -0.12444683684269607, 0.0005470815954089319, -5.9315987288485175e-06, 1.4377965798375193e-07,
    -5.817532749493056e-09, 3.376097523734991e-10, -2.565397936797308e-11, 2.404916100281365e-12,
    -2.6690625482579414e-13, 3.4041800321963686e-14, -4.87994410531204e-15, 7.729703176242605e-16,
    -1.3348852171502517e-16, 2.4865952389390515e-17, -4.952892629886516e-18, 1.0473158973776097e-18,
)  # fmt: skip
_P1_FAR: Final = (
    1.0009030408600137, 0.0008989898330859408, -3.987284300488908e-06, 6.177633960644299e-08, -1.8718907491063067e-09,
    8.816898659582339e-11, -5.704863640395645e-12, 4.699195515230542e-13, -4.6842237839904895e-14,
    5.452674896044717e-15, -7.221180842274018e-16, 1.0667689114335412e-16, -1.7312313216116335e-17,
    3.0492991197665872e-18,
)  # fmt: skip
_Q1_FAR: Final = (
    0.3742222965562826, -0.0007702178839325664, 7.3108922063643636e-06, -1.676782510726674e-07, 6.583354662120443e-09,
    -3.749090950541556e-10, 2.8121750359748866e-11, -2.61145253946232e-12, 2.8774212663332235e-13,
    -3.649001916061838e-14, 5.206626366226707e-15, -8.215318025458595e-16, 1.4141084390211833e-16,
    -2.626761589838529e-17, 5.2192649196714085e-18, -1.101261718787959e-18,
)  # fmt: skip


def _j1_gradient(y: Tensor, x: Tensor, dy: Tensor) -> Tensor:
    """Near 0, where y / x would be 0 / 0, the quotient is the first terms of its series."""
    near = less(abs(x), float(ml_dtypes.finfo(x.dtype.np).eps) ** 0.25)  # type: ignore[no-untyped-call]
    ratio = select(near, 0.5 - square(x) / 16, y / select(near, 1, x))
    return dy * (bessel_j0(x) - ratio)


bessel_j0: Op[Tensor] = elementwise(
    "bessel_j0",
    lambda y, x, dy: -dy * bessel_j1(x),
    """The Bessel function of the first kind of order 0. On the CPU alone.

    Examples:
        >>> await session.run(af.math.special.bessel_j0([0.0, 1.0]))
        array([1.       , 0.7651977], dtype=float32)
    """,
    FLOAT,
    kernel="",
)
bessel_j1: Op[Tensor] = elementwise(
    "bessel_j1",
    _j1_gradient,
    """The Bessel function of the first kind of order 1. On the CPU alone.

    Examples:
        >>> await session.run(af.math.special.bessel_j1([0.0, 1.0]))
        array([0.        , 0.44005057], dtype=float32)
    """,
    FLOAT,
    kernel="",
)
bessel_y0: Op[Tensor] = elementwise(
    "bessel_y0",
    lambda y, x, dy: -scaled(dy, bessel_y1(x)),
    """The Bessel function of the second kind of order 0; NaN below 0. On the CPU alone.

    Examples:
        >>> await session.run(af.math.special.bessel_y0([0.0, 1.0]))
        array([      -inf, 0.08825696], dtype=float32)
    """,
    FLOAT,
    kernel="",
)
bessel_y1: Op[Tensor] = elementwise(
    "bessel_y1",
    lambda y, x, dy: scaled(dy, bessel_y0(x)) - scaled(divided(dy, x), y),
    """The Bessel function of the second kind of order 1; NaN below 0. On the CPU alone.

    Examples:
        >>> await session.run(af.math.special.bessel_y1([0.0, 1.0]))
        array([      -inf, -0.7812128], dtype=float32)
    """,
    FLOAT,
    kernel="",
)


@special(bessel_j0, 80.0)
def _(x: Array) -> Array:
    size = np.abs(x)
    return pieces([(size <= _NEAR, _j0_near), (size > _NEAR, lambda s: _cosine_wave(s, _P0_FAR, _Q0_FAR))], size)


@special(bessel_j1, 80.0)
def _(x: Array) -> Array:
    size = np.abs(x)
    choices = [(size <= _NEAR, _j1_near), (size > _NEAR, lambda s: _sine_wave(s, _P1_FAR, _Q1_FAR))]
    return np.copysign(1, x) * pieces(choices, size)


@special(bessel_y0, 120.0)
def _(x: Array) -> Array:
    return _second_kind(x, _y0_near, lambda s: _sine_wave(s, _P0_FAR, _Q0_FAR))


@special(bessel_y1, 120.0)
def _(x: Array) -> Array:
    return _second_kind(x, _y1_near, lambda s: -_cosine_wave(s, _P1_FAR, _Q1_FAR))


def _second_kind(x: Array, near: Callable[[Array], Array], far: Callable[[Array], Array]) -> Array:
    pole = (x == 0, lambda x: np.full_like(x, -math.inf))
    return pieces([pole, ((x > 0) & (x <= _NEAR), near), (x > _NEAR, far)], x)


def _place(x: Array) -> Array:
    return x * x / 32 - 1


def _j0_near(x: Array) -> Array:
    return chebyshev(_J0_NEAR, _place(x))


def _j1_near(x: Array) -> Array:
    return chebyshev(_J1_NEAR, _place(x)) * x


def _y0_near(x: Array) -> Array:
    return chebyshev(_Y0_NEAR, _place(x)) + 2 / math.pi * np.log(x) * _j0_near(x)


def _y1_near(x: Array) -> Array:
    return chebyshev(_Y1_NEAR, _place(x)) * x + 2 / math.pi * (np.log(x) * _j1_near(x) - 1 / x)


def _cosine_wave(x: Array, p: tuple[float, ...], q: tuple[float, ...]) -> Array:
    """sqrt(2 / pi x) (P cos(x - pi / 4) - Q sin(x - pi / 4)), for x above 8."""
    place, cos, sin = _far_place(x), np.cos(x), np.sin(x)
    return (chebyshev(p, place) * (cos + sin) - chebyshev(q, place) / x * (sin - cos)) / np.sqrt(math.pi * x)


def _sine_wave(x: Array, p: tuple[float, ...], q: tuple[float, ...]) -> Array:
    """sqrt(2 / pi x) (P sin(x - pi / 4) + Q cos(x - pi / 4)), for x above 8."""
    place, cos, sin = _far_place(x), np.cos(x), np.sin(x)
    return (chebyshev(p, place) * (sin - cos) + chebyshev(q, place) / x * (cos + sin)) / np.sqrt(math.pi * x)


def _far_place(x: Array) -> Array:
    inverse = _NEAR / x
    return 2 * inverse * inverse - 1
