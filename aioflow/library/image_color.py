"""Colours of images: conversions of colour spaces, hue, saturation and gamma.

The common part of functions of images: ranks, dtypes and brightness.

Measures of images: changes from pixel to pixel, and the distance of two images.

Random changes of images, to augment training data.
"""

import math
from typing import Any, Final

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import reverse
from aioflow.kernels.array.concat import concat, stack, unstack
from aioflow.kernels.array.constants import identity, zeros_like
from aioflow.kernels.array.pad import pad
from aioflow.kernels.array.select import select, where
from aioflow.kernels.array.shapes import reshape, shape
from aioflow.kernels.linalg.products import tensordot
from aioflow.kernels.math.arithmetic import add, floormod, multiply, squared_difference, subtract
from aioflow.kernels.math.casting import cast, saturate_cast
from aioflow.kernels.math.comparison import equal, greater, less
from aioflow.kernels.math.elementwise import abs as absolute
from aioflow.kernels.math.elementwise import log
from aioflow.kernels.math.no_nan import div_no_nan
from aioflow.kernels.math.random import random_uniform
from aioflow.kernels.math.reduction import reduce_max, reduce_mean, reduce_min, reduce_sum
from aioflow.kernels.math.rounding import clip_by_value
from aioflow.kernels.nn.depthwise import depthwise_conv2d_native
from aioflow.library.control import name_scope
from aioflow.tensors.dtypes import FLOAT, DType, DTypeLike, Spec, as_dtype, float32

_RGB_TO_YIQ: Final = ((0.299, 0.59590059, 0.2115), (0.587, -0.27455667, -0.52273617), (0.114, -0.32134392, 0.31119955))
_YIQ_TO_RGB: Final = ((1, 1, 1), (0.95598634, -0.27201283, -1.10674021), (0.6208248, -0.64720424, 1.70423049))
_RGB_TO_YUV: Final = (
    (0.299, -0.14714119, 0.61497538),
    (0.587, -0.28886916, -0.51496512),
    (0.114, 0.43601035, -0.10001026),
)
_YUV_TO_RGB: Final = ((1, 1, 1), (0, -0.394642334, 2.03206185), (1.13988303, -0.58062185, 0))


def _colors(images: NumberLike) -> Tensor:
    """Return floating images whose last axis has three channels. ValueError or TypeError for others."""
    tensor = convert_to_tensor(images)
    Spec(tensor.dtype).only(FLOAT)
    tensor.shape.with_rank_at_least(1)[-1:].merge_with([3])
    return tensor


def _transform_colors(images: NumberLike, matrix: Any) -> Tensor:
    tensor = _colors(images)
    return tensordot(tensor, convert_to_tensor(np.array(matrix), tensor.dtype), [[-1], [0]])


@transactional
def rgb_to_yiq(images: NumberLike) -> Tensor:
    """Convert floating RGB images to YIQ, the colour space of NTSC.

    Examples:
        >>> af.image.rgb_to_yiq([[[1.0, 1.0, 1.0]]]).shape
        TensorShape([1, 1, 3])
    """
    return _transform_colors(images, _RGB_TO_YIQ)


@transactional
def yiq_to_rgb(images: NumberLike) -> Tensor:
    """Convert floating YIQ images to RGB.

    Examples:
        >>> await session.run(af.image.yiq_to_rgb([[[0.5, 0.0, 0.0]]]))
        array([[[0.5, 0.5, 0.5]]], dtype=float32)
    """
    return _transform_colors(images, _YIQ_TO_RGB)


@transactional
def rgb_to_yuv(images: NumberLike) -> Tensor:
    """Convert floating RGB images to YUV, the colour space of PAL.

    Examples:
        >>> af.image.rgb_to_yuv([[[1.0, 1.0, 1.0]]]).shape
        TensorShape([1, 1, 3])
    """
    return _transform_colors(images, _RGB_TO_YUV)


@transactional
def yuv_to_rgb(images: NumberLike) -> Tensor:
    """Convert floating YUV images to RGB.

    Examples:
        >>> await session.run(af.image.yuv_to_rgb([[[0.5, 0.0, 0.0]]]))
        array([[[0.5, 0.5, 0.5]]], dtype=float32)
    """
    return _transform_colors(images, _YUV_TO_RGB)


