"""Candidate sampling by the counts of the true classes that were seen so far."""

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant, identity, ones_like
from aioflow.kernels.array.shapes import reshape
from aioflow.kernels.math.random import get_seed
from aioflow.kernels.math.segments import unsorted_segment_sum
from aioflow.kernels.nn.weighted_sampling import fixed_unigram_sampler
from aioflow.library.control import control_dependencies, name_scope
from aioflow.library.variables import Variable
from aioflow.tensors.dtypes import float64


@transactional
def learned_unigram_candidate_sampler(
    true_classes: NumberLike,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Classes drawn in proportion to how often they were among the true classes so far in this session, plus 1.

    The counts are kept in a variable that needs no initialization, and that no collection has.

    Args:
        true_classes: the true classes of each row, integers [rows, num_true].
        num_true: the number of true classes per row.
        num_sampled: the number of classes to draw.
        unique: whether to draw without replacement.
        range_max: the number of classes.
        seed: see `get_seed`.
        name: the name of the operations.

    Returns:
        The classes drawn, the expected count of each of `true_classes`, and the expected count of each class drawn.

    Examples:
        >>> _, expected, _ = af.nn.learned_unigram_candidate_sampler([[2]], 1, 4, False, 4, seed=1)
        >>> await session.run(expected), await session.run(expected)
        (array([[1.]], dtype=float32), array([[1.6]], dtype=float32))
    """
    with name_scope(name, "LearnedUnigramCandidateSampler"):
        true = convert_to_tensor(true_classes)
        counts = Variable(np.ones(range_max), trainable=False, collections=[], name="counts")
        weights = counts.initialized_value()
        found = fixed_unigram_sampler(true, weights, num_true, num_sampled, unique, range_max, *get_seed(seed))
        seen = reshape(true, [-1])
        more = unsorted_segment_sum(ones_like(seen, dtype=float64), seen, constant(range_max))
        with control_dependencies([counts.assign(weights + more)]):
            return tuple([identity(part) for part in found])
