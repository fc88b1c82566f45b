"""Operators whose matrices have blocks on the diagonal."""

from collections.abc import Iterable, Sequence

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.library.linear_operators.batches import (
    common_batch,
    common_batch_tensor,
    matrices,
    multiplied,
    total,
)
from aioflow.library.linear_operators.blockwise import BlockOperator
from aioflow.library.linear_operators.description import hints_of, of_one_dtype, shared
from aioflow.library.linear_operators.dispatch import adjoint_of, cholesky_of, inverse_of, product
from aioflow.library.linear_operators.operator import LinearOperator
from aioflow.tensors.shape import Dimension, TensorShape


class LinearOperatorBlockDiag(BlockOperator):
    """The operator of a matrix with operators along its diagonal and zeros elsewhere.

    A product or a solution takes that of each operator for its own rows. The batches broadcast. An argument may be a
    list of tensors, each for one operator; the result is then a list, too. The hints are those of `LinearOperator`.

    Args:
        operators: one or more operators of one dtype.
        is_non_singular: whether it has an inverse; True if all have one.
        is_self_adjoint: whether it is its own adjoint; True if all are.
        is_positive_definite: whether x^H A x has a positive real part for each x but 0; True if that holds for all.
        is_square: whether there are as many rows as columns; None if that is not so.
        name: a scope for all operations; by default the names of the operators, joined by `_ds_`.

    Raises:
        TypeError: the dtypes differ.
        ValueError: there are no operators, or hints contradict each other or the shape.

    Examples:
        >>> double = af.linalg.LinearOperatorScaledIdentity(1, 2.0)
        >>> turn = af.linalg.LinearOperatorFullMatrix([[0.0, -1.0], [1.0, 0.0]])
        >>> operator = af.linalg.LinearOperatorBlockDiag([double, turn])
        >>> await session.run(operator.matvec([3.0, 4.0, 5.0]))
        array([ 6., -5.,  4.], dtype=float32)
    """

    def __init__(
        self,
        operators: Iterable[LinearOperator],
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        name: str | None = None,
    ) -> None:
        arguments = dict(locals())
        self._operators = parts = of_one_dtype(operators)
        what = "a block diagonal operator has the property that all its blocks have"
        hints = (
            shared("is_non_singular", is_non_singular, parts, what),
            shared("is_self_adjoint", is_self_adjoint, parts, what),
            shared("is_positive_definite", is_positive_definite, parts, what),
            is_square,
        )
        parents = [parent for each in parts for parent in each.graph_parents]
        label = name or "_ds_".join(each.name for each in parts)
        super().__init__(parts[0].dtype, parents, *hints, label, arguments)
        self._check_hint()

    @property
    def operators(self) -> list[LinearOperator]:
        """The operators on the diagonal."""
        return list(self._operators)

    def _diagonal(self) -> Sequence[LinearOperator]:
        return self._operators

    def _shape(self) -> TensorShape:
        rows = sum((each.range_dimension for each in self._operators), Dimension(0))
        columns = sum((each.domain_dimension for each in self._operators), Dimension(0))
        return matrices(common_batch(each.batch_shape for each in self._operators), rows.value, columns.value)

    def _shape_tensor(self) -> Tensor:
        whole = [each._whole_shape() for each in self._operators]
        return concat([common_batch_tensor([each[:-2] for each in whole]), total(each[-2:] for each in whole)], 0)

    def _all_square(self) -> bool:
        return all(each.is_square for each in self._operators)

    def _matmul_blocks(self, blocks: list[Tensor], adjoint: bool) -> list[Tensor]:
        return [each.matmul(part, adjoint=adjoint) for each, part in zip(self._operators, blocks, strict=True)]

    def _solve_blocks(self, blocks: list[Tensor], adjoint: bool) -> list[Tensor]:
        return [each.solve(part, adjoint=adjoint) for each, part in zip(self._operators, blocks, strict=True)]

    def _to_dense(self) -> Tensor:
        parts = self._operators
        rows = [self._row(parts[:i], [each.to_dense()], parts[i + 1 :]) for i, each in enumerate(parts)]
        return concat(rows, -2)

    def _determinant(self) -> Tensor:
        if not self._all_square():
            return super()._determinant()
        return multiplied(each.determinant() for each in self._operators)

    def _log_abs_determinant(self) -> Tensor:
        if not self._all_square():
            return super()._log_abs_determinant()
        return total(each.log_abs_determinant() for each in self._operators)

    def _trace(self) -> Tensor:
        return total(each.trace() for each in self._operators) if self._all_square() else super()._trace()

    def _diag_part(self) -> Tensor:
        if not self._all_square():
            return super()._diag_part()
        return self._joined([each.diag_part() for each in self._operators], -1, 1)

    def _eigvals(self) -> Tensor:
        if not all(each.is_self_adjoint for each in self._operators):
            return super()._eigvals()
        return self._joined([each.eigvals() for each in self._operators], -1, 1)


@adjoint_of.of(LinearOperatorBlockDiag)
def _adjoint(operator: LinearOperatorBlockDiag) -> LinearOperator:
    return LinearOperatorBlockDiag([each.adjoint() for each in operator.operators], **hints_of(operator))


@inverse_of.of(LinearOperatorBlockDiag)
def _inverse(operator: LinearOperatorBlockDiag) -> LinearOperator | None:
    if not operator._all_square():
        return None
    return LinearOperatorBlockDiag([each.inverse() for each in operator.operators], **hints_of(operator))


@cholesky_of.of(LinearOperatorBlockDiag)
def _cholesky(operator: LinearOperatorBlockDiag) -> LinearOperator | None:
    if not all(each._is_spd() for each in operator.operators):
        return None
    return LinearOperatorBlockDiag([each.cholesky() for each in operator.operators])


@product.of(LinearOperatorBlockDiag, LinearOperatorBlockDiag)
def _product(left: LinearOperatorBlockDiag, right: LinearOperatorBlockDiag) -> LinearOperator | None:
    """Of each pair of blocks, where all pairs fit."""
    inner = [each.domain_dimension.value for each in left.operators]
    if None in inner or inner != [each.range_dimension.value for each in right.operators]:
        return None
    pairs = zip(left.operators, right.operators, strict=True)
    return LinearOperatorBlockDiag([product(a, b) for a, b in pairs], is_square=None)
