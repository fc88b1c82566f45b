"""Gathers elements and rows by indices, scatters them, and converts element numbers to positions."""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aioflow.graph.composed import dispatching
from aioflow.graph.convert import NumberLike, TensorLike
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Indices, Ints, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels import known
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.dynamic_axes import order_with_last, permute
from aioflow.kernels.array.shapes import rank, reshape, shape, shape_of, size
from aioflow.kernels.families import CPU, GPU
from aioflow.kernels.math.segments import add_rows, check_constants, check_range
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import BOOL, NUMERIC, STRING, Array, DType, Known, Namespace, Sizes, Spec, TensorShape

Function = Callable[..., Any]


@op(name="gather")
def _gather(params: Spec, indices: Indices, axis: int = 0, batch_dims: int = 0) -> Spec:
    """The slices of `params` along `axis` that `indices` name; the first `batch_dims` axes of both go together."""
    known.integers(indices, "indices")
    if params.sizes is None or indices.sizes is None:
        return Spec(params.dtype)
    place, batch = _places(axis, batch_dims, len(params.sizes), len(indices.sizes))
    first = TensorShape(params.sizes[:batch]).merge_with(indices.sizes[:batch])
    assert first.sizes is not None
    sizes = first.sizes + params.sizes[batch:place] + indices.sizes[batch:] + params.sizes[place + 1 :]
    _check_known(indices.known, params.sizes[place])
    return Spec(params.dtype, TensorShape(sizes), _known_at(params.known, indices.known))


def _places(axis: int, batch_dims: int, rank: int, of_indices: int) -> tuple[int, int]:
    """Axis and number of batch axes counted from the front. ValueError if they do not fit the ranks."""
    place = dtypes.normalise_axis(axis, rank)
    batch = batch_dims + of_indices if batch_dims < 0 else batch_dims
    if not 0 <= batch <= min(of_indices, place):
        raise ValueError(f"batch_dims {batch_dims} does not fit axis {axis} and indices of rank {of_indices}")
    return place, batch


def _check_known(places: Known, size: int | None) -> None:
    for place in places if isinstance(places, tuple) else (places,):
        if place is not None and size is not None and not 0 <= place < size:
            raise ValueError(f"index {place} is out of range for size {size}")


def _known_at(values: Known, places: Known) -> Known:
    if not isinstance(values, tuple) or places is None:
        return None
    if isinstance(places, int):
        return values[places]
    return known.capped([None if place is None else values[place] for place in places])


@_gather.dynamic("axis")
def _(params: Tensor, indices: Tensor, axis: Tensor, batch_dims: int) -> Tensor:
    """The slices along the last axis, and the axes of the indices moved to its place."""
    perm = order_with_last(params, axis)
    batch = batch_dims + rank(indices) if batch_dims < 0 else batch_dims
    place, last = perm[-1], rank(params) - 1
    steps = OPERATORS["range"]
    order = concat([steps(place), steps(last, last + rank(indices) - batch), steps(place, last)], 0)
    return permute(_gather(permute(params, perm), indices, -1, batch_dims), order)


@_gather.check
def _(params: Spec | Array, indices: Spec | Array, axis: int, batch_dims: int) -> None:
    sizes = known.sizes_of(params)
    check_constants(indices, None if sizes is None else sizes[dtypes.normalise_axis(axis, len(sizes))])


@_gather.gradient
def gather_gradient(op: Operation, dy: Tensor) -> tuple[Any, None]:
    """Of whole rows the IndexedSlices, else one dense tensor."""
    params, indices = op.inputs
    axis, batch = op.attrs["axis"], op.attrs["batch_dims"]
    if axis or batch or params.spec.sizes is None:
        return gather_grad(dy, params, indices, axis, batch), None
    rows = params.spec.sizes[1:]
    sizes: Any = [-1, *rows]
    if None in rows or 0 in rows:
        sizes = concat([[size(indices)], shape(params)[1:]], 0)
    return IndexedSlices(reshape(dy, sizes), reshape(indices, [-1]), shape_of(params)), None


_gather.moves = True


