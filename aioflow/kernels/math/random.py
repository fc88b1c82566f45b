"""Random numbers, equal on every device and in every order for equal seeds.

Philox 4x64 with 10 rounds (Salmon et al., SC 2011) maps a key and a counter to four words of 64 bits, without state
between numbers.

    key      [graph seed, op seed]
    counter  [block, iteration, run, round]

A block, counted from 1, has four words. The iteration is that of the enclosing loop, 0 outside. The run is the number
of times that the operation ran in this session before this step. The round is 0, except for distributions that reject
numbers and draw them again (see random_distributions.py).

The position of an element alone decides its words: element i of integers and float64 comes from word i, of narrower
floats from half i, the low half of a word first; normals come in pairs, from two halves or two words, by Box and
Muller; truncated normals by the inverse of their distribution, without rejection. The bits are the same everywhere;
logarithms and sines may round differently.
"""

import itertools
import secrets
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, Op, T, op
from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels import known
from aioflow.kernels.context import Context
from aioflow.kernels.families import CPU, SLOW, costs
from aioflow.kernels.math import random_numbers
from aioflow.kernels.math.random_numbers import Words
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
    int64,
)
from aioflow.tensors.object_arrays import move_positions

DEFAULT_GRAPH_SEED: Final = 87654321
"""The graph's part of the key where only the op was given a seed."""
_WORD: Final = (1 << 64) - 1


# Bits


def words(ctx: Context, node: NodeView, seed: int | None, seed2: int | None, count: int) -> Words:
    """The first `count` words of the node's stream in this step; of entropy if it has no seeds."""
    return next(rounds(ctx, node, seed, seed2, count))


def rounds(ctx: Context, node: NodeView, seed: int | None, seed2: int | None, count: int) -> Iterator[Words]:
    """The first `count` words of round after round of the node's stream in this step."""
    if seed is None or seed2 is None:
        key, run = secrets.randbits(128), 0
    else:
        key, run = (seed & _WORD) | (seed2 & _WORD) << 64, ctx.step.times_run(node.name)
    for turn in itertools.count():
        yield random_numbers.stream(key, _iteration_number(ctx.iteration) << 64 | run << 128 | turn << 192, count)


def _iteration_number(iteration: tuple[int, ...]) -> int:
    """One number for an iteration of a loop: its own, to which those of the loops around add one that is spread out."""
    number = 0
    for index in iteration:
        number = (_spread(number) + index) & _WORD
    return number


def _spread(number: int) -> int:
    """0 for 0, else 64 bits in which every bit of the number counts (Vigna's splitmix64)."""
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    number = (number ^ number >> 27) * 0x94D049BB133111EB & _WORD
    return number ^ number >> 31


def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
    """The seeds an op built now would have: the graph's and its own; two None mean that every run differs.

    With the graph's seed alone, the op's is the number of operations in the graph. With the op's alone, the graph's is
    DEFAULT_GRAPH_SEED.

    Examples:
        >>> af.set_random_seed(7)
        >>> af.get_seed(3)
        (7, 3)
    """
    graph = get_default_graph()
    if graph.seed is None:
        return (None, None) if op_seed is None else (DEFAULT_GRAPH_SEED, op_seed)
    seeds = graph.seed, graph.next_seed() if op_seed is None else op_seed
    return (0, 2**31 - 1) if seeds == (0, 0) else seeds


def set_random_seed(seed: int) -> None:
    """Random ops built in the default graph from here on give the same numbers in each session.

    Examples:
        >>> af.set_random_seed(7)
        >>> float(await session.run(af.random_uniform([]))) < 1.0
        True
    """
    get_default_graph().seed = seed


# Ops


def floats(shape: Spec, dtype: DType) -> Spec:
    """Random numbers of a floating dtype and that shape."""
    if dtype not in FLOAT:
        raise TypeError(f"dtype {dtype.name} is not floating; integers come from random_uniform with minval and maxval")
    return Spec(dtype, known.shape(shape))


@op(name="random_uniform", counted=True)
def _uniform(shape: Ints, dtype: DType = float32, seed: int | None = None, seed2: int | None = None) -> Spec:
    """Numbers from 0 up to but not 1, all multiples of one power of 2 that the dtype holds exactly."""
    return floats(shape, dtype)


@op(name="random_normal", counted=True)
def _normal(shape: Ints, dtype: DType = float32, seed: int | None = None, seed2: int | None = None) -> Spec:
    """Normally distributed numbers, of mean 0 and standard deviation 1."""
    return floats(shape, dtype)


@op(name="truncated_normal", counted=True)
def _truncated(shape: Ints, dtype: DType = float32, seed: int | None = None, seed2: int | None = None) -> Spec:
    """Numbers as normally distributed ones of mean 0 and standard deviation 1 that lie between -2 and 2."""
    return floats(shape, dtype)


