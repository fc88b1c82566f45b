"""The base of all linear operators: shapes, hints, names of operations, and how each method follows from a matrix."""

from typing import Any

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import constant, eye
from aioflow.kernels.array.partition import broadcast_dynamic_shape
from aioflow.kernels.array.shapes import broadcast_to, expand_dims, shape, squeeze
from aioflow.kernels.control.assertions import assert_equal, assert_less, assert_positive
from aioflow.kernels.linalg.decompositions import cholesky, self_adjoint_eigvals, svd
from aioflow.kernels.linalg.determinants import log_matrix_determinant, matrix_determinant
from aioflow.kernels.linalg.diagonals import matrix_diag_part, matrix_set_diag
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.linalg.solvers import cholesky_solve, matrix_solve
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.complex import real
from aioflow.kernels.math.elementwise import abs, exp, log
from aioflow.kernels.math.reduction import reduce_max, reduce_min, reduce_sum
from aioflow.library.linear_operators.batches import at_least, size_at, spread, turned
from aioflow.library.linear_operators.description import Described
from aioflow.library.linear_operators.dispatch import adjoint_of, cholesky_of, inverse_of, product


class LinearOperator(Described):
    """A matrix of shape [M, N], or a batch of them, [*batch, M, N], that may never be built.

    A subclass defines `_shape()`, a TensorShape, `_shape_tensor()`, and `_matmul(x, adjoint)` or `_to_dense()`; the
    other methods follow. It defines `_solve(rhs, adjoint)`, `_determinant()` and others of these names where it knows a
    better way than by the dense matrix. A hint is a promise of the caller, which nothing checks; None promises nothing.

    Args:
        dtype: the dtype of the elements.
        graph_parents: the tensors that describe the matrix.
        is_non_singular: whether the matrix has an inverse.
        is_self_adjoint: whether the matrix is its own conjugate transpose.
        is_positive_definite: whether x^H A x has a positive real part for each x but 0.
        is_square: whether there are as many rows as columns.
        name: a scope for all operations.
        parameters: the arguments of the subclass.

    Raises:
        ValueError: hints contradict each other.

    Examples:
        >>> class Doubling(af.linalg.LinearOperator):
        ...     def __init__(self, size):
        ...         self.size = size
        ...         super().__init__(af.float32, is_square=True)
        ...     def _shape(self):
        ...         return af.TensorShape([self.size, self.size])
        ...     def _matmul(self, x, adjoint=False):
        ...         return 2 * x
        >>> await session.run(Doubling(2).solvevec([2.0, 6.0]))
        array([1., 3.], dtype=float32)
    """

    # Checks in a run

    @transactional
    def assert_non_singular(self, name: str = "assert_non_singular") -> Operation:
        """An operation that fails with InvalidArgumentError if a matrix has no inverse, up to the precision."""
        with self._scope(name):
            return self._assert_non_singular()

    @transactional
    def assert_positive_definite(self, name: str = "assert_positive_definite") -> Operation:
        """An operation that fails with InvalidArgumentError unless each matrix is positive definite."""
        with self._scope(name):
            return self._assert_positive_definite()

    @transactional
    def assert_self_adjoint(self, name: str = "assert_self_adjoint") -> Operation:
        """An operation that fails with InvalidArgumentError unless each matrix is exactly its own adjoint."""
        with self._scope(name):
            return self._assert_self_adjoint()

    # Products and solutions

    @transactional
    def matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul") -> Any:
        """The product of A and `x`.

        Args:
            x: matrices [..., N, R], whose batch broadcasts with that of A; or an operator.
            adjoint: whether the adjoint of A is meant.
            adjoint_arg: whether the adjoint of `x` is meant.
            name: the name of the operations.

        Returns:
            [..., M, R], or an operator if `x` is one.

        Raises:
            TypeError: the dtypes differ.
            ValueError: the sizes do not fit.
        """
        if isinstance(x, LinearOperator):
            return self._applied(product, self, x, adjoint, adjoint_arg, name)
        with self._scope(name):
            right = self._fitting(x, -1 if adjoint_arg else -2, -2 if adjoint else -1, "x")
            return self._matmul(turned(right) if adjoint_arg else right, adjoint=adjoint)

    def __matmul__(self, other: Any) -> Any:
        return self.matmul(other)

    @transactional
    def matvec(self, x: NumberLike, adjoint: bool = False, name: str = "matvec") -> Any:
        """The product of A and vectors [..., N]: [..., M]. With `adjoint`, that of the adjoint of A."""
        with self._scope(name):
            return self._matvec(self._fitting(x, -1, -2 if adjoint else -1, "x"), adjoint=adjoint)

    @transactional
    def solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve") -> Any:
        """The X for which A X = `rhs`.

        Args:
            rhs: matrices [..., M, R], whose batch broadcasts with that of A; or an operator.
            adjoint: whether the adjoint of A is meant.
            adjoint_arg: whether the adjoint of `rhs` is meant.
            name: the name of the operations.

        Returns:
            [..., N, R], or an operator if `rhs` is one.

        Raises:
            NotImplementedError: a hint says that A is singular or not square, or its shape does.
            TypeError: the dtypes differ.
            ValueError: the sizes do not fit.
        """
        self._check_solvable()
        if isinstance(rhs, LinearOperator):
            return self._applied(lambda a, b: product(a.inverse(), b), self, rhs, adjoint, adjoint_arg, name)
        with self._scope(name):
            right = self._fitting(rhs, -1 if adjoint_arg else -2, -1 if adjoint else -2, "rhs")
            return self._solve(turned(right) if adjoint_arg else right, adjoint=adjoint)

    @transactional
    def solvevec(self, rhs: NumberLike, adjoint: bool = False, name: str = "solve") -> Any:
        """The x, [..., N], for which A x = `rhs`, vectors [..., M]. With `adjoint`, of the adjoint of A.

        Raises:
            NotImplementedError: a hint says that A is singular or not square, or its shape does.
        """
        self._check_solvable()
        with self._scope(name):
            return self._solvevec(self._fitting(rhs, -1, -1 if adjoint else -2, "rhs"), adjoint=adjoint)

    # Other operators

    @transactional
    def adjoint(self, name: str = "adjoint") -> "LinearOperator":
        """The operator of the conjugate transpose; itself if it is hinted to be self-adjoint."""
        if self._is_self_adjoint:
            return self
        with self._scope(name):
            found: LinearOperator = adjoint_of(self)
            return found

    @property
    def H(self) -> "LinearOperator":
        """The operator of the conjugate transpose, as `adjoint()` returns it."""
        return self.adjoint()

    @transactional
    def inverse(self, name: str = "inverse") -> "LinearOperator":
        """The operator of the inverse.

        Raises:
            ValueError: a hint says that it is singular or not square, or its shape does.
        """
        if self.is_square is False or self._is_non_singular is False:
            what = "not square" if self.is_square is False else "singular"
            raise ValueError(f"{self._name} has no inverse: it is {what}")
        with self._scope(name):
            found: LinearOperator = inverse_of(self)
            return found

    @transactional
    def cholesky(self, name: str = "cholesky") -> "LinearOperator":
        """The operator of the lower triangular L for which A = L L^H.

        Raises:
            ValueError: it is not hinted to be self-adjoint and positive definite.
        """
        if not self._is_spd():
            raise ValueError(f"{self._name} is factored only if is_self_adjoint and is_positive_definite are True")
        with self._scope(name):
            found: LinearOperator = cholesky_of(self)
            return found

    # Numbers

    @transactional
    def determinant(self, name: str = "det") -> Tensor:
        """The determinant of each matrix: [*batch].

        Raises:
            NotImplementedError: it is not square.
        """
        self._check_square("has no determinant")
        with self._scope(name):
            return cast(self._determinant(), self._dtype)

    @transactional
    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        """The logarithm of the absolute value of each determinant, of the operator's dtype: [*batch].

        Raises:
            NotImplementedError: it is not square.
        """
        self._check_square("has no determinant")
        with self._scope(name):
            return cast(self._log_abs_determinant(), self._dtype)

    @transactional
    def to_dense(self, name: str = "to_dense") -> Tensor:
        """The matrices themselves: [*batch, M, N]."""
        with self._scope(name):
            return self._to_dense()

    @transactional
    def diag_part(self, name: str = "diag_part") -> Tensor:
        """The diagonals: [*batch, min(M, N)]."""
        with self._scope(name):
            return self._diag_part()

    @transactional
    def trace(self, name: str = "trace") -> Tensor:
        """The sum of each diagonal: [*batch]."""
        with self._scope(name):
            return self._trace()

    @transactional
    def add_to_tensor(self, x: NumberLike, name: str = "add_to_tensor") -> Tensor:
        """The sum of A and `x`, which broadcast."""
        with self._scope(name):
            return self._add_to_tensor(self._of_my_dtype(x, "x"))

    @transactional
    def eigvals(self, name: str = "eigvals") -> Tensor:
        """The eigenvalues of each matrix, of the operator's dtype, in an order that its kind decides: [*batch, N].

        Raises:
            NotImplementedError: it is not hinted to be self-adjoint.
        """
        if not self._is_self_adjoint:
            raise NotImplementedError(f"{self._name} has eigenvalues here only if is_self_adjoint is True")
        with self._scope(name):
            return cast(self._eigvals(), self._dtype)

    @transactional
    def cond(self, name: str = "cond") -> Tensor:
        """The condition number of each matrix, a real number: [*batch]."""
        with self._scope(name):
            return self._cond()

    # For subclasses: how each method follows from the dense matrix

    def _matvec(self, x: Tensor, adjoint: bool = False) -> Tensor:
        return squeeze(self._matmul(expand_dims(x, -1), adjoint=adjoint), -1)

    def _matmul(self, x: Tensor, adjoint: bool = False) -> Tensor:
        return matmul(self._to_dense(), x, adjoint_a=adjoint)

    def _solvevec(self, rhs: Tensor, adjoint: bool = False) -> Tensor:
        return squeeze(self._solve(expand_dims(rhs, -1), adjoint=adjoint), -1)

    def _solve(self, rhs: Tensor, adjoint: bool = False) -> Tensor:
        if self._is_spd():
            return cholesky_solve(cholesky(self._to_dense()), rhs)
        return matrix_solve(self._to_dense(), rhs, adjoint=adjoint)

    def _determinant(self) -> Tensor:
        return exp(self._log_abs_determinant()) if self._is_spd() else matrix_determinant(self._to_dense())

    def _log_abs_determinant(self) -> Tensor:
        if self._is_spd():
            return 2 * reduce_sum(log(real(matrix_diag_part(cholesky(self._to_dense())))), -1)
        return log_matrix_determinant(self._to_dense())[1]

    def _to_dense(self) -> Tensor:
        if type(self)._matmul is LinearOperator._matmul:
            raise NotImplementedError(f"{type(self).__name__} defines neither _matmul() nor _to_dense()")
        batch = None if self.batch_shape.ndims == 0 else self._batch_sizes()
        return self._matmul(eye(self._columns(), batch_shape=batch, dtype=self._dtype))

    def _diag_part(self) -> Tensor:
        return matrix_diag_part(self._to_dense())

    def _trace(self) -> Tensor:
        return reduce_sum(self._diag_part(), -1)

    def _add_to_tensor(self, x: Tensor) -> Tensor:
        return self._to_dense() + x

    def _eigvals(self) -> Tensor:
        return self_adjoint_eigvals(self._to_dense())

    def _cond(self) -> Tensor:
        sizes = abs(self._eigvals()) if self._is_self_adjoint else svd(self._to_dense(), compute_uv=False)
        return ratio(sizes)

    def _assert_non_singular(self) -> Operation:
        info = np.finfo(self._dtype.real.np)
        most = max(100, self.range_dimension.value or 0, self.domain_dimension.value or 0)
        condition = self._cond()
        return assert_less(
            condition, constant(1 / (most * info.eps), condition.dtype), message="a matrix is singular up to precision"
        )

    def _assert_positive_definite(self) -> Operation:
        dense = self._to_dense()
        values = self_adjoint_eigvals(dense if self._is_self_adjoint else dense + turned(dense))
        return assert_positive(real(values), message="a matrix is not positive definite")

    def _assert_self_adjoint(self) -> Operation:
        dense = self._to_dense()
        return assert_equal(dense, turned(dense), message="a matrix is not its own adjoint")

    # Shared by subclasses

    def _spread_to_batch(self, tensor: Tensor, rank: int) -> Tensor:
        """The tensor, whose last `rank` axes are an element, for each of the batch."""
        return spread(tensor, self._batch_sizes(), self.batch_shape, rank)

    def _plus_diagonal(self, x: Tensor, diagonal: Tensor) -> Tensor:
        """The sum of `x` and the operator, of which that is the diagonal and all else is 0."""
        whole = broadcast_to(x, broadcast_dynamic_shape(shape(x), self._whole_shape()))
        return matrix_set_diag(whole, matrix_diag_part(whole) + diagonal)

    def _check_square(self, what: str) -> None:
        if self.is_square is False:
            raise NotImplementedError(f"{self._name} {what}: its shape {self.shape} is not square")

    def _check_solvable(self) -> None:
        self._check_square("has no solutions")
        if self._is_non_singular is False:
            raise NotImplementedError(f"{self._name} has no solutions: is_non_singular is False")

    def _of_my_dtype(self, x: NumberLike, what: str) -> Tensor:
        tensor = convert_to_tensor(x, name=what, preferred_dtype=self._dtype)
        if tensor.dtype is not self._dtype:
            raise TypeError(f"{what} has the dtype {self._dtype.name} of {self._name}, not {tensor.dtype.name}")
        return tensor

    def _fitting(self, x: NumberLike, axis: int, mine: int, what: str) -> Tensor:
        """The tensor, whose `axis` has the size of the operator's axis `mine`. ValueError if it has another."""
        tensor = at_least(self._of_my_dtype(x, what), what, 2 if axis == -2 else 1)
        wanted, given = size_at(self.shape, mine), size_at(tensor.shape, axis)
        if None not in (wanted, given) and wanted != given:
            raise ValueError(f"axis {axis} of {what} has the size {wanted}, not {given}: the operator is {self.shape}")
        return tensor

    def _applied(
        self, combine: Any, left: "LinearOperator", right: "LinearOperator", adjoint: bool, adjoint_arg: bool, name: str
    ) -> Any:
        """What two operators make together, or their adjoints. ValueError if their sizes are known not to fit."""
        with self._scope(name):
            first, second = left.adjoint() if adjoint else left, right.adjoint() if adjoint_arg else right
            wanted, given = first.domain_dimension.value, second.range_dimension.value
            if None not in (wanted, given) and wanted != given:
                raise ValueError(f"operators of the shapes {first.shape} and {second.shape} have no product")
            return combine(first, second)


def ratio(sizes: Tensor) -> Tensor:
    """The greatest of numbers along the last axis over the least, as a real number."""
    numbers = real(sizes)
    return reduce_max(numbers, -1) / reduce_min(numbers, -1)