@transactional
def rgb_to_hsv(images: NumberLike, name: str | None = None) -> Tensor:
    """Convert floating RGB images to hue, saturation and value, all from 0 to 1 if red, green and blue are.

    Examples:
        >>> await session.run(af.image.rgb_to_hsv([[[1.0, 0.0, 0.0]]]))
        array([[[0., 1., 1.]]], dtype=float32)
    """
    with name_scope(name, "rgb_to_hsv", [images]) as scope:
        tensor = _colors(images)
        red, green, blue = unstack(tensor, 3, -1)
        value = reduce_max(tensor, -1)
        spread = value - reduce_min(tensor, -1)
        sixths = where(
            equal(value, red),
            div_no_nan(green - blue, spread),
            where(equal(value, green), div_no_nan(blue - red, spread) + 2, div_no_nan(red - green, spread) + 4),
        )
        hue = where(greater(spread, zeros_like(spread)), sixths / 6, zeros_like(spread))
        turned = where(less(hue, zeros_like(hue)), hue + 1, hue)
        return stack([turned, div_no_nan(spread, value), value], -1, name=scope)


@transactional
def hsv_to_rgb(images: NumberLike, name: str | None = None) -> Tensor:
    """Convert floating HSV images to RGB.

    Examples:
        >>> await session.run(af.image.hsv_to_rgb([[[0.0, 1.0, 1.0]]]))
        array([[[1., 0., 0.]]], dtype=float32)
    """
    with name_scope(name, "hsv_to_rgb", [images]) as scope:
        hue, saturation, value = unstack(_colors(images), 3, -1)
        sixths = hue * 6
        shares = absolute(sixths - 3) - 1, 2 - absolute(sixths - 2), 2 - absolute(sixths - 4)
        return stack([(1 - saturation + saturation * _unit(share)) * value for share in shares], -1, name=scope)


def _unit(x: Tensor) -> Tensor:
    return clip_by_value(x, 0.0, 1.0)


@transactional
def adjust_hue(image: NumberLike, delta: NumberLike, name: str | None = None) -> Tensor:
    """Rotate the hues of RGB images by `delta`, of which 1 is a full turn.

    Examples:
        >>> await session.run(af.image.adjust_hue([[[1.0, 0.0, 0.0]]], 0.5))
        array([[[0., 1., 1.]]], dtype=float32)
    """
    with name_scope(name, "adjust_hue", [image]):
        tensor = an_image(image)
        hue, saturation, value = unstack(rgb_to_hsv(as_floats(tensor)), 3, -1)
        turned = floormod(hue + cast(convert_to_tensor(delta), hue.dtype), 1.0)
        return convert_image_dtype(hsv_to_rgb(stack([turned, saturation, value], -1)), tensor.dtype, saturate=True)


@transactional
def adjust_saturation(image: NumberLike, saturation_factor: NumberLike, name: str | None = None) -> Tensor:
    """Multiply the saturation of RGB images by `saturation_factor`, limited to 1.

    Examples:
        >>> await session.run(af.image.adjust_saturation([[[1.0, 0.5, 0.5]]], 0.0))
        array([[[1., 1., 1.]]], dtype=float32)
    """
    with name_scope(name, "adjust_saturation", [image]):
        tensor = an_image(image)
        hue, saturation, value = unstack(rgb_to_hsv(as_floats(tensor)), 3, -1)
        stronger = _unit(saturation * cast(convert_to_tensor(saturation_factor), hue.dtype))
        return convert_image_dtype(hsv_to_rgb(stack([hue, stronger, value], -1)), tensor.dtype, saturate=True)


@transactional
def adjust_gamma(image: NumberLike, gamma: NumberLike = 1, gain: NumberLike = 1) -> Tensor:
    """Return gain * image^gamma for pixels scaled to the range from 0 to 1. ValueError for a negative gamma.

    Examples:
        >>> await session.run(af.image.adjust_gamma([[[0.25]]], 0.5))
        array([[[0.5]]], dtype=float32)
    """
    if isinstance(gamma, (int, float)) and gamma < 0:
        raise ValueError(f"gamma cannot be negative: {gamma}")
    with name_scope(None, "adjust_gamma", [image, gamma, gain]):
        tensor = convert_to_tensor(image)
        floats = as_floats(tensor)
        power = floats ** cast(convert_to_tensor(gamma), floats.dtype)
        changed = multiply(power, cast(convert_to_tensor(gain), floats.dtype))
        return convert_image_dtype(changed, tensor.dtype, saturate=True)


