"""Random numbers of distributions with a parameter per number: gamma, Poisson, Bernoulli.

A rejected number is drawn again in the next round of the operation's stream (see random.py). It has its own words in
each round: element i of gammas the four of block i + 1, of Poisson's numbers words 2i and 2i + 1. So an element depends
on its position alone, however often others were rejected. The kernels compute in float64.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import ml_dtypes
import numpy as np

from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels import known
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import zeros_like
from aioflow.kernels.array.shapes import shape as shape_of
from aioflow.kernels.context import Context
from aioflow.kernels.families import CPU, costs, sum_to_operand
from aioflow.kernels.math.arithmetic import add, divide, maximum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import less
from aioflow.kernels.math.gamma import density, igamma_derivative, log_gamma
from aioflow.kernels.math.random import get_seed, random_uniform, rounds
from aioflow.kernels.math.random_numbers import Words, box_muller, fractions, sized
from aioflow.kernels.math.special import pieces
from aioflow.tensors.dtypes import (
    FLOAT,
    INTEGER,
    Array,
    DType,
    DTypeLike,
    Spec,
    TensorShape,
    as_dtype,
    float32,
    float64,
    int32,
    int64,
)

Law = Callable[[Array, Words], Array]
"""Numbers of these parameters from rows of words; NaN where they are rejected."""
_FEW: Final = 10.0
"""Rates below it are counted up to."""
_MOST: Final = 80
"""More than this, at a rate below _FEW, comes once in 10^40 times."""


def _shape(shape: Spec, parameter: Spec) -> TensorShape:
    return known.shape(shape).concatenate(parameter.shape)


@op(name="random_gamma", counted=True)
def _gamma(shape: Ints, alpha: Spec, seed: int | None = None, seed2: int | None = None) -> Spec:
    """Positive numbers of the gamma distribution of shape `alpha` and scale 1, `shape` for each alpha.

    NaN where alpha is not a positive number. The gradient by alpha is the derivative of the quantile at fixed
    probability.
    """
    return Spec(alpha.only(FLOAT).dtype, _shape(shape, alpha))


@_gamma.gradient
def _(op: Operation, dy: Tensor) -> tuple[None, Tensor | None]:
    alpha, numbers = op.inputs[1], op.outputs[0]
    return None, sum_to_operand(alpha, dy * gamma_slope(alpha, numbers))


def gamma_slope(alpha: Tensor, numbers: Tensor) -> Tensor:
    """The derivatives of numbers of the gamma distribution by alpha, at fixed probability."""
    a, x = cast(alpha, float64), cast(numbers, float64)
    slope = -igamma_derivative(a, x, 1) / density(a, x, 0)
    return cast(slope, alpha.dtype)


@op(name="random_poisson", counted=True)
def _poisson(shape: Ints, rate: Spec, seed: int | None = None, seed2: int | None = None, dtype: DType = int64) -> Spec:
    """Numbers of the Poisson distribution with mean `rate`, `shape` for each rate."""
    rate.only(FLOAT, INTEGER)
    return Spec(Spec(dtype).only(FLOAT, INTEGER).dtype, _shape(shape, rate))


_poisson.no_gradient("counts of events are whole numbers")
costs(_gamma, 100.0)
costs(_poisson, 100.0)


def drawn(law: Law, parameters: Array, valid: Array, streams: Iterator[Words], each: int) -> Array:
    """Numbers of the distribution, of `each` words, redrawn until accepted; NaN where a parameter is not valid.

    Each element, or row, of `parameters` is for one number.
    """
    result = np.full(len(parameters), np.nan)
    left = np.flatnonzero(valid)
    for stream in streams:
        result[left] = law(parameters[left], stream.reshape(-1, each)[left])
        left = left[np.isnan(result[left])]
        if not left.size:
            break
    return result


def _spread(shape: Array, parameter: Array) -> tuple[list[int], Array]:
    """The shape of the result, and the parameter of each of its elements."""
    sizes = [*sized(shape)[0], *parameter.shape]
    return sizes, np.broadcast_to(parameter, sizes).ravel().astype(np.float64)


@_gamma.kernel(CPU, fresh=True)
def _(ctx: Context, shape: Array, alpha: Array, *, seed: int | None, seed2: int | None, node: NodeView) -> Array:
    sizes, alphas = _spread(shape, alpha)
    return gammas(alphas, rounds(ctx, node, seed, seed2, 4 * alphas.size), alpha.dtype).reshape(sizes)


def gammas(alphas: Array, streams: Iterator[Words], dtype: np.dtype[Any]) -> Array:
    """A number of the gamma distribution of each alpha, by four words of a stream; NaN for an alpha that has none."""
    numbers = drawn(_gammas, alphas, (alphas > 0) & (alphas < math.inf), streams, 4)
    smallest = ml_dtypes.finfo(dtype).tiny  # type: ignore[no-untyped-call]
    return np.asarray(np.maximum(numbers.astype(dtype), smallest), dtype)


def _gammas(alpha: Array, words: Words) -> Array:
    """Marsaglia and Tsang's: d (1 + c x)^3 of a normal x has nearly the distribution of alpha = d + 1/3.

    Below alpha = 1, that of alpha + 1 times u^(1 / alpha).
    """
    d = np.where(alpha < 1, alpha + 1, alpha) - 1 / 3
    normal = box_muller(words[:, :2].ravel(), float64.np)[0::2]
    v = (1 + normal / np.sqrt(9 * d)) ** 3
    fits = np.log(_shares(words[:, 2])) < normal * normal / 2 + d * (1 - v + np.log(v))
    factor = np.where(alpha < 1, _shares(words[:, 3]) ** (1 / alpha), 1)
    return np.where(fits & (v > 0), d * v * factor, np.nan)


def _shares(words: Words) -> Array:
    """Numbers from above 0 up to 1."""
    return fractions(words, float64.np, 53) + 2.0**-53


@_poisson.kernel(CPU, fresh=True)
def _(
    ctx: Context, shape: Array, rate: Array, *, seed: int | None, seed2: int | None, dtype: DType, node: NodeView
) -> Array:
    sizes, rates = _spread(shape, rate)
    return poissons(rates, rounds(ctx, node, seed, seed2, 2 * rates.size), dtype).reshape(sizes)


def poissons(rates: Array, streams: Iterator[Words], dtype: DType) -> Array:
    """A number of the Poisson distribution of each rate, by two words of a stream."""
    valid = (rates >= 0) & (rates < math.inf)
    if dtype.is_integer and not valid.all():
        raise ValueError(f"rate {rates[~valid][0]} is not a number from 0 on")
    numbers = drawn(_poissons, rates, valid, streams, 2)
    whole = numbers.clip(None, 2.0**62).astype(np.int64) if dtype.is_integer else numbers
    return whole.astype(dtype.np)


def _poissons(rate: Array, words: Words) -> Array:
    few = rate < _FEW
    return pieces([(few, _counted), (~few, _squeezed)], rate, *[fractions(word, float64.np, 53) for word in words.T])


def _counted(rate: Array, share: Array, unused: Array) -> Array:
    """The first number up to which more than the share of the distribution lies."""
    number, part = np.zeros_like(rate), np.exp(-rate)
    below = part.copy()
    for k in range(1, _MOST):
        beyond = share >= below
        if not beyond.any():
            break
        number += beyond
        part *= rate / k
        below += part
    return number


def _squeezed(rate: Array, u: Array, v: Array) -> Array:
    """Hörmann's transformed rejection with squeeze (PTRS, 1993)."""
    b = 0.931 + 2.53 * np.sqrt(rate)
    a = -0.059 + 0.02483 * b
    u = u - 0.5
    side = 0.5 - np.abs(u)
    number = np.floor((2 * a / side + b) * u + rate + 0.43)
    inside = (side >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
    height = np.log(v) + np.log(1.1239 + 1.1328 / (b - 3.4)) - np.log(a / (side * side) + b)
    fits = height <= number * np.log(rate) - rate - log_gamma(number + 1)
    outside = (number < 0) | ((side < 0.013) & (v > side))
    return np.where(inside | (fits & ~outside), number, np.nan)


# For users


@transactional
def random_gamma(
    shape: NumberLike,
    alpha: NumberLike,
    beta: NumberLike | None = None,
    dtype: DTypeLike = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Numbers of the gamma distributions of shape `alpha` and rate `beta`, 1 by default; gradients flow to both.

    The result is [*shape, *the shape that alpha and beta broadcast to]: `shape` positive numbers of each
    distribution. NaN where alpha is not a positive number.

    Examples:
        >>> (await session.run(af.random_gamma([3], alpha=2.0))).shape
        (3,)
    """
    kind = as_dtype(dtype)
    with get_default_graph().name_scope(name or "random_gamma") as scope:
        shapes = convert_to_tensor(alpha, kind)
        first, second = get_seed(seed)
        if beta is None:
            return _gamma(shape, shapes, first, second, name=scope)
        rates = convert_to_tensor(beta, kind)
        numbers = _gamma(shape, add(shapes, zeros_like(rates)), first, second)
        smallest = ml_dtypes.finfo(kind.np).tiny  # type: ignore[no-untyped-call]
        return maximum(divide(numbers, rates), convert_to_tensor(float(smallest), kind), name=scope)


def random_poisson(
    lam: NumberLike, shape: NumberLike, dtype: DTypeLike = float32, seed: int | None = None, name: str | None = None
) -> Tensor:
    """Numbers of the Poisson distributions of mean `lam`: [*shape, *its shape], `shape` numbers of each.

    A floating dtype has NaN where lam is negative or infinite.

    Raises:
        InvalidArgumentError: in the run, if it is and the dtype is an integer one.

    Examples:
        >>> (await session.run(af.random_poisson(4.0, [3]))).shape
        (3,)
    """
    return _poisson(shape, lam, *get_seed(seed), as_dtype(dtype), name=name)


@transactional
def random_bernoulli(
    shape: NumberLike,
    probs: NumberLike = 0.5,
    dtype: DTypeLike = int32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """1 with the probability `probs`, else 0: [*shape, *the shape of probs], `shape` numbers for each.

    Examples:
        >>> (await session.run(af.random_bernoulli([3], 1.0))).tolist()
        [1, 1, 1]
    """
    with get_default_graph().name_scope(name or "random_bernoulli") as scope:
        likely = convert_to_tensor(probs, preferred_dtype=float32)
        likely = likely if likely.dtype in (float32, float64) else cast(likely, float32)
        sizes = convert_to_tensor(shape, preferred_dtype=int32)
        whole = concat([sizes, shape_of(likely, out_type=sizes.dtype)], 0)
        return cast(less(random_uniform(whole, dtype=likely.dtype, seed=seed), likely), as_dtype(dtype), name=scope)
