"""Candidate sampling: random classes as negatives for sampled losses, and their expected counts.

The sample of a step depends on the seeds and on the number of earlier runs of the op: see `random`.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aioflow.graph.convert import NumberLike
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, Op, op
from aioflow.graph.operation import Tensor
from aioflow.kernels import known
from aioflow.kernels.context import Context
from aioflow.kernels.families import CPU, SLOW, costs
from aioflow.kernels.math.random import get_seed, words
from aioflow.kernels.math.random_numbers import Words
from aioflow.tensors.dtypes import Array, Spec, TensorShape, float32, int32, int64

Draw = Callable[[Array, int], Array]
"""(numbers from 0 up to but not 1, number of classes) -> classes."""

_MOST: Final = 1 << 28
"""Draws after which unique candidates are given up."""


def sampled_specs(
    true_classes: Spec, num_true: int, num_sampled: int, unique: bool, range_max: int
) -> tuple[Spec, ...]:
    """The Specs of the results of a sampler. ValueError if it cannot draw that many classes."""
    sizes = known.integers(true_classes, "true_classes").with_rank(2, "true_classes").sizes
    assert sizes is not None
    if sizes[1] not in (None, num_true):
        raise ValueError(f"there are {sizes[1]} true classes per row, num_true is {num_true}")
    if range_max < 1 or num_sampled < 1:
        raise ValueError(f"cannot draw {num_sampled} of {range_max} classes")
    if unique and num_sampled > range_max:
        raise ValueError(f"cannot draw {num_sampled} different ones of {range_max} classes")
    drawn = TensorShape((num_sampled,))
    return Spec(int64, drawn), Spec(float32, TensorShape((sizes[0], num_true))), Spec(float32, drawn)


def _sampler(name: str, draw: Draw, probability: Draw, doc: str) -> Op[tuple[Tensor, ...]]:
    """An op that draws classes; `probability` is that of each of an array of classes."""

    def rule(
        true_classes: Ints,
        num_true: int,
        num_sampled: int,
        unique: bool,
        range_max: int,
        seed: int | None = None,
        seed2: int | None = None,
    ) -> tuple[Spec, ...]:
        return sampled_specs(true_classes, num_true, num_sampled, unique, range_max)

    rule.__doc__ = doc
    made = op(name=name, counted=True)(rule)
    made.no_gradient("random classes do not follow from the inputs")
    costs(made, SLOW)

    @made.kernel(CPU, fresh=True)
    def _(
        ctx: Context,
        true_classes: Array,
        *,
        num_sampled: int,
        unique: bool,
        range_max: int,
        seed: int | None,
        seed2: int | None,
        node: NodeView,
    ) -> tuple[Array, ...]:
        def classes(count: int) -> Array:
            return draw(fractions(words(ctx, node, seed, seed2, count)), range_max)

        drawn, tries = different(classes, num_sampled) if unique else (classes(num_sampled), num_sampled)
        expected = [expected_count(probability(which, range_max), tries, unique) for which in (true_classes, drawn)]
        return drawn.astype(np.int64, copy=False), *expected

    return made


def fractions(stream: Words) -> Array:
    """Numbers from 0 up to but not 1, of 53 bits."""
    return (stream >> np.uint64(11)).astype(np.float64) * 2.0**-53


def different(classes: Callable[[int], Array], wanted: int) -> tuple[Array, int]:
    """The first classes in a stream that differ, and how many had to be drawn to find them."""
    count = 2 * wanted
    while count < _MOST:
        stream = classes(count)
        _, places = np.unique(stream, return_index=True)
        if len(places) >= wanted:
            places.sort()
            return stream[places[:wanted]], int(places[wanted - 1]) + 1
        count *= 2
    raise ValueError(f"{wanted} different classes were not found among {count // 2} draws")


def expected_count(probability: Array, tries: int, unique: bool) -> Array:
    """How often a class is expected among the drawn: once at most, if they are unique."""
    expected = -np.expm1(tries * np.log1p(-probability)) if unique else probability * tries
    return expected.astype(np.float32)


def _log_uniform(fractions: Array, classes: int) -> Array:
    drawn = np.exp(fractions * math.log(classes + 1)).astype(np.int64) - 1
    return np.minimum(drawn, classes - 1)


_uniform_sampler = _sampler(
    "uniform_candidate_sampler",
    lambda fractions, classes: (fractions * classes).astype(np.int64),
    lambda which, classes: np.full(which.shape, 1 / classes),
    "Classes drawn with equal probabilities, and how often the true classes and those drawn are expected among them.",
)
_log_uniform_sampler = _sampler(
    "log_uniform_candidate_sampler",
    _log_uniform,
    lambda which, classes: np.log1p(1 / (which + 1.0)) / math.log(classes + 1),
    "Classes drawn with probability log((class + 2) / (class + 1)) / log(range_max + 1), and how often the true "
    "classes and those drawn are expected among them.",
)


@op(name="compute_accidental_hits")
def _accidental_hits(true_classes: Ints, sampled_candidates: Ints, num_true: int) -> tuple[Spec, Spec, Spec]:
    """Where a drawn class is one of the true ones of a row: rows, places among the drawn, and the lowest float32."""
    known.integers(true_classes, "true_classes").with_rank(2, "true_classes")
    known.integers(sampled_candidates, "sampled_candidates").with_rank(1, "sampled_candidates")
    hits = TensorShape((None,))
    return Spec(int32, hits), Spec(int64, hits), Spec(float32, hits)


_accidental_hits.no_gradient("class numbers have no gradient")


@_accidental_hits.kernel(CPU, fresh=True)
def _(xp: Any, true_classes: Array, sampled: Array, *, num_true: int) -> tuple[Array, Array, Array]:
    order = sampled.argsort(kind="stable")
    flat = true_classes.ravel()
    first, last = (sampled.searchsorted(flat, side, sorter=order) for side in ("left", "right"))
    counts = last - first
    rows = np.repeat(np.arange(flat.size) // num_true, counts)
    starts = np.repeat(first - (counts.cumsum() - counts), counts)
    ids = order[starts + np.arange(len(rows))]
    lowest = np.full(len(rows), np.finfo(np.float32).min)
    return rows.astype(np.int32), ids.astype(np.int64), lowest


# For users


def uniform_candidate_sampler(
    true_classes: NumberLike,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Classes drawn with equal probabilities.

    Args:
        true_classes: the true classes of each row, integers [rows, num_true].
        num_true: the number of true classes per row.
        num_sampled: the number of classes to draw.
        unique: whether to draw without replacement.
        range_max: the number of classes.
        seed: see `get_seed`.
        name: the name of the operation.

    Returns:
        The classes drawn, the expected count of each of `true_classes`, and the expected count of each class drawn.

    Examples:
        >>> true = af.constant([[0]], af.int64)
        >>> sampled, expected, _ = af.nn.uniform_candidate_sampler(true, 1, 4, False, 8, seed=1)
        >>> await session.run(expected)
        array([[0.5]], dtype=float32)
    """
    return _uniform_sampler(true_classes, num_true, num_sampled, unique, range_max, *get_seed(seed), name=name)


