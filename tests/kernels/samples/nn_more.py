"""Convolution and pooling along one and three axes, by channel, with dilation, and with the place of the highest."""

import functools
import itertools

import numpy as np

from aioflow.kernels.nn import convolution_nd, depthwise, pooling, pooling_argmax
from tests.kernels.samples import sample
from tests.kernels.samples.nn_windows import around, first, images, last, levels

rng = np.random.default_rng(6)


def normal(*shape):
    return np.round(rng.normal(size=shape), 2)


def places(shape, window, strides, padding, dilations=None):
    """For each place of a window along any number of axes: where it is; what it sees, and with which element."""
    along = []
    for axis, (size, over, stride) in enumerate(zip(shape, window, strides, strict=True)):
        dilation = dilations[axis] if dilations else 1
        reach = (over - 1) * dilation + 1
        before, after = around(padding if isinstance(padding, str) else padding[axis], size, reach, stride)
        starts = range(-before, size + after - reach + 1, stride)
        elements = [[(start + i * dilation, i) for i in range(over)] for start in starts]
        seen = [[(at, i) for at, i in pairs if 0 <= at < size] for pairs in elements]
        along.append(list(enumerate(seen)))
    for product in itertools.product(*along):
        where, seen = zip(*product, strict=True)
        yield where, [tuple(zip(*pairs, strict=True)) for pairs in itertools.product(*seen)]


def empty(x, window, how, channels):
    *_, (where, _) = places(x.shape[1:-1], window, *how)
    return np.zeros((len(x), *[place + 1 for place in where], channels))


def convolved(x, w, *how):
    y = empty(x, w.shape[:-2], how, w.shape[-1])
    for where, pairs in places(x.shape[1:-1], w.shape[:-2], *how):
        for at, i in pairs:
            y[(slice(None), *where)] += x[(slice(None), *at)] @ w[i]
    return y


def spread(shape, w, dy, *how):
    dx = np.zeros(shape)
    for where, pairs in places(shape[1:-1], w.shape[:-2], *how):
        for at, i in pairs:
            dx[(slice(None), *at)] += dy[(slice(None), *where)] @ w[i].T
    return dx


def correlated(x, shape, dy, *how):
    dw = np.zeros(shape)
    for where, pairs in places(x.shape[1:-1], shape[:-2], *how):
        for at, i in pairs:
            dw[i] += x[(slice(None), *at)].T @ dy[(slice(None), *where)]
    return dw


def by_channel(w):
    """Depthwise filters as those of a full convolution."""
    height, width, channels, times = w.shape
    full = np.zeros((height, width, channels, channels, times))
    for channel in range(channels):
        full[:, :, channel, channel] = w[:, :, channel]
    return full.reshape(height, width, channels, channels * times)


def diagonal(dw, times):
    """The gradient of full filters that is one of depthwise filters."""
    height, width, channels, _ = dw.shape
    full = dw.reshape(height, width, channels, channels, times)
    return np.stack([full[:, :, channel, channel] for channel in range(channels)], 2)


def pooled(x, window, *how, function):
    y = empty(x, window, how, x.shape[-1])
    for where, pairs in places(x.shape[1:-1], window, *how):
        y[(slice(None), *where)] = function([x[(slice(None), *at)] for at, _ in pairs], axis=0)
    return y


volumes, blocks = normal(2, 3, 4, 3, 2), normal(2, 3, 2, 2, 3)
heights = rng.permutation(144).reshape(2, 3, 4, 3, 2) / 7.0

for how in [
    ((1, 1, 1), "SAME"),
    ((2, 1, 2), "VALID"),
    ((1, 2, 1), ((1, 0), (0, 2), (1, 1))),
    ((1, 1, 1), "SAME", (1, 2, 1)),
]:
    strides, padding, dilations = (*how, (1, 1, 1))[:3]
    pairs = padding if isinstance(padding, str) else ((0, 0), *padding, (0, 0))
    attrs = {"strides": (1, *strides, 1), "padding": pairs, "dilations": (1, *dilations, 1)}
    dy = normal(*convolved(volumes, blocks, *how).shape)
    sample(
        "conv3d", lambda x, w, a=attrs: convolution_nd.conv3d(x, w, **a), volumes, blocks,
        reference=lambda x, w, how=how: convolved(x, w, *how),
    )  # fmt: skip
    sample(
        "conv3d_backprop_input",
        lambda w, dy, a=attrs: convolution_nd.conv3d_backprop_input(volumes.shape, w, dy, **a), blocks, dy,
        reference=lambda w, dy, how=how: spread(volumes.shape, w, dy, *how),
    )  # fmt: skip
    sample(
        "conv3d_backprop_filter",
        lambda x, dy, a=attrs: convolution_nd.conv3d_backprop_filter(x, blocks.shape, dy, **a), volumes, dy,
        reference=lambda x, dy, how=how: correlated(x, blocks.shape, dy, *how),
    )  # fmt: skip
sample(
    "conv3d", lambda x, w: convolution_nd.conv3d(x, w, 2, "SAME", "NCDHW"), first(volumes.reshape(2, 3, 12, 2)).reshape(
        2, 2, 3, 4, 3), blocks,
    reference=lambda x, w: np.moveaxis(convolved(volumes, w, (2, 2, 2), "SAME"), -1, 1),
)  # fmt: skip

