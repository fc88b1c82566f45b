"""Images resized, cropped, padded, turned and adjusted: `af.image`.

An image is [height, width, channels], or a batch of such; the ops come from kernels.
"""

from typing import Any, Final

from aioflow.graph.building import transactional
from aioflow.graph.convert import TensorLike, constant_value, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import reverse
from aioflow.kernels.array.arrays import transpose as permuted
from aioflow.kernels.array.concat import concat, stack
from aioflow.kernels.array.constants import identity
from aioflow.kernels.array.pad import pad
from aioflow.kernels.array.shapes import expand_dims, shape, squeeze
from aioflow.kernels.array.slicing import slice as part_of
from aioflow.kernels.image.decode_image import (
    decode_and_crop_jpeg,
    decode_bmp,
    decode_gif,
    decode_jpeg,
    decode_png,
    encode_jpeg,
    encode_png,
    extract_jpeg_shape,
    is_jpeg,
)
from aioflow.kernels.image.resize import resize_area, resize_bicubic, resize_bilinear, resize_nearest_neighbor
from aioflow.kernels.math.arithmetic import divide, maximum, minimum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.elementwise import sqrt
from aioflow.kernels.math.reduction import reduce_mean, reduce_sum
from aioflow.kernels.math.rounding import floor
from aioflow.kernels.nn.patches import extract_image_patches
from aioflow.library.control import name_scope
from aioflow.library.crops import crop_and_resize
from aioflow.library.decoding import decode_image
from aioflow.library.image_basics import adjust_brightness, adjust_contrast, an_image, as_floats, convert_image_dtype
from aioflow.library.image_color import (
    adjust_gamma,
    adjust_hue,
    adjust_saturation,
    hsv_to_rgb,
    rgb_to_hsv,
    rgb_to_yiq,
    rgb_to_yuv,
    yiq_to_rgb,
    yuv_to_rgb,
)
from aioflow.library.image_measures import image_gradients, psnr, sobel_edges, total_variation
from aioflow.library.image_random import (
    random_brightness,
    random_contrast,
    random_flip_left_right,
    random_flip_up_down,
    random_hue,
    random_saturation,
)
from aioflow.library.random import random_crop
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import float32, float64, int32


