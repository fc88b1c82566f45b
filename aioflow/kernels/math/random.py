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
import math
import secrets
from collections.abc import Iterator
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from aioflow import errors
from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, Op, T, op
from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels import known
from aioflow.kernels.context import Context
from aioflow.kernels.families import CPU, SLOW, costs
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
    int64,
)
from aioflow.tensors.object_arrays import move_positions

Words = npt.NDArray[np.uint64]

DIGITS: Final = {dtype: int(ml_dtypes.finfo(dtype.np).nmant) + 1 for dtype in FLOAT}  # type: ignore[no-untyped-call]
"""How many binary digits a number of the dtype has."""
DEFAULT_GRAPH_SEED: Final = 87654321
"""The graph's part of the key where only the op was given a seed."""
_LOW: Final = np.uint64(0xFFFF_FFFF)
_HALF: Final = np.uint64(32)
_WORD: Final = (1 << 64) - 1
_PORTION: Final = 1 << 16
"""Words generated at a time: NumPy holds the interpreter lock meanwhile, and the event loop must get its turn."""


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
        yield _stream(key, _number(ctx.iteration) << 64 | run << 128 | turn << 192, count)


def _number(iteration: tuple[int, ...]) -> int:
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


def _stream(key: int, counter: int, count: int) -> Words:
    generator = np.random.Philox(key=key, counter=counter)
    if count <= _PORTION:
        return generator.random_raw(count)
    stream = np.empty(count, np.uint64)
    for start in range(0, count, _PORTION):
        stream[start : start + _PORTION] = generator.random_raw(min(_PORTION, count - start))
    return stream


def _halves(stream: Words) -> npt.NDArray[np.uint32]:
    """Words as halves, the low one first, on machines of any byte order."""
    return stream.astype("<u8", copy=False).view("<u4").astype(np.uint32, copy=False)


def fractions(bits: npt.NDArray[Any], dtype: np.dtype[Any], digits: int) -> Array:
    """From the highest `digits` bits, a multiple of 2^-digits from 0 up to but not 1."""
    spare = bits.itemsize * 8 - digits
    whole = (bits >> bits.dtype.type(spare)).view(f"i{bits.itemsize}") if spare else bits
    part: Array = whole.astype(dtype)  # signed integers, where they can be, convert faster
    part *= dtype.type(2.0**-digits)
    return part


def _signed_fractions(bits: npt.NDArray[Any], dtype: np.dtype[Any], digits: int) -> Array:
    """From the highest `digits` bits, an odd multiple of 2^-digits between -1 and 1, 0 excluded."""
    whole = (bits >> bits.dtype.type(bits.itemsize * 8 - digits)).view(f"i{bits.itemsize}")
    part: Array = (2 * whole + (1 - (1 << digits))).astype(dtype)
    part *= dtype.type(2.0**-digits)
    return part


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


def sized(shape: Array) -> tuple[list[int], int]:
    """The shape, and how many elements it has. ValueError for a negative size."""
    sizes = shape.tolist()
    if sizes and min(sizes) < 0:
        raise ValueError(f"shape {sizes} has a negative size")
    return sizes, math.prod(sizes)


def _floats(shape: Spec, dtype: DType) -> Spec:
    if dtype not in FLOAT:
        raise TypeError(f"dtype {dtype.name} is not floating; integers come from random_uniform with minval and maxval")
    return Spec(dtype, known.shape(shape))


@op(name="random_uniform", counted=True)
def _uniform(shape: Ints, dtype: DType = float32, seed: int | None = None, seed2: int | None = None) -> Spec:
    """Numbers from 0 up to but not 1, all multiples of one power of 2 that the dtype holds exactly."""
    return _floats(shape, dtype)


@op(name="random_normal", counted=True)
def _normal(shape: Ints, dtype: DType = float32, seed: int | None = None, seed2: int | None = None) -> Spec:
    """Normally distributed numbers, of mean 0 and standard deviation 1."""
    return _floats(shape, dtype)


@op(name="truncated_normal", counted=True)
def _truncated(shape: Ints, dtype: DType = float32, seed: int | None = None, seed2: int | None = None) -> Spec:
    """Numbers as normally distributed ones of mean 0 and standard deviation 1 that lie between -2 and 2."""
    return _floats(shape, dtype)


