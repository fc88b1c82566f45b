"""Batch normalisation in one op, for training and for inference, and its gradient.

In either layout the kernels view images as blocks that fit the cache, with the numbers per channel repeated to long
rows: where channels are last and few, many pixels make one row.
"""

import functools
import math
from collections.abc import Iterator
from typing import Annotated, Final, NamedTuple

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.params import Like
from aioflow.kernels.array.shapes import reshape, size
from aioflow.kernels.families import CPU, GPU, NARROW, costs
from aioflow.kernels.linalg.matrices import is_zero
from aioflow.kernels.math.arithmetic import maximum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.elementwise import rsqrt
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.kernels.nn import onednn_normalisation
from aioflow.kernels.nn.activation import Function, channel_axis, ones, same_shape
from aioflow.tensors.dtypes import FLOAT, Array, DType, Namespace, Spec, TensorShape, float32, merge_sizes

BLOCK: Final = 256 << 10
"""Bytes that are normalised at a time."""
ROW: Final = 4096
"""Elements of a row, in which NumPy's cost per row does not matter."""

U = Annotated[Spec, Like("U")]
"""Statistics: float32 for narrow images, else of the images' dtype."""


def statistics_dtype(dtype: DType) -> DType:
    """The dtype of means and variances of images of that dtype."""
    return float32 if dtype in NARROW else dtype


def _channels(x: Spec, data_format: str, *vectors: Spec) -> TensorShape:
    """The shape of a number per channel. ValueError if the vectors do not fit the images."""
    if data_format not in ("NHWC", "NCHW"):
        raise ValueError(f"data_format is 'NHWC' or 'NCHW', not {data_format!r}")
    if x.rank is not None and x.rank < 2:
        raise ValueError(f"images need a batch axis and a channel axis, the shape is {x.shape}")
    count = None if x.sizes is None else x.sizes[channel_axis(data_format)]
    for vector in vectors:
        if vector.dtype is not statistics_dtype(x.dtype):
            raise TypeError(
                f"statistics of {x.dtype.name} are {statistics_dtype(x.dtype).name}, not {vector.dtype.name}"
            )
        (length,) = vector.with_rank(1, "statistics").sizes or (None,)
        try:
            count = merge_sizes(count, length)
        except ValueError:
            raise ValueError(f"{count} channels do not go with a vector of {length}") from None
    return TensorShape((count,))


