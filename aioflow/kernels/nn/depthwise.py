"""Depthwise convolution, with separate filters for each channel, and its gradients.

A channel with several filters is repeated first; then all three ops are element-wise products of images and one row
of weights per element of the window. The weights of a row are repeated along the width, so that NumPy processes whole
rows at once even with few channels.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.convert import NumberLike
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels import known
from aioflow.kernels.array.shapes import shape_of
from aioflow.kernels.families import elements
from aioflow.kernels.nn import onednn_convolution
from aioflow.kernels.nn.activation import Function, column_sums, wide
from aioflow.kernels.nn.convolution import attributes, check_backprop, match
from aioflow.kernels.nn.windows import Slides, Sliding, images_of, taps
from aioflow.tensors.dtypes import FLOAT, Array, Namespace, Sizes, Spec

BLOCK: Final = 512 << 10
"""Bytes of images that are convolved at a time."""


def _convolved(x: Sizes, window: Sizes, sliding: Sliding) -> Sizes:
    """Batch, height, width and channels of the convolution of such images by such filters."""
    match("channels of the images and of the filter", x[3], window[2])
    channels, times = window[2] if x[3] is None else x[3], window[3]
    outputs = None if channels is None or times is None else channels * times
    return (x[0], *sliding.places(x[1:3], window[:2]), outputs)


def _sizes(filter: Spec) -> Sizes:
    sizes = filter.with_rank(4, "filter").sizes
    assert sizes is not None
    return sizes


@op(name="depthwise_conv2d_native")
def _native(
    input: T, filter: T, strides: Any, padding: Any, data_format: str = "NHWC", dilations: Any = (1, 1, 1, 1)
) -> Spec:
    """Each channel of each patch of `input` times its own filters, summed over the patch.

    `filter` has shape [height, width, channels, multiplier]; output channel k * multiplier + q is that of channel k and
    filter q.
    """
    sliding = Sliding.of(strides, padding, data_format, dilations)
    window = _sizes(filter.same_dtype(input.only(FLOAT)))
    return input.with_shape(sliding.own(_convolved(images_of(input, sliding), window, sliding)))


@op(name="depthwise_conv2d_native_backprop_input")
def _backprop_input(
    input_sizes: Ints,
    filter: T,
    out_backprop: T,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
) -> Spec:
    """The gradient of `depthwise_conv2d_native` for its input, which has shape `input_sizes`."""
    sliding = Sliding.of(strides, padding, data_format, dilations)
    window = _sizes(filter.same_dtype(out_backprop.only(FLOAT)))
    whole = known.shape(input_sizes, "input_sizes").with_rank(4)
    x = sliding.nhwc(whole.as_list())
    check_backprop(_convolved(x, window, sliding), images_of(out_backprop, sliding))
    return Spec(filter.dtype, whole)


@op(name="depthwise_conv2d_native_backprop_filter")
def _backprop_filter(
    input: T,
    filter_sizes: Ints,
    out_backprop: T,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
) -> Spec:
    """The gradient of `depthwise_conv2d_native` for its filter, which has shape `filter_sizes`."""
    sliding = Sliding.of(strides, padding, data_format, dilations)
    window = known.shape(filter_sizes, "filter_sizes").with_rank(4)
    out = images_of(out_backprop.only(FLOAT).same_dtype(input), sliding)
    check_backprop(_convolved(images_of(input, sliding), tuple(window.as_list()), sliding), out)
    return Spec(input.dtype, window)


@_native.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, Tensor]:
    x, window = op.inputs
    return (
        _backprop_input(shape_of(x), window, dy, **op.attrs),
        _backprop_filter(x, shape_of(window), dy, **op.attrs),
    )


@_backprop_input.gradient
def _(op: Operation, dz: Tensor) -> tuple[None, Tensor, Tensor]:
    _, window, dy = op.inputs
    return None, _backprop_filter(dz, shape_of(window), dy, **op.attrs), _native(dz, window, **op.attrs)


@_backprop_filter.gradient
def _(op: Operation, dz: Tensor) -> tuple[Tensor, None, Tensor]:
    x, _, dy = op.inputs
    return _backprop_input(shape_of(x), dz, dy, **op.attrs), None, _native(x, dz, **op.attrs)


def _cost(dy: Spec, window: Spec) -> float:
    taps = [size or 3 for size in (window.sizes or (3, 3))[:2]]
    return 2 * elements(dy) * math.prod(taps)


_native.cost(lambda inputs, outputs, attrs: _cost(outputs[0], inputs[1]))
_backprop_input.cost(lambda inputs, outputs, attrs: _cost(inputs[2], inputs[1]))
_backprop_filter.cost(lambda inputs, outputs, attrs: _cost(inputs[2], outputs[0]))


# Kernels


@wide(_native)
def _forward(xp: Namespace, node: NodeView) -> Function:
    sliding = Sliding.of(**node.attrs)

    def compute(x: Array, window: Array) -> Array:
        x = sliding.take(xp, x)
        sizes = _convolved(x.shape, window.shape, sliding)
        y, slides = xp.zeros(sizes, x.dtype), sliding.slides(x.shape[1:3], window.shape[:2])
        rows = _rows(xp, window, y.shape[2])
        for some in _blocks(y):
            images, into = _repeated(xp, x[some], window.shape[3]), y[some]
            for index, places, seen in taps(slides):
                into[places] += images[seen] * rows[index][: _width(places)]
        return sliding.give(xp, y)

    return compute


@wide(_backprop_input)
def _into_images(xp: Namespace, node: NodeView) -> Function:
    sliding = Sliding.of(**node.attrs)

    def compute(sizes: Array, window: Array, dy: Array) -> Array:
        dy, whole = sliding.take(xp, dy), sliding.nhwc(sizes.tolist())
        check_backprop(_convolved(whole, window.shape, sliding), dy.shape)
        dx, slides = xp.empty(whole, dy.dtype), sliding.slides(whole[1:3], window.shape[:2])
        for some in _blocks(dy):
            dx[some] = _spread(xp, whole, window, dy[some], slides)
        return sliding.give(xp, dx)

    return compute


@wide(_backprop_filter)
def _into_filter(xp: Namespace, node: NodeView) -> Function:
    sliding = Sliding.of(**node.attrs)

    def compute(x: Array, sizes: Array, dy: Array) -> Array:
        x, dy, window = sliding.take(xp, x), sliding.take(xp, dy), tuple(sizes.tolist())
        check_backprop(_convolved(x.shape, window, sliding), dy.shape)
        total = xp.zeros((*window[:2], dy.shape[3]), x.dtype)
        slides = sliding.slides(x.shape[1:3], window[:2])
        for some in _blocks(dy):
            images, out = _repeated(xp, x[some], window[3]), dy[some]
            for index, places, seen in taps(slides):
                total[index] += _column_sums(xp, images[seen] * out[places])
        return total.reshape(window)

    return compute


_optimised = onednn_convolution.Kernels(2, _convolved, by_channel=True)
_optimised.declare(_native, _optimised.forward, _forward)
_optimised.declare(_backprop_input, _optimised.backprop_input, _into_images)
_optimised.declare(_backprop_filter, _optimised.backprop_filter, _into_filter)


def _blocks(images: Array) -> Iterator[slice]:
    """The images in blocks of about BLOCK bytes; no block if they are empty."""
    if images.size:
        some = max(1, BLOCK * len(images) // images.nbytes)
        yield from (slice(first, first + some) for first in range(0, len(images), some))


def _repeated(xp: Namespace, x: Array, times: int) -> Array:
    """Each channel repeated `times` times."""
    return x if times == 1 else xp.repeat(x, times, axis=3)


def _rows(xp: Namespace, window: Array, width: int) -> Array:
    """For each element of the window the weights of a row of `width` places: [height, width, `width`, channels]."""
    height, over, channels, times = window.shape
    rows = xp.empty((height, over, width, channels * times), window.dtype)
    rows[...] = window.reshape(height, over, 1, -1)
    return rows


def _width(places: Sequence[slice]) -> int:
    return int(places[2].stop - places[2].start)


def _spread(xp: Namespace, whole: Sequence[int], window: Array, dy: Array, slides: Slides) -> Array:
    """Each output's gradient, times each element of the filter, added where that element saw its input."""
    times, rows = window.shape[3], _rows(xp, window, dy.shape[2])
    dx = xp.zeros((len(dy), *whole[1:3], dy.shape[3]), dy.dtype)
    for index, places, seen in taps(slides):
        dx[seen] += dy[places] * rows[index][: _width(places)]
    return dx if times == 1 else dx.reshape(len(dy), *whole[1:], times).sum(-1)


