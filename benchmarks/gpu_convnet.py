"""The SGD step of the LeNet-style net: as a graph on a device, and by hand with an array module, NumPy or CuPy.

By hand calls the same kernels that the graph's ops call on a GPU: patches become the rows of a matrix, BLOCK bytes of
them at a time, and are gathered again for the gradient of the filters; the gradient of images is a convolution. The
difference is the cost, or the gain, of a graph and a session.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

from benchmarks import peers
from benchmarks.harness import Step
from benchmarks.lenet import CLASSES, Problem
from benchmarks.lenet.with_aioflow import model

Array = Any

BLOCK = 256 << 20
"""Bytes of patches that are computed at a time."""


@asynccontextmanager
async def by_graph(problem: Problem, device: str, **config: Any) -> AsyncIterator[Step]:
    """Yield a step that trains once on the batch, fed from host memory, and fetches its loss; all on that device."""
    af = peers.aioflow()
    graph = af.Graph()
    with graph.as_default(), af.device(device):
        images, logits = model(problem)
        labels = af.placeholder(af.int32, [None], name="labels")
        loss = af.reduce_mean(af.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        train = af.train.GradientDescentOptimizer(problem.rate).minimize(loss)
        init = af.global_variables_initializer()
    async with af.Session(graph=graph, config=af.Config(**config)) as session:
        await session.run(init)
        call = session.make_callable([loss, train], feeds=[images, labels])

        async def step() -> Any:
            value, _ = await call(problem.images, problem.labels)
            return value

        yield step


def by_hand(xp: Any, problem: Problem) -> Callable[[], Array]:
    """Return the same step by hand; its loss stays in the memory of `xp`."""
    layers = [(xp.asarray(weights), xp.asarray(bias)) for weights, bias in problem.layers()]

    def step() -> Array:
        images, labels = xp.asarray(problem.images), xp.asarray(problem.labels)
        seen, logits = forward(xp, layers, images)
        loss, delta = cross_entropy(xp, logits, labels)
        for (weights, bias), (weights_step, bias_step) in zip(layers, backward(xp, layers, seen, delta), strict=True):
            weights -= problem.rate * weights_step
            bias -= problem.rate * bias_step
        return loss

    return step


def forward(xp: Any, layers: list[Any], images: Array) -> tuple[list[Any], Array]:
    """Return the inputs and activations of each layer but the last, and the logits."""
    seen: list[Any] = []
    hidden = images
    for weights, bias in layers[:2]:
        active = xp.maximum(convolved(xp, hidden, weights) + bias, 0)
        pooled = highest(xp, active)
        seen.append((hidden, active, pooled))
        hidden = pooled
    (weights, bias), (last_weights, last_bias) = layers[2:]
    flat = hidden.reshape(len(hidden), -1)
    active = xp.maximum(flat @ weights + bias, 0)
    seen.append((flat, active))
    return seen, active @ last_weights + last_bias


def backward(xp: Any, layers: list[Any], seen: list[Any], delta: Array) -> list[tuple[Array, Array]]:
    """Return the gradients of each layer's weights and bias, all computed before any update."""
    first, second, (flat, active) = seen
    gradients = [(active.T @ delta, summed(xp, delta))]
    delta = (delta @ layers[3][0].T) * (active > 0)
    gradients.append((flat.T @ delta, summed(xp, delta)))
    delta = (delta @ layers[2][0].T).reshape(second[2].shape)
    for (images, active, pooled), (weights, _) in ((second, layers[1]), (first, layers[0])):
        delta = at_highest(xp, active, pooled, delta) * (active > 0)
        gradients.append((correlated(xp, images, delta, weights.shape), summed(xp, delta)))
        if images is not first[0]:
            delta = spread(xp, weights, delta)
    return gradients[::-1]


