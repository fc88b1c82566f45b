"""Rows of tensors and RaggedTensors: taken, and compared between operands."""

from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import TensorLike, constant_value
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.control.assertions import assert_equal
from aioflow.library.control import with_dependencies
from aioflow.library.ragged.conversion import from_tensor
from aioflow.library.ragged.partitions import RowPartition, flat_places, same_splits_dtype
from aioflow.library.ragged.tensor import RaggedTensor, as_ragged
from aioflow.tensors.dtypes import DType, int64

DIFFER = "the rows of the operands differ in length"


def take_rows(value: Any, places: Tensor) -> Any:
    """Return the rows of a tensor or RaggedTensor at these places, a vector."""
    if not isinstance(value, RaggedTensor):
        return gather(value, places)
    part = value.row_partition
    lengths = gather(part.lengths(), places)
    inner, splits = flat_places(gather(part.row_splits, places), lengths)
    uniform = None if part.static_row_length is None else part.uniform_row_length
    return RaggedTensor(take_rows(value.values, inner), RowPartition(splits, uniform), True)


def row_count(value: Any, dtype: DType) -> Tensor:
    """Return the number of rows of a tensor or RaggedTensor, a scalar."""
    return value.nrows(dtype) if isinstance(value, RaggedTensor) else shape(value, out_type=dtype)[0]


def with_ragged_rank(value: Any, ragged_rank: int, dtype: DType) -> RaggedTensor:
    """Return a RaggedTensor for a tensor or RaggedTensor, with that ragged rank unless it has a higher one."""
    if not isinstance(value, RaggedTensor):
        return from_tensor(value, None, None, ragged_rank, dtype)
    if value.ragged_rank >= ragged_rank:
        return value
    return value.with_values(with_ragged_rank(value.values, ragged_rank - 1, dtype))


def all_ragged(values: Sequence[TensorLike]) -> tuple[list[Any], DType]:
    """Return values as tensors and RaggedTensors, and the dtype of their splits."""
    found = [as_ragged(value) for value in values]
    kinds = [value.row_splits.dtype for value in found if isinstance(value, RaggedTensor)]
    return found, same_splits_dtype(*kinds) if kinds else int64


def are_same(one: Tensor, other: Tensor) -> bool:
    """Whether the graph knows that two vectors of integers are equal."""
    if one is other:
        return True
    a, b = constant_value(one), constant_value(other)
    return a is not None and b is not None and a.shape == b.shape and bool((a == b).all())


def with_same_rows(values: Sequence[RaggedTensor]) -> RowPartition:
    """Return the rows that all values have. InvalidArgumentError, in the run at the latest, if they differ."""
    first, *others = [value.row_partition for value in values]
    checks = []
    for other in others:
        if not are_same(first.row_splits, other.row_splits):
            first.row_splits.shape.assert_is_compatible_with(other.row_splits.shape)
            checks.append(assert_equal(first.row_splits, other.row_splits, message=DIFFER))
    if not checks:
        return first
    return RowPartition(with_dependencies(checks, first.row_splits), first.uniform_row_length)
