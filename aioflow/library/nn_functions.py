"""Functions of `af.nn` that compose ops: activations, dropout, moments, normalization, layers and losses."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.composed import dispatching
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.graph.params import renamed
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import constant, zeros_like
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import shape, shape_of, size, squeeze
from aioflow.kernels.families import NARROW, shaped_like
from aioflow.kernels.linalg.norms import matmul
from aioflow.kernels.math.arithmetic import add, maximum, multiply, squared_difference, subtract
from aioflow.kernels.math.broadcasting import Axis, axes_of
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, greater_equal, less_equal, logical_and
from aioflow.kernels.math.complex import conj, real
from aioflow.kernels.math.elementwise import exp, log, negative, reciprocal, rsqrt, sigmoid, square
from aioflow.kernels.math.random import random_uniform
from aioflow.kernels.math.reduction import reduce_mean, reduce_sum
from aioflow.kernels.math.rounding import clip_by_value
from aioflow.kernels.nn.activation import bias_add, relu, softplus
from aioflow.kernels.nn.gelu import gelu_erf, gelu_tanh
from aioflow.kernels.nn.layer_norm import layer_norm
from aioflow.kernels.nn.normalisation import statistics_dtype
from aioflow.library.control import name_scope
from aioflow.tensors.dtypes import FLOAT, float32

Axes = int | Sequence[int] | None


@transactional
@dispatching
def dropout(
    x: NumberLike,
    keep_prob: float | Tensor | None = None,
    noise_shape: NumberLike | Sequence[int | None] | None = None,
    seed: int | None = None,
    name: str | None = None,
    rate: float | Tensor | None = None,
) -> Tensor:
    """Return `x` with random elements dropped with probability `rate`; the others are scaled to keep the expected sum.

    Args:
        x: a floating tensor.
        keep_prob: 1 - `rate`, an older way to say it.
        noise_shape: the shape of the random decisions, broadcast to that of `x`: along an axis of size 1 all elements
            are kept or dropped together. None in it stands for the size of `x`.
        seed: see `get_seed`.
        name: the name of the operation.
        rate: the probability to be dropped, from 0 up to but not 1; a number or a scalar tensor.

    Raises:
        ValueError: not exactly one of `rate` and `keep_prob` is given, or a number is out of range.

    Examples:
        >>> await session.run(af.nn.dropout(af.ones([4]), rate=0.0))
        array([1., 1., 1., 1.], dtype=float32)
    """
    with name_scope(name, "dropout", [x]) as scope:
        value = convert_to_tensor(x)
        if value.dtype not in FLOAT:
            raise ValueError(f"x must be floating to be scaled, not {value.dtype.name}")
        drop = drop_rate(keep_prob, rate)
        if isinstance(drop, float) and drop == 0:
            return value
        dtype = float32 if value.dtype in NARROW else value.dtype
        noise = random_uniform(noise_sizes(value, noise_shape), dtype=dtype, seed=seed)
        return dropped(value, shaped_like(value, noise) if noise_shape is None else noise, drop, scope)


def dropped(value: Tensor, noise: Tensor, rate: float | Tensor, scope: str) -> Tensor:
    """`value` without the elements whose noise, from 0 up to but not 1, is below the rate; the others scaled."""
    kept = cast(greater_equal(noise, rate if isinstance(rate, float) else cast(rate, noise.dtype)), value.dtype)
    scale = 1 / (1 - rate)
    scaled = value * (scale if isinstance(scale, float) else cast(scale, value.dtype))
    return multiply(scaled, kept, name=scope)


def drop_rate(keep_prob: Any, rate: Any) -> Any:
    """The probability to be dropped: a float, or a tensor."""
    if (keep_prob is None) == (rate is None):
        raise ValueError("give either rate or keep_prob")
    drop = rate if keep_prob is None else 1 - keep_prob
    if isinstance(drop, Tensor):
        return drop
    if not 0 <= drop < 1:
        raise ValueError(f"rate must be from 0 up to but not 1, not {float(drop):g}")
    return float(drop)


def noise_sizes(x: Tensor, noise_shape: Any) -> Any:
    """The shape of the noise of a dropout of `x`: its own by default."""
    if noise_shape is None:
        return shape_of(x)
    if isinstance(noise_shape, Tensor) or x.shape.sizes is None:
        return noise_shape
    sizes = list(noise_shape)
    if len(sizes) != len(x.shape.sizes):
        raise ValueError(f"noise_shape {sizes} does not fit x of shape {x.shape}")
    known = [mine if size is None else size for size, mine in zip(sizes, x.shape.sizes, strict=True)]
    return [shape(x)[axis] if size is None else size for axis, size in enumerate(known)]


@transactional
def moments(
    x: NumberLike,
    axes: Axes,
    shift: None = None,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Return mean and variance of `x` along `axes`, for narrow floats in float32. `shift` has no effect.

    Examples:
        >>> await session.run(af.nn.moments(af.constant([1.0, 3.0]), axes=[0]))
        (np.float32(2.0), np.float32(1.0))
    """
    with name_scope(name, "moments", [x]):
        value = convert_to_tensor(x)
        wide = cast(value, float32) if value.dtype in NARROW else value
        mean = reduce_mean(wide, axes, keepdims=True)
        variance = reduce_mean(squared_difference(wide, mean), axes, keepdims=True)
        if not renamed("keepdims", keepdims, keep_dims):
            mean, variance = squeeze(mean, axes), squeeze(variance, axes)
        return cast(mean, value.dtype), cast(variance, value.dtype)


