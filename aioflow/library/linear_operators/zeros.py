"""Operators that are 0."""

from aioflow import errors
from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import no_op, zeros
from aioflow.kernels.array.partition import broadcast_dynamic_shape
from aioflow.kernels.array.shapes import broadcast_to, shape
from aioflow.kernels.math.arithmetic import minimum
from aioflow.kernels.math.elementwise import log
from aioflow.library.control import name_scope
from aioflow.library.linear_operators.batches import matrices
from aioflow.library.linear_operators.description import require
from aioflow.library.linear_operators.dispatch import adjoint_of
from aioflow.library.linear_operators.operator import LinearOperator
from aioflow.library.linear_operators.sizes import a_batch, a_size, matrix_sizes, with_rows
from aioflow.tensors.dtypes import DTypeLike, as_dtype, float32
from aioflow.tensors.shape import TensorShape


class LinearOperatorZeros(LinearOperator):
    """The operator of a matrix of zeros, or of a batch of them, [*batch, M, N].

    A product takes no computation but that of its zeros. The hints are those of `LinearOperator`.

    Args:
        num_rows: M, an integer or a scalar tensor.
        num_columns: N, M by default. If it is another number, `is_square` and `is_self_adjoint` must be False.
        batch_shape: a vector of integers; by default there is no batch.
        dtype: the dtype of the elements, float32 by default.
        is_non_singular: not True.
        is_self_adjoint: the same as `is_square`.
        is_positive_definite: not True.
        is_square: whether there are as many rows as columns.
        assert_proper_shapes: whether a run in which shapes do not fit fails, where they are not known before.
        name: a scope for all operations.

    Raises:
        TypeError: a size consists of other numbers than integers.
        ValueError: a size is no scalar, or `batch_shape` no vector; they are negative; or a hint contradicts the zeros.

    Examples:
        >>> operator = af.linalg.LinearOperatorZeros(2, 3, is_square=False, is_self_adjoint=False)
        >>> await session.run(operator.matvec([1.0, 2.0, 3.0]))
        array([0., 0.], dtype=float32)
    """

    def __init__(
        self,
        num_rows: NumberLike,
        num_columns: NumberLike | None = None,
        batch_shape: NumberLike | None = None,
        dtype: DTypeLike | None = None,
        is_non_singular: bool | None = False,
        is_self_adjoint: bool | None = True,
        is_positive_definite: bool | None = False,
        is_square: bool | None = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorZeros",
    ) -> None:
        arguments = dict(locals())
        require("is_non_singular", is_non_singular, False, "zeros are always singular")
        require("is_positive_definite", is_positive_definite, False, "zeros are never positive definite")
        if is_self_adjoint is False and is_square:
            raise ValueError("square zeros are always self-adjoint, but is_self_adjoint is False")
        with name_scope(name, values=[num_rows, num_columns, batch_shape]):
            self._height = a_size(num_rows, "num_rows")
            self._width = self._height if num_columns is None else a_size(num_columns, "num_columns")
            self._batch = a_batch(batch_shape, "batch_shape")
        self._checked = assert_proper_shapes
        parents = [self._height.tensor, self._width.tensor, self._batch.tensor]
        kind = float32 if dtype is None else as_dtype(dtype)
        super().__init__(kind, parents, False, is_self_adjoint, False, is_square, name, arguments)
        self._check_hint()

    def _shape(self) -> TensorShape:
        return matrices(self._batch.known, self._height.known, self._width.known)

    def _shape_tensor(self) -> Tensor:
        return matrix_sizes(self._batch.tensor, self._height.tensor, self._width.tensor)

    def _matmul(self, x: Tensor, adjoint: bool = False) -> Tensor:
        right = with_rows(x, self._height if adjoint else self._width) if self._checked else x
        given = shape(right)
        batch = broadcast_dynamic_shape(given[:-2], self._batch_sizes())
        return zeros(matrix_sizes(batch, self._columns() if adjoint else self._rows(), given[-1]), self.dtype)

    def _determinant(self) -> Tensor:
        return zeros(self._batch_sizes(), self.dtype)

    def _log_abs_determinant(self) -> Tensor:
        return log(zeros(self._batch_sizes(), self.dtype.real))

    def _to_dense(self) -> Tensor:
        return zeros(self._whole_shape(), self.dtype)

    def _diag_part(self) -> Tensor:
        least = minimum(self._rows(), self._columns())
        return zeros(concat([self._batch_sizes(), least[None]], 0), self.dtype)

    def _trace(self) -> Tensor:
        return self._determinant()

    def add_to_tensor(self, mat: NumberLike, name: str = "add_to_tensor") -> Tensor:
        """The sum of A and `mat`, which broadcast."""
        return super().add_to_tensor(mat, name)

    def _add_to_tensor(self, x: Tensor) -> Tensor:
        return broadcast_to(x, broadcast_dynamic_shape(shape(x), self._whole_shape()))

    def _eigvals(self) -> Tensor:
        return self._diag_part()

    def _cond(self) -> Tensor:
        none = zeros(self._batch_sizes(), self.dtype.real)
        return none / none

    def _assert_non_singular(self) -> Operation:
        raise errors.InvalidArgumentError(f"{self.name} is singular: it is 0")

    def _assert_positive_definite(self) -> Operation:
        raise errors.InvalidArgumentError(f"{self.name} is not positive definite: it is 0")

    def _assert_self_adjoint(self) -> Operation:
        if self.is_square is False:
            raise errors.InvalidArgumentError(f"{self.name} is not its own adjoint: its shape is {self.shape}")
        return no_op()


@adjoint_of.of(LinearOperatorZeros)
def _adjoint(operator: LinearOperatorZeros) -> LinearOperator:
    return LinearOperatorZeros(
        operator._columns(),
        operator._rows(),
        operator._batch_sizes(),
        operator.dtype,
        is_self_adjoint=operator.is_self_adjoint,
        is_square=operator.is_square,
    )
