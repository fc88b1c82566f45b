"""Numbers from the words of a stream of Philox: uniform, normal and whole numbers, orders and classes.

A function takes `draw`, which returns the first words of a stream by their number.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from aioflow import errors
from aioflow.tensors.dtypes import FLOAT, Array, DType, float32, float64

Words = npt.NDArray[np.uint64]
Draw = Callable[[int], Words]
"""The first words of a stream, by their number."""

DIGITS: Final = {dtype: int(ml_dtypes.finfo(dtype.np).nmant) + 1 for dtype in FLOAT}  # type: ignore[no-untyped-call]
"""How many binary digits a number of the dtype has."""
_LOW: Final = np.uint64(0xFFFF_FFFF)
_HALF: Final = np.uint64(32)
_WORD: Final = (1 << 64) - 1
_PORTION: Final = 1 << 16
"""Words generated at a time: NumPy holds the interpreter lock meanwhile, and the event loop must get its turn."""


def uniforms(draw: Draw, shape: Array, dtype: DType) -> Array:
    """From 0 up to but not 1."""
    sizes, count = sized(shape)
    if dtype is float64:
        return fractions(draw(count), dtype.np, 53).reshape(sizes)
    halves = _halves(draw(-(-count // 2)))[:count]
    return fractions(halves, float32.np, DIGITS[dtype]).astype(dtype.np, copy=False).reshape(sizes)


def normals(draw: Draw, shape: Array, dtype: DType) -> Array:
    """Of mean 0 and standard deviation 1."""
    sizes, count = sized(shape)
    pairs = -(-count // 2)
    bits: Array = draw(2 * pairs) if dtype is float64 else _halves(draw(pairs))
    made = box_muller(bits, float64.np if dtype is float64 else float32.np)
    return made[:count].astype(dtype.np, copy=False).reshape(sizes)


def central_normals(draw: Draw, shape: Array, dtype: DType) -> Array:
    """As normal numbers of mean 0 and standard deviation 1 that lie between -2 and 2."""
    sizes, count = sized(shape)
    if dtype is float64:
        uniform = _signed_fractions(draw(count), dtype.np, 53)
    else:
        uniform = _signed_fractions(_halves(draw(-(-count // 2)))[:count], float32.np, 24)
    return _central_quantile(uniform).astype(dtype.np, copy=False).reshape(sizes)


def integers(draw: Draw, shape: Array, minval: Array, maxval: Array) -> Array:
    """From `minval` up to but not `maxval`."""
    (sizes, count), low, high = sized(shape), int(minval), int(maxval)
    check_span(low, high)
    numbers = _below(draw(count), high - low)
    numbers += np.uint64(low & _WORD)
    return numbers.astype(minval.dtype).reshape(sizes)


def check_span(low: int, high: int) -> None:
    """ValueError unless there is an integer from `low` up to but not `high`."""
    if low >= high:
        raise ValueError(f"minval {low} must be below maxval {high}")


def order(draw: Draw, count: int) -> Array:
    """The positions of `count` parts in random order."""
    return draw(count).argsort(kind="stable")


def classes(draw: Draw, logits: Array, num_samples: Array, dtype: DType) -> Array:
    """For each row of logits, classes drawn with the probability softmax(logits)."""
    (rows, kinds), samples = logits.shape, int(num_samples)
    if samples < 0 or not kinds:
        raise errors.InvalidArgumentError(f"cannot draw {samples} of {kinds} classes")
    wide = logits.astype(np.float64)
    sums = np.exp(wide - wide.max(1, keepdims=True, initial=-np.inf)).cumsum(1)
    points = fractions(draw(rows * samples), float64.np, 53).reshape(rows, samples)
    points *= sums[:, -1:]
    drawn = np.empty((rows, samples), dtype.np)
    for row, (below, point) in enumerate(zip(sums, points, strict=True)):
        drawn[row] = np.minimum(below.searchsorted(point, "right"), kinds - 1)
    return drawn


def sized(shape: Array) -> tuple[list[int], int]:
    """The shape, and how many elements it has. ValueError for a negative size."""
    sizes = shape.tolist()
    if sizes and min(sizes) < 0:
        raise ValueError(f"shape {sizes} has a negative size")
    return sizes, math.prod(sizes)


def stream(key: int, counter: int, count: int) -> Words:
    """The first `count` words of the stream of that key and counter."""
    generator = np.random.Philox(key=key, counter=counter)
    if count <= _PORTION:
        return generator.random_raw(count)
    whole = np.empty(count, np.uint64)
    for start in range(0, count, _PORTION):
        whole[start : start + _PORTION] = generator.random_raw(min(_PORTION, count - start))
    return whole


def _halves(words: Words) -> npt.NDArray[np.uint32]:
    """Words as halves, the low one first, on machines of any byte order."""
    return words.astype("<u8", copy=False).view("<u4").astype(np.uint32, copy=False)


def fractions(bits: npt.NDArray[Any], dtype: np.dtype[Any], digits: int) -> Array:
    """From the highest `digits` bits, a multiple of 2^-digits from 0 up to but not 1."""
    spare = bits.itemsize * 8 - digits
    whole = (bits >> bits.dtype.type(spare)).view(f"i{bits.itemsize}") if spare else bits
    part: Array = whole.astype(dtype)  # signed integers, where they can be, convert faster
    part *= dtype.type(2.0**-digits)
    return part


def _signed_fractions(bits: npt.NDArray[Any], dtype: np.dtype[Any], digits: int) -> Array:
    """From the highest `digits` bits, an odd multiple of 2^-digits between -1 and 1, 0 excluded."""
    whole = (bits >> bits.dtype.type(bits.itemsize * 8 - digits)).view(f"i{bits.itemsize}")
    part: Array = (2 * whole + (1 - (1 << digits))).astype(dtype)
    part *= dtype.type(2.0**-digits)
    return part


def box_muller(bits: npt.NDArray[Any], dtype: np.dtype[Any]) -> Array:
    """Two normals of each pair: from the first a distance from the origin, from the second a direction."""
    fine, coarse = (53, 53) if bits.itemsize == 8 else (32, 24)
    distance = fractions(bits[0::2], dtype, fine)
    distance += dtype.type(2.0**-fine)  # from above 0 to 1
    np.log(distance, out=distance)
    distance *= -2
    np.sqrt(distance, out=distance)
    direction = fractions(bits[1::2], dtype, coarse)
    direction *= 2 * math.pi
    normals = np.empty(bits.size, dtype)
    np.multiply(distance, np.cos(direction), out=normals[0::2])
    np.multiply(distance, np.sin(direction), out=normals[1::2])
    return normals


_WITHIN_2: Final = 0.9544997361036416
"""The probability that a normal number lies between -2 and 2, erf(sqrt(2))."""
_TO_UNIT: Final = -0.8264794488103759
"""2 / log(1 - _WITHIN_2^2)"""
_QUANTILE: Final = (
    -9.974227328224462e-11, 6.785810829934486e-10, 1.930953464463662e-09, -2.656948078200894e-08,
    -1.063716256442855e-09, 8.302905043127574e-07, -1.8980526573782394e-06, -2.197296565805242e-05,
    0.00011866592283555506, 0.00041594881457303616, -0.005702214137697692, 0.005763593871956932,
    0.4265976031137179, 1.6681679208087192,
)  # fmt: skip


def _central_quantile(uniform: Array) -> Array:
    """Where a share of (1 + uniform) / 2 of all normal numbers between -2 and 2 lies below.

    That is sqrt(2) * erfinv(y) for y = uniform * erf(sqrt(2)): y times a function of log(1 - y^2), which a polynomial
    of degree 13, fitted at Chebyshev's points and highest power first here, gives to a relative error of 3e-15.
    """
    dtype = uniform.dtype.type
    y = uniform * dtype(_WITHIN_2)
    t = np.log1p(-y * y)
    t *= dtype(_TO_UNIT)
    t -= 1
    slope = np.full_like(t, _QUANTILE[0])
    for coefficient in _QUANTILE[1:]:
        slope *= t
        slope += dtype(coefficient)
    slope *= y
    return slope


def _below(words: Words, span: int) -> Words:
    """Integers below `span`: the high words of the products of 128 bits."""
    high, low = np.uint64(span >> 32), np.uint64(span & int(_LOW))
    upper, lower = words >> _HALF, words & _LOW
    middle = upper * low + (lower * low >> _HALF)
    rest = lower * high + (middle & _LOW)
    product: Words = upper * high + (middle >> _HALF) + (rest >> _HALF)
    return product
