"""Weighted means over many batches: of all values, of each element, of values below a threshold."""

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import ones_like
from aioflow.kernels.array.shapes import size
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import less
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.library.control import name_scope
from aioflow.library.metrics.operands import weights_of
from aioflow.library.metrics.state import Collections, Pair, metric, ratio, sum_up
from aioflow.library.weights import broadcast_weights
from aioflow.tensors.dtypes import float32


@transactional
def mean(
    values: NumberLike,
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return the weighted mean of the values of all batches: a float32, 0 before the first value.

    The state is the local variables `total` and `count`: the sum of the weighted values, and the sum of the weights.

    Args:
        values: the values of a batch, of any shape.
        weights: the weight of each value, 1 if None: a scalar, or a tensor of the rank of `values` whose size in each
            axis is 1 or that of the values.
        metrics_collections: the collections that the value joins.
        updates_collections: the collections that the update joins.
        name: the name of the scope of its operations and variables.

    Returns:
        The value over all batches so far, and an operation that adds the batch and returns the new value.

    Raises:
        ValueError: the weights do not fit the values.
        InvalidArgumentError: in the run, if the weights do not fit the values.

    Examples:
        >>> value, update = af.metrics.mean([1.0, 2.0, 6.0])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(3.0)
    """
    with name_scope(name, "mean", [values, weights]):
        batch = cast(values, float32)
        each = weights_of(weights, batch)
        if each is None:
            sums = sum_up(reduce_sum(batch), "total"), sum_up(cast(size(batch), float32), "count")
        else:
            each = broadcast_weights(each, batch)
            sums = sum_up(reduce_sum(batch * each), "total"), sum_up(reduce_sum(each), "count")
        return metric(ratio, sums, metrics_collections, updates_collections)


@transactional
def mean_tensor(
    values: NumberLike,
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return the weighted mean of each element over all batches: a float32 of the shape of `values`, which is known.

    It is 0 for an element without weight so far. See `mean`.

    Examples:
        >>> value, update = af.metrics.mean_tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        array([[1., 2.],
               [3., 4.]], dtype=float32)
    """
    with name_scope(name, "mean", [values, weights]):
        batch = cast(values, float32)
        if not batch.shape.is_fully_defined():
            raise ValueError(f"the shape of the values must be known, it is {batch.shape}")
        each = weights_of(weights, batch)
        each = ones_like(batch) if each is None else broadcast_weights(each, batch)
        sums = sum_up(batch if weights is None else batch * each, "total_tensor"), sum_up(each, "count_tensor")
        return metric(ratio, sums, metrics_collections, updates_collections)


@transactional
def percentage_below(
    values: NumberLike,
    threshold: NumberLike,
    weights: NumberLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Pair:
    """Return the weighted share of values below `threshold`, from 0 to 1. See `mean`.

    Examples:
        >>> value, update = af.metrics.percentage_below([1.0, 5.0], threshold=3.0)
        >>> await session.run(af.local_variables_initializer())
        >>> await session.run(update)
        np.float32(0.5)
    """
    below = less(convert_to_tensor(values), threshold)
    return mean(below, weights, metrics_collections, updates_collections, name or "percentage_below_threshold")


def weigh(values: Tensor, weights: Tensor | None) -> Tensor:
    """Return the values times their weights; the values if there are none."""
    return values if weights is None else values * broadcast_weights(weights, values)
