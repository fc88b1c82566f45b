"""Pooling: the highest element, or the mean, of each window of an image, with gradients.

A window that slides over rows and columns is first folded along the rows, then along the columns: at each step whole
slices of the image are combined, one per element of the window.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from aioflow.dtypes import FLOAT, INTEGER, Array, DType, Namespace, Spec
from aioflow.kernels import known
from aioflow.kernels.activation import Function, same_shape, wide
from aioflow.kernels.families import CPU, GPU, elements
from aioflow.kernels.shapes import shape_of
from aioflow.kernels.sliding import Slide, Sliding, either, four, images_of, spatial
from aioflow.node import Operation, Tensor
from aioflow.op import Ints, NodeView, T, op

BLOCK: Final = 4 << 20
"""Bytes of images that are pooled at a time."""


def _pooled(images: Spec, ksize: Any, sliding: Sliding) -> Spec:
    """The Spec of such images after pooling."""
    batch, height, width, channels = images_of(images, sliding)
    window = spatial(ksize, sliding.channels_last, "ksize")
    return images.with_shape(sliding.own((batch, *sliding.places((height, width), window), channels)))


def _check_pooled(images: Spec, pooled: Spec, ksize: Any, sliding: Sliding) -> None:
    expected = _pooled(images, ksize, sliding)
    if not expected.shape.is_compatible_with(pooled.shape):
        raise ValueError(f"pooling {images.shape} gives {expected.shape}, and this is {pooled.shape}")


class Pool:
    """How a node pools images of whatever size come."""

    def __init__(self, ksize: Any, **attrs: Any) -> None:
        self.sliding = Sliding.of(**attrs)
        self.window = spatial(ksize, self.sliding.channels_last, "ksize")
        self.axes = (1, 2) if self.sliding.channels_last else (2, 3)

    def sizes(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape that images of that shape are pooled to."""
        if len(shape) != 4:
            raise ValueError(f"images have 4 axes, not the shape {list(shape)}")
        batch, *size, channels = self.sliding.nhwc(shape)
        return self.sliding.own((batch, *self.sliding.places(tuple(size), self.window), channels))

    def slides(self, shape: Sequence[int]) -> tuple[Slide, Slide]:
        """How the window slides over images of that shape."""
        return self.sliding.slides(self.sliding.nhwc(shape)[1:3], self.window)

    def check(self, images: Sequence[int], pooled: Sequence[int]) -> None:
        """ValueError if images of that shape are not pooled to shape `pooled`."""
        if tuple(pooled) != self.sizes(images):
            raise ValueError(f"pooling {list(images)} gives {list(self.sizes(images))}, and this is {list(pooled)}")

    def fold(self, xp: Namespace, combine: Function, x: Array, neutral: Any) -> Array:
        """All that each window sees, combined; padding is `neutral`."""
        for axis, slide in zip(self.axes, self.slides(x.shape), strict=True):
            x = _fold(xp, combine, x, axis, slide, neutral)
        return x

    def taps(self, rows: Slide, columns: Slide) -> Iterator[tuple[Any, Any]]:
        """For each element of the window, row by row, the places that see no padding there, and what they see."""
        before = (slice(None),) * self.axes[0]
        for i in range(rows.window):
            for j in range(columns.window):
                (to_row, from_row), (to_column, from_column) = rows.tap(i), columns.tap(j)
                yield (*before, to_row, to_column), (*before, from_row, from_column)


def _fold(xp: Namespace, combine: Function, x: Array, axis: int, slide: Slide, neutral: Any) -> Array:
    """What the window sees along one axis, combined."""
    before = (slice(None),) * axis
    taps = [(*before, place) for place, _ in map(slide.tap, range(slide.window))]
    seen = [(*before, place) for _, place in map(slide.tap, range(slide.window))]
    whole = [i for i in range(slide.window) if taps[i][axis] == slice(0, slide.output)][:2]
    if len(whole) == 2:
        result = combine(x[seen[whole[0]]], x[seen[whole[1]]])
    elif whole:
        result = x[seen[whole[0]]].copy()
    else:
        result = xp.full((*x.shape[:axis], slide.output, *x.shape[axis + 1 :]), neutral, x.dtype)
    for i in range(slide.window):
        if i not in whole:
            part = result[taps[i]]
            combine(part, x[seen[i]], out=part)
    return result


