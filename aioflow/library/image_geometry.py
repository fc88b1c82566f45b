"""Images resized, cropped, padded, turned and adjusted.

An image is [height, width, channels], or a batch of such.

Crops boxes from images and resizes them, by ops that differentiate to any order for images and boxes.
"""

from collections.abc import Sequence
from typing import Any, Final

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, constant_value, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.graph.params import renamed
from aioflow.kernels.array.arrays import reverse
from aioflow.kernels.array.arrays import transpose as permuted
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.constants import identity, stop_gradient
from aioflow.kernels.array.gather import ensure_index, gather_nd
from aioflow.kernels.array.pad import pad
from aioflow.kernels.array.ranges import range as counting
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import broadcast_to, expand_dims, shape, squeeze
from aioflow.kernels.array.slicing import slice as part_of
from aioflow.kernels.image.resize import resize_area, resize_bicubic, resize_bilinear, resize_nearest_neighbor
from aioflow.kernels.math.arithmetic import divide, maximum, minimum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import greater_equal, less_equal, logical_and
from aioflow.kernels.math.elementwise import sqrt
from aioflow.kernels.math.reduction import reduce_mean, reduce_sum
from aioflow.kernels.math.rounding import clip_by_value, floor
from aioflow.kernels.nn.patches import extract_image_patches
from aioflow.library.control import name_scope
from aioflow.library.image_color import an_image
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import FLOAT, float32, float64, int32


class ResizeMethod:
    """The interpolation methods of `resize_images`.

    Examples:
        >>> image = np.ones((4, 4, 3), np.float32)
        >>> af.image.resize_images(image, [8, 8], method=af.image.ResizeMethod.BICUBIC).shape
        TensorShape([8, 8, 3])
    """

    BILINEAR: Final = 0
    NEAREST_NEIGHBOR: Final = 1
    BICUBIC: Final = 2
    AREA: Final = 3


_RESIZE: Final = {
    ResizeMethod.BILINEAR: resize_bilinear,
    ResizeMethod.NEAREST_NEIGHBOR: resize_nearest_neighbor,
    ResizeMethod.BICUBIC: resize_bicubic,
    ResizeMethod.AREA: resize_area,
}

Size = Any
"""A Python integer or a tensor."""


def _plane(image: Tensor) -> tuple[Size, Size]:
    """Return height and width: numbers if they are known."""
    sizes = image.shape.as_list()[-3:-1] if image.shape.ndims is not None else [None, None]
    dynamic = None if None not in sizes else shape(image)
    height, width = [
        size if size is not None or dynamic is None else dynamic[axis]
        for axis, size in zip((-3, -2), sizes, strict=True)
    ]
    return height, width


# Size


@transactional
def resize_images(
    images: NumberLike,
    size: Any,
    method: int = ResizeMethod.BILINEAR,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: str | None = None,
) -> Tensor:
    """Resize images to height and width `size`; the result is float32 unless they are floating or pixels are copied.

    Args:
        images: an image, or a batch of images.
        size: two integers.
        method: one of `ResizeMethod`'s.
        align_corners: whether the centres of the corner pixels keep their positions; else their outer corners do.
        preserve_aspect_ratio: whether `size` is a limit, and the images keep their aspect ratio; sizes must be known.
        name: the name of the operation.

    Examples:
        >>> await session.run(af.image.resize([[[0.0], [1.0]]], [1, 4])[..., 0])
        array([[0. , 0.5, 1. , 1. ]], dtype=float32)
    """
    if method not in _RESIZE:
        raise ValueError(f"{method!r} is not a resize method: use one of ResizeMethod's")
    with name_scope(name, "resize", [images]) as scope:
        batch = an_image(images)
        if batch.shape.ndims is None:
            raise ValueError("the rank of images must be known to resize them")
        single = batch.shape.ndims == 3
        wanted = _kept_ratio(batch, size) if preserve_aspect_ratio else size
        resized = _RESIZE[method](
            expand_dims(batch, 0) if single else batch, cast(convert_to_tensor(wanted), int32), align_corners,
            name=None if single else scope,
        )  # fmt: skip
        return squeeze(resized, [0], name=scope) if single else resized