def cross_entropy(xp: Any, logits: Array, labels: Array) -> tuple[Array, Array]:
    """Return the mean loss and its gradient by the logits."""
    shifted = logits - logits.max(1, keepdims=True)
    powers = xp.exp(shifted)
    total = powers.sum(1, keepdims=True)
    chosen = labels[:, None] == xp.arange(CLASSES)
    loss = (xp.log(total)[:, 0] - xp.where(chosen, shifted, 0).sum(1)).mean()
    return loss, (powers / total - chosen) / len(labels)


# Convolution with stride 1 and SAME padding, filters of odd sizes


def blocks(count: int, each: int, size: int) -> Iterator[slice]:
    """Yield slices of images with at most `size` bytes at `each` bytes per image."""
    some = max(1, size // each)
    return (slice(start, start + some) for start in range(0, count, some))


def patches(xp: Any, x: Array, height: int, width: int) -> Iterator[tuple[slice, Array]]:
    """Yield slices of images, and their patches as the rows of a matrix."""
    batch, rows, columns, channels = x.shape
    up, left = height // 2, width // 2
    for some in blocks(batch, rows * columns * height * width * channels * x.itemsize, BLOCK):
        part = x[some]
        padded = xp.zeros((len(part), rows + 2 * up, columns + 2 * left, channels), x.dtype)
        padded[:, up : up + rows, left : left + columns] = part
        image, row, column, channel = padded.strides
        shape = (len(part), rows, columns, height, width, channels)
        view = xp.lib.stride_tricks.as_strided(padded, shape, (image, row, column, row, column, channel))
        yield some, view.reshape(-1, height * width * channels)


def convolved(xp: Any, x: Array, weights: Array) -> Array:
    """Return each patch times the filters."""
    height, width, _, outputs = weights.shape
    y = xp.empty((*x.shape[:-1], outputs), x.dtype)
    filters = weights.reshape(-1, outputs)
    for some, rows in patches(xp, x, height, width):
        xp.matmul(rows, filters, out=y[some].reshape(-1, outputs))
    return y


def correlated(xp: Any, x: Array, dy: Array, shape: tuple[int, ...]) -> Array:
    """Return the gradient of filters of that shape."""
    height, width, channels, outputs = shape
    total = xp.zeros((height * width * channels, outputs), x.dtype)
    for some, rows in patches(xp, x, height, width):
        total += rows.T @ dy[some].reshape(-1, outputs)
    return total.reshape(shape)


def spread(xp: Any, weights: Array, dy: Array) -> Array:
    """Return the gradient of images: the turned filters slide over that of the outputs."""
    return convolved(xp, dy, weights[::-1, ::-1].swapaxes(2, 3))


def summed(xp: Any, delta: Array) -> Array:
    """Return the gradient of a bias, as a product, which is faster than CuPy's sum over the first axes."""
    rows = delta.reshape(-1, delta.shape[-1])
    return xp.matmul(xp.ones((1, len(rows)), rows.dtype), rows)[0]


# 2x2 pooling of images of even sizes


def highest(xp: Any, x: Array) -> Array:
    """Return the largest element of each window."""
    batch, rows, columns, channels = x.shape
    y = xp.empty((batch, rows // 2, columns // 2, channels), x.dtype)
    for some in blocks(batch, rows * columns * channels * x.itemsize, BLOCK):
        part = xp.maximum(x[some, ::2], x[some, 1::2])
        xp.maximum(part[:, :, ::2], part[:, :, 1::2], out=y[some])
    return y


def at_highest(xp: Any, x: Array, y: Array, dy: Array) -> Array:
    """Return `dy` at the first largest element `y` of each window of `x`, else 0."""
    batch, rows, columns, channels = x.shape
    dx = xp.zeros(x.shape, x.dtype)
    for some in blocks(batch, rows * columns * channels * x.itemsize, BLOCK):
        found = xp.zeros(y[some].shape, bool)
        for i in range(2):
            for j in range(2):
                hit = xp.greater(x[some, i::2, j::2] == y[some], found)
                found |= hit
                dx[some, i::2, j::2] += dy[some] * hit
    return dx
