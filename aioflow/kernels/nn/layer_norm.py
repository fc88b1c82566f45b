"""Layer normalisation in one op, and its gradient: each element of a batch by its own mean and variance.

The axes that are normalised are the last ones, as many as the scale has. The kernels see the others as one axis of
rows.
"""

import math
from collections.abc import Sequence

import numpy as np

from aioflow import errors
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.shapes import size
from aioflow.kernels.families import CPU, GPU, costs
from aioflow.kernels.linalg.matrices import is_zero
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.elementwise import rsqrt
from aioflow.kernels.math.reduction import reduce_mean, reduce_sum
from aioflow.kernels.nn import onednn_layer_norm
from aioflow.kernels.nn.activation import LONGEST, Function, ones, same_shape
from aioflow.kernels.nn.normalisation import U, statistics_dtype
from aioflow.kernels.nn.onednn_normalisation import MOST_VARIANCES, is_precise
from aioflow.tensors.dtypes import FLOAT, UNKNOWN, Array, Namespace, Sizes, Spec, TensorShape, merge_sizes


def _checked(x: Spec, scale: Spec, *vectors: Spec) -> TensorShape:
    """The shape of the statistics: that of x, with 1 for each axis of the scale.

    ValueError for shapes that do not fit.
    """
    needed = statistics_dtype(x.only(FLOAT).dtype)
    if scale.dtype is not needed:
        raise TypeError(f"the scale of {x.dtype.name} is {needed.name}, not {scale.dtype.name}")
    for vector in vectors:
        same_shape(vector.same_dtype(scale), scale)
    if scale.rank == 0:
        raise ValueError("the scale has the sizes of the axes that are normalised, and is no scalar")
    if x.sizes is None or scale.sizes is None:
        return UNKNOWN
    kept = len(x.sizes) - len(scale.sizes)
    if kept < 0:
        raise ValueError(f"a scale of shape {scale.shape} has more axes than x, whose shape is {x.shape}")
    try:
        for one, other in zip(x.sizes[kept:], scale.sizes, strict=True):
            merge_sizes(one, other)
    except ValueError:
        raise ValueError(f"a scale of shape {scale.shape} does not fit the last axes of {x.shape}") from None
    return TensorShape((*x.sizes[:kept], *[1] * len(scale.sizes)))


