"""Modified Bessel functions of the second kind, of orders 0 and 1, in float64.

Up to 2 they are series of Chebyshev's polynomials of x^2 / 2 - 1 and a logarithm times the function of the first kind;
beyond, exp(-x) / sqrt(x) times series of 4 / x - 1. The coefficients were computed with fifty digits.
"""

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.kernels.families import elementwise
from aioflow.kernels.math.elementwise import exp
from aioflow.kernels.math.no_nan import divided, multiply_no_nan, scaled
from aioflow.kernels.math.special import chebyshev, pieces, special
from aioflow.tensors.dtypes import FLOAT, Array

_NEAR: Final = 2.0

_K0_NEAR: Final = (
    -0.2676636966169514, 0.3442898999246285, 0.0359799365153615, 0.001264615411446926, 2.286212103119452e-05,
    2.5347910790261494e-07, 1.904516377220209e-09, 1.0349695257633625e-11, 4.2598161427910826e-14,
    1.3744654358807508e-16,
)  # fmt: skip
_K1_NEAR: Final = (
    0.7626501136694739, -0.3531559607765449, -0.12261118082265715, -0.006975723859639864, -0.0001730288957513052,
    -2.4334061415659684e-06, -2.213387630734726e-08, -1.4114883926335278e-10, -6.666901694199329e-13,
    -2.427449850519366e-15, -7.023863479386288e-18,
)  # fmt: skip
_I0_NEAR: Final = (
    1.6029228068079633, 0.638809625651177, 0.03685485969436176, 0.00098287812725148, 1.4983654208927293e-05,
    1.4738449008423848e-07, 1.0114797900674826e-09, 5.1149979020112795e-12, 1.984280622680562e-14,
    6.090516506058955e-17,
)  # fmt: skip
_I1_NEAR: Final = (
    0.6417589969911874, 0.1475393201491934, 0.005898742680020788, 0.00011988137174638708, 1.4739165119093128e-06,
    1.2138074968740922e-08, 7.161106692799279e-11, 3.17487931131012e-13, 1.0962998348773076e-15,
    3.0315021220933553e-18,
)  # fmt: skip
_K0_FAR: Final = (
    1.2201515410329777, -0.0314481013119645, 0.0015698838857300533, -0.00012849549581627802, 1.39498137188765e-05,
    -1.8317555227191195e-06, 2.766813639445015e-07, -4.660489897687948e-08, 8.574034017414225e-09,
    -1.6975345093890614e-09, 3.5773972814003283e-10, -7.957489244477396e-11, 1.8559491149549264e-11,
    -4.514597883374519e-12, 1.1403405882073441e-12, -2.9800969231481784e-13, 8.032890775068375e-14,
    -2.2275133267462965e-14, 6.340076476276646e-15, -1.848593377920907e-15, 5.5120559994043335e-16,
    -1.6782311257549006e-16, 5.2103917776435543e-17, -1.6475805939842632e-17, 5.3004337711773354e-18,
)  # fmt: skip
_K1_FAR: Final = (
    1.3603130952422213, 0.10392373657681724, -0.002857816859622779, 0.00019521551847135162, -1.936197974166083e-05,
    2.406484947837217e-06, -3.5019606030878126e-07, 5.7410841254500495e-08, -1.0345762465678097e-08,
    2.0150497551970347e-09, -4.1903547593419254e-10, 9.218315187605315e-11, -2.129967838427791e-11,
    5.139639673482343e-12, -1.2891739609498229e-12, 3.348419666052243e-13, -8.976705182010146e-14,
    2.4771544242195988e-14, -7.0198370892147685e-15, 2.038703166239861e-15, -6.057047270643018e-16,
    1.8380935752430455e-16, -5.689462849193648e-17, 1.7940510478863572e-17, -5.7567444820733025e-18,
)  # fmt: skip


bessel_k0e: Op[Tensor] = elementwise(
    "bessel_k0e",
    lambda y, x, dy: scaled(dy, y - bessel_k1e(x)),
    """exp(x) times the modified Bessel function of the second kind of order 0; NaN below 0. On the CPU alone.

    Examples:
        >>> await session.run(af.math.special.bessel_k0e([0.0, 1.0]))
        array([     inf, 1.144463], dtype=float32)
    """,
    FLOAT,
    kernel="",
)
bessel_k1e: Op[Tensor] = elementwise(
    "bessel_k1e",
    lambda y, x, dy: scaled(dy, y - bessel_k0e(x)) - scaled(divided(dy, x), y),
    """exp(x) times the modified Bessel function of the second kind of order 1; NaN below 0. On the CPU alone.

    Examples:
        >>> await session.run(af.math.special.bessel_k1e([0.0, 1.0]))
        array([      inf, 1.6361535], dtype=float32)
    """,
    FLOAT,
    kernel="",
)


@special(bessel_k0e, 80.0)
def _(x: Array) -> Array:
    return _scaled(x, lambda x, place: chebyshev(_K0_NEAR, place) - np.log(x / 2) * chebyshev(_I0_NEAR, place), _K0_FAR)


@special(bessel_k1e, 80.0)
def _(x: Array) -> Array:
    return _scaled(
        x, lambda x, place: chebyshev(_K1_NEAR, place) / x + np.log(x / 2) * chebyshev(_I1_NEAR, place) * x, _K1_FAR
    )


def _scaled(x: Array, near: Callable[[Array, Array], Array], far: tuple[float, ...]) -> Array:
    return pieces(
        [
            (x == 0, lambda x: np.full_like(x, math.inf)),
            ((x > 0) & (x <= _NEAR), lambda x: near(x, x * x / 2 - 1) * np.exp(x)),
            (x > _NEAR, lambda x: chebyshev(far, 4 / x - 1) / np.sqrt(x)),
        ],
        x,
    )


@transactional
def bessel_k0(x: NumberLike, name: str | None = None) -> Tensor:
    """The modified Bessel function of the second kind of order 0; NaN below 0.

    Examples:
        >>> await session.run(af.math.special.bessel_k0([0.0, 1.0]))
        array([       inf, 0.42102444], dtype=float32)
    """
    value = convert_to_tensor(x)
    return multiply_no_nan(bessel_k0e(value), exp(-value), name=name or "bessel_k0")


@transactional
def bessel_k1(x: NumberLike, name: str | None = None) -> Tensor:
    """The modified Bessel function of the second kind of order 1; NaN below 0.

    Examples:
        >>> await session.run(af.math.special.bessel_k1([0.0, 1.0]))
        array([      inf, 0.6019072], dtype=float32)
    """
    value = convert_to_tensor(x)
    return multiply_no_nan(bessel_k1e(value), exp(-value), name=name or "bessel_k1")