def _by_images(xp: Namespace, compute: Function, sizes: Sequence[int], *arrays: Array) -> Array:
    """`compute` of some images at a time, few enough that they stay in the cache; `sizes` is the result's shape."""
    largest = max(math.prod(sizes[1:]), math.prod(arrays[0].shape[1:]), 1)
    some = max(1, BLOCK // (largest * arrays[0].itemsize))
    if sizes[0] <= some:
        return compute(*arrays)
    result = xp.empty(sizes, arrays[0].dtype)
    for first in range(0, sizes[0], some):
        result[first : first + some] = compute(*[array[first : first + some] for array in arrays])
    return result


def _lowest(dtype: DType) -> Any:
    return dtype.np.type(-np.inf if dtype.is_floating else dtype.min)


# The highest element


@op(name="max_pool")
def _max_pool(value: Spec, ksize: Any, strides: Any, padding: Any, data_format: str = "NHWC") -> Spec:
    """The highest element of each window; padding is lower than all."""
    return _pooled(value.only(FLOAT, INTEGER), ksize, Sliding.of(strides, padding, data_format))


@op
def max_pool_grad(
    orig_input: T, orig_output: T, grad: T, ksize: Any, strides: Any, padding: Any, data_format: str = "NHWC"
) -> Spec:
    """`grad` where each window has its highest element, the first if there are several: the gradient of `max_pool`."""
    orig_input.only(FLOAT, INTEGER).same_dtype(orig_output, grad)
    _check_pooled(orig_input, orig_output, ksize, Sliding.of(strides, padding, data_format))
    same_shape(orig_output, grad)
    return Spec(orig_input.dtype, orig_input.shape)


@op
def max_pool_grad_grad(
    orig_input: T, orig_output: T, grad: T, ksize: Any, strides: Any, padding: Any, data_format: str = "NHWC"
) -> Spec:
    """For each window, the element of `grad` that lies where the window has its highest: of the shape of the output."""
    orig_input.only(FLOAT, INTEGER).same_dtype(orig_output, grad)
    _check_pooled(orig_input, orig_output, ksize, Sliding.of(strides, padding, data_format))
    same_shape(orig_input, grad)
    return Spec(orig_output.dtype, orig_output.shape)


@_max_pool.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return max_pool_grad(op.inputs[0], op.output, dy, **op.attrs)


@max_pool_grad.gradient
def _(op: Operation, dz: Tensor) -> tuple[None, None, Tensor]:
    x, y, _ = op.inputs
    return None, None, max_pool_grad_grad(x, y, dz, **op.attrs)


@max_pool_grad_grad.gradient
def _(op: Operation, dz: Tensor) -> tuple[None, None, Tensor]:
    x, y, _ = op.inputs
    return None, None, max_pool_grad(x, y, dz, **op.attrs)


@_max_pool.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    pool, lowest = Pool(**node.attrs), _lowest(node.output_specs[0].dtype)
    return lambda x: _by_images(xp, lambda x: pool.fold(xp, xp.maximum, x, lowest), pool.sizes(x.shape), x)


def _hits(xp: Namespace, x: Array, y: Array, pool: Pool) -> Iterator[tuple[Any, Any, Array]]:
    """For each element of the window: the places that see it, what they see, and where that is the first highest."""
    found = xp.zeros(y.shape, bool)
    for place, seen in pool.taps(*pool.slides(x.shape)):
        hit = xp.equal(x[seen], y[place])
        xp.greater(hit, found[place], out=hit)  # hit and not found
        found[place] |= hit
        yield place, seen, hit


@max_pool_grad.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    pool = Pool(**node.attrs)

    def some(x: Array, y: Array, dy: Array) -> Array:
        dx = xp.zeros(x.shape, x.dtype)
        for place, seen, hit in _hits(xp, x, y, pool):
            dx[seen] += dy[place] * hit
        return dx

    def compute(x: Array, y: Array, dy: Array) -> Array:
        pool.check(x.shape, y.shape)
        return _by_images(xp, some, x.shape, x, y, dy)

    return compute


@max_pool_grad_grad.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    pool = Pool(**node.attrs)

    def some(x: Array, y: Array, dx: Array) -> Array:
        dy = xp.zeros(y.shape, y.dtype)
        for place, seen, hit in _hits(xp, x, y, pool):
            dy[place] += dx[seen] * hit
        return dy

    def compute(x: Array, y: Array, dx: Array) -> Array:
        pool.check(x.shape, y.shape)
        return _by_images(xp, some, y.shape, x, y, dx)

    return compute


# The mean


@op(name="avg_pool")
def _avg_pool(value: Spec, ksize: Any, strides: Any, padding: Any, data_format: str = "NHWC") -> Spec:
    """The mean of each window, of its elements that are no padding."""
    return _pooled(value.only(FLOAT), ksize, Sliding.of(strides, padding, data_format))


@op
def avg_pool_grad(
    orig_input_shape: Ints, grad: Spec, ksize: Any, strides: Any, padding: Any, data_format: str = "NHWC"
) -> Spec:
    """The gradient of `avg_pool` for images of shape `orig_input_shape`: each window's share for each element."""
    whole = grad.only(FLOAT).with_shape(known.shape(orig_input_shape, "orig_input_shape").with_rank(4))
    _check_pooled(whole, grad, ksize, Sliding.of(strides, padding, data_format))
    return whole


@_avg_pool.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return avg_pool_grad(shape_of(op.inputs[0]), dy, **op.attrs)


@avg_pool_grad.gradient
def _(op: Operation, dz: Tensor) -> tuple[None, Tensor]:
    return None, _avg_pool(dz, **op.attrs)


@functools.lru_cache(maxsize=256)
def _counts(slide: Slide) -> Array:
    """How many elements that are no padding the window sees at each place."""
    counts = np.zeros(slide.output, np.float32)
    for place, _ in map(slide.tap, range(slide.window)):
        counts[place] += 1
    return counts


def _shares(xp: Namespace, pool: Pool, rows: Slide, columns: Slide, dtype: Any) -> Array:
    """What one element of a window weighs in its mean; 0 for a window that sees padding only."""
    counts = np.outer(_counts(rows), _counts(columns)).astype(dtype)
    shares = np.divide(1, counts, out=np.zeros_like(counts), where=counts > 0)
    return xp.asarray(shares[..., None] if pool.sliding.channels_last else shares)


@wide(_avg_pool)
def _(xp: Namespace, node: NodeView) -> Function:
    pool = Pool(**node.attrs)

    def compute(x: Array) -> Array:
        sizes = pool.sizes(x.shape)
        total = _by_images(xp, lambda x: pool.fold(xp, xp.add, x, 0), sizes, x)
        total *= _shares(xp, pool, *pool.slides(x.shape), x.dtype)
        return total

    return compute


@wide(avg_pool_grad)
def _(xp: Namespace, node: NodeView) -> Function:
    pool = Pool(**node.attrs)

    def compute(sizes: Array, dy: Array) -> Array:
        whole = sizes.tolist()
        pool.check(whole, dy.shape)
        slides = pool.slides(whole)
        share = dy * _shares(xp, pool, *slides, dy.dtype)
        return _by_images(xp, lambda share: _unfold(xp, pool, slides, whole, share), whole, share)

    return compute


def _unfold(xp: Namespace, pool: Pool, slides: tuple[Slide, Slide], sizes: Sequence[int], share: Array) -> Array:
    """Each window's share, added to all elements that the window sees."""
    dx = xp.zeros((len(share), *sizes[1:]), share.dtype)
    for place, seen in pool.taps(*slides):
        dx[seen] += share[place]
    return dx


def _cost(per_tap: float, image: int) -> Any:
    def cost(inputs: Sequence[Spec], outputs: Sequence[Spec], attrs: Any) -> float:
        pooled = [*inputs, *outputs][image]
        taps = spatial(attrs["ksize"], attrs["data_format"] == "NHWC", "ksize")
        return per_tap * elements(pooled) * taps[0] * taps[1]

    return cost


_max_pool.cost(_cost(1, 1))
max_pool_grad.cost(_cost(5, 2))
max_pool_grad_grad.cost(_cost(5, 1))
_avg_pool.cost(_cost(1, 1))
avg_pool_grad.cost(_cost(1, 1))


# What users call


def max_pool(
    value: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    """The highest element of each window of images.

    Args:
        value: images [batch, height, width, channels], or [batch, channels, height, width] with 'NCHW'.
        ksize: the size of the window: one number, one for height and width each, or one per axis of `value`.
        strides: by how much the window moves, given as `ksize` is.
        padding: "SAME" or "VALID".
        data_format: "NHWC" or "NCHW".
        name: the name of the operation.
        input: another name for `value`.
    """
    images = either(value, input, "value, input")
    return _max_pool(images, four(ksize, data_format), four(strides, data_format), padding, data_format, name=name)


def avg_pool(
    value: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    """The mean of each window of images, without padding; arguments as of `max_pool`."""
    images = either(value, input, "value, input")
    return _avg_pool(images, four(ksize, data_format), four(strides, data_format), padding, data_format, name=name)


__all__ = ["avg_pool", "max_pool"]
