"""Operators that are the identity, or a multiple of it."""

from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import eye, no_op, ones, zeros
from aioflow.kernels.array.shapes import expand_dims, reshape, shape
from aioflow.kernels.control.assertions import assert_equal, assert_none_equal, assert_positive
from aioflow.kernels.math.arithmetic import pow
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.complex import imag, real
from aioflow.kernels.math.elementwise import abs, log, sqrt
from aioflow.library.control import name_scope
from aioflow.library.linear_operators.batches import conjugate, elements, matrices, spread
from aioflow.library.linear_operators.description import hints_of, require
from aioflow.library.linear_operators.dispatch import adjoint_of, cholesky_of, inverse_of
from aioflow.library.linear_operators.operator import LinearOperator
from aioflow.library.linear_operators.sizes import a_batch, a_size, matrix_sizes, with_rows
from aioflow.tensors.dtypes import DTypeLike, as_dtype, float32
from aioflow.tensors.shape import TensorShape


class LinearOperatorIdentity(LinearOperator):
    """The operator of the identity, or of a batch of identities, [*batch, N, N].

    A product or a solution is its argument, spread to the batch if there is one. The hints are those of
    `LinearOperator`; all are True.

    Args:
        num_rows: N, an integer or a scalar tensor.
        batch_shape: a vector of integers; by default there is no batch.
        dtype: the dtype of the elements, float32 by default.
        is_non_singular: not False.
        is_self_adjoint: not False.
        is_positive_definite: not False.
        is_square: not False.
        assert_proper_shapes: whether a run in which shapes do not fit fails, where they are not known before.
        name: a scope for all operations.

    Raises:
        TypeError: `num_rows` or `batch_shape` consists of other numbers than integers.
        ValueError: `num_rows` is no scalar, or `batch_shape` no vector; they are negative; or a hint is False.

    Examples:
        >>> operator = af.linalg.LinearOperatorIdentity(2, batch_shape=[3])
        >>> operator.shape
        TensorShape([3, 2, 2])
        >>> await session.run(operator.trace())
        array([2., 2., 2.], dtype=float32)
    """

    def __init__(
        self,
        num_rows: NumberLike,
        batch_shape: NumberLike | None = None,
        dtype: DTypeLike | None = None,
        is_non_singular: bool | None = True,
        is_self_adjoint: bool | None = True,
        is_positive_definite: bool | None = True,
        is_square: bool | None = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorIdentity",
    ) -> None:
        arguments = dict(locals())
        for hint in ("is_non_singular", "is_self_adjoint", "is_positive_definite", "is_square"):
            require(hint, arguments[hint], True, f"the identity has the property {hint}")
        with name_scope(name, values=[num_rows, batch_shape]):
            self._size = a_size(num_rows, "num_rows")
            self._batch = a_batch(batch_shape, "batch_shape")
        self._checked = assert_proper_shapes
        parents = [self._size.tensor, self._batch.tensor]
        kind = float32 if dtype is None else as_dtype(dtype)
        super().__init__(kind, parents, True, True, True, True, name, arguments)

    def _shape(self) -> TensorShape:
        return matrices(self._batch.known, self._size.known, self._size.known)

    def _shape_tensor(self) -> Tensor:
        return matrix_sizes(self._batch.tensor, self._size.tensor, self._size.tensor)

    def _ones(self) -> Tensor:
        return ones(self._batch_sizes(), self.dtype)

    def _matmul(self, x: Tensor, adjoint: bool = False) -> Tensor:
        right = with_rows(x, self._size) if self._checked else x
        return spread(right, self._batch.tensor, self._batch.known, 2)

    def _solve(self, rhs: Tensor, adjoint: bool = False) -> Tensor:
        return self._matmul(rhs)

    def _determinant(self) -> Tensor:
        return self._ones()

    def _log_abs_determinant(self) -> Tensor:
        return zeros(self._batch_sizes(), self.dtype)

    def _to_dense(self) -> Tensor:
        return eye(self._rows(), batch_shape=self._batch_sizes(), dtype=self.dtype)

    def _diag_part(self) -> Tensor:
        return ones(self._whole_shape()[:-1], self.dtype)

    def _trace(self) -> Tensor:
        return cast(self._rows(), self.dtype) * self._ones()

    def add_to_tensor(self, mat: NumberLike, name: str = "add_to_tensor") -> Tensor:
        """The sum of A and `mat`, which broadcast."""
        return super().add_to_tensor(mat, name)

    def _add_to_tensor(self, x: Tensor) -> Tensor:
        return self._plus_diagonal(x, self._diag_part())

    def _eigvals(self) -> Tensor:
        return self._diag_part()

    def _cond(self) -> Tensor:
        return ones(self._batch_sizes(), self.dtype.real)

    def _assert_non_singular(self) -> Operation:
        return no_op()

    def _assert_positive_definite(self) -> Operation:
        return no_op()

    def _assert_self_adjoint(self) -> Operation:
        return no_op()


