"""RaggedTensors joined: concat, stack and tile; and axes of size 1 added and removed."""

from collections.abc import Sequence
from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.composed import key_of
from aioflow.graph.convert import constant_value, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array import arrays, shapes
from aioflow.kernels.array import concat as dense
from aioflow.kernels.array.constants import constant, identity
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.ranges import range as range_
from aioflow.kernels.array.shapes import expand_dims, reshape
from aioflow.kernels.control.assertions import assert_equal
from aioflow.kernels.math.casting import cast
from aioflow.library.control import name_scope, with_dependencies
from aioflow.library.ragged.partitions import RowPartition, segment_ids, splits_of
from aioflow.library.ragged.rows import all_ragged, row_count, take_rows, with_ragged_rank, with_same_rows
from aioflow.library.ragged.shapes import axis_of
from aioflow.library.ragged.tensor import RaggedTensor, rebuilt, tensors_of
from aioflow.tensors.dtypes import DType, int32


def _concat(values: Any, axis: Any, name: str | None = None) -> Any:
    with name_scope(name, "RaggedConcat"):
        return _joined_values(values, axis, stacking=False)


def _stack(values: Any, axis: int = 0, name: str | None = None) -> Any:
    with name_scope(name, "RaggedStack"):
        return _joined_values(values, axis, stacking=True)


@transactional
def stack(values: Sequence[Any], axis: int = 0, name: str | None = None) -> Any:
    """Return tensors and RaggedTensors of one rank, stacked along a new axis as a RaggedTensor.

    The result is a tensor for scalars, and for tensors alone along another axis than the first, as TensorFlow's is.

    Args:
        values: tensors and RaggedTensors; along the first axis tensors may have different sizes.
        axis: the new axis.
        name: the name scope.

    Raises:
        ValueError: there are no values, or their ranks differ, or the axis is none of theirs.

    Examples:
        >>> (await session.run(af.ragged.stack([[1, 2], [3]]))).to_list()
        [[1, 2], [3]]
    """
    if isinstance(values, RaggedTensor):
        values = [values]
    if isinstance(values, Tensor) or not values:
        raise ValueError("a list of at least one value is needed to stack")
    with name_scope(name, "RaggedConcat"):
        return _joined_values(values, axis, stacking=True, ragged=True)


def _joined_values(values: Any, axis: Any, stacking: bool, ragged: bool = False) -> Any:
    found, dtype = all_ragged(values)
    rank = _rank_of_all(found)
    place = _axis(axis, rank + stacking)
    if rank == 0:
        return dense.stack(found, place)
    if rank == 1:
        dtype = int32  # as the sizes of tensors are
    return _joined(found, place, stacking, dtype, ragged and place == 0)


def _rank_of_all(values: Sequence[Any]) -> int:
    """Return the rank of all values. Of RaggedTensors of one ragged rank the rank of a value may be unknown."""
    ranks = {value.shape.ndims for value in values}
    outer = {value.ragged_rank if isinstance(value, RaggedTensor) else 0 for value in values}
    if None in ranks and len(outer) == 1 and 0 not in outer:
        return outer.pop() + 1
    if len(ranks) > 1 or None in ranks:
        raise ValueError(f"all values must have the same, known rank; they have ranks {sorted(map(str, ranks))}")
    return int(ranks.pop())


def _axis(axis: Any, rank: int) -> int:
    if isinstance(axis, Tensor):
        axis = constant_value(axis)
    if axis is None:
        raise ValueError("axis must be known when the graph is built")
    place: int = axis.__index__()
    if not -rank <= place < rank:
        raise ValueError(f"axis is {place}, and must be from {-rank} to {rank - 1}")
    return place % rank


def _joined(values: Sequence[Any], axis: int, stacking: bool, dtype: DType, ragged: bool = False) -> Any:
    """Return the values joined along an axis, which is a new one if they are stacked."""
    ranks = [value.ragged_rank for value in values if isinstance(value, RaggedTensor)]
    if not ranks and not ragged:
        return dense.stack(values, axis) if stacking else dense.concat(values, axis)
    if values[0].shape.ndims == 1:
        return _behind(values, stacking, dtype)
    values = [with_ragged_rank(value, max([1, *ranks]), dtype) for value in values]
    if axis == 0:
        return _behind(values, stacking, dtype)
    if axis == 1:
        return _beside(values, stacking, dtype)
    part = with_same_rows(values)
    return RaggedTensor(_joined([value.values for value in values], axis - 1, stacking, dtype), part, True)


def _behind(values: Sequence[Any], stacking: bool, dtype: DType) -> Any:
    """Return the rows of all values one after the other; stacked, those of one value are a row of rows."""
    made = _rows_of_all(values, dtype)
    if not stacking:
        return made
    counts = [row_count(value, dtype) for value in values]
    return RaggedTensor(made, RowPartition(splits_of(dense.stack(counts))), True)


def _rows_of_all(values: Sequence[Any], dtype: DType) -> Any:
    if not isinstance(values[0], RaggedTensor):
        return dense.concat(values, 0)
    inner = _joined([value.values for value in values], 0, False, dtype)
    splits = [values[0].row_splits]
    for value in values[1:]:
        splits.append(value.row_splits[1:] + splits[-1][-1])
    lengths = {value.row_partition.static_row_length for value in values}
    uniform = None if None in lengths or len(lengths) > 1 else constant(lengths.pop(), dtype)
    return RaggedTensor(inner, RowPartition(dense.concat(splits, 0), uniform), True)


