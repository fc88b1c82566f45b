"""Random numbers that follow from a seed among the inputs: the same in each run and under each plan.

A seed is two integers, the key of Philox (see random.py). Its counters are none that operations with state use:

    numbers   [block, 2^64 - 1, 0, round]
    fold_in   [1, 2^64 - 2, data, 0]

So numbers of one distribution are like those of the operation with state, of other bits, and have the same laws.
"""

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np

from aioflow.graph.op import Ints, T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels import known
from aioflow.kernels.families import CPU, SLOW, costs
from aioflow.kernels.math import random_numbers
from aioflow.kernels.math.random import check_bounds, drawn_classes, floats, shuffled, whole_numbers
from aioflow.kernels.math.random_binomial import binomials
from aioflow.kernels.math.random_distributions import gamma_slope, gammas, poissons
from aioflow.kernels.math.random_numbers import Words, sized
from aioflow.tensors.dtypes import FLOAT, INTEGER, Array, DType, Namespace, Spec, TensorShape, float64, int64
from aioflow.tensors.object_arrays import move_positions

_WORD: Final = (1 << 64) - 1
_NUMBERS: Final = _WORD << 64
_FOLD: Final = _WORD - 1 << 64


def key_of(seed: Array) -> int:
    """The key of Philox that a seed is."""
    first, second = map(int, seed.tolist())
    return (first & _WORD) | (second & _WORD) << 64


def _rounds(seed: Array, count: int) -> Iterator[Words]:
    """The first `count` words of round after round of the stream of a seed."""
    for turn in itertools.count():
        yield random_numbers.stream(key_of(seed), _NUMBERS | turn << 192, count)


def _words(seed: Array, count: int) -> Words:
    return next(_rounds(seed, count))


def _check(seed: Spec) -> Spec:
    """The Spec of a seed. ValueError unless it may be two integers."""
    count = known.length(seed, "seed")
    if count not in (None, 2):
        raise ValueError(f"a seed is two integers, not {count}; give such as [1, 2]")
    return Spec(seed.dtype, TensorShape.vector(2))


@op
def stateless_random_uniform(shape: Ints, seed: Ints, dtype: DType) -> Spec:
    """Numbers from 0 up to but not 1."""
    _check(seed)
    return floats(shape, dtype)


@op
def stateless_random_normal(shape: Ints, seed: Ints, dtype: DType) -> Spec:
    """Normally distributed numbers, of mean 0 and standard deviation 1."""
    _check(seed)
    return floats(shape, dtype)


@op
def stateless_truncated_normal(shape: Ints, seed: Ints, dtype: DType) -> Spec:
    """Numbers as normally distributed ones of mean 0 and standard deviation 1 that lie between -2 and 2."""
    _check(seed)
    return floats(shape, dtype)


@op
def stateless_random_uniform_int(shape: Ints, seed: Ints, minval: T, maxval: T) -> Spec:
    """Integers from `minval` up to but not `maxval`."""
    _check(seed)
    return whole_numbers(shape, minval, maxval)


@op
def stateless_random_uniform_full_int(shape: Ints, seed: Ints, dtype: DType) -> Spec:
    """Integers of which each that the dtype has is as likely as the next."""
    _check(seed)
    return Spec(Spec(dtype).only(INTEGER).dtype, known.shape(shape))


@op
def stateless_shuffle(value: Spec, seed: Ints) -> Spec:
    """The parts of `value` along its first axis in random order."""
    _check(seed)
    return shuffled(value)


@op
def stateless_multinomial(logits: Spec, num_samples: Ints, seed: Ints, output_dtype: DType = int64) -> Spec:
    """For each row of `logits`, `num_samples` classes, each drawn with the probability softmax(logits)."""
    _check(seed)
    return drawn_classes(logits, num_samples, output_dtype)


@op
def stateless_random_gamma(alpha: Spec, seed: Ints) -> Spec:
    """A number of the gamma distribution of scale 1 for each alpha; NaN where alpha is not a positive number."""
    _check(seed)
    return alpha.only(FLOAT)


@op
def stateless_random_poisson(rate: Spec, seed: Ints, dtype: DType) -> Spec:
    """A number of the Poisson distribution for each rate."""
    _check(seed)
    return Spec(Spec(dtype).only(FLOAT, INTEGER).dtype, rate.only(FLOAT).shape)