@op(name="fused_batch_norm")
def _fused_batch_norm(
    x: T,
    scale: U,
    offset: U,
    mean: U,
    variance: U,
    epsilon: float = 0.0001,
    data_format: str = "NHWC",
    is_training: bool = True,
) -> tuple[Spec, Spec, Spec, Spec, Spec]:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset, for each channel, and the mean and variance used.

    In training these are the batch's own, and `mean` and `variance` are empty. The variance is given back twice: as
    the estimate of the population's, divided by the number of elements less 1, and at the end as it was used.
    """
    given = () if is_training else (mean, variance)
    shape = _channels(x.only(FLOAT), data_format, scale, offset, *given)
    if is_training and any(0 not in (spec.sizes or (0,)) for spec in (mean, variance)):
        raise ValueError("in training mean and variance are the batch's own: give None for them")
    vector = Spec(scale.dtype, shape)
    return Spec(x.dtype, x.shape), vector, vector, vector, vector


@op
def fused_batch_norm_grad(
    y_backprop: T,
    x: T,
    scale: U,
    reserve_space_1: U,
    reserve_space_2: U,
    epsilon: float = 0.0001,
    data_format: str = "NHWC",
    is_training: bool = True,
) -> tuple[Spec, Spec, Spec]:
    """The gradients of `fused_batch_norm` for x, scale and offset, given the mean and variance it used.

    In training that for x takes into account that mean and variance are those of x.
    """
    x.only(FLOAT).same_dtype(y_backprop)
    vector = Spec(scale.dtype, _channels(x, data_format, scale, reserve_space_1, reserve_space_2))
    return Spec(x.dtype, same_shape(y_backprop, x)), vector, vector


# Kernels


class Channels(NamedTuple):
    """How to see images of one shape: as rows [many, row], or [image, channel, pixel] if channels come first."""

    view: tuple[int, ...]
    repeats: int
    step: int
    elements: int

    def laid(self, xp: Namespace, vector: Array) -> Array:
        """A number per channel as it is broadcast to a block."""
        return vector[:, None] if len(self.view) == 3 else xp.tile(vector, self.repeats)

    def sums(self, xp: Namespace, block: Array) -> Array:
        """The sum over each channel of a block."""
        if block.ndim == 3:
            return block.sum((0, 2))
        total = ones(len(block), block.dtype).dot(block) if xp is np else block.sum(0)
        return total.reshape(self.repeats, -1).sum(0, np.float64)

    def blocks(self, *arrays: Array) -> Iterator[list[Array]]:
        """The same part of each array, in the form of `view`, one part after the other."""
        views = [array.reshape(self.view) for array in arrays]
        for first in range(0, self.view[0], self.step):
            yield [view[first : first + self.step] for view in views]


@functools.lru_cache(maxsize=256)
def _seen(shape: tuple[int, ...], last: bool, itemsize: int) -> Channels:
    """How to see images of that shape. ValueError for a rank below 2."""
    if len(shape) < 2:
        raise ValueError(f"images need a batch axis and a channel axis, the shape is {list(shape)}")
    if not last:
        pixels = math.prod(shape[2:])
        step = max(1, BLOCK // (max(1, shape[1] * pixels) * itemsize))
        return Channels((shape[0], shape[1], pixels), 1, step, shape[0] * pixels)
    rows, channels = math.prod(shape[:-1]), shape[-1]
    most = max(1, ROW // max(1, channels))
    repeats = next(count for count in range(min(most, max(1, rows)), 0, -1) if rows % count == 0)
    step = max(1, BLOCK // (max(1, repeats * channels) * itemsize))
    return Channels((rows // repeats, repeats * channels), repeats, step, rows)


def _moments(xp: Namespace, x: Array, seen: Channels) -> tuple[Array, Array]:
    """Mean and variance of each channel, as float64; NaN for no elements."""
    count = xp.float64(seen.elements)
    near = (sum(seen.sums(xp, block) for (block,) in seen.blocks(x)) / count).astype(x.dtype)
    middle = seen.laid(xp, near)
    rest = total = 0
    for (block,) in seen.blocks(x):
        off = block - middle
        rest = rest + seen.sums(xp, off)
        off *= off
        total = total + seen.sums(xp, off)
    rest = rest / count
    return near + rest, total / count - rest * rest


@_fused_batch_norm.kernel(CPU, GPU, fresh=True, binds=True)
def _normalised(xp: Namespace, node: NodeView) -> Function:
    epsilon, training = node.attrs["epsilon"], node.attrs["is_training"]
    last, dtype = node.attrs["data_format"] == "NHWC", node.output_specs[0].dtype

    def compute(x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> tuple[Array, ...]:
        images = xp.ascontiguousarray(x.astype(scale.dtype, copy=False))
        seen = _seen(x.shape, last, images.itemsize)
        _check(x.shape[-1 if last else 1], scale, offset, *(() if training else (mean, variance)))
        middle, spread = _batch_moments(xp, images, seen) if training else (mean, variance)
        factor = scale / xp.sqrt(spread + epsilon)
        is_plain = xp is np and onednn_normalisation.is_precise(middle, spread, epsilon)  # a GPU would wait
        near = None if is_plain else middle.astype(images.dtype)
        shift = offset - (middle if near is None else middle - near) * factor
        y = _stretched(xp, images, seen, near, factor, shift).astype(dtype.np, copy=False)
        unbiased = spread * (seen.elements / max(seen.elements - 1, 1)) if training else spread
        vectors = [vector.astype(scale.dtype) for vector in (middle, unbiased, middle, spread)]
        return y, *vectors

    return compute


def _batch_moments(xp: Namespace, images: Array, seen: Channels) -> tuple[Array, Array]:
    if images.size:
        return _moments(xp, images, seen)
    nothing = xp.full(images.shape[-1] if len(seen.view) == 2 else images.shape[1], xp.nan)
    return nothing, nothing


def _check(channels: int, *vectors: Array) -> None:
    for vector in vectors:
        if vector.shape != (channels,):
            raise ValueError(f"{channels} channels do not go with a vector of shape {list(vector.shape)}")


def _stretched(xp: Namespace, x: Array, seen: Channels, middle: Array | None, factor: Array, shift: Array) -> Array:
    """Images, minus `middle` if it is given, times `factor` plus `shift`."""
    factor, shift = seen.laid(xp, factor.astype(x.dtype)), seen.laid(xp, shift.astype(x.dtype))
    middle = None if middle is None else seen.laid(xp, middle)
    y = xp.empty(x.shape, x.dtype)
    for block, into in seen.blocks(x, y) if x.size else ():
        xp.multiply(block if middle is None else block - middle, factor, out=into)
        into += shift
    return y


@fused_batch_norm_grad.kernel(CPU, GPU, fresh=True, binds=True)
def _gradients_of(xp: Namespace, node: NodeView) -> Function:
    epsilon, training = node.attrs["epsilon"], node.attrs["is_training"]
    last, dtype = node.attrs["data_format"] == "NHWC", node.output_specs[0].dtype

    def compute(dy: Array, x: Array, scale: Array, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        if dy.shape != x.shape:
            raise ValueError(f"shapes {list(dy.shape)} and {list(x.shape)} must be equal")
        dy, images = [xp.ascontiguousarray(values.astype(scale.dtype, copy=False)) for values in (dy, x)]
        seen = _seen(x.shape, last, images.itemsize)
        _check(x.shape[-1 if last else 1], scale, mean, variance)
        inverse = 1 / xp.sqrt(variance.astype(xp.float64) + epsilon)
        total, product = _correlated(xp, dy, images, seen, mean)
        near, rest = None, mean
        if training and xp is np and x.size and not onednn_normalisation.is_precise(mean, variance, epsilon):
            near, rest = mean, _rounding(xp, images, seen, mean)
            product -= rest * total
        dscale = product * inverse
        share = inverse * dscale / max(seen.elements, 1) if training else inverse * 0
        shift = share * rest - total / max(seen.elements, 1) if training else share
        factors = [scale * inverse * part for part in (1, -share, shift)]
        dx = _combined(xp, dy, images, seen, near, factors, training)
        return dx.astype(dtype.np, copy=False), dscale.astype(scale.dtype), total.astype(scale.dtype)

    return compute


def _correlated(xp: Namespace, dy: Array, x: Array, seen: Channels, mean: Array) -> tuple[Array, Array]:
    """For each channel the sum of dy, and that of dy * (x - mean)."""
    middle, total, product = seen.laid(xp, mean), xp.zeros(mean.shape), xp.zeros(mean.shape)
    for gradient, block in seen.blocks(dy, x) if x.size else ():
        off = block - middle
        off *= gradient
        total += seen.sums(xp, gradient)
        product += seen.sums(xp, off)
    return total, product


def _rounding(xp: Namespace, x: Array, seen: Channels, mean: Array) -> Array:
    """The mean of x - mean in each channel: what the rounding of a large mean has lost."""
    middle = seen.laid(xp, mean)
    total: Array = sum(seen.sums(xp, block - middle) for (block,) in seen.blocks(x))
    return total / seen.elements


def _combined(
    xp: Namespace, dy: Array, x: Array, seen: Channels, near: Array | None, factors: list[Array], whole: bool
) -> Array:
    """The gradient dy * a + x * b + c, or, unless `whole`, dy * a alone. `near` is taken from x if it is given."""
    a, b, c = [seen.laid(xp, factor.astype(x.dtype)) for factor in factors]
    middle = None if near is None else seen.laid(xp, near)
    dx = xp.empty(x.shape, x.dtype)
    for gradient, block, into in seen.blocks(dy, x, dx) if x.size else ():
        xp.multiply(gradient, a, out=into)
        if whole:
            into += (block if middle is None else block - middle) * b
            into += c
    return dx


onednn_normalisation.declare((_fused_batch_norm, fused_batch_norm_grad), (_normalised, _gradients_of))
costs(_fused_batch_norm, 6)
costs(fused_batch_norm_grad, 8)


# Gradients


class _Graph:
    """The inputs and attributes that the gradients of a node share."""

    def __init__(self, op: Operation, x: Tensor) -> None:
        self.training: bool = op.attrs["is_training"]
        self.epsilon: float = op.attrs["epsilon"]
        self.last = op.attrs["data_format"] == "NHWC"
        self.x = x
        if x.spec.rank is None:
            raise ValueError("the gradient of fused_batch_norm needs the rank of x, which is not known")
        self.rank = x.spec.rank

    def sum(self, values: Tensor) -> Tensor:
        """The sum over each channel."""
        channel = channel_axis("NHWC" if self.last else "NCHW") % self.rank
        return reduce_sum(values, [axis for axis in range(self.rank) if axis != channel])

    def laid(self, vector: Tensor) -> Tensor:
        """A number per channel as it is broadcast to images."""
        return vector if self.last else reshape(vector, [-1, *[1] * (self.rank - 2)])

    def count(self, vector: Tensor) -> Tensor:
        """How many elements a channel has."""
        return cast(size(self.x), vector.dtype) / cast(size(vector), vector.dtype)


@_fused_batch_norm.gradient
def _(op: Operation, dy: Tensor, *dstatistics: Tensor) -> tuple[Tensor | None, ...]:
    x, scale, _, _, variance = op.inputs
    used_mean, used_variance = op.outputs[3:]
    dx, dscale, doffset = fused_batch_norm_grad(dy, x, scale, used_mean, used_variance, **op.attrs)
    dmean, dvariance = _of_statistics(op, dstatistics)
    if op.attrs["is_training"]:
        return _through_moments(op, dx, dmean, dvariance), dscale, doffset, None, None
    inverse = rsqrt(variance + op.attrs["epsilon"])
    to_mean, to_variance = -doffset * scale * inverse, dscale * scale * inverse * inverse * -0.5
    to_mean = to_mean if dmean is None else to_mean + dmean
    to_variance = to_variance if dvariance is None else to_variance + dvariance
    return dx, dscale, doffset, to_mean, to_variance


def _of_statistics(op: Operation, dstatistics: tuple[Tensor, ...]) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of the outputs mean and variance that were used; None for zero."""
    mean, unbiased, again, variance = [None if is_zero(dy) else dy for dy in dstatistics]
    if unbiased is not None and op.attrs["is_training"]:
        count = _Graph(op, op.inputs[0]).count(unbiased)
        unbiased = unbiased * (count / maximum(count - 1, 1))
    return _added(mean, again), _added(unbiased, variance)