@transactional
def batch_normalization(
    x: NumberLike,
    mean: NumberLike,
    variance: NumberLike,
    offset: NumberLike,
    scale: NumberLike,
    variance_epsilon: float,
    name: str | None = None,
) -> Tensor:
    """Return (x - mean) / sqrt(variance + variance_epsilon), times `scale`, plus `offset`; either may be None.

    Examples:
        >>> x = af.constant([[1.0], [3.0]])
        >>> mean, variance = af.nn.moments(x, axes=[0])
        >>> await session.run(af.nn.batch_normalization(x, mean, variance, None, None, 0.0))
        array([[-1.],
               [ 1.]], dtype=float32)
    """
    with name_scope(name, "batchnorm", [x, mean, variance, offset, scale]) as scope:
        value = convert_to_tensor(x)
        factor = rsqrt(convert_to_tensor(variance, value.dtype) + variance_epsilon)
        if scale is not None:
            factor = factor * scale
        shift = -convert_to_tensor(mean, value.dtype) * factor
        return add(value * factor, shift if offset is None else shift + offset, name=scope)


@transactional
def l2_normalize(
    x: NumberLike, axis: Axes = None, epsilon: float = 1e-12, name: str | None = None, dim: Axes = None
) -> Tensor:
    """Divide `x` by its Euclidean norm along `axis`, at least sqrt(epsilon).

    Examples:
        >>> await session.run(af.linalg.l2_normalize([3.0, 4.0], axis=0))
        array([0.6, 0.8], dtype=float32)
    """
    with name_scope(name, "l2_normalize", [x]) as scope:
        value = convert_to_tensor(x)
        squares = real(value * conj(value)) if value.dtype.is_complex else square(value)
        total = reduce_sum(squares, renamed("axis", axis, dim), keepdims=True)
        return multiply(value, cast(rsqrt(maximum(total, epsilon)), value.dtype), name=scope)


@transactional
def xw_plus_b(x: NumberLike, weights: NumberLike, biases: NumberLike, name: str | None = None) -> Tensor:
    """Return the layer x @ weights + biases.

    Examples:
        >>> await session.run(af.nn.xw_plus_b([[1.0, 2.0]], [[3.0], [4.0]], [0.5]))
        array([[11.5]], dtype=float32)
    """
    with name_scope(name, "xw_plus_b", [x, weights, biases]) as scope:
        return bias_add(matmul(x, weights), biases, name=scope)


@transactional
def relu_layer(x: NumberLike, weights: NumberLike, biases: NumberLike, name: str | None = None) -> Tensor:
    """Return the layer relu(x @ weights + biases).

    Examples:
        >>> await session.run(af.nn.relu_layer([[1.0, -2.0]], [[3.0], [4.0]], [0.5]))
        array([[0.]], dtype=float32)
    """
    with name_scope(name, "relu_layer", [x, weights, biases]) as scope:
        return relu(bias_add(matmul(x, weights), biases), name=scope)


