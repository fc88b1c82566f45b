"""How alike two images are in structure [Wang 2004], at one scale and at several [Wang 2003]."""

from collections.abc import Sequence

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import tile
from aioflow.kernels.array.concat import concat, stack
from aioflow.kernels.array.pad import pad
from aioflow.kernels.array.shapes import reshape, shape
from aioflow.kernels.math.arithmetic import multiply
from aioflow.kernels.math.arithmetic import pow as power
from aioflow.kernels.math.elementwise import square
from aioflow.kernels.math.reduction import reduce_mean, reduce_prod
from aioflow.kernels.nn.activation import relu
from aioflow.kernels.nn.depthwise import depthwise_conv2d_native
from aioflow.kernels.nn.pooling import avg_pool
from aioflow.library.control import name_scope
from aioflow.library.image_color import convert_image_dtype
from aioflow.tensors.dtypes import float32


@transactional
def ssim(
    img1: NumberLike,
    img2: NumberLike,
    max_val: NumberLike,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
    return_index_map: bool = False,
) -> Tensor:
    """How alike images are in structure, from -1 to 1 for equal ones: [...] of images [..., height, width, channels].

    Args:
        img1: images.
        img2: images to compare with them, of the same shape.
        max_val: the greatest brightness, 255 for uint8.
        filter_size: the height and width of the window in which pixels are compared; images are no smaller.
        filter_sigma: the standard deviation of the weights in the window, in pixels.
        k1: a share of `max_val` that steadies the comparison of dark windows.
        k2: a share of `max_val` that steadies the comparison of plain windows.
        return_index_map: whether to return a number for each window, [..., windows down, windows across].

    Examples:
        >>> image = af.random.stateless_uniform([16, 16, 3], [1, 2])
        >>> await session.run(af.image.ssim(image, image, max_val=1.0))
        np.float32(1.0)
    """
    with name_scope(None, "ssim", [img1, img2]):
        first, second, top = _images(img1, img2, max_val, filter_size)
        whole, _ = _compared(first, second, top, _window(filter_size, filter_sigma), k1, k2)
        return reduce_mean(whole, [-1]) if return_index_map else reduce_mean(whole, [-3, -2, -1])


@transactional
def ssim_multiscale(
    img1: NumberLike,
    img2: NumberLike,
    max_val: NumberLike,
    power_factors: Sequence[float] = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333),
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Tensor:
    """How alike images are in structure at several scales, each half of the one before.

    `power_factors` are the powers of the scales, the finest first; the other arguments are those of `ssim`.

    Examples:
        >>> image = af.random.stateless_uniform([1, 32, 32, 1], [1, 2])
        >>> await session.run(af.image.ssim_multiscale(image, image, 1.0, power_factors=(0.5, 0.5)))
        array([1.], dtype=float32)
    """
    with name_scope(None, "ssim_multiscale", [img1, img2]) as scope:
        first, second, top = _images(img1, img2, max_val, filter_size)
        window, parts = _window(filter_size, filter_sigma), []
        for scale in range(len(power_factors)):
            if scale:
                first, second = _half(first), _half(second)
            whole, contrast = _compared(first, second, top, window, k1, k2)
            parts.append(relu(reduce_mean(whole if scale == len(power_factors) - 1 else contrast, [-3, -2])))
        powers = convert_to_tensor(np.array(power_factors), float32)
        return reduce_mean(reduce_prod(power(stack(parts, axis=-1), powers), [-1]), [-1], name=scope)


def _images(img1: NumberLike, img2: NumberLike, max_val: NumberLike, least: int) -> tuple[Tensor, Tensor, Tensor]:
    """Both images and the greatest brightness as float32. ValueError if their shapes do not fit."""
    first = convert_to_tensor(img1)
    second = convert_to_tensor(img2, first.dtype)
    sizes = first.shape.with_rank_at_least(3).merge_with(second.shape).as_list()
    if any(size is not None and size < least for size in sizes[-3:-1]):
        raise ValueError(f"images of {sizes[-3]} by {sizes[-2]} are smaller than the window of {least} by {least}")
    top = convert_image_dtype(convert_to_tensor(max_val, first.dtype), float32)
    return convert_image_dtype(first, float32), convert_image_dtype(second, float32), top


def _window(size: int, sigma: float) -> Tensor:
    """Normal weights [size, size, 1, 1] with the sum 1."""
    places = np.arange(size) - (size - 1) / 2
    line = np.exp(-0.5 * np.square(places / sigma))
    weights = np.outer(line, line)
    return convert_to_tensor((weights / weights.sum())[:, :, None, None], float32)


def _compared(x: Tensor, y: Tensor, top: Tensor, window: Tensor, k1: float, k2: float) -> tuple[Tensor, Tensor]:
    """The likeness in each window and channel, and the part of it that contrast and structure have."""
    c1, c2 = square(k1 * top), square(k2 * top)
    mean_x, mean_y = _average(x, window), _average(y, window)
    product = 2 * mean_x * mean_y
    squares = square(mean_x) + square(mean_y)
    brightness = (product + c1) / (squares + c1)
    both, each = 2 * _average(x * y, window), _average(square(x) + square(y), window)
    contrast = (both - product + c2) / (each - squares + c2)
    return multiply(brightness, contrast), contrast


def _average(x: Tensor, window: Tensor) -> Tensor:
    """The weighted mean of each window, channel by channel."""
    batch = _batch(x)
    weights = tile(window, stack([1, 1, shape(x)[-1], 1]))
    return _as_before(depthwise_conv2d_native(batch, weights, [1, 1, 1, 1], "VALID"), x)


def _half(x: Tensor) -> Tensor:
    """The mean of each 2 by 2 pixels; the last of an odd number counts twice."""
    batch = _batch(x)
    odd = shape(batch)[1:3] % 2
    even = pad(batch, stack([[0, 0], stack([0, odd[0]]), stack([0, odd[1]]), [0, 0]]), "SYMMETRIC")
    return _as_before(avg_pool(even, [1, 2, 2, 1], [1, 2, 2, 1], "VALID"), x)


def _batch(x: Tensor) -> Tensor:
    """`x` with one axis in front of the height, the width and the channels."""
    return x if x.shape.ndims == 4 else reshape(x, concat([[-1], shape(x)[-3:]], 0))


def _as_before(batch: Tensor, x: Tensor) -> Tensor:
    """The images of `batch` with the axes in front that `x` has."""
    return batch if x.shape.ndims == 4 else reshape(batch, concat([shape(x)[:-3], shape(batch)[1:]], 0))