@op(name="random_uniform_int", counted=True)
def _uniform_int(shape: Ints, minval: T, maxval: T, seed: int | None = None, seed2: int | None = None) -> Spec:
    """Integers from `minval` up to but not `maxval`, each as likely as the next to one part in 2^32 or better."""
    return whole_numbers(shape, minval, maxval)


def whole_numbers(shape: Spec, minval: Spec, maxval: Spec) -> Spec:
    """Random integers of that shape, and of the dtype of both bounds, which are scalars."""
    for bound in (minval, maxval):
        bound.with_rank(0, "bound")
    return Spec(minval.only(INTEGER).same_dtype(maxval).dtype, known.shape(shape))


def unseeded_integers(shape: NumberLike, name: str | None = None) -> Tensor:
    """Integers, int64, that differ in each run, also in a graph with a seed."""
    bounds = [convert_to_tensor(bound, int64) for bound in (int64.min, int64.max)]
    return _uniform_int(shape, *bounds, None, None, name=name)


@op(name="random_shuffle", counted=True)
def _shuffle(value: Spec, seed: int | None = None, seed2: int | None = None) -> Spec:
    """The parts of `value` along its first axis in random order."""
    return shuffled(value)


def shuffled(value: Spec) -> Spec:
    """`value` in another order along its first axis."""
    if value.rank == 0:
        raise ValueError("a scalar has no first axis to shuffle")
    return Spec(value.dtype, value.shape)


@op(name="multinomial", counted=True)
def _multinomial(
    logits: Spec, num_samples: Ints, seed: int | None = None, seed2: int | None = None, output_dtype: DType = int64
) -> Spec:
    """For each row of `logits`, `num_samples` classes, each drawn with the probability softmax(logits)."""
    return drawn_classes(logits, num_samples, output_dtype)


def drawn_classes(logits: Spec, num_samples: Spec, output_dtype: DType) -> Spec:
    """`num_samples` classes of that dtype for each row of logits."""
    if output_dtype not in INTEGER:
        raise TypeError(f"classes are integers, not {output_dtype.name}")
    rows = logits.only(FLOAT, INTEGER).with_rank(2, "logits").sizes
    assert rows is not None
    return Spec(output_dtype, TensorShape((rows[0], known.scalar(num_samples, "num_samples"))))


@_uniform_int.check
def _(shape: Spec | Array, minval: Spec | Array, maxval: Spec | Array, *seeds: int | None) -> None:
    check_bounds(minval, maxval)


def check_bounds(minval: Spec | Array, maxval: Spec | Array) -> None:
    """ValueError if both are known, and no integer lies between them."""
    low, high = known.number(minval), known.number(maxval)
    if low is not None and high is not None:
        random_numbers.check_span(low, high)


for _op in (_uniform, _normal, _truncated, _uniform_int, _multinomial):
    _op.no_gradient("random numbers do not follow from the inputs")
_shuffle.no_gradient("the order is not kept; af.gather by af.random_shuffle of the row numbers has a gradient")
for _op in (_normal, _truncated, _multinomial):
    costs(_op, SLOW)


@_uniform.kernel(CPU, fresh=True)
def _(ctx: Context, shape: Array, *, dtype: DType, seed: int | None, seed2: int | None, node: NodeView) -> Array:
    return random_numbers.uniforms(partial(words, ctx, node, seed, seed2), shape, dtype)


@_normal.kernel(CPU, fresh=True)
def _(ctx: Context, shape: Array, *, dtype: DType, seed: int | None, seed2: int | None, node: NodeView) -> Array:
    return random_numbers.normals(partial(words, ctx, node, seed, seed2), shape, dtype)


@_truncated.kernel(CPU, fresh=True)
def _(ctx: Context, shape: Array, *, dtype: DType, seed: int | None, seed2: int | None, node: NodeView) -> Array:
    return random_numbers.central_normals(partial(words, ctx, node, seed, seed2), shape, dtype)


@_uniform_int.kernel(CPU, fresh=True)
def _(
    ctx: Context, shape: Array, minval: Array, maxval: Array, *, seed: int | None, seed2: int | None, node: NodeView
) -> Array:
    return random_numbers.integers(partial(words, ctx, node, seed, seed2), shape, minval, maxval)


@_shuffle.kernel(CPU, fresh=True)
def _(ctx: Context, value: Array, *, seed: int | None, seed2: int | None, node: NodeView) -> Array:
    order = random_numbers.order(partial(words, ctx, node, seed, seed2), len(value))
    return move_positions(lambda rows: rows[order], [value.dtype == object])(value)


