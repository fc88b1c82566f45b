"""Products of matrices and tensors, traces and norms."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioflow import errors
from aioflow.convert import TensorLike, convert_to_tensor
from aioflow.dtypes import NUMERIC, UNKNOWN, Array, Namespace, Spec, TensorShape, merge_sizes, normalise_axis
from aioflow.graph import transactional
from aioflow.kernels.broadcasting import known_shape
from aioflow.kernels.complex import conj
from aioflow.kernels.families import CPU, GPU, NARROW, NodeView, elements, shape_vector, sum_along
from aioflow.kernels.math import abs, sqrt, square
from aioflow.kernels.reduction import reduce_max, reduce_prod, reduce_sum
from aioflow.node import OPERATORS, Operation, Tensor
from aioflow.op import Ints, T, op

Product = Callable[..., Array]


@op
def matmul(
    a: T,
    b: T,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
) -> Spec:
    """The matrix product of a and b, each optionally transposed, or transposed and conjugated.

    Tensors of higher rank are batches of matrices in their last two axes; the axes before broadcast by NumPy's rule.
    Narrow floats are multiplied as float32 on the CPU and rounded once.
    """
    if (transpose_a and adjoint_a) or (transpose_b and adjoint_b):
        raise ValueError("a matrix is either transposed or adjoint, not both")
    a.only(NUMERIC).same_dtype(b)
    for spec in (a, b):
        if spec.rank is not None and spec.rank < 2:
            raise ValueError(f"a matrix has at least rank 2, the shape is {spec.shape}")
    return Spec(a.dtype, _product_shape(a, b, transpose_a or adjoint_a, transpose_b or adjoint_b))


def _product_shape(a: Spec, b: Spec, flip_a: bool, flip_b: bool) -> TensorShape:
    if a.sizes is None or b.sizes is None:
        return UNKNOWN
    rows, inner = a.sizes[-2:][:: -1 if flip_a else 1]
    other, columns = b.sizes[-2:][:: -1 if flip_b else 1]
    try:
        merge_sizes(inner, other)
    except ValueError:
        raise ValueError(f"the inner sizes {inner} and {other} differ") from None
    if not flip_a and len(b.sizes) == 2 and columns is not None and columns == inner:
        return a.shape
    batch = Spec(a.dtype, TensorShape(a.sizes[:-2])).broadcast(Spec(b.dtype, TensorShape(b.sizes[:-2])))
    return batch.concatenate((rows, columns))


@matmul.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, Tensor]:
    a, b = op.inputs
    flip_a, flip_b, adjoint_a, adjoint_b = _flips(op.attrs)
    x, y = a if adjoint_a else conj(a), b if adjoint_b else conj(b)
    da = matmul(y, dy, flip_b, True) if flip_a else matmul(dy, y, transpose_b=not flip_b)
    if _is_layer(a, b) and not flip_a:
        inner, columns = (b.spec.sizes or ())[:: -1 if flip_b else 1]
        x, dy = OPERATORS["reshape"](x, [-1, inner]), OPERATORS["reshape"](dy, [-1, columns])
    db = matmul(dy, x, True, flip_a) if flip_b else matmul(x, dy, transpose_a=not flip_a)
    da, db = conj(da) if adjoint_a else da, conj(db) if adjoint_b else db
    return _unbatched(a, da, b), _unbatched(b, db, a)


def _flips(attrs: Any) -> tuple[bool, bool, bool, bool]:
    adjoint_a, adjoint_b = attrs["adjoint_a"], attrs["adjoint_b"]
    return attrs["transpose_a"] or adjoint_a, attrs["transpose_b"] or adjoint_b, adjoint_a, adjoint_b


def _is_layer(a: Tensor, b: Tensor) -> bool:
    """Whether a batch of matrices meets one matrix of known size: then its gradient is one product, not a batch."""
    return b.spec.rank == 2 and (a.spec.rank or 0) > 2 and all(size for size in b.spec.sizes or (None,))


def _unbatched(operand: Tensor, gradient: Tensor, other: Tensor) -> Tensor:
    """`gradient` summed over the batch axes that `operand` was broadcast along."""
    if other.spec.rank == 2 or gradient.spec.rank == operand.spec.rank == 2:
        return gradient
    sizes = other.spec.sizes
    return sum_along(operand, gradient, None if sizes is None else (*sizes[:-2], 1, 1))


@matmul.cost
def _(inputs: Sequence[Spec], outputs: Sequence[Spec], attrs: Any) -> float:
    flipped = attrs["transpose_a"] or attrs["adjoint_a"]
    inner = UNKNOWN if inputs[0].sizes is None else TensorShape(inputs[0].sizes[-2 if flipped else -1 :][:1])
    return 2 * elements(outputs[0]) * elements(Spec(inputs[0].dtype, inner))


@matmul.kernel(CPU, GPU, out=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Product:
    a, b = node.input_specs
    product = _dot(xp) if a.rank == b.rank == 2 else _batched(xp, _dot(xp))
    return _flipped(xp, product, node)


@matmul.kernel(CPU, fresh=True, binds=True, only=NARROW, priority=1)
def _(xp: Namespace, node: NodeView) -> Product:
    product, dtype = _flipped(xp, _batched(xp, _dot(xp)), node), node.output_specs[0].dtype.np
    return lambda a, b: product(a.astype(xp.float32), b.astype(xp.float32)).astype(dtype)


def _dot(xp: Namespace) -> Product:
    """The product of two matrices by the array's own method: half the overhead of `matmul` for small ones."""
    dot, matmul = xp.ndarray.dot, xp.matmul

    def product(a: Array, b: Array, out: Array | None = None) -> Array:
        if out is None:
            return dot(a, b)
        return dot(a, b, out) if out.flags.c_contiguous else matmul(a, b, out=out)

    return product