def _column_sums(xp: Namespace, x: Array) -> Array:
    return column_sums(x) if xp is np else x.sum((0, 1, 2))


# For users


def depthwise_conv2d_native(
    input: NumberLike,
    filter: NumberLike,
    strides: int | Sequence[int],
    padding: Any,
    data_format: str = "NHWC",
    dilations: int | Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """Images times filters, each channel by its own: see `depthwise_conv2d`; `dilations` are given as `strides` are.

    Examples:
        >>> x, filters = np.ones((1, 3, 3, 2), np.float32), np.ones((2, 2, 2, 3), np.float32)
        >>> af.nn.depthwise_conv2d_native(x, filters, [1, 1, 1, 1], "VALID").shape
        TensorShape([1, 2, 2, 6])
    """
    return _native(input, filter, **attributes(strides, padding, data_format, dilations), name=name)


def depthwise_conv2d_native_backprop_input(
    input_sizes: NumberLike,
    filter: NumberLike,
    out_backprop: NumberLike,
    strides: int | Sequence[int],
    padding: Any,
    data_format: str = "NHWC",
    dilations: int | Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The gradient of `depthwise_conv2d_native` for images of shape `input_sizes`, from that of its result.

    Examples:
        >>> filters, dy = np.ones((2, 2, 2, 1), np.float32), np.ones((1, 2, 2, 2), np.float32)
        >>> af.nn.depthwise_conv2d_backprop_input([1, 3, 3, 2], filters, dy, [1, 1, 1, 1], "VALID").shape
        TensorShape([1, 3, 3, 2])
    """
    attrs = attributes(strides, padding, data_format, dilations)
    return _backprop_input(input_sizes, filter, out_backprop, **attrs, name=name)


def depthwise_conv2d_native_backprop_filter(
    input: NumberLike,
    filter_sizes: NumberLike,
    out_backprop: NumberLike,
    strides: int | Sequence[int],
    padding: Any,
    data_format: str = "NHWC",
    dilations: int | Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The gradient of `depthwise_conv2d_native` for filters of shape `filter_sizes`, from that of its result.

    Examples:
        >>> x, dy = np.ones((1, 3, 3, 2), np.float32), np.ones((1, 2, 2, 2), np.float32)
        >>> af.nn.depthwise_conv2d_backprop_filter(x, [2, 2, 2, 1], dy, [1, 1, 1, 1], "VALID").shape
        TensorShape([2, 2, 2, 1])
    """
    attrs = attributes(strides, padding, data_format, dilations)
    return _backprop_filter(input, filter_sizes, out_backprop, **attrs, name=name)
