"""Crosses of features: all ways to take one value from each of several inputs, row by row."""

from collections.abc import Sequence

from aioflow.graph.building import transactional
from aioflow.graph.composed import Composed
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.array.ranges import range as range_
from aioflow.kernels.array.shapes import broadcast_to, expand_dims, reshape, shape
from aioflow.kernels.sparse.sparse_crosses import sparse_cross as cross
from aioflow.kernels.sparse.sparse_crosses import sparse_cross_hashed as cross_hashed
from aioflow.kernels.text.strings import as_string
from aioflow.library.control import name_scope
from aioflow.library.ragged.tensor import RaggedTensor
from aioflow.tensors.dtypes import int64, string

Feature = TensorLike | SparseTensor | RaggedTensor


@transactional
def sparse_cross(inputs: Sequence[Feature], name: str | None = None, separator: str | None = None) -> SparseTensor:
    """The values of each row of the inputs crossed: one text for each way to take one value from each input.

    Args:
        inputs: tensors, or sparse tensors, [batch, values] of strings or integers.
        name: the name of the operation.
        separator: the text between values; "_X_" by default.

    Raises:
        InvalidArgumentError: in the run: the inputs have different numbers of rows.

    Examples:
        >>> crosses = af.sparse.cross([[["a", "b"]], [[1, 2]]])
        >>> await session.run(crosses.values)
        array([b'a_X_1', b'a_X_2', b'b_X_1', b'b_X_2'], dtype=object)
    """
    with name_scope(name, "sparse_cross"):
        return SparseTensor(*crossed(inputs, separator))


@transactional
def sparse_cross_hashed(
    inputs: Sequence[Feature], num_buckets: int = 0, hash_key: int | None = None, name: str | None = None
) -> SparseTensor:
    """The values of each row of the inputs crossed: one number for each way to take one value from each input.

    The number is TensorFlow's: a fingerprint of `hash_key` and of the values, the same on every machine.

    Args:
        inputs: tensors, or sparse tensors, [batch, values] of strings or integers.
        num_buckets: the numbers are from 0 to `num_buckets - 1`; below 2^63 - 1 if it is 0.
        hash_key: an integer, on which the numbers depend; TensorFlow's default one if it is None or 0.
        name: the name of the operation.

    Raises:
        InvalidArgumentError: in the run: the inputs have different numbers of rows.

    Examples:
        >>> crosses = af.sparse.cross_hashed([[["a", "b"]], [["c"]]], num_buckets=100)
        >>> await session.run(crosses.values)
        array([66, 54])
    """
    with name_scope(name, "sparse_cross_hashed"):
        return SparseTensor(*crossed_numbers(inputs, num_buckets, hash_key or None))


def crossed(inputs: Sequence[Feature], separator: str | None = None) -> tuple[Tensor, ...]:
    """The crosses of each row as texts: a sparse tensor, as indices, values and shape."""
    rows, values, batch = _columns(inputs)
    texts = [_texts(value) for value in values]
    return cross(rows, texts, batch, "_X_" if separator is None else separator)


def crossed_numbers(inputs: Sequence[Feature], num_buckets: int, hash_key: int | None) -> tuple[Tensor, ...]:
    """The crosses of each row as numbers: a sparse tensor, as indices, values and shape."""
    rows, values, batch = _columns(inputs)
    return cross_hashed(rows, values, batch, num_buckets, hash_key)


def _columns(inputs: Sequence[Feature]) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """The row of each value of each input, the values, and the number of rows."""
    if isinstance(inputs, (str, Composed, Tensor)) or not inputs:
        raise ValueError("a list of inputs is needed to cross")
    parts = [_parts(value, f"inputs[{place}]") for place, value in enumerate(inputs)]
    rows, values, batches = zip(*parts, strict=True)
    for place, value in enumerate(values):
        if not (value.dtype is string or value.dtype.is_integer):
            raise TypeError(f"inputs[{place}] must be strings or integers, not {value.dtype.name}")
    return list(rows), list(values), batches[0]


def _parts(value: Feature, what: str) -> tuple[Tensor, Tensor, Tensor]:
    """The row of each value, the values, and the number of rows."""
    if isinstance(value, SparseTensor):
        return value.indices[:, 0], value.values, value.dense_shape[0]
    if isinstance(value, RaggedTensor):
        if value.ragged_rank != 1 or value.values.shape.ndims != 1:
            raise ValueError(f"{what} must have rank 2, not shape {value.shape}")
        wide = value.with_row_splits_dtype(int64)
        return wide.value_rowids(), wide.values, wide.nrows()
    dense = convert_to_tensor(value)
    dense.spec.with_rank(2, what)
    sizes = shape(dense, out_type=int64)
    rows = broadcast_to(expand_dims(range_(sizes[0]), 1), sizes)
    return reshape(rows, [-1]), reshape(dense, [-1]), sizes[0]


def _texts(values: Tensor) -> Tensor:
    return values if values.dtype is string else as_string(values)
