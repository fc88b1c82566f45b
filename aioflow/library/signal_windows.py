"""Windows: weights of the samples of a frame, which fall towards its ends."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import reverse
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.ranges import range as counting
from aioflow.kernels.math.arithmetic import maximum
from aioflow.kernels.math.bessel_i import bessel_i0
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.cumulative import cumsum
from aioflow.kernels.math.elementwise import cos, sin, sqrt, square
from aioflow.library.control import name_scope
from aioflow.tensors.dtypes import FLOAT, DType, DTypeLike, as_dtype, float32

Window = Callable[..., Any]
"""Called with the length of a frame and `dtype=`, returns a weight for each sample."""


@transactional
def hann_window(
    window_length: NumberLike, periodic: bool = True, dtype: DTypeLike = float32, name: str | None = None
) -> Tensor:
    """Return the raised cosine 0.5 - 0.5 cos(2π i / n) for i below `window_length`, n.

    Args:
        window_length: the number of weights.
        periodic: whether an even window is one period, as for frames that overlap; else it is symmetric.
        dtype: a floating dtype.
        name: the name of the operation.

    Examples:
        >>> await session.run(af.signal.hann_window(4))
        array([0. , 0.5, 1. , 0.5], dtype=float32)
    """
    return _raised_cosine("hann_window", window_length, periodic, dtype, name, 0.5)


@transactional
def hamming_window(
    window_length: NumberLike, periodic: bool = True, dtype: DTypeLike = float32, name: str | None = None
) -> Tensor:
    """Return 0.54 - 0.46 cos(2π i / n) for i below `window_length`, n; `periodic` is that of `hann_window`.

    Examples:
        >>> await session.run(af.signal.hamming_window(4))
        array([0.08000001, 0.54      , 1.        , 0.54      ], dtype=float32)
    """
    return _raised_cosine("hamming_window", window_length, periodic, dtype, name, 0.54)


def _raised_cosine(
    function: str, window_length: Any, periodic: bool, dtype: DTypeLike, name: str | None, mean: float
) -> Tensor:
    with name_scope(name, function):
        length, places = _places(window_length, as_dtype(dtype))
        period = length - 1 + (1 - length % 2) * int(periodic)
        weights = mean - (1 - mean) * cos(places * (2 * math.pi) / _at_least_1(period, places))
        single: Tensor = cast(length < 2, weights.dtype)
        return weights + single * (1 - weights)  # a single sample has the weight 1


def _places(window_length: Any, dtype: DType) -> tuple[Any, Tensor]:
    """The length, a number where it is one, and the numbers below it."""
    if dtype not in FLOAT:
        raise ValueError(f"a window has a floating dtype, not {dtype.name}")
    if isinstance(window_length, int | np.integer) and window_length < 1:
        raise ValueError(f"window_length must be 1 or more, not {window_length}")
    length = convert_to_tensor(window_length)
    return length, cast(counting(length), dtype)


def _at_least_1(value: Tensor, like: Tensor) -> Tensor:
    return cast(maximum(value, 1), like.dtype)


@transactional
def kaiser_window(
    window_length: NumberLike, beta: NumberLike = 12.0, dtype: DTypeLike = float32, name: str | None = None
) -> Tensor:
    """Return the Kaiser window I0(β sqrt(1 - (i / h)²)) / I0(β), for i from -h to h.

    Examples:
        >>> await session.run(af.signal.kaiser_window(3))
        array([5.2773445e-05, 1.0000000e+00, 5.2773445e-05], dtype=float32)
    """
    with name_scope(name, "kaiser_window"):
        return _kaiser(window_length, beta, as_dtype(dtype))


def _kaiser(window_length: Any, beta: Any, dtype: DType) -> Tensor:
    length, places = _places(window_length, dtype)
    shape = convert_to_tensor(beta, dtype)
    from_middle = places * 2 / _at_least_1(length - 1, places) - cast(length > 1, dtype)
    return bessel_i0(shape * sqrt(maximum(1 - square(from_middle), 0))) / bessel_i0(shape)


@transactional
def kaiser_bessel_derived_window(
    window_length: NumberLike, beta: NumberLike = 12.0, dtype: DTypeLike = float32, name: str | None = None
) -> Tensor:
    """Return the roots of the running sums of a Kaiser window, up to their middle and back; an even length.

    Examples:
        >>> await session.run(af.signal.kaiser_bessel_derived_window(4))
        array([0.00726415, 0.9999736 , 0.9999736 , 0.00726415], dtype=float32)
    """
    with name_scope(name, "kaiser_bessel_derived_window"):
        sums = cumsum(_kaiser(convert_to_tensor(window_length) // 2 + 1, beta, as_dtype(dtype)))
        rising = sqrt(sums[:-1] / sums[-1])
        return concat([rising, reverse(rising, [0])], 0)


@transactional
def vorbis_window(window_length: NumberLike, dtype: DTypeLike = float32, name: str | None = None) -> Tensor:
    """Return sin(π/2 sin²(π (i + 1/2) / n)) for i below `window_length`, n.

    Examples:
        >>> await session.run(af.signal.vorbis_window(4))
        array([0.22801436, 0.9736578 , 0.9736578 , 0.22801416], dtype=float32)
    """
    with name_scope(name, "vorbis_window"):
        length, places = _places(window_length, as_dtype(dtype))
        return sin(math.pi / 2 * square(sin(math.pi * (places + 0.5) / cast(length, places.dtype))))
