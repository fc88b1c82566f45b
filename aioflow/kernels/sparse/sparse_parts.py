"""Concatenates, slices, reshapes and fills sparse tensors by their positions, and iterates over their rows."""

import math
from collections.abc import Sequence

import numpy as np

from aioflow.graph.op import Indices, Ints, op
from aioflow.kernels import known
from aioflow.kernels.array.gather import _flattened as flat_positions
from aioflow.kernels.families import CPU, costs
from aioflow.kernels.math.broadcasting import Axis, axes_of, reduced
from aioflow.kernels.sparse.sparse_tensors import check_parts, count_of, matrix, positions, vector
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Array, Namespace, Sizes, Spec, TensorShape, int64, merge_sizes, normalise_axis


@op
def sparse_join(
    indices: Sequence[Indices], shapes: Sequence[Ints], axis: int, expand: bool = False
) -> tuple[Spec, Spec]:
    """The positions of tensors put one after the other along an axis, tensor by tensor, and the shape of the whole.

    Along all other axes they have the same sizes, or with `expand` the greatest size of them all.
    """
    if not indices:
        raise ValueError("at least one value is needed")
    wholes = [positions(each, shape) for each, shape in zip(indices, shapes, strict=True)]
    count = known.total([count_of(each) for each in indices])
    rank = next((whole.ndims for whole in wholes if whole.ndims is not None), None)
    if rank is None:
        return matrix(indices[0], None, count), vector(dtypes.UNKNOWN)
    sizes = [whole.with_rank(rank).sizes or () for whole in wholes]
    return matrix(indices[0], rank, count), vector(TensorShape(_joined(sizes, normalise_axis(axis, rank), expand)))


def _joined(sizes: Sequence[Sizes], axis: int, expand: bool) -> Sizes:
    """The sizes of the whole. ValueError if those along other axes differ."""
    columns: list[int | None] = []
    for place, column in enumerate(zip(*sizes, strict=True)):
        if place == axis:
            columns.append(known.total(column))
        elif expand:
            columns.append(None if None in column else max(size for size in column if size is not None))
        else:
            size = column[0]
            for other in column[1:]:
                try:
                    size = merge_sizes(size, other)
                except ValueError:
                    raise ValueError(f"sizes {size} and {other} along axis {place} differ") from None
            columns.append(size)
    return tuple(columns)


@sparse_join.kernel(CPU, fresh=True)
def _(
    xp: Namespace, indices: Sequence[Array], shapes: Sequence[Array], *, axis: int, expand: bool
) -> tuple[Array, Array]:
    sizes = [tuple(shape.tolist()) for shape in shapes]
    place = normalise_axis(axis, len(sizes[0]))
    whole = _joined(sizes, place, expand)
    result = np.concatenate(indices)
    before = np.cumsum([0, *[size[place] for size in sizes[:-1]]])
    result[:, place] += np.repeat(before, [len(each) for each in indices])
    return result, np.array(whole, np.int64)


@op
def sparse_cut(indices: Indices, dense_shape: Ints, start: Ints, size: Ints) -> tuple[Spec, Spec, Spec]:
    """The positions inside the block of `size` at `start`, counted from there; the block's shape; which they were.

    The block ends where the tensor ends.
    """
    whole = positions(indices, dense_shape)
    begin, wanted = known.shape(start, "start"), known.shape(size, "size")
    rank = next((shape.ndims for shape in (whole, begin, wanted) if shape.ndims is not None), None)
    places = Spec(int64, TensorShape.vector(None))
    if rank is None:
        return matrix(indices, None), vector(dtypes.UNKNOWN), places
    parts = zip(*[shape.with_rank(rank).sizes or () for shape in (whole, begin, wanted)], strict=True)
    sizes = [None if None in part else _clipped(*part) for part in parts]
    return matrix(indices, rank), vector(TensorShape(sizes)), places


def _clipped(whole: int, begin: int, size: int) -> int:
    return max(min(size, whole - begin), 0)


@sparse_cut.kernel(CPU, fresh=True)
def _(xp: Namespace, indices: Array, shape: Array, start: Array, size: Array) -> tuple[Array, Array, Array]:
    if min([*start.tolist(), *size.tolist(), 0]) < 0 or not len(shape) == len(start) == len(size):
        raise ValueError(f"a block of {size.tolist()} at {start.tolist()} does not fit shape {shape.tolist()}")
    block = np.clip(np.minimum(size, shape - start), 0, None).astype(np.int64)
    moved = indices - start
    places = ((moved >= 0) & (moved < block)).all(1).nonzero()[0]
    return moved[places].astype(indices.dtype, copy=False), block, places


@op
def sparse_keep(indices: Indices, dense_shape: Ints, axis: Axis = None, keepdims: bool = False) -> tuple[Spec, Spec]:
    """The positions without the numbers along these axes, all if None, or with 0 for them; the shape they are in."""
    whole = positions(indices, dense_shape)
    left = reduced(Spec(int64, whole), axis, keepdims)
    return matrix(indices, left.ndims, count_of(indices)), vector(left)


