"""Normalisation of layers, and means and variances from sums over parts of the data."""

from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.shapes import size, squeeze
from aioflow.kernels.families import NARROW, shaped_like
from aioflow.kernels.math.arithmetic import add, multiply, squared_difference, subtract
from aioflow.kernels.math.broadcasting import Axis, axes_of
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.elementwise import reciprocal, rsqrt, square
from aioflow.kernels.math.reduction import reduce_mean, reduce_sum
from aioflow.library.control import name_scope
from aioflow.tensors.dtypes import float32


@transactional
def layer_normalization(
    x: NumberLike,
    offset: NumberLike | None = None,
    scale: NumberLike | None = None,
    axis: Axis = -1,
    variance_epsilon: float = 1e-12,
    name: str | None = None,
) -> Tensor:
    """Normalise each element of a batch to mean 0 and variance 1 along `axis`, times `scale`, plus `offset` [Ba 2016].

    The statistics of narrow floats are computed in float32.
    """
    with name_scope(name, "layer_normalization", [x, offset, scale]) as scope:
        value = convert_to_tensor(x)
        wide = cast(value, float32) if value.dtype in NARROW else value
        off = wide - reduce_mean(wide, axis, keepdims=True)
        factor = rsqrt(reduce_mean(square(off), axis, keepdims=True) + variance_epsilon)
        if scale is not None:
            factor = factor * cast(convert_to_tensor(scale), wide.dtype)
        if offset is None:
            return cast(multiply(off, factor, name=scope), value.dtype)
        return cast(add(off * factor, cast(convert_to_tensor(offset), wide.dtype), name=scope), value.dtype)


@transactional
def batch_norm_with_global_normalization(
    t: NumberLike | None = None,
    m: NumberLike | None = None,
    v: NumberLike | None = None,
    beta: NumberLike | None = None,
    gamma: NumberLike | None = None,
    variance_epsilon: float | None = None,
    scale_after_normalization: bool | None = None,
    name: str | None = None,
    input: NumberLike | None = None,
    mean: NumberLike | None = None,
    variance: NumberLike | None = None,
) -> Tensor:
    """Return (t - m) / sqrt(v + variance_epsilon), times `gamma` if `scale_after_normalization`, plus `beta`.

    `input`, `mean` and `variance` are other names for `t`, `m` and `v`.
    """
    value, middle, spread = (second if first is None else first for first, second in
                             ((t, input), (m, mean), (v, variance)))  # fmt: skip
    if variance_epsilon is None or value is None or middle is None or spread is None or beta is None:
        raise ValueError("batch_norm_with_global_normalization needs t, m, v, beta and variance_epsilon")
    with name_scope(name, "batchnorm", [value, middle, spread, beta, gamma]) as scope:
        x = convert_to_tensor(value)
        factor = rsqrt(convert_to_tensor(spread, x.dtype) + variance_epsilon)
        if scale_after_normalization:
            if gamma is None:
                raise ValueError("batch_norm_with_global_normalization needs gamma to scale")
            factor = factor * convert_to_tensor(gamma, x.dtype)
        shift = convert_to_tensor(beta, x.dtype) - convert_to_tensor(middle, x.dtype) * factor
        return add(x * factor, shift, name=scope)


@transactional
def sufficient_statistics(
    x: NumberLike,
    axes: Axis,
    shift: NumberLike | None = None,
    keep_dims: bool | None = None,
    name: str | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return sums that determine the mean and variance of `x` along `axes`. Sums over parts of the data add up.

    Returns:
        The number of elements, the sum of the elements less `shift`, the sum of the squares of these, and `shift`. A
        shift near the mean keeps the sums exact.
    """
    with name_scope(name, "sufficient_statistics", [x, shift]):
        value = convert_to_tensor(x)
        moved = None if shift is None else convert_to_tensor(shift, value.dtype)
        off = value if moved is None else subtract(value, moved)
        squares = square(value) if moved is None else squared_difference(value, moved)
        keep = keepdims or keep_dims
        total, of_squares = (reduce_sum(values, axes, keepdims=keep) for values in (off, squares))
        return _count(value, axes, total), total, of_squares, moved


def _count(x: Tensor, axes: Axis, reduced: Tensor) -> Tensor:
    """Return the number of elements of `x` in each element of `reduced`."""
    sizes = x.spec.sizes
    along = None if sizes is None else [sizes[axis] for axis in axes_of(axes, len(sizes))]
    if along is not None and None not in along:
        count: Any = 1
        for each in along:
            count *= each
        return constant(count, x.dtype)
    return cast(size(x), x.dtype) / cast(size(reduced), x.dtype)


@transactional
def normalize_moments(
    counts: NumberLike, mean_ss: NumberLike, variance_ss: NumberLike, shift: NumberLike, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Return the mean and the variance from the result of `sufficient_statistics`."""
    with name_scope(name, "normalize", [counts, mean_ss, variance_ss, shift]):
        share = reciprocal(convert_to_tensor(counts))
        off = multiply(mean_ss, share)
        variance = subtract(multiply(variance_ss, share), square(off), name="variance")
        return (off if shift is None else add(off, shift, name="mean")), variance


@transactional
def weighted_moments(
    x: NumberLike,
    axes: Axis,
    frequency_weights: NumberLike,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the mean and the variance of `x` along `axes`, each element weighted by `frequency_weights`.

    The weights broadcast to the shape of `x`; of narrow floats all is computed in float32.
    """
    with name_scope(name, "weighted_moments", [x, frequency_weights]):
        value, weights = convert_to_tensor(x), convert_to_tensor(frequency_weights)
        dtype = float32 if value.dtype in NARROW else value.dtype
        wide, times = cast(value, dtype), cast(weights, dtype)
        each = shaped_like(wide, times + OPERATORS["zeros_like"](wide))
        total = reduce_sum(each, axes, keepdims=True)
        mean = reduce_sum(times * wide, axes, keepdims=True) / total
        variance = reduce_sum(times * squared_difference(wide, mean), axes, keepdims=True) / total
        if not (keepdims or keep_dims):
            dropped = list(range(wide.shape.ndims)) if axes is None and wide.shape.ndims is not None else axes
            mean, variance = squeeze(mean, dropped), squeeze(variance, dropped)
        return cast(mean, value.dtype), cast(variance, value.dtype)
