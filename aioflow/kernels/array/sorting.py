"""Sorting: the greatest and the distinct elements, inverse permutations, and whether elements are in order."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from aioflow.graph.building import same_graph, transactional
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Indices, Ints, Op, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels import known
from aioflow.kernels.array.gather import gather_grad
from aioflow.kernels.array.shapes import expand_dims, reshape
from aioflow.kernels.families import CPU, GPU, NARROW, costs
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, less, less_equal
from aioflow.kernels.math.reduction import reduce_all, reduce_sum
from aioflow.tensors import dtypes
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import FLOAT, INTEGER, STRING, Array, DType, Namespace, Spec, TensorShape, int32, string
from aioflow.tensors.object_arrays import first_places, sort_items, take_elements

_PARTITION_FROM: Final = 64
"""The number of elements from which picking the greatest before sorting them is faster than sorting all."""


class TopK(NamedTuple):
    """The result of `top_k`: the greatest elements, and their places."""

    values: Tensor
    indices: Tensor


@op(name="top_k")
def _top_k(input: Spec, k: Ints, sorted: bool = True) -> tuple[Spec, Spec]:
    """The `k` greatest elements along the last axis, greatest first, and their places."""
    input.only(INTEGER, FLOAT)
    count = known.scalar(k, "k")
    if count is not None and count < 0:
        raise ValueError(f"k cannot be negative: {count}")
    if input.sizes is None:
        return Spec(input.dtype), Spec(int32)
    if not input.sizes:
        raise ValueError("rank 1 or more is needed, the shape is []")
    *batch, size = input.sizes
    if size is not None and count is not None and size < count:
        raise ValueError(f"the {count} greatest of {size} elements are asked for")
    shape = TensorShape((*batch, count))
    return Spec(input.dtype, shape), Spec(int32, shape)


costs(_top_k, 30.0)


@_top_k.gradient
def _(op: Operation, dy: Tensor, _: Any) -> tuple[Tensor, None]:
    return gather_grad(dy, op.inputs[0], op.outputs[1], -1, -1), None


@_top_k.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, x: Array, k: Array) -> tuple[Array, Array]:
    count = int(k)
    if not 0 <= count <= x.shape[-1]:
        raise ValueError(f"the {count} greatest of {x.shape[-1]} elements are asked for")
    places = x.argmax(-1)[..., None] if count == 1 else _greatest(xp, x, count)
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


def top_k(input: TensorLike, k: TensorLike = 1, sorted: bool = True, name: str | None = None) -> TopK:
    """The `k` greatest elements along the last axis, greatest first, and their places, as int32.

    Of equal elements the one at the lower place comes first. NaN counts as greater than all else. Where `sorted` is
    False any order would do.

    Examples:
        >>> await session.run(af.nn.top_k([3, 9, 5], k=2))
        TopK(values=array([9, 5], dtype=int32), indices=array([1, 2], dtype=int32))
    """
    return TopK(*_top_k(input, k, sorted, name=name))


@op
def in_top_k(predictions: Spec, targets: Indices, k: Ints) -> Spec:
    """Whether fewer than `k` elements of each row of `predictions` are greater than the one at its target.

    False for a target out of range, and for a row that holds an infinity or NaN.

    Examples:
        >>> await session.run(af.nn.in_top_k([[0.1, 0.8, 0.3]], [2], k=2))
        array([ True])
    """
    rows = predictions.only(FLOAT).with_rank(2, "predictions").shape[:1]
    known.integers(targets, "targets")
    known.scalar(k, "k")
    return Spec(dtypes.bool_, targets.with_rank(1, "targets").shape.merge_with(rows))


in_top_k.no_gradient("a bool has no gradient")


@in_top_k.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, predictions: Array, targets: Array, k: Array) -> Array:
    rows, classes = predictions.shape
    if targets.shape != (rows,):
        raise ValueError(f"{rows} rows of predictions have {len(targets)} targets")
    inside = (targets >= 0) & (targets < classes)
    if not classes:
        return inside
    chosen = predictions[xp.arange(rows), xp.where(inside, targets, 0)]
    above = (predictions > chosen[:, None]).sum(-1)
    return inside & (above < int(k)) & xp.isfinite(predictions).all(-1)


@op
def unique(x: Spec, out_idx: DType = int32) -> tuple[Spec, Spec]:
    """The distinct elements of a vector in the order of their first occurrence, and for each element its place there.

    With `y, idx = unique(x)`, `y[idx[i]] == x[i]`. NaN is distinct from NaN.

    Examples:
        >>> await session.run(af.unique([7, 7, 5, 7]))
        (array([7, 5], dtype=int32), array([0, 0, 1, 0], dtype=int32))
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
    """The inverse of the permutation `x`: `y[x[i]] == i`. InvalidArgumentError if `x` is not a permutation.

    Examples:
        >>> await session.run(af.invert_permutation([2, 0, 1]))
        array([1, 2, 0], dtype=int32)
    """
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


