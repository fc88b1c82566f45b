"""Losses over many classes with a few sampled ones: noise-contrastive estimation and sampled softmax."""

from collections.abc import Sequence
from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat, stack
from aioflow.kernels.array.constants import ones_like, stop_gradient, zeros_like
from aioflow.kernels.array.gather import scatter_nd
from aioflow.kernels.array.shapes import expand_dims, reshape, shape, size
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.math.arithmetic import add, maximum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.elementwise import log
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.kernels.nn.candidate_sampling import (
    compute_accidental_hits,
    log_uniform_candidate_sampler,
    uniform_candidate_sampler,
)
from aioflow.kernels.nn.losses import sigmoid_cross_entropy_with_logits, softmax_cross_entropy_with_logits_v2
from aioflow.library.control import name_scope
from aioflow.library.embedding import embedding_lookup
from aioflow.tensors.dtypes import int64

Table = NumberLike | Sequence[Any]


@transactional
def nce_loss(
    weights: Table,
    biases: Table,
    labels: NumberLike,
    inputs: NumberLike,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Sequence[NumberLike] | None = None,
    remove_accidental_hits: bool = False,
    partition_strategy: str = "mod",
    name: str | None = "nce_loss",
) -> Tensor:
    """Return the loss of distinguishing the true classes of each row from sampled ones [Gutmann and Hyvärinen 2010].

    Args:
        weights: a row [dim] for each class; a variable, or a list of variables that hold parts of the rows.
        biases: a number for each class.
        labels: the true classes, integers [rows, num_true].
        inputs: the features of each row [rows, dim].
        num_sampled: number of classes drawn for all rows together.
        num_classes: the number of classes.
        num_true: number of true classes of a row.
        sampled_values: the result of a candidate sampler; by default of `log_uniform_candidate_sampler`.
        remove_accidental_hits: whether a sampled class that is true for a row is ignored there.
        partition_strategy: see `embedding_lookup`.
        name: the name of the operation.

    Examples:
        >>> weights, biases = af.ones([50, 4]), af.zeros([50])
        >>> af.nn.nce_loss(weights, biases, [[3]], af.ones([1, 4]), 5, 50).shape
        TensorShape([1])
    """
    with name_scope(name, "nce_loss") as scope:
        logits, targets = _sampled_logits(
            weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values,
            remove_accidental_hits, partition_strategy, None,
        )  # fmt: skip
        return reduce_sum(sigmoid_cross_entropy_with_logits(labels=targets, logits=logits), 1, name=scope)


@transactional
def sampled_softmax_loss(
    weights: Table,
    biases: Table,
    labels: NumberLike,
    inputs: NumberLike,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Sequence[NumberLike] | None = None,
    remove_accidental_hits: bool = True,
    partition_strategy: str = "mod",
    name: str | None = "sampled_softmax_loss",
    seed: int | None = None,
) -> Tensor:
    """Return the cross entropy of a softmax over the true classes of each row and sampled ones [Jean 2014].

    It is smaller than that of the full softmax; use it only for training. The arguments are those of `nce_loss`; `seed`
    is the seed of the default sampler.

    Examples:
        >>> weights, biases = af.ones([50, 4]), af.zeros([50])
        >>> af.nn.sampled_softmax_loss(weights, biases, [[3]], af.ones([1, 4]), 5, 50).shape
        TensorShape([1])
    """
    with name_scope(name, "sampled_softmax_loss") as scope:
        logits, targets = _sampled_logits(
            weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values,
            remove_accidental_hits, partition_strategy, seed,
        )  # fmt: skip
        return softmax_cross_entropy_with_logits_v2(labels=stop_gradient(targets), logits=logits, name=scope)


def _sampled_logits(
    weights: Table,
    biases: Table,
    labels: NumberLike,
    inputs: NumberLike,
    num_sampled: int,
    num_classes: int,
    num_true: int,
    sampled_values: Sequence[NumberLike] | None,
    remove_hits: bool,
    partition_strategy: str,
    seed: int | None,
) -> tuple[Tensor, Tensor]:
    """Return logits of true and sampled classes, less the logarithms of their expected counts; and the targets."""
    right, x = cast(convert_to_tensor(labels), int64), convert_to_tensor(inputs)
    if sampled_values is None:
        sampled_values = log_uniform_candidate_sampler(right, num_true, num_sampled, True, num_classes, seed)
    drawn, right_expected, drawn_expected = [stop_gradient(value) for value in sampled_values]
    flat, drawn = reshape(right, [-1]), cast(drawn, int64)
    every = concat([flat, drawn], 0)
    rows = embedding_lookup(weights, every, partition_strategy)
    shifts = embedding_lookup(biases, every, partition_strategy)
    count = size(flat)
    of_right = reshape(rows[:count], concat([shape(right), shape(x)[1:]], 0))
    right_logits = reduce_sum(expand_dims(x, 1) * of_right, -1) + reshape(shifts[:count], shape(right))
    drawn_logits = matmul(x, rows[count:], transpose_b=True) + shifts[count:]
    if remove_hits:
        drawn_logits = add(drawn_logits, _against_hits(right, drawn, num_true, drawn_logits))
    right_logits -= log(cast(right_expected, x.dtype))
    drawn_logits -= log(cast(drawn_expected, x.dtype))
    targets = concat([ones_like(right_logits) / num_true, zeros_like(drawn_logits)], 1)
    return concat([right_logits, drawn_logits], 1), targets


def _against_hits(right: Tensor, drawn: Tensor, num_true: int, logits: Tensor) -> Tensor:
    """Return the lowest number where a sampled class is true, else 0, in the shape of `logits`, to be added to them."""
    rows, places, weights = compute_accidental_hits(right, drawn, num_true)
    indices = stack([cast(rows, int64), places], 1)
    lowest = logits.dtype.np.type(logits.dtype.min)
    found = scatter_nd(indices, cast(weights, logits.dtype), shape(logits, out_type=int64))
    return stop_gradient(maximum(found, lowest))  # a class that is sampled twice counts once


__all__ = [
    "compute_accidental_hits", "log_uniform_candidate_sampler", "nce_loss", "sampled_softmax_loss",
    "uniform_candidate_sampler",
]  # fmt: skip
