"""Operators that are Kronecker products of others."""

import functools
from collections.abc import Iterable

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import matrix_transpose
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.shapes import reshape, shape
from aioflow.kernels.math.arithmetic import pow
from aioflow.kernels.math.casting import cast
from aioflow.library.linear_operators.batches import (
    common_batch,
    common_batch_tensor,
    matrices,
    multiplied,
    total,
)
from aioflow.library.linear_operators.description import hints_of, of_one_dtype, shared
from aioflow.library.linear_operators.dispatch import adjoint_of, cholesky_of, inverse_of
from aioflow.library.linear_operators.operator import LinearOperator
from aioflow.tensors.shape import TensorShape


class LinearOperatorKronecker(LinearOperator):
    """The operator of the Kronecker product of matrices: of each product of elements, one of each matrix.

    A product or a solution applies the operators one after the other, each to many columns; determinants, traces and
    eigenvalues follow from theirs if all are square. The batches broadcast. The hints are those of `LinearOperator`.

    Args:
        operators: one or more operators of one dtype.
        is_non_singular: whether it has an inverse; True if all have one.
        is_self_adjoint: whether it is its own adjoint; True if all are.
        is_positive_definite: whether x^H A x has a positive real part for each x but 0; True if that holds for all.
        is_square: whether there are as many rows as columns.
        name: a scope for all operations; by default the names of the operators, joined by `_x_`.

    Raises:
        TypeError: the dtypes differ.
        ValueError: there are no operators, or hints contradict each other or the shape.

    Examples:
        >>> left = af.linalg.LinearOperatorFullMatrix([[1.0, 2.0], [3.0, 4.0]])
        >>> right = af.linalg.LinearOperatorFullMatrix([[1.0, 10.0]])
        >>> await session.run(af.linalg.LinearOperatorKronecker([left, right]).to_dense())
        array([[ 1., 10.,  2., 20.],
               [ 3., 30.,  4., 40.]], dtype=float32)
    """

    def __init__(
        self,
        operators: Iterable[LinearOperator],
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        arguments = dict(locals())
        self._operators = parts = of_one_dtype(operators)
        what = "a Kronecker product has the property that all its operators have"
        hints = (
            shared("is_non_singular", is_non_singular, parts, what),
            shared("is_self_adjoint", is_self_adjoint, parts, what),
            shared("is_positive_definite", is_positive_definite, parts, what),
            is_square,
        )
        parents = [parent for each in parts for parent in each.graph_parents]
        label = name or "_x_".join(each.name for each in parts)
        super().__init__(parts[0].dtype, parents, *hints, label, arguments)
        self._check_hint()

    @property
    def operators(self) -> list[LinearOperator]:
        """The operators, of which the last has the elements that lie closest together."""
        return list(self._operators)

    def _shape(self) -> TensorShape:
        batch = common_batch(each.batch_shape for each in self._operators)
        rows = TensorShape([each.range_dimension for each in self._operators]).num_elements()
        return matrices(batch, rows, TensorShape([each.domain_dimension for each in self._operators]).num_elements())

    def _shape_tensor(self) -> Tensor:
        whole = [each._whole_shape() for each in self._operators]
        batch = common_batch_tensor([each[:-2] for each in whole])
        return concat([batch, multiplied(each[-2:] for each in whole)], 0)

    def _all_square(self) -> bool:
        return all(each.is_square for each in self._operators)

    def _each_along_its_axis(self, x: Tensor, adjoint: bool, solve: bool) -> Tensor:
        """The result of applying each operator to the axis of `x` that is its own.

        The rows of x are the axes of the operators. The first of them is the rows of a matrix that the first operator
        is applied to; the result is moved behind all other axes, where it is out of the way of the next operator.
        """
        columns = shape(x)[-1]
        for each in self._operators:
            size = each._rows() if adjoint or solve else each._columns()
            x = reshape(x, concat([shape(x)[:-2], [size, -1]], 0))
            x = matrix_transpose(each.solve(x, adjoint=adjoint) if solve else each.matmul(x, adjoint=adjoint))
        return matrix_transpose(reshape(x, concat([shape(x)[:-2], [columns, -1]], 0)))

    def _matmul(self, x: Tensor, adjoint: bool = False) -> Tensor:
        return self._sized(self._each_along_its_axis(x, adjoint, False), x, adjoint)

    def _solve(self, rhs: Tensor, adjoint: bool = False) -> Tensor:
        if not self._all_square():
            return super()._solve(rhs, adjoint)
        return self._sized(self._each_along_its_axis(rhs, adjoint, True), rhs, adjoint)

    def _sized(self, result: Tensor, x: Tensor, adjoint: bool) -> Tensor:
        """The result, of a shape that is known as far as it follows from the operator and from `x`."""
        sizes = self.domain_dimension if adjoint else self.range_dimension
        if x.shape.ndims is not None and self.batch_shape.ndims is not None:
            batch = common_batch([self.batch_shape, x.shape[:-2]])
            result.set_shape(matrices(batch, sizes.value, x.shape[-1].value))
        return result

    def _to_dense(self) -> Tensor:
        return functools.reduce(_kronecker, [each.to_dense() for each in self._operators])

    def _determinant(self) -> Tensor:
        if not self._all_square():
            return super()._determinant()
        return multiplied(pow(each.determinant(), self._times(each)) for each in self._operators)

    def _log_abs_determinant(self) -> Tensor:
        if not self._all_square():
            return super()._log_abs_determinant()
        return total(each.log_abs_determinant() * self._times(each) for each in self._operators)

    def _times(self, operator: LinearOperator) -> Tensor:
        """How many copies of an operator there are: the size of all others."""
        return cast(self._rows() // operator._rows(), self.dtype)

    def _trace(self) -> Tensor:
        return multiplied(each.trace() for each in self._operators) if self._all_square() else super()._trace()

    def _diag_part(self) -> Tensor:
        if not self._all_square():
            return super()._diag_part()
        return self._spread_to_batch(functools.reduce(_outer, [each.diag_part() for each in self._operators]), 1)

    def _eigvals(self) -> Tensor:
        if not all(each.is_self_adjoint for each in self._operators):
            return super()._eigvals()
        return self._spread_to_batch(functools.reduce(_outer, [each.eigvals() for each in self._operators]), 1)

    def _cond(self) -> Tensor:
        return multiplied(each.cond() for each in self._operators)


def _kronecker(a: Tensor, b: Tensor) -> Tensor:
    """The Kronecker product of two batches of matrices, which broadcast."""
    blocks = a[..., :, None, :, None] * b[..., None, :, None, :]
    sizes = shape(blocks)
    return reshape(blocks, concat([sizes[:-4], [sizes[-4] * sizes[-3], sizes[-2] * sizes[-1]]], 0))


def _outer(a: Tensor, b: Tensor) -> Tensor:
    """Each product of elements of two batches of vectors, as vectors."""
    pairs = a[..., :, None] * b[..., None, :]
    return reshape(pairs, concat([shape(pairs)[:-2], [-1]], 0))


@adjoint_of.of(LinearOperatorKronecker)
def _adjoint(operator: LinearOperatorKronecker) -> LinearOperator:
    return LinearOperatorKronecker([each.adjoint() for each in operator.operators], **hints_of(operator))


@inverse_of.of(LinearOperatorKronecker)
def _inverse(operator: LinearOperatorKronecker) -> LinearOperator | None:
    if not operator._all_square():
        return None
    return LinearOperatorKronecker([each.inverse() for each in operator.operators], **hints_of(operator))


@cholesky_of.of(LinearOperatorKronecker)
def _cholesky(operator: LinearOperatorKronecker) -> LinearOperator | None:
    if not all(each._is_spd() for each in operator.operators):
        return None
    return LinearOperatorKronecker([each.cholesky() for each in operator.operators])
