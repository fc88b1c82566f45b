"""Pooling: the highest element, or the mean, of each window of an image or volume, with gradients.

A window that slides over rows and columns is first folded along the rows, then along the columns: at each step whole
slices of the image are combined, one per element of the window. All is written for any number of spatial axes.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, Op, T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels import known
from aioflow.kernels.array.concat import unstack
from aioflow.kernels.array.shapes import reshape, shape, shape_of
from aioflow.kernels.families import CPU, GPU, elements
from aioflow.kernels.nn import onednn_pooling
from aioflow.kernels.nn.activation import Binding, Function, same_shape, wide
from aioflow.kernels.nn.windows import FORMATS, Slide, Slides, Sliding, either, images_of, per_axis, spatial, taps
from aioflow.tensors.dtypes import FLOAT, INTEGER, Array, DType, Namespace, Spec

BLOCK: Final = 4 << 20
"""Bytes of images that are pooled at a time."""


class Pool:
    """The window, strides and padding of a node, for images of any size."""

    def __init__(self, axes: int, ksize: Any, **attrs: Any) -> None:
        self.sliding: Sliding = Sliding.of(**attrs, axes=axes)
        self.window: tuple[int, ...] = spatial(ksize, self.sliding.channels_last, "ksize", axes)
        first = 1 if self.sliding.channels_last else 2
        self.axes: range = range(first, first + axes)

    def spec(self, images: Spec) -> Spec:
        """The Spec of such images after pooling."""
        batch, *size, channels = images_of(images, self.sliding)
        places = self.sliding.places(tuple(size), self.window)
        return images.with_shape(self.sliding.own((batch, *places, channels)))

    def check_spec(self, images: Spec, pooled: Spec) -> None:
        """ValueError if such images cannot be pooled to `pooled`."""
        expected = self.spec(images)
        if not expected.shape.is_compatible_with(pooled.shape):
            raise ValueError(f"pooling {images.shape} gives {expected.shape}, and this is {pooled.shape}")

    def sizes(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape that images of that shape are pooled to."""
        self.sliding.check_rank(shape)
        batch, *size, channels = self.sliding.nhwc(shape)
        return self.sliding.own((batch, *self.sliding.places(tuple(size), self.window), channels))

    def slides(self, shape: Sequence[int]) -> Slides:
        """How the window slides over images of that shape."""
        return self.sliding.slides(self.sliding.nhwc(shape)[1:-1], self.window)

    def check(self, images: Sequence[int], pooled: Sequence[int]) -> None:
        """ValueError if images of that shape are not pooled to shape `pooled`."""
        if tuple(pooled) != self.sizes(images):
            raise ValueError(f"pooling {list(images)} gives {list(self.sizes(images))}, and this is {list(pooled)}")

    def fold(self, xp: Namespace, combine: Function, x: Array, neutral: Any) -> Array:
        """All that each window sees, combined; padding is `neutral`."""
        for axis, slide in zip(self.axes, self.slides(x.shape), strict=True):
            x = _fold(xp, combine, x, axis, slide, neutral)
        return x

    def taps(self, slides: Slides) -> Iterator[tuple[Any, Any]]:
        """The places where each element of the window is not on padding, and the elements under it, row by row."""
        before = (slice(None),) * (self.axes[0] - 1)
        for _, places, seen in taps(slides):
            yield (*before, *places), (*before, *seen)


def _fold(xp: Namespace, combine: Function, x: Array, axis: int, slide: Slide, neutral: Any) -> Array:
    """The combination of the elements under the window along one axis."""
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


def by_images(xp: Namespace, compute: Function, sizes: Sequence[int], *arrays: Array) -> Array:
    """`compute` of some images at a time, few enough that they stay in a CPU's cache; `sizes` is the result's shape."""
    if xp is not np:
        return compute(*arrays)
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


