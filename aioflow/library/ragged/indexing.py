"""The content of the brackets of `ragged[...]`: rows, and parts of rows, as of nested lists."""

from typing import Any

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.ranges import range as range_
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import expand_dims
from aioflow.kernels.math.arithmetic import maximum, minimum
from aioflow.kernels.math.casting import cast
from aioflow.library.ragged.partitions import RowPartition, flat_places
from aioflow.library.ragged.rows import take_rows
from aioflow.library.ragged.tensor import RaggedTensor
from aioflow.tensors.dtypes import DType
from aioflow.tensors.recursion import safe_repr

_ALL = slice(None)


@transactional
def getitem(ragged: RaggedTensor, key: Any) -> Any:
    """Return what `ragged[key]` is.

    Raises:
        ValueError: an integer is behind the axis of rows of different lengths; there are too many keys.
        TypeError: a key is neither an integer, a slice, `...` nor None.
    """
    keys = list(key) if isinstance(key, tuple) else [key]
    return _item(ragged, _without_ellipsis(ragged, keys))


def _without_ellipsis(ragged: RaggedTensor, keys: list[Any]) -> list[Any]:
    """Return the keys with whole axes in place of `...`."""
    places = [place for place, key in enumerate(keys) if key is Ellipsis]
    if len(places) > 1:
        raise ValueError(f"one ... is possible, and the key has {len(places)}")
    rank, axes = ragged.shape.ndims, len([key for key in keys if key is not None and key is not Ellipsis])
    if rank is not None and axes > rank:
        raise ValueError(f"the key has {axes} axes, and the RaggedTensor has rank {rank}")
    if not places:
        return keys
    if rank is None:
        raise ValueError("the rank of the values must be known for ...")
    begin, end = keys[: places[0]], keys[places[0] + 1 :]
    return [*begin, *[_ALL] * (rank - axes), *end]


def _item(value: Any, keys: list[Any]) -> Any:
    """Return the part of a tensor or RaggedTensor; the first key is that of the first axis."""
    if not keys:
        return value
    if not isinstance(value, RaggedTensor):
        return value[tuple(keys)]
    first, *others = keys
    if first is None:
        return expand_dims(_item(value, others), 0)
    if isinstance(first, slice):
        return _inner(_row_slice(value, first), others)
    if _is_mask(first):
        raise TypeError("a RaggedTensor has integers and slices in its brackets; use af.ragged.boolean_mask")
    return _item(_row(value, first), others)


def _is_mask(key: Any) -> bool:
    if isinstance(key, (bool, np.bool_, list, RaggedTensor, str)):
        return True
    return isinstance(key, (Tensor, np.ndarray)) and key.shape not in ((), [])


def _row(value: RaggedTensor, place: Any) -> Any:
    """Return one row. ValueError or InvalidArgumentError if there is none."""
    rows = value.shape[0].value
    if isinstance(place, int) and rows is not None and not -rows <= place < rows:
        raise ValueError(f"row {place} is none of {rows} rows")
    begin, end = value.row_splits[:-1][place], value.row_splits[1:][place]
    return _slice_of(value.values, begin, end)


def _slice_of(values: Any, begin: Tensor, end: Tensor) -> Any:
    """Return the values from `begin` on, and before `end`."""
    if not isinstance(values, RaggedTensor):
        return values[begin:end]
    splits = values.row_splits[begin : end + 1]
    inner = _slice_of(values.values, splits[0], splits[-1])
    part = values.row_partition
    uniform = None if part.static_row_length is None else part.uniform_row_length
    return RaggedTensor(inner, RowPartition(splits - splits[0], uniform), True)


def _row_slice(value: RaggedTensor, part: slice) -> RaggedTensor:
    """Return the rows of a slice."""
    if part == _ALL:
        return value
    rows = value.shape[0].value
    if rows is not None and all(item is None or isinstance(item, int) for item in (part.start, part.stop, part.step)):
        begin, end, step = part.indices(rows)
        if step == 1:
            return _rows_between(value, begin, max(begin, end))
    return take_rows(value, range_(value.nrows())[part])  # type: ignore[no-any-return]


def _rows_between(value: RaggedTensor, begin: int, end: int) -> RaggedTensor:
    splits = value.row_splits[begin : end + 1]
    inner = _slice_of(value.values, splits[0], splits[-1])
    part = value.row_partition
    uniform = None if part.static_row_length is None else part.uniform_row_length
    return RaggedTensor(inner, RowPartition(splits - splits[0], uniform), True)


def _inner(value: RaggedTensor, keys: list[Any]) -> Any:
    """Return parts of each row."""
    if not keys:
        return value
    first, *others = keys
    if first is None:
        return expand_dims(_inner(value, others), 1)
    if first == _ALL if isinstance(first, slice) else False:
        return value if not others else value.with_values(_of_values(value.values, others))
    if isinstance(first, slice):
        return _inner(_column_slice(value, first), [_ALL, *others])
    if _is_mask(first):
        raise TypeError("a RaggedTensor has integers and slices in its brackets; use af.ragged.boolean_mask")
    if value.uniform_row_length is None:
        raise ValueError(
            "an integer cannot take a column of rows of different lengths: use a slice, or convert by to_tensor()"
        )
    return _column(value, first, others)


def _of_values(values: Any, keys: list[Any]) -> Any:
    """Return the values with keys of the axes after the first applied."""
    return _inner(values, keys) if isinstance(values, RaggedTensor) else values[(_ALL, *keys)]


def _column(value: RaggedTensor, place: Any, keys: list[Any]) -> Any:
    """Return one value of each row, where all rows have one length."""
    size = value.shape[1].value
    if isinstance(place, int) and size is not None and not -size <= place < size:
        raise ValueError(f"column {place} is none of {size} columns")
    offset = cast(place, value.row_splits.dtype)
    starts = value.row_splits[1:] if isinstance(place, int) and place < 0 else value.row_splits[:-1]
    made = take_rows(value.values, starts + offset)
    return _of_values(made, keys) if keys else made


def _column_slice(value: RaggedTensor, part: slice) -> RaggedTensor:
    """Return the part of each row that a slice has of a list."""
    lengths, dtype = value.row_partition.lengths(), value.row_splits.dtype
    step = 1 if part.step is None else part.step
    if not isinstance(step, int):
        raise TypeError(f"the step of a slice of rows must be a Python integer, not {safe_repr(step)}")
    if step == 0:
        raise ValueError("the step of a slice must not be 0")
    low, high = (0, lengths) if step > 0 else (-1, lengths - 1)
    begin = _bound(part.start, lengths, low, high, low if step > 0 else high, dtype)
    end = _bound(part.stop, lengths, low, high, high if step > 0 else low, dtype)
    distance = end - begin if step > 0 else begin - end
    counts = maximum((distance + (abs(step) - 1)) // abs(step), 0)
    steps = None if step == 1 else counts * 0 + step
    places, splits = flat_places(value.row_splits[:-1] + begin, counts, steps)
    return RaggedTensor(take_rows(value.values, places), RowPartition(splits), True)


def _bound(place: Any, lengths: Tensor, low: Any, high: Any, default: Any, dtype: DType) -> Tensor:
    """Return one end of a slice in each row, as `slice.indices` gives it."""
    if place is None:
        whole: Tensor = lengths * 0 + default
        return whole
    given = lengths * 0 + cast(place, dtype)
    found: Tensor = where(given < 0, given + lengths, given)
    bounded: Tensor = minimum(maximum(found, low), high)
    return bounded
