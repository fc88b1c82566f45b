"""Colours of images: conversions of colour spaces, hue, saturation and gamma."""

from typing import Any, Final

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import stack, unstack
from aioflow.kernels.array.fill import zeros_like
from aioflow.kernels.array.select import where
from aioflow.kernels.linalg.tensordot import tensordot
from aioflow.kernels.math.arithmetic import floormod, multiply
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, greater, less
from aioflow.kernels.math.elementwise import abs as absolute
from aioflow.kernels.math.no_nan import div_no_nan
from aioflow.kernels.math.reduction import reduce_max, reduce_min
from aioflow.kernels.math.rounding import clip_by_value
from aioflow.library.control import name_scope
from aioflow.library.image_basics import an_image, as_floats, convert_image_dtype
from aioflow.tensors.dtypes import FLOAT, Spec

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
    """Convert floating RGB images to YIQ, the colour space of NTSC."""
    return _transform_colors(images, _RGB_TO_YIQ)


@transactional
def yiq_to_rgb(images: NumberLike) -> Tensor:
    """Convert floating YIQ images to RGB."""
    return _transform_colors(images, _YIQ_TO_RGB)


@transactional
def rgb_to_yuv(images: NumberLike) -> Tensor:
    """Convert floating RGB images to YUV, the colour space of PAL."""
    return _transform_colors(images, _RGB_TO_YUV)


@transactional
def yuv_to_rgb(images: NumberLike) -> Tensor:
    """Convert floating YUV images to RGB."""
    return _transform_colors(images, _YUV_TO_RGB)


@transactional
def rgb_to_hsv(images: NumberLike, name: str | None = None) -> Tensor:
    """Convert floating RGB images to hue, saturation and value, all from 0 to 1 if red, green and blue are."""
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
    """Convert floating HSV images to RGB."""
    with name_scope(name, "hsv_to_rgb", [images]) as scope:
        hue, saturation, value = unstack(_colors(images), 3, -1)
        sixths = hue * 6
        shares = absolute(sixths - 3) - 1, 2 - absolute(sixths - 2), 2 - absolute(sixths - 4)
        return stack([(1 - saturation + saturation * _unit(share)) * value for share in shares], -1, name=scope)


def _unit(x: Tensor) -> Tensor:
    return clip_by_value(x, 0.0, 1.0)


@transactional
def adjust_hue(image: NumberLike, delta: NumberLike, name: str | None = None) -> Tensor:
    """Rotate the hues of RGB images by `delta`, of which 1 is a full turn."""
    with name_scope(name, "adjust_hue", [image]):
        tensor = an_image(image)
        hue, saturation, value = unstack(rgb_to_hsv(as_floats(tensor)), 3, -1)
        turned = floormod(hue + cast(convert_to_tensor(delta), hue.dtype), 1.0)
        return convert_image_dtype(hsv_to_rgb(stack([turned, saturation, value], -1)), tensor.dtype, saturate=True)


@transactional
def adjust_saturation(image: NumberLike, saturation_factor: NumberLike, name: str | None = None) -> Tensor:
    """Multiply the saturation of RGB images by `saturation_factor`, limited to 1."""
    with name_scope(name, "adjust_saturation", [image]):
        tensor = an_image(image)
        hue, saturation, value = unstack(rgb_to_hsv(as_floats(tensor)), 3, -1)
        stronger = _unit(saturation * cast(convert_to_tensor(saturation_factor), hue.dtype))
        return convert_image_dtype(hsv_to_rgb(stack([hue, stronger, value], -1)), tensor.dtype, saturate=True)


@transactional
def adjust_gamma(image: NumberLike, gamma: NumberLike = 1, gain: NumberLike = 1) -> Tensor:
    """Return gain * image^gamma for pixels scaled to the range from 0 to 1. ValueError for a negative gamma."""
    if isinstance(gamma, (int, float)) and gamma < 0:
        raise ValueError(f"gamma cannot be negative: {gamma}")
    with name_scope(None, "adjust_gamma", [image, gamma, gain]):
        tensor = convert_to_tensor(image)
        floats = as_floats(tensor)
        power = floats ** cast(convert_to_tensor(gamma), floats.dtype)
        changed = multiply(power, cast(convert_to_tensor(gain), floats.dtype))
        return convert_image_dtype(changed, tensor.dtype, saturate=True)
