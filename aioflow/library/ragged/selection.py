"""Elements of RaggedTensors selected by masks, conditions, places and partitions."""

from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.composed import key_of
from aioflow.graph.convert import TensorLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array import gather as dense_gather
from aioflow.kernels.array import select
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.partition import dynamic_partition
from aioflow.kernels.array.ranges import range as range_
from aioflow.kernels.array.shapes import expand_dims, reshape, shape
from aioflow.kernels.array.sorting import argsort
from aioflow.kernels.control.assertions import assert_less
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.segments import unsorted_segment_sum
from aioflow.library import arrays
from aioflow.library.control import name_scope, with_dependencies
from aioflow.library.ragged.elementwise import each_element
from aioflow.library.ragged.partitions import RowPartition, integers, splits_of
from aioflow.library.ragged.rows import all_ragged, row_count, take_rows, with_ragged_rank, with_same_rows
from aioflow.library.ragged.shapes import merge_dims
from aioflow.library.ragged.tensor import RaggedTensor, as_ragged, with_partitions
from aioflow.tensors.dtypes import BOOL, DType, Spec


@transactional
def boolean_mask(data: Any, mask: Any, name: str | None = None) -> Any:
    """Return the elements of `data` where the mask is true, in the rows in which they lie.

    Unlike `af.boolean_mask` it keeps the axes of the mask: its last one becomes ragged.

    Args:
        data: a tensor or RaggedTensor.
        mask: a tensor or RaggedTensor of bools, whose shape begins that of `data`.
        name: the name scope.

    Raises:
        InvalidArgumentError: in the run at the latest: rows of the mask and of the data differ in length.
        ValueError: the rank of the mask is 0 or unknown.

    Examples:
        >>> kept = af.ragged.boolean_mask([[1, 2, 3], [4, 5, 6]], [[True, False, True], [False, False, False]])
        >>> (await session.run(kept)).to_list()
        [[1, 3], []]
    """
    with name_scope(name, "RaggedMask"):
        (values, flags), dtype = all_ragged([data, mask])
        if flags.dtype not in BOOL:
            raise TypeError(f"the mask must be bools, not {flags.dtype.name}")
        rank = flags.shape.ndims
        if not rank:
            raise ValueError("the rank of the mask must be known, and 1 or more")
        values.shape[:rank].assert_is_compatible_with(flags.shape)
        return _masked(values, flags, rank, dtype)


def _masked(data: Any, mask: Any, rank: int, dtype: DType) -> Any:
    if rank == 1:
        if not isinstance(data, RaggedTensor):
            return select.boolean_mask(data, mask)
        return take_rows(data, cast(select.where(mask)[:, 0], dtype))
    data, mask = with_ragged_rank(data, rank - 1, dtype), with_ragged_rank(mask, rank - 1, dtype)
    part = with_same_rows([mask, data])
    if rank > 2:
        return RaggedTensor(_masked(data.values, mask.values, rank - 1, dtype), part, True)
    counts = unsorted_segment_sum(cast(mask.values, dtype), part.value_rowids(), part.nrows())
    return RaggedTensor(_masked(data.values, mask.values, 1, dtype), RowPartition(splits_of(counts)), True)


@transactional
def stack_dynamic_partitions(
    data: Any, partitions: Any, num_partitions: TensorLike, name: str | None = None
) -> RaggedTensor:
    """Return `num_partitions` rows; row i has the slices of `data` whose partition is i, in their order.

    Args:
        data: a tensor or RaggedTensor.
        partitions: the partition of each slice: a tensor or RaggedTensor whose shape begins that of `data`.
        num_partitions: the number of rows.
        name: the name scope.

    Raises:
        InvalidArgumentError: in the run: a partition is negative, or not below their number.

    Examples:
        >>> rows = af.ragged.stack_dynamic_partitions(["a", "b", "c"], [2, 0, 2], num_partitions=3)
        >>> (await session.run(rows)).to_list()
        [[b'b'], [], [b'a', b'c']]
    """
    with name_scope(name, "SegmentStack"):
        (values, places), dtype = all_ragged([data, partitions])
        given = isinstance(values, RaggedTensor) or isinstance(places, RaggedTensor)
        rank = places.shape.ndims
        if rank is None:
            raise ValueError("the rank of partitions must be known")
        if isinstance(places, RaggedTensor) and isinstance(values, RaggedTensor):
            with_same_rows([places, values])
        values.shape[:rank].assert_is_compatible_with(places.shape)
        if rank == 0:
            values, places = expand_dims(values, 0), expand_dims(places, 0)
        elif rank > 1:
            values, places = _merged(values, rank), _merged(places, rank)
        ids = integers(places, "partitions")
        ids = cast(ids, dtype) if given else ids
        order = argsort(ids, stable=True)
        rows = integers(num_partitions, "num_partitions", rank=0, like=ids.dtype)
        return RaggedTensor.from_value_rowids(take_rows(values, cast(order, ids.dtype)), gather(ids, order), rows)


