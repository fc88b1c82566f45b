"""Linear equations solved step by step, by products of the operator alone."""

from typing import Any, NamedTuple

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant, zeros_like
from aioflow.kernels.array.shapes import expand_dims
from aioflow.kernels.math.comparison import logical_and
from aioflow.kernels.math.complex import conj, real
from aioflow.kernels.math.division import divide_no_nan
from aioflow.kernels.math.elementwise import sqrt
from aioflow.kernels.math.reduction import reduce_any, reduce_sum
from aioflow.library.control import name_scope
from aioflow.library.linear_operators.operator import LinearOperator
from aioflow.library.loops import plain_loop
from aioflow.tensors.dtypes import int32


class CGState(NamedTuple):
    """The state of the method of conjugate gradients after some steps.

    `i` is the number of steps, `x` the approximate solution, `r` the rest rhs - A x, `p` the direction of the next
    step, and `gamma` the inner product of `r` and of `r` after the preconditioner.
    """

    i: Tensor
    x: Tensor
    r: Tensor
    p: Tensor
    gamma: Tensor


@transactional
def conjugate_gradient(
    operator: LinearOperator,
    rhs: NumberLike,
    preconditioner: LinearOperator | None = None,
    x: NumberLike | None = None,
    tol: float = 1e-05,
    max_iter: int = 20,
    name: str = "conjugate_gradient",
) -> CGState:
    """The state of the method of conjugate gradients for A x = `rhs` after its last step.

    It ends after `max_iter` steps, or when each rest is at most `tol` times as long as its right hand side.

    Args:
        operator: A, hinted to be self-adjoint and positive definite.
        rhs: vectors, [..., N].
        preconditioner: an operator near the inverse of A, with the same hints: the nearer it is, the fewer the steps.
        x: where to start, [..., N]; by default at 0.
        tol: the length of a rest relative to that of the right hand side.
        max_iter: the most steps.
        name: a scope for all operations.

    Returns:
        A named tuple: `i`, the number of steps, `x`, the solution, [..., N], the rest `r`, the direction `p` of a next
        step, and `gamma`, [...], the square of the length of `r`, or with a preconditioner M the product of r and M r.

    Raises:
        ValueError: an operator is not hinted to be self-adjoint and positive definite, or the sizes do not fit.

    Examples:
        >>> matrix = [[4.0, 1.0], [1.0, 3.0]]
        >>> hints = dict(is_self_adjoint=True, is_positive_definite=True)
        >>> operator = af.linalg.LinearOperatorFullMatrix(matrix, **hints)
        >>> state = af.linalg.experimental.conjugate_gradient(operator, [1.0, 2.0])
        >>> (await session.run(state.x)).round(3)
        array([0.091, 0.636], dtype=float32)
    """
    for what, each in (("operator", operator), ("preconditioner", preconditioner)):
        if each is not None and not each._is_spd():
            raise ValueError(f"{what} is self-adjoint and positive definite: set these hints of {each.name}")
    with name_scope(name, values=[rhs, x, *operator.graph_parents]):
        right = convert_to_tensor(rhs, operator.dtype, name="rhs")
        limit = tol * _length(right)
        start = zeros_like(right) if x is None else convert_to_tensor(x, operator.dtype, name="x")
        rest = right if x is None else right - operator.matvec(start)

        def going_on(i: Tensor, *state: Tensor) -> Tensor:
            return logical_and(i < max_iter, reduce_any(_length(state[1]) > limit))

        def step(i: Tensor, x: Tensor, r: Tensor, p: Tensor, gamma: Tensor) -> tuple[Any, ...]:
            moved = operator.matvec(p)
            factor = divide_no_nan(gamma, _product(p, moved))
            x, r = x + expand_dims(factor, -1) * p, r - expand_dims(factor, -1) * moved
            turned = _preconditioned(preconditioner, r)
            after = _product(r, turned)
            return i + 1, x, r, turned + expand_dims(divide_no_nan(after, gamma), -1) * p, after

        first = _preconditioned(preconditioner, rest)
        found = plain_loop(going_on, step, [constant(0, int32), start, rest, first, _product(rest, first)])
        return CGState(*found)


def _preconditioned(preconditioner: LinearOperator | None, rest: Tensor) -> Tensor:
    if preconditioner is None:
        return rest
    found: Tensor = preconditioner.matvec(rest)
    return found


def _product(a: Tensor, b: Tensor) -> Tensor:
    """The inner products of vectors."""
    return reduce_sum(conj(a) * b, -1)


def _length(vectors: Tensor) -> Tensor:
    return sqrt(real(_product(vectors, vectors)))
