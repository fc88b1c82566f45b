"""Operators that put rows in another order."""

import numpy as np

from aioflow.graph.convert import NumberLike, constant_value, convert_to_tensor
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import no_op, ones
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.ranges import one_hot, range
from aioflow.kernels.array.shapes import broadcast_to, shape
from aioflow.kernels.array.sorting import argsort
from aioflow.kernels.control.assertions import assert_equal
from aioflow.kernels.linalg.diagonals import matrix_band_part
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import equal
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.library.control import name_scope
from aioflow.library.linear_operators.batches import at_least, common_batch_tensor, matrices, size_at
from aioflow.library.linear_operators.description import require
from aioflow.library.linear_operators.operator import LinearOperator
from aioflow.tensors.dtypes import DTypeLike, float32, int32
from aioflow.tensors.shape import TensorShape


class LinearOperatorPermutation(LinearOperator):
    """The operator that puts row `perm[i]` of a matrix in row i, or a batch of such operators, [*batch, N, N].

    A product or a solution copies its elements; the sign of the determinant takes time in N^2. The hints are those of
    `LinearOperator`.

    Args:
        perm: integers, [*batch, N], each of 0, ..., N - 1 once.
        dtype: the dtype of the elements.
        is_non_singular: not False.
        is_self_adjoint: whether it is its own adjoint: it only exchanges pairs of rows.
        is_positive_definite: whether it is the identity.
        is_square: not False.
        name: a scope for all operations.

    Raises:
        TypeError: `perm` consists of other numbers than integers.
        ValueError: `perm` is a scalar, of unknown rank, or known to be no permutation; or hints contradict each other.

    Examples:
        >>> operator = af.linalg.LinearOperatorPermutation([2, 0, 1])
        >>> await session.run(operator.matvec([1.0, 2.0, 3.0]))
        array([3., 1., 2.], dtype=float32)
        >>> await session.run(operator.determinant())
        np.float32(1.0)
    """

    def __init__(
        self,
        perm: NumberLike,
        dtype: DTypeLike = float32,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorPermutation",
    ) -> None:
        arguments = dict(locals())
        require("is_non_singular", is_non_singular, True, "a permutation is always non-singular")
        require("is_square", is_square, True, "a permutation is always square")
        with name_scope(name, values=[perm]):
            self._perm = _permutation(perm)
        hints = is_non_singular, is_self_adjoint, is_positive_definite, True
        super().__init__(dtype, [self._perm], *hints, name, arguments)

    @property
    def perm(self) -> Tensor:
        """The permutations, [*batch, N]."""
        return self._perm

    def _shape(self) -> TensorShape:
        size = size_at(self._perm.shape, -1)
        return matrices(self._perm.shape[:-1], size, size)

    def _shape_tensor(self) -> Tensor:
        whole = shape(self._perm)
        return concat([whole, whole[-1:]], 0)

    def _matmul(self, x: Tensor, adjoint: bool = False) -> Tensor:
        perm = argsort(self._perm) if adjoint else self._perm
        axes = (perm.shape.ndims or 1) - 1
        if not axes:
            return gather(x, perm, axis=-2)
        batch = common_batch_tensor([shape(x)[:-2], shape(perm)[:-1]])
        if x.shape.ndims is None:
            raise ValueError("the rank of x must be known for a batch of permutations")
        x = broadcast_to(x, concat([batch, shape(x)[-2:]], 0))
        places = broadcast_to(perm, concat([batch, shape(perm)[-1:]], 0))
        return gather(x, places, axis=-2, batch_dims=(x.shape.ndims or 2) - 2)

    def _solve(self, rhs: Tensor, adjoint: bool = False) -> Tensor:
        return self._matmul(rhs, adjoint=not adjoint)

    def _to_dense(self) -> Tensor:
        return one_hot(self._perm, self._rows(), dtype=self.dtype)

    def _determinant(self) -> Tensor:
        """1 or -1: whether the number of pairs in the wrong order is even."""
        wrong = matrix_band_part(cast(self._perm[..., :, None] > self._perm[..., None, :], int32), 0, -1)
        return cast(1 - 2 * (reduce_sum(wrong, [-2, -1]) % 2), self.dtype)

    def _log_abs_determinant(self) -> Tensor:
        return 0 * ones(self._batch_sizes(), self.dtype)

    def _diag_part(self) -> Tensor:
        return cast(equal(self._perm, cast(range(self._rows()), self._perm.dtype)), self.dtype)

    def _cond(self) -> Tensor:
        return ones(self._batch_sizes(), self.dtype.real)

    def _assert_non_singular(self) -> Operation:
        return no_op()

    def _assert_self_adjoint(self) -> Operation:
        message = "a permutation is not its own adjoint"
        return assert_equal(self._perm, cast(argsort(self._perm), self._perm.dtype), message=message)


def _permutation(perm: NumberLike) -> Tensor:
    tensor = at_least(convert_to_tensor(perm, name="perm"), "perm", 1)
    if not tensor.dtype.is_integer:
        raise TypeError(f"perm consists of integers, not of {tensor.dtype.name}")
    if tensor.shape.ndims is None:
        raise ValueError("the rank of perm must be known")
    known = constant_value(tensor)
    if known is not None and (np.sort(known, -1) != np.arange(known.shape[-1])).any():
        raise ValueError(f"perm has each of the numbers from 0 to {known.shape[-1] - 1} once, not {known.tolist()}")
    return tensor