def log_uniform_candidate_sampler(
    true_classes: NumberLike,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Classes drawn with probability log((class + 2) / (class + 1)) / log(range_max + 1): about Zipf's law.

    Number the classes by falling frequency, as the words of a vocabulary. Arguments and results are those of
    `uniform_candidate_sampler`.

    Examples:
        >>> true = af.constant([[0]], af.int64)
        >>> sampled, _, _ = af.nn.log_uniform_candidate_sampler(true, 1, 4, True, 100, seed=1)
        >>> sampled.shape
        TensorShape([4])
    """
    return _log_uniform_sampler(true_classes, num_true, num_sampled, unique, range_max, *get_seed(seed), name=name)


def compute_accidental_hits(
    true_classes: NumberLike,
    sampled_candidates: NumberLike,
    num_true: int,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Where a drawn class is a right one of a row: the row, its place among the drawn, and the lowest float32.

    `seed` has no effect.

    Examples:
        >>> true = af.constant([[1, 2], [3, 4]], af.int64)
        >>> hits = af.nn.compute_accidental_hits(true, af.constant([4, 0, 2], af.int64), num_true=2)
        >>> await session.run(hits)
        (array([0, 1], dtype=int32), array([2, 0]), array([-3.4028235e+38, -3.4028235e+38], dtype=float32))
    """
    rows, places, weights = _accidental_hits(true_classes, sampled_candidates, num_true, name=name)
    return rows, places, weights
