"""Random numbers that follow from a `seed` of two integers: the same in each run, session, plan and cluster.

They have TensorFlow's names, arguments and distributions, but not its bits. One seed is for one call: two calls with
the same seed give related numbers. `stateless_split` and `stateless_fold_in` make further seeds of one.
"""

from typing import Any

import ml_dtypes
import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import broadcast_to
from aioflow.kernels.math import stateless_random as kernels
from aioflow.kernels.math.arithmetic import add, divide, maximum, minimum, multiply
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.elementwise import negative
from aioflow.kernels.math.error_functions import erfc, ndtri
from aioflow.library.control import name_scope
from aioflow.tensors.dtypes import FLOAT, DTypeLike, Spec, as_dtype, float32, float64, int32, int64

_ALGORITHMS = ("auto_select", "philox")


def _check_algorithm(alg: object) -> None:
    if alg not in _ALGORITHMS:
        raise ValueError(f"random numbers are Philox's: alg is one of {', '.join(_ALGORITHMS)}, not {alg!r}")


def _stretched(numbers: Tensor, scale: Any, shift: Any, scope: str) -> Tensor:
    return add(multiply(numbers, convert_to_tensor(scale, numbers.dtype)), shift, name=scope)


@transactional
def stateless_uniform(
    shape: NumberLike,
    seed: NumberLike,
    minval: NumberLike | None = 0,
    maxval: NumberLike | None = None,
    dtype: DTypeLike = float32,
    name: str | None = None,
    alg: str = "auto_select",
) -> Tensor:
    """Numbers from `minval` up to but not `maxval`, each as likely as the next; `maxval` is 1 for floats by default.

    For an integer dtype with `minval` and `maxval` None, all integers of the dtype are as likely.

    Raises:
        ValueError: only one of the bounds of integers is given, or `minval` is not below `maxval`.

    Examples:
        >>> await session.run(af.random.stateless_uniform([3], seed=[1, 2], minval=0, maxval=10, dtype=af.int32))
        array([6, 0, 3], dtype=int32)
    """
    _check_algorithm(alg)
    kind = as_dtype(dtype)
    with name_scope(name, "stateless_random_uniform", [shape, seed]) as scope:
        if kind.is_integer and minval is None and maxval is None:
            return kernels.stateless_random_uniform_full_int(shape, seed, kind, name=scope)
        if minval is None or (kind.is_integer and maxval is None):
            raise ValueError(f"for the dtype {kind.name} give minval and maxval, or for all integers neither")
        low = convert_to_tensor(minval, kind)
        high = convert_to_tensor(1 if maxval is None else maxval, kind)
        if kind.is_integer:
            return kernels.stateless_random_uniform_int(shape, seed, low, high, name=scope)
        return _stretched(kernels.stateless_random_uniform(shape, seed, kind), high - low, low, scope)


@transactional
def stateless_normal(
    shape: NumberLike,
    seed: NumberLike,
    mean: NumberLike = 0.0,
    stddev: NumberLike = 1.0,
    dtype: DTypeLike = float32,
    name: str | None = None,
    alg: str = "auto_select",
) -> Tensor:
    """Normally distributed numbers of that mean and standard deviation, to which gradients flow.

    Examples:
        >>> (await session.run(af.random.stateless_normal([1000], seed=[1, 2], mean=5.0))).mean().round()
        np.float32(5.0)
    """
    _check_algorithm(alg)
    with name_scope(name, "stateless_random_normal", [shape, seed, mean, stddev]) as scope:
        return _stretched(kernels.stateless_random_normal(shape, seed, as_dtype(dtype)), stddev, mean, scope)


@transactional
def stateless_truncated_normal(
    shape: NumberLike,
    seed: NumberLike,
    mean: NumberLike = 0.0,
    stddev: NumberLike = 1.0,
    dtype: DTypeLike = float32,
    name: str | None = None,
    alg: str = "auto_select",
) -> Tensor:
    """Normally distributed numbers, of which those further than two standard deviations from the mean are left out.

    Examples:
        >>> bool((abs(await session.run(af.random.stateless_truncated_normal([1000], seed=[1, 2]))) < 2).all())
        True
    """
    _check_algorithm(alg)
    with name_scope(name, "stateless_truncated_normal", [shape, seed, mean, stddev]) as scope:
        return _stretched(kernels.stateless_truncated_normal(shape, seed, as_dtype(dtype)), stddev, mean, scope)


