"""Operators that reflect vectors at planes."""

from aioflow import errors
from aioflow.graph.convert import NumberLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import eye, no_op, ones, ones_like
from aioflow.kernels.array.shapes import expand_dims, shape
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.math.arithmetic import maximum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.complex import conj, real
from aioflow.kernels.math.elementwise import negative, sqrt
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.library.control import name_scope
from aioflow.library.linear_operators.batches import elements, matrices, size_at
from aioflow.library.linear_operators.description import require
from aioflow.library.linear_operators.dispatch import inverse_of
from aioflow.library.linear_operators.operator import LinearOperator
from aioflow.tensors.shape import TensorShape


class LinearOperatorHouseholder(LinearOperator):
    """The operator I - 2 v v^H of a unit vector v, or of a batch of them, [*batch, N, N].

    It reflects vectors at the plane that is orthogonal to v and contains 0, and is its own inverse. A product or a
    solution takes time in N for each column. The hints are those of `LinearOperator`.

    Args:
        reflection_axis: floating or complex numbers, [*batch, N]: vectors of any length along v.
        is_non_singular: whether it has an inverse; it has.
        is_self_adjoint: not False.
        is_positive_definite: not True.
        is_square: not False.
        name: a scope for all operations.

    Raises:
        TypeError: `reflection_axis` has another dtype.
        ValueError: it is a scalar, or a hint contradicts the reflection.

    Examples:
        >>> operator = af.linalg.LinearOperatorHouseholder([3.0, 0.0])
        >>> await session.run(operator.matvec([1.0, 2.0]))
        array([-1.,  2.], dtype=float32)
    """

    def __init__(
        self,
        reflection_axis: NumberLike,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorHouseholder",
    ) -> None:
        arguments = dict(locals())
        require("is_self_adjoint", is_self_adjoint, True, "a reflection is always self-adjoint")
        require("is_positive_definite", is_positive_definite, False, "a reflection is never positive definite")
        require("is_square", is_square, True, "a reflection is always square")
        with name_scope(name, values=[reflection_axis]):
            self._axis = elements(reflection_axis, "reflection_axis", 1)
        super().__init__(self._axis.dtype, [self._axis], is_non_singular, True, False, True, name, arguments)

    @property
    def reflection_axis(self) -> Tensor:
        """The vectors, as they were given, [*batch, N]."""
        return self._axis

    def _shape(self) -> TensorShape:
        size = size_at(self._axis.shape, -1)
        return matrices(self._axis.shape[:-1], size, size)

    def _shape_tensor(self) -> Tensor:
        whole = shape(self._axis)
        return concat([whole, whole[-1:]], 0)

    def _unit(self) -> Tensor:
        """The vectors of length 1."""
        square = reduce_sum(real(self._axis * conj(self._axis)), -1, keepdims=True)
        return self._axis / cast(sqrt(maximum(square, 1e-12)), self.dtype)

    def _matmul(self, x: Tensor, adjoint: bool = False) -> Tensor:
        unit = expand_dims(self._unit(), -1)
        return x - 2 * unit * matmul(unit, x, adjoint_a=True)

    def _solve(self, rhs: Tensor, adjoint: bool = False) -> Tensor:
        return self._matmul(rhs)

    def _determinant(self) -> Tensor:
        return negative(ones(self._batch_sizes(), self.dtype))

    def _log_abs_determinant(self) -> Tensor:
        return 0 * ones(self._batch_sizes(), self.dtype)

    def _to_dense(self) -> Tensor:
        unit = expand_dims(self._unit(), -1)
        return eye(self._rows(), dtype=self.dtype) - 2 * matmul(unit, unit, adjoint_b=True)

    def _diag_part(self) -> Tensor:
        unit = self._unit()
        return 1 - 2 * unit * conj(unit)

    def _trace(self) -> Tensor:
        return cast(self._rows() - 2, self.dtype) * ones(self._batch_sizes(), self.dtype)

    def _eigvals(self) -> Tensor:
        others = ones_like(self._axis, optimize=False)
        return concat([negative(others[..., :1]), others[..., 1:]], -1)

    def _cond(self) -> Tensor:
        return ones(self._batch_sizes(), self.dtype.real)

    def _assert_non_singular(self) -> Operation:
        return no_op()

    def _assert_positive_definite(self) -> Operation:
        raise errors.InvalidArgumentError(f"{self.name} is not positive definite: it turns a vector around")

    def _assert_self_adjoint(self) -> Operation:
        return no_op()


@inverse_of.of(LinearOperatorHouseholder)
def _inverse(operator: LinearOperatorHouseholder) -> LinearOperator:
    return operator
