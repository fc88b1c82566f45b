"""Candidate sampling by weights of classes, and the sampler that draws every class.

As `candidate_sampling`, whose results have the same form.
"""

from collections.abc import Sequence

import numpy as np

from aioflow.files.gfile import GFile
from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, op
from aioflow.graph.operation import Tensor
from aioflow.kernels.context import Context
from aioflow.kernels.families import CPU, SLOW, costs
from aioflow.kernels.math.random import get_seed, words
from aioflow.kernels.nn.candidate_sampling import different, expected_count, fractions, sampled_specs
from aioflow.tensors.dtypes import Array, Namespace, Spec, float64


@op(name="fixed_unigram_candidate_sampler", counted=True)
def fixed_unigram_sampler(
    true_classes: Ints, weights: Spec, num_true: int, num_sampled: int, unique: bool, range_max: int,
    seed: int | None = None, seed2: int | None = None,
) -> tuple[Spec, ...]:  # fmt: skip
    """Classes drawn with probabilities in proportion to `weights`, and how often they are expected among the drawn."""
    weights.only(frozenset({float64})).with_rank(1, "weights")
    if not weights.shape.is_compatible_with([range_max]):
        raise ValueError(f"weights of shape {weights.shape} do not fit {range_max} classes")
    return sampled_specs(true_classes, num_true, num_sampled, unique, range_max)


fixed_unigram_sampler.no_gradient("random classes do not follow from the inputs")
costs(fixed_unigram_sampler, SLOW)


@fixed_unigram_sampler.kernel(CPU, fresh=True)
def _(
    ctx: Context,
    true_classes: Array,
    weights: Array,
    *,
    num_sampled: int,
    unique: bool,
    seed: int | None,
    seed2: int | None,
    node: NodeView,
) -> tuple[Array, ...]:
    if (weights < 0).any() or (weights > 0).sum() < (num_sampled if unique else 1):
        raise ValueError(f"weights are 0 or more, and enough of them above 0 to draw {num_sampled} classes")
    ends = np.cumsum(weights)

    def classes(count: int) -> Array:
        drawn = ends.searchsorted(fractions(words(ctx, node, seed, seed2, count)) * ends[-1], "right")
        return np.minimum(drawn, np.flatnonzero(weights)[-1])

    drawn, tries = different(classes, num_sampled) if unique else (classes(num_sampled), num_sampled)
    shares = weights / ends[-1]
    expected = [expected_count(shares[which], tries, unique) for which in (true_classes, drawn)]
    return drawn.astype(np.int64, copy=False), *expected


@op(name="all_candidate_sampler")
def all_sampler(true_classes: Ints, num_true: int, num_sampled: int, unique: bool) -> tuple[Spec, ...]:
    """Every class once, each of which is expected once among them."""
    return sampled_specs(true_classes, num_true, num_sampled, unique, num_sampled)


all_sampler.no_gradient("classes do not follow from the inputs")


@all_sampler.kernel(CPU, fresh=True)
def _(xp: Namespace, true_classes: Array, *, num_sampled: int) -> tuple[Array, ...]:
    ones = [np.ones(shape, np.float32) for shape in (true_classes.shape, num_sampled)]
    return np.arange(num_sampled), *ones


# For users


def all_candidate_sampler(
    true_classes: NumberLike,
    num_true: int,
    num_sampled: int,
    unique: bool,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Every class once: for trying a sampled loss with all classes.

    Args:
        true_classes: the true classes of each row, integers [rows, num_true].
        num_true: the number of true classes per row.
        num_sampled: the number of classes.
        unique: has no effect.
        seed: has no effect.
        name: the name of the operation.

    Returns:
        The classes, and expected counts of 1 for each of `true_classes` and each class drawn.

    Examples:
        >>> await session.run(af.nn.all_candidate_sampler([[2]], 1, 3, True))
        (array([0, 1, 2]), array([[1.]], dtype=float32), array([1., 1., 1.], dtype=float32))
    """
    return all_sampler(true_classes, num_true, num_sampled, unique, name=name)


@transactional
def fixed_unigram_candidate_sampler(
    true_classes: NumberLike,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    vocab_file: str = "",
    distortion: float = 1.0,
    num_reserved_ids: int = 0,
    num_shards: int = 1,
    shard: int = 0,
    unigrams: Sequence[float] = (),
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Classes drawn in proportion to given weights, as the counts of words.

    Args:
        true_classes: the true classes of each row, integers [rows, num_true].
        num_true: the number of true classes per row.
        num_sampled: the number of classes to draw.
        unique: whether to draw without replacement.
        range_max: the number of classes.
        vocab_file: a file with a class per line, whose last field, after a comma, is the weight; read when the graph
            is built.
        distortion: the power that weights are raised to: 1 for weights as they are, 0 for equal ones.
        num_reserved_ids: the number of first classes that are never drawn, and have no weight.
        num_shards: the number of parts of the weights; weight `i` is in part `i % num_shards`.
        shard: the part that is drawn from, whose weights are those of the classes.
        unigrams: the weights, in place of a file.
        seed: see `get_seed`.
        name: the name of the operation.

    Returns:
        The classes drawn, the expected count of each of `true_classes`, and the expected count of each class drawn.

    Examples:
        >>> sampler = af.nn.fixed_unigram_candidate_sampler
        >>> _, expected, _ = sampler([[0, 2]], 2, 4, False, 3, unigrams=[1.0, 0.0, 3.0], seed=1)
        >>> await session.run(expected)
        array([[1., 3.]], dtype=float32)
    """
    if bool(vocab_file) == bool(len(unigrams)):
        raise ValueError("the weights come from either vocab_file or unigrams")
    if not 0 <= shard < num_shards:
        raise ValueError(f"shard is from 0 to num_shards, {num_shards}, not {shard}")
    counts = _read(vocab_file) if vocab_file else [float(weight) for weight in unigrams]
    counts = counts[shard::num_shards]
    if num_reserved_ids + len(counts) != range_max:
        raise ValueError(f"{num_reserved_ids} reserved classes and {len(counts)} weights are not {range_max} classes")
    weights = np.zeros(range_max)
    weights[num_reserved_ids:] = np.power(counts, distortion)
    return fixed_unigram_sampler(
        true_classes, weights, num_true, num_sampled, unique, range_max, *get_seed(seed), name=name
    )


def _read(vocab_file: str) -> list[float]:
    """The weights in a file. ValueError, naming the line, for one that ends in no number."""
    weights = []
    with GFile(vocab_file) as file:
        lines = file.read().splitlines()
    for number, line in enumerate(lines, 1):
        try:
            weights.append(float(line.rpartition(",")[2]))
        except ValueError:
            raise ValueError(f"line {number} of {vocab_file} must end in a comma and a weight: {line[:80]!r}") from None
    return weights
