"""Cholesky, QR, singular value and eigenvalue decompositions, for batches of matrices in the last two axes.

Q and R are not unique: a column of Q may have the opposite sign, or another phase, if its row of R has it too. Their
gradients are right for functions that do not depend on it. The same holds for singular vectors and eigenvectors, where
no two of the values are equal.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from aioflow.graph.convert import NumberLike
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.array.select import masked, select
from aioflow.kernels.families import CPU, GPU, from_sizes
from aioflow.kernels.linalg.diagonals import lower_half, matrix_diag, matrix_diag_part
from aioflow.kernels.linalg.matrices import (
    adjoint,
    cubic,
    guarded,
    hermitian,
    is_zero,
    lesser,
    lesser_side,
    matrices,
    product,
    sides,
    square,
)
from aioflow.kernels.linalg.solvers import matrix_triangular_solve
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal, not_equal
from aioflow.kernels.math.complex import complex, imag, real
from aioflow.tensors.dtypes import Array, Namespace, Spec, TensorShape

Function = Callable[..., Any]

# Cholesky


@op
def cholesky(input: Spec) -> Spec:
    """The lower triangle L with a positive diagonal for which L adjoint(L) is `input`, Hermitian and positive definite.

    Only the lower triangle of `input` is read; its gradient is Hermitian. InvalidArgumentError names the first matrix
    that is not positive definite.

    Examples:
        >>> await session.run(af.cholesky([[4.0, 2.0], [2.0, 5.0]]))
        array([[2., 0.],
               [1., 2.]], dtype=float32)
    """
    return square(input)


@cholesky.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    factor = op.outputs[0]
    inner = lower_half(product(factor, dy, adjoint_a=True))
    half = matrix_triangular_solve(factor, inner, adjoint=True)
    return hermitian(matrix_triangular_solve(factor, adjoint(half), adjoint=True))


cubic(cholesky, 0.4)


@cholesky.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    return guarded(xp, xp.linalg.cholesky, "is not positive definite")


# QR


@op
def qr(input: Spec, full_matrices: bool = False) -> tuple[Spec, Spec]:
    """Q and R with Q R = `input`: the columns of Q are orthonormal, R is an upper triangle.

    Q is [..., m, p] and R [..., p, n] for matrices of m rows and n columns, with p the lesser of both, or m with
    `full_matrices`. The columns of Q beyond the n-th have no gradient, only the space that they span has.

    Examples:
        >>> q, r = af.qr([[1.0, 2.0], [3.0, 4.0]])
        >>> (await session.run(q @ r)).round(3)
        array([[1., 2.],
               [3., 4.]], dtype=float32)
    """
    if matrices(input).sizes is None:
        return Spec(input.dtype), Spec(input.dtype)
    *batch, rows, columns = input.sizes or ()
    least = rows if full_matrices else lesser(rows, columns)
    q, r = TensorShape((*batch, rows, least)), TensorShape((*batch, least, columns))
    return Spec(input.dtype, q), Spec(input.dtype, r)


from_sizes(qr)


@qr.gradient
def _(op: Operation, dq: Tensor, dr: Tensor) -> Tensor:
    """With the columns split in the first p, which decide on Q, and those to the right of them, if there are any."""
    x, (q, r), (rows, columns) = op.inputs[0], op.outputs, sides(op.inputs[0])
    if rows is not None and columns is not None and rows >= columns:
        return _from_the_left(op, q, r, dq, dr)
    count = lesser_side(x)
    right, dright = x[..., count:], dr[..., count:]
    left = _from_the_left(op, q, r[..., :count], dq + product(right, dright, adjoint_b=True), dr[..., :count])
    return OPERATORS["concat"]([left, product(q, dright)], -1)


def _from_the_left(op: Operation, q: Tensor, r: Tensor, dq: Tensor, dr: Tensor) -> Tensor:
    """The gradient of the first p columns: r has as many."""
    (rows, columns), beyond = sides(op.inputs[0]), None
    if op.attrs["full_matrices"] and (rows is None or columns is None or rows > columns):
        count = lesser_side(op.inputs[0])
        beyond = product(q[..., count:], product(dq[..., count:], q[..., :count], adjoint_a=True))
        q, dq, r, dr = q[..., :count], dq[..., :count], r[..., :count, :], dr[..., :count, :]
    m = product(q, dq, adjoint_a=True) - product(dr, r, adjoint_b=True)
    inner = dq + product(q, lower_half(m - adjoint(m)) - m)
    inner = inner if beyond is None else inner - beyond
    return adjoint(matrix_triangular_solve(r, adjoint(inner), lower=False))


@qr.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    mode = "complete" if node.attrs["full_matrices"] else "reduced"
    return lambda x: tuple(xp.linalg.qr(x, mode))


cubic(qr, 4.0)

OPERATORS["cholesky"] = cholesky


# Singular values


@op(name="svd")
def _svd(tensor: Spec, full_matrices: bool = False) -> tuple[Spec, Spec, Spec]:
    """The singular values s, greatest first, and vectors u and v for which `tensor` = u diag(s) adjoint(v).

    u is [..., m, p] and v [..., n, p] for matrices of m rows and n columns, with p the lesser of both; with
    `full_matrices` they are square. s is real. The columns beyond the p-th have no gradient, only the space that
    they span has.
    """
    dtype = matrices(tensor).dtype
    if tensor.sizes is None:
        return Spec(dtype.real), Spec(dtype), Spec(dtype)
    *batch, rows, columns = tensor.sizes
    least = lesser(rows, columns)
    shapes = (least,), (rows, rows if full_matrices else least), (columns, columns if full_matrices else least)
    s, u, v = (TensorShape((*batch, *sizes)) for sizes in shapes)
    return Spec(dtype.real, s), Spec(dtype, u), Spec(dtype, v)


@op(name="singular_values")
def _singular_values(tensor: Spec) -> Spec:
    """The singular values of each matrix, greatest first."""
    if matrices(tensor).sizes is None:
        return Spec(tensor.dtype.real)
    *batch, rows, columns = tensor.sizes or ()
    return Spec(tensor.dtype.real, TensorShape((*batch, lesser(rows, columns))))


def svd(tensor: NumberLike, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """The singular values of each matrix, greatest first; with `compute_uv` the triple (s, u, v).

    `tensor` = u diag(s) adjoint(v), where u is [..., m, p] and v [..., n, p] for matrices of m rows and n columns, with
    p the lesser of both; with `full_matrices` they are square.

    Examples:
        >>> s, u, v = af.svd([[3.0, 0.0], [0.0, 2.0]])
        >>> await session.run(s)
        array([3., 2.], dtype=float32)
    """
    return _svd(tensor, full_matrices, name=name) if compute_uv else _singular_values(tensor, name=name)


@_singular_values.gradient
def _(op: Operation, ds: Tensor) -> Tensor:
    _, u, v = _svd(op.inputs[0])
    return _spanned(u, ds, v)


from_sizes(_svd)


@_svd.gradient
def _(op: Operation, ds: Tensor, du: Tensor, dv: Tensor) -> Tensor:
    (s, u, v), (rows, columns) = op.outputs, sides(op.inputs[0])
    count = lesser_side(op.inputs[0])
    if op.attrs["full_matrices"]:
        outside = _turned(u, du, count), _turned(v, dv, count)
        u, du, v, dv = (x[..., :count] for x in (u, du, v, dv))
    else:
        outside = _beside(u, du), _beside(v, dv)
    if is_zero(du) and is_zero(dv):
        return _spanned(u, ds, v)
    inner = _between(s, product(u, du, adjoint_a=True), product(v, dv, adjoint_a=True), ds)
    dx = product(product(u, inner), v, adjoint_b=True)
    inverse = cast(_reciprocal(s), u.dtype)[..., None, :]
    if rows is None or columns is None or rows > columns:
        dx += product(outside[0] * inverse, v, adjoint_b=True)
    if rows is None or columns is None or rows < columns:
        dx += product(u * inverse, outside[1], adjoint_b=True)
    return dx


def _spanned(u: Tensor, s: Tensor, v: Tensor) -> Tensor:
    """U diag(s) adjoint(v)."""
    return product(u * cast(s, u.dtype)[..., None, :], v, adjoint_b=True)


def _beside(u: Tensor, du: Tensor) -> Tensor:
    """The part of du that is orthogonal to the columns of u."""
    return du - product(u, product(u, du, adjoint_a=True))


def _turned(u: Tensor, du: Tensor, count: Any) -> Tensor:
    """The same for the first columns of a square u, less their rotation together with the other columns."""
    first, rest = u[..., :count], u[..., count:]
    dfirst, drest = du[..., :count], du[..., count:]
    return product(rest, product(rest, dfirst, adjoint_a=True) - product(drest, first, adjoint_a=True))


def _between(s: Tensor, mu: Tensor, mv: Tensor, ds: Tensor) -> Tensor:
    """The gradient of adjoint(u) x v, given those of u and v as their products with adjoint(u) and adjoint(v)."""
    wide = cast(s, mu.dtype)
    gaps = cast(_gaps(s * s), mu.dtype)
    across = gaps * (mu - adjoint(mu)) * wide[..., None, :] + wide[..., None] * gaps * (mv - adjoint(mv))
    if mu.dtype.is_complex:
        turns = imag(matrix_diag_part(mu)) * _reciprocal(s)
        return across + matrix_diag(complex(ds, turns))
    return across + matrix_diag(ds)


def _gaps(x: Tensor) -> Tensor:
    """1 / (x[j] - x[i]) in row i and column j; 0 where both are equal."""
    return _reciprocal(x[..., None, :] - x[..., None])


def _reciprocal(x: Tensor) -> Tensor:
    """1 / x, but 0 of 0."""
    return masked(1 / select(equal(x, 0), 1, x), not_equal(x, 0))


@_svd.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    full = node.attrs["full_matrices"]
    decompose = _converging(xp, lambda x: xp.linalg.svd(x, full))

    def decomposed(x: Array) -> tuple[Array, Array, Array]:
        u, s, vh = decompose(x)
        vh = vh.swapaxes(-1, -2)
        return s, u, vh.conj() if vh.dtype.kind == "c" else vh

    return decomposed


@_singular_values.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    return _converging(xp, lambda x: xp.linalg.svd(x, compute_uv=False))


def _converging(xp: Namespace, function: Function) -> Function:
    """`function` of matrices, with an error for one whose elements are not finite: LAPACK finds values even so."""

    def checked(x: Array) -> Any:
        if xp is np and not xp.isfinite(x).all():
            raise np.linalg.LinAlgError("a matrix has elements that are not finite")
        result = function(x)
        return tuple(result) if isinstance(result, tuple) else result

    return guarded(xp, checked, "has singular or eigenvalues that do not converge")


cubic(_svd, 20.0)
cubic(_singular_values, 8.0)

# Eigenvalues


@op
def self_adjoint_eig(tensor: Spec) -> tuple[Spec, Spec]:
    """The eigenvalues e of each Hermitian matrix, least first, and in the columns of v the vectors.

    `tensor` v = v diag(e). Both have the dtype of `tensor`, of which only the lower triangle is read; its gradient is
    Hermitian.

    Examples:
        >>> values, vectors = af.self_adjoint_eig([[2.0, 0.0], [0.0, 1.0]])
        >>> await session.run(values)
        array([1., 2.], dtype=float32)
    """
    whole = square(tensor)
    return Spec(whole.dtype, whole.shape[:-1]), whole


@op
def self_adjoint_eigvals(tensor: Spec) -> Spec:
    """The eigenvalues of each Hermitian matrix, least first, of its dtype; only its lower triangle is read.

    Examples:
        >>> await session.run(af.self_adjoint_eigvals([[2.0, 0.0], [0.0, 1.0]]))
        array([1., 2.], dtype=float32)
    """
    return Spec(tensor.dtype, square(tensor).shape[:-1])


@self_adjoint_eigvals.gradient
def _(op: Operation, de: Tensor) -> Tensor:
    _, v = self_adjoint_eig(op.inputs[0])
    return _spanned(v, real(de), v)


@self_adjoint_eig.gradient
def _(op: Operation, de: Tensor, dv: Tensor) -> Tensor:
    e, v = op.outputs
    if is_zero(dv):
        return _spanned(v, real(de), v)
    across = cast(_gaps(real(e)), v.dtype) * product(v, dv, adjoint_a=True)
    inner = hermitian(across) + matrix_diag(cast(real(de), v.dtype))
    return product(product(v, inner), v, adjoint_b=True)


@self_adjoint_eig.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    decompose = _converging(xp, xp.linalg.eigh)

    def decomposed(x: Array) -> tuple[Array, Array]:
        e, v = decompose(x)
        return e.astype(v.dtype, copy=False), v

    return decomposed


@self_adjoint_eigvals.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    dtype = node.output_specs[0].dtype.np
    find = _converging(xp, xp.linalg.eigvalsh)
    return lambda x: find(x).astype(dtype, copy=False)


cubic(self_adjoint_eig, 9.0)
cubic(self_adjoint_eigvals, 4.0)
