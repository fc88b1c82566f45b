"""`af.math.special`: Bessel functions and integrals without a closed form, under TensorFlow's names."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow import bessel_i0e as bessel_i0e
from aioflow import bessel_i1e as bessel_i1e
from aioflow.kernels.math.bessel_i import bessel_i0 as bessel_i0
from aioflow.kernels.math.bessel_i import bessel_i1 as bessel_i1
from aioflow.kernels.math.bessel_k import bessel_k0 as bessel_k0
from aioflow.kernels.math.bessel_k import bessel_k1 as bessel_k1

__all__ = ["bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e", "bessel_j0", "bessel_j1", "bessel_k0", "bessel_k0e",
    "bessel_k1", "bessel_k1e", "bessel_y0", "bessel_y1", "dawsn", "expint", "fresnel_cos", "fresnel_sin", "spence"]

def bessel_j0(x: NumberLike, name: str | None = None) -> Tensor:
    """The Bessel function of the first kind of order 0. On the CPU alone.

    Examples:
        >>> await session.run(af.math.special.bessel_j0([0.0, 1.0]))
        array([1.       , 0.7651977], dtype=float32)
    """


def bessel_j1(x: NumberLike, name: str | None = None) -> Tensor:
    """The Bessel function of the first kind of order 1. On the CPU alone.

    Examples:
        >>> await session.run(af.math.special.bessel_j1([0.0, 1.0]))
        array([0.        , 0.44005057], dtype=float32)
    """


def bessel_y0(x: NumberLike, name: str | None = None) -> Tensor:
    """The Bessel function of the second kind of order 0; NaN below 0. On the CPU alone.

    Examples:
        >>> await session.run(af.math.special.bessel_y0([0.0, 1.0]))
        array([      -inf, 0.08825696], dtype=float32)
    """


def bessel_y1(x: NumberLike, name: str | None = None) -> Tensor:
    """The Bessel function of the second kind of order 1; NaN below 0. On the CPU alone.

    Examples:
        >>> await session.run(af.math.special.bessel_y1([0.0, 1.0]))
        array([      -inf, -0.7812128], dtype=float32)
    """


def bessel_k0e(x: NumberLike, name: str | None = None) -> Tensor:
    """exp(x) times the modified Bessel function of the second kind of order 0; NaN below 0. On the CPU alone.

    Examples:
        >>> await session.run(af.math.special.bessel_k0e([0.0, 1.0]))
        array([     inf, 1.144463], dtype=float32)
    """


def bessel_k1e(x: NumberLike, name: str | None = None) -> Tensor:
    """exp(x) times the modified Bessel function of the second kind of order 1; NaN below 0. On the CPU alone.

    Examples:
        >>> await session.run(af.math.special.bessel_k1e([0.0, 1.0]))
        array([      inf, 1.6361535], dtype=float32)
    """


def dawsn(x: NumberLike, name: str | None = None) -> Tensor:
    """Dawson's integral: exp(-x^2) times the integral of exp(t^2) for t from 0 to x. On the CPU alone.

    Examples:
        >>> await session.run(af.math.special.dawsn([0.0, 1.0]))
        array([0.       , 0.5380795], dtype=float32)
    """


def expint(x: NumberLike, name: str | None = None) -> Tensor:
    """The exponential integral Ei: that of exp(t) / t for t from -infinity to x; NaN below 0. On the CPU alone.

    Examples:
        >>> await session.run(af.math.special.expint([0.0, 1.0]))
        array([    -inf, 1.8951179], dtype=float32)
    """


def fresnel_cos(x: NumberLike, name: str | None = None) -> Tensor:
    """Fresnel's cosine integral: that of cos(pi t^2 / 2) for t from 0 to x. On the CPU alone.

    Examples:
        >>> await session.run(af.math.special.fresnel_cos([0.0, 1.0]))
        array([0.       , 0.7798934], dtype=float32)
    """


def fresnel_sin(x: NumberLike, name: str | None = None) -> Tensor:
    """Fresnel's sine integral: that of sin(pi t^2 / 2) for t from 0 to x. On the CPU alone.

    Examples:
        >>> await session.run(af.math.special.fresnel_sin([0.0, 1.0]))
        array([0.        , 0.43825915], dtype=float32)
    """


def spence(x: NumberLike, name: str | None = None) -> Tensor:
    """Spence's integral, the dilogarithm of 1 - x: that of log(t) / (1 - t) for t from 1 to x; NaN below 0.

    On the CPU alone.

    Examples:
        >>> await session.run(af.math.special.spence([0.0, 1.0]))
        array([1.644934, 0.      ], dtype=float32)
    """

