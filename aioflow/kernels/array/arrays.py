"""Ops that put the elements of one tensor in another order, repeat them, or lay them on a diagonal."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels import known
from aioflow.kernels.array.concat import stack, unstack
from aioflow.kernels.array.dynamic_axes import along, permute
from aioflow.kernels.array.shapes import broadcast_to, free, reshape, shape, size
from aioflow.kernels.families import CPU, GPU, from_sizes
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Array, Namespace, Spec, TensorShape
from aioflow.tensors.object_arrays import copy_array

Function = Callable[..., Any]


@op
def transpose(a: Spec, perm: Sequence[int] | None = None, name: str | None = None, conjugate: bool = False) -> Spec:
    """`a` with its axes in the order `perm`, by default reversed: axis i of the result is axis `perm[i]` of `a`.

    With `conjugate`, the complex conjugate of that.

    Examples:
        >>> await session.run(af.transpose([[1, 2, 3], [4, 5, 6]]))
        array([[1, 4],
               [2, 5],
               [3, 6]], dtype=int32)
    """
    if perm is None:
        return Spec(a.dtype, a.shape if a.sizes is None else TensorShape(a.sizes[::-1]))
    if sorted(perm) != list(range(len(perm))):
        raise ValueError(f"perm {list(perm)} is not a permutation of the axes 0 to {len(perm) - 1}")
    sizes = a.with_rank(len(perm), f"a, for perm {list(perm)}").sizes
    assert sizes is not None
    kept = list(perm) == sorted(perm)
    return Spec(a.dtype, a.shape if kept else TensorShape([sizes[place] for place in perm]))


@transpose.dynamic("perm")
def _(a: Tensor, perm: Tensor, conjugate: bool) -> Tensor:
    moved = permute(a, perm)
    return OPERATORS["conj"](moved) if conjugate else moved


@transpose.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    perm, conjugate = op.attrs["perm"], op.attrs["conjugate"]
    back = None if perm is None else sorted(range(len(perm)), key=perm.__getitem__)
    return transpose(dy, back, conjugate=conjugate)


@transpose.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    perm = node.attrs["perm"]
    if node.attrs["conjugate"] and node.input_specs[0].dtype.is_complex:
        return lambda x: xp.conj(x.transpose(perm))
    return (lambda x: x.T) if perm is None else lambda x: x.transpose(perm)


@op
def matrix_transpose(a: Spec, name: str | None = None, conjugate: bool = False) -> Spec:
    """`a` with its last two axes swapped; with `conjugate`, the adjoint of each matrix.

    Examples:
        >>> await session.run(af.matrix_transpose([[1, 2], [3, 4]]))
        array([[1, 3],
               [2, 4]], dtype=int32)
    """
    if a.sizes is None:
        return Spec(a.dtype)
    if len(a.sizes) < 2:
        raise ValueError(f"rank 2 or more is needed, the shape is {a.shape}")
    *batch, rows, columns = a.sizes
    return Spec(a.dtype, TensorShape([*batch, columns, rows]))


@matrix_transpose.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return matrix_transpose(dy, conjugate=op.attrs["conjugate"])


@matrix_transpose.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    if node.attrs["conjugate"] and node.input_specs[0].dtype.is_complex:
        return lambda x: xp.conj(x.swapaxes(-1, -2))
    return lambda x: x.swapaxes(-1, -2)


@op
def tile(input: Spec, multiples: Ints) -> Spec:
    """`input` repeated `multiples[i]` times along axis i.

    Examples:
        >>> await session.run(af.tile([1, 2], [2]))
        array([1, 2, 1, 2], dtype=int32)
    """
    times = known.shape(multiples, "multiples").sizes
    if times is None:
        return Spec(input.dtype, input.shape if input.sizes is None else TensorShape((None,) * len(input.sizes)))
    sizes = input.with_rank(len(times), f"input, for {len(times)} multiples").sizes
    assert sizes is not None
    if all(time == 1 for time in times):
        return Spec(input.dtype, input.shape)
    pairs = zip(sizes, times, strict=True)
    return Spec(input.dtype, TensorShape([None if None in (a, b) else a * b for a, b in pairs]))  # type: ignore[operator]


@tile.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    x, multiples = op.inputs
    rank = x.spec.rank if multiples.spec.sizes is None else multiples.spec.sizes[0]
    if rank is None:
        raise ValueError("the gradient of tile needs the rank of its input, which is not known")
    return OPERATORS["reduce_sum"](reshape(dy, _pairs(x, multiples)), list(range(0, 2 * rank, 2))), None


def _pairs(x: Tensor, multiples: Tensor) -> Any:
    """The shape in which each axis of a tiled `x` is two: the repetitions and the axis itself."""
    times, sizes = known.vector(multiples.spec, "multiples"), x.spec.sizes
    if times is not None and sizes is not None:
        flat = [part for pair in zip(times, sizes, strict=True) for part in pair]
        if None not in flat or (flat.count(None) == 1 and 0 not in flat):
            return [-1 if part is None else part for part in flat]
    return reshape(stack([multiples, shape(x, out_type=multiples.dtype)], 1), [-1])


@tile.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    times = known.constant(node, 1)
    return lambda x, multiples: _tiled(xp, x, tuple(multiples.tolist()) if times is None else times)


def _tiled(xp: Namespace, x: Array, times: tuple[int, ...]) -> Array:
    if len(times) != x.ndim or (times and min(times) < 0):
        raise ValueError(f"multiples {list(times)} do not fit an array of rank {x.ndim}")
    if x.dtype == object:
        pairs = [part for pair in zip(times, x.shape, strict=True) for part in pair]
        whole = np.broadcast_to(x.reshape([part for size in x.shape for part in (1, size)]), pairs)
        return copy_array(whole).reshape([time * size for time, size in zip(times, x.shape, strict=True)])
    if times and set(times[1:]) <= {1}:  # copying whole blocks is fastest
        result = xp.empty((times[0], *x.shape), x.dtype)
        result[...] = x
    else:
        result = xp.empty([part for pair in zip(times, x.shape, strict=True) for part in pair], x.dtype)
        result[...] = x.reshape([part for size in x.shape for part in (1, size)])
    return result.reshape([time * size for time, size in zip(times, x.shape, strict=True)])


@op
def reverse(tensor: Spec, axis: int | Sequence[int]) -> Spec:
    """`tensor` with the elements along these axes in the opposite order.

    Examples:
        >>> await session.run(af.reverse([[1, 2], [3, 4]], axis=[1]))
        array([[2, 1],
               [4, 3]], dtype=int32)
    """
    axes = _axes(axis)
    places = [tensor.axis(item) for item in axes]
    if len(set(places)) != len(places):
        raise ValueError(f"axes {list(axes)} name one axis twice")
    values = tensor.known[::-1] if isinstance(tensor.known, tuple) and places else tensor.known
    return Spec(tensor.dtype, tensor.shape, values)


def _axes(axis: Any) -> tuple[int, ...]:
    return (axis,) if isinstance(axis, int) else tuple(axis)


@reverse.dynamic("axis")
def _(tensor: Tensor, axis: Tensor) -> Tensor:
    for each in [axis] if axis.spec.rank == 0 else unstack(axis):
        tensor = along(reverse, tensor, each)
    return tensor


@reverse.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return reverse(dy, op.attrs["axis"])


@reverse.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    axes, rank = _axes(node.attrs["axis"]), node.input_specs[0].rank
    if rank is None:
        return lambda x: xp.flip(x, axes)
    places = {dtypes.normalise_axis(axis, rank) for axis in axes}
    index = tuple([slice(None, None, -1) if place in places else slice(None) for place in range(rank)])
    return lambda x: x[index]


@op
def diag(diagonal: Spec) -> Spec:
    """`diagonal` where the first half of the indices equals the second, 0 elsewhere: the rank is twice as high.

    Examples:
        >>> await session.run(af.diag([1, 2]))
        array([[1, 0],
               [0, 2]], dtype=int32)
    """
    diagonal.only(dtypes.NUMERIC, dtypes.BOOL)
    if diagonal.rank == 0:
        raise ValueError("rank 1 or more is needed, the shape is []")
    return Spec(diagonal.dtype, diagonal.shape.concatenate(diagonal.shape))


@op
def diag_part(input: Spec) -> Spec:
    """The elements of `input` where the first half of the indices equals the second: the inverse of `diag`.

    Examples:
        >>> await session.run(af.diag_part([[1, 2], [3, 4]]))
        array([1, 4], dtype=int32)
    """
    if input.sizes is None:
        return Spec(input.dtype)
    half, odd = divmod(len(input.sizes), 2)
    if odd or not half:
        raise ValueError(f"an even rank of 2 or more is needed, the shape is {input.shape}")
    first, second = TensorShape(input.sizes[:half]), TensorShape(input.sizes[half:])
    return Spec(input.dtype, first.merge_with(second))


from_sizes(diag)


@diag.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return diag_part(dy)


@diag_part.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return diag(dy)


@diag.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, x: Array) -> Array:
    result = xp.zeros(x.shape + x.shape, x.dtype)
    result.reshape(-1)[:: x.size + 1] = x.reshape(-1)
    return result


@diag_part.kernel(CPU, GPU)
def _(xp: Namespace, x: Array) -> Array:
    sizes = x.shape[: x.ndim // 2]
    if x.shape != sizes + sizes:
        raise ValueError(f"shape {list(x.shape)} does not consist of two equal halves")
    return x.reshape(-1)[:: math.prod(sizes) + 1].reshape(sizes)


@transactional
def meshgrid(*args: Any, indexing: str = "xy", name: str | None = None) -> list[Tensor]:
    """The coordinates of each point of the grid that these vectors span: one tensor per vector.

    With "ij" axis i belongs to vector i; with "xy" the first two are swapped.

    Examples:
        >>> await session.run(af.meshgrid([1, 2], [3, 4]))
        [array([[1, 2],
               [1, 2]], dtype=int32), array([[3, 3],
               [4, 4]], dtype=int32)]
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing is 'xy' or 'ij', not {indexing!r}")
    count = len(args)
    order = [1, 0, *range(2, count)] if indexing == "xy" and count > 1 else list(range(count))
    vectors = [reshape(value, [-1]) for value in args]
    whole = stack([size(vectors[place]) for place in order]) if vectors else None
    placed = [reshape(vector, [-1 if place == i else 1 for place in order]) for i, vector in enumerate(vectors)]
    return [broadcast_to(vector, whole, name=name) for vector in placed]


for _op in (transpose, matrix_transpose, reverse, diag_part):
    free(_op)
OPERATORS.update(transpose=transpose, matrix_transpose=matrix_transpose, tile=tile, reverse=reverse)