def _beside(values: Sequence[RaggedTensor], stacking: bool, dtype: DType) -> RaggedTensor:
    """Return the rows of the same number one after the other in one row; stacked, they are a row of rows."""
    for value in values[1:]:
        values[0].shape[:1].assert_is_compatible_with(value.shape[:1])
    rows, count = values[0].nrows(dtype), len(values)
    checks = [
        assert_equal(value.nrows(dtype), rows, message="the values have different numbers of rows")
        for value in values[1:]
        if value.shape[0].value is None or values[0].shape[0].value is None
    ]
    rows = with_dependencies(checks, rows) if checks else rows
    order = reshape(expand_dims(range_(rows), 1) + rows * range_(count, dtype=dtype), [-1])
    made = take_rows(_rows_of_all(values, dtype), order)
    if stacking:
        length = constant(count, dtype)
        return RaggedTensor(made, RowPartition(range_(rows + 1) * length, length), True)
    return RaggedTensor(made.values, RowPartition(made.row_splits[::count]), True)


def _split(
    value: RaggedTensor, num_or_size_splits: Any, axis: Any = 0, num: int | None = None, name: str | None = None
) -> list[Any]:
    """Return parts of the rows, or of each element; ragged rows cannot be divided."""
    with name_scope(name, "RaggedSplit"):
        place = axis_of(value, axis)
        if place > value.ragged_rank:
            parts = dense.split(value.flat_values, num_or_size_splits, place - value.ragged_rank, num)
            return [value.with_flat_values(part) for part in parts]
        if place:
            raise ValueError(f"axis is {place}, and must be 0 or behind the {value.ragged_rank} ragged axes")
        numbers = dense.split(range_(value.nrows()), num_or_size_splits, 0, num)
        return [take_rows(value, part) for part in numbers]


def _tile(input: RaggedTensor, multiples: Any) -> Any:
    times = convert_to_tensor(multiples, preferred_dtype=input.row_splits.dtype)
    times.shape.assert_is_compatible_with([input.shape.ndims])
    return _tiled(input, times)


def _tiled(value: Any, times: Tensor) -> Any:
    if not isinstance(value, RaggedTensor):
        return arrays.tile(value, times)
    dtype, splits = value.row_splits.dtype, value.row_splits
    many = cast(times[1], dtype)
    inner = _tiled(value.values, dense.concat([[1], times[2:]], 0))
    lengths = value.row_partition.lengths()
    longer = splits_of(lengths * many)
    rows = segment_ids(longer)
    places = gather(splits, rows) + (range_(longer[-1]) - gather(longer, rows)) % gather(lengths, rows)
    made = RaggedTensor(take_rows(inner, places), RowPartition(longer), True)
    order = arrays.tile(range_(value.nrows()), reshape(times[0], [1]))
    return take_rows(made, order)


def _expand_dims(input: RaggedTensor, axis: Any) -> Any:
    return _expanded(input, axis_of(input, axis, extra=1))


def _expanded(value: Any, axis: int) -> Any:
    if not isinstance(value, RaggedTensor) and axis > 0:
        return expand_dims(value, axis)
    dtype = value.row_splits.dtype if isinstance(value, RaggedTensor) else None
    if axis > 1:
        return value.with_values(_expanded(value.values, axis - 1))
    rows = value.nrows()
    if axis == 0:
        known = value.shape[0].value
        length = rows if known is None else constant(known, rows.dtype)
        return RaggedTensor(value, RowPartition(dense.stack([constant(0, rows.dtype), length]), length), True)
    return RaggedTensor(value, RowPartition(range_(rows + 1), constant(1, dtype)), True)


def _squeeze(input: RaggedTensor, axis: Any = None) -> Any:
    if axis is None or axis == []:
        raise ValueError("axis is needed to squeeze a RaggedTensor")
    places = {axis_of(input, each) for each in (axis if isinstance(axis, (list, tuple)) else [axis])}
    made: Any = input
    for place in sorted(places, reverse=True):
        made = _squeezed(made, place)
    return made


def _squeezed(value: Any, axis: int) -> Any:
    if not isinstance(value, RaggedTensor):
        return shapes.squeeze(value, axis)
    if axis > 1:
        return value.with_values(_squeezed(value.values, axis - 1))
    size = value.shape[axis].value
    if size not in (None, 1):
        raise ValueError(f"axis {axis} has size {size}, and only one of size 1 is removed")
    sizes = value.row_lengths() if axis else value.nrows()
    if size == 1:
        return value.values
    check = assert_equal(sizes, constant(1, sizes.dtype), message=f"axis {axis} must have size 1 to be removed")
    inner = value.values
    if isinstance(inner, RaggedTensor):
        return inner.with_flat_values(with_dependencies([check], inner.flat_values))
    return with_dependencies([check], inner)


def _reverse(tensor: RaggedTensor, axis: Any) -> Any:
    made: Any = tensor
    for each in axis if isinstance(axis, (list, tuple)) else [axis]:
        made = made[(slice(None),) * axis_of(tensor, each) + (slice(None, None, -1),)]
    return made


RaggedTensor.rules.update(
    {
        key_of(dense.concat): _concat,
        key_of(dense.stack): _stack,
        key_of(dense.split): _split,
        key_of(arrays.tile): _tile,
        key_of(arrays.reverse): _reverse,
        key_of(shapes.expand_dims): _expand_dims,
        key_of(shapes.squeeze): _squeeze,
        key_of(shapes.size): lambda input, out_type: shapes.size(input.flat_values, out_type=out_type),
        key_of(shapes.rank): lambda input: shapes.rank(input.flat_values) + input.ragged_rank,
        key_of(identity): lambda input: rebuilt(input, [identity(tensor) for tensor in tensors_of(input)]),
    }
)
