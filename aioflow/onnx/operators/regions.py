"""Regions of images: of a fixed size, and convolutions whose windows are bent."""

import functools
import itertools
import math
from collections.abc import Sequence

from aioflow import errors
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.concat import concat, split, stack, unstack
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.ranges import range as number_range
from aioflow.kernels.array.select import select
from aioflow.kernels.array.shapes import broadcast_to, expand_dims, reshape
from aioflow.kernels.linalg.products import tensordot
from aioflow.kernels.math.arithmetic import add, divide, maximum, minimum, multiply, subtract
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import greater, greater_equal, less_equal, logical_and
from aioflow.kernels.math.reduction import reduce_max, reduce_mean, reduce_min
from aioflow.kernels.math.rounding import ceil, floor
from aioflow.library.functional import map_fn
from aioflow.onnx.call import Call
from aioflow.onnx.operators.convolution import with_bias
from aioflow.onnx.operators.sampling import held, linear_sample, size_of
from aioflow.onnx.operators.size_limits import after_size_check, check_known_sizes
from aioflow.onnx.operators.values import rank_of, sizes_of, stacked
from aioflow.onnx.operators.windows import taps, windows_of
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import float64, int64


@operator("RoiAlign", since=10)
def _(call: Call, x: Tensor, regions: Tensor, batch: Tensor) -> Tensor:
    """Each region of an image as one of a fixed size, whose elements are means or extremes of sampled points.

    A `sampling_ratio` of 0 leaves the number of points to the size of each region, which is then computed by itself.
    """
    half = call.text("coordinate_transformation_mode", "half_pixel") if call.version >= 16 else "output_half_pixel"
    corners = subtract(multiply(regions, call.number("spatial_scale", 1.0)), 0.5 if half == "half_pixel" else 0.0)
    axes = [(corners[:, 1], corners[:, 3]), (corners[:, 0], corners[:, 2])]
    lines = [(first, _length(first, last, least=half != "half_pixel")) for first, last in axes]
    images, points = transpose(x, [0, 2, 3, 1]), call.integer("sampling_ratio", 0)
    check_known_sizes([size * max(points, 1) for size in _sizes(call)], x.dtype)
    if points > 0:
        return _aligned(call, gather(images, batch), lines, [points, points])
    places = gather(number_range(sizes_of(images)[0]), batch)
    made: Tensor = map_fn(lambda each: _adapted(call, images[each[0]], each[1]), (places, lines), dtype=x.dtype)
    return made


def _length(first: Tensor, last: Tensor, least: bool) -> Tensor:
    return maximum(subtract(last, first), 1.0) if least else subtract(last, first)


