"""Signals in frames that overlap, back, and their short-time Fourier transforms."""

from collections.abc import Callable
from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import tile, transpose
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.pad import pad
from aioflow.kernels.array.ranges import range as counting
from aioflow.kernels.array.shapes import expand_dims, reshape
from aioflow.kernels.math.arithmetic import maximum
from aioflow.kernels.math.elementwise import square
from aioflow.kernels.math.no_nan import div_no_nan
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.kernels.math.segments import unsorted_segment_sum
from aioflow.library.control import name_scope
from aioflow.library.fourier import Size, irfft, resized, rfft, size_of
from aioflow.library.signal_windows import Window, hann_window
from aioflow.tensors.dtypes import DTypeLike, complex64, float32


@transactional
def frame(
    signal: NumberLike,
    frame_length: NumberLike,
    frame_step: NumberLike,
    pad_end: bool = False,
    pad_value: NumberLike = 0,
    axis: int = -1,
    name: str | None = None,
) -> Tensor:
    """Return the parts of `frame_length` elements that begin at each multiple of `frame_step` along `axis`.

    In the place of that axis are two: the frames, and the elements of each.

    Args:
        signal: a tensor of a known rank.
        frame_length: the elements of a frame.
        frame_step: the distance from the start of a frame to the next.
        pad_end: whether frames begin at all multiples below the size, and `pad_value` fills the last ones. Without,
            only whole frames are there.
        pad_value: the value of elements that are missing in the last frames.
        axis: the axis that is cut into frames.
        name: the name of the operation.

    Examples:
        >>> await session.run(af.signal.frame([1, 2, 3, 4], frame_length=2, frame_step=1))
        array([[1, 2],
               [2, 3],
               [3, 4]], dtype=int32)
    """
    with name_scope(name, "frame") as scope:
        x = convert_to_tensor(signal)
        place = x.spec.axis(axis)
        if place < 0:
            raise ValueError(f"the rank of {x!r} must be known")
        length, step = (_positive(value, what) for value, what in ((frame_length, "length"), (frame_step, "step")))
        size = size_of(x, place)
        count = -(-size // step) if pad_end else _at_least_0((size - length) // step + 1)
        if pad_end:
            x = _padded(x, place, _at_least_0((count - 1) * step + length - size), pad_value)
        starts = expand_dims(counting(count) * step, 1)
        return gather(x, starts + counting(length), axis=place, name=scope)


def _positive(value: Any, what: str) -> Size:
    if isinstance(value, int) and value < 1:
        raise ValueError(f"frame_{what} must be 1 or more, not {value}")
    return value if isinstance(value, int) else convert_to_tensor(value)


def _at_least_0(value: Size) -> Size:
    return max(value, 0) if isinstance(value, int) else maximum(value, 0)


def _padded(x: Tensor, axis: int, count: Size, value: Any) -> Tensor:
    sizes: list[Any] = [size_of(x, place) for place in range(x.shape.ndims or 0)]
    sizes[axis] = count
    filling = tile(reshape(convert_to_tensor(value, x.dtype), [1] * len(sizes)), sizes)
    return concat([x, filling], axis)


@transactional
def overlap_and_add(signal: NumberLike, frame_step: NumberLike, name: str | None = None) -> Tensor:
    """Return the signals [..., samples] that are the sums of frames [..., frames, length], `frame_step` apart.

    Examples:
        >>> await session.run(af.signal.overlap_and_add([[1, 2], [3, 4]], frame_step=1))
        array([1, 5, 4], dtype=int32)
    """
    with name_scope(name, "overlap_and_add"):
        x = convert_to_tensor(signal)
        rank = x.shape.ndims
        if rank is None or rank < 2:
            raise ValueError(f"frames have the shape [..., frames, length], not {x.shape}")
        step, count, length = _positive(frame_step, "step"), size_of(x, -2), size_of(x, -1)
        places = expand_dims(counting(count) * step, 1) + counting(length)
        in_front = transpose(x, [rank - 2, rank - 1, *range(rank - 2)])
        sums = unsorted_segment_sum(in_front, places, _at_least_0((count - 1) * step + length))
        return transpose(sums, [*range(1, rank - 1), 0])


# Short-time Fourier transforms


@transactional
def stft(
    signals: NumberLike,
    frame_length: NumberLike,
    frame_step: NumberLike,
    fft_length: NumberLike | None = None,
    window_fn: Window | None = hann_window,
    pad_end: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the Fourier transforms of the frames of signals [..., samples], [..., frames, fft_length // 2 + 1].

    Args:
        signals: real numbers, [..., samples].
        frame_length: the samples of a frame.
        frame_step: the distance from the start of a frame to the next.
        fft_length: the size that frames are filled with zeros to; by default the power of 2 from `frame_length` on.
        window_fn: called with `frame_length` and `dtype=`, returns the weights of a frame's samples. None for none.
        pad_end: that of `frame`.
        name: the name of the operation.

    Examples:
        >>> af.signal.stft(af.ones([1000]), frame_length=256, frame_step=128).shape
        TensorShape([6, 129])
    """
    with name_scope(name, "stft"):
        x = convert_to_tensor(signals, preferred_dtype=float32)
        frames = frame(x, frame_length, frame_step, pad_end)
        if window_fn is not None:
            frames = frames * window_fn(frame_length, dtype=x.dtype)
        return rfft(frames, [_fft_length(fft_length, frame_length)])


def _fft_length(fft_length: Any, frame_length: Any) -> Size:
    if fft_length is not None:
        return fft_length
    if not isinstance(frame_length, int):
        raise ValueError("give fft_length where frame_length is a tensor")
    return 1 << (frame_length - 1).bit_length()


@transactional
def inverse_stft(
    stfts: NumberLike,
    frame_length: NumberLike,
    frame_step: NumberLike,
    fft_length: NumberLike | None = None,
    window_fn: Window | None = hann_window,
    name: str | None = None,
) -> Tensor:
    """Return the signals [..., samples] whose transforms are `stfts`: frames transformed back, weighted and added.

    They are those that `stft` had, if `window_fn` is `inverse_stft_window_fn(frame_step, window)` of its window, but
    for the ends, where fewer frames overlap.

    Examples:
        >>> signal = np.sin(np.arange(64, dtype=np.float32))
        >>> spectrum = af.signal.stft(signal, 16, 8)
        >>> window = af.signal.inverse_stft_window_fn(8)
        >>> again = af.signal.inverse_stft(spectrum, 16, 8, window_fn=window)
        >>> await session.run(af.reduce_max(af.abs(again[8:56] - signal[8:56])) < 1e-5)
        np.True_
    """
    with name_scope(name, "inverse_stft"):
        x = convert_to_tensor(stfts, preferred_dtype=complex64)
        frames = resized(irfft(x, [_fft_length(fft_length, frame_length)]), [frame_length], (-1,))
        if window_fn is not None:
            frames = frames * window_fn(frame_length, dtype=frames.dtype)
        return overlap_and_add(frames, frame_step)


def inverse_stft_window_fn(
    frame_step: NumberLike, forward_window_fn: Window = hann_window, name: str | None = None
) -> Callable[..., Tensor]:
    """Return the window for `inverse_stft` with which it undoes `stft` with `forward_window_fn`.

    Each weight is divided by the sum of the squares of all weights that its sample gets, in all frames that have it;
    it is 0 if these are 0.

    Examples:
        >>> window = af.signal.inverse_stft_window_fn(2)
        >>> await session.run(window(4, dtype=af.float32))
        array([0., 1., 1., 1.], dtype=float32)
    """

    @transactional
    def inverse_stft_window(frame_length: NumberLike, dtype: DTypeLike) -> Tensor:
        with name_scope(name, "inverse_stft_window_fn"):
            length, step = _positive(frame_length, "length"), _positive(frame_step, "step")
            weights = forward_window_fn(length, dtype=dtype)
            overlaps = -(-length // step)
            squares = pad(square(weights), [[0, overlaps * step - length]])
            sums = reduce_sum(reshape(squares, [overlaps, step]), 0)
            return div_no_nan(weights, tile(sums, [overlaps])[:length])

    return inverse_stft_window
