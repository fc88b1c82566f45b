"""Lookups of table rows by the ids in sparse tensors, combined row by row."""

from collections.abc import Sequence
from typing import Any, Final

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.fill import ones_like
from aioflow.kernels.array.select import masked
from aioflow.kernels.array.shapes import expand_dims, reshape, shape
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import greater, greater_equal, logical_and
from aioflow.kernels.math.elementwise import sqrt
from aioflow.kernels.math.no_nan import div_no_nan
from aioflow.kernels.math.reduction import reduce_prod
from aioflow.kernels.math.segments import segment_sum
from aioflow.library.control import name_scope
from aioflow.library.embedding import embedding_lookup
from aioflow.library.sparse import sparse_fill_empty_rows, sparse_reshape, sparse_retain
from aioflow.tensors.dtypes import int64

_COMBINERS: Final = ("mean", "sqrtn", "sum")


@transactional
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