@transactional
def stateless_parameterized_truncated_normal(
    shape: NumberLike,
    seed: NumberLike,
    means: NumberLike = 0.0,
    stddevs: NumberLike = 1.0,
    minvals: NumberLike = -2.0,
    maxvals: NumberLike = 2.0,
    name: str | None = None,
) -> Tensor:
    """Numbers as normally distributed ones of these means and standard deviations between `minvals` and `maxvals`.

    The parameters are broadcast to `shape`. The numbers are quantiles of random shares, so gradients flow to all.

    Examples:
        >>> numbers = af.random.stateless_parameterized_truncated_normal([100], [1, 2], minvals=1.0, maxvals=1.5)
        >>> bool(((await session.run(numbers)) >= 1.0).all())
        True
    """
    with name_scope(name, "stateless_parameterized_truncated_normal", [shape, seed, means]) as scope:
        first = convert_to_tensor(means, preferred_dtype=float32)
        kind = Spec(first.dtype).only(FLOAT).dtype
        given = [convert_to_tensor(value, kind) for value in (first, stddevs, minvals, maxvals)]
        mean, deviation, low, high = [cast(broadcast_to(value, shape), float64) for value in given]
        share = kernels.stateless_random_uniform(shape, seed, float64)
        numbers = mean + deviation * _between(share, (low - mean) / deviation, (high - mean) / deviation)
        return cast(minimum(maximum(numbers, low), high), kind, name=scope)


