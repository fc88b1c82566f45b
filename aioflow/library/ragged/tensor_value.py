"""The value of a RaggedTensor, outside of a graph."""

import itertools
from typing import Any, NamedTuple

import numpy as np

from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import DType, as_dtype


class RaggedTensorValue(NamedTuple):
    """The fetched value of a `RaggedTensor`, which may also be fed for one: values, and the splits of its rows.

    Attributes:
        values: an array, or the RaggedTensorValue of the rows of rows.
        row_splits: the place of the first value of each row, and the number of values: a vector [rows + 1].

    Examples:
        >>> await session.run(af.ragged.constant([[1, 2], []]))
        RaggedTensorValue(values=array([1, 2], dtype=int32), row_splits=array([0, 2, 2]))
    """

    values: Any
    row_splits: Any

    @property
    def flat_values(self) -> AnyArray:
        """The innermost values."""
        inner = self.values
        return inner.flat_values if isinstance(inner, RaggedTensorValue) else np.asarray(inner)

    @property
    def nested_row_splits(self) -> tuple[AnyArray, ...]:
        """The splits of all ragged axes, outermost first."""
        return self.row_splits, *(self.values.nested_row_splits if isinstance(self.values, RaggedTensorValue) else ())

    @property
    def ragged_rank(self) -> int:
        """The number of axes whose rows have splits."""
        return len(self.nested_row_splits)

    @property
    def dtype(self) -> DType:
        """The dtype of the innermost values."""
        return as_dtype(self.flat_values.dtype)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The number of rows, None for each ragged axis, and the sizes of the innermost values."""
        return len(self.row_splits) - 1, *[None] * self.ragged_rank, *self.flat_values.shape[1:]

    @property
    def type_spec(self) -> Any:
        """The `RaggedTensorSpec` that describes it."""
        from aioflow.library.ragged.spec import RaggedTensorSpec

        return RaggedTensorSpec.from_value(self)

    def to_list(self) -> list[Any]:
        """Return the rows as nested lists.

        Examples:
            >>> (await session.run(af.ragged.constant([[1, 2], [], [3]]))).to_list()
            [[1, 2], [], [3]]
        """
        inner = (
            self.values.to_list() if isinstance(self.values, RaggedTensorValue) else np.asarray(self.values).tolist()
        )
        splits = np.asarray(self.row_splits).tolist()
        return [inner[begin:end] for begin, end in itertools.pairwise(splits)]
