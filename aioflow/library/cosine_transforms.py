"""Cosine transforms of real numbers along the last axis, by Fourier transforms, and the lapped one made of them.

The types are those of the literature, scaled as in SciPy: type 2 is y[k] = 2 Σ x[i] cos(π k (2i + 1) / 2n), and type 3
its inverse but for the factor 2n.
"""

import math
from collections.abc import Callable
from typing import Any, Final

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import reverse
from aioflow.kernels.array.concat import concat, split
from aioflow.kernels.array.ranges import range as counting
from aioflow.kernels.math.arithmetic import multiply
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.complex import complex, real
from aioflow.kernels.math.elementwise import cos, sin, sqrt
from aioflow.kernels.math.fourier import REAL, real_fourier_transform
from aioflow.library.control import name_scope
from aioflow.library.fourier import Size, irfft, resized, rfft, size_of
from aioflow.library.signal_frames import frame, overlap_and_add
from aioflow.library.signal_windows import Window, vorbis_window
from aioflow.tensors.dtypes import float32

_INVERSE: Final = {1: 1, 2: 3, 3: 2, 4: 4}


@transactional
def dct(
    input: NumberLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Return the cosine transform of real numbers along the last axis.

    Args:
        input: real numbers.
        type: 1 to 4.
        n: the size to which the axis is cut off, or filled with zeros, before.
        axis: -1.
        norm: "ortho" for factors that make the transform orthonormal, which type 1 does not have; None without.
        name: the name of the operation.

    Examples:
        >>> await session.run(af.signal.dct([1.0, 1.0]))
        array([4., 0.], dtype=float32)
    """
    with name_scope(name, "dct"):
        return _transform(input, type, n, axis, norm)


@transactional
def idct(
    input: NumberLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Return the inverse of `dct` of the same type, times 2n, or 2 (n - 1) for type 1, unless `norm` is "ortho".

    Examples:
        >>> await session.run(af.signal.idct([4.0, 0.0]))
        array([4., 4.], dtype=float32)
    """
    if type not in _INVERSE:
        raise ValueError(f"type is one of 1, 2, 3 and 4, not {type!r}")
    with name_scope(name, "idct"):
        return _transform(input, _INVERSE[type], n, axis, norm)


def _transform(input: Any, type: int, n: int | None, axis: int, norm: str | None) -> Tensor:
    x = convert_to_tensor(input, preferred_dtype=float32)
    x.spec.only(REAL)
    if type not in _TRANSFORMS:
        raise ValueError(f"type is one of 1, 2, 3 and 4, not {type!r}")
    if norm not in (None, "ortho") or (type == 1 and norm is not None):
        raise ValueError(f"norm is None or 'ortho', which type 1 does not have, not {norm!r}")
    if axis not in (-1, None if x.shape.ndims is None else x.shape.ndims - 1):
        raise ValueError(f"axis is the last one, -1, not {axis}")
    if n is not None:
        if n < 1:
            raise ValueError(f"n must be 1 or more, not {n}")
        x = resized(x, [n], (-1,))
    return _TRANSFORMS[type](x, size_of(x, -1), norm == "ortho")


def _type_1(x: Tensor, size: Size, ortho: bool) -> Tensor:
    if isinstance(size, int) and size < 2:
        raise ValueError("type 1 needs 2 elements or more")
    return real(real_fourier_transform(concat([x, reverse(x[..., 1:-1], [-1])], -1)))


def _type_2(x: Tensor, size: Size, ortho: bool) -> Tensor:
    turned = rfft(x, [2 * size])[..., :size] * _turns(x, size, -1)
    made = 2 * real(turned)
    return made * _orthonormal(x, size) if ortho else made


def _type_3(x: Tensor, size: Size, ortho: bool) -> Tensor:
    scaled = x / _orthonormal(x, size) if ortho else x * _number(2 * size, x)
    turned = complex(scaled, multiply(scaled, 0)) * _turns(x, size, 1)
    return irfft(turned, [2 * size])[..., :size]


def _type_4(x: Tensor, size: Size, ortho: bool) -> Tensor:
    made = _type_2(resized(x, [2 * size], (-1,)), 2 * size, False)[..., 1::2]
    return made / sqrt(_number(2 * size, x)) if ortho else made


_TRANSFORMS: Final[dict[int, Callable[[Tensor, Size, bool], Tensor]]] = {
    1: _type_1, 2: _type_2, 3: _type_3, 4: _type_4,
}  # fmt: skip


def _turns(x: Tensor, size: Size, sign: int) -> Tensor:
    """Complex numbers on the unit circle, by k / 4n of it, for k below `size`, n."""
    angles = cast(counting(size), x.dtype) * (math.pi / 2) / _number(size, x)
    return complex(cos(angles), sin(angles) * sign)


def _orthonormal(x: Tensor, size: Size) -> Tensor:
    """The factors that make type 2 orthonormal: sqrt(1 / 2n), and sqrt(1 / 4n) for the first."""
    first: Tensor = 1 - cast(counting(size) < 1, x.dtype) * (1 - math.sqrt(0.5))
    return first / sqrt(_number(2 * size, x))


def _number(value: Size, x: Tensor) -> Tensor:
    return cast(convert_to_tensor(value), x.dtype)


# The modified cosine transform


@transactional
def mdct(
    signals: NumberLike,
    frame_length: NumberLike,
    window_fn: Window | None = vorbis_window,
    pad_end: bool = False,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the modified cosine transform of signals [..., samples], as [..., frames, frame_length // 2].

    Frames of `frame_length`, a multiple of 4, overlap by half. Each is folded into half of its length, and
    transformed by type 4.

    Args:
        signals: real numbers, [..., samples].
        frame_length: the samples of a frame.
        window_fn: called with `frame_length` and `dtype=`; None for a factor of sqrt(1/2).
        pad_end: whether zeros at the end fill the last frame; the rest is left out otherwise.
        norm: that of `dct`.
        name: the name of the operation.

    Examples:
        >>> af.signal.mdct(np.zeros(64, np.float32), 16).shape
        TensorShape([7, 8])
    """
    with name_scope(name, "mdct"):
        x = convert_to_tensor(signals, preferred_dtype=float32)
        length = _frame_length(frame_length)
        frames = frame(x, length, length // 2, pad_end) * _window(window_fn, length, x)
        a, b, c, d = split(frames, 4, -1)
        folded = concat([-reverse(c, [-1]) - d, a - reverse(b, [-1])], -1)
        return dct(folded, 4, norm=norm)


@transactional
def inverse_mdct(
    mdcts: NumberLike, window_fn: Window | None = vorbis_window, norm: str | None = None, name: str | None = None
) -> Tensor:
    """Return the signals [..., samples] of which `mdct` with the same arguments has made `mdcts`.

    The first and the last half frame are there once instead of twice: they are not those of the signals. Windows fit
    whose squares, shifted by half of their length, have the sum 1, as those of `vorbis_window`.

    Examples:
        >>> signal = np.sin(np.arange(32, dtype=np.float32))
        >>> spectrum = af.signal.mdct(signal, 16, pad_end=True)
        >>> await session.run(af.reduce_max(af.abs(af.signal.inverse_mdct(spectrum)[8:24] - signal[8:24])) < 1e-5)
        np.True_
    """
    with name_scope(name, "inverse_mdct"):
        x = convert_to_tensor(mdcts, preferred_dtype=float32)
        half = size_of(x, -1)
        first, second = split(idct(x, 4, norm=norm), 2, -1)
        unfolded = concat([second, -reverse(second, [-1]), -reverse(first, [-1]), -first], -1)
        frames = unfolded * _window(window_fn, 2 * half, x)
        return overlap_and_add(frames if norm == "ortho" else frames / _number(2 * half, x), half)


def _frame_length(value: Any) -> Size:
    if isinstance(value, int) and (value < 4 or value % 4):
        raise ValueError(f"frame_length is a positive multiple of 4, not {value}")
    return value if isinstance(value, int) else convert_to_tensor(value)


def _window(window_fn: Window | None, length: Size, x: Tensor) -> Any:
    return math.sqrt(0.5) if window_fn is None else window_fn(length, dtype=x.dtype)
