"""Batches of arrays of different sizes, as RaggedTensorValues."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.data.batch import Batch, check_same_dtype
from aioflow.data.elements import leaves_of, spec_of_batch
from aioflow.data.stage import Stage
from aioflow.library.ragged.tensor_value import RaggedTensorValue
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import DType, Spec, as_shape
from aioflow.tensors.object_arrays import concatenate_arrays


class RaggedBatch(Batch):
    """Arrays of different sizes as the rows of a RaggedTensorValue; arrays of one known shape as a batch of `batch`.

    Axes are ragged up to the last one of unknown size; all are, where nothing is known of the elements.

    Args:
        source: the stage before.
        size: the number of elements of a batch.
        drop_remainder: whether a last batch of fewer elements is left out.
        splits: the dtype of the splits.
    """

    name = "ragged_batch"

    def __init__(self, source: Stage, size: int, drop_remainder: bool, splits: DType) -> None:
        self._splits: Final = splits
        self._specs: Final = leaves_of(source.spec)
        super().__init__(source, size, drop_remainder)

    def batched(self, number: int, spec: Spec, rows: int | None) -> Any:
        """Return the dtype and shape of a batch, or those of the parts of a RaggedTensorValue."""
        rank = _ragged_rank(spec)
        if not rank:
            return spec_of_batch(spec, rows)
        made: Any = Spec(spec.dtype, as_shape([None]).concatenate(spec.shape[rank:]))
        for axis in reversed(range(rank)):
            made = RaggedTensorValue(made, Spec(self._splits, as_shape([rows + 1 if rows and not axis else None])))
        return made

    def stack(self, number: int, column: Sequence[Any]) -> Any:
        """Return the batch of a component. InvalidArgumentError if dtypes, ranks or known sizes differ."""
        check_same_dtype(number, column)
        known = self._specs[number] if len(self._specs) > number else None
        rows = [np.asarray(leaf, object if isinstance(leaf, bytes) else None) for leaf in column]
        if len({row.ndim for row in rows}) > 1:
            raise errors.InvalidArgumentError(f"component {number} has elements of different ranks")
        rank = rows[0].ndim if known is None else _ragged_rank(known)
        return self._nested(number, rows, rank) if rank else super().stack(number, column)

    def _nested(self, number: int, rows: Sequence[AnyArray], rank: int) -> RaggedTensorValue:
        """Return arrays as rows of a ragged value of that ragged rank."""
        splits = np.cumsum([0, *[len(row) for row in rows]]).astype(self._splits.np)
        if rank > 1:
            return RaggedTensorValue(self._nested(number, [each for row in rows for each in row], rank - 1), splits)
        inner = {row.shape[1:] for row in rows}
        if len(inner) > 1:
            one, other = sorted(map(list, inner))[:2]
            raise errors.InvalidArgumentError(
                f"component {number} has rows of elements of shapes {one} and {other}, of which no size was unknown"
            )
        return RaggedTensorValue(_joined(rows), splits)


def _ragged_rank(spec: Spec) -> int:
    """The number of axes of an element up to the last one of unknown size."""
    sizes = spec.sizes
    if sizes is None:
        raise ValueError("the rank of the elements must be known for a ragged batch: give it by with_element_spec")
    return max([axis for axis, size in enumerate(sizes, 1) if size is None], default=0)


def _joined(rows: Sequence[AnyArray]) -> AnyArray:
    if not rows:
        return np.empty(0)
    if rows[0].dtype.kind == "O" and rows[0].ndim == 1:
        return concatenate_arrays(rows)
    return np.concatenate(rows)
