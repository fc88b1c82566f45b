"""Convolutions and poolings composed of others or chosen by rank, and dilation by rearranging blocks."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.graph.params import renamed
from aioflow.kernels.array.constants import identity, ones_like
from aioflow.kernels.array.pad import pad
from aioflow.kernels.array.shapes import expand_dims, squeeze
from aioflow.kernels.math.arithmetic import add_n, maximum
from aioflow.kernels.nn.convolution import conv2d, conv2d_transpose
from aioflow.kernels.nn.convolution_nd import (
    conv1d,
    conv1d_transpose,
    conv3d,
    conv3d_transpose,
    plane_format,
    plane_step,
)
from aioflow.kernels.nn.depthwise import depthwise_conv2d_native
from aioflow.kernels.nn.pooling import avg_pool, avg_pool3d, max_pool, max_pool3d
from aioflow.kernels.nn.windows import either
from aioflow.library.control import name_scope

# By channel


def depthwise_conv2d(
    input: NumberLike,
    filter: NumberLike,
    strides: int | Sequence[int],
    padding: Any,
    rate: int | Sequence[int] | None = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: int | Sequence[int] | None = None,
) -> Tensor:
    """Convolve each channel separately: output channel k * multiplier + q is channel k by filter q.

    Args:
        input: images [batch, height, width, channels], or [batch, channels, height, width] with 'NCHW'.
        filter: numbers [height, width, channels, multiplier].
        strides: the step of the filter: one number, one for height and width each, or one per axis of `input`.
        padding: "SAME", "VALID", or zeros before and after each axis, as four pairs.
        rate: the distance between elements of a patch: one number, or one for height and width each.
        name: the name of the operation.
        data_format: "NHWC" or "NCHW".
        dilations: another name for `rate`.

    Examples:
        >>> af.nn.depthwise_conv2d(af.ones([1, 3, 3, 2]), af.ones([2, 2, 2, 1]), [1, 1, 1, 1], "VALID").shape
        TensorShape([1, 2, 2, 2])
    """
    distances = renamed("dilations", rate, dilations)
    return depthwise_conv2d_native(
        input, filter, strides, padding, data_format or "NHWC", 1 if distances is None else distances, name=name
    )


@transactional
def separable_conv2d(
    input: NumberLike,
    depthwise_filter: NumberLike,
    pointwise_filter: NumberLike,
    strides: int | Sequence[int],
    padding: Any,
    rate: int | Sequence[int] | None = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: int | Sequence[int] | None = None,
) -> Tensor:
    """Apply `depthwise_conv2d`, then `pointwise_filter`, [1, 1, channels * multiplier, outputs], to each pixel.

    Examples:
        >>> by_channel, across = af.ones([2, 2, 2, 1]), af.ones([1, 1, 2, 5])
        >>> af.nn.separable_conv2d(af.ones([1, 3, 3, 2]), by_channel, across, [1, 1, 1, 1], "VALID").shape
        TensorShape([1, 2, 2, 5])
    """
    with name_scope(name, "separable_conv2d", [input, depthwise_filter, pointwise_filter]) as scope:
        window = convert_to_tensor(pointwise_filter)
        if not window.shape.is_compatible_with([1, 1, None, None]):
            raise ValueError(f"pointwise_filter must have height and width 1, its shape is {window.shape}")
        between = depthwise_conv2d(
            input, depthwise_filter, strides, padding, rate, data_format=data_format, dilations=dilations
        )
        return conv2d(between, window, 1, "VALID", data_format=data_format or "NHWC", name=scope)


# With dilation


def atrous_conv2d(value: NumberLike, filters: NumberLike, rate: int, padding: Any, name: str | None = None) -> Tensor:
    """Return `conv2d` with `rate` - 1 holes between the elements of filters; strides are 1.

    Examples:
        >>> af.nn.atrous_conv2d(af.ones([1, 5, 5, 1]), af.ones([2, 2, 1, 1]), 2, "VALID").shape
        TensorShape([1, 3, 3, 1])
    """
    return conv2d(value, filters, 1, padding, dilations=rate, name=name or "atrous_conv2d")


def atrous_conv2d_transpose(
    value: NumberLike, filters: NumberLike, output_shape: NumberLike, rate: int, padding: Any, name: str | None = None
) -> Tensor:
    """Return the gradient of `atrous_conv2d` as a separate op, for images of shape `output_shape`.

    Examples:
        >>> x, filters = np.ones((1, 4, 4, 3), np.float32), np.ones((3, 3, 2, 3), np.float32)
        >>> af.nn.atrous_conv2d_transpose(x, filters, [1, 8, 8, 2], rate=2, padding="VALID").shape
        TensorShape([1, 8, 8, 2])
    """
    return conv2d_transpose(
        value, filters, output_shape, 1, padding, dilations=rate, name=name or "atrous_conv2d_transpose"
    )


# By rank


@transactional
def convolution(
    input: NumberLike,
    filter: NumberLike | None = None,
    padding: Any = None,
    strides: int | Sequence[int] | None = None,
    dilation_rate: int | Sequence[int] | None = None,
    name: str | None = None,
    data_format: str | None = None,
    filters: NumberLike | None = None,
    dilations: int | Sequence[int] | None = None,
) -> Tensor:
    """Return `conv1d`, `conv2d` or `conv3d`, by the rank of `filter`; one stride and dilation per spatial axis.

    Examples:
        >>> await session.run(af.nn.convolution([[[1.0], [2.0], [3.0]]], [[[1.0]], [[1.0]]], "VALID")[0, :, 0])
        array([3., 5.], dtype=float32)
    """
    window = convert_to_tensor(either(filter, filters, "filter, filters"))
    steps = 1 if strides is None else _numbers(strides)
    rates = renamed("dilations", dilation_rate, dilations)
    distances = 1 if rates is None else _numbers(rates)
    label = name or "convolution"
    if window.shape.ndims == 3:
        return conv1d(input, window, steps, padding, data_format=data_format, name=label, dilations=distances)
    if window.shape.ndims == 4:
        layout = data_format or "NHWC"
        return conv2d(input, window, steps, padding, data_format=layout, dilations=distances, name=label)
    if window.shape.ndims == 5:
        return conv3d(input, window, steps, padding, data_format or "NDHWC", distances, name=label)
    raise ValueError(f"filters have rank 3, 4 or 5, their shape is {window.shape}")


def _numbers(values: Any) -> Any:
    return values if isinstance(values, int) else list(values)


@transactional
def pool(
    input: NumberLike,
    window_shape: int | Sequence[int],
    pooling_type: str,
    padding: str,
    dilation_rate: int | Sequence[int] | None = None,
    strides: int | Sequence[int] | None = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: int | Sequence[int] | None = None,
) -> Tensor:
    """Return the largest element ("MAX") or the mean ("AVG") of each window along one, two or three axes.

    Args:
        input: [batch, *sizes, channels], or [batch, channels, *sizes] with a format such as 'NCHW'.
        window_shape: the size of the window along each axis.
        pooling_type: "MAX" or "AVG".
        padding: "SAME" or "VALID".
        dilation_rate: the distance between elements of a window along each axis; strides are 1 where one is above 1.
        strides: the step of the window along each axis, 1 by default.
        name: the name of the operation.
        data_format: "NWC", "NCW", "NHWC", "NCHW", "NDHWC" or "NCDHW".
        dilations: another name for `dilation_rate`.

    Examples:
        >>> await session.run(af.nn.pool([[[1.0], [3.0]]], [2], "MAX", "VALID")[0, :, 0])
        array([3.], dtype=float32)
    """
    window = [window_shape] if isinstance(window_shape, int) else list(window_shape)
    rates = _per_axis(dilations if dilation_rate is None else dilation_rate, len(window), "dilation_rate")
    steps = _per_axis(strides, len(window), "strides")
    if pooling_type not in ("MAX", "AVG") or padding not in ("SAME", "VALID") or not 1 <= len(window) <= 3:
        raise ValueError(f"unknown pooling {pooling_type!r} with padding {padding!r} along {len(window)} axes")
    with name_scope(name, f"{pooling_type.lower()}_pool", [input]) as scope:
        x, first = convert_to_tensor(input), data_format is not None and data_format[1] == "C"
        if set(rates) == {1}:
            return _pool_windows(x, window, pooling_type, steps, padding, data_format, scope)
        if set(steps) != {1}:
            raise ValueError(f"strides {steps} and dilation_rate {rates} cannot both be above 1")
        axes = range(2, 2 + len(window)) if first else range(1, 1 + len(window))
        return identity(
            _pool_dilated(x, list(zip(axes, window, rates, strict=True)), pooling_type, padding), name=scope
        )


def _per_axis(values: Any, count: int, what: str) -> list[int]:
    given = [1] * count if values is None else [values] * count if isinstance(values, int) else list(values)
    if len(given) != count or min(given) < 1:
        raise ValueError(f"{what} {given} must be {count} numbers of 1 or more")
    return given


def _pool_windows(
    x: Tensor, window: list[int], kind: str, steps: list[int], padding: str, data_format: str | None, name: str
) -> Tensor:
    if len(window) == 3:
        pool3d = max_pool3d if kind == "MAX" else avg_pool3d
        return pool3d(x, window, steps, padding, data_format or "NDHWC", name=name)
    pool2d = max_pool if kind == "MAX" else avg_pool
    if len(window) == 2:
        return pool2d(x, window, steps, padding, data_format or "NHWC", name=name)
    layout, axis = plane_format(data_format)
    return squeeze(pool2d(expand_dims(x, axis), [1, *window], [1, *steps], padding, layout), [axis], name=name)


def _pool_dilated(x: Tensor, along: Sequence[tuple[int, int, int]], kind: str, padding: str) -> Tensor:
    """Combine the elements of windows, as shifted copies of the images; `along` is axis, window size and rate."""
    reach = {axis: (size - 1) * rate for axis, size, rate in along}
    rank = x.shape.with_rank(len(along) + 2).ndims or 0
    around = [(reach.get(axis, 0) // 2, reach.get(axis, 0) - reach.get(axis, 0) // 2) for axis in range(rank)]
    padded = padding == "SAME"

    def elements(values: Tensor, border: Any) -> list[Tensor]:
        whole = pad(values, around, constant_values=border) if padded else values
        starts = itertools.product(*[[(axis, i * rate) for i in range(size)] for axis, size, rate in along])
        return [whole[_window(rank, start, reach)] for start in starts]

    if kind == "MAX":
        highest, *others = elements(x, x.dtype.min if x.dtype.is_integer else float("-inf"))
        for other in others:
            highest = maximum(highest, other)
        return highest
    return add_n(elements(x, 0)) / add_n(elements(ones_like(x), 0))


def _window(rank: int, start: Sequence[tuple[int, int]], reach: dict[int, int]) -> tuple[slice, ...]:
    """Return the index of the elements at offset `start` of all windows."""
    index = [slice(None)] * rank
    for axis, place in start:
        index[axis] = slice(place, place - reach[axis] or None)
    return tuple(index)


def max_pool1d(
    input: NumberLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str,
    data_format: str = "NWC",
    name: str | None = None,
) -> Tensor:
    """Return the largest element of each window of sequences [batch, width, channels], or 'NCW'.

    Examples:
        >>> await session.run(af.nn.max_pool1d([[[1.0], [3.0], [5.0], [7.0]]], 2, 2, "VALID")[0, :, 0])
        array([3., 7.], dtype=float32)
    """
    return _pool1d(input, ksize, strides, "MAX", padding, data_format, name or "max_pool1d")


def avg_pool1d(
    input: NumberLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str,
    data_format: str = "NWC",
    name: str | None = None,
) -> Tensor:
    """Return the mean of each window of sequences [batch, width, channels], or 'NCW'.

    Examples:
        >>> await session.run(af.nn.avg_pool1d([[[1.0], [3.0], [5.0], [7.0]]], 2, 2, "VALID")[0, :, 0])
        array([2., 6.], dtype=float32)
    """
    return _pool1d(input, ksize, strides, "AVG", padding, data_format, name or "avg_pool1d")


@transactional
def _pool1d(input: NumberLike, ksize: Any, strides: Any, kind: str, padding: str, layout: str, name: str) -> Tensor:
    window, steps = plane_step(ksize, "ksize", layout)[1:], plane_step(strides, "strides", layout)[1:]
    with name_scope(name, None, [input]) as scope:
        return _pool_windows(convert_to_tensor(input), window, kind, steps, padding, layout, scope)


@transactional
def conv_transpose(
    input: NumberLike,
    filters: NumberLike,
    output_shape: NumberLike,
    strides: int | Sequence[int],
    padding: Any = "SAME",
    data_format: str | None = None,
    dilations: int | Sequence[int] | None = None,
    name: str | None = None,
) -> Tensor:
    """Return `conv1d_transpose`, `conv2d_transpose` or `conv3d_transpose`, by the rank of `filters`.

    Examples:
        >>> x, filters = np.ones((1, 4, 3), np.float32), np.ones((2, 5, 3), np.float32)
        >>> af.nn.conv_transpose(x, filters, [1, 8, 5], 2).shape
        TensorShape([1, 8, 5])
    """
    window, label = convert_to_tensor(filters), name or "conv_transpose"
    if window.shape.ndims == 3:
        layout = data_format or "NWC"
        return conv1d_transpose(input, window, output_shape, strides, padding, layout, dilations, label)
    if window.shape.ndims == 4:
        layout = data_format or "NHWC"
        return conv2d_transpose(input, window, output_shape, strides, padding, layout, label, dilations=dilations)
    if window.shape.ndims == 5:
        layout = data_format or "NDHWC"
        return conv3d_transpose(input, window, output_shape, strides, padding, layout, label, dilations=dilations)
    raise ValueError(f"filters have rank 3, 4 or 5, their shape is {window.shape}")


_POOLS: dict[str, dict[int, tuple[Callable[..., Tensor], str]]] = {
    "max": {3: (max_pool1d, "NWC"), 4: (max_pool, "NHWC"), 5: (max_pool3d, "NDHWC")},
    "avg": {3: (avg_pool1d, "NWC"), 4: (avg_pool, "NHWC"), 5: (avg_pool3d, "NDHWC")},
}


@transactional
def max_pool_v2(
    input: NumberLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str,
    data_format: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the largest element of each window of sequences, images or volumes, by the rank of `input`.

    Examples:
        >>> x = np.arange(4.0, dtype=np.float32).reshape(1, 4, 1)
        >>> (await session.run(af.nn.max_pool_v2(x, 2, 2, "VALID")))[0, :, 0]
        array([1., 3.], dtype=float32)
    """
    return _pool("max", input, ksize, strides, padding, data_format, name or "max_pool")


