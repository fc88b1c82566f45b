"""How the rows of a RaggedTensor divide its values: splits, lengths, and the row of each value.

Row i has the values from `row_splits[i]` on, and before `row_splits[i + 1]`.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioflow import errors
from aioflow.graph.building import transactional
from aioflow.graph.convert import TensorLike, constant_value, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.ranges import range as range_
from aioflow.kernels.array.sequence import searchsorted
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.control.assertions import assert_equal, assert_less, assert_non_negative
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.cumulative import cumsum
from aioflow.kernels.math.reduction import reduce_max
from aioflow.library.control import name_scope, with_dependencies
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DType, DTypeLike, as_dtype, int32, int64


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class RowPartition:
    """The division of values into rows.

    Attributes:
        row_splits: the place of the first value of each row, and the number of values: a vector [rows + 1].
        uniform_row_length: the length that all rows have, as a scalar; None if they may differ.
        rowids: the row of each value, if it was given.
    """

    row_splits: Tensor
    uniform_row_length: Tensor | None = None
    rowids: Tensor | None = None

    @property
    def static_rows(self) -> int | None:
        """The number of rows, if the graph knows it."""
        splits: int | None = self.row_splits.shape[0].value
        return None if splits is None else splits - 1

    @property
    def static_row_length(self) -> int | None:
        """The length that all rows have, if the graph knows it."""
        known = None if self.uniform_row_length is None else constant_value(self.uniform_row_length)
        return None if known is None else int(known)

    def nrows(self, dtype: DType | None = None) -> Tensor:
        """Return the number of rows, a scalar."""
        wanted, known = dtype or self.row_splits.dtype, self.static_rows
        return shape(self.row_splits, out_type=wanted)[0] - 1 if known is None else constant(known, wanted)

    def lengths(self) -> Tensor:
        """Return the number of values of each row."""
        return self.row_splits[1:] - self.row_splits[:-1]

    def value_rowids(self) -> Tensor:
        """Return the row of each value."""
        return segment_ids(self.row_splits) if self.rowids is None else self.rowids

    def with_dtype(self, dtype: DType) -> "RowPartition":
        """Return the partition with splits of that dtype."""
        parts = self.row_splits, self.uniform_row_length, self.rowids
        return RowPartition(*[None if part is None else cast(part, dtype) for part in parts])  # type: ignore[arg-type]


def splits_dtype(dtype: DTypeLike) -> DType:
    """Return the dtype of row splits. ValueError unless it is int32 or int64."""
    found = as_dtype(dtype)
    if found not in (int32, int64):
        raise ValueError(f"row_splits are int32 or int64, not {found.name}")
    return found


def integers(value: TensorLike, what: str, rank: int = 1, like: DType | None = None) -> Tensor:
    """Return `value` as int32 or int64, a Python literal or a scalar as `like`. TypeError or ValueError for others."""
    tensor = convert_to_tensor(value, preferred_dtype=like or int64)
    if tensor.dtype not in (int32, int64) and tensor.shape.num_elements() == 0:
        tensor = cast(tensor, int64)  # an empty list
    if not tensor.dtype.is_integer:
        raise TypeError(f"{what} must be integers, not {tensor.dtype.name}")
    tensor = tensor if tensor.dtype in (int32, int64) else cast(tensor, int64)
    if not tensor.shape.is_compatible_with([None] * rank):
        raise ValueError(f"{what} must be a {'vector' if rank else 'scalar'}, not of shape {tensor.shape}")
    tensor.set_shape([None] * rank)
    return tensor if like is None or rank else cast(tensor, like)


def splits_of(lengths: Tensor) -> Tensor:
    """Return the splits of rows of these lengths."""
    return concat([constant([0], lengths.dtype), cumsum(lengths)], 0)


def segment_ids(splits: Tensor) -> Tensor:
    """Return the row of each value, of the dtype of the splits."""
    values = range_(splits[-1], dtype=splits.dtype)
    return searchsorted(splits, values, side="right", out_type=splits.dtype) - 1


def splits_of_ids(ids: Tensor, count: Tensor) -> Tensor:
    """Return the splits of `count` rows, given the rising row of each value."""
    return searchsorted(ids, range_(count + 1, dtype=ids.dtype), side="left", out_type=ids.dtype)


def flat_places(starts: Tensor, lengths: Tensor, steps: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the numbers from each start on, as many as `lengths` says, in one vector; and the splits of its rows.

    Numbers of a row differ by 1, or by its number in `steps`.
    """
    splits = splits_of(lengths)
    rows = segment_ids(splits)
    offsets = range_(splits[-1], dtype=splits.dtype) - gather(splits, rows)
    offsets = cast(offsets, starts.dtype)
    return gather(starts, rows) + (offsets if steps is None else offsets * gather(steps, rows)), splits


