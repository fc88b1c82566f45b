"""Morphology of images: dilation and erosion."""

from collections.abc import Sequence
from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import reverse
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.constants import ones_like
from aioflow.kernels.array.pad import pad
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import reshape, shape
from aioflow.kernels.math.arithmetic import maximum
from aioflow.kernels.math.elementwise import negative
from aioflow.kernels.math.reduction import reduce_max
from aioflow.kernels.nn.patches import extract_image_patches
from aioflow.kernels.nn.windows import either, per_axis, spatial
from aioflow.library.control import name_scope
from aioflow.tensors.dtypes import FLOAT, INTEGER, Spec


@transactional
def dilation2d(
    input: NumberLike,
    filter: NumberLike | None = None,
    strides: int | Sequence[int] | None = None,
    rates: int | Sequence[int] | None = None,
    padding: Any = None,
    name: str | None = None,
    filters: NumberLike | None = None,
    dilations: int | Sequence[int] | None = None,
) -> Tensor:
    """Return for each channel the largest sum of a pixel and the filter's element over it, in each window.

    Args:
        input: images [batch, height, width, channels].
        filter: numbers [height, width, channels].
        strides: the step of the window: one number, one for height and width each, or one per axis of `input`.
        rates: the distance between pixels of a window, in the same form.
        padding: "SAME", which ignores pixels outside, or "VALID".
        name: the name of the result.
        filters: another name for `filter`.
        dilations: another name for `rates`.

    Examples:
        >>> x, filters = np.arange(9.0, dtype=np.float32).reshape(1, 3, 3, 1), np.zeros((2, 2, 1), np.float32)
        >>> y = af.nn.dilation2d(x, filters, [1, 1, 1, 1], [1, 1, 1, 1], "VALID")
        >>> (await session.run(y))[0, :, :, 0]
        array([[4., 5.],
               [7., 8.]], dtype=float32)
    """
    with name_scope(name, "dilation2d", [input]) as scope:
        images = convert_to_tensor(input)
        window = convert_to_tensor(either(filter, filters, "filter, filters"), images.dtype)
        _check(images, window, padding)
        steps, distances = per_axis(strides, "NHWC"), per_axis(either(rates, dilations, "rates, dilations"), "NHWC")
        if padding == "SAME":
            moves, reaches = spatial(tuple(steps), True, "strides"), spatial(tuple(distances), True, "rates")
            images, inside = _pad(images, window, moves, reaches)
        else:
            inside = None
        seen = _seen(images, window, steps, distances) + reshape(window, _flat_shape(window))
        if inside is not None and images.dtype.is_integer:  # where a sum with the least integer would wrap around
            within = _seen(inside, window, steps, distances)
            seen = where(within > 0, seen, ones_like(seen) * images.dtype.min)
        return reduce_max(seen, 3, name=scope)


def _check(images: Tensor, window: Tensor, padding: Any) -> None:
    Spec(images.dtype).only(FLOAT, INTEGER)
    images.shape.with_rank(4)[3:].merge_with(window.shape.with_rank(3)[2:])
    if padding not in ("SAME", "VALID"):
        raise ValueError(f"padding is 'SAME' or 'VALID', not {padding!r}")
    if None in window.shape.as_list()[:2]:
        raise ValueError(f"height and width of the filter must be known, its shape is {window.shape}")


def _flat_shape(window: Tensor) -> list[int]:
    height, width = window.shape.as_list()[:2]
    assert height is not None
    assert width is not None
    return [height * width, -1]


def _seen(images: Tensor, window: Tensor, strides: Any, rates: Any) -> Tensor:
    """Return the pixels of each window: [batch, places, places, pixels, channels]."""
    height, width = window.shape.as_list()[:2]
    assert height is not None
    assert width is not None
    patches = extract_image_patches(images, [1, height, width, 1], strides, rates, "VALID")
    places, channels = shape(patches)[:3], images.shape.as_list()[3]
    sizes: list[Any] = [
        places[0],
        places[1],
        places[2],
        height * width,
        shape(images)[3] if channels is None else channels,
    ]
    known: list[Any] = [*patches.shape.as_list()[:3], None, None]
    return reshape(patches, stack([at if size is None else size for at, size in zip(sizes, known, strict=True)]))


def _pad(images: Tensor, window: Tensor, strides: tuple[int, ...], rates: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return images padded for "SAME" by the smallest number of the dtype, and a mask that is 1 inside the images."""
    sizes = images.shape.as_list()[1:3]
    pairs: list[list[Any]] = [[0, 0]]
    for axis in range(2):
        length = window.shape.as_list()[axis]
        assert length is not None
        known = sizes[axis]
        size: Any = shape(images)[axis + 1] if known is None else known
        total = (-(-size // strides[axis]) - 1) * strides[axis] + (length - 1) * rates[axis] + 1 - size
        total = max(total, 0) if known is not None else maximum(total, 0)
        pairs.append([total // 2, total - total // 2])
    paddings = [*pairs, [0, 0]]
    outside = images.dtype.min if images.dtype.is_integer else float("-inf")
    return pad(images, paddings, constant_values=outside), pad(ones_like(images), paddings)


@transactional
def erosion2d(
    value: NumberLike,
    kernel: NumberLike,
    strides: int | Sequence[int],
    rates: int | Sequence[int],
    padding: Any,
    name: str | None = None,
) -> Tensor:
    """Return for each channel the smallest difference of a pixel and the kernel's element over it, in each window.

    It equals -dilation2d(-value, reversed kernel); the arguments are the same.

    Examples:
        >>> x, filters = np.arange(1.0, 10.0, dtype=np.float32).reshape(1, 3, 3, 1), np.zeros((2, 2, 1), np.float32)
        >>> y = af.nn.erosion2d(x, filters, [1, 1, 1, 1], [1, 1, 1, 1], "VALID")
        >>> (await session.run(y))[0, :, :, 0]
        array([[1., 2.],
               [4., 5.]], dtype=float32)
    """
    with name_scope(name, "erosion2d", [value, kernel]) as scope:
        images = convert_to_tensor(value)
        turned = reverse(convert_to_tensor(kernel, images.dtype), [0, 1])
        widest: Tensor = dilation2d(-images, turned, strides, rates, padding)
        return negative(widest, name=scope)
