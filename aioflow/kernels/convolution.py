"""Convolution of images, and its two gradients: each of the three is differentiated by the other two.

The patches that a filter sees become the rows of a matrix, and a matrix product does the work, a few megabytes of
patches at a time: more would leave the cache, and at 3x3 all of them are nine times the images. Channels last, NHWC, is
how images lie in memory; NCHW is transposed on the way in and out.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from aioflow.dtypes import FLOAT, Array, Namespace, Sizes, Spec
from aioflow.kernels import known
from aioflow.kernels.activation import Function, wide
from aioflow.kernels.families import elements
from aioflow.kernels.shapes import shape_of
from aioflow.kernels.sliding import Slide, Sliding, either, four, images_of
from aioflow.node import Operation, Tensor
from aioflow.op import Ints, NodeView, T, op

BLOCK: Final = 4 << 20
"""Bytes of patches that are multiplied at a time."""


# Ops


def _match(what: str, a: int | None, b: int | None) -> None:
    if None not in (a, b) and a != b:
        raise ValueError(f"{what}: {a} and {b} differ")


def _convolved(x: Sizes, window: Sizes, sliding: Sliding) -> Sizes:
    """Batch, height, width and channels of the convolution of such images by such filters."""
    _match("channels of the images and of the filter", x[3], window[2])
    return (x[0], *sliding.places(x[1:3], window[:2]), window[3])


@op(name="conv2d")
def _conv2d(
    input: T,
    filter: T,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
) -> Spec:
    """Each patch of `input` times `filter`, of shape [height, width, channels, outputs], summed over the patch."""
    sliding = Sliding.of(strides, padding, data_format, dilations)
    window = filter.same_dtype(input.only(FLOAT)).with_rank(4).sizes
    assert window is not None
    return input.with_shape(sliding.own(_convolved(images_of(input, sliding), window, sliding)))


@op(name="conv2d_backprop_input")
def _conv2d_backprop_input(
    input_sizes: Ints,
    filter: T,
    out_backprop: T,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
) -> Spec:
    """The gradient of `conv2d` for its input, which has shape `input_sizes`."""
    sliding = Sliding.of(strides, padding, data_format, dilations)
    window = filter.same_dtype(out_backprop.only(FLOAT)).with_rank(4).sizes
    assert window is not None
    whole = known.shape(input_sizes, "input_sizes").with_rank(4)
    _check_backprop(sliding.nhwc(whole.as_list()), window, images_of(out_backprop, sliding), sliding)
    return Spec(filter.dtype, whole)


@op(name="conv2d_backprop_filter")
def _conv2d_backprop_filter(
    input: T,
    filter_sizes: Ints,
    out_backprop: T,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
) -> Spec:
    """The gradient of `conv2d` for its filter, which has shape `filter_sizes`."""
    sliding = Sliding.of(strides, padding, data_format, dilations)
    window = known.shape(filter_sizes, "filter_sizes").with_rank(4)
    out = images_of(out_backprop.only(FLOAT).same_dtype(input), sliding)
    _check_backprop(images_of(input, sliding), tuple(window.as_list()), out, sliding)
    return Spec(input.dtype, window)


def _check_backprop(x: Sizes, window: Sizes, out: Sizes, sliding: Sliding) -> None:
    for what, size, given in zip(
        ("batch", "height", "width", "channels"), _convolved(x, window, sliding), out, strict=True
    ):
        _match(f"{what} of the convolution and of out_backprop", size, given)


def _cost(dy: Spec, window: Spec) -> float:
    """Each element of the output is a sum over a patch."""
    outputs = None if window.sizes is None else window.sizes[-1]
    return 2 * elements(dy) * elements(window) / (outputs or 32)


_conv2d.cost(lambda inputs, outputs, attrs: _cost(outputs[0], inputs[1]))
_conv2d_backprop_input.cost(lambda inputs, outputs, attrs: _cost(inputs[2], inputs[1]))
_conv2d_backprop_filter.cost(lambda inputs, outputs, attrs: _cost(inputs[2], outputs[0]))


@_conv2d.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, Tensor]:
    x, window = op.inputs
    return (
        _conv2d_backprop_input(shape_of(x), window, dy, **op.attrs),
        _conv2d_backprop_filter(x, shape_of(window), dy, **op.attrs),
    )


@_conv2d_backprop_input.gradient
def _(op: Operation, dz: Tensor) -> tuple[None, Tensor, Tensor]:
    _, window, dy = op.inputs
    return None, _conv2d_backprop_filter(dz, shape_of(window), dy, **op.attrs), _conv2d(dz, window, **op.attrs)


@_conv2d_backprop_filter.gradient
def _(op: Operation, dz: Tensor) -> tuple[Tensor, None, Tensor]:
    x, _, dy = op.inputs
    return _conv2d_backprop_input(shape_of(x), dz, dy, **op.attrs), None, _conv2d(x, dz, **op.attrs)


# Kernels


@wide(_conv2d)
def _(xp: Namespace, node: NodeView) -> Function:
    sliding = Sliding.of(**node.attrs)

    def compute(x: Array, window: Array) -> Array:
        x = sliding.take(xp, x)
        _convolved(x.shape, window.shape, sliding)
        return sliding.give(xp, _convolve(xp, x, window, *sliding.slides(x.shape[1:3], window.shape[:2])))

    return compute


@wide(_conv2d_backprop_input)
def _(xp: Namespace, node: NodeView) -> Function:
    sliding = Sliding.of(**node.attrs)

    def compute(sizes: Array, window: Array, dy: Array) -> Array:
        dy, whole = sliding.take(xp, dy), sliding.nhwc(sizes.tolist())
        _check_backprop(whole, window.shape, dy.shape, sliding)
        return sliding.give(xp, _spread(xp, whole, window, dy, *sliding.slides(whole[1:3], window.shape[:2])))

    return compute


@wide(_conv2d_backprop_filter)
def _(xp: Namespace, node: NodeView) -> Function:
    sliding = Sliding.of(**node.attrs)

    def compute(x: Array, sizes: Array, dy: Array) -> Array:
        x, dy, window = sliding.take(xp, x), sliding.take(xp, dy), tuple(sizes.tolist())
        _check_backprop(x.shape, window, dy.shape, sliding)
        return _correlate(xp, x, dy, *sliding.slides(x.shape[1:3], window[:2])).reshape(window)

    return compute


def _patches(xp: Namespace, x: Array, rows: Slide, columns: Slide) -> Array:
    """What the window sees at each place: a view [batch, place, place, window, window, channels] of padded images."""
    x = _padded(xp, x, rows, columns)
    batch, row, column, channel = x.strides
    return xp.lib.stride_tricks.as_strided(
        x,
        (len(x), rows.output, columns.output, rows.window, columns.window, x.shape[3]),
        (batch, row * rows.stride, column * columns.stride, row * rows.dilation, column * columns.dilation, channel),
    )


def _padded(xp: Namespace, x: Array, rows: Slide, columns: Slide) -> Array:
    if not (rows.before or rows.after or columns.before or columns.after):
        return x
    batch, height, width, channels = x.shape
    tall, broad = rows.before + height + rows.after, columns.before + width + columns.after
    padded = xp.zeros((batch, tall, broad, channels), x.dtype)
    padded[:, rows.before : rows.before + height, columns.before : columns.before + width] = x
    return padded


def _matrices(xp: Namespace, x: Array, rows: Slide, columns: Slide) -> Iterator[tuple[slice, slice, Array]]:
    """Images, rows of places in them, and the patches there as the rows of a matrix of about BLOCK bytes."""
    depth = rows.window * columns.window * x.shape[3]
    if rows.still and columns.still:
        yield slice(None), slice(None), x.reshape(-1, depth)
        return
    fit = max(1, BLOCK // (columns.output * depth * x.itemsize))
    some, deep = max(1, fit // rows.output), min(fit, rows.output)
    for image in range(0, len(x), some):
        images = slice(image, image + some)
        patches = _patches(xp, x[images], rows, columns)
        for row in range(0, rows.output, deep):
            places = slice(row, row + deep)
            yield images, places, patches[:, places].reshape(-1, depth)


def _convolve(xp: Namespace, x: Array, window: Array, rows: Slide, columns: Slide) -> Array:
    """The product of each patch with the filters."""
    outputs = window.shape[3]
    result = xp.empty((len(x), rows.output, columns.output, outputs), x.dtype)
    if not (result.size and window.size):
        return xp.zeros_like(result)
    filters = window.reshape(-1, outputs)
    for images, places, patches in _matrices(xp, x, rows, columns):
        xp.matmul(patches, filters, out=result[images, places].reshape(-1, outputs))
    return result


def _correlate(xp: Namespace, x: Array, dy: Array, rows: Slide, columns: Slide) -> Array:
    """The sum over all places of the product of patch and output gradient."""
    outputs = dy.shape[3]
    total = xp.zeros((rows.window * columns.window * x.shape[3], outputs), x.dtype)
    if not (x.size and dy.size):
        return total
    for images, places, patches in _matrices(xp, x, rows, columns):
        total += patches.T @ dy[images, places].reshape(-1, outputs)
    return total


def _spread(xp: Namespace, sizes: Sequence[int], window: Array, dy: Array, rows: Slide, columns: Slide) -> Array:
    """Each output's gradient, times each element of the filter, added where that element saw its input."""
    result = xp.zeros(sizes, dy.dtype)
    if not (window.size and dy.size):
        return result
    some = max(1, BLOCK // 4 // (math.prod((*dy.shape[1:3], sizes[3])) * dy.itemsize))
    for image in range(0, len(dy), some):
        block = dy[image : image + some]
        into, flat = result[image : image + some], block.reshape(-1, dy.shape[3])
        for i in range(rows.window):
            for j in range(columns.window):
                (to_row, from_row), (to_column, from_column) = rows.tap(i), columns.tap(j)
                part = (flat @ window[i, j].T).reshape(*block.shape[:3], sizes[3])
                into[:, from_row, from_column] += part[:, to_row, to_column]
    return result


# What users call


def _attrs(strides: Any, padding: Any, data_format: Any, dilations: Any) -> dict[str, Any]:
    """Attributes as the ops take them. ValueError if strides or padding are missing."""
    if strides is None or padding is None:
        raise ValueError("a convolution needs strides and padding")
    layout = data_format or "NHWC"
    return {
        "strides": four(strides, layout),
        "padding": padding,
        "data_format": layout,
        "dilations": four((1, 1) if dilations is None else dilations, layout),
    }


def conv2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """Images times filters: at each place the sum over the patch there, times the filter, for each of its outputs.

    Args:
        input: images [batch, height, width, channels], or [batch, channels, height, width] with 'NCHW'.
        filter: numbers [height, width, channels, outputs].
        strides: by how much the filter moves: one number, one for height and width each, or one per axis of `input`.
        padding: "SAME", "VALID", or zeros before and after each axis, as four pairs.
        use_cudnn_on_gpu: has no effect.
        data_format: "NHWC" or "NCHW".
        dilations: the distance between elements of a patch, given as `strides` are.
        name: the name of the operation.
        filters: another name for `filter`.
    """
    window = either(filter, filters, "filter, filters")
    return _conv2d(input, window, **_attrs(strides, padding, data_format, dilations), name=name)


def conv2d_backprop_input(
    input_sizes: Any,
    filter: Any = None,
    out_backprop: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """The gradient of `conv2d` for images of shape `input_sizes`, from that of its result; arguments as there."""
    window = either(filter, filters, "filter, filters")
    attrs = _attrs(strides, padding, data_format, dilations)
    return _conv2d_backprop_input(input_sizes, window, out_backprop, **attrs, name=name)


def conv2d_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The gradient of `conv2d` for filters of shape `filter_sizes`, from that of its result; arguments as there."""
    attrs = _attrs(strides, padding, data_format, dilations)
    return _conv2d_backprop_filter(input, filter_sizes, out_backprop, **attrs, name=name)


def conv2d_transpose(
    value: Any = None,
    filter: Any = None,
    output_shape: Any = None,
    strides: Any = None,
    padding: Any = "SAME",
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """The gradient of `conv2d` as an op of its own, from small images `value` to large ones of shape `output_shape`.

    `filter` has shape [height, width, channels of the result, channels of `value`].
    """
    window = either(filter, filters, "filter, filters")
    small = either(value, input, "value, input")
    attrs = _attrs(strides, padding, data_format, dilations)
    return _conv2d_backprop_input(output_shape, window, small, **attrs, name=name or "conv2d_transpose")


__all__ = ["conv2d", "conv2d_backprop_filter", "conv2d_backprop_input", "conv2d_transpose"]
