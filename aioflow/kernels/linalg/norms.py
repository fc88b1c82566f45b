"""Traces, norms and ranks."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.graph.params import renamed
from aioflow.kernels import known
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.shapes import expand_dims
from aioflow.kernels.families import CPU, GPU, NARROW, shape_vector
from aioflow.kernels.linalg.decompositions import svd
from aioflow.kernels.linalg.matmul import matmul as matmul
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import greater
from aioflow.kernels.math.elementwise import abs, sqrt, square
from aioflow.kernels.math.reduction import reduce_max, reduce_sum
from aioflow.tensors.dtypes import NUMERIC, Array, Namespace, Spec, int32

# Traces


@op
def trace(x: Spec) -> Spec:
    """The sum of the diagonal of each matrix in the last two axes.

    Examples:
        >>> await session.run(af.trace([[1, 2], [3, 4]]))
        np.int32(5)
    """
    x.only(NUMERIC)
    if x.rank is not None and x.rank < 2:
        raise ValueError(f"a matrix has at least rank 2, the shape is {x.shape}")
    return Spec(x.dtype, x.shape[:-2])


@op
def on_diagonal(x: Spec, shape: Ints) -> Spec:
    """Matrices of `shape`, each with one element of x all along its diagonal, 0 elsewhere: the gradient of `trace`."""
    whole = known.shape(shape)
    if not whole[:-2].is_compatible_with(x.shape):
        raise ValueError(f"{x.shape} is not the shape of the traces of {whole}")
    return Spec(x.dtype, whole)


@trace.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return on_diagonal(dy, shape_vector(op.inputs[0]))


@on_diagonal.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    return trace(dy), None


@trace.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    dtype = node.output_specs[0].dtype
    wide = xp.float32 if dtype in NARROW else dtype.np
    return lambda x: xp.trace(x, axis1=-2, axis2=-1, dtype=wide).astype(dtype.np, copy=False)


@on_diagonal.kernel(CPU, GPU, fresh=True)
def _(xp: Namespace, x: Array, shape: Array) -> Array:
    y = xp.zeros(tuple(shape.tolist()), x.dtype)
    diagonal = xp.arange(min(y.shape[-2:]))
    y[..., diagonal, diagonal] = x[..., None]
    return y


# Norms


@transactional
def norm(
    tensor: NumberLike,
    ord: Any = "euclidean",
    axis: int | Sequence[int] | None = None,
    keepdims: bool | None = None,
    name: str | None = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """The norm of vectors along one axis, of matrices in two, or of all elements as one vector if `axis` is None.

    Args:
        tensor: real or complex numbers.
        ord: "euclidean" ("fro" for matrices), infinity, 1, 2 or, for vectors, any positive number.
        axis: None, one axis, or a pair of axes.
        keepdims: whether the axes stay, with size 1.
        name: the name of the result.
        keep_dims: an older name for `keepdims`.

    Raises:
        ValueError: the norm is unknown.

    Examples:
        >>> await session.run(af.norm([3.0, 4.0]))
        np.float32(5.0)
    """
    keepdims = renamed("keepdims", keepdims, keep_dims)
    x = convert_to_tensor(tensor)
    axes = tuple(int(i) for i in axis) if isinstance(axis, (list, tuple)) else axis
    if isinstance(axes, tuple) and len(axes) != 2:
        raise ValueError(f"norm: axis is None, one axis or a pair, not {axis}")
    of_matrices = isinstance(axes, tuple)
    if ord == "euclidean" or (ord == "fro" and (of_matrices or axes is None)) or (ord == 2 and not of_matrices):
        return sqrt(reduce_sum(square(abs(x) if x.dtype.is_complex else x), axes, keepdims), name=name)
    size = abs(x)
    if isinstance(axes, tuple):
        return _spectral(x, axes, keepdims, name) if ord == 2 else _matrix_norm(size, ord, axes, keepdims, name)
    if ord == math.inf:
        return reduce_max(size, axes, keepdims, name=name)
    if ord == 1:
        return reduce_sum(size, axes, keepdims, name=name)
    if isinstance(ord, str) or ord <= 0:
        raise ValueError(f"norm: {ord!r} is not a norm of vectors; use 'euclidean', infinity or a positive number")
    return OPERATORS["pow"](reduce_sum(OPERATORS["pow"](size, ord), axes, keepdims), 1 / ord, name=name)


def _matrix_norm(size: Tensor, ord: Any, axes: tuple[int, ...], keepdims: bool | None, name: str | None) -> Tensor:
    """The greatest sum of a column (1) or of a row (infinity)."""
    if ord not in (1, math.inf):
        raise ValueError(f"norm: {ord!r} is not a norm of matrices; use 'euclidean', 'fro', 1, 2 or infinity")
    first, second = axes if ord == 1 else axes[::-1]
    sums = reduce_sum(size, first, keepdims=True)
    if keepdims:
        return reduce_max(sums, second, keepdims=True, name=name)
    return OPERATORS["squeeze"](reduce_max(sums, second, keepdims=True), axes, name=name)


def _spectral(x: Tensor, axes: tuple[int, ...], keepdims: bool | None, name: str | None) -> Tensor:
    """The greatest singular value."""
    if x.spec.rank is None:
        raise ValueError("norm: norm 2 of matrices needs to know the rank")
    places = [x.spec.axis(axis) for axis in axes]
    others = [axis for axis in range(x.spec.rank) if axis not in places]
    values = svd(transpose(x, [*others, *places]), compute_uv=False)
    greatest = reduce_max(values, -1, name=None if keepdims else name)
    for axis in sorted(places) if keepdims else ():
        greatest = expand_dims(greatest, axis, name=name if axis == max(places) else None)
    return greatest


@transactional
def normalize(
    tensor: NumberLike, ord: Any = "euclidean", axis: int | Sequence[int] | None = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """The tensor divided by its norms, and these norms, whose axes stay with size 1; see `norm`.

    Examples:
        >>> await session.run(af.linalg.normalize([3.0, 4.0]))
        (array([0.6, 0.8], dtype=float32), array([5.], dtype=float32))
    """
    x = convert_to_tensor(tensor)
    size = cast(norm(x, ord, axis, keepdims=True), x.dtype)
    return OPERATORS["truediv"](x, size, name=name or "normalize"), size


@transactional
def matrix_rank(
    a: NumberLike, tol: NumberLike | None = None, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """The number of singular values above `tol`, of each matrix.

    Args:
        a: [..., m, n].
        tol: by default the greater side times the dtype's precision times the greatest singular value of each matrix.
        validate_args: has no meaning, since the shape is always checked.
        name: the name of the result.

    Examples:
        >>> await session.run(af.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]]))
        np.int32(1)
    """
    x = convert_to_tensor(a)
    values = svd(x, compute_uv=False)
    if tol is None:
        side = cast(reduce_max(OPERATORS["shape"](x)[-2:]), values.dtype)
        least = reduce_max(values, -1, keepdims=True) * (side * float(np.finfo(values.dtype.np).eps))
    else:
        least = convert_to_tensor(tol, values.dtype)
    return reduce_sum(cast(greater(values, least), int32), -1, name=name or "matrix_rank")


__all__ = ["norm", "trace"]

OPERATORS.update({name: globals()[name] for name in __all__})