def max_pooling(name: str, axes: int) -> tuple[Op[Tensor], Op[Tensor], Op[Tensor]]:
    """Declare max pooling with windows of that many axes, its gradient and its second gradient."""
    usual = FORMATS[axes][0]

    def rule(value: Spec, ksize: Any, strides: Any, padding: Any, data_format: str = usual) -> Spec:
        return Pool(axes, ksize, strides=strides, padding=padding, data_format=data_format).spec(
            value.only(FLOAT, INTEGER)
        )

    rule.__doc__ = "The highest element of each window; padding is lower than all."
    pool = op(name=name)(rule)
    grad, grad_grad, spread = _max_pool_grads(name, axes)
    pool.gradient(lambda op, dy: grad(op.inputs[0], op.output, dy, **op.attrs))
    for one, other in (grad, grad_grad), (grad_grad, grad):
        _through_the_same(one, other)

    @pool.kernel(CPU, GPU, fresh=True, binds=True)
    def pooled(xp: Namespace, node: NodeView) -> Function:
        pool, lowest = Pool(axes, **node.attrs), _lowest(node.output_specs[0].dtype)
        return lambda x: by_images(xp, lambda x: pool.fold(xp, xp.maximum, x, lowest), pool.sizes(x.shape), x)

    onednn_pooling.declare(True, (pool, grad), (pooled, spread), lambda node: Pool(axes, **node.attrs))
    _costs(pool, 1, 1)
    _costs(grad, 5, 2)
    _costs(grad_grad, 5, 1)
    return pool, grad, grad_grad


def _max_pool_grads(name: str, axes: int) -> tuple[Op[Tensor], Op[Tensor], Binding]:
    """The gradient, its own, and the kernel of the first that needs NumPy alone."""
    usual = FORMATS[axes][0]

    def grad(
        orig_input: T, orig_output: T, grad: T, ksize: Any, strides: Any, padding: Any, data_format: str = usual
    ) -> Spec:
        orig_input.only(FLOAT, INTEGER).same_dtype(orig_output, grad)
        pool = Pool(axes, ksize, strides=strides, padding=padding, data_format=data_format)
        pool.check_spec(orig_input, orig_output)
        same_shape(orig_output, grad)
        return Spec(orig_input.dtype, orig_input.shape)

    def grad_grad(
        orig_input: T, orig_output: T, grad: T, ksize: Any, strides: Any, padding: Any, data_format: str = usual
    ) -> Spec:
        orig_input.only(FLOAT, INTEGER).same_dtype(orig_output, grad)
        pool = Pool(axes, ksize, strides=strides, padding=padding, data_format=data_format)
        pool.check_spec(orig_input, orig_output)
        same_shape(orig_input, grad)
        return Spec(orig_output.dtype, orig_output.shape)

    grad.__doc__ = (
        f"`grad` where each window has its highest element, the first if there are several: the gradient of `{name}`."
    )
    grad_grad.__doc__ = (
        "For each window, the element of `grad` that lies where the window has its highest: of the shape of the output."
    )
    made = op(name=f"{name}_grad")(grad), op(name=f"{name}_grad_grad")(grad_grad)
    return *made, _max_pool_grad_kernels(*made, axes)


def _through_the_same(grad: Op[Tensor], other: Op[Tensor]) -> None:
    """Which elements are highest does not vary smoothly; given these, the two are linear and each other's adjoint."""

    @grad.gradient
    def _(op: Operation, dz: Tensor) -> tuple[None, None, Tensor]:
        x, y, _ = op.inputs
        return None, None, other(x, y, dz, **op.attrs)


def _max_pool_grad_kernels(grad: Op[Tensor], grad_grad: Op[Tensor], axes: int) -> Binding:
    @grad.kernel(CPU, GPU, fresh=True, binds=True)
    def spread(xp: Namespace, node: NodeView) -> Function:
        pool = Pool(axes, **node.attrs)

        def some(x: Array, y: Array, dy: Array) -> Array:
            dx = xp.zeros(x.shape, x.dtype)
            for place, seen, hit in hits(xp, x, y, pool):
                dx[seen] += dy[place] * hit
            return dx

        def compute(x: Array, y: Array, dy: Array) -> Array:
            pool.check(x.shape, y.shape)
            return by_images(xp, some, x.shape, x, y, dy)

        return compute

    @grad_grad.kernel(CPU, GPU, fresh=True, binds=True)
    def _(xp: Namespace, node: NodeView) -> Function:
        pool = Pool(axes, **node.attrs)

        def some(x: Array, y: Array, dx: Array) -> Array:
            dy = xp.zeros(y.shape, y.dtype)
            for place, seen, hit in hits(xp, x, y, pool):
                dy[place] += dx[seen] * hit
            return dy

        def compute(x: Array, y: Array, dx: Array) -> Array:
            pool.check(x.shape, y.shape)
            return by_images(xp, some, y.shape, x, y, dx)

        return compute

    return spread


def hits(xp: Namespace, x: Array, y: Array, pool: Pool) -> Iterator[tuple[Any, Any, Array]]:
    """The places of each element of the window, the elements there, and where these are the first maximum."""
    found = xp.zeros(y.shape, bool)
    for place, seen in pool.taps(pool.slides(x.shape)):
        hit = xp.equal(x[seen], y[place])
        xp.greater(hit, found[place], out=hit)  # hit and not found
        found[place] |= hit
        yield place, seen, hit


