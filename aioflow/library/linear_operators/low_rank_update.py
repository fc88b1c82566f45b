"""Operators changed by a matrix of low rank."""

from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import eye
from aioflow.kernels.array.shapes import expand_dims, shape
from aioflow.kernels.linalg.decompositions import cholesky
from aioflow.kernels.linalg.determinants import log_matrix_determinant, matrix_determinant
from aioflow.kernels.linalg.diagonals import matrix_diag
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.linalg.solvers import cholesky_solve, matrix_solve
from aioflow.kernels.math.complex import conj
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.library.control import name_scope
from aioflow.library.linear_operators.batches import (
    common_batch,
    common_batch_tensor,
    conjugate,
    elements,
    matrices,
    size_at,
)
from aioflow.library.linear_operators.description import require
from aioflow.library.linear_operators.diag import LinearOperatorDiag
from aioflow.library.linear_operators.identity import LinearOperatorIdentity
from aioflow.library.linear_operators.operator import LinearOperator
from aioflow.tensors.shape import TensorShape


class LinearOperatorLowRankUpdate(LinearOperator):
    """The operator L + U D V^H of an operator L, and of matrices with few columns, K, and a diagonal matrix D.

    A product takes that of L, and time in K for each element. A solution takes that of L for K columns more, and of a
    matrix [K, K], by Woodbury's formula: L and D must have inverses. The batches broadcast. The hints are those of
    `LinearOperator`.

    Args:
        base_operator: L, of the shape [*batch, M, N].
        u: U, [*batch, M, K].
        diag_update: the diagonal of D, [*batch, K]; by default D is the identity.
        v: V, [*batch, N, K]; U by default.
        is_diag_update_positive: whether each element of `diag_update` is positive.
        is_non_singular: whether it has an inverse.
        is_self_adjoint: whether it is its own adjoint; True if L is, V is not given, and D is real.
        is_positive_definite: whether x^H A x has a positive real part for each x but 0; True if that holds for L, it is
            self-adjoint by the rule above, and D is positive.
        is_square: whether there are as many rows as columns.
        name: a scope for all operations.

    Raises:
        TypeError: the dtypes differ.
        ValueError: the sizes do not fit, or hints contradict each other, the shape, or what follows from L and D.

    Examples:
        >>> base = af.linalg.LinearOperatorDiag([1.0, 1.0], is_non_singular=True)
        >>> operator = af.linalg.LinearOperatorLowRankUpdate(base, u=[[1.0], [1.0]])
        >>> await session.run(operator.to_dense())
        array([[2., 1.],
               [1., 2.]], dtype=float32)
        >>> await session.run(operator.determinant())
        np.float32(3.0)
    """

    def __init__(
        self,
        base_operator: LinearOperator,
        u: NumberLike,
        diag_update: NumberLike | None = None,
        v: NumberLike | None = None,
        is_diag_update_positive: bool | None = None,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorLowRankUpdate",
    ) -> None:
        arguments = dict(locals())
        self._base, dtype = base_operator, base_operator.dtype
        with name_scope(name, values=[u, diag_update, v, *base_operator.graph_parents]):
            self._u = elements(u, "u", 2, dtype)
            self._v = self._u if v is None else elements(v, "v", 2, dtype)
            self._update = None if diag_update is None else elements(diag_update, "diag_update", 1, dtype)
        self._positive = is_diag_update_positive
        if diag_update is None:
            self._positive = require("is_diag_update_positive", self._positive, True, "the identity is positive")
        hints = self._implied(is_non_singular, is_self_adjoint, is_positive_definite)
        self._check_sizes()
        tensors = [self._u, *([] if v is None else [self._v]), *([] if self._update is None else [self._update])]
        super().__init__(dtype, [*base_operator.graph_parents, *tensors], *hints, is_square, name, arguments)
        self._check_hint()

    def _implied(
        self, is_non_singular: bool | None, is_self_adjoint: bool | None, is_positive_definite: bool | None
    ) -> tuple[bool | None, bool | None, bool | None]:
        """The hints, with what follows from L and D where U and V are one. ValueError if they contradict that."""
        is_real = self._update is None or not self._update.dtype.is_complex
        if self._v is not self._u or not self._base.is_self_adjoint or not is_real:
            return is_non_singular, is_self_adjoint, is_positive_definite
        what = "L + U D U^H is self-adjoint if L is and D is real"
        is_self_adjoint = require("is_self_adjoint", is_self_adjoint, True, what)
        if self._base.is_positive_definite and self._positive:
            what = "L + U D U^H is positive definite if L and D are"
            is_positive_definite = require("is_positive_definite", is_positive_definite, True, what)
            is_non_singular = require("is_non_singular", is_non_singular, True, what)
        return is_non_singular, is_self_adjoint, is_positive_definite

    def _check_sizes(self) -> None:
        base = self._base.shape
        sizes = {
            "rows of u": (size_at(self._u.shape, -2), size_at(base, -2)),
            "rows of v": (size_at(self._v.shape, -2), size_at(base, -1)),
            "columns of v": (size_at(self._v.shape, -1), size_at(self._u.shape, -1)),
        }
        if self._update is not None:
            sizes["elements of diag_update"] = size_at(self._update.shape, -1), size_at(self._u.shape, -1)
        for what, (given, wanted) in sizes.items():
            if None not in (given, wanted) and given != wanted:
                raise ValueError(f"the {what} are {wanted}, not {given}: base_operator has the shape {base}")

    @property
    def base_operator(self) -> LinearOperator:
        """The operator L."""
        return self._base

    @property
    def u(self) -> Tensor:
        """The matrices U, [*batch, M, K]."""
        return self._u

    @property
    def v(self) -> Tensor:
        """The matrices V, [*batch, N, K]."""
        return self._v

    @property
    def diag_update(self) -> Tensor | None:
        """The diagonal of D, [*batch, K]; None for the identity."""
        return self._update

    @property
    def is_diag_update_positive(self) -> bool | None:
        """Whether D is positive; None if nothing is promised."""
        return self._positive

    @property
    def diag_operator(self) -> LinearOperator:
        """The operator D."""
        if self._update is None:
            return LinearOperatorIdentity(shape(self._u)[-1], dtype=self.dtype)
        return LinearOperatorDiag(self._update, is_positive_definite=self._positive)

    def _batches(self) -> list[TensorShape]:
        update = [] if self._update is None else [self._update.shape[:-1]]
        return [self._base.batch_shape, self._u.shape[:-2], self._v.shape[:-2], *update]

    def _shape(self) -> TensorShape:
        rows, columns = self._base.range_dimension.value, self._base.domain_dimension.value
        rows = size_at(self._u.shape, -2) if rows is None else rows
        return matrices(common_batch(self._batches()), rows, size_at(self._v.shape, -2) if columns is None else columns)

    def _shape_tensor(self) -> Tensor:
        base = self._base._whole_shape()
        update = [] if self._update is None else [shape(self._update)[:-1]]
        batch = common_batch_tensor([base[:-2], shape(self._u)[:-2], shape(self._v)[:-2], *update])
        return concat([batch, base[-2:]], 0)

    def _scaled(self, x: Tensor, adjoint: bool) -> Tensor:
        """D x, or D^H x."""
        if self._update is None:
            return x
        return expand_dims(conjugate(self._update, adjoint), -1) * x

    def _sides(self, adjoint: bool) -> tuple[Tensor, Tensor]:
        return (self._v, self._u) if adjoint else (self._u, self._v)

    def _matmul(self, x: Tensor, adjoint: bool = False) -> Tensor:
        left, right = self._sides(adjoint)
        low = matmul(left, self._scaled(matmul(right, x, adjoint_a=True), adjoint))
        found: Tensor = self._base.matmul(x, adjoint=adjoint) + low
        return found

    def _capacitance(self, solved: Tensor, adjoint: bool) -> Tensor:
        """D^-1 + V^H L^-1 U, [*batch, K, K], of L^-1 U; or the same for the adjoint."""
        right = self._sides(adjoint)[1]
        inner = matmul(right, solved, adjoint_a=True)
        if self._update is None:
            return inner + eye(shape(inner)[-1], dtype=self.dtype)
        return inner + matrix_diag(1 / conjugate(self._update, adjoint))

    def _by_cholesky(self) -> bool:
        """Whether the capacitance is positive definite for certain."""
        return bool(self._v is self._u and self._base._is_spd() and self._positive and self._is_spd())

    def _solve(self, rhs: Tensor, adjoint: bool = False) -> Tensor:
        left, right = self._sides(adjoint)
        solved: Tensor = self._base.solve(left, adjoint=adjoint)
        first: Tensor = self._base.solve(rhs, adjoint=adjoint)
        inner, part = self._capacitance(solved, adjoint), matmul(right, first, adjoint_a=True)
        low = cholesky_solve(cholesky(inner), part) if self._by_cholesky() else matrix_solve(inner, part)
        return first - matmul(solved, low)

    def _determinant(self) -> Tensor:
        inner = self._capacitance(self._base.solve(self._u), False)
        found = matrix_determinant(inner) * self._base.determinant()
        return found if self._update is None else found * self.diag_operator.determinant()

    def _log_abs_determinant(self) -> Tensor:
        inner = self._capacitance(self._base.solve(self._u), False)
        found = log_matrix_determinant(inner)[1] + self._base.log_abs_determinant()
        return found if self._update is None else found + self.diag_operator.log_abs_determinant()

    def _low_diagonal(self) -> Tensor:
        """The diagonal of U D V^H, for square matrices."""
        scaled = self._u if self._update is None else self._u * expand_dims(self._update, -2)
        return reduce_sum(scaled * conj(self._v), -1)

    def _diag_part(self) -> Tensor:
        return self._base.diag_part() + self._low_diagonal() if self.is_square else super()._diag_part()

    def _trace(self) -> Tensor:
        return self._base.trace() + reduce_sum(self._low_diagonal(), -1) if self.is_square else super()._trace()

    def _to_dense(self) -> Tensor:
        low = self._u if self._update is None else self._u * expand_dims(self._update, -2)
        return self._base.add_to_tensor(matmul(low, self._v, adjoint_b=True))