resize = resize_images


def _kept_ratio(images: Tensor, size: Any) -> list[int]:
    limits = constant_value(convert_to_tensor(size))
    height, width = _plane(images)
    if limits is None or isinstance(height, Tensor) or isinstance(width, Tensor):
        raise ValueError("preserve_aspect_ratio needs a size and images of known height and width")
    scale = min(int(limits[0]) / height, int(limits[1]) / width)
    return [max(1, round(height * scale)), max(1, round(width * scale))]


@transactional
def crop_to_bounding_box(
    image: NumberLike, offset_height: Size, offset_width: Size, target_height: Size, target_width: Size
) -> Tensor:
    """Crop images to that height and width, with the upper left pixel at the offset.

    ValueError if the part is not inside; InvalidArgumentError in the run if sizes are only known then.

    Examples:
        >>> af.image.crop_to_bounding_box(af.ones([4, 4, 3]), 1, 1, 2, 2).shape
        TensorShape([2, 2, 3])
    """
    tensor = an_image(image)
    for offset, target, size in zip((offset_height, offset_width), (target_height, target_width), _plane(tensor),
                                    strict=True):  # fmt: skip
        _check_part(offset, target, size)
    if tensor.shape.ndims is None:
        rows = slice(offset_height, offset_height + target_height)
        part: Tensor = tensor[..., rows, slice(offset_width, offset_width + target_width), :]
        return part
    batch = tensor.shape.ndims - 3
    begin = [*[0] * batch, _as_int32(offset_height), _as_int32(offset_width), 0]
    part = part_of(tensor, begin, [*[-1] * batch, _as_int32(target_height), _as_int32(target_width), -1])
    return _with_plane(part, (target_height, target_width))


def _as_int32(size: Size) -> Size:
    return size if isinstance(size, int) else cast(size, int32)


def _check_part(offset: Size, part: Size, whole: Size) -> None:
    """Raise ValueError if a part is empty or does not lie in the whole, as far as these are known."""
    if isinstance(offset, int) and offset < 0:
        raise ValueError(f"the offset {offset} is negative")
    if isinstance(part, int) and part < 1:
        raise ValueError(f"the target size {part} must be 1 or more")
    if all(isinstance(size, int) for size in (offset, part, whole)) and offset + part > whole:
        raise ValueError(f"{offset} + {part} is more than the size {whole}")


@transactional
def pad_to_bounding_box(
    image: NumberLike, offset_height: Size, offset_width: Size, target_height: Size, target_width: Size
) -> Tensor:
    """Pad an image with zeros to that size, with the image at the offset. ValueError if it does not fit.

    Examples:
        >>> await session.run(af.image.pad_to_bounding_box([[[7]]], 0, 1, 2, 2)[..., 0])
        array([[0, 7],
               [0, 0]], dtype=int32)
    """
    tensor = an_image(image)
    height, width = _plane(tensor)
    _check_part(offset_height, height, target_height)
    _check_part(offset_width, width, target_width)
    borders = [
        [offset_height, target_height - offset_height - height],
        [offset_width, target_width - offset_width - width],
        [0, 0],
    ]
    padded = pad(tensor, borders if tensor.shape.ndims == 3 else [[0, 0], *borders])
    return _with_plane(padded, (target_height, target_width))


@transactional
def central_crop(image: NumberLike, central_fraction: float) -> Tensor:
    """Crop the central part of the image, with that fraction of its height and width.

    Examples:
        >>> af.image.central_crop(af.ones([4, 4, 3]), 0.5).shape
        TensorShape([2, 2, 3])
    """
    if not 0 < central_fraction <= 1:
        raise ValueError(f"central_fraction must be above 0 and at most 1, not {central_fraction}")
    tensor = an_image(image)
    if central_fraction == 1:
        return tensor
    starts = [_start(size, central_fraction) for size in _plane(tensor)]
    sizes = [size - 2 * start for size, start in zip(_plane(tensor), starts, strict=True)]
    return crop_to_bounding_box(tensor, *starts, *sizes)


