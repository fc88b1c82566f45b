"""Crosses of features: all ways to take one value from each of several inputs, row by row."""

from collections.abc import Sequence

from aioflow.graph.building import transactional
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.array.ranges import range as range_
from aioflow.kernels.array.shapes import broadcast_to, expand_dims, reshape, shape
from aioflow.kernels.sparse.sparse_crosses import sparse_cross as cross
from aioflow.kernels.text.strings import as_string
from aioflow.library.control import name_scope
from aioflow.tensors.dtypes import int64, string

Feature = TensorLike | SparseTensor


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
    if isinstance(inputs, (str, SparseTensor, Tensor)) or not inputs:
        raise ValueError("a list of inputs is needed to cross")
    with name_scope(name, "sparse_cross"):
        parts = [_parts(value, f"inputs[{place}]") for place, value in enumerate(inputs)]
        rows, values, batches = zip(*parts, strict=True)
        between = "_X_" if separator is None else separator
        return SparseTensor(*cross(list(rows), list(values), batches[0], between))


def _parts(value: Feature, what: str) -> tuple[Tensor, Tensor, Tensor]:
    """The row of each value, the values as texts, and the number of rows."""
    if isinstance(value, SparseTensor):
        return value.indices[:, 0], _texts(value.values, what), value.dense_shape[0]
    dense = convert_to_tensor(value)
    dense.spec.with_rank(2, what)
    sizes = shape(dense, out_type=int64)
    rows = broadcast_to(expand_dims(range_(sizes[0]), 1), sizes)
    return reshape(rows, [-1]), _texts(reshape(dense, [-1]), what), sizes[0]


def _texts(values: Tensor, what: str) -> Tensor:
    if not (values.dtype is string or values.dtype.is_integer):
        raise TypeError(f"{what} must be strings or integers, not {values.dtype.name}")
    return values if values.dtype is string else as_string(values)
