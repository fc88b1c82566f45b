"""Functions of `af.nn` that compose ops: dropout, moments, batch normalization, products with a bias."""

import math
from collections.abc import Sequence
from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.fill import zeros_like
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import shape, shape_of, squeeze
from aioflow.kernels.families import NARROW, shaped_like
from aioflow.kernels.linalg.norms import matmul
from aioflow.kernels.math.arithmetic import add, maximum, multiply, squared_difference, subtract
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, greater_equal, less_equal, logical_and
from aioflow.kernels.math.complex import conj, real
from aioflow.kernels.math.elementwise import exp, log, rsqrt, square
from aioflow.kernels.math.random import random_uniform
from aioflow.kernels.math.reduction import reduce_mean, reduce_sum
from aioflow.kernels.nn.activation import bias_add, relu, softplus
from aioflow.library.control import name_scope
from aioflow.tensors.dtypes import FLOAT, float32

Axes = int | Sequence[int] | None


@transactional
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
    """
    with name_scope(name, "dropout", [x]) as scope:
        value = convert_to_tensor(x)
        if value.dtype not in FLOAT:
            raise ValueError(f"x must be floating to be scaled, not {value.dtype.name}")
        drop = _rate(keep_prob, rate)
        if isinstance(drop, float) and drop == 0:
            return value
        dtype = float32 if value.dtype in NARROW else value.dtype
        noise = random_uniform(_noise_shape(value, noise_shape), dtype=dtype, seed=seed)
        if noise_shape is None:
            noise = shaped_like(value, noise)
        kept = cast(greater_equal(noise, drop if isinstance(drop, float) else cast(drop, dtype)), value.dtype)
        scale = 1 / (1 - drop)
        scaled = value * (scale if isinstance(scale, float) else cast(scale, value.dtype))
        return multiply(scaled, kept, name=scope)


def _rate(keep_prob: Any, rate: Any) -> Any:
    """The probability to be dropped: a float, or a tensor."""
    if (keep_prob is None) == (rate is None):
        raise ValueError("give either rate or keep_prob")
    drop = rate if keep_prob is None else 1 - keep_prob
    if isinstance(drop, Tensor):
        return drop
    if not 0 <= drop < 1:
        raise ValueError(f"rate must be from 0 up to but not 1, not {float(drop):g}")
    return float(drop)


def _noise_shape(x: Tensor, noise_shape: Any) -> Any:
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
    """Return mean and variance of `x` along `axes`, for narrow floats in float32. `shift` has no effect."""
    with name_scope(name, "moments", [x]):
        value = convert_to_tensor(x)
        wide = cast(value, float32) if value.dtype in NARROW else value
        mean = reduce_mean(wide, axes, keepdims=True)
        variance = reduce_mean(squared_difference(wide, mean), axes, keepdims=True)
        if not (keepdims or keep_dims):
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
    """Return (x - mean) / sqrt(variance + variance_epsilon), times `scale`, plus `offset`; either may be None."""
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
    """Divide `x` by its Euclidean norm along `axis`, at least sqrt(epsilon)."""
    with name_scope(name, "l2_normalize", [x]) as scope:
        value = convert_to_tensor(x)
        squares = real(value * conj(value)) if value.dtype.is_complex else square(value)
        total = reduce_sum(squares, dim if axis is None else axis, keepdims=True)
        return multiply(value, cast(rsqrt(maximum(total, epsilon)), value.dtype), name=scope)


@transactional
def xw_plus_b(x: NumberLike, weights: NumberLike, biases: NumberLike, name: str | None = None) -> Tensor:
    """Return the layer x @ weights + biases."""
    with name_scope(name, "xw_plus_b", [x, weights, biases]) as scope:
        return bias_add(matmul(x, weights), biases, name=scope)


@transactional
def relu_layer(x: NumberLike, weights: NumberLike, biases: NumberLike, name: str | None = None) -> Tensor:
    """Return the layer relu(x @ weights + biases)."""
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
    """Return `sigmoid_cross_entropy_with_logits` with the loss of positive labels multiplied by `pos_weight`."""
    truth = targets if labels is None else labels
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
    """Return the share of zeros in `value`, as a float32."""
    with name_scope(name, "zero_fraction", [value]) as scope:
        x = convert_to_tensor(value)
        return reduce_mean(cast(equal(x, cast(0, x.dtype)), float32), name=scope)