def an_image(value: NumberLike) -> Tensor:
    """Return an image or a batch of images. ValueError for another rank."""
    tensor = convert_to_tensor(value)
    if tensor.shape.ndims not in (None, 3, 4):
        raise ValueError(f"an image has rank 3, a batch of images 4; the shape is {tensor.shape}")
    return tensor


@transactional
def convert_image_dtype(image: NumberLike, dtype: DTypeLike, saturate: bool = False, name: str | None = None) -> Tensor:
    """Return the image in another dtype, scaled: floating pixels range from 0 to 1, integer ones from 0 to the maximum.

    With `saturate`, values beyond the limits of an integer dtype become the nearest limit.

    Examples:
        >>> await session.run(af.image.convert_image_dtype(af.constant([0, 255], af.uint8), af.float32))
        array([0., 1.], dtype=float32)
    """
    tensor, wanted = convert_to_tensor(image), as_dtype(dtype)
    if wanted is tensor.dtype:
        return tensor
    with name_scope(name, "convert_image", [tensor]) as scope:
        if tensor.dtype.is_integer and wanted.is_integer:
            return _between_integers(tensor, wanted, saturate, scope)
        if tensor.dtype.is_floating and wanted.is_floating:
            return cast(tensor, wanted, scope)
        if tensor.dtype.is_integer:
            return multiply(cast(tensor, wanted), wanted.np.type(1 / tensor.dtype.max), name=scope)
        scaled = tensor * (int(wanted.max) + 0.5)
        return saturate_cast(scaled, wanted, scope) if saturate else cast(scaled, wanted, scope)