@op(name="random_uniform_int", counted=True)
def _uniform_int(shape: Ints, minval: T, maxval: T, seed: int | None = None, seed2: int | None = None) -> Spec:
    """Integers from `minval` up to but not `maxval`, each as likely as the next to one part in 2^32 or better."""
    for bound in (minval, maxval):
        bound.with_rank(0, "bound")
    return Spec(minval.only(INTEGER).same_dtype(maxval).dtype, known.shape(shape))


@op(name="random_shuffle", counted=True)
def _shuffle(value: Spec, seed: int | None = None, seed2: int | None = None) -> Spec:
    """The parts of `value` along its first axis in random order."""
    if value.rank == 0:
        raise ValueError("a scalar has no first axis to shuffle")
    return Spec(value.dtype, value.shape)


@op(name="multinomial", counted=True)
def _multinomial(
    logits: Spec, num_samples: Ints, seed: int | None = None, seed2: int | None = None, output_dtype: DType = int64
) -> Spec:
    """For each row of `logits`, `num_samples` classes, each drawn with the probability softmax(logits)."""
    if output_dtype not in INTEGER:
        raise TypeError(f"classes are integers, not {output_dtype.name}")
    rows = logits.only(FLOAT, INTEGER).with_rank(2, "logits").sizes
    assert rows is not None
    return Spec(output_dtype, TensorShape((rows[0], known.scalar(num_samples, "num_samples"))))


@_uniform_int.check
def _(shape: Spec | Array, minval: Spec | Array, maxval: Spec | Array, *seeds: int | None) -> None:
    low, high = known.number(minval), known.number(maxval)
    if low is not None and high is not None:
        _check_span(low, high)


def _check_span(low: int, high: int) -> None:
    if low >= high:
        raise ValueError(f"minval {low} must be below maxval {high}")


for _op in (_uniform, _normal, _truncated, _uniform_int, _multinomial):
    _op.no_gradient("random numbers do not follow from the inputs")
_shuffle.no_gradient("the order is not kept; af.gather by af.random_shuffle of the row numbers has a gradient")
for _op in (_normal, _truncated, _multinomial):
    costs(_op, SLOW)


