"""Lookups of rows of a table by number, and by the ids in sparse tensors with the rows combined."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.composed import dispatching
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import ones_like
from aioflow.kernels.array.gather import ensure_index, gather
from aioflow.kernels.array.select import masked, where
from aioflow.kernels.array.shapes import expand_dims, reshape, shape
from aioflow.kernels.array.sorting import invert_permutation
from aioflow.kernels.math.arithmetic import add_n, floordiv, maximum, mod
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, greater, greater_equal, less, logical_and
from aioflow.kernels.math.elementwise import sqrt
from aioflow.kernels.math.no_nan import div_no_nan
from aioflow.kernels.math.reduction import reduce_prod, reduce_sum
from aioflow.kernels.math.segments import segment_sum
from aioflow.library.control import name_scope
from aioflow.library.partitioned_variables import PartitionedVariable
from aioflow.library.sparse import sparse_fill_empty_rows, sparse_reshape, sparse_retain
from aioflow.library.variables import Variable
from aioflow.tensors.dtypes import int64


@transactional
@dispatching
def embedding_lookup(
    params: Variable | NumberLike | Sequence[Any],
    ids: NumberLike,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: float | None = None,
) -> Tensor:
    """Return the rows `ids` of the table `params`, with shape [*ids.shape, *row].

    The gradient of the table is IndexedSlices: an optimizer touches only the rows that were looked up.

    Args:
        params: a variable or a tensor, or a list of several, between which the rows of the table are divided. The parts
            of a partitioned variable are consecutive rows under both strategies.
        ids: integers of any shape.
        partition_strategy: the division: with "mod" row i is in part i % len(params); with "div" the parts are
            consecutive, and the first ones have one row more if it does not divide evenly.
        name: the name of the operation.
        validate_indices: for compatibility: a missing row is always an error.
        max_norm: rows with a greater Euclidean norm are scaled down to it.

    Raises:
        ValueError: `params` is an empty list, or there is no such strategy.

    Examples:
        >>> await session.run(af.nn.embedding_lookup(af.constant([[1, 2], [3, 4], [5, 6]]), [2, 0]))
        array([[5, 6],
               [1, 2]], dtype=int32)
    """
    parts = _parts(params)
    partition_strategy = "div" if isinstance(params, PartitionedVariable) else partition_strategy
    places = convert_to_tensor(ids)
    if len(parts) == 1:
        rows = _rows(parts[0], places, name)
    else:
        with get_default_graph().name_scope(name or "embedding_lookup") as scope:
            rows = _look_up_parts(parts, places, partition_strategy, scope)
    return rows if max_norm is None else _limit_norm(rows, places, max_norm)


def _parts(params: Any) -> list[Any]:
    """The parts of a table; a list of numbers is one part."""
    if isinstance(params, PartitionedVariable):
        return list(params) if params.axis == 0 else [params.as_tensor()]
    if isinstance(params, (list, tuple)):
        if not params:
            raise ValueError("a table needs at least one part")
        if any(isinstance(part, (Tensor, Variable, np.ndarray)) for part in params):
            return [part if isinstance(part, Variable) else convert_to_tensor(part) for part in params]
    return [params if isinstance(params, Variable) else convert_to_tensor(params)]


def _rows(part: Any, ids: Tensor, name: str | None = None) -> Tensor:
    return part.sparse_read(ids, name=name) if isinstance(part, Variable) else gather(part, ids, name=name)


def _look_up_parts(parts: Sequence[Any], ids: Tensor, strategy: str, name: str) -> Tensor:
    """Return rows of a divided table: looks up each part, and restores the order."""
    flat = reshape(ensure_index(ids, _total(parts, ids)), [-1])
    number, within = _locate_rows(parts, flat, strategy)
    places = [reshape(where(equal(number, cast(index, flat.dtype))), [-1]) for index in range(len(parts))]
    found = concat([_rows(part, gather(within, place)) for part, place in zip(parts, places, strict=True)], 0)
    rows = gather(found, invert_permutation(concat(places, 0)))
    each = rows.shape.as_list()[1:] if rows.shape.ndims else None
    if each is None or None in each or not ids.shape.is_fully_defined():
        return reshape(rows, concat([shape(ids), shape(found)[1:]], 0), name=name)
    return reshape(rows, [*ids.shape.as_list(), *each], name=name)


def _locate_rows(parts: Sequence[Any], ids: Tensor, strategy: str) -> tuple[Tensor, Tensor]:
    """Return the part of each row, and its row number there."""
    count = len(parts)
    if strategy == "mod":
        return mod(ids, count), floordiv(ids, count)
    if strategy != "div":
        raise ValueError(f"partition_strategy must be 'mod' or 'div', not {strategy!r}")
    each, longer = _lengths(parts, ids)
    number = maximum(floordiv(ids, each + 1), floordiv(ids - longer, maximum(each, 1)))
    return number, where(less(number, longer), mod(ids, each + 1), mod(ids - longer, maximum(each, 1)))


def _total(parts: Sequence[Any], ids: Tensor) -> Any:
    """Return the number of rows of the whole table."""
    sizes = [part.shape.as_list()[0] if part.shape.ndims else None for part in parts]
    return sum(sizes) if None not in sizes else add_n([shape(part, out_type=ids.dtype)[0] for part in parts])


def _lengths(parts: Sequence[Any], ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the length of a short part, and the number of parts with one row more."""
    whole = convert_to_tensor(_total(parts, ids), ids.dtype)
    return floordiv(whole, len(parts)), mod(whole, len(parts))


