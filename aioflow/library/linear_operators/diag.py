"""Operators that are diagonal matrices."""

from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import no_op
from aioflow.kernels.array.shapes import expand_dims, shape
from aioflow.kernels.control.assertions import assert_equal, assert_none_equal, assert_positive
from aioflow.kernels.linalg.diagonals import matrix_diag
from aioflow.kernels.math.complex import imag, real
from aioflow.kernels.math.elementwise import abs, log, sqrt
from aioflow.kernels.math.reduction import reduce_prod, reduce_sum
from aioflow.library.control import name_scope
from aioflow.library.linear_operators.batches import (
    conjugate,
    elements,
    matrices,
    size_at,
)
from aioflow.library.linear_operators.description import hints_of, require
from aioflow.library.linear_operators.dispatch import adjoint_of, cholesky_of, inverse_of
from aioflow.library.linear_operators.operator import LinearOperator, ratio
from aioflow.tensors.shape import TensorShape


class LinearOperatorDiag(LinearOperator):
    """The operator of a diagonal matrix, or of a batch of them, [*batch, N, N].

    A product or a solution takes one operation for each element of the result. The hints are those of `LinearOperator`.

    Args:
        diag: floating or complex numbers, [*batch, N].
        is_non_singular: whether it has an inverse: no element is 0.
        is_self_adjoint: whether it is its own adjoint; True for real numbers.
        is_positive_definite: whether the real part of each element is positive.
        is_square: not False.
        name: a scope for all operations.

    Raises:
        TypeError: `diag` has another dtype.
        ValueError: it is a scalar, or hints contradict each other or the dtype.

    Examples:
        >>> operator = af.linalg.LinearOperatorDiag([2.0, 4.0])
        >>> await session.run(operator.solvevec([2.0, 2.0]))
        array([1. , 0.5], dtype=float32)
    """

    def __init__(
        self,
        diag: NumberLike,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorDiag",
    ) -> None:
        arguments = dict(locals())
        require("is_square", is_square, True, "a diagonal operator is always square")
        with name_scope(name, values=[diag]):
            self._diag = elements(diag, "diag", 1)
        if not self._diag.dtype.is_complex:
            what = "a real diagonal operator is always self-adjoint"
            is_self_adjoint = require("is_self_adjoint", is_self_adjoint, True, what)
        hints = is_non_singular, is_self_adjoint, is_positive_definite, True
        super().__init__(self._diag.dtype, [self._diag], *hints, name, arguments)

    @property
    def diag(self) -> Tensor:
        """The diagonals, [*batch, N]."""
        return self._diag

    def _shape(self) -> TensorShape:
        size = size_at(self._diag.shape, -1)
        return matrices(self._diag.shape[:-1], size, size)

    def _shape_tensor(self) -> Tensor:
        whole = shape(self._diag)
        return concat([whole, whole[-1:]], 0)

    def _matvec(self, x: Tensor, adjoint: bool = False) -> Tensor:
        return conjugate(self._diag, adjoint) * x

    def _matmul(self, x: Tensor, adjoint: bool = False) -> Tensor:
        return expand_dims(conjugate(self._diag, adjoint), -1) * x

    def _solvevec(self, rhs: Tensor, adjoint: bool = False) -> Tensor:
        return rhs / conjugate(self._diag, adjoint)

    def _solve(self, rhs: Tensor, adjoint: bool = False) -> Tensor:
        return rhs / expand_dims(conjugate(self._diag, adjoint), -1)

    def _determinant(self) -> Tensor:
        return reduce_prod(self._diag, -1)

    def _log_abs_determinant(self) -> Tensor:
        return reduce_sum(log(abs(self._diag)), -1)

    def _to_dense(self) -> Tensor:
        return matrix_diag(self._diag)

    def _diag_part(self) -> Tensor:
        return self._diag

    def _add_to_tensor(self, x: Tensor) -> Tensor:
        return self._plus_diagonal(x, self._diag)

    def _eigvals(self) -> Tensor:
        return self._diag

    def _cond(self) -> Tensor:
        return ratio(abs(self._diag))

    def _assert_non_singular(self) -> Operation:
        message = "a diagonal matrix is singular: its diagonal contains 0"
        return assert_none_equal(abs(self._diag), 0, message=message)

    def _assert_positive_definite(self) -> Operation:
        message = "a diagonal matrix is not positive definite: a real part is not positive"
        return assert_positive(real(self._diag), message=message)

    def _assert_self_adjoint(self) -> Operation:
        if not self.dtype.is_complex:
            return no_op()
        return assert_equal(imag(self._diag), 0, message="a diagonal matrix is not its own adjoint: it is not real")


@adjoint_of.of(LinearOperatorDiag)
def _adjoint(operator: LinearOperatorDiag) -> LinearOperator:
    return LinearOperatorDiag(conjugate(operator.diag, True), **hints_of(operator))


@inverse_of.of(LinearOperatorDiag)
def _inverse(operator: LinearOperatorDiag) -> LinearOperator:
    return LinearOperatorDiag(1 / operator.diag, **hints_of(operator))


@cholesky_of.of(LinearOperatorDiag)
def _cholesky(operator: LinearOperatorDiag) -> LinearOperator:
    return LinearOperatorDiag(sqrt(operator.diag), **hints_of(operator))