class ResizeMethod:
    """How `resize_images` makes new pixels of old ones."""

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
    """Height and width: numbers where they are known."""
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
    images: TensorLike,
    size: Any,
    method: int = ResizeMethod.BILINEAR,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: str | None = None,
) -> Tensor:
    """Images of height and width `size`; float32 unless they are floating or pixels are only copied.

    Args:
        images: an image, or a batch of images.
        size: two integers.
        method: one of `ResizeMethod`'s.
        align_corners: whether the centres of the corner pixels stay where they are, else their outer corners.
        preserve_aspect_ratio: whether `size` is a limit, and the images keep the shape they have; sizes must be known.
        name: the name of the operation.
    """
    if method not in _RESIZE:
        raise ValueError(f"{method!r} is no resize method: use one of ResizeMethod's")
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
    image: TensorLike, offset_height: Size, offset_width: Size, target_height: Size, target_width: Size
) -> Tensor:
    """The part of that height and width whose upper left pixel is at the offset.

    ValueError if it sticks out; if that shows when it runs, and the rank of the image is known, InvalidArgumentError.
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
    return part_of(tensor, begin, [*[-1] * batch, _as_int32(target_height), _as_int32(target_width), -1])


def _as_int32(size: Size) -> Size:
    return size if isinstance(size, int) else cast(size, int32)


def _check_part(offset: Size, part: Size, whole: Size) -> None:
    """ValueError if a part is empty or does not lie in the whole, as far as these are known."""
    if isinstance(offset, int) and offset < 0:
        raise ValueError(f"the offset {offset} is negative")
    if isinstance(part, int) and part < 1:
        raise ValueError(f"the target size {part} must be 1 or more")
    if all(isinstance(size, int) for size in (offset, part, whole)) and offset + part > whole:
        raise ValueError(f"{offset} + {part} is more than the size {whole}")


@transactional
def pad_to_bounding_box(
    image: TensorLike, offset_height: Size, offset_width: Size, target_height: Size, target_width: Size
) -> Tensor:
    """An image of that size with this one at the offset, and zeros elsewhere. ValueError if it sticks out."""
    tensor = an_image(image)
    height, width = _plane(tensor)
    _check_part(offset_height, height, target_height)
    _check_part(offset_width, width, target_width)
    borders = [
        [offset_height, target_height - offset_height - height],
        [offset_width, target_width - offset_width - width],
        [0, 0],
    ]
    return pad(tensor, borders if tensor.shape.ndims == 3 else [[0, 0], *borders])


@transactional
def central_crop(image: TensorLike, central_fraction: float) -> Tensor:
    """The middle of the image, that fraction of its height and of its width."""
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
def resize_image_with_crop_or_pad(image: TensorLike, target_height: Size, target_width: Size) -> Tensor:
    """The image cropped or padded with zeros, evenly on both sides, to that height and width."""
    tensor = an_image(image)
    targets, sizes = (target_height, target_width), _plane(tensor)
    spare = [size - target for size, target in zip(sizes, targets, strict=True)]
    crops = [_half(value) for value in spare]
    kept = [_least(target, size) for target, size in zip(targets, sizes, strict=True)]
    cropped = crop_to_bounding_box(tensor, *crops, *kept)
    top, left = [_half(-value) for value in spare]
    return pad_to_bounding_box(cropped, top, left, target_height, target_width)


resize_with_crop_or_pad = resize_image_with_crop_or_pad


def _half(size: Size) -> Size:
    """Half of a size, rounded down; 0 for a negative size."""
    return max(size, 0) // 2 if isinstance(size, int) else maximum(size, 0) // 2


def _least(a: Size, b: Size) -> Size:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else minimum(a, b)


# Orientation


def flip_left_right(image: TensorLike) -> Tensor:
    """Each row of pixels in the opposite order."""
    return reverse(an_image(image), -2)


def flip_up_down(image: TensorLike) -> Tensor:
    """The rows of pixels in the opposite order."""
    return reverse(an_image(image), -3)


@transactional
def transpose_image(image: TensorLike) -> Tensor:
    """Rows as columns, and columns as rows."""
    tensor = an_image(image)
    if tensor.shape.ndims is None:
        raise ValueError("the rank of the image must be known to transpose it")
    return permuted(tensor, [1, 0, 2] if tensor.shape.ndims == 3 else [0, 2, 1, 3])


@transactional
def rot90(image: TensorLike, k: int = 1, name: str | None = None) -> Tensor:
    """The image turned by `k` right angles to the left; `k` is known when the graph is built."""
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
def per_image_standardization(image: TensorLike) -> Tensor:
    """Each image with mean 0 and standard deviation 1; of an even one, what differs is divided by 1 / sqrt(pixels)."""
    with name_scope(None, "per_image_standardization", [image]) as scope:
        tensor = an_image(image)
        floats = tensor if tensor.dtype.is_floating else cast(tensor, float32)
        off = floats - reduce_mean(floats, [-3, -2, -1], keepdims=True)
        count = reduce_sum(off * 0 + 1, [-3, -2, -1], keepdims=True)
        variance = reduce_mean(off * off, [-3, -2, -1], keepdims=True)
        return divide(off, sqrt(maximum(variance, 1 / count)), name=scope)


@transactional
def rgb_to_grayscale(images: TensorLike, name: str | None = None) -> Tensor:
    """The brightness of each pixel: 0.2989 red, 0.5870 green and 0.1140 blue, as one channel."""
    with name_scope(name, "rgb_to_grayscale", [images]):
        tensor = an_image(images)
        floats = as_floats(tensor)
        weights = convert_to_tensor([0.2989, 0.5870, 0.1140], floats.dtype)
        return convert_image_dtype(reduce_sum(floats * weights, -1, keepdims=True), tensor.dtype)


def grayscale_to_rgb(images: TensorLike, name: str | None = None) -> Tensor:
    """The one channel of the images three times."""
    return concat([convert_to_tensor(images)] * 3, -1, name=name or "grayscale_to_rgb")


@transactional
def resize_image_with_pad(
    image: TensorLike,
    target_height: Size,
    target_width: Size,
    method: int = ResizeMethod.BILINEAR,
    align_corners: bool = False,
) -> Tensor:
    """The image as large as fits into that height and width with its sides in proportion, zeros evenly around it."""
    with name_scope(None, "resize_image_with_pad", [image]):
        tensor = an_image(image)
        height, width = _fitting(_plane(tensor), (target_height, target_width))
        resized = resize_images(tensor, stack([height, width]), method, align_corners)
        above, left = (target_height - height) // 2, (target_width - width) // 2
        return pad_to_bounding_box(resized, above, left, target_height, target_width)


def _fitting(whole: tuple[Size, Size], wanted: tuple[Size, Size]) -> list[Size]:
    """The greatest height and width, in the proportion of those of the whole, that fit into those that are wanted."""
    if all(isinstance(size, int) for size in (*whole, *wanted)):
        ratio = max(whole[0] / wanted[0], whole[1] / wanted[1])
        return [int(size / ratio + 1e-9) for size in whole]
    height, width = (cast(convert_to_tensor(size), float64) for size in whole)
    greatest = maximum(height / cast(wanted[0], float64), width / cast(wanted[1], float64))
    return [cast(floor(size / greatest + 1e-9), int32) for size in (height, width)]


def extract_patches(
    images: TensorLike, sizes: Any, strides: Any, rates: Any, padding: str, name: str | None = None
) -> Tensor:
    """The pixels of each patch as the channels of one: `extract_image_patches`."""
    return extract_image_patches(images, sizes, strides, rates, padding, name)


transpose = transpose_image

__all__ = [
    "ResizeMethod", "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue", "adjust_saturation",
    "central_crop", "convert_image_dtype", "crop_and_resize", "crop_to_bounding_box", "decode_and_crop_jpeg",
    "decode_bmp", "decode_gif", "decode_image", "decode_jpeg", "decode_png", "encode_jpeg", "encode_png",
    "extract_image_patches", "extract_jpeg_shape", "extract_patches", "flip_left_right", "flip_up_down",
    "grayscale_to_rgb", "hsv_to_rgb", "image_gradients", "is_jpeg",
    "pad_to_bounding_box", "per_image_standardization", "psnr", "random_brightness", "random_contrast", "random_crop",
    "random_flip_left_right", "random_flip_up_down", "random_hue", "random_saturation", "resize", "resize_area",
    "resize_bicubic", "resize_bilinear", "resize_image_with_crop_or_pad", "resize_image_with_pad", "resize_images",
    "resize_nearest_neighbor", "resize_with_crop_or_pad", "rgb_to_grayscale", "rgb_to_hsv", "rgb_to_yiq", "rgb_to_yuv",
    "rot90", "sobel_edges", "total_variation", "transpose", "transpose_image", "yiq_to_rgb", "yuv_to_rgb",
]  # fmt: skip