# The mean


def mean_pooling(name: str, axes: int) -> tuple[Op[Tensor], Op[Tensor]]:
    """Declare average pooling with windows of that many axes, and its gradient."""
    usual = FORMATS[axes][0]

    def rule(value: Spec, ksize: Any, strides: Any, padding: Any, data_format: str = usual) -> Spec:
        return Pool(axes, ksize, strides=strides, padding=padding, data_format=data_format).spec(value.only(FLOAT))

    def grad_rule(
        orig_input_shape: Ints, grad: Spec, ksize: Any, strides: Any, padding: Any, data_format: str = usual
    ) -> Spec:
        shape = known.shape(orig_input_shape, "orig_input_shape").with_rank(axes + 2)
        whole = grad.only(FLOAT).with_shape(shape)
        Pool(axes, ksize, strides=strides, padding=padding, data_format=data_format).check_spec(whole, grad)
        return whole

    rule.__doc__ = "The mean of each window, without padding."
    grad_rule.__doc__ = (
        f"The gradient of `{name}` for images of shape `orig_input_shape`: each window's share for each element."
    )
    pool, grad = op(name=name)(rule), op(name=f"{name}_grad")(grad_rule)
    pool.gradient(lambda op, dy: grad(shape_of(op.inputs[0]), dy, **op.attrs))
    grad.gradient(lambda op, dz: (None, pool(dz, **op.attrs)))
    _mean_kernels(pool, grad, axes)
    _costs(pool, 1, 1)
    _costs(grad, 1, 1)
    return pool, grad


def _mean_kernels(pool: Op[Tensor], grad: Op[Tensor], axes: int) -> None:
    @wide(pool)
    def pooled(xp: Namespace, node: NodeView) -> Function:
        pool = Pool(axes, **node.attrs)

        def compute(x: Array) -> Array:
            sizes = pool.sizes(x.shape)
            total = by_images(xp, lambda x: pool.fold(xp, xp.add, x, 0), sizes, x)
            total *= _shares(xp, pool, pool.slides(x.shape), x.dtype)
            return total

        return compute

    @wide(grad)
    def spread(xp: Namespace, node: NodeView) -> Function:
        pool = Pool(axes, **node.attrs)

        def compute(sizes: Array, dy: Array) -> Array:
            whole = sizes.tolist()
            pool.check(whole, dy.shape)
            slides = pool.slides(whole)
            share = dy * _shares(xp, pool, slides, dy.dtype)
            return by_images(xp, lambda share: _unfold(xp, pool, slides, whole, share), whole, share)

        return compute

    onednn_pooling.declare(False, (pool, grad), (pooled, spread), lambda node: Pool(axes, **node.attrs))


@functools.lru_cache(maxsize=256)
def _counts(slide: Slide) -> Array:
    """The number of elements under the window at each place, without padding."""
    counts = np.zeros(slide.output, np.float32)
    for place, _ in map(slide.tap, range(slide.window)):
        counts[place] += 1
    return counts


def _shares(xp: Namespace, pool: Pool, slides: Slides, dtype: Any) -> Array:
    """The weight of one element in the mean of its window; 0 for a window on padding only."""
    counts = functools.reduce(np.multiply.outer, map(_counts, slides)).astype(dtype)
    shares = np.divide(1, counts, out=np.zeros_like(counts), where=counts > 0)
    return xp.asarray(shares[..., None] if pool.sliding.channels_last else shares)


def _unfold(xp: Namespace, pool: Pool, slides: Slides, sizes: Sequence[int], share: Array) -> Array:
    """Each window's share, added to all elements that the window sees."""
    dx = xp.zeros((len(share), *sizes[1:]), share.dtype)
    for place, seen in pool.taps(slides):
        dx[seen] += share[place]
    return dx


def _costs(made: Op[Tensor], per_tap: float, image: int) -> None:
    """Declare the cost: so much for each element of a window, at each place of that input or output."""

    @made.cost
    def _(inputs: Sequence[Spec], outputs: Sequence[Spec], attrs: Any) -> float:
        return per_tap * elements([*inputs, *outputs][image]) * float(math.prod(attrs["ksize"]))


_max_pool, max_pool_grad, max_pool_grad_grad = max_pooling("max_pool", 2)
_avg_pool, avg_pool_grad = mean_pooling("avg_pool", 2)