class LinearOperatorScaledIdentity(LinearOperator):
    """The operator of a multiple of the identity, or of a batch of multiples, [*batch, N, N].

    A product or a solution takes one operation for each element of the result. The hints are those of `LinearOperator`.

    Args:
        num_rows: N, an integer or a scalar tensor.
        multiplier: floating or complex numbers, [*batch].
        is_non_singular: whether it has an inverse: no multiplier is 0.
        is_self_adjoint: whether it is its own adjoint; True for real numbers.
        is_positive_definite: whether the real part of each multiplier is positive.
        is_square: not False.
        assert_proper_shapes: whether a run in which shapes do not fit fails, where they are not known before.
        name: a scope for all operations.

    Raises:
        TypeError: `num_rows` is no integer, or `multiplier` has another dtype.
        ValueError: `num_rows` is no scalar or negative, or hints contradict each other or the dtype.

    Examples:
        >>> operator = af.linalg.LinearOperatorScaledIdentity(2, multiplier=3.0)
        >>> await session.run(operator.matvec([1.0, 2.0]))
        array([3., 6.], dtype=float32)
        >>> await session.run(operator.determinant())
        np.float32(9.0)
    """

    def __init__(
        self,
        num_rows: NumberLike,
        multiplier: NumberLike,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorScaledIdentity",
    ) -> None:
        arguments = dict(locals())
        require("is_square", is_square, True, "a multiple of the identity is always square")
        with name_scope(name, values=[num_rows, multiplier]):
            self._size = a_size(num_rows, "num_rows")
            self._multiplier = elements(multiplier, "multiplier", 0)
        if not self._multiplier.dtype.is_complex:
            what = "a real multiple of the identity is always self-adjoint"
            is_self_adjoint = require("is_self_adjoint", is_self_adjoint, True, what)
        self._checked = assert_proper_shapes
        hints = is_non_singular, is_self_adjoint, is_positive_definite, True
        parents = [self._multiplier, self._size.tensor]
        super().__init__(self._multiplier.dtype, parents, *hints, name, arguments)

    @property
    def multiplier(self) -> Tensor:
        """The multipliers, [*batch]."""
        return self._multiplier

    def _shape(self) -> TensorShape:
        return matrices(self._multiplier.shape, self._size.known, self._size.known)

    def _shape_tensor(self) -> Tensor:
        return matrix_sizes(shape(self._multiplier), self._size.tensor, self._size.tensor)

    def _factor(self, adjoint: bool) -> Tensor:
        """The multipliers, as matrices of one element."""
        return conjugate(self._multiplier, adjoint)[..., None, None]

    def _matmul(self, x: Tensor, adjoint: bool = False) -> Tensor:
        return self._factor(adjoint) * (with_rows(x, self._size) if self._checked else x)

    def _solve(self, rhs: Tensor, adjoint: bool = False) -> Tensor:
        return (with_rows(rhs, self._size) if self._checked else rhs) / self._factor(adjoint)

    def _count(self) -> Tensor:
        return cast(self._rows(), self.dtype)

    def _determinant(self) -> Tensor:
        return pow(self._multiplier, self._count())

    def _log_abs_determinant(self) -> Tensor:
        return cast(self._rows(), self.dtype.real) * log(abs(self._multiplier))

    def _to_dense(self) -> Tensor:
        return self._factor(False) * eye(self._rows(), dtype=self.dtype)

    def _diag_part(self) -> Tensor:
        return expand_dims(self._multiplier, -1) * ones(reshape(self._rows(), [1]), self.dtype)

    def _trace(self) -> Tensor:
        return self._count() * self._multiplier

    def add_to_tensor(self, mat: NumberLike, name: str = "add_to_tensor") -> Tensor:
        """The sum of A and `mat`, which broadcast."""
        return super().add_to_tensor(mat, name)

    def _add_to_tensor(self, x: Tensor) -> Tensor:
        return self._plus_diagonal(x, expand_dims(self._multiplier, -1))

    def _eigvals(self) -> Tensor:
        return self._diag_part()

    def _cond(self) -> Tensor:
        size = abs(self._multiplier)
        return size / size

    def _assert_non_singular(self) -> Operation:
        return assert_none_equal(abs(self._multiplier), 0, message="a multiple of the identity is singular: it is 0")

    def _assert_positive_definite(self) -> Operation:
        message = "a multiple of the identity is not positive definite: a real part is not positive"
        return assert_positive(real(self._multiplier), message=message)

    def _assert_self_adjoint(self) -> Operation:
        if not self.dtype.is_complex:
            return no_op()
        message = "a multiple of the identity is not its own adjoint: it is not real"
        return assert_equal(imag(self._multiplier), 0, message=message)


@adjoint_of.of(LinearOperatorScaledIdentity)
def _adjoint(operator: LinearOperatorScaledIdentity) -> LinearOperator:
    return LinearOperatorScaledIdentity(operator._rows(), conjugate(operator.multiplier, True), **hints_of(operator))


@inverse_of.of(LinearOperatorScaledIdentity)
def _inverse(operator: LinearOperatorScaledIdentity) -> LinearOperator:
    return LinearOperatorScaledIdentity(operator._rows(), 1 / operator.multiplier, **hints_of(operator))


@cholesky_of.of(LinearOperatorScaledIdentity)
def _cholesky(operator: LinearOperatorScaledIdentity) -> LinearOperator:
    return LinearOperatorScaledIdentity(operator._rows(), sqrt(operator.multiplier), **hints_of(operator))


@inverse_of.of(LinearOperatorIdentity)
@cholesky_of.of(LinearOperatorIdentity)
def _same(operator: LinearOperatorIdentity) -> LinearOperator:
    return operator
