"""Batches of arrays of different sizes, as SparseTensorValues."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.data.batch import Batch, check_same_dtype
from aioflow.data.stage import Stage
from aioflow.graph.sparse_tensor import SparseTensorValue
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import ShapeLike, Spec, as_shape, int64
from aioflow.tensors.object_arrays import concatenate_arrays


class SparseBatch(Batch):
    """Arrays of different sizes as the rows of one SparseTensorValue, which has all of their elements.

    Args:
        source: the stage before.
        size: the number of elements of a batch.
        row_shape: the shape of a row; an unknown size is the largest of the batch.
    """

    name = "sparse_batch"

    def __init__(self, source: Stage, size: int, row_shape: ShapeLike) -> None:
        self._row_shape: Final = as_shape(row_shape).as_list()
        super().__init__(source, size, drop_remainder=False)

    def batched(self, number: int, spec: Spec, rows: int | None) -> Any:
        """Return the dtypes and shapes of the three parts of a batch."""
        rank = len(self._row_shape) + 1
        parts = Spec(int64, as_shape([None, rank])), Spec(spec.dtype, as_shape([None])), Spec(int64, as_shape([rank]))
        return SparseTensorValue(*parts)

    def stack(self, number: int, column: Sequence[Any]) -> Any:
        """Return the batch of a component. InvalidArgumentError if an array is no part of a row."""
        check_same_dtype(number, column)
        rows = [np.asarray(leaf, object if isinstance(leaf, bytes) else None) for leaf in column]
        for row in rows:
            self._check(row.shape)
        largest = zip(*[row.shape for row in rows], strict=True)
        sizes = [max(found) if size is None else size for size, found in zip(self._row_shape, largest, strict=True)]
        places = [np.insert(np.argwhere(np.ones(row.shape, bool)), 0, place, axis=1) for place, row in enumerate(rows)]
        dense_shape = np.array([len(rows), *sizes], np.int64)
        return SparseTensorValue(np.concatenate(places).astype(np.int64), _flat(rows), dense_shape)

    def _check(self, shape: tuple[int, ...]) -> None:
        wanted = self._row_shape
        if len(shape) != len(wanted):
            raise errors.InvalidArgumentError(f"an element of rank {len(shape)} is no row of rank {len(wanted)}")
        if any(most is not None and size > most for size, most in zip(shape, wanted, strict=True)):
            raise errors.InvalidArgumentError(f"an element of shape {list(shape)} is larger than a row, {wanted}")

    def details(self) -> str:
        """The number of elements of a batch, and the shape of a row."""
        return f"{self.size}, {self._row_shape}"


def _flat(rows: Sequence[AnyArray]) -> AnyArray:
    """Return the elements of all rows."""
    values = [row.reshape(-1) for row in rows]
    return concatenate_arrays(values) if rows[0].dtype.kind == "O" else np.concatenate(values)
