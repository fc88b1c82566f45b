"""RaggedTensors that a graph knows or is fed: of nested lists, and placeholders."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant as dense_constant
from aioflow.kernels.array.constants import placeholder as dense_placeholder
from aioflow.library.control import name_scope
from aioflow.library.ragged.partitions import RowPartition, splits_dtype
from aioflow.library.ragged.tensor import with_partitions
from aioflow.library.ragged.tensor_value import RaggedTensorValue
from aioflow.tensors import dtypes
from aioflow.tensors.as_array import AnyArray, as_array
from aioflow.tensors.dtypes import DType, DTypeLike, ShapeLike, as_dtype, as_shape, int64
from aioflow.tensors.recursion import check_depth


@transactional
def constant(
    pylist: Any,
    dtype: DTypeLike | None = None,
    ragged_rank: int | None = None,
    inner_shape: Sequence[int] | None = None,
    name: str | None = None,
    row_splits_dtype: DTypeLike = int64,
) -> Any:
    """Return the RaggedTensor of nested lists; a tensor if no axis is ragged.

    Args:
        pylist: nested lists, tuples or arrays of numbers or text, all equally deep.
        dtype: the dtype of the values; float32 by default if there are none.
        ragged_rank: the number of ragged axes; by default all but the first, and those of `inner_shape`.
        inner_shape: the sizes of the innermost axes, which are not ragged.
        name: the name scope.
        row_splits_dtype: int32 or int64.

    Raises:
        ValueError: the lists are not equally deep, or do not fit `ragged_rank` or `inner_shape`.

    Examples:
        >>> (await session.run(af.ragged.constant([["a"], [], ["b", "c"]]))).to_list()
        [[b'a'], [], [b'b', b'c']]
    """
    values, splits = _parts(pylist, dtype, ragged_rank, inner_shape, splits_dtype(row_splits_dtype))
    with name_scope(name, "RaggedConstant"):
        partitions = [RowPartition(dense_constant(each)) for each in splits]
        return with_partitions(dense_constant(values, name="values"), partitions)


def constant_value(
    pylist: Any,
    dtype: DTypeLike | None = None,
    ragged_rank: int | None = None,
    inner_shape: Sequence[int] | None = None,
    row_splits_dtype: DTypeLike = "int64",
) -> Any:
    """Return the RaggedTensorValue of nested lists, such as one to feed; an array if no axis is ragged.

    The arguments are those of `af.ragged.constant`.

    Examples:
        >>> af.ragged.constant_value([[1], [2, 3]]).row_splits
        array([0, 1, 3])
    """
    made, splits = _parts(pylist, dtype, ragged_rank, inner_shape, splits_dtype(row_splits_dtype))
    for each in reversed(splits):
        made = RaggedTensorValue(made, each)
    return made


@transactional
def placeholder(dtype: DTypeLike, ragged_rank: int, value_shape: ShapeLike = None, name: str | None = None) -> Any:
    """Return a RaggedTensor to be fed a `RaggedTensorValue` in every run that needs it; a tensor for rank 0.

    Args:
        dtype: the dtype of the values.
        ragged_rank: the number of ragged axes.
        value_shape: the shape of an innermost value, `[]` for scalars; None if it is unknown.
        name: the name scope.

    Examples:
        >>> words = af.ragged.placeholder(af.string, 1, [])
        >>> await session.run(words.row_lengths(), {words: af.ragged.constant_value([["a", "b"], []])})
        array([2, 0])
    """
    if ragged_rank < 0:
        raise ValueError(f"ragged_rank is {ragged_rank}, and must not be negative")
    inner = as_shape(value_shape)
    with name_scope(name, "RaggedPlaceholder"):
        sizes = as_shape([None]).concatenate(inner) if ragged_rank else inner
        values: Tensor = dense_placeholder(as_dtype(dtype), sizes, name="values")
        names = [f"row_splits_{axis}" for axis in reversed(range(ragged_rank))]
        partitions = [RowPartition(dense_placeholder(int64, [None], name=each)) for each in names]
        return with_partitions(values, partitions)


# Nested lists


def _parts(
    pylist: Any, dtype: DTypeLike | None, ragged_rank: int | None, inner_shape: Sequence[int] | None, splits: DType
) -> tuple[Any, list[AnyArray]]:
    """Return the flat values as an array, and the splits of each ragged axis, outermost first."""
    wanted = None if dtype is None else as_dtype(dtype)
    inner = None if inner_shape is None else _sizes(inner_shape)
    check_depth(pylist)
    depth, empties = _depth(pylist)
    rank = _rank(depth, empties, ragged_rank, inner)
    rows, found = pylist, []
    for _ in range(rank):
        lengths = [len(row) for row in rows]
        found.append(np.concatenate([[0], np.cumsum(lengths)]).astype(splits.np))
        rows = [item for row in rows for item in row]
    return _values(rows, wanted, inner, (depth or empties) - rank), found


def _sizes(inner_shape: Sequence[int] | int) -> tuple[int, ...]:
    return tuple(inner_shape) if isinstance(inner_shape, (list, tuple)) else (inner_shape,)  # type: ignore[return-value]


def _rank(depth: int | None, empties: int, ragged_rank: int | None, inner: tuple[int, ...] | None) -> int:
    """Return the number of ragged axes."""
    whole = empties if depth is None else depth
    if depth is not None and depth < empties:
        raise ValueError(f"pylist has scalars at depth {depth}, and an empty list at depth {empties}")
    if not whole:
        if ragged_rank or inner:
            raise ValueError("pylist is a scalar, so ragged_rank must be 0 and inner_shape empty")
        return 0
    if ragged_rank is None:
        return max(0, whole - 1 - len(inner or ()))
    most = whole - 1 - len(inner or ()) if depth is not None else ragged_rank
    if not 0 <= ragged_rank <= max(most, 0):
        raise ValueError(f"ragged_rank is {ragged_rank}, and must be from 0 to {max(most, 0)} for lists {whole} deep")
    return ragged_rank


def _depth(value: Any) -> tuple[int | None, int]:
    """Return the depth of scalars, None without, and the depth that lists have at least. ValueError if it differs."""
    if not _is_list(value):
        return 0, 0
    found = [_depth(item) for item in value]
    depths = {depth for depth, _ in found if depth is not None}
    if len(depths) > 1:
        raise ValueError("all scalar values in pylist must have the same nesting depth")
    least = max([least for _, least in found], default=0) + 1
    return (depths.pop() + 1 if depths else None), least


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _values(rows: Any, dtype: DType | None, inner: tuple[int, ...] | None, depth: int) -> AnyArray:
    """Return the values as one array, of the inner shape if it is given."""
    if not any(True for _ in _scalars(rows)):
        sizes = inner if inner is not None else (0,) * max(depth - 1, 0)
        return np.empty((len(rows), *sizes), (dtype or dtypes.float32).np)
    made = np.asarray(as_array(rows, dtype))
    if inner is not None and made.shape[1:] != inner:
        raise ValueError(f"inner_shape is {list(inner)}, and the values of pylist have shape {list(made.shape[1:])}")
    return made


def _scalars(value: Any) -> Iterator[Any]:
    if not _is_list(value):
        yield value
        return
    for item in value:
        yield from _scalars(item)