@op
def stateless_random_binomial(counts: T, probs: T, seed: Ints, dtype: DType) -> Spec:
    """How many of `counts` attempts succeed, each with the probability of `probs`."""
    _check(seed)
    return Spec(Spec(dtype).only(FLOAT, INTEGER).dtype, counts.only(FLOAT).same_dtype(probs).broadcast(probs))


@op
def stateless_fold_in(seed: Ints, data: Ints) -> Spec:
    """A seed that follows from another and an integer."""
    known.scalar(data, "data")
    return _check(seed)


@stateless_random_uniform_int.check
def _(shape: Spec | Array, seed: Spec | Array, minval: Spec | Array, maxval: Spec | Array) -> None:
    check_bounds(minval, maxval)


@stateless_random_gamma.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    return dy * gamma_slope(op.inputs[0], op.outputs[0]), None


for _op in (
    stateless_random_uniform,
    stateless_random_normal,
    stateless_truncated_normal,
    stateless_random_uniform_int,
    stateless_random_uniform_full_int,
    stateless_multinomial,
    stateless_random_poisson,
    stateless_random_binomial,
    stateless_fold_in,
):
    _op.no_gradient("random numbers do not follow from the inputs")
stateless_shuffle.no_gradient("the order is not kept; af.gather by a shuffle of the row numbers has a gradient")
for _op in (stateless_random_normal, stateless_truncated_normal, stateless_multinomial):
    costs(_op, SLOW)
for _op in (stateless_random_gamma, stateless_random_poisson, stateless_random_binomial):
    costs(_op, 100.0)


@stateless_random_uniform.kernel(CPU, fresh=True)
def _(xp: Namespace, shape: Array, seed: Array, *, dtype: DType) -> Array:
    return random_numbers.uniforms(partial(_words, seed), shape, dtype)


@stateless_random_normal.kernel(CPU, fresh=True)
def _(xp: Namespace, shape: Array, seed: Array, *, dtype: DType) -> Array:
    return random_numbers.normals(partial(_words, seed), shape, dtype)


@stateless_truncated_normal.kernel(CPU, fresh=True)
def _(xp: Namespace, shape: Array, seed: Array, *, dtype: DType) -> Array:
    return random_numbers.central_normals(partial(_words, seed), shape, dtype)


@stateless_random_uniform_int.kernel(CPU, fresh=True)
def _(xp: Namespace, shape: Array, seed: Array, minval: Array, maxval: Array) -> Array:
    return random_numbers.integers(partial(_words, seed), shape, minval, maxval)


@stateless_random_uniform_full_int.kernel(CPU, fresh=True)
def _(xp: Namespace, shape: Array, seed: Array, *, dtype: DType) -> Array:
    sizes, count = sized(shape)
    return _words(seed, count).astype(dtype.np).reshape(sizes)


@stateless_shuffle.kernel(CPU, fresh=True)
def _(xp: Namespace, value: Array, seed: Array) -> Array:
    order = random_numbers.order(partial(_words, seed), len(value))
    return move_positions(lambda rows: rows[order], [value.dtype == object])(value)


@stateless_multinomial.kernel(CPU, fresh=True)
def _(xp: Namespace, logits: Array, num_samples: Array, seed: Array, *, output_dtype: DType) -> Array:
    return random_numbers.classes(partial(_words, seed), logits, num_samples, output_dtype)


@stateless_random_gamma.kernel(CPU, fresh=True)
def _(xp: Namespace, alpha: Array, seed: Array) -> Array:
    alphas = alpha.ravel().astype(float64.np)
    return gammas(alphas, _rounds(seed, 4 * alphas.size), alpha.dtype).reshape(alpha.shape)


@stateless_random_poisson.kernel(CPU, fresh=True)
def _(xp: Namespace, rate: Array, seed: Array, *, dtype: DType) -> Array:
    rates = rate.ravel().astype(float64.np)
    return poissons(rates, _rounds(seed, 2 * rates.size), dtype).reshape(rate.shape)


@stateless_random_binomial.kernel(CPU, fresh=True)
def _(xp: Namespace, counts: Array, probs: Array, seed: Array, *, dtype: DType) -> Array:
    n, p = np.broadcast_arrays(counts.astype(float64.np), probs.astype(float64.np))
    return binomials(n.ravel(), p.ravel(), _rounds(seed, 2 * n.size), dtype).reshape(n.shape)


@stateless_fold_in.kernel(CPU, fresh=True)
def _(xp: Namespace, seed: Array, data: Array) -> Array:
    counter = _FOLD | (int(data) & _WORD) << 128
    return random_numbers.stream(key_of(seed), counter, 2).astype(seed.dtype)