@_uniform.kernel(CPU, fresh=True)
def _(ctx: Context, shape: Array, *, dtype: DType, seed: int | None, seed2: int | None, node: NodeView) -> Array:
    sizes, count = sized(shape)
    if dtype is float64:
        return fractions(words(ctx, node, seed, seed2, count), dtype.np, 53).reshape(sizes)
    digits = DIGITS[dtype]
    halves = _halves(words(ctx, node, seed, seed2, -(-count // 2)))[:count]
    return fractions(halves, float32.np, digits).astype(dtype.np, copy=False).reshape(sizes)


@_normal.kernel(CPU, fresh=True)
def _(ctx: Context, shape: Array, *, dtype: DType, seed: int | None, seed2: int | None, node: NodeView) -> Array:
    sizes, count = sized(shape)
    pairs = -(-count // 2)
    if dtype is float64:
        bits: Array = words(ctx, node, seed, seed2, 2 * pairs)
    else:
        bits = _halves(words(ctx, node, seed, seed2, pairs))
    normals = box_muller(bits, float64.np if dtype is float64 else float32.np)
    return normals[:count].astype(dtype.np, copy=False).reshape(sizes)


def box_muller(bits: npt.NDArray[Any], dtype: np.dtype[Any]) -> Array:
    """Two normals of each pair: from the first a distance from the origin, from the second a direction."""
    fine, coarse = (53, 53) if bits.itemsize == 8 else (32, 24)
    distance = fractions(bits[0::2], dtype, fine)
    distance += dtype.type(2.0**-fine)  # from above 0 to 1
    np.log(distance, out=distance)
    distance *= -2
    np.sqrt(distance, out=distance)
    direction = fractions(bits[1::2], dtype, coarse)
    direction *= 2 * math.pi
    normals = np.empty(bits.size, dtype)
    np.multiply(distance, np.cos(direction), out=normals[0::2])
    np.multiply(distance, np.sin(direction), out=normals[1::2])
    return normals


@_truncated.kernel(CPU, fresh=True)
def _(ctx: Context, shape: Array, *, dtype: DType, seed: int | None, seed2: int | None, node: NodeView) -> Array:
    sizes, count = sized(shape)
    if dtype is float64:
        uniform = _signed_fractions(words(ctx, node, seed, seed2, count), dtype.np, 53)
    else:
        halves = _halves(words(ctx, node, seed, seed2, -(-count // 2)))[:count]
        uniform = _signed_fractions(halves, float32.np, 24)
    return _central_quantile(uniform).astype(dtype.np, copy=False).reshape(sizes)


_WITHIN_2: Final = 0.9544997361036416
"""The probability that a normal number lies between -2 and 2, erf(sqrt(2))."""
_TO_UNIT: Final = -0.8264794488103759
"""2 / log(1 - _WITHIN_2^2)"""
_QUANTILE: Final = (
    -9.974227328224462e-11, 6.785810829934486e-10, 1.930953464463662e-09, -2.656948078200894e-08,
    -1.063716256442855e-09, 8.302905043127574e-07, -1.8980526573782394e-06, -2.197296565805242e-05,
    0.00011866592283555506, 0.00041594881457303616, -0.005702214137697692, 0.005763593871956932,
    0.4265976031137179, 1.6681679208087192,
)  # fmt: skip


def _central_quantile(uniform: Array) -> Array:
    """Where a share of (1 + uniform) / 2 of all normal numbers between -2 and 2 lies below.

    That is sqrt(2) * erfinv(y) for y = uniform * erf(sqrt(2)): y times a function of log(1 - y^2), which a polynomial
    of degree 13, fitted at Chebyshev's points and highest power first here, gives to a relative error of 3e-15.
    """
    dtype = uniform.dtype.type
    y = uniform * dtype(_WITHIN_2)
    t = np.log1p(-y * y)
    t *= dtype(_TO_UNIT)
    t -= 1
    slope = np.full_like(t, _QUANTILE[0])
    for coefficient in _QUANTILE[1:]:
        slope *= t
        slope += dtype(coefficient)
    slope *= y
    return slope


@_uniform_int.kernel(CPU, fresh=True)
def _(
    ctx: Context, shape: Array, minval: Array, maxval: Array, *, seed: int | None, seed2: int | None, node: NodeView
) -> Array:
    (sizes, count), low, high = sized(shape), int(minval), int(maxval)
    _check_span(low, high)
    numbers = _below(words(ctx, node, seed, seed2, count), high - low)
    numbers += np.uint64(low & _WORD)
    return numbers.astype(minval.dtype).reshape(sizes)


def _below(stream: Words, span: int) -> Words:
    """Integers below `span`: the high words of the products of 128 bits."""
    high, low = np.uint64(span >> 32), np.uint64(span & int(_LOW))
    upper, lower = stream >> _HALF, stream & _LOW
    middle = upper * low + (lower * low >> _HALF)
    rest = lower * high + (middle & _LOW)
    product: Words = upper * high + (middle >> _HALF) + (rest >> _HALF)
    return product


@_shuffle.kernel(CPU, fresh=True)
def _(ctx: Context, value: Array, *, seed: int | None, seed2: int | None, node: NodeView) -> Array:
    order = words(ctx, node, seed, seed2, len(value)).argsort(kind="stable")
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
    (rows, classes), samples = logits.shape, int(num_samples)
    if samples < 0 or not classes:
        raise errors.InvalidArgumentError(f"cannot draw {samples} of {classes} classes")
    wide = logits.astype(np.float64)
    sums = np.exp(wide - wide.max(1, keepdims=True, initial=-np.inf)).cumsum(1)
    points = fractions(words(ctx, node, seed, seed2, rows * samples), float64.np, 53).reshape(rows, samples)
    points *= sums[:, -1:]
    drawn = np.empty((rows, samples), output_dtype.np)
    for row, (below, point) in enumerate(zip(sums, points, strict=True)):
        drawn[row] = np.minimum(below.searchsorted(point, "right"), classes - 1)
    return drawn


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
