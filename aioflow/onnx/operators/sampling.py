"""Images sampled at a grid of points, and such grids."""

import functools
import itertools
from collections.abc import Sequence

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.constants import constant, ones_like
from aioflow.kernels.array.gather import gather_nd
from aioflow.kernels.array.ranges import range as number_range
from aioflow.kernels.array.select import select
from aioflow.kernels.array.shapes import broadcast_to, expand_dims, reshape
from aioflow.kernels.linalg.products import tensordot
from aioflow.kernels.math.arithmetic import add, divide, floormod, maximum, minimum, multiply, subtract
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import greater, greater_equal, less, less_equal, logical_and
from aioflow.kernels.math.elementwise import abs
from aioflow.kernels.math.rounding import floor, rint
from aioflow.onnx.call import Call
from aioflow.onnx.operators.size_limits import after_size_check, check_known_sizes
from aioflow.onnx.operators.values import known_ints, length_of, rank_of, size_at, sizes_of
from aioflow.onnx.registry import operator
from aioflow.tensors.dtypes import DType, int64

Taps = list[tuple[Tensor, Tensor | None]]
"""Places along an axis, as floats, and their weights; None for 1."""


@operator("GridSample", since=16)
def _(call: Call, x: Tensor, grid: Tensor) -> Tensor:
    """`x` at the points of a grid, whose numbers from -1 to 1 go from one border of the images to the other."""
    axes, mode = rank_of(x) - 2, call.text("mode", "linear")
    corners = call.flag("align_corners")
    images = transpose(x, [0, *range(2, axes + 2), 1])
    sizes = [size_of(x, axis + 2) for axis in range(axes)]
    points = [_unscaled(grid[..., axes - 1 - axis], size, corners) for axis, size in enumerate(sizes)]
    taps = [_taps(point, mode) for point in points]
    padding = call.text("padding_mode", "zeros")
    if padding == "border" and mode not in ("cubic", "bicubic"):
        taps = [_taps(held(point, size), mode) for point, size in zip(points, sizes, strict=True)]
    if padding == "reflection" and mode not in ("cubic", "bicubic"):
        taps = [_taps(_reflected(*each, corners), mode) for each in zip(points, sizes, strict=True)]
    total = _weighted(images, taps, sizes, padding, corners)
    return transpose(total, [0, axes + 1, *range(1, axes + 1)])


def linear_sample(images: Tensor, at: Sequence[Tensor], sizes: Sequence[Tensor]) -> Tensor:
    """Images, channels last, at points between their elements; beyond their borders they are 0."""
    return _weighted(images, [_taps(point, "linear") for point in at], sizes, "zeros", False)


def _weighted(images: Tensor, taps: Sequence[Taps], sizes: Sequence[Tensor], padding: str, corners: bool) -> Tensor:
    """The sum of the elements around each point, by their weights along all axes."""
    parts = []
    for chosen in itertools.product(*taps):
        part = _sample(images, [place for place, _ in chosen], sizes, padding, corners)
        for _, weight in chosen:
            part = part if weight is None else multiply(part, expand_dims(weight, -1))
        parts.append(part)
    return functools.reduce(add, parts)


def size_of(x: Tensor, axis: int) -> Tensor:
    """The size of an axis, in the dtype of `x`."""
    size = size_at(x, axis)
    return cast(size, x.dtype) if isinstance(size, Tensor) else constant(size, x.dtype)


def _unscaled(point: Tensor, size: Tensor, corners: bool) -> Tensor:
    """A coordinate in elements, from one between -1 and 1."""
    if corners:
        return multiply(add(point, 1.0), multiply(subtract(size, 1.0), 0.5))
    return multiply(subtract(multiply(add(point, 1.0), size), 1.0), 0.5)


def held(point: Tensor, size: Tensor) -> Tensor:
    """A coordinate, held between the first and the last element; NaN becomes that of the first."""
    return minimum(select(greater(point, 0.0), point, constant(0, point.dtype)), subtract(size, 1.0))


def _reflected(point: Tensor, size: Tensor, corners: bool) -> Tensor:
    """A coordinate, mirrored at the borders until it lies between them."""
    low = constant(0.0 if corners else -0.5, point.dtype)
    reach = subtract(size, 1.0) if corners else size
    period = maximum(multiply(reach, 2.0), 1.0)
    offset = floormod(subtract(point, low), period)
    return held(add(minimum(offset, subtract(period, offset)), low), size)


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
        found.append(cast(held(place, size), int64))
    shape = sizes_of(found[0])
    batch = reshape(number_range(shape[0]), [-1] + [1] * (rank_of(found[0]) - 1))
    values = gather_nd(images, stack([broadcast_to(batch, shape), *found], -1))
    if padding != "zeros":
        return values
    assert inside is not None
    return select(expand_dims(inside, -1), values, constant(0, values.dtype))


@operator("AffineGrid", since=20)
def _(call: Call, theta: Tensor, size: Tensor) -> Tensor:
    """The points to sample images of that size at, moved by a matrix for each image."""
    axes, known = length_of(size) - 2, known_ints(size)
    sizes = cast(size, int64)[2:]
    if known is None:
        sizes = after_size_check(sizes, sizes, theta.dtype)
    else:
        check_known_sizes(known[2:], theta.dtype)
    lines = [_line(sizes[axis], theta.dtype, call.flag("align_corners")) for axis in range(axes)]
    whole = [
        broadcast_to(reshape(line, [-1 if each == axis else 1 for each in range(axes)]), sizes)
        for axis, line in enumerate(lines)
    ]
    points = stack([*reversed(whole), ones_like(whole[0])], axes)
    return transpose(tensordot(points, theta, [[axes], [2]]), [axes, *range(axes), axes + 1])


def _line(count: Tensor, dtype: DType, corners: bool) -> Tensor:
    """Coordinates from -1 to 1 along an axis: of the centres of its elements, or with the outermost at the ends."""
    places, size = cast(number_range(count), dtype), cast(count, dtype)
    if corners:
        return subtract(divide(multiply(places, 2.0), maximum(subtract(size, 1.0), 1.0)), 1.0)
    return subtract(divide(add(multiply(places, 2.0), 1.0), size), 1.0)