def _between_integers(image: Tensor, wanted: DType, saturate: bool, name: str) -> Tensor:
    """Scale by whole factors, up or down: limits of integers are a power of 2 less 1."""
    change = saturate_cast if saturate else cast
    if image.dtype.max > wanted.max:
        factor = (int(image.dtype.max) + 1) // (int(wanted.max) + 1)
        return change(image // factor, wanted, name)
    factor = (int(wanted.max) + 1) // (int(image.dtype.max) + 1)
    return multiply(change(image, wanted), factor, name=name)


def as_floats(image: Tensor) -> Tensor:
    """Return the image itself if it is floating, else as float32 from 0 to 1."""
    return image if image.dtype.is_floating else convert_image_dtype(image, float32)


@transactional
def adjust_brightness(image: NumberLike, delta: NumberLike) -> Tensor:
    """Add `delta` to all pixels, as a part of the range from 0 to 1; integers do not wrap around.

    Examples:
        >>> await session.run(af.image.adjust_brightness([[[0.2]]], 0.5))
        array([[[0.7]]], dtype=float32)
    """
    with name_scope(None, "adjust_brightness", [image, delta]):
        tensor = convert_to_tensor(image)
        floats = as_floats(tensor)
        brighter = add(floats, cast(convert_to_tensor(delta), floats.dtype))
        return convert_image_dtype(brighter, tensor.dtype, saturate=True)


@transactional
def adjust_contrast(images: NumberLike, contrast_factor: NumberLike) -> Tensor:
    """Scale the distance of each pixel from its channel's mean by `contrast_factor`; integers do not wrap around.

    Examples:
        >>> await session.run(af.image.adjust_contrast([[[0.0], [1.0]]], 0.5)[0, :, 0])
        array([0.25, 0.75], dtype=float32)
    """
    with name_scope(None, "adjust_contrast", [images, contrast_factor]):
        tensor = an_image(images)
        floats = as_floats(tensor)
        mean = reduce_mean(floats, [-3, -2], keepdims=True)
        changed = (floats - mean) * cast(convert_to_tensor(contrast_factor), floats.dtype) + mean
        return convert_image_dtype(changed, tensor.dtype, saturate=True)


_ACROSS = [[-1, -2, -1], [0, 0, 0], [1, 2, 1]]


@transactional
def total_variation(images: NumberLike, name: str | None = None) -> Tensor:
    """Return for each image the sum of absolute differences of neighbouring pixels: a measure of its noise.

    Examples:
        >>> await session.run(af.image.total_variation([[[1.0], [3.0]]]))
        np.float32(2.0)
    """
    with name_scope(name, "total_variation", [images]) as scope:
        tensor = an_image(images)
        down = absolute(tensor[..., 1:, :, :] - tensor[..., :-1, :, :])
        right = absolute(tensor[..., :, 1:, :] - tensor[..., :, :-1, :])
        return add(reduce_sum(down, [-3, -2, -1]), reduce_sum(right, [-3, -2, -1]), name=scope)


@transactional
def image_gradients(image: NumberLike) -> tuple[Tensor, Tensor]:
    """Return (dy, dx): the difference to the next row or column of pixels; 0 for the last. ValueError unless rank 4.

    Examples:
        >>> image = np.arange(4.0, dtype=np.float32).reshape(1, 2, 2, 1)
        >>> dy, dx = af.image.image_gradients(image)
        >>> await session.run([dy[0, :, :, 0], dx[0, :, :, 0]])
        [array([[2., 2.],
               [0., 0.]], dtype=float32), array([[1., 0.],
               [1., 0.]], dtype=float32)]
    """
    tensor = convert_to_tensor(image)
    tensor.shape.with_rank(4)
    dy = tensor[:, 1:] - tensor[:, :-1]
    dx = tensor[:, :, 1:] - tensor[:, :, :-1]
    return concat([dy, zeros_like(tensor[:, :1])], 1), concat([dx, zeros_like(tensor[:, :, :1])], 2)


@transactional
def sobel_edges(image: NumberLike) -> Tensor:
    """Return Sobel's gradients of floating images [batch, height, width, channels]: (dy, dx) along a new last axis.

    Examples:
        >>> af.image.sobel_edges(af.ones([1, 4, 4, 1])).shape
        TensorShape([1, 4, 4, 1, 2])
    """
    tensor = convert_to_tensor(image)
    channels = tensor.shape.with_rank(4).as_list()[3]
    if channels is None:
        raise ValueError(f"the number of channels must be known, the shape is {tensor.shape}")
    both = np.stack([np.array(_ACROSS), np.array(_ACROSS).T], -1)[:, :, None]
    window = convert_to_tensor(np.repeat(both, channels, 2), tensor.dtype)
    padded = pad(tensor, [[0, 0], [1, 1], [1, 1], [0, 0]], "REFLECT")
    edges = depthwise_conv2d_native(padded, window, [1, 1, 1, 1], "VALID")
    return reshape(edges, concat([shape(tensor), [2]], 0))


@transactional
def psnr(a: NumberLike, b: NumberLike, max_val: NumberLike, name: str | None = None) -> Tensor:
    """Return the ratio of the greatest brightness, `max_val`, to the mean distance of two images, in decibels.

    Examples:
        >>> await session.run(af.image.psnr([[[0.0]]], [[[0.1]]], max_val=1.0))
        np.float32(20.0)
    """
    with name_scope(name, "psnr", [a, b]) as scope:
        first, second = convert_to_tensor(a), convert_to_tensor(b)
        top = convert_image_dtype(convert_to_tensor(max_val, first.dtype), float32)
        one, other = convert_image_dtype(first, float32), convert_image_dtype(second, float32)
        distance = reduce_mean(squared_difference(one, other), [-3, -2, -1])
        return subtract(20 / math.log(10) * log(top), 10 / math.log(10) * log(distance), name=scope)


def _flip_randomly(image: NumberLike, axis: int, seed: int | None, name: str) -> Tensor:
    """Flip each image along an axis, counted from the end, with probability 1/2."""
    with name_scope(None, name, [image]) as scope:
        tensor = an_image(image)
        rank = tensor.shape.ndims
        if rank is None:
            raise ValueError("the rank of the images must be known")
        sizes: Any = [] if rank == 3 else stack([shape(tensor)[0], 1, 1, 1])
        turned = less(random_uniform(sizes, dtype=float32, seed=seed), 0.5)
        return select(turned, reverse(tensor, [rank + axis]), tensor, name=scope)


@transactional
def random_flip_left_right(image: NumberLike, seed: int | None = None) -> Tensor:
    """Flip each image of a batch, or the one, horizontally with probability 1/2.

    Examples:
        >>> af.image.random_flip_left_right(af.ones([2, 2, 3])).shape
        TensorShape([2, 2, 3])
    """
    return _flip_randomly(image, -2, seed, "random_flip_left_right")


@transactional
def random_flip_up_down(image: NumberLike, seed: int | None = None) -> Tensor:
    """Flip each image of a batch, or the one, vertically with probability 1/2.

    Examples:
        >>> af.image.random_flip_up_down(af.ones([2, 2, 3])).shape
        TensorShape([2, 2, 3])
    """
    return _flip_randomly(image, -3, seed, "random_flip_up_down")


@transactional
def random_brightness(image: NumberLike, max_delta: float, seed: int | None = None) -> Tensor:
    """Call `adjust_brightness` with a random number between -max_delta and max_delta.

    Examples:
        >>> af.image.random_brightness(af.ones([2, 2, 3]), 0.1).shape
        TensorShape([2, 2, 3])
    """
    if max_delta < 0:
        raise ValueError(f"max_delta cannot be negative: {max_delta}")
    return adjust_brightness(image, random_uniform([], -max_delta, max_delta, seed=seed))


@transactional
def random_contrast(image: NumberLike, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """Call `adjust_contrast` with a random factor between `lower` and `upper`.

    Examples:
        >>> af.image.random_contrast(af.ones([2, 2, 3]), 0.5, 1.5).shape
        TensorShape([2, 2, 3])
    """
    return adjust_contrast(image, _factor(lower, upper, seed))


@transactional
def random_saturation(image: NumberLike, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """Call `adjust_saturation` with a random factor between `lower` and `upper`.

    Examples:
        >>> af.image.random_saturation(af.ones([2, 2, 3]), 0.5, 1.5).shape
        TensorShape([2, 2, 3])
    """
    return adjust_saturation(image, _factor(lower, upper, seed))


def _factor(lower: float, upper: float, seed: int | None) -> Tensor:
    if not 0 <= lower < upper:
        raise ValueError(f"lower {lower} must be from 0 on and below upper {upper}")
    return random_uniform([], lower, upper, seed=seed)


@transactional
def random_hue(image: NumberLike, max_delta: float, seed: int | None = None) -> Tensor:
    """Call `adjust_hue` with a random number between -max_delta and max_delta, which is at most 0.5.

    Examples:
        >>> af.image.random_hue(af.ones([2, 2, 3]), 0.1).shape
        TensorShape([2, 2, 3])
    """
    if not 0 <= max_delta <= 0.5:
        raise ValueError(f"max_delta must be from 0 to 0.5, not {max_delta}")
    return adjust_hue(image, random_uniform([], -max_delta, max_delta, seed=seed))


# Grayscale


@transactional
def rgb_to_grayscale(images: NumberLike, name: str | None = None) -> Tensor:
    """Return the brightness of each pixel, 0.2989 red, 0.5870 green and 0.1140 blue, as one channel.

    Examples:
        >>> await session.run(af.image.rgb_to_grayscale([[[1.0, 1.0, 1.0]]]))
        array([[[0.99990004]]], dtype=float32)
    """
    with name_scope(name, "rgb_to_grayscale", [images]) as scope:
        tensor = an_image(images)
        floats = as_floats(tensor)
        weights = convert_to_tensor([0.2989, 0.5870, 0.1140], floats.dtype)
        gray = convert_image_dtype(reduce_sum(floats * weights, -1, keepdims=True), tensor.dtype)
        return identity(gray, name=scope)


def grayscale_to_rgb(images: NumberLike, name: str | None = None) -> Tensor:
    """Repeat the one channel of the images three times.

    Examples:
        >>> await session.run(af.image.grayscale_to_rgb([[[0.5]]]))
        array([[[0.5, 0.5, 0.5]]], dtype=float32)
    """
    value = convert_to_tensor(images)
    if value.shape.ndims == 0 or value.shape[-1:].sizes not in (None, (1,), (None,)):
        raise ValueError(f"the last axis of grayscale images has size 1, their shape is {value.shape}")
    result = concat([value] * 3, -1, name=name or "grayscale_to_rgb")
    if value.shape.sizes is not None:
        result.set_shape([*value.shape.sizes[:-1], 3])
    return result
