"""Random numbers that follow from the state of a generator, and the step of that state.

A state is a vector of three integers: see philox.py. A generator keeps it in a variable.
"""

from typing import Any

import numpy as np

from aioflow.graph.op import Ints, T, op
from aioflow.kernels import known
from aioflow.kernels.context import Context
from aioflow.kernels.families import CPU, GPU, SLOW, costs
from aioflow.kernels.math import philox
from aioflow.kernels.math.random import check_bounds, floats, whole_numbers
from aioflow.kernels.math.random_binomial import binomials
from aioflow.kernels.math.random_numbers import check_span, sized
from aioflow.kernels.state.variables import held
from aioflow.resources.containers import VariableState
from aioflow.tensors.dtypes import (
    FLOAT,
    INTEGER,
    Array,
    DType,
    Namespace,
    Spec,
    TensorShape,
    float64,
    int32,
    int64,
    uint32,
    uint64,
)

WORDS = (int32, int64, uint32, uint64)
"""The dtypes of random integers."""


def _check(state: Spec) -> None:
    """ValueError unless it may be the state of a generator."""
    count = known.length(state, "state")
    if count not in (None, 3):
        raise ValueError(f"the state of a generator is three integers, not {count}")


def _of_words(dtype: DType) -> None:
    """TypeError unless the dtype has 32 or 64 bits of integers."""
    if dtype not in WORDS:
        names = ", ".join(word.name for word in WORDS)
        raise TypeError(f"random integers of a generator are {names}, not {dtype.name}; cast them")


@op(stateful=True)
def advance_generator_variable(handle: Spec, delta: Ints) -> Spec:
    """The state that a variable held, before it stepped over `delta` numbers."""
    known.scalar(delta, "delta")
    item = held(handle).only(INTEGER)
    _check(item)
    return Spec(item.dtype, TensorShape((3,)))


@op
def generator_uniform(shape: Ints, state: Ints, dtype: DType) -> Spec:
    """Numbers from 0 up to but not 1."""
    _check(state)
    return floats(shape, dtype)


@op
def generator_normal(shape: Ints, state: Ints, dtype: DType) -> Spec:
    """Normally distributed numbers, of mean 0 and standard deviation 1."""
    _check(state)
    return floats(shape, dtype)


@op
def generator_truncated_normal(shape: Ints, state: Ints, dtype: DType) -> Spec:
    """Numbers as normally distributed ones of mean 0 and standard deviation 1 that lie between -2 and 2."""
    _check(state)
    return floats(shape, dtype)


@op
def generator_uniform_int(shape: Ints, state: Ints, minval: T, maxval: T) -> Spec:
    """Integers from `minval` up to but not `maxval`: minval and the rest of a word by their difference."""
    _check(state)
    made = whole_numbers(shape, minval, maxval)
    _of_words(made.dtype)
    return made


@op
def generator_uniform_full_int(shape: Ints, state: Ints, dtype: DType) -> Spec:
    """Integers of which each that the dtype has is as likely as the next."""
    _check(state)
    _of_words(dtype)
    return Spec(dtype, known.shape(shape))


@op
def generator_binomial(counts: T, probs: T, state: Ints, dtype: DType) -> Spec:
    """How many of `counts` attempts succeed, each with the probability of `probs`."""
    _check(state)
    return Spec(Spec(dtype).only(FLOAT, INTEGER).dtype, counts.only(FLOAT).same_dtype(probs).broadcast(probs))


@generator_uniform_int.check
def _(shape: Spec | Array, state: Spec | Array, minval: Spec | Array, maxval: Spec | Array) -> None:
    check_bounds(minval, maxval)


advance_generator_variable.no_gradient("it changes state")
for _op in (
    generator_uniform,
    generator_normal,
    generator_truncated_normal,
    generator_uniform_int,
    generator_uniform_full_int,
    generator_binomial,
):
    _op.no_gradient("random numbers do not follow from the inputs")
for _op in (generator_uniform, generator_normal, generator_truncated_normal):
    costs(_op, SLOW)
costs(generator_binomial, 100.0)


@advance_generator_variable.kernel(CPU, GPU)
def _(ctx: Context, variable: VariableState, delta: Array) -> Array:
    ctx.step.check()
    before: list[Any] = []

    def advance(present: Array) -> None:
        before.append(present.copy())
        present[...] = ctx.xp.asarray(philox.advanced(present, int(delta)))

    variable.change(advance, ctx.step.journal)
    return before[0]


@generator_uniform.kernel(CPU, fresh=True)
def _(xp: Namespace, shape: Array, state: Array, *, dtype: DType) -> Array:
    return philox.uniforms(philox.state_of(state), shape, dtype)


@generator_normal.kernel(CPU, fresh=True)
def _(xp: Namespace, shape: Array, state: Array, *, dtype: DType) -> Array:
    return philox.normals(philox.state_of(state), shape, dtype)


@generator_truncated_normal.kernel(CPU, fresh=True)
def _(xp: Namespace, shape: Array, state: Array, *, dtype: DType) -> Array:
    return philox.central_normals(philox.state_of(state), shape, dtype)


@generator_uniform_int.kernel(CPU, fresh=True)
def _(xp: Namespace, shape: Array, state: Array, minval: Array, maxval: Array) -> Array:
    (sizes, count), low, high = sized(shape), int(minval), int(maxval)
    check_span(low, high)
    words = philox.integers(philox.state_of(state), count, minval.itemsize)
    rest = words % words.dtype.type(high - low) + np.array(minval).astype(words.dtype)
    return rest.astype(minval.dtype).reshape(sizes)


@generator_uniform_full_int.kernel(CPU, fresh=True)
def _(xp: Namespace, shape: Array, state: Array, *, dtype: DType) -> Array:
    sizes, count = sized(shape)
    return philox.integers(philox.state_of(state), count, dtype.size).astype(dtype.np).reshape(sizes)


@generator_binomial.kernel(CPU, fresh=True)
def _(xp: Namespace, counts: Array, probs: Array, state: Array, *, dtype: DType) -> Array:
    n, p = np.broadcast_arrays(counts.astype(float64.np), probs.astype(float64.np))
    rounds = philox.rounds(philox.state_of(state), 2 * n.size)
    return binomials(n.ravel(), p.ravel(), rounds, dtype).reshape(n.shape)
