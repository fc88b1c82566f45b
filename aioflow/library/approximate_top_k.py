"""The highest or lowest elements, which TensorFlow's accelerators find approximately: here they are exact."""

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.sorting import top_k
from aioflow.kernels.math.elementwise import negative
from aioflow.library.control import name_scope


@transactional
def approx_top_k(
    input: NumberLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    is_max_k: bool = True,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The `k` highest elements along an axis and where they are, or the lowest ones unless `is_max_k`; in order.

    Args:
        input: floating numbers.
        k: how many of them.
        reduction_dimension: the axis.
        recall_target: the part of the elements that has to be right, above 0 and up to 1; all are.
        is_max_k: whether the highest elements are wanted.
        reduction_input_size_override: has no effect.
        aggregate_to_topk: has no effect: never more than `k` elements are returned.
        name: the name of the operations.

    Examples:
        >>> await session.run(af.approx_top_k([3.0, 1.0, 4.0], 2, is_max_k=False))
        (array([1., 3.], dtype=float32), array([1, 0], dtype=int32))
    """
    if not 0 < recall_target <= 1:
        raise ValueError(f"recall_target is above 0 and up to 1, not {recall_target}")
    with name_scope(name, "ApproxTopK"):
        x = convert_to_tensor(input)
        order = _with_last(x, reduction_dimension)
        moved = x if order is None else transpose(x, order)
        values, places = top_k(moved if is_max_k else negative(moved), k)
        values = values if is_max_k else negative(values)
        return (values, places) if order is None else (transpose(values, order), transpose(places, order))


def _with_last(x: Tensor, axis: int) -> list[int] | None:
    """The order of axes that exchanges `axis` and the last one; None if it is the last one."""
    rank = x.shape.ndims
    if rank is None:
        if axis == -1:
            return None
        raise ValueError(f"the rank of the input must be known to reduce axis {axis}")
    place, last = x.spec.axis(axis), rank - 1
    order = [*range(rank)]
    order[place], order[last] = last, place
    return None if place == last else order


def approx_max_k(
    operand: NumberLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The `k` highest elements along an axis and where they are; see `approx_top_k`.

    Examples:
        >>> await session.run(af.nn.approx_max_k([3.0, 1.0, 4.0], 2))
        (array([4., 3.], dtype=float32), array([2, 0], dtype=int32))
    """
    size = reduction_input_size_override
    return approx_top_k(operand, k, reduction_dimension, recall_target, True, size, aggregate_to_topk, name)


def approx_min_k(
    operand: NumberLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The `k` lowest elements along an axis and where they are; see `approx_top_k`.

    Examples:
        >>> await session.run(af.nn.approx_min_k([3.0, 1.0, 4.0], 2))
        (array([1., 3.], dtype=float32), array([1, 0], dtype=int32))
    """
    size = reduction_input_size_override
    return approx_top_k(operand, k, reduction_dimension, recall_target, False, size, aggregate_to_topk, name)
