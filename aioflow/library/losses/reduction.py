"""From the loss of each element to one loss: weights and reductions."""

from typing import Final

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, constant_value, convert_to_tensor
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.shapes import size
from aioflow.kernels.math.arithmetic import multiply
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import not_equal
from aioflow.kernels.math.no_nan import div_no_nan
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.library.control import name_scope
from aioflow.library.losses.collected import Collections, add_loss
from aioflow.library.losses.elements import float_weights
from aioflow.library.weights import broadcast_weights, fit_weights
from aioflow.tensors.dtypes import float32
from aioflow.tensors.recursion import safe_repr


class Reduction:
    """How the weighted losses of the elements become one loss. Of no elements every reduction is 0.

    Attributes:
        NONE: they do not; the loss has the shape of the elements.
        SUM: their sum.
        SUM_OVER_BATCH_SIZE: their sum divided by the number of elements.
        MEAN: their sum divided by the sum of the weights.
        SUM_BY_NONZERO_WEIGHTS: their sum divided by the number of elements whose weight is not 0.
        SUM_OVER_NONZERO_WEIGHTS: another name for SUM_BY_NONZERO_WEIGHTS.

    Examples:
        >>> losses = af.losses.absolute_difference([1.0, 2.0], [1.5, 4.0], reduction=af.losses.Reduction.NONE)
        >>> await session.run(losses)
        array([0.5, 2. ], dtype=float32)
    """

    NONE: Final = "none"
    SUM: Final = "weighted_sum"
    SUM_OVER_BATCH_SIZE: Final = "weighted_sum_over_batch_size"
    MEAN: Final = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS: Final = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS: Final = SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """Return all reductions."""
        return cls.NONE, cls.SUM, cls.MEAN, cls.SUM_OVER_BATCH_SIZE, cls.SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def validate(cls, key: str) -> None:
        """Raise ValueError if `key` is not a reduction."""
        if key not in cls.all():
            raise ValueError(f"{safe_repr(key)} is not a reduction; the reductions are {', '.join(cls.all())}")


@transactional
def compute_weighted_loss(
    losses: NumberLike,
    weights: NumberLike = 1.0,
    scope: str | None = None,
    loss_collection: Collections = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return the losses of elements, weighted and reduced. It is computed in float32, and has the dtype of `losses`.

    Args:
        losses: the loss of each element.
        weights: a scalar, or a tensor of the rank of `losses` whose size in each axis is 1 or that of `losses`.
        scope: the name of the scope of its operations.
        loss_collection: the collections that the result joins; None for none.
        reduction: one of `Reduction`.

    Raises:
        ValueError: the weights do not fit the losses, or there is no such reduction.
        InvalidArgumentError: in the run, if the weights do not fit the losses.

    Examples:
        >>> await session.run(af.losses.compute_weighted_loss([1.0, 3.0], weights=[1.0, 0.0]))
        np.float32(1.0)
    """
    Reduction.validate(reduction)
    with name_scope(scope, "weighted_loss", [losses, weights]):
        given = convert_to_tensor(losses)
        loss = cast(_reduced(cast(given, float32), float_weights(weights), reduction), given.dtype)
        add_loss(loss, loss_collection)
        return loss


def _reduced(losses: Tensor, weights: Tensor, reduction: str) -> Tensor:
    weighted = losses if _number(weights) == 1 else multiply(losses, fit_weights(weights, losses))
    if reduction == Reduction.NONE:
        return weighted
    total = reduce_sum(weighted)
    if reduction == Reduction.SUM:
        return total
    return div_no_nan(total, _divisor(losses, weights, reduction), name="value")


def _divisor(losses: Tensor, weights: Tensor, reduction: str) -> Tensor:
    if reduction == Reduction.MEAN:
        return reduce_sum(broadcast_weights(weights, losses))
    if reduction == Reduction.SUM_OVER_BATCH_SIZE:
        return cast(size(losses), float32)
    return count_weighted(losses, weights)


def count_weighted(losses: Tensor, weights: Tensor) -> Tensor:
    """Return the number of losses whose weight is not 0, as a float32."""
    number = _number(weights)
    if number is None:
        return reduce_sum(weighted_ones(losses, weights))
    return cast(size(losses), float32) if number else constant(0.0)


def weighted_ones(losses: Tensor, weights: Tensor) -> Tensor:
    """Return a 1 for each loss whose weight is not 0, else a 0, as float32 in the shape of `losses`."""
    return broadcast_weights(cast(not_equal(weights, 0.0), float32), losses)


def _number(weights: Tensor) -> float | None:
    """Return the weight of all losses if the graph knows it, else None."""
    known = constant_value(weights) if weights.spec.rank == 0 else None
    return None if known is None else float(known)
