"""Triangular factors of matrices, one matrix or a batch of them in the last two axes.

Q and R are not unique: a column of Q may have the opposite sign, or another phase, if its row of R has it too. Their
gradients are right for functions that do not depend on it.
"""

from collections.abc import Callable
from typing import Any

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import CPU, GPU, from_sizes
from aioflow.kernels.linalg.diagonals import lower_half
from aioflow.kernels.linalg.matrices import (
    adjoint,
    cubic,
    guarded,
    hermitian,
    lesser,
    lesser_side,
    matrices,
    product,
    sides,
    square,
)
from aioflow.kernels.linalg.solvers import matrix_triangular_solve
from aioflow.tensors.dtypes import Namespace, Spec, TensorShape

Function = Callable[..., Any]

# Cholesky


@op
def cholesky(input: Spec) -> Spec:
    """The lower triangle L with a positive diagonal for which L adjoint(L) is `input`, Hermitian and positive definite.

    Only the lower triangle of `input` is read; its gradient is Hermitian. InvalidArgumentError names the first matrix
    that is not positive definite.
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
