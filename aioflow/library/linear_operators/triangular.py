"""Operators that are lower triangular matrices."""

from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.control.assertions import assert_none_equal
from aioflow.kernels.linalg.diagonals import matrix_band_part, matrix_diag_part
from aioflow.kernels.linalg.solvers import matrix_triangular_solve
from aioflow.kernels.math.elementwise import abs, log
from aioflow.kernels.math.reduction import reduce_prod, reduce_sum
from aioflow.library.control import name_scope
from aioflow.library.linear_operators.batches import elements
from aioflow.library.linear_operators.description import require
from aioflow.library.linear_operators.operator import LinearOperator
from aioflow.tensors.shape import TensorShape


class LinearOperatorLowerTriangular(LinearOperator):
    """The operator of the lower triangle of a matrix, or of a batch of them, [*batch, N, N].

    A solution takes time in N^2 for each right hand side, a determinant in N. The hints are those of `LinearOperator`.

    Args:
        tril: floating or complex numbers, [*batch, N, N], of which those above the diagonal do not count.
        is_non_singular: whether it has an inverse: no element of the diagonal is 0.
        is_self_adjoint: whether it is its own adjoint: it is diagonal and real.
        is_positive_definite: whether x^H A x has a positive real part for each x but 0.
        is_square: not False.
        name: a scope for all operations.

    Raises:
        TypeError: `tril` has another dtype.
        ValueError: it is not square, or hints contradict each other.

    Examples:
        >>> operator = af.linalg.LinearOperatorLowerTriangular([[2.0, 9.0], [1.0, 4.0]])
        >>> await session.run(operator.solvevec([2.0, 5.0]))
        array([1., 1.], dtype=float32)
    """

    def __init__(
        self,
        tril: NumberLike,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorLowerTriangular",
    ) -> None:
        arguments = dict(locals())
        require("is_square", is_square, True, "a triangular operator is always square")
        with name_scope(name, values=[tril]):
            self._tril = elements(tril, "tril", 2)
            self._triangle = matrix_band_part(self._tril, -1, 0)
        hints = is_non_singular, is_self_adjoint, is_positive_definite, True
        super().__init__(self._tril.dtype, [self._tril], *hints, name, arguments)
        self._check_hint()

    @property
    def tril(self) -> Tensor:
        """The matrices as they were given, [*batch, N, N]."""
        return self._tril

    def _shape(self) -> TensorShape:
        return self._tril.shape

    def _shape_tensor(self) -> Tensor:
        return shape(self._tril)

    def _to_dense(self) -> Tensor:
        return self._triangle

    def _diag_part(self) -> Tensor:
        return matrix_diag_part(self._tril)

    def _solve(self, rhs: Tensor, adjoint: bool = False) -> Tensor:
        return matrix_triangular_solve(self._triangle, rhs, lower=True, adjoint=adjoint)

    def _determinant(self) -> Tensor:
        return reduce_prod(self._diag_part(), -1)

    def _log_abs_determinant(self) -> Tensor:
        return reduce_sum(log(abs(self._diag_part())), -1)

    def _assert_non_singular(self) -> Operation:
        message = "a triangular matrix is singular: its diagonal contains 0"
        return assert_none_equal(abs(self._diag_part()), 0, message=message)