def _start(size: Size, fraction: float) -> Size:
    if isinstance(size, int):
        return int((size - size * fraction) / 2)
    return cast(cast(size, dtypes.float64) * ((1 - fraction) / 2), int32)


@transactional
def resize_image_with_crop_or_pad(image: NumberLike, target_height: Size, target_width: Size) -> Tensor:
    """Crop the image, or pad it with zeros, evenly on both sides, to that height and width.

    Examples:
        >>> await session.run(af.image.resize_image_with_crop_or_pad([[[7]]], 1, 3)[..., 0])
        array([[0, 7, 0]], dtype=int32)
    """
    tensor = an_image(image)
    targets, sizes = (target_height, target_width), _plane(tensor)
    spare = [size - target for size, target in zip(sizes, targets, strict=True)]
    crops = [_half(value) for value in spare]
    kept = [_least(target, size) for target, size in zip(targets, sizes, strict=True)]
    cropped = crop_to_bounding_box(tensor, *crops, *kept)
    top, left = [_half(-value) for value in spare]
    return pad_to_bounding_box(cropped, top, left, target_height, target_width)


def _with_plane(image: Tensor, sizes: Sequence[Size]) -> Tensor:
    """The image, of which the sizes that are known now are known in its shape."""
    known = [size if isinstance(size, int) else None for size in sizes]
    front = [] if image.shape.ndims == 3 else [None]
    image.set_shape([*front, *known, None] if image.shape.ndims is not None else None)
    return image


resize_with_crop_or_pad = resize_image_with_crop_or_pad


def _half(size: Size) -> Size:
    """Return half of a size, rounded down; 0 for a negative size."""
    return max(size, 0) // 2 if isinstance(size, int) else maximum(size, 0) // 2


def _least(a: Size, b: Size) -> Size:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else minimum(a, b)


# Orientation


def flip_left_right(image: NumberLike) -> Tensor:
    """Flip the image horizontally.

    Examples:
        >>> await session.run(af.image.flip_left_right([[[1], [2]], [[3], [4]]])[..., 0])
        array([[2, 1],
               [4, 3]], dtype=int32)
    """
    return reverse(an_image(image), -2)


def flip_up_down(image: NumberLike) -> Tensor:
    """Flip the image vertically.

    Examples:
        >>> await session.run(af.image.flip_up_down([[[1], [2]], [[3], [4]]])[..., 0])
        array([[3, 4],
               [1, 2]], dtype=int32)
    """
    return reverse(an_image(image), -3)


@transactional
def transpose_image(image: NumberLike, name: str | None = None) -> Tensor:
    """Exchange rows and columns.

    Examples:
        >>> await session.run(af.image.transpose([[[1], [2]]])[..., 0])
        array([[1],
               [2]], dtype=int32)
    """
    tensor = an_image(image)
    if tensor.shape.ndims is None:
        raise ValueError("the rank of the image must be known to transpose it")
    return permuted(tensor, [1, 0, 2] if tensor.shape.ndims == 3 else [0, 2, 1, 3], name=name or "transpose_image")


@transactional
def rot90(image: NumberLike, k: int = 1, name: str | None = None) -> Tensor:
    """Rotate the image counter-clockwise by `k` right angles; `k` must be known when the graph is built.

    Examples:
        >>> await session.run(af.image.rot90([[[1], [2]], [[3], [4]]])[..., 0])
        array([[2, 4],
               [1, 3]], dtype=int32)
    """
    with name_scope(name, "rot90", [image]) as scope:
        tensor, turns = an_image(image), k
        if isinstance(k, Tensor):
            known = constant_value(k)
            if known is None:
                raise TypeError(f"k must be known when the graph is built, and is not: {k!r}")
            turns = int(known)
        turned = tensor
        if turns % 4 == 2:
            turned = reverse(tensor, [-3, -2])
        elif turns % 2:
            turned = reverse(transpose_image(tensor), -3 if turns % 4 == 1 else -2)
        return identity(turned, name=scope)


