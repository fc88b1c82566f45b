"""Pseudo-inverses, and equations solved as well as can be, one matrix or a batch of them in the last two axes."""

from collections.abc import Callable

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, constant_value, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels.families import CPU, GPU
from aioflow.kernels.linalg.decompositions import cholesky
from aioflow.kernels.linalg.diagonals import matrix_diag_part, matrix_set_diag
from aioflow.kernels.linalg.matrices import adjoint, cubic, flipped, guarded, matrices, product, sides
from aioflow.kernels.linalg.solvers import cholesky_solve
from aioflow.kernels.math.casting import cast
from aioflow.tensors.dtypes import Array, Namespace, Spec, TensorShape


@op
def pinv(a: Spec, rcond: float | None = None) -> Spec:
    """The pseudo-inverse P of each matrix: of all x for which a x is nearest to b, P b is the shortest.

    Singular values up to `rcond` times the greatest count as 0, by default 10 times the greater side times the
    dtype's precision. The gradient is that at a fixed rank, where those are 0 indeed.

    Examples:
        >>> await session.run(af.linalg.pinv([[2.0, 0.0], [0.0, 4.0]]))
        array([[0.5 , 0.  ],
               [0.  , 0.25]], dtype=float32)
    """
    if matrices(a).sizes is None:
        return Spec(a.dtype)
    *batch, rows, columns = a.sizes or ()
    return Spec(a.dtype, TensorShape((*batch, columns, rows)))


@pinv.gradient
def _(op: Operation, dy: Tensor) -> Tensor:
    x, y = op.inputs[0], op.outputs[0]
    back = adjoint(dy)
    inside = -product(product(y, dy, adjoint_a=True), y, adjoint_b=True)
    above = product(product(back - product(x, product(y, back)), y), y, adjoint_b=True)
    beside = product(product(y, y, adjoint_a=True), back - product(product(back, y), x))
    return inside + above + beside


cubic(pinv, 25.0)


@pinv.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    rcond, precision = node.attrs["rcond"], np.finfo(node.output_specs[0].dtype.np).eps
    decompose = guarded(xp, lambda x: tuple(xp.linalg.svd(x, False)), "has singular values that did not converge")

    def inverse(x: Array) -> Array:
        u, s, vh = decompose(x)
        least = 10 * max(x.shape[-2:]) * precision if rcond is None else rcond
        kept = s > least * s[..., :1]  # they descend
        s = xp.where(kept, 1 / xp.where(kept, s, 1), 0).astype(s.dtype, copy=False)
        return (flipped(vh) * s[..., None, :]) @ flipped(u)

    return inverse


@transactional
def matrix_solve_ls(
    matrix: NumberLike, rhs: NumberLike, l2_regularizer: NumberLike = 0.0, fast: bool = True, name: str | None = None
) -> Tensor:
    """The X that minimises |matrix X - rhs|^2 + l2_regularizer |X|^2, in Frobenius norms.

    With fewer rows than columns it is the shortest of the minimising X.

    Args:
        matrix: [..., m, n].
        rhs: [..., m, k].
        l2_regularizer: a non-negative number.
        fast: True uses the normal equations, which square the condition number and need full rank
            (InvalidArgumentError otherwise); False the pseudo-inverse, without a regularizer.
        name: the name of the result.

    Examples:
        >>> (await session.run(af.matrix_solve_ls([[1.0], [1.0]], [[2.0], [4.0]]))).round(3)
        array([[3.]], dtype=float32)
    """
    a, b = _pair(matrix, rhs)
    weight = convert_to_tensor(l2_regularizer, None if isinstance(l2_regularizer, Tensor) else a.dtype.real)
    given = constant_value(weight)
    if given is not None and given < 0:
        raise ValueError(f"matrix_solve_ls: l2_regularizer cannot be negative: {given}")
    rows, columns = sides(a)
    open_sides = (rows is None or columns is None) and (given is None or given == 0)
    if not fast or open_sides:
        return product(pinv(a), b) if name is None else OPERATORS["matmul"](pinv(a), b, name=name)
    if rows is not None and columns is not None and rows < columns:
        gram = _regularized(product(a, a, adjoint_b=True), weight)
        return OPERATORS["matmul"](a, cholesky_solve(cholesky(gram), b), adjoint_a=True, name=name)
    gram = _regularized(product(a, a, adjoint_a=True), weight)
    return cholesky_solve(cholesky(gram), product(a, b, adjoint_a=True), name=name)


def _pair(matrix: NumberLike, rhs: NumberLike) -> tuple[Tensor, Tensor]:
    if isinstance(rhs, Tensor) and not isinstance(matrix, Tensor):
        return convert_to_tensor(matrix, rhs.dtype), rhs
    a = convert_to_tensor(matrix)
    return a, convert_to_tensor(rhs, a.dtype)


def _regularized(gram: Tensor, weight: Tensor) -> Tensor:
    value = constant_value(weight)
    if value is not None and value == 0:
        return gram
    return matrix_set_diag(gram, matrix_diag_part(gram) + cast(weight, gram.dtype))
