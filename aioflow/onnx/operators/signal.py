"""Fourier transforms, as products with matrices of sines and cosines, and the weights of Mel bands."""

import math

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.pad import pad
from aioflow.kernels.array.ranges import range as number_range
from aioflow.kernels.array.select import select
from aioflow.kernels.array.shapes import expand_dims, reshape
from aioflow.kernels.linalg.products import tensordot
from aioflow.kernels.math.arithmetic import add, divide, floordiv, maximum, minimum, multiply, subtract
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, less_equal
from aioflow.kernels.math.elementwise import cos, exp, log, sin
from aioflow.kernels.math.rounding import floor
from aioflow.onnx.call import Call
from aioflow.onnx.operators.values import along_axis, axis_of, known_number, rank_of, scalar, size_at
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import float32, float64, int64


@operator("DFT", since=20)
def _(call: Call, x: Tensor, length: Tensor | None = None, axis: Tensor | None = None) -> Tensor:
    place = constant(-2, int64) if axis is None else axis
    return along_axis(place, rank_of(x), lambda each: _of_node(call, x, length, each))


@operator("DFT", since=17)
def _(call: Call, x: Tensor, length: Tensor | None = None) -> Tensor:
    return _of_node(call, x, length, axis_of(call.integer("axis", 1), rank_of(x)))


def _of_node(call: Call, x: Tensor, length: Tensor | None, axis: int) -> Tensor:
    if axis == rank_of(x) - 1:
        return x
    inverse, onesided = call.flag("inverse"), call.flag("onesided")
    size = cast(_whole(size_at(x, axis)), int64)
    if onesided and inverse:
        size = multiply(subtract(size, constant(1, int64)), constant(2, int64))
    count = size if length is None else cast(scalar(length), int64)
    return transformed(x, count, axis, inverse, onesided)


def _whole(size: int | Tensor) -> Tensor:
    return size if isinstance(size, Tensor) else constant(size, int64)


def transformed(x: Tensor, count: Tensor, axis: int, inverse: bool = False, onesided: bool = False) -> Tensor:
    """The Fourier transform along an axis. The last axis of `x` holds the real part, or the real and imaginary one."""
    last = rank_of(x) - 1
    parts = x.spec.sizes[last] if x.spec.sizes else None
    real, imaginary = x[..., 0], x[..., 1] if parts == 2 else None
    if onesided and inverse:
        return expand_dims(_restored(real, imaginary, count, axis), -1)
    outputs = add(floordiv(count, constant(2, int64)), constant(1, int64)) if onesided else count
    pair = _product(
        _fitted(real, count, axis),
        None if imaginary is None else _fitted(imaginary, count, axis),
        count,
        outputs,
        axis,
        inverse,
    )
    return stack(pair, last)


def _fitted(x: Tensor, count: Tensor, axis: int) -> Tensor:
    """`x` cut off, or filled up with zeros, to that size of an axis."""
    cut = x[(slice(None),) * axis + (slice(0, count),)]
    more = subtract(count, minimum(count, _whole(size_at(x, axis))))
    if known_number(more) == 0:
        return cut
    pairs = [[constant(0, int64), more if each == axis else constant(0, int64)] for each in range(rank_of(x))]
    return pad(cut, stack([stack(pair) for pair in pairs]))


def _product(
    real: Tensor, imaginary: Tensor | None, inputs: Tensor, outputs: Tensor, axis: int, inverse: bool
) -> list[Tensor]:
    rows, columns = cast(number_range(outputs), float64), cast(number_range(inputs), float64)
    whole = cast(inputs, float64)
    angle = multiply(multiply(expand_dims(rows, 1), columns), divide(constant(2 * math.pi, float64), whole))
    share = divide(constant(1.0, float64), whole) if inverse else constant(1.0, float64)
    cosine = cast(multiply(cos(angle), share), real.dtype)
    sine = cast(multiply(sin(angle), share if inverse else -share), real.dtype)
    made = [_along(real, cosine, axis), _along(real, sine, axis)]
    if imaginary is None:
        return made
    return [
        subtract(made[0], _along(imaginary, sine, axis)),
        add(made[1], _along(imaginary, cosine, axis)),
    ]