def _batched(xp: Namespace, dot: Product) -> Product:
    """The product of batches; by one big product where all matrices of a batch meet the same one."""
    matmul = xp.matmul

    def product(a: Array, b: Array, out: Array | None = None) -> Array:
        if a.ndim < 2 or b.ndim < 2:
            raise errors.InvalidArgumentError(f"matrices have at least rank 2, not {a.ndim} and {b.ndim}")
        if out is not None or b.ndim > 2 or a.ndim == 2 or not a.flags.c_contiguous:
            return matmul(a, b, out=out)
        *batch, inner = a.shape
        return dot(a.reshape(math.prod(batch), inner), b).reshape(*batch, b.shape[1])

    return product


def _flipped(xp: Namespace, product: Product, node: NodeView) -> Product:
    """`product` of what the flags make of a and b; transposing gives views, which BLAS takes as they are."""
    flip_a, flip_b, adjoint_a, adjoint_b = _flips(node.attrs)
    is_complex = node.output_specs[0].dtype.is_complex
    if is_complex and (adjoint_a or adjoint_b):
        plain = product

        def product(a: Array, b: Array, out: Array | None = None) -> Array:
            return plain(a.conj() if adjoint_a else a, b.conj() if adjoint_b else b, out)

    if not (flip_a or flip_b):
        return product
    if not flip_b:
        return lambda a, b, out=None: product(a.swapaxes(-1, -2), b, out)
    if not flip_a:
        return lambda a, b, out=None: product(a, b.swapaxes(-1, -2), out)
    return lambda a, b, out=None: product(a.swapaxes(-1, -2), b.swapaxes(-1, -2), out)


# Traces


@op
def trace(x: Spec) -> Spec:
    """The sum of the diagonal of each matrix in the last two axes."""
    x.only(NUMERIC)
    if x.rank is not None and x.rank < 2:
        raise ValueError(f"a matrix has at least rank 2, the shape is {x.shape}")
    return Spec(x.dtype, x.shape[:-2])


@op
def on_diagonal(x: Spec, shape: Ints) -> Spec:
    """Matrices of `shape`, each with one element of x all along its diagonal, 0 elsewhere: the gradient of `trace`."""
    whole = known_shape(shape)
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


# Built of others


@transactional
def tensordot(a: TensorLike, b: TensorLike, axes: Any, name: str | None = None) -> Tensor:
    """The sum of products over axes of a and b; the result has a's other axes, then b's.

    Args:
        a: a tensor of known rank.
        b: another of the same dtype.
        axes: two sequences of equal length, or two numbers: which axes of a meet which of b; or how many of a's last
            axes meet b's first.
        name: the name of the result.

    Raises:
        ValueError: there are no such axes, their sizes differ, or a rank is not known.
    """
    a, b = _pair(a, b)
    ranks = _known_rank(a), _known_rank(b)
    met_a, met_b = _met(axes, *ranks)
    free_a, free_b = ([i for i in range(r) if i not in met] for r, met in zip(ranks, (met_a, met_b), strict=True))
    left = _as_matrix(a, free_a, met_a)
    right = _as_matrix(b, met_b, free_b)
    sizes = [_size(tensor, i) for tensor, free in ((a, free_a), (b, free_b)) for i in free]
    if len(free_a) == len(free_b) == 1:
        return matmul(left, right, name=name)
    return OPERATORS["reshape"](matmul(left, right), sizes, name=name)


