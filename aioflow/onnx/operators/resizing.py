"""Images of another size: each axis by itself, as a product with a matrix of weights, or by the nearest elements.

An output element lies at a coordinate of the input, which follows from the sizes or scales of an axis. All is computed
from vectors with one number for each output element, so that sizes may be known only in the run.
"""

import dataclasses
import math

from aioflow.graph.convert import constant_value
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.ranges import range as number_range
from aioflow.kernels.array.select import select
from aioflow.kernels.array.shapes import expand_dims, reshape
from aioflow.kernels.linalg.products import tensordot
from aioflow.kernels.math.arithmetic import add, divide, maximum, minimum, multiply, subtract
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, greater, greater_equal, less, less_equal, logical_and, logical_or
from aioflow.kernels.math.elementwise import abs
from aioflow.kernels.math.reduction import reduce_max, reduce_min, reduce_sum
from aioflow.kernels.math.rounding import ceil, floor
from aioflow.onnx.call import Call
from aioflow.onnx.operators.size_limits import after_size_check, check_known_sizes
from aioflow.onnx.operators.values import axes_of, known_number, rank_of, size_at, sizes_of
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import float32, float64, int64


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """One axis that changes its size: numbers are scalars of float64, `count` is an int64.

    `start` and `end` bound the part of the input that is taken, as shares of its size. `stays` says that the size is
    known not to change.
    """

    place: int
    size: Tensor
    count: Tensor
    scale: Tensor
    stays: bool = False
    start: Tensor | None = None
    end: Tensor | None = None


@operator("Resize", since=11)
def _(
    call: Call, x: Tensor, roi: Tensor | None = None, scales: Tensor | None = None, sizes: Tensor | None = None
) -> Tensor:
    places = axes_of(call.integers("axes", range(rank_of(x))), rank_of(x))
    axes = _by_scales(x, places, scales) if sizes is None else _by_sizes(call, x, places, sizes)
    mode = call.text("coordinate_transformation_mode", "half_pixel")
    if roi is not None and mode == "tf_crop_and_resize":
        parts = [cast(roi, float64)[index] for index in range(2 * len(places))]
        axes = [
            dataclasses.replace(axis, start=start, end=end)
            for axis, start, end in zip(axes, parts[: len(places)], parts[len(places) :], strict=True)
        ]
    for axis in _within_limits(x, axes):
        x = _resized(call, x, axis, mode)
    return x


@operator("Resize", since=10)
def _(call: Call, x: Tensor, scales: Tensor) -> Tensor:
    return _enlarged(call, x, scales)


@operator("Upsample", since=9)
def _(call: Call, x: Tensor, scales: Tensor) -> Tensor:
    return _enlarged(call, x, scales)


@operator("Upsample", since=7)
def _(call: Call, x: Tensor) -> Tensor:
    return _enlarged(call, x, constant(call.get("scales"), float32))


def _enlarged(call: Call, x: Tensor, scales: Tensor) -> Tensor:
    """As the first versions resize: coordinates are those of the output, divided by the scale."""
    for axis in _within_limits(x, _by_scales(x, list(range(rank_of(x))), scales)):
        x = _resized(call, x, axis, "asymmetric", "floor")
    return x


# Sizes


def _size(x: Tensor, place: int) -> Tensor:
    size = size_at(x, place)
    return cast(size, float64) if isinstance(size, Tensor) else constant(float(size), float64)


def _by_scales(x: Tensor, places: list[int], scales: Tensor | None) -> list[Axis]:
    if scales is None:
        raise ValueError("neither scales nor sizes are given")
    known = constant_value(scales)
    if known is not None and not all(0 < scale < math.inf for scale in known):
        raise ValueError(f"scales are finite numbers greater than 0, not {known.tolist()}")
    found = []
    for index, place in enumerate(places):
        size, whole = _size(x, place), size_at(x, place)
        factor = cast(scales, float64)[index] if known is None else constant(float(known[index]), float64)
        if known is None or isinstance(whole, Tensor):
            count = cast(floor(multiply(size, factor)), int64)
        else:
            count = constant(math.floor(whole * float(known[index])), int64)
        found.append(Axis(place, size, count, factor, known is not None and known[index] == 1))
    return found


def _by_sizes(call: Call, x: Tensor, places: list[int], sizes: Tensor) -> list[Axis]:
    policy = call.text("keep_aspect_ratio_policy", "stretch")
    counts = [cast(sizes, int64)[index] for index in range(len(places))]
    whole = [_size(x, place) for place in places]
    scales = [divide(cast(count, float64), old) for count, old in zip(counts, whole, strict=True)]
    if policy != "stretch":
        reduce = reduce_min if policy == "not_larger" else reduce_max
        scales = [reduce(stack(scales))] * len(places)
        counts = [cast(floor(add(multiply(old, scales[0]), 0.5)), int64) for old in whole]
    stays = [_surely(count, size_at(x, place)) for count, place in zip(counts, places, strict=True)]
    return [Axis(*each) for each in zip(places, whole, counts, scales, stays, strict=True)]


def _surely(count: Tensor, size: int | Tensor) -> bool:
    """Whether both are known, and equal."""
    return not isinstance(size, Tensor) and known_number(count) == size


