"""Operators that apply others one after the other."""

from collections.abc import Iterable

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.library.linear_operators.batches import common_batch, common_batch_tensor, matrices, multiplied, total
from aioflow.library.linear_operators.description import of_one_dtype, shared
from aioflow.library.linear_operators.dispatch import product
from aioflow.library.linear_operators.operator import LinearOperator
from aioflow.tensors.shape import TensorShape


class LinearOperatorComposition(LinearOperator):
    """The operator that applies others, the last one first: the product of their matrices.

    A product or a solution takes those of all operators, one after the other; so do determinants, if all are square.
    The batches broadcast. The hints are those of `LinearOperator`.

    Args:
        operators: one or more operators of one dtype, of whose sizes [M, N] each N is the M of the next.
        is_non_singular: whether it has an inverse; True if all have one.
        is_self_adjoint: whether it is its own adjoint.
        is_positive_definite: whether x^H A x has a positive real part for each x but 0.
        is_square: whether there are as many rows as columns.
        name: a scope for all operations; by default the names of the operators, joined by `_o_`.

    Raises:
        TypeError: the dtypes differ.
        ValueError: there are no operators, their sizes do not fit, or hints contradict each other or the shape.

    Examples:
        >>> halves = af.linalg.LinearOperatorDiag([0.5, 0.5])
        >>> turn = af.linalg.LinearOperatorFullMatrix([[0.0, -2.0], [2.0, 0.0]])
        >>> operator = af.linalg.LinearOperatorComposition([halves, turn])
        >>> await session.run(operator.matvec([1.0, 3.0]))
        array([-3.,  1.], dtype=float32)
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
        self._operators = of_one_dtype(operators)
        for left, right in zip(self._operators, self._operators[1:], strict=False):
            columns, rows = left.domain_dimension.value, right.range_dimension.value
            if None not in (columns, rows) and columns != rows:
                raise ValueError(f"{left.name} and {right.name} have no product: shapes {left.shape} and {right.shape}")
        what = "a product of non-singular operators is always non-singular"
        is_non_singular = shared("is_non_singular", is_non_singular, self._operators, what)
        parents = [parent for each in self._operators for parent in each.graph_parents]
        label = name or "_o_".join(each.name for each in self._operators)
        hints = is_non_singular, is_self_adjoint, is_positive_definite, is_square
        super().__init__(self._operators[0].dtype, parents, *hints, label, arguments)
        self._check_hint()

    @property
    def operators(self) -> list[LinearOperator]:
        """The operators, of which the last is applied first."""
        return list(self._operators)

    def _shape(self) -> TensorShape:
        first, last = self._operators[0], self._operators[-1]
        batch = common_batch(each.batch_shape for each in self._operators)
        return matrices(batch, first.range_dimension.value, last.domain_dimension.value)

    def _shape_tensor(self) -> Tensor:
        first, last = self._operators[0]._whole_shape(), self._operators[-1]._whole_shape()
        batch = common_batch_tensor([each._batch_sizes() for each in self._operators])
        return concat([batch, first[-2:-1], last[-1:]], 0)

    def _all_square(self) -> bool:
        return all(each.is_square for each in self._operators)

    def _matmul(self, x: Tensor, adjoint: bool = False) -> Tensor:
        for each in self._operators if adjoint else reversed(self._operators):
            x = each.matmul(x, adjoint=adjoint)
        return x

    def _solve(self, rhs: Tensor, adjoint: bool = False) -> Tensor:
        if not self._all_square():
            return super()._solve(rhs, adjoint)
        for each in reversed(self._operators) if adjoint else self._operators:
            rhs = each.solve(rhs, adjoint=adjoint)
        return rhs

    def _to_dense(self) -> Tensor:
        dense = self._operators[-1].to_dense()
        for each in reversed(self._operators[:-1]):
            dense = each.matmul(dense)
        return dense

    def _determinant(self) -> Tensor:
        if not self._all_square():
            return super()._determinant()
        return multiplied(each.determinant() for each in self._operators)

    def _log_abs_determinant(self) -> Tensor:
        if not self._all_square():
            return super()._log_abs_determinant()
        return total(each.log_abs_determinant() for each in self._operators)


@product.of(LinearOperator, LinearOperator)
def _product(left: LinearOperator, right: LinearOperator) -> LinearOperator:
    """A composition: singular if one of square operators is, and self-adjoint if it is a square of such an operator."""
    singular = left.is_square and right.is_square and False in (left.is_non_singular, right.is_non_singular)
    return LinearOperatorComposition(
        [left, right],
        is_non_singular=False if singular else None,
        is_self_adjoint=True if left is right and left.is_self_adjoint else None,
    )