def _pair(a: TensorLike, b: TensorLike) -> tuple[Tensor, Tensor]:
    if isinstance(b, Tensor) and not isinstance(a, Tensor):
        return convert_to_tensor(a, b.dtype), b
    a = convert_to_tensor(a)
    return a, convert_to_tensor(b, a.dtype)


def _known_rank(tensor: Tensor) -> int:
    if tensor.spec.rank is None:
        raise ValueError(f"tensordot: the rank of {tensor!r} must be known")
    return tensor.spec.rank


def _met(axes: Any, rank_a: int, rank_b: int) -> tuple[list[int], list[int]]:
    if isinstance(axes, (int, np.integer)):
        if not 0 <= axes <= min(rank_a, rank_b):
            raise ValueError(f"tensordot: ranks {rank_a} and {rank_b} do not have {axes} axes in common")
        return [*range(rank_a - int(axes), rank_a)], [*range(int(axes))]
    first, second = (np.atleast_1d(np.asarray(each, np.int64)).tolist() for each in axes)
    met = [normalise_axis(i, rank_a) for i in first], [normalise_axis(i, rank_b) for i in second]
    if len(met[0]) != len(met[1]) or any(len({*each}) < len(each) for each in met):
        raise ValueError(f"tensordot: axes {first} and {second} do not pair up")
    return met


def _as_matrix(x: Tensor, rows: list[int], columns: list[int]) -> Tensor:
    order = rows + columns
    sizes = [_total(x, rows), _total(x, columns)]
    if order != sorted(order):
        x = OPERATORS["transpose"](x, order)
    return x if len(rows) == len(columns) == 1 else OPERATORS["reshape"](x, sizes)


def _size(x: Tensor, axis: int) -> Any:
    size = None if x.spec.sizes is None else x.spec.sizes[axis]
    return OPERATORS["shape"](x)[axis] if size is None else size


def _total(x: Tensor, axes: list[int]) -> Any:
    """The product of the sizes: a number where it is known, else a tensor."""
    sizes = [x.spec.sizes[i] for i in axes] if x.spec.sizes is not None else []
    return reduce_prod(OPERATORS["gather"](OPERATORS["shape"](x), axes)) if None in sizes else math.prod(sizes)


@transactional
def norm(
    tensor: TensorLike, ord: Any = "euclidean", axis: Any = None, keepdims: bool | None = None, name: str | None = None
) -> Tensor:
    """The norm of vectors along one axis, of matrices in two, or of all elements as one vector if `axis` is None.

    Args:
        tensor: real or complex numbers.
        ord: "euclidean" (of matrices "fro" is the same), infinity, 1, 2 or, for vectors, any positive number.
        axis: None, one axis, or a pair of axes.
        keepdims: whether the axes stay, with size 1.
        name: the name of the result.

    Raises:
        ValueError: there is no such norm.
    """
    size = abs(convert_to_tensor(tensor))
    axes = tuple(int(i) for i in axis) if isinstance(axis, (list, tuple)) else axis
    if isinstance(axes, tuple) and len(axes) != 2:
        raise ValueError(f"norm: axis is None, one axis or a pair, not {axis}")
    if ord in ("euclidean", "fro") or (ord == 2 and not isinstance(axes, tuple)):
        return sqrt(reduce_sum(square(size), axes, keepdims), name=name)
    if isinstance(axes, tuple):
        return _matrix_norm(size, ord, axes, keepdims, name)
    if ord == math.inf:
        return reduce_max(size, axes, keepdims, name=name)
    if ord == 1:
        return reduce_sum(size, axes, keepdims, name=name)
    if isinstance(ord, str) or ord <= 0:
        raise ValueError(f"norm: there is no norm {ord!r} of vectors")
    return OPERATORS["pow"](reduce_sum(OPERATORS["pow"](size, ord), axes, keepdims), 1 / ord, name=name)


def _matrix_norm(size: Tensor, ord: Any, axes: tuple[int, ...], keepdims: bool | None, name: str | None) -> Tensor:
    """The greatest sum of a column (1) or of a row (infinity)."""
    if ord not in (1, math.inf):
        raise ValueError(f"norm: there is no norm {ord!r} of matrices; use 'euclidean', 'fro', 1 or infinity")
    first, second = axes if ord == 1 else axes[::-1]
    sums = reduce_sum(size, first, keepdims=True)
    greatest = reduce_max(sums, second, keepdims=True)
    return greatest if keepdims else OPERATORS["squeeze"](greatest, axes, name=name)


OPERATORS.update(matmul=matmul, trace=trace)

__all__ = ["matmul", "norm", "tensordot", "trace"]
