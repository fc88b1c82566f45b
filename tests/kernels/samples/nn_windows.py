import itertools

import numpy as np

from aioflow.kernels.nn import convolution, pooling
from aioflow.kernels.nn.channel_shuffle import channel_shuffle
from aioflow.kernels.nn.channel_steps import channel_steps
from aioflow.kernels.nn.convolution import conv2d_with_bias
from aioflow.kernels.nn.fused_convolution import fused_conv2d
from tests.kernels.samples import sample

rng = np.random.default_rng(5)
images = np.round(rng.normal(size=(2, 5, 4, 2)), 2)
filters = np.round(rng.normal(size=(3, 2, 2, 3)), 2)
levels = rng.permutation(80).reshape(2, 5, 4, 2) / 7.0  # no two elements are near each other


def around(padding, size, reach, stride):
    """Padding before and after one axis."""
    if padding == "SAME":
        total = max((-(-size // stride) - 1) * stride + reach - size, 0)
        return total // 2, total - total // 2
    return (0, 0) if padding == "VALID" else padding


def places(shape, window, strides, padding, dilations=(1, 1)):
    """For each place of a window: where it is, and the rows and columns it sees that are no padding."""
    pairs = (padding, padding) if isinstance(padding, str) else padding[1:3]
    seen = []
    for size, over, stride, dilation, pair in zip(shape[1:3], window, strides, dilations, pairs, strict=True):
        reach = (over - 1) * dilation + 1
        before, after = around(pair, size, reach, stride)
        starts = range(-before, size + after - reach + 1, stride)
        seen.append([[(start + i * dilation, i) for i in range(over)] for start in starts])
    for (row, rows), (column, columns) in itertools.product(enumerate(seen[0]), enumerate(seen[1])):
        pixels = [
            (y, x, i, j) for (y, i), (x, j) in itertools.product(rows, columns)
            if 0 <= y < shape[1] and 0 <= x < shape[2]
        ]  # fmt: skip
        yield row, column, pixels


def sizes(*args):
    last = list(places(*args))[-1]
    return last[0] + 1, last[1] + 1


def convolved(x, w, *how):
    y = np.zeros((len(x), *sizes(x.shape, w.shape[:2], *how), w.shape[3]))
    for row, column, pixels in places(x.shape, w.shape[:2], *how):
        for at_y, at_x, i, j in pixels:
            y[:, row, column] += x[:, at_y, at_x] @ w[i, j]
    return y


def spread(shape, w, dy, *how):
    x = np.zeros(shape)
    for row, column, pixels in places(shape, w.shape[:2], *how):
        for at_y, at_x, i, j in pixels:
            x[:, at_y, at_x] += dy[:, row, column] @ w[i, j].T
    return x


def correlated(x, shape, dy, *how):
    w = np.zeros(shape)
    for row, column, pixels in places(x.shape, shape[:2], *how):
        for at_y, at_x, i, j in pixels:
            w[i, j] += x[:, at_y, at_x].T @ dy[:, row, column]
    return w


def pooled(x, window, *how, function):
    y = np.zeros((len(x), *sizes(x.shape, window, *how), x.shape[3]))
    for row, column, pixels in places(x.shape, window, *how):
        y[:, row, column] = function([x[:, at_y, at_x] for at_y, at_x, _, _ in pixels], axis=0)
    return y


def first(x):
    """Channels first."""
    return np.moveaxis(x, 3, 1).copy()


def last(x):
    return np.moveaxis(x, 1, 3)


EXPLICIT = ((0, 0), (2, 1), (0, 3), (0, 0))
for how in [
    ((1, 1), "SAME"),
    ((1, 1), "VALID"),
    ((2, 3), "SAME"),
    ((2, 1), "VALID"),
    ((1, 2), EXPLICIT),
    ((1, 1), "SAME", (2, 1)),
    ((2, 1), "VALID", (1, 3)),
]:
    strides, padding, dilations = (*how, (1, 1))[:3]
    attrs = {"strides": (1, *strides, 1), "padding": padding, "dilations": (1, *dilations, 1)}
    dy = np.round(rng.normal(size=convolved(images, filters, *how).shape), 2)
    sample(
        "conv2d", lambda x, w, a=attrs: convolution.conv2d(x, w, **a), images, filters,
        reference=lambda x, w, how=how: convolved(x, w, *how),
    )  # fmt: skip
    sample(
        "conv2d_backprop_input",
        lambda w, dy, a=attrs: convolution.conv2d_backprop_input(images.shape, w, dy, **a), filters, dy,
        reference=lambda w, dy, how=how: spread(images.shape, w, dy, *how),
    )  # fmt: skip
    sample(
        "conv2d_backprop_filter",
        lambda x, dy, a=attrs: convolution.conv2d_backprop_filter(x, filters.shape, dy, **a), images, dy,
        reference=lambda x, dy, how=how: correlated(x, filters.shape, dy, *how),
    )  # fmt: skip

one = filters[:1, :1]
sample(
    "conv2d_with_bias",
    lambda x, w, b: conv2d_with_bias(x, w, b, (1, 1, 1, 1), "SAME"),
    images,
    one,
    np.arange(one.shape[-1], dtype=float),
    reference=lambda x, w, b: x @ w[0, 0] + b,
)
sample(
    "conv2d_with_bias",
    lambda x, w, b: conv2d_with_bias(x, w, b, (1, 1, 2, 2), "SAME", "NCHW"),
    first(images),
    filters,
    np.arange(filters.shape[-1], dtype=float),
)
vector = np.array([1.5, 0.5, 2.0])
added = rng.normal(size=(2, 5, 4, 3))
chain = ("add", "normalise", "multiply", "sum", "relu")
sample(
    "fused_conv2d",
    lambda x, w, b, y: fused_conv2d(
        x, w, [b] * 6 + [y], chain, (0.5,), "conv2d", 1, (1, 1, 1, 1), "SAME", (1, 1, 1, 1)
    ),
    images, one, vector, added,
    reference=lambda x, w, b, y: np.maximum(((x @ w[0, 0]) / np.sqrt(b + 0.5) * b + b) * b + y, 0),
)  # fmt: skip
halves = lambda x, w: np.concatenate([x[..., :1] @ w[0, 0, :1, :2], x[..., 1:] @ w[0, 0, :1, 2:]], -1)  # noqa: E731
sample(
    "fused_conv2d",
    lambda x, w: fused_conv2d(x, w, [], (), (), "conv2d", 2, (1, 1, 1, 1), "SAME", (1, 1, 1, 1)),
    images, filters[:1, :1, :1, [0, 1, 2, 0]],
    reference=halves,
)  # fmt: skip
sample(
    "channel_steps",
    lambda x, b: channel_steps(x, [b] * 6, ("add", "normalise", "multiply", "relu"), (0.5,)),
    added, vector,
    reference=lambda x, b: np.maximum((x / np.sqrt(b + 0.5) * b + b) * b, 0),
)  # fmt: skip
sample(
    "channel_shuffle",
    lambda x: channel_shuffle(x, 2),
    rng.normal(size=(2, 3, 6)),
    reference=lambda x: x[..., [0, 3, 1, 4, 2, 5]],
)
sample("channel_shuffle", lambda x: channel_shuffle(x, 1), rng.normal(size=(2, 3, 6)), reference=np.array)
sample("channel_shuffle", lambda x: channel_shuffle(x, 6), rng.normal(size=(2, 3, 6)), reference=np.array)
sample("channel_steps", lambda x, b: channel_steps(x, [b], ("add",), ()), added[:0], vector, reference=np.add)
sample("conv2d", lambda x, w: convolution.conv2d(x, w, 1, "SAME"), images, one, reference=lambda x, w: x @ w[0, 0])
sample(
    "conv2d",
    lambda x, w: convolution.conv2d(x, w, 1, "SAME"),
    images[:0],
    filters,
    reference=lambda x, w: np.zeros((0, 5, 4, 3)),
)
sample(
    "conv2d", lambda x, w: convolution.conv2d(x, w, 2, "SAME", data_format="NCHW"), first(images), filters,
    reference=lambda x, w: first(convolved(last(x), w, (2, 2), "SAME")),
)  # fmt: skip
explicit_first = (EXPLICIT[0], EXPLICIT[3], *EXPLICIT[1:3])
sample(
    "conv2d", lambda x, w: convolution.conv2d(x, w, 1, explicit_first, data_format="NCHW"), first(images), filters,
    reference=lambda x, w: first(convolved(last(x), w, (1, 1), EXPLICIT)),
)  # fmt: skip
sample(
    "conv2d_backprop_input",
    lambda sizes, w, dy: convolution.conv2d_backprop_input(sizes, w, dy, 2, "SAME"),
    np.array(images.shape, np.int32), filters, np.round(rng.normal(size=(2, 3, 2, 3)), 2),
    reference=lambda sizes, w, dy: spread(sizes, w, dy, (2, 2), "SAME"),
)  # fmt: skip

for window, strides, padding in [
    ((2, 2), (2, 2), "VALID"),
    ((3, 2), (1, 1), "SAME"),
    ((3, 3), (2, 2), "SAME"),
    ((2, 3), (2, 1), "VALID"),
    ((1, 1), (2, 2), "SAME"),
]:
    attrs = {"ksize": (1, *window, 1), "strides": (1, *strides, 1), "padding": padding, "data_format": "NHWC"}
    how = window, strides, padding
    dy = np.round(rng.normal(size=pooled(levels, *how, function=np.max).shape), 2)
    for name, function in [("max_pool", np.max), ("avg_pool", np.mean)]:
        op = getattr(pooling, name)
        sample(
            name, lambda x, op=op, a=attrs: op(x, **a), levels,
            reference=lambda x, how=how, f=function: pooled(x, *how, function=f),
        )  # fmt: skip
        sample(
            name, lambda x, op=op, w=window, s=strides, p=padding: op(x, w, s, p, "NCHW"), first(levels),
            reference=lambda x, how=how, f=function: first(pooled(last(x), *how, function=f)),
        )  # fmt: skip
    sample(
        "max_pool_grad", lambda x, dy, a=attrs: pooling.max_pool_grad(x, pooling.max_pool(x, **a), dy, **a), levels, dy
    )
    sample(
        "max_pool_grad_grad",
        lambda x, dx, a=attrs: pooling.max_pool_grad_grad(x, pooling.max_pool(x, **a), dx, **a), levels, images,
    )  # fmt: skip
    sample("avg_pool_grad", lambda dy, a=attrs: pooling.avg_pool_grad(levels.shape, dy, **a), dy)

sample(
    "max_pool", lambda x: pooling.max_pool(x, 2, 2, "SAME"), (levels * 7).astype(np.int32),
    reference=lambda x: pooled(x, (2, 2), (2, 2), "SAME", function=np.max).astype(np.int32),
)  # fmt: skip
sample("max_pool", lambda x: pooling.max_pool(x, 2, 2, "SAME"), levels[:0], reference=lambda x: np.zeros((0, 3, 2, 2)))
