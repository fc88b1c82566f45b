"""Sets along the last axis of tensors: intersection, union, difference and size.

Each row, the elements along the last axis, is a set; repeated elements count once. The result is a sparse tensor, its
rows rising.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.op import Indices, Ints, T, op
from aioflow.graph.operation import Tensor
from aioflow.graph.sparse_tensor import SparseTensor, SparseTensorValue
from aioflow.kernels.array.shapes import reshape, shape
from aioflow.kernels.families import CPU, costs
from aioflow.kernels.sparse.sparse_parts import rows_of
from aioflow.kernels.sparse.sparse_tensors import matrix, positions, vector
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import INTEGER, STRING, Array, Namespace, Spec, TensorShape, int32, int64
from aioflow.tensors.object_arrays import distinct_elements, make_array, sort_items

Sets = dict[tuple[int, ...], "set[Any]"]
_OPERATIONS: Final[dict[str, Callable[["set[Any]", "set[Any]"], "set[Any]"]]] = {
    "intersection": set.intersection,
    "union": set.union,
    "difference": set.difference,
}


@op(name="set_operation")
def _set_operation(
    a_indices: Ints, a_values: T, a_shape: Ints, b_indices: Ints, b_values: T, b_shape: Ints, operation: str
) -> tuple[Spec, Spec, Spec]:
    """The intersection, union or difference of the sets of two sparse tensors, whose shapes differ in the last axis."""
    if operation not in _OPERATIONS:
        raise ValueError(f"operation is one of {', '.join(_OPERATIONS)}, not {operation!r}")
    a_values.only(INTEGER, STRING).same_dtype(b_values)
    a, b = positions(a_indices, a_shape, a_values), positions(b_indices, b_shape, b_values)
    ranks = [shape.ndims for shape in (a, b) if shape.ndims is not None]
    if not ranks:
        return matrix(a_indices, None), Spec(a_values.dtype, TensorShape.vector(None)), vector(dtypes.UNKNOWN)
    if min(ranks) < 1:
        raise ValueError("rank 1 or more is needed, the shape is []")
    rows = a.with_rank(ranks[0])[:-1].merge_with(b.with_rank(ranks[0])[:-1])
    count = TensorShape.vector(None)
    return matrix(a_indices, ranks[0]), Spec(a_values.dtype, count), vector(rows.concatenate([None]))


_set_operation.no_gradient("membership in a set is not differentiable")
costs(_set_operation, 100.0)


@_set_operation.kernel(CPU, fresh=True)
def _(xp: Namespace, *parts: Array, operation: str) -> tuple[Array, Array, Array]:
    a_shape, b_shape = parts[2], parts[5]
    if len(a_shape) != len(b_shape) or not np.array_equal(a_shape[:-1], b_shape[:-1]):
        raise ValueError(f"shapes {a_shape.tolist()} and {b_shape.tolist()} differ before the last axis")
    first, second = _sets(*parts[:3]), _sets(*parts[3:])
    combine, none = _OPERATIONS[operation], set[Any]()
    places: list[tuple[int, ...]] = []
    counts: list[int] = []
    values: list[Any] = []
    for row in sorted(first.keys() | second.keys()):
        items = sort_items(combine(first.get(row, none), second.get(row, none)))
        if items:
            places.append(row)
            counts.append(len(items))
            values += items
    lengths = make_array(counts, dtype=np.int64)
    numbers = np.arange(len(values)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    rows = np.array(places, np.int64).reshape(len(places), len(a_shape) - 1)
    indices = np.concatenate([np.repeat(rows, lengths, axis=0), numbers[:, None]], 1)
    whole = np.array([*a_shape[:-1].tolist(), lengths.max(initial=0)], np.int64)
    return indices, make_array(values, dtype=parts[1].dtype), whole


def _sets(indices: Array, values: Array, shape: Array) -> Sets:
    return {row: distinct_elements(items) for row, items in rows_of(indices, values, shape).items()}


@op(name="set_size")
def _set_size(indices: Indices, values: Spec, dense_shape: Ints) -> Spec:
    """The number of distinct elements in each row of a sparse tensor: int32, without the last axis."""
    whole = positions(indices, dense_shape, values.only(INTEGER, STRING))
    if whole.ndims == 0:
        raise ValueError("rank 1 or more is needed, the shape is []")
    return Spec(int32, whole[:-1])


_set_size.no_gradient("a size is an integer")
costs(_set_size, 50.0)


@_set_size.kernel(CPU, fresh=True)
def _(xp: Namespace, indices: Array, values: Array, dense_shape: Array) -> Array:
    result = np.zeros(dense_shape[:-1].tolist(), np.int32)
    for row, items in _sets(indices, values, dense_shape).items():
        result[row] = len(items)
    return result


@op
def all_positions(dense_shape: Ints) -> Spec:
    """Every position in a tensor of that shape, the last number changing fastest: int64, [n, rank]."""
    whole = positions(Spec(int64, TensorShape.matrix(None, None)), dense_shape)
    return Spec(int64, TensorShape.matrix(whole.num_elements(), whole.ndims))


all_positions.no_gradient("positions do not vary smoothly")


@all_positions.kernel(CPU, fresh=True)
def _(xp: Namespace, dense_shape: Array) -> Array:
    sizes = dense_shape.tolist()
    return np.indices(sizes, np.int64).reshape(len(sizes), math.prod(sizes)).T.copy()


# Users' form


def as_sparse(value: Any) -> SparseTensor:
    """`value`, a tensor of which every element counts, or a sparse one, as a sparse one."""
    if isinstance(value, (SparseTensor, SparseTensorValue)):
        return SparseTensor.from_value(value)
    dense = convert_to_tensor(value)
    sizes = shape(dense, out_type=int64)
    return SparseTensor(all_positions(sizes), reshape(dense, [-1]), sizes)


def _combined(a: Any, b: Any, operation: str) -> SparseTensor:
    first, second = as_sparse(a), as_sparse(b)
    return SparseTensor(
        *_set_operation(
            first.indices, first.values, first.dense_shape, second.indices, second.values, second.dense_shape,
            operation, name=f"set_{operation}",
        )
    )  # fmt: skip


@transactional
def set_intersection(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """For each row the elements that are in both `a` and `b`, which are tensors or sparse tensors, rising.

    Examples:
        >>> result = af.set_intersection([[1, 2, 3]], [[2, 3, 6]])
        >>> await session.run(result.values)
        array([2, 3], dtype=int32)
    """
    return _combined(a, b, "intersection")


@transactional
def set_union(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """For each row the elements that are in `a` or `b`, which are tensors or sparse tensors, rising.

    Examples:
        >>> result = af.set_union([[1, 2, 3]], [[2, 5, 6]])
        >>> await session.run(result.values)
        array([1, 2, 3, 5, 6], dtype=int32)
    """
    return _combined(a, b, "union")


@transactional
def set_difference(a: Any, b: Any, aminusb: bool = True, validate_indices: bool = True) -> SparseTensor:
    """For each row the elements that are in `a` and not in `b`, rising; with `aminusb` false those in `b` only.

    Examples:
        >>> result = af.set_difference([[1, 2, 3]], [[2, 5, 6]])
        >>> await session.run(result.values)
        array([1, 3], dtype=int32)
    """
    return _combined(a, b, "difference") if aminusb else _combined(b, a, "difference")


@transactional
def set_size(a: Any, validate_indices: bool = True) -> Tensor:
    """The number of distinct elements in each row of `a`, a tensor or a sparse tensor: int32, without the last axis.

    Examples:
        >>> sets = af.SparseTensor([[0, 0], [0, 1]], [4, 5], [2, 2])
        >>> await session.run(af.set_size(sets))
        array([2, 0], dtype=int32)
    """
    sets = as_sparse(a)
    return _set_size(sets.indices, sets.values, sets.dense_shape)
