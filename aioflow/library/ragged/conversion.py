"""RaggedTensors made of other tensors, and made other tensors."""

from typing import Any

import numpy as np

from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.array.concat import concat, stack
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.ranges import range as range_
from aioflow.kernels.array.select import boolean_mask, sequence_mask, where
from aioflow.kernels.array.shapes import broadcast_to, expand_dims, reshape, shape
from aioflow.kernels.control.assertions import assert_equal
from aioflow.kernels.math.arithmetic import maximum, minimum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import not_equal
from aioflow.kernels.math.reduction import reduce_any, reduce_max
from aioflow.library.control import with_dependencies
from aioflow.library.ragged.partitions import RowPartition, integers, segment_ids
from aioflow.library.ragged.shapes import bounding_shape, longest
from aioflow.library.ragged.tensor import RaggedTensor
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DType, ShapeLike, TensorShape, as_shape, int64
from aioflow.tensors.recursion import safe_repr

# To tensors


def to_tensor(ragged: RaggedTensor, default_value: TensorLike | None, shape: ShapeLike) -> Tensor:
    """Return the rows as one tensor, short ones filled, and cut off or filled to `shape` where that is known."""
    rank = ragged.shape.ndims
    sizes = as_shape(shape)
    if sizes.ndims is not None and rank is not None and sizes.ndims != rank:
        raise ValueError(f"shape has {sizes.ndims} sizes, and the RaggedTensor has rank {rank}")
    whole: list[int | None] = [None] * (ragged.ragged_rank + 1)
    whole = whole if sizes.ndims is None else [*sizes.as_list()]
    default = _default(ragged, default_value)
    made = _padded(ragged, default, whole)
    for axis, size in enumerate(whole[ragged.ragged_rank + 1 :], ragged.ragged_rank + 1):
        if size is not None and not made.shape[axis : axis + 1].is_compatible_with([size]):
            raise ValueError(f"shape has size {size} at axis {axis}, and the values have {made.shape[axis].value}")
    return made


def _default(ragged: RaggedTensor, value: TensorLike | None) -> Tensor:
    """Return the value of missing elements, of the shape of an element of the flat values."""
    if value is None:
        value = b"" if ragged.dtype is dtypes.string else ragged.dtype.np.type(0)
    found = convert_to_tensor(value, ragged.dtype)
    flat = ragged.flat_values
    if flat.shape.ndims == 1:
        if found.shape.ndims not in (None, 0) and found.shape.num_elements() != 1:
            raise ValueError(f"default_value is a scalar, as the elements are, and has shape {found.shape}")
        return reshape(found, [])
    return broadcast_to(found, shape(flat)[1:])


def _padded(ragged: RaggedTensor, default: Tensor, whole: list[int | None]) -> Tensor:
    """Return one tensor of the rows, of the sizes that `whole` knows."""
    values, splits = ragged.values, ragged.row_splits
    if isinstance(values, RaggedTensor):
        values = _padded(values, default, [None, *whole[2:]])
    uniform = ragged.row_partition.static_row_length
    if uniform is not None and whole[:2] == [None, None]:
        return _in_rows(ragged, values, uniform)
    starts, lengths = splits[:-1], ragged.row_partition.lengths()
    rows, columns = whole[:2]
    if rows is not None:
        missing = constant(np.zeros(rows), splits.dtype)
        starts, lengths = [concat([part, missing], 0)[:rows] for part in (starts, lengths)]
    width = longest(ragged.row_partition, splits.dtype) if columns is None else constant(columns, splits.dtype)
    offsets = expand_dims(range_(width), 0)
    inside = offsets < expand_dims(lengths, 1)
    # The value behind the last one is the default.
    places = where(inside, *_broadcast(expand_dims(starts, 1) + offsets, splits[-1]))
    filler = broadcast_to(default, concat([[1], shape(values)[1:]], 0))
    made = gather(concat([values, filler], 0), places)
    count = ragged.row_partition.static_rows if rows is None else rows
    made.set_shape(TensorShape([count, columns]).concatenate(values.shape[1:]))
    return made