def _within_limits(x: Tensor, axes: list[Axis]) -> list[Axis]:
    """The axes, whose new sizes are checked before anything is computed by them.

    Sizes that only the run knows are checked there, unless the model fixes their scales.
    """
    least: list[int | None] = list(x.spec.sizes or ())
    for axis in axes:
        least[axis.place] = _least_count(axis)
    check_known_sizes(least, x.dtype)
    if all(least[axis.place] is not None for axis in axes):
        return axes
    sizes = [sizes_of(x)[place] for place in range(rank_of(x))]
    for axis in axes:
        sizes[axis.place] = axis.count
    checked = after_size_check(stack([axis.count for axis in axes]), stack(sizes), x.dtype)
    return [dataclasses.replace(axis, count=checked[index]) for index, axis in enumerate(axes)]


def _least_count(axis: Axis) -> int | None:
    """The new size, or the least that it can be for a scale that the model fixes. None if only the run knows both."""
    count: int | None = known_number(axis.count)
    scale = known_number(axis.scale)
    return math.floor(scale) if count is None and scale is not None else count


# One axis


def _resized(call: Call, x: Tensor, axis: Axis, mode: str, rounding: str = "round_prefer_floor") -> Tensor:
    if axis.stays and mode != "tf_crop_and_resize":
        return x
    at = _coordinates(axis, mode)
    kind = call.text("mode", "nearest")
    if kind == "nearest":
        places = _nearest(at, call.text("nearest_mode", rounding))
        return gather(x, cast(_held(places, axis), int64), axis=axis.place)
    y = _weighted(x, axis, _weights(call, axis, at, kind))
    if mode != "tf_crop_and_resize":
        return y
    outside = logical_or(less(at, 0.0), greater(at, subtract(axis.size, 1.0)))
    line = reshape(outside, [-1 if each == axis.place else 1 for each in range(rank_of(x))])
    return select(line, constant(call.number("extrapolation_value", 0.0), x.dtype), y)


def _coordinates(axis: Axis, mode: str) -> Tensor:
    """Where each output element lies in the input."""
    places = cast(number_range(axis.count), float64)
    length = multiply(axis.size, axis.scale)
    half = subtract(divide(add(places, 0.5), axis.scale), 0.5)
    last, steps = subtract(axis.size, 1.0), maximum(subtract(length, 1.0), 1.0)
    if mode == "half_pixel":
        return half
    if mode == "pytorch_half_pixel":
        return select(equal(length, 1.0), constant(-0.5, float64), half)
    if mode == "half_pixel_symmetric":
        centre = multiply(axis.size, 0.5)
        return add(half, multiply(centre, subtract(1.0, divide(cast(axis.count, float64), length))))
    if mode == "asymmetric":
        return divide(places, axis.scale)
    if mode == "align_corners":
        return select(greater(length, 1.0), multiply(places, divide(last, steps)), multiply(places, 0.0))
    if mode != "tf_crop_and_resize" or axis.start is None or axis.end is None:
        raise ValueError(f"coordinates cannot be transformed by {mode!r}")
    reach = multiply(subtract(axis.end, axis.start), last)
    along = select(greater(length, 1.0), multiply(places, divide(reach, steps)), multiply(reach, 0.5))
    return add(along, multiply(axis.start, last))


def _nearest(at: Tensor, rounding: str) -> Tensor:
    if rounding == "floor":
        return floor(at)
    if rounding == "ceil":
        return ceil(at)
    return floor(add(at, 0.5)) if rounding == "round_prefer_ceil" else ceil(subtract(at, 0.5))


def _held(places: Tensor, axis: Axis) -> Tensor:
    return minimum(maximum(places, 0.0), subtract(axis.size, 1.0))


def _weights(call: Call, axis: Axis, at: Tensor, kind: str) -> Tensor:
    """The weight of each input element in each output element: a matrix [output, input]."""
    squeezed = minimum(axis.scale, 1.0) if call.flag("antialias") else constant(1.0, float64)
    reach = 1.0 if kind == "linear" else 2.0
    first = add(floor(subtract(at, divide(reach, squeezed))), 1.0)
    count = cast(multiply(ceil(divide(reach, squeezed)), 2.0), int64)
    taps = add(expand_dims(first, 1), cast(number_range(count), float64))
    distance = abs(multiply(subtract(taps, expand_dims(at, 1)), squeezed))
    weights = _linear(distance) if kind == "linear" else _cubic(distance, call.number("cubic_coeff_a", -0.75))
    if call.flag("exclude_outside"):
        inside = logical_and(greater_equal(taps, 0.0), less(taps, axis.size))
        weights = multiply(weights, cast(inside, float64))
    weights = divide(weights, reduce_sum(weights, 1, keepdims=True))
    places = cast(number_range(cast(axis.size, int64)), float64)
    hits = cast(equal(expand_dims(_held(taps, axis), 2), places), float64)
    return reduce_sum(multiply(expand_dims(weights, 2), hits), 1)


def _linear(distance: Tensor) -> Tensor:
    return maximum(subtract(1.0, distance), 0.0)


def _cubic(d: Tensor, a: float) -> Tensor:
    near = ((d * (a + 2) - (a + 3)) * d) * d + 1.0
    far = ((d * a - 5 * a) * d + 8 * a) * d - 4 * a
    return select(less_equal(d, 1.0), near, select(less(d, 2.0), far, multiply(d, 0.0)))


def _weighted(x: Tensor, axis: Axis, weights: Tensor) -> Tensor:
    wide = x.dtype if x.dtype.is_floating and x.dtype.size >= 4 else float32
    made = tensordot(cast(x, wide), cast(weights, wide), [[axis.place], [1]])
    rank = rank_of(x)
    return cast(transpose(made, [*range(axis.place), rank - 1, *range(axis.place, rank - 1)]), x.dtype)
