"""The losses of an output for a share of a batch, to be added to those of other shares."""

from collections.abc import Sequence
from typing import NamedTuple

from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.no_nan import multiply_no_nan
from aioflow.kernels.math.reduction import reduce_prod, reduce_sum
from aioflow.layers.masks import mask_of
from aioflow.library.losses.objectives import Loss, unmasked
from aioflow.tensors.dtypes import float32


class SummedLoss(NamedTuple):
    """The losses of a share.

    Attributes:
        losses: the weighted losses of the elements.
        counted: which of them count; None if all do.
    """

    losses: Tensor
    counted: NumberLike | None

    @property
    def total(self) -> Tensor:
        """Their sum."""
        return reduce_sum(self.losses)

    def number(self, rows: Tensor) -> Tensor:
        """The number of losses that count, given the number of elements; not computed from them, so that it is early.

        A function that returns one number for its batch counts as the mean of its elements.
        """
        if self.counted is not None:
            return unmasked(self.counted, self.losses)
        return rows * cast(reduce_prod(shape(self.losses)[1:]), float32)


def summed_loss(loss: Loss, labels: Tensor, output: Tensor, weights: Tensor | None, rows: Tensor) -> SummedLoss:
    """The losses of a share of a batch with that many rows."""
    losses, counted = loss.weighted(labels, output, weights, mask_of(output))
    return SummedLoss(multiply_no_nan(losses, rows) if losses.shape.ndims == 0 else losses, counted)


def check_terms(terms: Sequence[Tensor], model: str) -> None:
    """Raise ValueError if a loss would be the sum of nothing."""
    if not terms:
        raise ValueError(
            f"{model!r} has no loss: compile it with one, or let a layer add one by add_loss, or regularize a weight"
        )