def _broadcast(places: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    return places, broadcast_to(other, shape(places))


def _in_rows(ragged: RaggedTensor, values: Tensor, length: int) -> Tensor:
    """Return the values in rows of one length."""
    made = reshape(values, concat([[ragged.nrows(dtypes.int32)], [length], shape(values)[1:]], 0))
    made.set_shape(TensorShape([ragged.row_partition.static_rows, length]).concatenate(values.shape[1:]))
    return made


def to_sparse(ragged: RaggedTensor) -> SparseTensor:
    """Return the SparseTensor with each value at its place."""
    values = ragged.flat_values
    if values.shape.ndims is None:
        raise ValueError("the rank of the values must be known to make a SparseTensor of them")
    columns: list[Tensor] = []
    for part in ragged.partitions:
        part = part.with_dtype(int64)
        rows = part.value_rowids()
        offsets = range_(part.row_splits[-1]) - gather(part.row_splits, rows)
        columns = [gather(column, rows) for column in columns or [range_(part.nrows())]] + [offsets]
    sizes = shape(values, out_type=int64)
    indices = stack(columns, 1)
    if values.shape.ndims > 1:
        inner = where(broadcast_to(True, sizes))
        indices = concat([gather(indices, inner[:, 0]), inner[:, 1:]], 1)
    return SparseTensor(indices, reshape(values, [-1]), bounding_shape(ragged, None, int64))


# Of tensors


def from_tensor(
    tensor: TensorLike, lengths: Any, padding: TensorLike | None, ragged_rank: int, dtype: DType
) -> RaggedTensor:
    """Return the rows of a tensor: whole, or their first elements, or without padding at their ends."""
    if not isinstance(ragged_rank, int) or ragged_rank < 1:
        raise ValueError(f"ragged_rank is {safe_repr(ragged_rank)}, and must be 1 or more")
    if lengths is not None and padding is not None:
        raise ValueError("lengths and padding cannot both be given")
    found = convert_to_tensor(tensor)
    found.shape.with_rank_at_least(ragged_rank + 1)
    if isinstance(lengths, (list, tuple)) and lengths and isinstance(lengths[0], (list, tuple)):
        return _of_nested_lengths(found, list(lengths), ragged_rank, dtype)
    if ragged_rank > 1:
        sizes = shape(found)
        rows = reshape(found, concat([[-1], sizes[2:]], 0))
        rows.set_shape(TensorShape([_product(found.shape[:2])]).concatenate(found.shape[2:]))
        each = lengths if lengths is None else integers(lengths, "lengths")
        inner = from_tensor(rows, each, padding, ragged_rank - 1, dtype)
        return _uniform(inner, found, dtype)
    if padding is not None:
        lengths = _lengths_without(found, convert_to_tensor(padding, found.dtype))
    if lengths is None:
        return _uniform(_merged(found), found, dtype)
    return _of_lengths(found, integers(lengths, "lengths"), dtype)


def _product(sizes: TensorShape) -> int | None:
    return None if sizes.num_elements() is None else int(sizes.num_elements() or 0)


def _merged(tensor: Tensor) -> Tensor:
    """Return a tensor with its first two axes made one."""
    made = reshape(tensor, concat([[-1], shape(tensor)[2:]], 0)) if _known_inner(tensor) else _merged_empty(tensor)
    made.set_shape(TensorShape([_product(tensor.shape[:2])]).concatenate(tensor.shape[2:]))
    return made


def _known_inner(tensor: Tensor) -> bool:
    """Whether no inner axis can have size 0, so that the size of the first axis follows from the others."""
    return all(size.value for size in tensor.shape[2:])


def _merged_empty(tensor: Tensor) -> Tensor:
    sizes = shape(tensor)
    return reshape(tensor, concat([[sizes[0] * sizes[1]], sizes[2:]], 0))


def _uniform(values: Any, whole: Tensor, dtype: DType) -> RaggedTensor:
    """Return values in as many rows, of as many values, as a tensor has in its first two axes."""
    sizes, known = shape(whole, out_type=dtype), whole.shape[:2].as_list()
    rows, length = [sizes[axis] if size is None else constant(size, dtype) for axis, size in enumerate(known)]
    if None in known:
        return RaggedTensor(values, RowPartition(range_(rows + 1) * length, length), True)
    splits = constant(np.arange(known[0] + 1) * known[1], dtype)
    return RaggedTensor(values, RowPartition(splits, length), True)


def _of_lengths(tensor: Tensor, lengths: Tensor, dtype: DType) -> RaggedTensor:
    """Return the first elements of each row."""
    tensor.shape[:1].assert_is_compatible_with(lengths.shape)
    width = shape(tensor, out_type=dtype)[1]
    kept = minimum(maximum(cast(lengths, dtype), 0), width)
    values = boolean_mask(tensor, sequence_mask(kept, width))
    return RaggedTensor.from_row_lengths(values, kept, validate=False)


def _of_nested_lengths(tensor: Tensor, lengths: list[Any], ragged_rank: int, dtype: DType) -> RaggedTensor:
    """Return rows of rows, with the lengths of each axis, outermost first."""
    if ragged_rank not in (1, len(lengths)):
        raise ValueError(f"ragged_rank is {ragged_rank}, and lengths has {len(lengths)} lists of lengths")
    tensor.shape.with_rank_at_least(len(lengths) + 1)
    made = _of_lengths(tensor, integers(lengths[0], "lengths"), dtype)
    if len(lengths) == 1:
        return made
    return made.with_values(_of_nested_lengths(made.values, lengths[1:], 1, dtype))


def _lengths_without(tensor: Tensor, padding: Tensor) -> Tensor:
    """Return the number of elements of each row up to the last that is not padding."""
    padding.shape.assert_is_compatible_with(tensor.shape[2:])
    differs = not_equal(tensor, padding)
    if tensor.shape.ndims is None:
        raise ValueError("the rank of the tensor must be known to leave out padding")
    if tensor.shape.ndims > 2:
        differs = reduce_any(differs, axis=list(range(2, tensor.shape.ndims)))
    ends = range_(shape(tensor, out_type=int64)[1]) + 1
    found = cast(differs, int64) * ends
    return reduce_max(concat([found, _zero_column(found)], 1), axis=1)


def _zero_column(matrix: Tensor) -> Tensor:
    return broadcast_to(constant(0, int64), concat([shape(matrix)[:1], [1]], 0))


def from_sparse(sparse: SparseTensor, dtype: DType) -> RaggedTensor:
    """Return the rows of a sparse matrix."""
    found = SparseTensor.from_value(sparse)
    if found.shape.ndims != 2:
        raise ValueError(f"the rank of the SparseTensor must be 2, and is {found.shape.ndims or 'unknown'}")
    rows, columns = found.indices[:, 0], found.indices[:, 1]
    made = RaggedTensor.from_value_rowids(found.values, rows, found.dense_shape[0])
    splits = made.row_splits
    offsets = range_(splits[-1]) - gather(splits, segment_ids(splits))
    message = "the elements of a row must lie at its beginning, without gaps"
    values = with_dependencies([assert_equal(columns, offsets, message=message)], made.values)
    return made.with_values(values).with_row_splits_dtype(dtype)