@transactional
def row_splits_to_segment_ids(splits: TensorLike, name: str | None = None, out_type: DTypeLike | None = None) -> Tensor:
    """Return the number of the row of each value: i as often as row i is long, a vector [splits[-1]].

    Args:
        splits: the splits of rows, a vector; the first is 0.
        name: the name of the operation.
        out_type: int32 or int64; by default the dtype of the splits.

    Raises:
        ValueError: the splits are no vector.

    Examples:
        >>> await session.run(af.ragged.row_splits_to_segment_ids([0, 2, 2, 3]))
        array([0, 0, 2])
    """
    with name_scope(name, "RaggedSplitsToSegmentIds"):
        found = integers(splits, "splits")
        if found.shape[0].value == 0:
            raise ValueError("splits has no element: there is one more than rows")
        made = segment_ids(found)
        return made if out_type is None else cast(made, splits_dtype(out_type))


@transactional
def segment_ids_to_row_splits(
    segment_ids: TensorLike,
    num_segments: TensorLike | None = None,
    out_type: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the splits of rows, given the row of each value: a vector [num_segments + 1].

    Args:
        segment_ids: the row of each value, rising, a vector.
        num_segments: the number of rows; by default one more than the last of `segment_ids`.
        out_type: int32 or int64; by default the dtype of `segment_ids`.
        name: the name of the operation.

    Examples:
        >>> await session.run(af.ragged.segment_ids_to_row_splits([0, 0, 2], num_segments=4))
        array([0, 2, 2, 3, 3])
    """
    with name_scope(name, "SegmentIdsToRaggedSplits"):
        ids = integers(segment_ids, "segment_ids")
        made = splits_of_ids(ids, row_count(ids, num_segments))
        return made if out_type is None else cast(made, splits_dtype(out_type))


def row_count(ids: Tensor, count: TensorLike | None) -> Tensor:
    """Return the number of rows: `count`, or one more than the highest row."""
    if count is not None:
        return integers(count, "the number of rows", rank=0, like=ids.dtype)
    return reduce_max(concat([constant([-1], ids.dtype), ids], 0)) + 1


# Checks

Check = tuple[Callable[..., Any], tuple[Any, ...], str]
"""An assertion, its arguments, and what it says."""


def rising(vector: Tensor, what: str) -> Check:
    """An assertion that the numbers of a vector do not fall."""
    return assert_non_negative, (vector[1:] - vector[:-1],), f"{what} must not fall"


def checked(part: Tensor, checks: Sequence[Check]) -> Tensor:
    """Return a part of a partition, after assertions. InvalidArgumentError at once where the graph knows the values."""
    operations = [check(*values, message=message) for check, values, message in checks]
    return with_dependencies(operations, part)  # type: ignore[no-any-return]


def checked_splits(splits: Tensor, count: Tensor) -> Tensor:
    """Return the splits of that number of values, after assertions that they divide them."""
    known, values = constant_value(splits), constant_value(count)
    if known is not None and values is not None:
        _check_known(known, int(values))
        return splits
    return checked(
        splits,
        [
            (assert_equal, (splits[0], constant(0, splits.dtype)), "row_splits must begin with 0"),
            rising(splits, "row_splits"),
            (assert_equal, (splits[-1], count), "row_splits must end with the number of values"),
        ],
    )


def _check_known(splits: Any, count: int) -> None:
    if splits[0] != 0 or splits[-1] != count or (np.diff(splits) < 0).any():
        shown = splits.tolist() if splits.size < 20 else f"{splits[:20].tolist()}..."
        raise errors.InvalidArgumentError(
            f"row_splits must begin with 0, not fall, and end with the number of values, {count}; they are {shown}"
        )


def checked_rowids(ids: Tensor, count: Tensor, rows: Tensor) -> Tensor:
    """Return the rows of that number of values, after assertions that they are rows and do not fall."""
    return checked(
        ids,
        [
            (assert_equal, (shape(ids, out_type=ids.dtype)[0], count), "value_rowids must have one row for each value"),
            (assert_non_negative, (ids[:1],), "value_rowids must not be negative"),
            rising(ids, "value_rowids"),
            (assert_less, (ids[-1:], rows), "value_rowids must be below nrows"),
        ],
    )


def same_splits_dtype(*found: DType) -> DType:
    """Return the one dtype of row splits. ValueError if there are two."""
    if len({*found}) > 1:
        raise ValueError(
            "row_splits are int32 in one RaggedTensor and int64 in another: convert one by "
            "RaggedTensor.with_row_splits_dtype"
        )
    return found[0] if found else dtypes.int64