sparse_keep.check(lambda indices, dense_shape, *others: check_parts(indices, dense_shape))


@sparse_keep.kernel(CPU, fresh=True)
def _(xp: Namespace, indices: Array, shape: Array, *, axis: Axis, keepdims: bool) -> tuple[Array, Array]:
    axes = list(axes_of(axis, len(shape)))
    flat_positions(xp, indices, known.plain(shape))
    if not keepdims:
        return np.delete(indices, axes, 1), np.delete(shape, axes).astype(np.int64)
    kept, sizes = indices.copy(), shape.astype(np.int64)
    kept[:, axes], sizes[axes] = 0, 1
    return kept, sizes


@op
def sparse_refit(indices: Indices, dense_shape: Ints, new_shape: Ints) -> tuple[Spec, Spec]:
    """The positions of the same elements in a tensor reshaped to `new_shape`, of which one size may be -1."""
    whole = positions(indices, dense_shape)
    wanted = known.vector(new_shape, "shape")
    if wanted is None:
        return matrix(indices, None, count_of(indices)), vector(dtypes.UNKNOWN)
    fully = whole.sizes is not None and None not in whole.sizes and None not in wanted
    sizes = refitted(whole.sizes, wanted) if fully else [None if size in (None, -1) else size for size in wanted]  # type: ignore[arg-type]
    return matrix(indices, len(wanted), count_of(indices)), vector(TensorShape(sizes))


def refitted(whole: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """`wanted` with the number for -1. ValueError if the number of elements is not that of `whole`."""
    total, rest = math.prod(whole), math.prod([size for size in wanted if size != -1])
    if wanted.count(-1) > 1 or any(size < -1 for size in wanted):
        raise ValueError(f"only one size may be -1, and no size may be lower: {list(wanted)}")
    if total != rest if -1 not in wanted else not rest or total % rest:
        raise ValueError(f"{total} elements do not fit shape {list(wanted)}")
    return [total // rest if size == -1 else size for size in wanted]


@sparse_refit.kernel(CPU, fresh=True)
def _(xp: Namespace, indices: Array, shape: Array, new_shape: Array) -> tuple[Array, Array]:
    before = tuple(shape.tolist())
    sizes = refitted(before, new_shape.tolist())
    if math.prod(before) > int64.max:
        raise ValueError(f"shape {list(before)} has more elements than can be counted")
    flat = flat_positions(xp, indices, before)
    result = np.empty((len(indices), len(sizes)), indices.dtype)
    for place in reversed(range(len(sizes))):
        flat, result[:, place] = np.divmod(flat, max(sizes[place], 1))
    return result, np.array(sizes, np.int64)


@op
def sparse_fill(indices: Indices, dense_shape: Ints) -> tuple[Spec, Spec, Spec]:
    """The positions, in rising order of rows, with a new one at the start of each empty row.

    Also the index of the value at each position (the number of values for a new one), and the empty rows as bools.
    """
    whole = positions(indices, dense_shape)
    if whole.ndims == 0:
        raise ValueError("rank 1 or more is needed, the shape is []")
    rows = whole[0].value if whole.ndims is not None else None
    places = Spec(int64, TensorShape.vector(None))
    return matrix(indices, whole.ndims), places, Spec(dtypes.bool_, TensorShape.vector(rows))


@sparse_fill.kernel(CPU, fresh=True)
def _(xp: Namespace, indices: Array, shape: Array) -> tuple[Array, Array, Array]:
    flat_positions(xp, indices[:, :1], (int(shape[0]),))
    empty = np.ones(int(shape[0]), bool)
    empty[indices[:, 0]] = False
    new = np.zeros((int(empty.sum()), indices.shape[1]), indices.dtype)
    new[:, 0] = empty.nonzero()[0]
    whole = np.concatenate([indices, new])
    order = whole[:, 0].argsort(kind="stable")
    return whole[order], np.minimum(order, len(indices)), empty


for _op in (sparse_join, sparse_cut, sparse_keep, sparse_refit, sparse_fill):
    _op.no_gradient("positions do not vary smoothly")
    costs(_op, 20.0)


def rows_of(indices: Array, values: Array, shape: Array) -> dict[tuple[int, ...], Array]:
    """The values along the last axis by the position of their row, for rows that have any. Positions are checked."""
    flat_positions(np, indices, tuple(shape.tolist()))
    if not len(indices):
        return {}
    ends = np.flatnonzero((indices[1:, :-1] != indices[:-1, :-1]).any(1)) + 1
    rows: dict[tuple[int, ...], Array] = {}
    for place, part in zip([0, *ends.tolist()], np.split(values, ends), strict=True):
        row = tuple(indices[place, :-1].tolist())
        if row in rows:
            raise ValueError(f"the positions of row {list(row)} are not together: use af.sparse_reorder")
        rows[row] = part
    return rows