@transactional
def avg_pool_v2(
    input: NumberLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str,
    data_format: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the mean of each window of sequences, images or volumes, by the rank of `input`.

    Examples:
        >>> x = np.arange(4.0, dtype=np.float32).reshape(1, 4, 1)
        >>> (await session.run(af.nn.avg_pool_v2(x, 2, 2, "VALID")))[0, :, 0]
        array([0.5, 2.5], dtype=float32)
    """
    return _pool("avg", input, ksize, strides, padding, data_format, name or "avg_pool")


def _pool(
    kind: str, input: NumberLike, ksize: Any, strides: Any, padding: str, data_format: str | None, name: str
) -> Tensor:
    x = convert_to_tensor(input)
    rank = x.shape.ndims or len(data_format or "")
    if rank not in _POOLS[kind]:
        raise ValueError(f"the rank of the pooled tensor is 3, 4 or 5, not {x.shape.ndims}")
    function, layout = _POOLS[kind][rank]
    return function(x, ksize, strides, padding, data_format or layout, name=name)


def max_pool2d(
    input: NumberLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str,
    data_format: str = "NHWC",
    name: str | None = None,
) -> Tensor:
    """Return the largest element of each window of images: `max_pool`.

    Examples:
        >>> images = af.reshape(af.range(16.0), [1, 4, 4, 1])
        >>> await session.run(af.nn.max_pool2d(images, 2, 2, "VALID")[0, :, :, 0])
        array([[ 5.,  7.],
               [13., 15.]], dtype=float32)
    """
    return max_pool(input, ksize, strides, padding, data_format, name or "max_pool2d")


def avg_pool2d(
    input: NumberLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str,
    data_format: str = "NHWC",
    name: str | None = None,
) -> Tensor:
    """Return the mean of each window of images, without padding: `avg_pool`.

    Examples:
        >>> images = af.reshape(af.range(16.0), [1, 4, 4, 1])
        >>> await session.run(af.nn.avg_pool2d(images, 2, 2, "VALID")[0, :, :, 0])
        array([[ 2.5,  4.5],
               [10.5, 12.5]], dtype=float32)
    """
    return avg_pool(input, ksize, strides, padding, data_format, name or "avg_pool2d")