# Colour


@transactional
def per_image_standardization(image: NumberLike) -> Tensor:
    """Scale each image to mean 0 and standard deviation 1; the deviation counts as 1 / sqrt(pixels) at least.

    Examples:
        >>> await session.run(af.image.per_image_standardization([[[1.0], [3.0]]])[0, :, 0])
        array([-1.,  1.], dtype=float32)
    """
    with name_scope(None, "per_image_standardization", [image]) as scope:
        tensor = an_image(image)
        floats = tensor if tensor.dtype.is_floating else cast(tensor, float32)
        off = floats - reduce_mean(floats, [-3, -2, -1], keepdims=True)
        count = reduce_sum(off * 0 + 1, [-3, -2, -1], keepdims=True)
        variance = reduce_mean(off * off, [-3, -2, -1], keepdims=True)
        return divide(off, sqrt(maximum(variance, 1 / count)), name=scope)


@transactional
def resize_image_with_pad(
    image: NumberLike,
    target_height: Size,
    target_width: Size,
    method: int = ResizeMethod.BILINEAR,
    align_corners: bool = False,
) -> Tensor:
    """Resize the image to fit into that height and width, keep its aspect ratio, and pad it with zeros evenly.

    Examples:
        >>> await session.run(af.image.resize_image_with_pad([[[1.0], [1.0]]], 2, 4)[..., 0])
        array([[1., 1., 1., 1.],
               [1., 1., 1., 1.]], dtype=float32)
    """
    with name_scope(None, "resize_image_with_pad", [image]):
        tensor = an_image(image)
        height, width = _fitting(_plane(tensor), (target_height, target_width))
        resized = resize_images(tensor, stack([height, width]), method, align_corners)
        above, left = (target_height - height) // 2, (target_width - width) // 2
        return pad_to_bounding_box(resized, above, left, target_height, target_width)


def _fitting(whole: tuple[Size, Size], wanted: tuple[Size, Size]) -> list[Size]:
    """Return the greatest height and width with the aspect ratio of the whole that fit into the target."""
    if all(isinstance(size, int) for size in (*whole, *wanted)):
        ratio = max(whole[0] / wanted[0], whole[1] / wanted[1])
        return [int(size / ratio + 1e-9) for size in whole]
    height, width = (cast(convert_to_tensor(size), float64) for size in whole)
    greatest = maximum(height / cast(wanted[0], float64), width / cast(wanted[1], float64))
    return [cast(floor(size / greatest + 1e-9), int32) for size in (height, width)]


def extract_patches(
    images: NumberLike,
    sizes: int | Sequence[int],
    strides: int | Sequence[int],
    rates: int | Sequence[int],
    padding: str,
    name: str | None = None,
) -> Tensor:
    """Return the pixels of each patch as channels: `extract_image_patches`.

    Examples:
        >>> af.image.extract_patches(af.ones([1, 4, 4, 1]), [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID").shape
        TensorShape([1, 2, 2, 4])
    """
    return extract_image_patches(images, sizes, strides, rates, padding, name)


transpose = transpose_image


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

    Examples:
        >>> images = af.reshape(af.range(16.0), [1, 4, 4, 1])
        >>> crops = af.image.crop_and_resize(images, [[0.0, 0.0, 1.0, 1.0]], [0], [2, 2])
        >>> await session.run(crops[0, :, :, 0])
        array([[ 0.,  3.],
               [12., 15.]], dtype=float32)
    """
    which = renamed("box_indices", box_ind, box_indices)
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
