"""Crops boxes from images and resizes them, by ops that differentiate to any order for images and boxes."""

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.constants import stop_gradient
from aioflow.kernels.array.gather import ensure_index, gather_nd
from aioflow.kernels.array.ranges import range as counting
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import broadcast_to, shape
from aioflow.kernels.math.arithmetic import maximum, minimum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import greater_equal, less_equal, logical_and
from aioflow.kernels.math.rounding import clip_by_value, floor
from aioflow.library.control import name_scope
from aioflow.tensors.dtypes import FLOAT, float32, int32


@transactional
def crop_and_resize(
    image: NumberLike,
    boxes: NumberLike,
    box_ind: NumberLike | None = None,
    crop_size: NumberLike | None = None,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
    name: str | None = None,
    box_indices: NumberLike | None = None,
) -> Tensor:
    """Return the parts of images in boxes, each resized to `crop_size`: [boxes, height, width, channels].

    Args:
        image: images [batch, height, width, channels]; integers become float32.
        boxes: [boxes, 4]: y1, x1, y2, x2, where 0 is the first pixel and 1 the last; y1 > y2 flips the part.
        box_ind: the number of each box's image.
        crop_size: height and width of the result.
        method: "bilinear" or "nearest".
        extrapolation_value: the value of pixels outside of the image.
        name: the name of the operation.
        box_indices: another name for `box_ind`.
    """
    which = box_indices if box_ind is None else box_ind
    if which is None or crop_size is None:
        raise ValueError("crop_and_resize needs box_ind and crop_size")
    if method not in ("bilinear", "nearest"):
        raise ValueError(f"method must be 'bilinear' or 'nearest', not {method!r}")
    with name_scope(name, "crop_and_resize", [image, boxes]) as scope:
        given = convert_to_tensor(image)
        images = given if given.dtype in FLOAT else cast(given, float32)
        corners = cast(convert_to_tensor(boxes), images.dtype)
        if not corners.shape.is_compatible_with([None, 4]):
            raise ValueError(f"boxes have four numbers each, their shape is {corners.shape}")
        sizes = cast(shape(images)[1:3], images.dtype)
        wanted = convert_to_tensor(crop_size, preferred_dtype=int32)
        along = [_positions(corners[:, i], corners[:, i + 2], sizes[i] - 1, wanted[i]) for i in (0, 1)]
        inside = [logical_and(greater_equal(at, 0.0), less_equal(at, sizes[i] - 1)) for i, at in enumerate(along)]
        rows, columns = (clip_by_value(at, 0.0, sizes[i] - 1) for i, at in enumerate(along))
        numbers = ensure_index(convert_to_tensor(which, preferred_dtype=int32), shape(images)[0])
        pixels = _sample(images, numbers, rows, columns, method)
        seen = logical_and(inside[0][:, :, None, None], inside[1][:, None, :, None])
        return where(seen, pixels, convert_to_tensor(extrapolation_value, images.dtype), name=scope)


def _positions(first: Tensor, last: Tensor, reach: Tensor, count: Tensor) -> Tensor:
    """Return the positions of the pixels of each box along one axis: [boxes, count]; the middle for a single one."""
    steps = cast(counting(count), first.dtype) / cast(maximum(count - 1, 1), first.dtype)
    middle = cast(less_equal(count, 1), first.dtype) * 0.5
    part = steps + middle
    return (first[:, None] + (last - first)[:, None] * part) * reach


def _sample(images: Tensor, which: Tensor, rows: Tensor, columns: Tensor, method: str) -> Tensor:
    """Return the pixels at these rows and columns of each box's image."""
    if method == "nearest":
        return _pixels(images, which, floor(rows + 0.5), floor(columns + 0.5))
    above, left = stop_gradient(floor(rows)), stop_gradient(floor(columns))
    limits = cast(shape(images)[1:3] - 1, images.dtype)
    below, right = minimum(above + 1, limits[0]), minimum(left + 1, limits[1])
    down, across = (rows - above)[:, :, None, None], (columns - left)[:, None, :, None]
    upper = _between(_pixels(images, which, above, left), _pixels(images, which, above, right), across)
    lower = _between(_pixels(images, which, below, left), _pixels(images, which, below, right), across)
    return _between(upper, lower, down)


def _between(a: Tensor, b: Tensor, share: Tensor) -> Tensor:
    return a + (b - a) * share


def _pixels(images: Tensor, which: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return the pixel at each pair of row and column of each box's image."""
    number, row, column = cast(which, int32)[:, None, None], cast(rows, int32), cast(columns, int32)
    places = [number, row[:, :, None], column[:, None, :]]
    whole = shape(places[0] + places[1] + places[2])
    return gather_nd(images, stack([broadcast_to(values, whole) for values in places], -1))
