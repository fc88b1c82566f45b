"""Elements by their order: the greatest, the distinct, the inverse of an order."""

from typing import Any, Final

import numpy as np

from aioflow.graph.op import Indices, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels import known
from aioflow.kernels.array.gather import gather_grad
from aioflow.kernels.families import CPU, GPU, costs
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import FLOAT, INTEGER, Array, DType, Namespace, Spec, TensorShape, int32
from aioflow.tensors.object_arrays import first_places, take_elements

_PARTITION_FROM: Final = 64
"""The number of elements from which picking the greatest before sorting them is faster than sorting all."""


@op
def top_k(input: Spec, k: int = 1, sorted: bool = True) -> tuple[Spec, Spec]:
    """The `k` greatest elements along the last axis, greatest first, and their places, as int32.

    Of equal elements the one at the lower place comes first. NaN counts as greater than all else. Where `sorted` is
    False any order would do.
    """
    input.only(INTEGER, FLOAT)
    if k < 0:
        raise ValueError(f"k cannot be negative: {k}")
    if input.sizes is None:
        return Spec(input.dtype), Spec(int32)
    if not input.sizes:
        raise ValueError("rank 1 or more is needed, the shape is []")
    *batch, size = input.sizes
    if size is not None and size < k:
        raise ValueError(f"the {k} greatest of {size} elements are asked for")
    shape = TensorShape((*batch, k))
    return Spec(input.dtype, shape), Spec(int32, shape)


costs(top_k, 30.0)


@top_k.gradient
def _(op: Operation, dy: Tensor, _: Any) -> Tensor:
    return gather_grad(dy, op.inputs[0], op.outputs[1], -1, -1)


@top_k.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, x: Array, *, k: int) -> tuple[Array, Array]:
    if x.shape[-1] < k:
        raise ValueError(f"the {k} greatest of {x.shape[-1]} elements are asked for")
    places = x.argmax(-1)[..., None] if k == 1 else _greatest(xp, x, k)
    return xp.take_along_axis(x, places, -1), places.astype(np.int32)


def _greatest(xp: Namespace, x: Array, k: int) -> Array:
    """The places of the `k` greatest elements along the last axis."""
    size = x.shape[-1]
    if xp is np and size >= _PARTITION_FROM and 4 * k <= size and k:
        places = _picked(x, k)
        if places is not None:
            return np.take_along_axis(places, _greatest(np, np.take_along_axis(x, places, -1), k), -1)
    # A stable sort of the reversed array, read backwards: falling, and of equal elements the first one first.
    rising = x[..., ::-1].argsort(axis=-1, kind="stable")
    return size - 1 - rising[..., ::-1][..., :k]


def _picked(x: Array, k: int) -> Array | None:
    """The places of the `k` greatest elements, in rising order; None if equal elements leave a choice."""
    size = x.shape[-1]
    places = np.sort(x.argpartition(size - k, axis=-1)[..., size - k :], axis=-1)
    picked = np.take_along_axis(x, places, -1)
    least = picked.min(-1, keepdims=True)
    clear = (x == least).sum(-1) == (picked == least).sum(-1)
    return places if clear.all() and (least == least).all() else None


@op
def in_top_k(predictions: Spec, targets: Indices, k: int) -> Spec:
    """Whether fewer than `k` elements of each row of `predictions` are greater than the one at its target.

    False for a target out of range, and for a row that holds an infinity or NaN.
    """
    rows = predictions.only(FLOAT).with_rank(2, "predictions").shape[:1]
    known.integers(targets, "targets")
    return Spec(dtypes.bool_, targets.with_rank(1, "targets").shape.merge_with(rows))


in_top_k.no_gradient("a bool has no gradient")


@in_top_k.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, predictions: Array, targets: Array, *, k: int) -> Array:
    rows, classes = predictions.shape
    if targets.shape != (rows,):
        raise ValueError(f"{rows} rows of predictions have {len(targets)} targets")
    inside = (targets >= 0) & (targets < classes)
    if not classes:
        return inside
    chosen = predictions[xp.arange(rows), xp.where(inside, targets, 0)]
    above = (predictions > chosen[:, None]).sum(-1)
    return inside & (above < k) & xp.isfinite(predictions).all(-1)


@op
def unique(x: Spec, out_idx: DType = int32) -> tuple[Spec, Spec]:
    """The distinct elements of a vector in the order of their first occurrence, and for each element its place there.

    With `y, idx = unique(x)`, `y[idx[i]] == x[i]`. NaN is distinct from NaN.
    """
    x = x.with_rank(1, "x")
    return Spec(x.dtype, TensorShape.vector(None)), Spec(out_idx, x.shape)


unique.no_gradient("which elements are distinct jumps with their values")
costs(unique, 30.0)


@unique.kernel(CPU, fresh=True)  # how many there are depends on values
def _(xp: Namespace, x: Array, *, out_idx: DType) -> tuple[Array, Array]:
    if x.dtype == object:
        places, which = first_places(x)
        return take_elements(x, places), which.astype(out_idx.np)
    order = x.argsort(kind="stable")
    ordered = x[order]
    begins = xp.ones(x.shape, bool)
    begins[1:] = ordered[1:] != ordered[:-1]
    first = order[begins]  # the place of each group's first occurrence, groups by value
    by_place = first.argsort()
    rank = xp.empty(first.shape, out_idx.np)
    rank[by_place] = xp.arange(len(first), dtype=out_idx.np)
    places = xp.empty(x.shape, out_idx.np)
    places[order] = rank[begins.cumsum() - 1]
    return x[first[by_place]], places


@op
def invert_permutation(x: Spec) -> Spec:
    """The inverse of the permutation `x`: `y[x[i]] == i`. InvalidArgumentError if `x` is not a permutation."""
    x = known.integers(x, "x").with_rank(1, "x")
    value = x.known if isinstance(x.known, tuple) and None not in x.known else None
    if value is not None and {*value} != {*range(len(value))}:
        raise ValueError(f"{list(value)} is not a permutation of the numbers 0 to {len(value) - 1}")
    inverse = None if value is None else tuple([value.index(place) for place in range(len(value))])
    return Spec(x.dtype, x.shape, inverse)


invert_permutation.no_gradient("its elements are integers")


@invert_permutation.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, x: Array) -> Array:
    if xp is np and not np.array_equal(np.sort(x), np.arange(len(x))):
        raise ValueError(f"{x.tolist()[:20]} is not a permutation of the numbers 0 to {len(x) - 1}")
    result = xp.empty_like(x)
    result[x] = xp.arange(len(x), dtype=x.dtype)
    return result