@_gather.kernel(GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    axis, batch = node.attrs["axis"], node.attrs["batch_dims"]
    if batch:
        return lambda params, indices: _gathered(xp, params, indices, axis, batch)
    return lambda params, indices: params.take(indices, axis=axis)


@_gather.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    axis, batch = node.attrs["axis"], node.attrs["batch_dims"]
    if batch:
        return lambda params, indices: _gathered(np, params, indices, axis, batch)
    ready = _READY.get(node.input_specs[1].dtype, _not_negative)

    def take(params: Array, indices: Array) -> Array:
        try:
            return params.take(ready(indices), axis)
        except IndexError:
            check_range(np, indices, params.shape[axis])
            raise

    if node.input_specs[0].dtype is dtypes.string:
        return lambda params, indices: np.asarray(take(params, indices), params.dtype)
    return take


def _not_negative(indices: Array) -> Array:
    """`indices` for NumPy, which would accept negative ones. IndexError if one is negative."""
    if indices.size and indices.min() < 0:
        raise IndexError(f"index {indices.min()} is negative")
    return indices.astype(np.intp, copy=False)


_READY: Final[dict[DType, Callable[[Array], Array]]] = {
    dtypes.int32: lambda indices: indices.view(np.uint32),  # a negative one is too large then, at no cost
    dtypes.uint8: lambda indices: indices,
    dtypes.uint16: lambda indices: indices,
    dtypes.uint32: lambda indices: indices,
}


def _gathered(xp: Namespace, params: Array, indices: Array, axis: int, batch_dims: int) -> Array:
    """Rows of all batches, numbered through, by one index."""
    place, batch = _places(axis, batch_dims, params.ndim, indices.ndim)
    if params.shape[:batch] != indices.shape[:batch]:
        raise ValueError(f"the first {batch} sizes of {list(params.shape)} and {list(indices.shape)} differ")
    check_range(xp, indices, params.shape[place])
    moved = xp.moveaxis(params, place, batch)
    rows = moved.reshape((math.prod(moved.shape[: batch + 1]), *moved.shape[batch + 1 :]))
    found = rows.take(_numbered(xp, indices, batch, params.shape[place]), axis=0)
    return xp.moveaxis(found, range(batch, indices.ndim), range(place, place + indices.ndim - batch))


def _numbered(xp: Namespace, indices: Array, batch: int, size: int) -> Array:
    """`indices` into rows of `size`, as indices into the rows of all batches."""
    first = xp.arange(math.prod(indices.shape[:batch])) * size
    return indices + first.reshape(indices.shape[:batch] + (1,) * (indices.ndim - batch))


@op
def gather_grad(dy: Spec, params: Spec, indices: Indices, axis: int, batch_dims: int) -> Spec:
    """The gradient of `gather` for `params`: each slice of `dy` added to the one it came from."""
    return Spec(dy.dtype, params.shape)


@gather_grad.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None, None]:
    return _gather(dy, op.inputs[2], op.attrs["axis"], op.attrs["batch_dims"]), None, None


@gather_grad.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    axis, batch_dims, dtype = node.attrs["axis"], node.attrs["batch_dims"], node.output_specs[0].dtype

    def scattered(dy: Array, params: Array, indices: Array) -> Array:
        place, batch = _places(axis, batch_dims, params.ndim, indices.ndim)
        check_range(xp, indices, params.shape[place])
        rows = xp.moveaxis(dy, range(place, place + indices.ndim - batch), range(batch, indices.ndim))
        sizes = (*params.shape[:batch], params.shape[place])
        places = _numbered(xp, indices, batch, params.shape[place])
        total = add_rows(xp, rows, places, math.prod(sizes), dtype)
        return xp.moveaxis(total.reshape(sizes + rows.shape[indices.ndim :]), batch, place)

    return scattered


@dispatching
def gather(
    params: TensorLike,
    indices: NumberLike,
    validate_indices: Any = None,
    name: str | None = None,
    axis: int | None = None,
    batch_dims: int = 0,
) -> Tensor:
    """The slices of `params` along `axis` that `indices` name.

    The shape is `params.shape[:axis] + indices.shape[batch_dims:] + params.shape[axis + 1:]`; the first `batch_dims`
    axes of `params` and `indices` go together, and `axis` is by default the one after them. `validate_indices` has no
    meaning: indices are checked on a CPU, and a GPU takes them modulo the size.

    Raises:
        InvalidArgumentError: an index is negative or not below the size of the axis.

    Examples:
        >>> await session.run(af.gather([[1, 2], [3, 4], [5, 6]], [2, 0]))
        array([[5, 6],
               [1, 2]], dtype=int32)
    """
    return _gather(params, indices, batch_dims if axis is None else axis, batch_dims, name=name)


@op
def ensure_index(indices: Indices, size: Ints) -> Spec:
    """`indices` itself, all of which are from 0 on and below `size`, else InvalidArgumentError."""
    _check_known(known.integers(indices, "indices").known, known.scalar(size, "size"))
    return indices


ensure_index.no_gradient("its elements are integers")


@ensure_index.check
def _(indices: Spec | Array, size: Spec | Array) -> None:
    check_constants(indices, known.number(size))


@ensure_index.kernel(CPU, GPU)
def _(xp: Namespace, indices: Array, size: Array) -> Array:
    if xp is np:
        check_range(np, indices, int(size))
    return indices


@op
def gather_nd(params: Spec, indices: Indices) -> Spec:
    """The elements or slices of `params` at the positions along the last axis of `indices`.

    The shape is `indices.shape[:-1] + params.shape[indices.shape[-1]:]`.
    InvalidArgumentError if a position lies outside.
    """
    return Spec(params.dtype, _nd_shape(params.shape, indices))


def _nd_shape(whole: TensorShape, indices: Spec) -> TensorShape:
    """The shape of the result of gathering positions from an array of shape `whole`."""
    known.integers(indices, "indices")
    if indices.sizes is None or whole.sizes is None:
        return dtypes.UNKNOWN
    if not indices.sizes:
        raise ValueError("indices of rank 1 or more are needed")
    *batch, depth = indices.sizes
    if depth is None:
        return dtypes.UNKNOWN
    if depth > len(whole.sizes):
        raise ValueError(f"positions of {depth} numbers do not fit shape {whole}")
    return TensorShape((*batch, *whole.sizes[depth:]))