@transactional
def weighted_cross_entropy_with_logits(
    labels: NumberLike | None = None,
    logits: NumberLike | None = None,
    pos_weight: NumberLike | None = None,
    name: str | None = None,
    targets: NumberLike | None = None,
) -> Tensor:
    """Return `sigmoid_cross_entropy_with_logits` with the loss of positive labels multiplied by `pos_weight`.

    Examples:
        >>> losses = af.nn.weighted_cross_entropy_with_logits([1.0], [0.0], pos_weight=2.0)
        >>> await session.run(losses)
        array([1.3862944], dtype=float32)
    """
    truth = renamed("labels", labels, targets)
    if truth is None or logits is None or pos_weight is None:
        raise ValueError("weighted_cross_entropy_with_logits needs labels, logits and pos_weight")
    with name_scope(name, "logistic_loss", [logits, truth]) as scope:
        x = convert_to_tensor(logits)
        z = convert_to_tensor(truth, x.dtype)
        return add((1 - z) * x, (1 + (convert_to_tensor(pos_weight, x.dtype) - 1) * z) * softplus(-x), name=scope)


@transactional
def log_poisson_loss(
    targets: NumberLike, log_input: NumberLike, compute_full_loss: bool = False, name: str | None = None
) -> Tensor:
    """Return exp(log_input) - targets * log_input: the loss of a prediction of exp(log_input) events for `targets`.

    It is the negative logarithm of Poisson's distribution without log(targets!). Stirling's approximation of that term
    is added with `compute_full_loss`, where targets are above 1.

    Examples:
        >>> await session.run(af.nn.log_poisson_loss([1.0], [0.0]))
        array([1.], dtype=float32)
    """
    with name_scope(name, "log_poisson_loss", [log_input, targets]) as scope:
        x = convert_to_tensor(log_input)
        z = convert_to_tensor(targets, x.dtype)
        z.shape.merge_with(x.shape)
        if not compute_full_loss:
            return subtract(exp(x), x * z, name=scope)
        stirling = z * log(z) - z + 0.5 * log(2 * math.pi * z)
        small = logical_and(greater_equal(z, 0.0), less_equal(z, 1.0))
        return add(exp(x) - x * z, where(small, zeros_like(z), stirling), name=scope)


@transactional
def zero_fraction(value: NumberLike, name: str | None = None) -> Tensor:
    """Return the share of zeros in `value`, as a float32.

    Examples:
        >>> await session.run(af.nn.zero_fraction([0.0, 1.0, 0.0, 2.0]))
        np.float32(0.5)
    """
    with name_scope(name, "zero_fraction", [value]) as scope:
        x = convert_to_tensor(value)
        return reduce_mean(cast(equal(x, cast(0, x.dtype)), float32), name=scope)


@transactional
@dispatching
def gelu(features: NumberLike, approximate: bool = False, name: str | None = None) -> Tensor:
    """Return `features` times the probability that a normal number is smaller [Hendrycks 2016].

    `approximate` computes 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) instead.

    Examples:
        >>> await session.run(af.nn.gelu([-1.0, 2.0]))
        array([-0.15865529,  1.9545    ], dtype=float32)
    """
    with name_scope(name, "gelu", [features]) as scope:
        return (gelu_tanh if approximate else gelu_erf)(convert_to_tensor(features), name=scope)


@transactional
@dispatching
def silu(features: NumberLike, beta: NumberLike = 1.0, name: str | None = None) -> Tensor:
    """Return `features` times the sigmoid of `beta` times them [Ramachandran 2017].

    Examples:
        >>> await session.run(af.nn.silu([-1.0, 2.0]))
        array([-0.2689414,  1.761594 ], dtype=float32)
    """
    with name_scope(name, "silu", [features, beta]) as scope:
        x = convert_to_tensor(features)
        steep = x if isinstance(beta, (int, float)) and beta == 1 else x * convert_to_tensor(beta, x.dtype)
        return multiply(x, sigmoid(steep), name=scope)


@transactional
def crelu(features: NumberLike, name: str | None = None, axis: int = -1) -> Tensor:
    """Concatenate the positive parts of `features` and of -`features` along `axis`, which doubles.

    Examples:
        >>> await session.run(af.nn.crelu([-1.0, 2.0]))
        array([0., 2., 1., 0.], dtype=float32)
    """
    with name_scope(name, "CRelu", [features]) as scope:
        x = convert_to_tensor(features)
        return relu(concat([x, negative(x)], axis), name=scope)


