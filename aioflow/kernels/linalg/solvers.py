"""Inverses and exponentials of matrices, and solutions of linear equations, for batches in the last two axes."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import CPU, GPU
from aioflow.kernels.linalg.matrices import (
    check_square,
    cubic,
    derivative,
    flipped,
    guarded,
    product,
    solution,
    square,
    unbatched,
)
from aioflow.tensors.dtypes import Array, Namespace, Spec

Function = Callable[..., Array]

_BLOCK: Final = 64
"""The rows of a triangular matrix solved together; a matrix product carries their results to the other rows."""


@op
def matrix_inverse(input: Spec, adjoint: bool = False) -> Spec:
    """The inverse of each square matrix, or with `adjoint` of its conjugate transpose.

    InvalidArgumentError names the first matrix that is singular.

    Examples:
        >>> await session.run(af.matrix_inverse([[1.0, 1.0], [0.0, 2.0]]))
        array([[ 1. , -0.5],
               [ 0. ,  0.5]], dtype=float32)
    """
    return square(input)


@matrix_inverse.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    y = op.outputs[0]
    if op.attrs["adjoint"]:
        return -product(y, product(dy, y, adjoint_a=True))
    return -product(y, product(dy, y, adjoint_b=True), adjoint_a=True)


cubic(matrix_inverse, 2.0)


@matrix_inverse.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    inverse = guarded(xp, xp.linalg.inv, "is singular: it has no inverse")
    return (lambda x: inverse(flipped(x))) if node.attrs["adjoint"] else inverse


@op
def matrix_solve(matrix: T, rhs: T, adjoint: bool = False) -> Spec:
    """The x for which `matrix` x = `rhs`, or with `adjoint` for its conjugate transpose; batches broadcast.

    InvalidArgumentError names the first matrix that is singular.

    Examples:
        >>> await session.run(af.matrix_solve([[2.0, 0.0], [0.0, 4.0]], [[2.0], [2.0]]))
        array([[1. ],
               [0.5]], dtype=float32)
    """
    return solution(matrix, rhs)


@matrix_solve.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, Tensor]:
    matrix, rhs = op.inputs
    x, adjoint = op.outputs[0], op.attrs["adjoint"]
    back = matrix_solve(matrix, dy, not adjoint)
    moved = product(x, back, adjoint_b=True) if adjoint else product(back, x, adjoint_b=True)
    return unbatched(matrix, -moved, rhs), unbatched(rhs, back, matrix)


cubic(matrix_solve, 1.0)


@matrix_solve.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    solve = guarded(xp, _pairwise(xp, xp.linalg.solve), "is singular", np.linalg.inv)
    return (lambda a, b: solve(flipped(a), b)) if node.attrs["adjoint"] else solve


def _pairwise(xp: Namespace, solve: Function) -> Function:
    """`solve` of batches that broadcast, which the GPU's library takes only when they are equal."""

    def solved(a: Array, b: Array) -> Array:
        check_square(a)
        if b.ndim < 2:
            raise errors.InvalidArgumentError(f"right hand sides are columns of a matrix, not of shape {list(b.shape)}")
        if xp is not np and a.shape[:-2] != b.shape[:-2]:
            batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
            a, b = (xp.broadcast_to(each, batch + each.shape[-2:]) for each in (a, b))
        return solve(a, b)

    return solved


# Triangular matrices


@op
def matrix_triangular_solve(matrix: T, rhs: T, lower: bool = True, adjoint: bool = False) -> Spec:
    """The x for which `matrix` x = `rhs`, where only the lower (or upper) triangle of `matrix` counts.

    With `adjoint`, for the conjugate transpose of that triangle. Batches broadcast. InvalidArgumentError names the
    first matrix with a zero on its diagonal.

    Examples:
        >>> await session.run(af.matrix_triangular_solve([[2.0, 0.0], [1.0, 1.0]], [[2.0], [3.0]]))
        array([[1.],
               [2.]], dtype=float32)
    """
    return solution(matrix, rhs)


@matrix_triangular_solve.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, Tensor]:
    matrix, rhs = op.inputs
    x, lower, adjoint = op.outputs[0], op.attrs["lower"], op.attrs["adjoint"]
    back = matrix_triangular_solve(matrix, dy, lower, not adjoint)
    moved = product(x, back, adjoint_b=True) if adjoint else product(back, x, adjoint_b=True)
    triangle = OPERATORS["matrix_band_part"](-moved, *((-1, 0) if lower else (0, -1)))
    return unbatched(matrix, triangle, rhs), unbatched(rhs, back, matrix)


cubic(matrix_triangular_solve, 1.0)


