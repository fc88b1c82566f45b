"""Measures of images: changes from pixel to pixel, and the distance of two images."""

import math

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.fill import zeros_like
from aioflow.kernels.array.pad import pad
from aioflow.kernels.array.shapes import reshape, shape
from aioflow.kernels.math.arithmetic import add, squared_difference, subtract
from aioflow.kernels.math.elementwise import abs as absolute
from aioflow.kernels.math.elementwise import log
from aioflow.kernels.math.reduction import reduce_mean, reduce_sum
from aioflow.kernels.nn.depthwise import depthwise_conv2d_native
from aioflow.library.control import name_scope
from aioflow.library.image_basics import an_image, convert_image_dtype
from aioflow.tensors.dtypes import float32

_ACROSS = [[-1, -2, -1], [0, 0, 0], [1, 2, 1]]


@transactional
def total_variation(images: NumberLike, name: str | None = None) -> Tensor:
    """Return for each image the sum of absolute differences of neighbouring pixels: a measure of its noise."""
    with name_scope(name, "total_variation", [images]) as scope:
        tensor = an_image(images)
        down = absolute(tensor[..., 1:, :, :] - tensor[..., :-1, :, :])
        right = absolute(tensor[..., :, 1:, :] - tensor[..., :, :-1, :])
        return add(reduce_sum(down, [-3, -2, -1]), reduce_sum(right, [-3, -2, -1]), name=scope)


@transactional
def image_gradients(image: NumberLike) -> tuple[Tensor, Tensor]:
    """Return (dy, dx): the difference to the next row or column of pixels; 0 for the last. ValueError unless rank 4."""
    tensor = convert_to_tensor(image)
    tensor.shape.with_rank(4)
    dy = tensor[:, 1:] - tensor[:, :-1]
    dx = tensor[:, :, 1:] - tensor[:, :, :-1]
    return concat([dy, zeros_like(tensor[:, :1])], 1), concat([dx, zeros_like(tensor[:, :, :1])], 2)


@transactional
def sobel_edges(image: NumberLike) -> Tensor:
    """Return Sobel's gradients of floating images [batch, height, width, channels]: (dy, dx) along a new last axis."""
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
    """Return the ratio of the greatest brightness, `max_val`, to the mean distance of two images, in decibels."""
    with name_scope(name, "psnr", [a, b]) as scope:
        first, second = convert_to_tensor(a), convert_to_tensor(b)
        top = convert_image_dtype(convert_to_tensor(max_val, first.dtype), float32)
        one, other = convert_image_dtype(first, float32), convert_image_dtype(second, float32)
        distance = reduce_mean(squared_difference(one, other), [-3, -2, -1])
        return subtract(20 / math.log(10) * log(top), 10 / math.log(10) * log(distance), name=scope)