@transactional
def hard_sigmoid(x: NumberLike, name: str | None = None) -> Tensor:
    """Return 0.2 * x + 0.5, clipped to the range from 0 to 1: a piecewise linear sigmoid.

    Examples:
        >>> await session.run(af.nn.hard_sigmoid([-1.0, 9.0]))
        array([0.3, 1. ], dtype=float32)
    """
    with name_scope(name, "hard_sigmoid", [x]) as scope:
        return clip_by_value(convert_to_tensor(x) * 0.2 + 0.5, 0.0, 1.0, name=scope)


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

    Examples:
        >>> await session.run(af.nn.layer_normalization([[1.0, 3.0]], [0.0, 0.0], [1.0, 1.0]))
        array([[-1.,  1.]], dtype=float32)
    """
    with name_scope(name, "layer_normalization", [x, offset, scale]) as scope:
        value = convert_to_tensor(x)
        dtype = statistics_dtype(value.dtype)
        factor, shift = [None if each is None else cast(convert_to_tensor(each), dtype) for each in (scale, offset)]
        sizes = _last_sizes(value, axis)
        if sizes and all(each is None or each.shape.as_list() == sizes for each in (factor, shift)):
            factor = constant(np.ones(sizes, dtype.np)) if factor is None else factor
            shift = constant(np.zeros(sizes, dtype.np)) if shift is None else shift
            return layer_norm(value, factor, shift, variance_epsilon, name=scope)[0]
        wide = cast(value, dtype)
        off = wide - reduce_mean(wide, axis, keepdims=True)
        spread = rsqrt(reduce_mean(square(off), axis, keepdims=True) + variance_epsilon)
        spread = spread if factor is None else spread * factor
        if shift is None:
            return cast(multiply(off, spread, name=scope), value.dtype)
        return cast(add(off * spread, shift, name=scope), value.dtype)


def _last_sizes(x: Tensor, axis: Axis) -> list[int]:
    """The sizes of these axes if they are known and the last ones, else nothing."""
    if x.spec.sizes is None:
        return []
    rank = len(x.spec.sizes)
    axes = sorted(axes_of(axis, rank))
    sizes = [size for size in x.spec.sizes[rank - len(axes) :] if size is not None]
    return sizes if axes == [*range(rank - len(sizes), rank)] else []


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

    Examples:
        >>> x, ones = np.full((1, 1, 1, 2), 3.0, np.float32), np.ones(2, np.float32)
        >>> y = af.nn.batch_norm_with_global_normalization(x, ones, 4 * ones, 0 * ones, ones, 0.0, True)
        >>> await session.run(y)
        array([[[[1., 1.]]]], dtype=float32)
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

    Examples:
        >>> await session.run(af.nn.sufficient_statistics(af.constant([1.0, 3.0]), [0])[:3])
        (np.float32(2.0), np.float32(4.0), np.float32(10.0))
    """
    with name_scope(name, "sufficient_statistics", [x, shift]):
        value = convert_to_tensor(x)
        moved = None if shift is None else convert_to_tensor(shift, value.dtype)
        off = value if moved is None else subtract(value, moved)
        squares = square(value) if moved is None else squared_difference(value, moved)
        keep = renamed("keepdims", keepdims, keep_dims)
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
    """Return the mean and the variance from the result of `sufficient_statistics`.

    Examples:
        >>> await session.run(af.nn.normalize_moments(af.constant(2.0), af.constant(4.0), af.constant(10.0), None))
        (np.float32(2.0), np.float32(1.0))
    """
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

    Examples:
        >>> await session.run(af.nn.weighted_moments(af.constant([1.0, 3.0]), [0], [3.0, 1.0]))
        (np.float32(1.5), np.float32(0.75))
    """
    with name_scope(name, "weighted_moments", [x, frequency_weights]):
        value, weights = convert_to_tensor(x), convert_to_tensor(frequency_weights)
        dtype = float32 if value.dtype in NARROW else value.dtype
        wide, times = cast(value, dtype), cast(weights, dtype)
        each = shaped_like(wide, times + OPERATORS["zeros_like"](wide))
        total = reduce_sum(each, axes, keepdims=True)
        mean = reduce_sum(times * wide, axes, keepdims=True) / total
        variance = reduce_sum(times * squared_difference(wide, mean), axes, keepdims=True) / total
        if not renamed("keepdims", keepdims, keep_dims):
            dropped = list(range(wide.shape.ndims)) if axes is None and wide.shape.ndims is not None else axes
            mean, variance = squeeze(mean, dropped), squeeze(variance, dropped)
        return cast(mean, value.dtype), cast(variance, value.dtype)
