"""Operands broadcast together: the rows that all have in the end, and the values of each in these rows.

Axes are matched from the last one, as those of tensors. An operand is repeated along an axis of size 1. An axis of rows
of different lengths is never repeated, and operands with such an axis have rows of the same lengths.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.constants import zeros
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.ranges import range as range_
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import expand_dims
from aioflow.kernels.control.assertions import assert_equal
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import not_equal
from aioflow.library.control import with_dependencies
from aioflow.library.ragged.partitions import RowPartition, segment_ids, splits_of
from aioflow.library.ragged.rows import DIFFER, all_ragged, are_same, with_ragged_rank
from aioflow.library.ragged.tensor import RaggedTensor
from aioflow.tensors.dtypes import DType


@dataclasses.dataclass(slots=True)
class _Operand:
    """An operand at one axis.

    Attributes:
        parts: its divisions into rows from this axis on.
        places: for each row of the result its row in this operand; None if they are the same.
    """

    parts: list[RowPartition]
    places: Tensor | None

    def lengths(self) -> Tensor:
        """Return the lengths of its rows, for each row of the result."""
        lengths = self.parts[0].lengths()
        return lengths if self.places is None else gather(lengths, self.places)

    def may_repeat(self) -> bool:
        """Whether rows may have the length 1, in all of them."""
        part = self.parts[0]
        return part.uniform_row_length is not None and part.static_row_length in (None, 1)


def broadcast(values: Sequence[Any]) -> tuple[list[Tensor], list[RowPartition]]:
    """Return flat values of all operands, to be broadcast as tensors, and the rows around them, outermost first.

    Raises:
        InvalidArgumentError: rows differ in length, in the run at the latest.
        ValueError: the rank of an operand is unknown.
    """
    found, dtype = all_ragged(values)
    ranks = _ranks(found)
    if (same := _same_parts(found)) is not None:
        return [value.flat_values if isinstance(value, RaggedTensor) else value for value in found], same
    whole = max(ranks)
    outer = max([_outer(value, rank, whole) for value, rank in zip(found, ranks, strict=True)])
    inside = [rank < whole - outer for rank in ranks]
    expanded = [
        with_ragged_rank(_expanded(value, whole - rank), outer, dtype)
        for value, rank, flat in zip(found, ranks, inside, strict=True)
        if not flat
    ]
    flats, parts = _aligned(expanded, dtype)
    made = iter(flats)
    return [value if flat else next(made) for value, flat in zip(found, inside, strict=True)], parts


def _same_parts(values: Sequence[Any]) -> list[RowPartition] | None:
    """Return the rows of RaggedTensors of one rank and the same splits, beside scalars; None for other operands."""
    ragged = [value for value in values if isinstance(value, RaggedTensor)]
    first, *others = ragged
    for each in others:
        pairs = zip(first.nested_row_splits, each.nested_row_splits, strict=False)
        if first.ragged_rank != each.ragged_rank or first.shape.ndims != each.shape.ndims:
            return None
        if not all(one is other for one, other in pairs):
            return None
    scalars = all(value.shape.ndims == 0 for value in values if not isinstance(value, RaggedTensor))
    return list(first.partitions) if scalars else None


def _ranks(values: Sequence[Any]) -> list[int]:
    """Return the ranks of all operands.

    Of RaggedTensors of one ragged rank, beside scalars, the ranks of the values need not be known.
    """
    ranks: list[int | None] = [value.shape.ndims for value in values]
    if None in ranks:
        outer = {value.ragged_rank for value in values if isinstance(value, RaggedTensor)}
        if len(outer) > 1 or not all(isinstance(value, RaggedTensor) or value.shape.ndims == 0 for value in values):
            unknown = values[ranks.index(None)]
            raise ValueError(f"the rank of {unknown!r} must be known, to broadcast it with a RaggedTensor")
        ranks = [value.ragged_rank + 1 if isinstance(value, RaggedTensor) else 0 for value in values]
    return [rank for rank in ranks if rank is not None]


def _outer(value: Any, rank: int, whole: int) -> int:
    """The number of divisions that the operand has in a result of rank `whole`."""
    return value.ragged_rank + whole - rank if isinstance(value, RaggedTensor) else 0


def _expanded(value: Any, count: int) -> Any:
    """Return the operand with `count` axes of size 1 before it."""
    for _ in range(count):
        if isinstance(value, RaggedTensor):
            rows = value.nrows()
            value = RaggedTensor(value, RowPartition(stack([zeros([], rows.dtype), rows]), rows), True)
        else:
            value = expand_dims(value, 0)
    return value


def _aligned(values: Sequence[RaggedTensor], dtype: DType) -> tuple[list[Tensor], list[RowPartition]]:
    """Return the flat values of all, and the rows that they have in common."""
    if len(values) == 1:
        return [values[0].flat_values], list(values[0].partitions)
    operands = _with_same_count(values, dtype)
    parts = []
    while operands[0].parts:
        parts.append(_descend(operands, dtype))
    flats = [value.flat_values for value in values]
    pairs = zip(flats, operands, strict=True)
    return [flat if each.places is None else gather(flat, each.places) for flat, each in pairs], parts


def _with_same_count(values: Sequence[RaggedTensor], dtype: DType) -> list[_Operand]:
    """Return the operands at the first axis, where those with one row are repeated."""
    counts = [value.row_partition.static_rows for value in values]
    longest = next((place for place, count in enumerate(counts) if count != 1), 0)
    made = []
    for value, count in zip(values, counts, strict=True):
        repeated = count == 1 and counts[longest] != 1
        if not repeated and None not in (count, counts[longest]) and count != counts[longest]:
            raise ValueError(f"operands with {count} and {counts[longest]} rows cannot be broadcast together")
        places = zeros(expand_dims(values[longest].nrows(dtype), 0), dtype) if repeated else None
        made.append(_Operand(list(value.partitions), places))
    return made


def _descend(operands: Sequence[_Operand], dtype: DType) -> RowPartition:
    """Return the rows of the result along one axis, and take the operands to the next axis."""
    leader = _leader(operands)
    part = leader.parts[0]
    lengths = leader.lengths()
    checks = [check for each in operands if each is not leader for check in _checks(leader, lengths, each)]
    splits = part.row_splits if leader.places is None else splits_of(lengths)
    splits = with_dependencies(checks, splits) if checks else splits
    uniform = part.uniform_row_length if part.static_row_length is not None else None
    rows: Tensor | None = None
    for each in operands:
        if each.places is not None or (each is not leader and _may_stretch(each, part)):
            rows = segment_ids(splits) if rows is None else rows
            each.places = _places(each, splits, rows)
    for each in operands:
        del each.parts[0]
    return RowPartition(splits, uniform)


def _leader(operands: Sequence[_Operand]) -> _Operand:
    """The operand whose rows the result has: one with rows of different lengths, else with a length not known as 1."""
    ragged = [each for each in operands if each.parts[0].uniform_row_length is None]
    longer = [each for each in operands if each.parts[0].static_row_length not in (None, 1)]
    unknown = [each for each in operands if each.parts[0].static_row_length is None]
    return next(iter([each for each in ragged if each.places is None] + ragged + longer + unknown), operands[0])


def _may_stretch(each: _Operand, part: RowPartition) -> bool:
    """Whether rows of length 1 may have to be repeated for these rows."""
    return each.may_repeat() and part.static_row_length != 1


def _checks(leader: _Operand, lengths: Tensor, each: _Operand) -> list[Any]:
    """Assertions that rows have the same lengths, or the length 1."""
    mine, theirs = each.parts[0], leader.parts[0]
    if mine.static_row_length == 1:
        return []
    if each.places is leader.places and are_same(mine.row_splits, theirs.row_splits):
        return []
    if each.places is None and leader.places is None and not each.may_repeat():
        mine.row_splits.shape.assert_is_compatible_with(theirs.row_splits.shape)
        return [assert_equal(mine.row_splits, theirs.row_splits, message=DIFFER)]
    own = each.lengths()
    if mine.uniform_row_length is not None:
        own = where(not_equal(own, 1), own, lengths)
    return [assert_equal(own, lengths, message=DIFFER)]


def _places(each: _Operand, splits: Tensor, rows: Tensor) -> Tensor:
    """Return for each value of the result its place in the operand."""
    part = each.parts[0]
    offsets = range_(splits[-1]) - gather(splits, rows)
    if part.static_row_length == 1:
        offsets = offsets * 0
    elif each.may_repeat():
        assert part.uniform_row_length is not None
        offsets = offsets * cast(not_equal(part.uniform_row_length, 1), offsets.dtype)
    mapped = rows if each.places is None else gather(each.places, rows)
    return gather(part.row_splits, mapped) + offsets
