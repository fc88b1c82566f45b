"""Pieces of strings as the rows of a RaggedTensor."""

from collections.abc import Callable, Sequence
from typing import Any

from aioflow.graph.operation import Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.array.shapes import expand_dims
from aioflow.library.ragged.rows import with_ragged_rank
from aioflow.library.ragged.tensor import RaggedTensor, as_ragged, with_partitions
from aioflow.tensors.dtypes import int64

Split = Callable[[Tensor], Sequence[Tensor]]
"""A vector of strings -> their pieces as the indices, values and shape of a sparse matrix."""


def ragged_pieces(source: Any, split: Split) -> Any:
    """Return the pieces of each string of a tensor or RaggedTensor along a new, ragged axis; a scalar is one row.

    ValueError if the rank is unknown.
    """
    strings = as_ragged(source)
    rank = strings.shape.ndims
    if rank is None:
        raise ValueError("the rank of the strings must be known to split them into a RaggedTensor")
    if rank < 2:
        return _pieces(strings if rank else expand_dims(strings, 0), split)
    nested = with_ragged_rank(strings, rank - 1, int64).with_row_splits_dtype(int64)
    return with_partitions(_pieces(nested.flat_values, split), nested.partitions)


def _pieces(strings: Tensor, split: Split) -> RaggedTensor:
    indices, values, sizes = split(strings)
    made = RaggedTensor.from_value_rowids(values, indices[:, 0], sizes[0], validate=False)
    known = strings.shape[0].value
    if known is not None:
        made.row_splits.set_shape([known + 1])
    return made


OPERATORS["ragged_pieces"] = ragged_pieces