_DIRECTIONS: Final = ("ASCENDING", "DESCENDING")


def _ordered(values: Spec, axis: int, direction: str, *more: frozenset[DType]) -> Spec:
    if direction not in _DIRECTIONS:
        raise ValueError(f"direction must be 'ASCENDING' or 'DESCENDING', not {direction!r}")
    if values.rank == 0:
        raise ValueError("a scalar has no axis")
    values.axis(axis)
    return values.only(INTEGER, FLOAT, *more)


@op
def sort(values: Spec, axis: int = -1, direction: str = "ASCENDING") -> Spec:
    """The elements in rising or, if `direction` is "DESCENDING", falling order along an axis.

    NaN counts as greater than all else.

    Examples:
        >>> await session.run(af.sort([3, 1, 2]))
        array([1, 2, 3], dtype=int32)
    """
    return _ordered(values, axis, direction)


@op
def argsort(values: Spec, axis: int = -1, direction: str = "ASCENDING", stable: bool = False) -> Spec:
    """For each place along an axis the place, as int32, of the element that `sort` puts there.

    Of equal elements the one at the lower place comes first, whether `stable` or not. Strings are in the order of their
    bytes.

    Examples:
        >>> await session.run(af.argsort([3, 1, 2]))
        array([1, 2, 0], dtype=int32)
    """
    return Spec(int32, _ordered(values, axis, direction, STRING).shape)


argsort.no_gradient("places do not vary smoothly")


@sort.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    places = argsort(op.inputs[0], op.attrs["axis"], op.attrs["direction"])
    return reorder(dy, places, op.attrs["axis"], inverse=True)


@sort.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    axis, falling, dtype = node.attrs["axis"], node.attrs["direction"] == "DESCENDING", node.output_specs[0].dtype
    wide = _comparable(xp, dtype)

    def in_order(x: Array) -> Array:
        result = xp.sort(x.astype(wide, copy=False), axis=axis).astype(dtype.np, copy=False)
        return xp.flip(result, axis) if falling else result

    return in_order


@argsort.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    axis, falling = node.attrs["axis"], node.attrs["direction"] == "DESCENDING"
    if node.input_specs[0].dtype is string:
        return lambda x: _places_of_texts(x, axis, falling)
    wide = _comparable(xp, node.input_specs[0].dtype)

    def places(x: Array) -> Array:
        x = x.astype(wide, copy=False)
        if not falling:
            return x.argsort(axis=axis, kind="stable").astype(xp.int32)
        # Reversed, sorted and read backwards: falling, and of equal elements the first one first.
        rising = xp.flip(x, axis).argsort(axis=axis, kind="stable")
        return (x.shape[axis] - 1 - xp.flip(rising, axis)).astype(xp.int32)

    return places


def _places_of_texts(texts: AnyArray, axis: int, falling: bool) -> Array:
    sign = -1 if falling else 1

    def places(line: AnyArray) -> Array:
        items = sort_items(zip(line.tolist(), range(0, sign * len(line), sign), strict=True))
        return np.array([sign * place for _, place in items], np.int32)[::sign]

    return np.apply_along_axis(places, axis, texts) if texts.size else np.zeros(texts.shape, np.int32)


