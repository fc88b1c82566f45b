"""Images sampled at points: by a grid of points for each image, or in regions of interest."""

import functools
import itertools
from collections.abc import Sequence

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.concat import concat, stack
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.gather import gather, gather_nd
from aioflow.kernels.array.ranges import range as number_range
from aioflow.kernels.array.select import select
from aioflow.kernels.array.shapes import broadcast_to, expand_dims, reshape
from aioflow.kernels.math.arithmetic import add, floormod, maximum, minimum, multiply, subtract
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import greater_equal, less, less_equal, logical_and
from aioflow.kernels.math.elementwise import abs
from aioflow.kernels.math.reduction import reduce_max, reduce_mean
from aioflow.kernels.math.rounding import floor, rint
from aioflow.onnx.call import Call
from aioflow.onnx.operators.values import rank_of, size_at, sizes_of
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import int64


@operator("GridSample", since=16)
def _(call: Call, x: Tensor, grid: Tensor) -> Tensor:
    """`x` at the points of a grid, whose numbers from -1 to 1 go from one border of the images to the other."""
    axes, mode = rank_of(x) - 2, call.text("mode", "linear")
    corners = call.flag("align_corners")
    images = transpose(x, [0, *range(2, axes + 2), 1])
    sizes = [_size(x, axis + 2) for axis in range(axes)]
    points = [_unscaled(grid[..., axes - 1 - axis], size, corners) for axis, size in enumerate(sizes)]
    taps = [_taps(point, mode) for point in points]
    padding = call.text("padding_mode", "zeros")
    if padding == "border" and mode not in ("cubic", "bicubic"):
        taps = [_taps(_held(point, size), mode) for point, size in zip(points, sizes, strict=True)]
    if padding == "reflection" and mode not in ("cubic", "bicubic"):
        taps = [_taps(_reflected(*each, corners), mode) for each in zip(points, sizes, strict=True)]
    total = None
    for chosen in itertools.product(*taps):
        part = _sample(images, [place for place, _ in chosen], sizes, padding, corners)
        for _, weight in chosen:
            part = part if weight is None else multiply(part, expand_dims(weight, -1))
        total = part if total is None else add(total, part)
    assert total is not None
    return transpose(total, [0, axes + 1, *range(1, axes + 1)])


Taps = list[tuple[Tensor, Tensor | None]]
"""Places along an axis, as floats, and their weights; None for 1."""


def _size(x: Tensor, axis: int) -> Tensor:
    size = size_at(x, axis)
    return cast(size, x.dtype) if isinstance(size, Tensor) else constant(size, x.dtype)


def _unscaled(point: Tensor, size: Tensor, corners: bool) -> Tensor:
    """A coordinate in elements, from one between -1 and 1."""
    if corners:
        return multiply(add(point, 1.0), multiply(subtract(size, 1.0), 0.5))
    return multiply(subtract(multiply(add(point, 1.0), size), 1.0), 0.5)


def _held(point: Tensor, size: Tensor) -> Tensor:
    return minimum(maximum(point, 0.0), subtract(size, 1.0))


def _reflected(point: Tensor, size: Tensor, corners: bool) -> Tensor:
    """A coordinate, mirrored at the borders until it lies between them."""
    low = constant(0.0 if corners else -0.5, point.dtype)
    reach = subtract(size, 1.0) if corners else size
    period = maximum(multiply(reach, 2.0), 1.0)
    offset = floormod(subtract(point, low), period)
    return _held(add(minimum(offset, subtract(period, offset)), low), size)


def _taps(point: Tensor, mode: str) -> Taps:
    if mode == "nearest":
        return [(rint(point), None)]
    first = floor(point)
    share = subtract(point, first)
    if mode in ("linear", "bilinear"):
        return [(first, subtract(1.0, share)), (add(first, 1.0), share)]
    if mode not in ("cubic", "bicubic"):
        raise ValueError(f"mode is nearest, linear or cubic, not {mode!r}")
    return [(add(first, float(step)), _cubic(abs(subtract(share, float(step))))) for step in (-1, 0, 1, 2)]


def _cubic(d: Tensor, a: float = -0.75) -> Tensor:
    near = ((d * (a + 2) - (a + 3)) * d) * d + 1.0
    far = ((d * a - 5 * a) * d + 8 * a) * d - 4 * a
    return select(less_equal(d, 1.0), near, far)


def _sample(images: Tensor, places: Sequence[Tensor], sizes: Sequence[Tensor], padding: str, corners: bool) -> Tensor:
    """The elements at whole places, with all channels; those outside follow from the padding."""
    inside = None
    found = []
    for place, size in zip(places, sizes, strict=True):
        if padding == "reflection":
            place = _reflected(place, size, corners)
        fits = logical_and(greater_equal(place, 0.0), less(place, size))
        inside = fits if inside is None else logical_and(inside, fits)
        found.append(cast(_held(place, size), int64))
    shape = sizes_of(found[0])
    batch = reshape(number_range(shape[0]), [-1] + [1] * (rank_of(found[0]) - 1))
    values = gather_nd(images, stack([broadcast_to(batch, shape), *found], -1))
    if padding != "zeros":
        return values
    assert inside is not None
    return select(expand_dims(inside, -1), values, constant(0, values.dtype))


@operator("RoiAlign", since=10)
def _(call: Call, x: Tensor, regions: Tensor, batch: Tensor) -> Tensor:
    """Each region of an image as one of a fixed size, whose elements are means or extremes of sampled points."""
    ratio = call.integer("sampling_ratio", 0)
    if ratio < 1:
        raise NotImplementedError("regions need a fixed number of points for each element: sampling_ratio above 0")
    half = call.text("coordinate_transformation_mode", "half_pixel") if call.version >= 16 else "output_half_pixel"
    scale, shift = call.number("spatial_scale", 1.0), 0.5 if half == "half_pixel" else 0.0
    corners = subtract(multiply(regions, scale), shift)
    rows = _lines(corners[:, 1], corners[:, 3], call.integer("output_height", 1), ratio, shift == 0)
    columns = _lines(corners[:, 0], corners[:, 2], call.integer("output_width", 1), ratio, shift == 0)
    images = transpose(gather(x, batch), [0, 2, 3, 1])
    weighted = [_between(rows, _size(x, 2)), _between(columns, _size(x, 3))]
    parts = [_corner(images, row, column) for row in weighted[0] for column in weighted[1]]
    return _pooled(call, parts, ratio)


def _lines(first: Tensor, last: Tensor, count: int, ratio: int, least: bool) -> Tensor:
    """The coordinates of the sampled rows, or columns, of each region: [regions, count * ratio]."""
    length = maximum(subtract(last, first), 1.0) if least else subtract(last, first)
    steps = constant([(index + 0.5) / (count * ratio) for index in range(count * ratio)], first.dtype)
    return add(expand_dims(first, 1), multiply(expand_dims(length, 1), steps))


def _between(at: Tensor, size: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The two elements around each coordinate, and their weights, 0 for coordinates beyond the image."""
    inside = logical_and(greater_equal(at, -1.0), less_equal(at, size))
    point = _held(at, size)
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


def _pooled(call: Call, parts: Sequence[Tensor], ratio: int) -> Tensor:
    height, width = call.integer("output_height", 1), call.integer("output_width", 1)
    best = call.text("mode", "avg") == "max"
    values = functools.reduce(maximum if best else add, parts)
    shape = concat([sizes_of(values)[:1], [height, ratio, width, ratio], sizes_of(values)[3:]], 0)
    reduce = reduce_max if best else reduce_mean
    return transpose(reduce(reshape(values, shape), [2, 4]), [0, 3, 1, 2])
