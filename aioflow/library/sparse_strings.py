"""Sparse tensors as strings, in TensorFlow's forms."""

from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.convert import TensorLike
from aioflow.graph.operation import Tensor
from aioflow.graph.sparse_tensor import SparseTensor, SparseTensorValue
from aioflow.kernels.sparse import sparse_strings as kernels
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import as_dtype


@transactional
def serialize_sparse(
    sp_input: SparseTensor | SparseTensorValue, name: str | None = None, out_type: Any = dtypes.string
) -> Tensor:
    """Return a sparse tensor as a vector of three strings, for `deserialize_many_sparse`."""
    return kernels.pack_sparse(*_parts(sp_input, out_type), name=name)


@transactional
def serialize_many_sparse(
    sp_input: SparseTensor | SparseTensorValue, name: str | None = None, out_type: Any = dtypes.string
) -> Tensor:
    """Return each row of a batch in a sparse tensor as three strings: [rows, 3].

    InvalidArgumentError in the run if its positions are not ordered by row.
    """
    return kernels.pack_sparse_rows(*_parts(sp_input, out_type), name=name)


def _parts(given: SparseTensor | SparseTensorValue, out_type: Any) -> tuple[Tensor, Tensor, Tensor]:
    if as_dtype(out_type) is not dtypes.string:
        raise ValueError(f"out_type must be string, not {as_dtype(out_type).name}")
    sparse = SparseTensor.from_value(given)
    return sparse.indices, sparse.values, sparse.dense_shape


@transactional
def deserialize_many_sparse(
    serialized_sparse: TensorLike, dtype: Any, rank: int | None = None, name: str | None = None
) -> SparseTensor:
    """Return the batch whose rows are the given sparse tensors, three strings each; sizes are the largest of theirs.

    Args:
        serialized_sparse: [rows, 3].
        dtype: the dtype of the values.
        rank: the rank of each row, so that it is known before the run.
        name: the name of the operation.

    Raises:
        InvalidArgumentError: in the run: a row is not a sparse tensor, or has values of another dtype, or another rank.
    """
    indices, values, shape = kernels.unpack_sparse(serialized_sparse, as_dtype(dtype), rank, name=name)
    return SparseTensor(indices, values, shape)