def _added(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a + b


def _through_moments(op: Operation, dx: Tensor, dmean: Tensor | None, dvariance: Tensor | None) -> Tensor:
    """`dx` plus the gradient that reaches x through the outputs mean and variance."""
    if dmean is None and dvariance is None:
        return dx
    graph, x, mean = _Graph(op, op.inputs[0]), op.inputs[0], op.outputs[3]
    wide = cast(dx, mean.dtype)
    if dmean is not None:
        wide = wide + graph.laid(dmean / graph.count(dmean))
    if dvariance is not None:
        off = cast(x, mean.dtype) - graph.laid(mean)
        wide = wide + off * graph.laid(dvariance * 2 / graph.count(dvariance))
    return cast(wide, x.dtype)


@fused_batch_norm_grad.gradient
def _(op: Operation, gx: Tensor, gscale: Tensor, goffset: Tensor) -> tuple[Tensor, ...]:
    """All follows from sums over channels: of gx * dx = a * (W - n * (o * P + s * Q)), with those named below."""
    dtype, (dscale, doffset) = op.inputs[2].dtype, op.outputs[1:]
    graph = _Graph(op, op.inputs[1])
    dy, x, gx = [cast(values, dtype) for values in (*op.inputs[:2], gx)]
    scale, mean, variance = op.inputs[2:]
    inverse = rsqrt(variance + graph.epsilon)
    a = scale * inverse
    normal = (x - graph.laid(mean)) * graph.laid(inverse)
    within = graph.sum(gx * dy)
    if graph.training:
        n = 1 / graph.count(scale)
        p, q = graph.sum(gx) * n, graph.sum(gx * normal) * n
        goffset, gscale, within = goffset - a * p, gscale - a * q, within - doffset * p - dscale * q
    to_normal = dy * graph.laid(gscale)
    if graph.training:
        to_normal = to_normal - gx * graph.laid(a * dscale * n)
    to_dy = graph.laid(a) * gx + graph.laid(goffset) + normal * graph.laid(gscale)
    to_variance = (graph.sum(to_normal * normal) + a * within) * inverse * inverse * -0.5
    return (
        cast(to_dy, op.inputs[0].dtype),
        cast(to_normal * graph.laid(inverse), op.inputs[1].dtype),
        within * inverse,
        -graph.sum(to_normal) * inverse,
        to_variance,
    )


# For users


@transactional
def fused_batch_norm(
    x: NumberLike,
    scale: NumberLike,
    offset: NumberLike,
    mean: NumberLike | None = None,
    variance: NumberLike | None = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Images normalised per channel, and the mean and variance to keep for inference.

    Args:
        x: images [batch, height, width, channels], or [batch, channels, height, width] with 'NCHW'; any rank above 1.
        scale: the factor of each channel.
        offset: the number added to each channel then.
        mean: the mean of each channel for inference; None in training, which takes the batch's.
        variance: the variance of each channel for inference; None in training.
        epsilon: added to the variance before the square root.
        data_format: "NHWC" or "NCHW".
        is_training: whether to normalise by the mean and variance of the batch.
        name: the name of the operation.

    Raises:
        ValueError: mean or variance are missing for inference, or given in training.

    Examples:
        >>> x = np.array([1.0, 3.0], np.float32).reshape(1, 2, 1, 1)
        >>> y, mean, variance = af.nn.fused_batch_norm(x, [1.0], [0.0])
        >>> await session.run([mean, variance])
        [array([2.], dtype=float32), array([2.], dtype=float32)]
    """
    images = convert_to_tensor(x)
    dtype = statistics_dtype(images.dtype)
    if not is_training and (mean is None or variance is None):
        raise ValueError("mean and variance are needed where is_training is False")
    given = [np.zeros(0, dtype.np) if value is None else value for value in (mean, variance)]
    vectors = [convert_to_tensor(value, dtype) for value in (scale, offset, *given)]
    y, batch_mean, batch_variance, *_ = _fused_batch_norm(
        images, *vectors, epsilon, data_format, is_training, name=name
    )
    return y, batch_mean, batch_variance