def _max_of_channels(images: Tensor, count: int, strides: Sequence[int], name: str | None) -> Tensor:
    """The highest of each `count` channels one after the other: the channels as the rows of images."""
    channels = known.size_at(images.spec.with_rank(4, "value"), 3)
    if tuple(strides) != (1, 1, 1, count) or channels is None or channels % count:
        raise ValueError(
            f"max_pool: a window [1, 1, 1, {count}] of channels moves by as much, and {count} divides their number: "
            f"the strides are {list(strides)}, the images {images.shape}"
        )
    each = (1, count, 1, 1)
    highest = _max_pool(reshape(images, [-1, channels, 1, 1]), each, each, "VALID")
    return reshape(highest, [*unstack(shape(images), 4)[:3], channels // count], name=name)


# For users


def max_pool(
    value: NumberLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: Any,
    data_format: str = "NHWC",
    name: str | None = None,
    input: NumberLike | None = None,
) -> Tensor:
    """The highest element of each window of images.

    Args:
        value: images [batch, height, width, channels], or [batch, channels, height, width] with 'NCHW'.
        ksize: the size of the window: one number, one for height and width each, or one per axis of `value`. A window
            of channels alone, as [1, 1, 1, 2], moves by its size.
        strides: by how much the window moves, given as `ksize` is.
        padding: "SAME" or "VALID".
        data_format: "NHWC" or "NCHW".
        name: the name of the operation.
        input: another name for `value`.

    Examples:
        >>> af.nn.max_pool(af.ones([1, 4, 4, 3]), [1, 2, 2, 1], [1, 2, 2, 1], "VALID").shape
        TensorShape([1, 2, 2, 3])
    """
    images = either(value, input, "value, input")
    if data_format == "NHWC" and isinstance(ksize, (list, tuple)) and [*ksize[:3]] == [1, 1, 1] != [*ksize[1:]]:
        return _max_of_channels(convert_to_tensor(images), ksize[3], per_axis(strides, data_format), name)
    return _max_pool(
        images, per_axis(ksize, data_format), per_axis(strides, data_format), padding, data_format, name=name
    )


def avg_pool(
    value: NumberLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: Any,
    data_format: str = "NHWC",
    name: str | None = None,
    input: NumberLike | None = None,
) -> Tensor:
    """The mean of each window of images, without padding; arguments as in `max_pool`.

    Examples:
        >>> af.nn.avg_pool(af.ones([1, 4, 4, 3]), [1, 2, 2, 1], [1, 2, 2, 1], "VALID").shape
        TensorShape([1, 2, 2, 3])
    """
    images = either(value, input, "value, input")
    return _avg_pool(
        images, per_axis(ksize, data_format), per_axis(strides, data_format), padding, data_format, name=name
    )


_max_pool3d, max_pool3d_grad, max_pool3d_grad_grad = max_pooling("max_pool3d", 3)
_avg_pool3d, avg_pool3d_grad = mean_pooling("avg_pool3d", 3)


def max_pool3d(
    input: NumberLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: Any,
    data_format: str = "NDHWC",
    name: str | None = None,
) -> Tensor:
    """The highest element of each window of volumes.

    Args:
        input: volumes [batch, depth, height, width, channels], or channels second with 'NCDHW'.
        ksize: the size of the window: one number, one for each of depth, height and width, or one per axis of `input`.
        strides: by how much the window moves, given as `ksize` is.
        padding: "SAME" or "VALID".
        data_format: "NDHWC" or "NCDHW".
        name: the name of the operation.

    Examples:
        >>> af.nn.max_pool3d(af.ones([1, 4, 4, 4, 3]), 2, 2, "VALID").shape
        TensorShape([1, 2, 2, 2, 3])
    """
    window, steps = per_axis(ksize, data_format, 3), per_axis(strides, data_format, 3)
    return _max_pool3d(input, window, steps, padding, data_format, name=name)


def avg_pool3d(
    input: NumberLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: Any,
    data_format: str = "NDHWC",
    name: str | None = None,
) -> Tensor:
    """The mean of each window of volumes, without padding; arguments as in `max_pool3d`.

    Examples:
        >>> af.nn.avg_pool3d(af.ones([1, 4, 4, 4, 3]), 2, 2, "VALID").shape
        TensorShape([1, 2, 2, 2, 3])
    """
    window, steps = per_axis(ksize, data_format, 3), per_axis(strides, data_format, 3)
    return _avg_pool3d(input, window, steps, padding, data_format, name=name)