for window, strides, padding in [((2, 2, 2), (1, 2, 1), "SAME"), ((1, 3, 2), (2, 1, 1), "VALID")]:
    attrs = {"ksize": (1, *window, 1), "strides": (1, *strides, 1), "padding": padding, "data_format": "NDHWC"}
    how = window, strides, padding
    dy = normal(*pooled(heights, *how, function=np.max).shape)
    for name, function in [("max_pool3d", np.max), ("avg_pool3d", np.mean)]:
        sample(
            name, functools.partial(getattr(pooling, name), **attrs), heights,
            reference=lambda x, how=how, f=function: pooled(x, *how, function=f),
        )  # fmt: skip
    sample(
        "max_pool3d_grad",
        lambda x, dy, a=attrs: pooling.max_pool3d_grad(x, pooling.max_pool3d(x, **a), dy, **a), heights, dy,
    )  # fmt: skip
    sample(
        "max_pool3d_grad_grad",
        lambda x, dx, a=attrs: pooling.max_pool3d_grad_grad(x, pooling.max_pool3d(x, **a), dx, **a),
        heights, volumes,
    )  # fmt: skip
    sample("avg_pool3d_grad", lambda dy, a=attrs: pooling.avg_pool3d_grad(heights.shape, dy, **a), dy)

for times, how in [
    (1, ((1, 1), "SAME")),
    (3, ((2, 1), "VALID")),
    (2, ((1, 2), ((2, 1), (0, 3)))),
    (1, ((1, 1), "SAME", (2, 1))),
]:
    strides, padding, dilations = (*how, (1, 1))[:3]
    pairs = padding if isinstance(padding, str) else ((0, 0), *padding, (0, 0))
    attrs = {"strides": (1, *strides, 1), "padding": pairs, "dilations": (1, *dilations, 1)}
    filters = normal(3, 2, 2, times)
    dy = normal(*convolved(images, by_channel(filters), *how).shape)
    sample(
        "depthwise_conv2d_native",
        lambda x, w, a=attrs: depthwise.depthwise_conv2d_native(x, w, **a), images, filters,
        reference=lambda x, w, how=how: convolved(x, by_channel(w), *how),
    )  # fmt: skip
    sample(
        "depthwise_conv2d_native_backprop_input",
        lambda w, dy, a=attrs: depthwise.depthwise_conv2d_native_backprop_input(images.shape, w, dy, **a), filters, dy,
        reference=lambda w, dy, how=how: spread(images.shape, by_channel(w), dy, *how),
    )  # fmt: skip
    sample(
        "depthwise_conv2d_native_backprop_filter",
        lambda x, dy, a=attrs, w=filters: depthwise.depthwise_conv2d_native_backprop_filter(x, w.shape, dy, **a),
        images, dy,
        reference=lambda x, dy, how=how, w=filters: diagonal(
            correlated(x, by_channel(w).shape, dy, *how), w.shape[3]
        ),
    )  # fmt: skip
sample(
    "depthwise_conv2d_native",
    lambda x, w: depthwise.depthwise_conv2d_native(x, w, 1, "SAME", "NCHW"), first(images), filters,
    reference=lambda x, w: first(convolved(last(x), by_channel(w), (1, 1), "SAME")),
)  # fmt: skip
sample(
    "depthwise_conv2d_native", lambda x, w: depthwise.depthwise_conv2d_native(x, w, 1, "SAME"), images[:0], filters,
    reference=lambda x, w: np.zeros((0, 5, 4, 2)),
)  # fmt: skip


def with_place(x, window, strides, padding, numbered_through):
    y = pooled(x, window, strides, padding, function=np.max)
    number = np.arange(x.size).reshape(x.shape) % (x.size if numbered_through else x[0].size)
    index = np.zeros(y.shape, np.int64)
    for where, pairs in places(x.shape[1:-1], window, strides, padding):
        seen = np.array([x[(slice(None), *at)] for at, _ in pairs]).argmax(0)
        numbers = np.array([number[(slice(None), *at)] for at, _ in pairs])
        index[(slice(None), *where)] = np.take_along_axis(numbers, seen[None], 0)[0]
    return y, index


for window, strides, padding, whole in [((2, 2), (2, 2), "SAME", False), ((3, 2), (1, 1), "VALID", True)]:
    attrs = {"ksize": (1, *window, 1), "strides": (1, *strides, 1), "padding": padding}
    inside = {**attrs, "include_batch_in_index": whole}
    values, index = with_place(levels, window, strides, padding, whole)
    sample(
        "max_pool_with_argmax", lambda x, a=inside: pooling_argmax.max_pool_with_argmax(x, **a), levels,
        reference=lambda x, how=(window, strides, padding, whole): with_place(x, *how),
    )  # fmt: skip
    sample(
        "max_pool_grad_with_argmax",
        lambda x, dy, i, a=inside: pooling_argmax.max_pool_grad_with_argmax(x, dy, i, **a),
        levels, normal(*index.shape), index,
    )  # fmt: skip
    sample(
        "max_pool_grad_grad_with_argmax",
        lambda x, dx, i, a=inside: pooling_argmax.max_pool_grad_grad_with_argmax(x, dx, i, **a), levels, images, index,
        reference=lambda x, dx, i, whole=whole: dx.ravel()[i] if whole else np.stack(
            [one.ravel()[at] for one, at in zip(dx, i, strict=True)]
        ),
    )  # fmt: skip