def _between(share: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The normal number below which a share of those between `low` and `high` lies: of the lower tail where it may."""
    upper = low > 0
    below, above = where(upper, negative(high), low), where(upper, negative(low), high)
    start, end = _normal_share(below), _normal_share(above)
    number = ndtri(start + share * (end - start))
    return where(upper, negative(number), number)


def _normal_share(x: Tensor) -> Tensor:
    """The share of all normal numbers below x."""
    return erfc(x * -(0.5**0.5)) / 2


@transactional
def stateless_gamma(
    shape: NumberLike,
    seed: NumberLike,
    alpha: NumberLike,
    beta: NumberLike | None = None,
    dtype: DTypeLike = float32,
    name: str | None = None,
) -> Tensor:
    """Numbers of the gamma distributions of shape `alpha` and rate `beta`, 1 by default; gradients flow to both.

    `shape` is that of the result, to which alpha and beta are broadcast. NaN where alpha is not a positive number.

    Examples:
        >>> (await session.run(af.random.stateless_gamma([3, 2], seed=[1, 2], alpha=[0.5, 2.0]))).shape
        (3, 2)
    """
    kind = as_dtype(dtype)
    with name_scope(name, "stateless_random_gamma", [shape, seed, alpha, beta]) as scope:
        shapes = broadcast_to(convert_to_tensor(alpha, kind), shape)
        if beta is None:
            return kernels.stateless_random_gamma(shapes, seed, name=scope)
        numbers = kernels.stateless_random_gamma(shapes, seed)
        rates = broadcast_to(convert_to_tensor(beta, kind), shape)
        smallest = ml_dtypes.finfo(kind.np).tiny  # type: ignore[no-untyped-call]
        return maximum(divide(numbers, rates), convert_to_tensor(float(smallest), kind), name=scope)


@transactional
def stateless_poisson(
    shape: NumberLike, seed: NumberLike, lam: NumberLike, dtype: DTypeLike = int32, name: str | None = None
) -> Tensor:
    """Numbers of the Poisson distributions of mean `lam`, which is broadcast to `shape`.

    A floating dtype has NaN where lam is negative or infinite; of an integer dtype the run fails.

    Examples:
        >>> (await session.run(af.random.stateless_poisson([3, 2], seed=[1, 2], lam=[5.0, 15.0]))).shape
        (3, 2)
    """
    with name_scope(name, "stateless_random_poisson", [shape, seed, lam]) as scope:
        rates = broadcast_to(_floating(lam), shape)
        return kernels.stateless_random_poisson(rates, seed, as_dtype(dtype), name=scope)


@transactional
def stateless_binomial(
    shape: NumberLike,
    seed: NumberLike,
    counts: NumberLike,
    probs: NumberLike,
    output_dtype: DTypeLike = int32,
    name: str | None = None,
) -> Tensor:
    """How many of `counts` attempts succeed, each with the probability of `probs`; both are broadcast to `shape`.

    A floating dtype has NaN where a count is not a whole number from 0 on or a probability lies outside [0, 1]; of an
    integer dtype the run fails.

    Examples:
        >>> (await session.run(af.random.stateless_binomial([2], seed=[1, 2], counts=[7, 9], probs=1.0))).tolist()
        [7, 9]
    """
    with name_scope(name, "stateless_random_binomial", [shape, seed, counts, probs]) as scope:
        attempts, chances = [broadcast_to(cast(_floating(value), float64), shape) for value in (counts, probs)]
        return kernels.stateless_random_binomial(attempts, chances, seed, as_dtype(output_dtype), name=scope)


def _floating(value: NumberLike) -> Tensor:
    tensor = convert_to_tensor(value)
    return tensor if tensor.dtype in FLOAT else cast(tensor, float64)


def stateless_multinomial(
    logits: NumberLike,
    num_samples: NumberLike,
    seed: NumberLike,
    output_dtype: DTypeLike = int64,
    name: str | None = None,
) -> Tensor:
    """For each row of `logits`, `num_samples` classes, each drawn with the probability softmax(logits).

    Examples:
        >>> (await session.run(af.random.stateless_multinomial([[0.0, -1000.0]], 3, seed=[1, 2]))).tolist()
        [[0, 0, 0]]
    """
    return kernels.stateless_multinomial(logits, num_samples, seed, as_dtype(output_dtype), name=name)


def stateless_categorical(
    logits: NumberLike, num_samples: NumberLike, seed: NumberLike, dtype: DTypeLike = int64, name: str | None = None
) -> Tensor:
    """The same as `stateless_multinomial`.

    Examples:
        >>> (await session.run(af.random.stateless_categorical([[0.0, -1000.0]], 3, seed=[1, 2]))).tolist()
        [[0, 0, 0]]
    """
    return kernels.stateless_multinomial(
        logits, num_samples, seed, as_dtype(dtype), name=name or "stateless_categorical"
    )


def stateless_shuffle(value: NumberLike, seed: NumberLike, alg: str = "auto_select", name: str | None = None) -> Tensor:
    """The parts of `value` along its first axis in an order of which each is as likely as any other.

    Examples:
        >>> sorted(await session.run(af.random.experimental.stateless_shuffle([1, 2, 3], seed=[1, 2])))
        [np.int32(1), np.int32(2), np.int32(3)]
    """
    _check_algorithm(alg)
    return kernels.stateless_shuffle(value, seed, name=name)


def stateless_fold_in(seed: NumberLike, data: NumberLike, alg: str = "auto_select") -> Tensor:
    """A seed, of the dtype of `seed`, that follows from it and the integer `data`, such as the number of a step.

    Examples:
        >>> (await session.run(af.random.fold_in([1, 2], 3))).shape
        (2,)
    """
    _check_algorithm(alg)
    return kernels.stateless_fold_in(seed, data)


@transactional
def stateless_split(seed: NumberLike, num: NumberLike = 2, alg: str = "auto_select") -> Tensor:
    """`num` seeds that follow from one: [num, 2], of its dtype.

    Examples:
        >>> (await session.run(af.random.split([1, 2], num=3))).shape
        (3, 2)
    """
    _check_algorithm(alg)
    with name_scope(None, "stateless_split", [seed, num]) as scope:
        one = convert_to_tensor(seed)
        shape = [num, 2] if isinstance(num, (int, np.integer)) else convert_to_tensor([num, 2])
        return kernels.stateless_random_uniform_full_int(shape, one, one.dtype, name=scope)