@matrix_triangular_solve.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Function:
    lower, adjoint = node.attrs["lower"], node.attrs["adjoint"]
    solve = _pairwise(xp, _substitution(xp, lower is not adjoint))

    def solved(matrix: Array, rhs: Array) -> Array:
        check_square(matrix)
        zeros = matrix.diagonal(0, -2, -1) == 0
        if xp is np and zeros.any():
            place = [int(index[0]) for index in xp.nonzero(zeros)]
            which = f"matrix {place[:-1]} of the batch" if place[1:] else "the matrix"
            raise errors.InvalidArgumentError(f"{which} is singular: element {[place[-1]] * 2} is 0")
        return solve(flipped(matrix) if adjoint else matrix, rhs)

    return solved


def _substitution(xp: Namespace, lower: bool) -> Function:
    """The solver for triangles, block after block."""

    def solve(a: Array, b: Array) -> Array:
        size, rows = a.shape[-1], b.shape[-2]
        if rows != size:
            raise errors.InvalidArgumentError(f"{size} equations have right hand sides of {size} rows, not {rows}")
        x = xp.empty((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), b.dtype)
        x[...] = b
        for start in range(0, size, _BLOCK) if lower else reversed(range(0, size, _BLOCK)):
            end = min(start + _BLOCK, size)
            part = x[..., start:end, :]
            part[...] = _solve_block(xp, a[..., start:end, start:end], part, lower)
            left = slice(end, None) if lower else slice(start)
            if x[..., left, :].size:
                x[..., left, :] -= a[..., left, start:end] @ part
        return x

    return solve


def _solve_block(xp: Namespace, a: Array, b: Array, lower: bool) -> Array:
    """By elimination, of which nothing is left to do for an upper triangle; a lower one read backwards is one."""
    if lower:
        return _solve_block(xp, a[..., ::-1, ::-1], b[..., ::-1, :], False)[..., ::-1, :]
    a = xp.triu(a)
    return xp.linalg.solve(xp.broadcast_to(a, b.shape[:-2] + a.shape[-2:]), b)


@transactional
def cholesky_solve(chol: NumberLike, rhs: NumberLike, name: str | None = None) -> Tensor:
    """The x for which A x = `rhs`, given the Cholesky factor of A: `chol = cholesky(A)`.

    Examples:
        >>> await session.run(af.cholesky_solve([[2.0]], [[8.0]]))
        array([[2.]], dtype=float32)
    """
    factor = convert_to_tensor(chol)
    halfway = matrix_triangular_solve(factor, rhs)
    return matrix_triangular_solve(factor, halfway, adjoint=True, name=name)


OPERATORS.update(matrix_inverse=matrix_inverse, matrix_solve=matrix_solve,
                 matrix_triangular_solve=matrix_triangular_solve)  # fmt: skip


_PADE: Final = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
    670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip
"""Coefficients of the numerator of the approximation of degree 13 [Higham 2005]."""
_RADIUS: Final = 5.371920351148152
"""The 1-norm up to which that is exact in float64; greater matrices are halved first, and the result squared."""


@op
def matrix_exponential(input: Spec) -> Spec:
    """1 + x + x^2 / 2 + x^3 / 6 + ..., with powers of square matrices.

    Examples:
        >>> await session.run(af.matrix_exponential([[0.0, 1.0], [0.0, 0.0]]))
        array([[1., 1.],
               [0., 1.]], dtype=float32)
    """
    return square(input)


@matrix_exponential.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    return derivative(matrix_exponential, op.inputs[0], dy)


cubic(matrix_exponential, 20.0)


@matrix_exponential.kernel(CPU, fresh=True)  # how often it is halved depends on values
def _(xp: Namespace, x: Array) -> Array:
    check_square(x)
    norm = float(xp.abs(x).sum(-2).max(initial=0))
    if not np.isfinite(norm):
        raise errors.InvalidArgumentError("a matrix has elements that are not finite")
    halvings = max(0, int(np.ceil(np.log2(norm / _RADIUS)))) if norm else 0
    result = _approximated(xp, x / 2**halvings)
    for _ in range(halvings):
        result = result @ result
    return result


def _approximated(xp: Namespace, x: Array) -> Array:
    """(even - odd)^-1 (even + odd), the even and the odd powers of x of a polynomial."""
    one = xp.eye(x.shape[-1], dtype=x.dtype)
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2

    def powers(first: int) -> Any:
        c = _PADE[first::2]
        high = x6 @ (c[6] * x6 + c[5] * x4 + c[4] * x2)
        return high + c[3] * x6 + c[2] * x4 + c[1] * x2 + c[0] * one

    odd, even = x @ powers(1), powers(0)
    return xp.linalg.solve(even - odd, even + odd)


expm = matrix_exponential