@op
def layer_norm(x: T, scale: U, offset: U, epsilon: float = 0.001) -> tuple[Spec, Spec, Spec]:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset, and the mean and variance along the axes of the scale.

    Scale and offset have the sizes of the last axes of x, for narrow floats in float32. The mean and the variance
    keep these axes, with size 1.
    """
    statistics = Spec(scale.dtype, _checked(x, scale, offset))
    return Spec(x.dtype, x.shape), statistics, statistics


@op
def layer_norm_grad(
    y_backprop: T, x: T, scale: U, mean: U, variance: U, epsilon: float = 0.001
) -> tuple[Spec, Spec, Spec]:
    """The gradients of `layer_norm` for x, scale and offset, given the mean and the variance that it computed."""
    statistics = Spec(mean.dtype, _checked(x, scale))
    for given in (mean, variance):
        same_shape(given.same_dtype(scale), statistics)
    vector = Spec(scale.dtype, scale.shape)
    return Spec(x.dtype, same_shape(y_backprop.same_dtype(x), x)), vector, vector


# Kernels


def _rows(xp: Namespace, scale: Array, *arrays: Array) -> list[Array]:
    """The arrays as rows of the length of the scale, in its dtype."""
    shape = arrays[0].shape
    kept = len(shape) - scale.ndim
    if kept < 0 or not scale.ndim or shape[kept:] != scale.shape:
        raise errors.InvalidArgumentError(
            f"a scale of shape {list(scale.shape)} does not fit the last axes of an array of shape {list(shape)}"
        )
    _same([array.shape for array in arrays])
    rows = math.prod(shape[:kept]), scale.size
    return [xp.ascontiguousarray(array.astype(scale.dtype, copy=False)).reshape(rows) for array in arrays]


def _same(shapes: Sequence[tuple[int, ...]]) -> None:
    if any(shape != shapes[0] for shape in shapes):
        text = ", ".join([str(list(shape)) for shape in shapes])
        raise errors.InvalidArgumentError(f"the shapes {text} must be equal")


def _means(xp: Namespace, rows: Array) -> Array:
    """The mean of each row, as a column; NaN for no elements."""
    count = rows.shape[1]
    if not count:
        return xp.full((len(rows), 1), xp.nan, rows.dtype)
    if xp is np and rows.size <= onednn_layer_norm.SMALL:
        return rows.dot(ones(count, rows.dtype))[:, None] / count
    return rows.mean(1, keepdims=True)


def _centred(xp: Namespace, rows: Array) -> tuple[Array, Array]:
    """The mean of each row, and the rows minus it. The rounding of a first mean, which may be larger, is taken out."""
    mean = _means(xp, rows)
    centred = rows - mean
    rounding = _means(xp, centred)
    centred -= rounding
    return mean + rounding, centred


@layer_norm.kernel(CPU, GPU, fresh=True, binds=True)
def _normalised(xp: Namespace, node: NodeView) -> Function:
    epsilon, dtype = node.attrs["epsilon"], node.output_specs[0].dtype.np
    may_be_row = xp is np and node.input_specs[0].dtype is node.input_specs[1].dtype
    if may_be_row and _is_row(*[spec.sizes for spec in node.input_specs]):
        return lambda x, scale, offset: _normalised_row(x, scale, offset, epsilon)

    def compute(x: Array, scale: Array, offset: Array) -> tuple[Array, Array, Array]:
        if may_be_row and _is_row(x.shape, scale.shape, offset.shape):
            return _normalised_row(x, scale, offset, epsilon)
        (rows,), column = _rows(xp, scale, x), onednn_layer_norm.column_of(x, scale)
        _same([scale.shape, offset.shape])
        mean, y = _centred(xp, rows)
        variance = _means(xp, y * y)
        y /= xp.sqrt(variance + epsilon)
        y *= scale.reshape(-1)
        y += offset.reshape(-1)
        return y.astype(dtype, copy=False).reshape(x.shape), mean.reshape(column), variance.reshape(column)

    return compute


def _is_row(x: Sizes | None, scale: Sizes | None, offset: Sizes | None) -> bool:
    """Whether arrays of these sizes are one row, that is not long, and two vectors of its length."""
    if not x or not scale or scale != offset or x != (*[1] * (len(x) - len(scale)), *scale):
        return False
    return 0 < math.prod([size or 0 for size in scale]) <= LONGEST


def _normalised_row(x: Array, scale: Array, offset: Array, epsilon: float) -> tuple[Array, Array, Array]:
    """The same for one row: its sums are numbers, which NumPy subtracts in half the time of columns."""
    row, rank, count = x.ravel(), x.ndim, x.size
    one = ones(count, row.dtype)
    mean = row.dot(one) / count
    y = row - mean
    variance = y.dot(y) / count
    if mean * mean > (variance + epsilon) * MOST_VARIANCES:
        rounding = y.dot(one) / count
        mean += rounding
        y -= rounding
        variance = y.dot(y) / count
    y /= np.sqrt(variance + epsilon)
    y *= scale.ravel()
    y += offset.ravel()
    return y.reshape(x.shape), np.array(mean, ndmin=rank), np.array(variance, ndmin=rank)


@layer_norm_grad.kernel(CPU, GPU, fresh=True, binds=True)
def _gradients_of(xp: Namespace, node: NodeView) -> Function:
    epsilon, dtype = node.attrs["epsilon"], node.output_specs[0].dtype.np

    def compute(dy: Array, x: Array, scale: Array, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        dy, normal = _rows(xp, scale, dy, x)
        _same([onednn_layer_norm.column_of(x, scale), mean.shape, variance.shape])
        inverse = 1 / xp.sqrt(variance.reshape(-1, 1) + epsilon)
        normal = normal - mean.reshape(-1, 1)
        if xp is np and not is_precise(mean, variance, epsilon):
            normal -= _means(xp, normal)  # the rounding of a large mean
        normal *= inverse
        product = dy * normal
        dscale, doffset = product.sum(0), dy.sum(0)
        product *= scale.reshape(-1)
        dx = dy * scale.reshape(-1)
        dx -= _means(xp, dx)
        normal *= _means(xp, product)
        dx -= normal
        dx *= inverse
        return dx.astype(dtype, copy=False).reshape(x.shape), dscale.reshape(scale.shape), doffset.reshape(scale.shape)

    return compute


onednn_layer_norm.declare((layer_norm, layer_norm_grad), (_normalised, _gradients_of))
costs(layer_norm, 8)
costs(layer_norm_grad, 14)


# Gradients


def _axes(scale: Tensor) -> list[int]:
    """The axes that are normalised."""
    if scale.spec.rank is None:
        raise ValueError("the gradient of layer_norm needs the rank of the scale, which is not known")
    return [*range(-scale.spec.rank, 0)]


def _over_rows(values: Tensor, scale: Tensor) -> Tensor:
    """The sum over all axes but those of the scale."""
    if values.spec.rank is None:
        raise ValueError("the gradient of layer_norm needs the rank of x, which is not known")
    return reduce_sum(values, [*range(values.spec.rank - len(_axes(scale)))])


@layer_norm.gradient
def _(op: Operation, dy: Tensor, dmean: Tensor, dvariance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    (x, scale, _), (_, mean, variance) = op.inputs, op.outputs
    dx, dscale, doffset = layer_norm_grad(dy, x, scale, mean, variance, **op.attrs)
    count = cast(size(scale), mean.dtype)
    if not is_zero(dmean):
        dx = cast(cast(dx, mean.dtype) + dmean / count, x.dtype)
    if not is_zero(dvariance):
        off = cast(x, mean.dtype) - mean
        dx = cast(cast(dx, mean.dtype) + off * (dvariance * 2 / count), x.dtype)
    return dx, dscale, doffset


@layer_norm_grad.gradient
def _(op: Operation, gx: Tensor, gscale: Tensor, goffset: Tensor) -> tuple[Tensor, ...]:
    """With g = dy * scale, the gradient for x is inverse * (g - E g - normal * E(g * normal)), where E is the mean."""
    scale, mean, variance = op.inputs[2:]
    dy, x, gx = [cast(values, scale.dtype) for values in (*op.inputs[:2], gx)]
    axes, inverse = _axes(scale), rsqrt(variance + op.attrs["epsilon"])
    normal, g = (x - mean) * inverse, dy * scale
    along, part = _mean(gx * normal, axes), _mean(g * normal, axes)
    to_g = (gx - _mean(gx, axes) - normal * along) * inverse
    to_dy = to_g * scale + normal * gscale + goffset
    to_normal = dy * gscale - (gx * part + g * along) * inverse
    through_inverse = reduce_sum(to_g * g + to_normal * normal, axes, keepdims=True)
    return (
        cast(to_dy, op.inputs[0].dtype),
        cast(to_normal * inverse, op.inputs[1].dtype),
        _over_rows(to_g * dy, scale),
        -reduce_sum(to_normal, axes, keepdims=True) * inverse,
        through_inverse * inverse * inverse * -0.5,
    )


def _mean(values: Tensor, axes: Sequence[int]) -> Tensor:
    return reduce_mean(values, axes, keepdims=True)
