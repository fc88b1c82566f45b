"""Operators whose matrices have three diagonals."""

from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat, stack
from aioflow.kernels.array.sequence import roll
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.linalg.diagonals import matrix_diag
from aioflow.kernels.linalg.tridiagonal import three_diagonals, tridiagonal_matmul, tridiagonal_solve
from aioflow.library.control import name_scope
from aioflow.library.linear_operators.batches import (
    common_batch,
    common_batch_tensor,
    conjugate,
    elements,
    matrices,
    size_at,
    spread,
)
from aioflow.library.linear_operators.operator import LinearOperator
from aioflow.tensors.shape import TensorShape


class LinearOperatorTridiag(LinearOperator):
    """The operator of a matrix with three diagonals, or of a batch of them, [*batch, N, N].

    A product or a solution takes time in N for each column; solutions are on the CPU alone. A determinant is that of
    the dense matrix. The hints are those of `LinearOperator`.

    Args:
        diagonals: "compact": [*batch, 3, N], the diagonals above, on and below the main one; the last element above and
            the first one below count for nothing. "sequence": three tensors [*batch, N]. "matrix": [*batch, N, N].
        diagonals_format: "compact", "sequence" or "matrix".
        is_non_singular: whether it has an inverse.
        is_self_adjoint: whether it is its own adjoint.
        is_positive_definite: whether x^H A x has a positive real part for each x but 0.
        is_square: not False.
        name: a scope for all operations.

    Raises:
        TypeError: `diagonals` have another dtype.
        ValueError: the shapes do not fit, the format is unknown, or hints contradict each other.

    Examples:
        >>> diagonals = [3.0, 4.0, 0.0], [1.0, -1.0, 2.0], [0.0, 7.0, 8.0]
        >>> operator = af.linalg.LinearOperatorTridiag(diagonals, diagonals_format="sequence")
        >>> await session.run(operator.to_dense())
        array([[ 1.,  3.,  0.],
               [ 7., -1.,  4.],
               [ 0.,  8.,  2.]], dtype=float32)
    """

    def __init__(
        self,
        diagonals: NumberLike,
        diagonals_format: str = "compact",
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorTridiag",
    ) -> None:
        arguments = dict(locals())
        self._given, self._format = diagonals, diagonals_format
        with name_scope(name, values=[diagonals]):
            self._above, self._middle, self._below = [
                elements(each, "diagonals", 1) for each in three_diagonals(diagonals, diagonals_format, None)
            ]
        parents = [self._above, self._middle, self._below]
        hints = is_non_singular, is_self_adjoint, is_positive_definite, is_square
        super().__init__(self._middle.dtype, parents, *hints, name, arguments)
        self._check_hint()

    @property
    def diagonals(self) -> NumberLike:
        """The diagonals, as they were given."""
        return self._given

    @property
    def diagonals_format(self) -> str:
        """The format in which the diagonals were given."""
        return self._format

    def _shape(self) -> TensorShape:
        size = size_at(self._middle.shape, -1)
        return matrices(common_batch([each.shape[:-1] for each in self._graph_parents]), size, size)

    def _shape_tensor(self) -> Tensor:
        size = shape(self._middle)[-1:]
        return concat([common_batch_tensor([shape(each)[:-1] for each in self._graph_parents]), size, size], 0)

    def _compact(self, adjoint: bool) -> Tensor:
        """The diagonals above, on and below the main one, [*batch, 3, N]."""
        parts = [self._above, self._middle, self._below]
        if adjoint:
            parts = [
                conjugate(each, True) for each in (roll(self._below, -1, -1), self._middle, roll(self._above, 1, -1))
            ]
        return stack([self._spread_to_batch(each, 1) for each in parts], -2)

    def _matmul(self, x: Tensor, adjoint: bool = False) -> Tensor:
        return tridiagonal_matmul(self._compact(adjoint), self._spread_to_batch(x, 2))

    def _solve(self, rhs: Tensor, adjoint: bool = False) -> Tensor:
        diagonals = self._compact(adjoint)
        right = self._spread_to_batch(rhs, 2)
        return tridiagonal_solve(spread(diagonals, shape(right)[:-2], right.shape[:-2], 2), right)

    def _to_dense(self) -> Tensor:
        diagonals = self._compact(False)
        left = stack([diagonals[..., 0, :], diagonals[..., 1, :], roll(diagonals[..., 2, :], -1, -1)], -2)
        return matrix_diag(left, k=(-1, 1))

    def _diag_part(self) -> Tensor:
        return self._spread_to_batch(self._middle, 1)