def _limit_norm(rows: Tensor, ids: Tensor, max_norm: float) -> Tensor:
    if rows.shape.ndims is None or ids.shape.ndims is None:
        raise ValueError("max_norm needs params and ids of known rank")
    axes = list(range(ids.shape.ndims, rows.shape.ndims))
    squares = reduce_sum(rows * rows, axes, keepdims=True)
    norm = sqrt(where(greater(squares, 0.0), squares, ones_like(squares)))  # where the root has a slope
    shortened: Tensor = rows * (max_norm / maximum(norm, max_norm))
    return shortened


_COMBINERS: Final = ("mean", "sqrtn", "sum")


@transactional
@dispatching
def embedding_lookup_sparse(
    params: NumberLike,
    sp_ids: SparseTensor,
    sp_weights: SparseTensor | None,
    partition_strategy: str = "mod",
    name: str | None = None,
    combiner: str | None = None,
    max_norm: float | None = None,
) -> Tensor:
    """For each row of `sp_ids`, look up its rows of the table and combine them: [rows, *row of the table].

    Args:
        params: the table, see `embedding_lookup`.
        sp_ids: a sparse matrix of ids with ascending rows; the result ends with the last row that has one.
        sp_weights: the weight of each id, at the same positions; 1 if None.
        partition_strategy: see `embedding_lookup`.
        name: the name of the result.
        combiner: "sum" of the weighted rows; "mean", the default: divided by the sum of the weights; or "sqrtn":
            divided by the root of the sum of their squares.
        max_norm: see `embedding_lookup`.

    Examples:
        >>> ids = af.SparseTensor([[0, 0], [0, 1]], af.constant([0, 2], af.int64), [1, 2])
        >>> table = af.constant([[1.0], [2.0], [3.0]])
        >>> await session.run(af.nn.embedding_lookup_sparse(table, ids, None, combiner="sum"))
        array([[4.]], dtype=float32)
    """
    how = "mean" if combiner is None else combiner
    if how not in _COMBINERS:
        raise ValueError(f"combiner must be one of {', '.join(_COMBINERS)}, not {combiner!r}")
    ids = SparseTensor.from_value(sp_ids)
    with name_scope(name, "embedding_lookup_sparse") as scope:
        rows = embedding_lookup(params, ids.values, partition_strategy, max_norm=max_norm)
        segments = ids.indices[:, 0]
        if sp_weights is None:
            weights = ones_like(ids.values, rows.dtype)
        else:
            weights = cast(SparseTensor.from_value(sp_weights).values, rows.dtype)
            weights.shape.merge_with(ids.values.shape)
            rows = rows * _beside(weights, rows)
        total = segment_sum(rows, segments, name=scope if how == "sum" else None)
        if how == "sum":
            return total
        divisor = segment_sum(weights, segments) if how == "mean" else sqrt(segment_sum(weights * weights, segments))
        return div_no_nan(total, _beside(divisor, total), name=scope)


def _beside(weights: Tensor, rows: Tensor) -> Tensor:
    """Return `weights`, one for each row, in a shape that broadcasts to that of the rows."""
    rank = rows.shape.ndims
    if rank is None:
        raise ValueError("the rank of the table must be known")
    for axis in range(1, rank):
        weights = expand_dims(weights, axis)
    return weights


@transactional
@dispatching
def safe_embedding_lookup_sparse(
    embedding_weights: Sequence[Any] | Any,
    sparse_ids: SparseTensor,
    sparse_weights: SparseTensor | None = None,
    combiner: str | None = "mean",
    default_id: NumberLike | None = None,
    name: str | None = None,
    partition_strategy: str = "div",
    max_norm: float | None = None,
) -> Tensor:
    """Return `embedding_lookup_sparse` without negative ids and, unless rows are summed, without weights up to 0.

    An empty row gives the row `default_id` of the table, or zeros if that is None. `sparse_ids` may have more than two
    axes: the result has a row for each vector along the last.

    Examples:
        >>> weights = af.constant([[1.0], [2.0], [4.0]])
        >>> ids = af.SparseTensor([[0, 0], [0, 1]], af.constant([0, 2], af.int64), [2, 2])
        >>> await session.run(af.nn.safe_embedding_lookup_sparse([weights], ids, combiner="sum"))
        array([[5.],
               [0.]], dtype=float32)
    """
    ids = SparseTensor.from_value(sparse_ids)
    with name_scope(name, "safe_embedding_lookup_sparse") as scope:
        outer = cast(ids.dense_shape, int64)[:-1]
        sizes = concat([reshape(reduce_prod(outer), [1]), cast(ids.dense_shape, int64)[-1:]], 0)
        ids = sparse_reshape(ids, sizes)
        weights = None
        if sparse_weights is not None:
            weights = SparseTensor(ids.indices, SparseTensor.from_value(sparse_weights).values, ids.dense_shape)
        ids, weights = _prune(ids, weights, combiner)
        ids, empty = sparse_fill_empty_rows(ids, 0 if default_id is None else default_id)
        if weights is not None:
            weights = sparse_fill_empty_rows(weights, 1)[0]
        rows = embedding_lookup_sparse(
            embedding_weights, ids, weights, partition_strategy, combiner=combiner, max_norm=max_norm
        )
        if default_id is None:
            rows = masked(rows, _beside(greater_equal(0, cast(empty, int64)), rows))
        return reshape(rows, concat([outer, cast(shape(rows), int64)[1:]], 0), name=scope)


def _prune(
    ids: SparseTensor, weights: SparseTensor | None, combiner: str | None
) -> tuple[SparseTensor, SparseTensor | None]:
    valid = greater_equal(ids.values, 0)
    if weights is not None and combiner != "sum":
        valid = logical_and(valid, greater(weights.values, 0))
    return sparse_retain(ids, valid), None if weights is None else sparse_retain(weights, valid)