@_multinomial.kernel(CPU, fresh=True)
def _(
    ctx: Context,
    logits: Array,
    num_samples: Array,
    *,
    seed: int | None,
    seed2: int | None,
    output_dtype: DType,
    node: NodeView,
) -> Array:
    return random_numbers.classes(partial(words, ctx, node, seed, seed2), logits, num_samples, output_dtype)


# For users


def _seeded(made: Op[Tensor], shape: Any, dtype: DType, seed: int | None, name: str | None) -> Tensor:
    first, second = get_seed(seed)
    return made(shape, dtype, first, second, name=name)


def _stretched(
    made: Op[Tensor], shape: Any, scale: Any, shift: Any, dtype: Any, seed: int | None, name: str | None
) -> Tensor:
    """Standard numbers * scale + shift; neither op is built for a number that changes nothing."""
    with get_default_graph().name_scope(name or made.name) as scope:
        plain = _is_number(scale, 1), _is_number(shift, 0)
        result = _seeded(made, shape, as_dtype(dtype), seed, scope if all(plain) else None)
        if not plain[0]:
            result = OPERATORS["multiply"](result, scale, name=scope if plain[1] else None)
        return result if plain[1] else OPERATORS["add"](result, shift, name=scope)


def _is_number(value: Any, number: int) -> bool:
    return isinstance(value, (int, float)) and value == number


@transactional
def random_uniform(
    shape: NumberLike,
    minval: NumberLike = 0,
    maxval: NumberLike | None = None,
    dtype: DTypeLike = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Numbers from `minval` up to but not `maxval`, each as likely as the next; `maxval` is 1 for floats by default.

    Raises:
        ValueError: `maxval` is missing for an integer dtype.
        InvalidArgumentError: in a run, if `minval` is not below `maxval` for an integer dtype.

    Examples:
        >>> values = await session.run(af.random_uniform([1000], 0, 6, af.int32, seed=1))
        >>> values.min(), values.max()
        (np.int32(0), np.int32(5))
    """
    kind = as_dtype(dtype)
    if not kind.is_integer:
        top = 1 if maxval is None else maxval
        if isinstance(top, (int, float)) and isinstance(minval, (int, float)):
            return _stretched(_uniform, shape, top - minval, minval, kind, seed, name)
        low = convert_to_tensor(minval, kind)
        return _stretched(_uniform, shape, top - low, low, kind, seed, name)
    if maxval is None:
        raise ValueError(f"maxval must be given for the integer dtype {kind.name}")
    low, high = convert_to_tensor(minval, kind), convert_to_tensor(maxval, kind)
    first, second = get_seed(seed)
    return _uniform_int(shape, low, high, first, second, name=name or "random_uniform")


@transactional
def random_normal(
    shape: NumberLike,
    mean: NumberLike = 0.0,
    stddev: NumberLike = 1.0,
    dtype: DTypeLike = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Normally distributed numbers of that mean and standard deviation, to which gradients flow.

    Examples:
        >>> (await session.run(af.random_normal([1000], mean=5.0, seed=1))).mean().round()
        np.float32(5.0)
    """
    return _stretched(_normal, shape, stddev, mean, dtype, seed, name)


@transactional
def truncated_normal(
    shape: NumberLike,
    mean: NumberLike = 0.0,
    stddev: NumberLike = 1.0,
    dtype: DTypeLike = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Normally distributed numbers, of which those further than two standard deviations from the mean are left out.

    Examples:
        >>> bool((abs(await session.run(af.truncated_normal([1000]))) < 2).all())
        True
    """
    return _stretched(_truncated, shape, stddev, mean, dtype, seed, name)


def random_shuffle(value: NumberLike, seed: int | None = None, name: str | None = None) -> Tensor:
    """The parts of `value` along its first axis in an order of which each is as likely as any other.

    Examples:
        >>> sorted(await session.run(af.random_shuffle([1, 2, 3])))
        [np.int32(1), np.int32(2), np.int32(3)]
    """
    return _shuffle(value, *get_seed(seed), name=name)


def multinomial(
    logits: NumberLike,
    num_samples: NumberLike,
    seed: int | None = None,
    name: str | None = None,
    output_dtype: DTypeLike = int64,
) -> Tensor:
    """For each row of `logits`, `num_samples` classes, each drawn with the probability softmax(logits).

    Args:
        logits: unscaled log probabilities [rows, classes].
        num_samples: how many to draw from each row.
        seed: see `get_seed`.
        name: the name of the operation.
        output_dtype: the integer dtype of the result.

    Examples:
        >>> af.multinomial([[0.0, 0.0]], 5).shape
        TensorShape([1, 5])
    """
    return _multinomial(logits, num_samples, *get_seed(seed), output_dtype, name=name)