def _comparable(xp: Namespace, dtype: DType) -> Any:
    return xp.float32 if dtype in NARROW else dtype.np


@op
def reorder(x: Spec, places: Indices, axis: int, inverse: bool = False) -> Spec:
    """Along an axis the elements at `places`, each of them once; if `inverse`, those elements put back there."""
    known.integers(places, "places")
    x.axis(axis)
    return Spec(x.dtype, x.shape if x.shape is places.shape else x.shape.merge_with(places.shape))


@reorder.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    return reorder(dy, op.inputs[1], op.attrs["axis"], not op.attrs["inverse"]), None


reorder.moves = True


@reorder.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, x: Array, places: Array, *, axis: int, inverse: bool) -> Array:
    if not inverse:
        return xp.take_along_axis(x, places, axis)
    result = xp.empty_like(x)
    xp.put_along_axis(result, places, x, axis)
    return result


@op
def nth_element(input: Spec, n: Ints, reverse: bool = False) -> Spec:
    """The element at position `n` of the last axis, sorted in rising or, if `reverse`, falling order.

    Equal elements share the gradient evenly. InvalidArgumentError if the axis has at most `n` elements.

    Examples:
        >>> await session.run(af.nth_element([5, 1, 3], 1))
        np.int32(3)
    """
    number = known.scalar(n, "n")
    if input.rank == 0:
        raise ValueError("rank 1 or more is needed, the shape is []")
    size = known.size_at(input, -1)
    if number is not None and (number < 0 or (size is not None and number >= size)):
        raise ValueError(f"n {number} is out of range for size {size}")
    return Spec(input.only(INTEGER, FLOAT).dtype, input.shape[:-1])


@nth_element.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor | None, None]:
    x, y = op.inputs[0], op.outputs[0]
    chosen = cast(equal(x, expand_dims(y, -1)), x.dtype)
    return chosen * expand_dims(dy / reduce_sum(chosen, -1), -1), None


@nth_element.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array, Array], Array]:
    reverse, dtype = node.attrs["reverse"], node.output_specs[0].dtype
    wide = _comparable(xp, dtype)

    def element(x: Array, n: Array) -> Array:
        size, place = x.shape[-1], int(n)
        if not 0 <= place < size:
            raise ValueError(f"n {place} is out of range for size {size}")
        place = size - 1 - place if reverse else place
        return xp.partition(x.astype(wide, copy=False), place, axis=-1)[..., place].astype(dtype.np)

    return element


for _op in (sort, argsort, nth_element):
    costs(_op, 30.0)


def _in_order(name: str, compare: Op[Tensor], doc: str) -> Callable[..., Tensor]:
    """A test of every element, in row-major order, with the one after it."""

    def test(x: TensorLike, name: str | None = None) -> Tensor:
        value = convert_to_tensor(x)
        with same_graph(value).name_scope(name or label) as scope:
            flat = reshape(value, [-1])
            return reduce_all(compare(flat[:-1], flat[1:]), name=scope)

    label = test.__name__ = test.__qualname__ = name
    test.__doc__ = doc
    return transactional(test)


is_non_decreasing: Final = _in_order(
    "is_non_decreasing", less_equal,
    """Whether no element is less than the one before it, in row-major order; true of fewer than two.

    Examples:
        >>> await session.run(af.is_non_decreasing([1, 1, 2]))
        np.True_
    """,
)  # fmt: skip
is_strictly_increasing: Final = _in_order(
    "is_strictly_increasing", less,
    """Whether every element is greater than the one before it, in row-major order; true of fewer than two.

    Examples:
        >>> await session.run(af.is_strictly_increasing([1, 1, 2]))
        np.False_
    """,
)  # fmt: skip

OPERATORS.update(sort=sort, argsort=argsort)