@gather_nd.check
def check_positions(whole: Spec | Array, indices: Spec | Array) -> None:
    """ValueError naming a number of constant positions that is out of range for the shape of `whole`."""
    check_constant_positions(indices, known.sizes_of(whole))


def check_constant_positions(indices: Spec | Array, sizes: Sizes | None) -> None:
    """The same for a shape that is given."""
    if sizes is not None and not isinstance(indices, Spec):
        for axis, bound in enumerate(sizes[: indices.shape[-1]]):
            check_constants(indices[..., axis], bound, where=f" along axis {axis}")


@gather_nd.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    return scatter_nd(op.inputs[1], dy, shape_of(op.inputs[0])), None


gather_nd.moves = True


@gather_nd.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, params: Array, indices: Array) -> Array:
    depth = indices.shape[-1]
    rows = params.reshape((math.prod(params.shape[:depth]), *params.shape[depth:]))
    found = rows.take(_flattened(xp, indices, params.shape[:depth]), axis=0)
    return np.asarray(found, object) if params.dtype == object else found


def _flattened(xp: Namespace, indices: Array, sizes: tuple[int, ...]) -> Array:
    """Positions in an array of these sizes as numbers of its elements, last axis fastest."""
    if indices.shape[-1] != len(sizes):
        raise ValueError(f"positions of {indices.shape[-1]} numbers do not fit shape {list(sizes)}")
    flat = xp.zeros(indices.shape[:-1], np.intp)
    for axis, bound in enumerate(sizes):
        check_range(xp, indices[..., axis], bound, where=f" along axis {axis}")
        flat = flat * bound + indices[..., axis]
    return flat


@op
def scatter_nd(indices: Indices, updates: Spec, shape: Ints) -> Spec:
    """Zeros of that shape, with `updates` added at the positions along the last axis of `indices`.

    Bools begin as false, and are joined by `or`; strings begin empty, and are joined in their order.

    Examples:
        >>> await session.run(af.scatter_nd([[1], [3]], [10, 20], [5]))
        array([ 0, 10,  0, 20,  0], dtype=int32)
    """
    updates.only(NUMERIC, BOOL, STRING)
    whole = known.shape(shape)
    updates.shape.merge_with(_nd_shape(whole, indices))
    return Spec(updates.dtype, whole)


@scatter_nd.check
def _(indices: Spec | Array, updates: Spec | Array, shape: Spec | Array) -> None:
    check_constant_positions(indices, known.plain(shape) if not isinstance(shape, Spec) else None)


@scatter_nd.gradient
def _(op: Operation, dy: Tensor) -> tuple[None, Tensor, None]:
    return None, gather_nd(dy, op.inputs[0]), None


@scatter_nd.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    dtype, known_sizes = node.output_specs[0].dtype, known.constant(node, 2)

    def scattered(indices: Array, updates: Array, shape: Array) -> Array:
        sizes = tuple(shape.tolist()) if known_sizes is None else known_sizes
        depth = indices.shape[-1]
        if updates.shape != indices.shape[:-1] + sizes[depth:]:
            raise ValueError(f"updates of shape {list(updates.shape)} do not fit shape {list(sizes)}")
        places = xp.asarray(_flattened(xp, indices, sizes[:depth]))
        return add_rows(xp, updates, places, math.prod(sizes[:depth]), dtype).reshape(sizes)

    return scattered


OPERATORS.update(gather=gather, gather_nd=gather_nd, scatter_nd=scatter_nd)


@op
def unravel_index(indices: Indices, dims: Ints) -> Spec:
    """The positions of elements, given by their numbers, in an array of sizes `dims`, the last axis counting fastest.

    The shape is [len(dims), *indices.shape]. InvalidArgumentError if a number is out of range.

    Examples:
        >>> await session.run(af.unravel_index([5], [2, 3]))
        array([[1],
               [2]], dtype=int32)
    """
    axes = TensorShape.vector(known.length(dims, "dims"))
    return Spec(known.integers(indices, "indices").dtype, axes.concatenate(indices.shape))


unravel_index.no_gradient("positions do not vary smoothly")


@unravel_index.check
def _(indices: Spec | Array, dims: Spec | Array) -> None:
    if not isinstance(dims, Spec):
        check_constants(indices, math.prod(known.plain(dims)))


@unravel_index.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, indices: Array, dims: Array) -> Array:
    sizes = known.plain(dims)
    check_range(xp, indices, math.prod(sizes))
    positions = xp.empty((len(sizes), *indices.shape), indices.dtype)
    for axis in range(len(sizes) - 1, -1, -1):
        positions[axis] = indices % (sizes[axis] or 1)
        indices = indices // (sizes[axis] or 1)
    return positions


OPERATORS["unravel_index"] = unravel_index
