"""Operators that are the adjoints of others."""

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.library.linear_operators.batches import conjugate, matrices, turned
from aioflow.library.linear_operators.description import agreed
from aioflow.library.linear_operators.dispatch import adjoint_of
from aioflow.library.linear_operators.operator import LinearOperator
from aioflow.tensors.shape import TensorShape


class LinearOperatorAdjoint(LinearOperator):
    """The operator of the conjugate transpose of another operator's matrix.

    Each method takes what the other operator's method takes. The hints are those of `LinearOperator`, and by default
    the other operator's.

    Args:
        operator: the operator.
        is_non_singular: whether it has an inverse.
        is_self_adjoint: whether it is its own adjoint.
        is_positive_definite: whether x^H A x has a positive real part for each x but 0.
        is_square: whether there are as many rows as columns.
        name: a scope for all operations; by default the operator's name and `_adjoint`.

    Raises:
        ValueError: a hint contradicts that of the operator, another one or the shape.

    Examples:
        >>> operator = af.linalg.LinearOperatorFullMatrix([[1.0 + 1j, 2.0]])
        >>> await session.run(af.linalg.LinearOperatorAdjoint(operator).to_dense())
        array([[1.-1.j],
               [2.-0.j]])
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
        what = "an operator and its adjoint share each property"
        hints = (
            agreed("is_non_singular", is_non_singular, operator.is_non_singular, what),
            agreed("is_self_adjoint", is_self_adjoint, operator.is_self_adjoint, what),
            agreed("is_positive_definite", is_positive_definite, operator.is_positive_definite, what),
            agreed("is_square", is_square, operator.is_square, what),
        )
        super().__init__(operator.dtype, operator.graph_parents, *hints, name or f"{operator.name}_adjoint", arguments)
        self._check_hint()

    @property
    def operator(self) -> LinearOperator:
        """The operator of which this is the adjoint."""
        return self._operator

    def _shape(self) -> TensorShape:
        given = self._operator
        return matrices(given.batch_shape, given.domain_dimension.value, given.range_dimension.value)

    def _shape_tensor(self) -> Tensor:
        whole = self._operator._whole_shape()
        return concat([whole[:-2], whole[-1:], whole[-2:-1]], 0)

    def _matmul(self, x: Tensor, adjoint: bool = False) -> Tensor:
        found: Tensor = self._operator.matmul(x, adjoint=not adjoint)
        return found

    def _matvec(self, x: Tensor, adjoint: bool = False) -> Tensor:
        found: Tensor = self._operator.matvec(x, adjoint=not adjoint)
        return found

    def _solve(self, rhs: Tensor, adjoint: bool = False) -> Tensor:
        found: Tensor = self._operator.solve(rhs, adjoint=not adjoint)
        return found

    def _solvevec(self, rhs: Tensor, adjoint: bool = False) -> Tensor:
        found: Tensor = self._operator.solvevec(rhs, adjoint=not adjoint)
        return found

    def _conjugate(self, x: Tensor) -> Tensor:
        return conjugate(x, self.dtype.is_complex)

    def _determinant(self) -> Tensor:
        return self._conjugate(self._operator.determinant())

    def _log_abs_determinant(self) -> Tensor:
        return self._operator.log_abs_determinant()

    def _to_dense(self) -> Tensor:
        return turned(self._operator.to_dense())

    def _diag_part(self) -> Tensor:
        return self._conjugate(self._operator.diag_part())

    def _trace(self) -> Tensor:
        return self._conjugate(self._operator.trace())

    def _eigvals(self) -> Tensor:
        return self._operator.eigvals() if self._operator.is_self_adjoint else super()._eigvals()

    def _cond(self) -> Tensor:
        return self._operator.cond()


@adjoint_of.of(LinearOperator)
def _adjoint(operator: LinearOperator) -> LinearOperator:
    return LinearOperatorAdjoint(operator)


@adjoint_of.of(LinearOperatorAdjoint)
def _adjoint_of_adjoint(operator: LinearOperatorAdjoint) -> LinearOperator:
    return operator.operator
