"""Operators that are dense matrices."""

from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.shapes import shape
from aioflow.library.control import name_scope
from aioflow.library.linear_operators.batches import elements
from aioflow.library.linear_operators.operator import LinearOperator
from aioflow.tensors.shape import TensorShape


class LinearOperatorFullMatrix(LinearOperator):
    """The operator of a dense matrix, or of a batch of them, [*batch, M, N].

    Solutions and determinants take time in N^3; by the Cholesky factor if it is hinted to be self-adjoint and positive
    definite. The hints are those of `LinearOperator`.

    Args:
        matrix: floating or complex numbers, [*batch, M, N].
        is_non_singular: whether it has an inverse.
        is_self_adjoint: whether it is its own adjoint.
        is_positive_definite: whether x^H A x has a positive real part for each x but 0.
        is_square: whether there are as many rows as columns.
        name: a scope for all operations.

    Raises:
        TypeError: `matrix` has another dtype.
        ValueError: it has less than two axes, or hints contradict each other or the shape.

    Examples:
        >>> operator = af.linalg.LinearOperatorFullMatrix([[1.0, 2.0], [3.0, 5.0]])
        >>> await session.run(operator.solvevec([3.0, 8.0]))
        array([1., 1.], dtype=float32)
        >>> await session.run(operator.determinant())
        np.float32(-1.0)
    """

    def __init__(
        self,
        matrix: NumberLike,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorFullMatrix",
    ) -> None:
        arguments = dict(locals())
        with name_scope(name, values=[matrix]):
            self._matrix = elements(matrix, "matrix", 2)
        hints = is_non_singular, is_self_adjoint, is_positive_definite, is_square
        super().__init__(self._matrix.dtype, [self._matrix], *hints, name, arguments)
        self._check_hint()

    @property
    def matrix(self) -> Tensor:
        """The matrices, [*batch, M, N]."""
        return self._matrix

    def _shape(self) -> TensorShape:
        return self._matrix.shape

    def _shape_tensor(self) -> Tensor:
        return shape(self._matrix)

    def _to_dense(self) -> Tensor:
        return self._matrix
