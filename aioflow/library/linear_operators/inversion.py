"""Operators that are the inverses of others."""

from aioflow.graph.operation import Tensor
from aioflow.kernels.math.elementwise import negative
from aioflow.library.linear_operators.description import agreed, require
from aioflow.library.linear_operators.dispatch import inverse_of
from aioflow.library.linear_operators.operator import LinearOperator
from aioflow.tensors.shape import TensorShape


class LinearOperatorInversion(LinearOperator):
    """The operator of the inverse of another operator's matrix: a product is a solution of the other, and the reverse.

    The hints are those of `LinearOperator`, and by default the other operator's.

    Args:
        operator: the operator.
        is_non_singular: not False.
        is_self_adjoint: whether it is its own adjoint.
        is_positive_definite: whether x^H A x has a positive real part for each x but 0.
        is_square: not False.
        name: a scope for all operations; by default the operator's name and `_inv`.

    Raises:
        ValueError: the operator is hinted to be singular or is not square, or a hint contradicts another.

    Examples:
        >>> operator = af.linalg.LinearOperatorInversion(af.linalg.LinearOperatorDiag([2.0, 4.0]))
        >>> await session.run(operator.matvec([2.0, 2.0]))
        array([1. , 0.5], dtype=float32)
    """

    def __init__(
        self,
        operator: LinearOperator,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        arguments = dict(locals())
        self._operator = operator
        require("is_non_singular", operator.is_non_singular, True, "only a non-singular operator has an inverse")
        require("is_square", operator.is_square, True, "only a square operator has an inverse")
        require("is_non_singular", is_non_singular, True, "an inverse is always non-singular")
        require("is_square", is_square, True, "an inverse is always square")
        what = "an operator and its inverse share each property"
        hints = (
            agreed("is_non_singular", is_non_singular, operator.is_non_singular, what),
            agreed("is_self_adjoint", is_self_adjoint, operator.is_self_adjoint, what),
            agreed("is_positive_definite", is_positive_definite, operator.is_positive_definite, what),
            agreed("is_square", is_square, operator.is_square, what),
        )
        super().__init__(operator.dtype, operator.graph_parents, *hints, name or f"{operator.name}_inv", arguments)

    @property
    def operator(self) -> LinearOperator:
        """The operator of which this is the inverse."""
        return self._operator

    def _shape(self) -> TensorShape:
        return self._operator.shape

    def _shape_tensor(self) -> Tensor:
        return self._operator._whole_shape()

    def _matmul(self, x: Tensor, adjoint: bool = False) -> Tensor:
        found: Tensor = self._operator.solve(x, adjoint=adjoint)
        return found

    def _matvec(self, x: Tensor, adjoint: bool = False) -> Tensor:
        found: Tensor = self._operator.solvevec(x, adjoint=adjoint)
        return found

    def _solve(self, rhs: Tensor, adjoint: bool = False) -> Tensor:
        found: Tensor = self._operator.matmul(rhs, adjoint=adjoint)
        return found

    def _solvevec(self, rhs: Tensor, adjoint: bool = False) -> Tensor:
        found: Tensor = self._operator.matvec(rhs, adjoint=adjoint)
        return found

    def _determinant(self) -> Tensor:
        return 1 / self._operator.determinant()

    def _log_abs_determinant(self) -> Tensor:
        return negative(self._operator.log_abs_determinant())

    def _eigvals(self) -> Tensor:
        return 1 / self._operator.eigvals() if self._operator.is_self_adjoint else super()._eigvals()

    def _cond(self) -> Tensor:
        return self._operator.cond()


@inverse_of.of(LinearOperator)
def _inverse(operator: LinearOperator) -> LinearOperator:
    return LinearOperatorInversion(operator)


@inverse_of.of(LinearOperatorInversion)
def _inverse_of_inverse(operator: LinearOperatorInversion) -> LinearOperator:
    return operator.operator