def _adapted(call: Call, image: Tensor, lines: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """One region of an image, with a point for each element of the image along both axes; 0 if it has no size."""
    counts = [
        cast(ceil(divide(select(greater(length, 0.0), length, 0.0), float(size))), int64)
        for size, (_, length) in zip(_sizes(call), lines, strict=True)
    ]
    points = maximum(stack(counts), constant(1, int64))
    points = after_size_check(points, multiply(points, constant(_sizes(call), int64)), image.dtype)
    whole = [(expand_dims(first, 0), expand_dims(length, 0)) for first, length in lines]
    (made,) = unstack(_aligned(call, expand_dims(image, 0), whole, [points[0], points[1]]), 1)
    return select(greater(reduce_min(stack(counts)), constant(0, int64)), made, constant(0, made.dtype))


def _sizes(call: Call) -> list[int]:
    """The height and the width of the results."""
    return [call.integer("output_height", 1), call.integer("output_width", 1)]


def _aligned(
    call: Call, images: Tensor, lines: Sequence[tuple[Tensor, Tensor]], points: Sequence[int | Tensor]
) -> Tensor:
    """A region of each image. `lines` give its start and length along both axes, `points` those of an element."""
    weighted = [
        _between(_sampled(*line, size, count), size_of(images, 1 + axis))
        for axis, (line, size, count) in enumerate(zip(lines, _sizes(call), points, strict=True))
    ]
    parts = [_corner(images, row, column) for row in weighted[0] for column in weighted[1]]
    return _pooled(call, parts, points)


def _sampled(first: Tensor, length: Tensor, size: int, points: int | Tensor) -> Tensor:
    """The coordinates of the sampled rows, or columns, of each region: [regions, size * points]."""
    count = cast(multiply(size, points), int64) if isinstance(points, Tensor) else constant(size * points, int64)
    steps = divide(add(cast(number_range(count), float64), 0.5), cast(count, float64))
    return add(expand_dims(first, 1), multiply(expand_dims(length, 1), cast(steps, first.dtype)))


def _between(at: Tensor, size: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The two elements around each coordinate, and their weights, 0 for coordinates beyond the image."""
    inside = logical_and(greater_equal(at, -1.0), less_equal(at, size))
    point = held(at, size)
    low = floor(point)
    share = subtract(point, low)
    seen = cast(inside, at.dtype)
    high = minimum(add(low, 1.0), subtract(size, 1.0))
    return [
        (cast(low, int64), multiply(subtract(1.0, share), seen)),
        (cast(high, int64), multiply(share, seen)),
    ]


def _corner(images: Tensor, row: tuple[Tensor, Tensor], column: tuple[Tensor, Tensor]) -> Tensor:
    lines = gather(images, row[0], axis=1, batch_dims=1)
    shape = sizes_of(lines)
    places = broadcast_to(expand_dims(column[0], 1), stack([shape[0], shape[1], sizes_of(column[0])[1]]))
    values = gather(lines, places, axis=2, batch_dims=2)
    weight = multiply(expand_dims(row[1], 2), expand_dims(column[1], 1))
    return multiply(values, expand_dims(weight, 3))


def _pooled(call: Call, parts: Sequence[Tensor], points: Sequence[int | Tensor]) -> Tensor:
    (height, width), (rows, columns) = _sizes(call), points
    best = call.text("mode", "avg") == "max"
    values = functools.reduce(maximum if best else add, parts)
    whole = sizes_of(values)
    reduce = reduce_max if best else reduce_mean
    cut = reshape(values, stacked(whole[0], height, rows, width, columns, whole[3]))
    return transpose(reduce(cut, [2, 4]), [0, 3, 1, 2])


# Bent windows


@operator("DeformConv", since=19)
def _(
    call: Call, x: Tensor, weights: Tensor, offsets: Tensor, bias: Tensor | None = None, mask: Tensor | None = None
) -> Tensor:
    """A convolution in which each element of a window is moved by an offset of its own."""
    kernel = [int(size or 0) for size in (weights.spec.sizes or ())[2:]]
    if len(kernel) != 2:
        raise errors.UnimplementedError(f"windows of {len(kernel)} axes that are bent are not implemented")
    parts = call.integer("offset_group", 1)
    images = split(transpose(x, [0, 2, 3, 1]), parts, 3)
    moves = split(offsets, parts, 1)
    shares = [None] * parts if mask is None else split(mask, parts, 1)
    columns = [_columns(call, x, kernel, *each) for each in zip(images, moves, shares, strict=True)]
    return with_bias(_grouped(call, concat(columns, 4), weights), bias)


def _columns(
    call: Call, x: Tensor, kernel: Sequence[int], images: Tensor, moves: Tensor, share: Tensor | None
) -> Tensor:
    """The elements under all windows: [batch, row, column, element of the window, channel]."""
    windows = windows_of(call, x, kernel)
    taps(math.prod(kernel))
    shape = sizes_of(moves)
    found = []
    for index, places in enumerate(itertools.product(*map(range, kernel))):
        at = []
        for axis, tap in enumerate(places):
            first = tap * windows.dilations[axis] - windows.numbers[2 + axis][0]
            line = add(multiply(cast(number_range(shape[2 + axis]), x.dtype), windows.strides[axis]), first)
            at.append(add(reshape(line, [-1, 1] if axis == 0 else [1, -1]), moves[:, 2 * index + axis]))
        part = linear_sample(images, at, [size_of(x, 2), size_of(x, 3)])
        found.append(part if share is None else multiply(part, expand_dims(share[:, index], -1)))
    return stack(found, 3)


def _grouped(call: Call, columns: Tensor, weights: Tensor) -> Tensor:
    """The products of columns and weights, group by group of channels, with channels second."""
    groups = call.integer("group", 1)
    flat = reshape(weights, concat([sizes_of(weights)[:2], [-1]], 0))
    pairs = zip(split(columns, groups, 4), split(flat, groups, 0), strict=True)
    made = [tensordot(part, window, [[4, 3], [1, 2]]) for part, window in pairs]
    return transpose(concat(made, rank_of(made[0]) - 1), [0, 3, 1, 2])