def _merged(value: Any, rank: int) -> Any:
    """Return the value with its first axes made one."""
    if isinstance(value, RaggedTensor):
        return merge_dims(value, 0, rank - 1)
    return reshape(value, concat([[-1], shape(value)[rank:]], 0))


def _gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    name: str | None = None,
    axis: int | None = None,
    batch_dims: int = 0,
) -> Any:
    with name_scope(name, "RaggedGather"):
        (values, places), dtype = all_ragged([params, indices])
        if not places.dtype.is_integer:
            raise TypeError(f"indices must be integers, not {places.dtype.name}")
        if batch_dims == 1 and axis in (None, 1):
            return _gathered_in_rows(values, places, dtype)
        if batch_dims or axis not in (None, 0):
            raise ValueError(
                f"axis {axis} and batch_dims {batch_dims} are not possible for RaggedTensors: axis may be 0, or 1 with "
                "batch_dims=1"
            )
        return _gathered(values, places, dtype)


def _gathered(values: Any, places: Any, dtype: DType) -> Any:
    if isinstance(places, RaggedTensor):
        return with_partitions(_gathered(values, places.flat_values, dtype), places.partitions)
    if not isinstance(values, RaggedTensor):
        return gather(values, places)
    rank = places.shape.ndims
    if rank == 0:
        return values[places]
    if rank != 1:
        return _gathered(values, with_ragged_rank(places, rank - 1, dtype), dtype)
    return take_rows(values, cast(places, values.row_splits.dtype))


def _gathered_in_rows(values: Any, places: Any, dtype: DType) -> Any:
    """Return the elements of each row at the places of the row of the same number."""
    values, places = with_ragged_rank(values, 1, dtype), with_ragged_rank(places, 1, dtype)
    rows = places.value_rowids()
    if places.ragged_rank > 1:
        raise ValueError("with batch_dims=1 the indices of a row must be a vector")
    offsets = cast(places.values, dtype)
    inside = assert_less(offsets, gather(values.row_lengths(), rows), message="an index is behind the end of its row")
    flat = with_dependencies([inside], gather(values.row_starts(), rows) + offsets)
    return places.with_values(take_rows(values.values, flat))


def _gather_nd(params: Any, indices: Any, name: str | None = None, batch_dims: int = 0) -> Any:
    with name_scope(name, "RaggedGatherNd"):
        if batch_dims:
            raise ValueError(f"batch_dims is {batch_dims}, and must be 0 for RaggedTensors")
        (values, places), _ = all_ragged([params, indices])
        if isinstance(places, RaggedTensor):
            return with_partitions(_found(values, places.flat_values), places.partitions)
        return _found(values, places)


def _found(values: Any, places: Tensor) -> Any:
    """Return the elements at positions, a matrix [count, axes]."""
    axes = places.shape[-1].value
    if places.shape.ndims != 2 or axes is None:
        raise ValueError(f"the positions must be a matrix of known width, not of shape {places.shape}")
    if not isinstance(values, RaggedTensor):
        return dense_gather.gather_nd(values, places)
    if axes == 0:
        raise ValueError("positions of no axis select nothing of a RaggedTensor")
    if axes == 1:
        return take_rows(values, cast(places[:, 0], values.row_splits.dtype))
    rows, columns = [cast(places[:, axis], values.row_splits.dtype) for axis in (0, 1)]
    inside = assert_less(columns, gather(values.row_lengths(), rows), message="an index is behind the end of its row")
    flat = with_dependencies([inside], gather(values.row_starts(), rows) + columns)
    return _found(values.values, concat([expand_dims(flat, 1), cast(places[:, 2:], flat.dtype)], 1))


def _where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    if (x is None) != (y is None):
        raise ValueError("x and y must both be given, or neither")
    with name_scope(name, "RaggedWhere"):
        flags = as_ragged(condition)
        Spec(flags.dtype).only(BOOL)
        if x is None:
            sparse = flags.to_sparse()
            return select.boolean_mask(sparse.indices, sparse.values)
        if isinstance(flags, RaggedTensor) or flags.shape.ndims == 0:
            return each_element(arrays.where_v2, flags, x, y)
        return _chosen_rows(flags, x, y)


def _chosen_rows(flags: Tensor, x: Any, y: Any) -> Any:
    """Return the rows of x where the flag of the row is true, else those of y."""
    if flags.shape.ndims != 1:
        return each_element(arrays.where_v2, flags, x, y)
    (one, other), dtype = all_ragged([x, y])
    rows = range_(row_count(one, dtype))
    places = select.where(flags, rows, rows + row_count(one, dtype))
    return take_rows(concat([one, other], 0), places)


def _dynamic_partition(data: Any, partitions: Any, num_partitions: int) -> list[Any]:
    rows = stack_dynamic_partitions(data, partitions, num_partitions)
    return [rows[number] for number in range(num_partitions)]


RaggedTensor.rules.update(
    {
        key_of(dynamic_partition): _dynamic_partition,
        key_of(dense_gather.gather): _gather,
        key_of(arrays.gather_nd): _gather_nd,
        key_of(select.where): _where,
    }
)