def _along(x: Tensor, matrix: Tensor, axis: int) -> Tensor:
    rank = rank_of(x)
    made = tensordot(x, matrix, [[axis], [1]])
    return transpose(made, [*range(axis), rank - 1, *range(axis, rank - 1)])


def _restored(real: Tensor, imaginary: Tensor | None, count: Tensor, axis: int) -> Tensor:
    """The real signal whose transform has this first half: the other half is its mirror image, conjugated."""
    places, half = number_range(count), _whole(size_at(real, axis))
    mirrored = subtract(count, places)
    source = minimum(minimum(places, mirrored), subtract(half, constant(1, int64)))
    whole = gather(real, source, axis=axis)
    if imaginary is None:
        return _product(whole, None, count, count, axis, True)[0]
    sign = subtract(multiply(cast(less_equal(places, mirrored), real.dtype), 2.0), 1.0)
    line = reshape(sign, [-1 if each == axis else 1 for each in range(rank_of(real))])
    return _product(whole, multiply(gather(imaginary, source, axis=axis), line), count, count, axis, True)[0]


@operator("STFT", since=17)
def _(call: Call, x: Tensor, step: Tensor, window: Tensor | None = None, length: Tensor | None = None) -> Tensor:
    """The transforms of frames of a signal: [batch, frames, frequencies, 2]."""
    size = size_at(window, 0) if window is not None else scalar(length)  # type: ignore[arg-type]
    frame, hop = _whole(size), cast(scalar(step), int64)
    frame = cast(frame, int64)
    signal = x if rank_of(x) == 3 else expand_dims(x, -1)
    count = add(floordiv(subtract(_whole(size_at(signal, 1)), frame), hop), constant(1, int64))
    places = add(expand_dims(multiply(number_range(count), hop), 1), number_range(frame))
    frames = gather(signal, places, axis=1)
    if window is not None:
        frames = multiply(frames, reshape(window, [-1, 1]))
    return transformed(frames, frame, 2, onesided=call.flag("onesided", True))


@operator("MelWeightMatrix", since=17)
def _(call: Call, bands: Tensor, length: Tensor, rate: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The weight of each frequency in each Mel band: triangles at equal distances on the Mel scale."""
    bands, length, rate, low, high = (cast(scalar(each), float64) for each in (bands, length, rate, low, high))
    rows = add(floor(multiply(length, 0.5)), 1.0)
    first, last = _mel(low), _mel(high)
    steps = cast(number_range(cast(add(bands, 2.0), int64)), float64)
    mels = add(first, multiply(steps, divide(subtract(last, first), add(bands, 2.0))))
    hertz = multiply(subtract(exp(multiply(mels, math.log(10) / 2595.0)), 1.0), 700.0)
    bins = floor(divide(multiply(hertz, add(length, 1.0)), rate))
    place = expand_dims(cast(number_range(cast(rows, int64)), float64), 1)
    lower, centre, upper = bins[:-2], bins[1:-1], bins[2:]
    rising = divide(subtract(place, lower), maximum(subtract(centre, lower), 1e-300))
    falling = divide(subtract(upper, place), maximum(subtract(upper, centre), 1e-300))
    flat = equal(lower, centre)
    left = select(flat, cast(equal(place, centre), float64), rising)
    weights = select(less_equal(place, centre), left, falling)
    return cast(maximum(minimum(weights, 1.0), 0.0), call.dtype("output_datatype", float32))


def _mel(hertz: Tensor) -> Tensor:
    return multiply(log(add(divide(hertz, 700.0), 1.0)), 2595.0 / math.log(10))
