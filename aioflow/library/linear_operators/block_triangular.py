"""Operators whose matrices have blocks on the diagonal and below it."""

from collections.abc import Iterable, Sequence

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.math.elementwise import negative
from aioflow.library.linear_operators.batches import (
    common_batch,
    common_batch_tensor,
    matrices,
    multiplied,
    total,
)
from aioflow.library.linear_operators.blockwise import BlockOperator
from aioflow.library.linear_operators.description import agreed, hints_of, of_one_dtype, require
from aioflow.library.linear_operators.dispatch import inverse_of
from aioflow.library.linear_operators.full_matrix import LinearOperatorFullMatrix
from aioflow.library.linear_operators.operator import LinearOperator
from aioflow.tensors.shape import Dimension, TensorShape

Rows = list[list[LinearOperator]]


class LinearOperatorBlockLowerTriangular(BlockOperator):
    """The operator of a matrix with operators on and below its diagonal, and zeros above it.

    A product takes those of all operators; a solution those of the ones on the diagonal, and products of the others; a
    determinant those on the diagonal. The batches broadcast. An argument may be a list of tensors, each for one of the
    operators on the diagonal; the result is then a list, too. The hints are those of `LinearOperator`.

    Args:
        operators: a list of rows, of which each has one operator more than the one before. The last of each row lies on
            the diagonal, and is square; the others fit it and the ones above them. All have one dtype.
        is_non_singular: whether it has an inverse: all operators on the diagonal have one.
        is_self_adjoint: whether it is its own adjoint.
        is_positive_definite: whether x^H A x has a positive real part for each x but 0.
        is_square: not False.
        name: a scope for all operations.

    Raises:
        TypeError: the dtypes differ.
        ValueError: there are no operators, the numbers in the rows or their sizes do not fit, or hints contradict.

    Examples:
        >>> first = af.linalg.LinearOperatorDiag([2.0, 4.0])
        >>> below = af.linalg.LinearOperatorFullMatrix([[1.0, 1.0]])
        >>> last = af.linalg.LinearOperatorDiag([5.0])
        >>> operator = af.linalg.LinearOperatorBlockLowerTriangular([[first], [below, last]])
        >>> await session.run(operator.solvevec([2.0, 4.0, 12.0]))
        array([1., 1., 2.], dtype=float32)
    """

    def __init__(
        self,
        operators: Iterable[Iterable[LinearOperator]],
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorBlockLowerTriangular",
    ) -> None:
        arguments = dict(locals())
        require("is_square", is_square, True, "a block lower triangular operator is always square")
        self._blocks_of_rows: Rows = [list(row) for row in operators]
        parts = of_one_dtype(each for row in self._blocks_of_rows for each in row)
        _check_sizes(self._blocks_of_rows)
        what = "a block lower triangular operator is non-singular if all on its diagonal are, and only then"
        is_non_singular = agreed("is_non_singular", is_non_singular, _non_singular(self._diagonal()), what)
        parents = [parent for each in parts for parent in each.graph_parents]
        hints = is_non_singular, is_self_adjoint, is_positive_definite, True
        super().__init__(parts[0].dtype, parents, *hints, name, arguments)

    @property
    def operators(self) -> Rows:
        """The rows of operators."""
        return [list(row) for row in self._blocks_of_rows]

    def _diagonal(self) -> Sequence[LinearOperator]:
        return [row[-1] for row in self._blocks_of_rows]

    def _shape(self) -> TensorShape:
        size = sum((each.range_dimension for each in self._diagonal()), Dimension(0)).value
        batch = common_batch(each.batch_shape for row in self._blocks_of_rows for each in row)
        return matrices(batch, size, size)

    def _shape_tensor(self) -> Tensor:
        batch = common_batch_tensor([each._batch_sizes() for row in self._blocks_of_rows for each in row])
        return concat([batch, total(each._whole_shape()[-2:] for each in self._diagonal())], 0)

    def _matmul_blocks(self, blocks: list[Tensor], adjoint: bool) -> list[Tensor]:
        rows = self._blocks_of_rows
        if not adjoint:
            return [total(each.matmul(part) for each, part in zip(row, blocks, strict=False)) for row in rows]
        return [
            total(rows[i][j].matmul(blocks[i], adjoint=True) for i in range(j, len(rows))) for j in range(len(rows))
        ]

    def _solve_blocks(self, blocks: list[Tensor], adjoint: bool) -> list[Tensor]:
        """From the first block on, or for the adjoint from the last: of each rest, without the blocks found before."""
        rows, count = self._blocks_of_rows, len(self._blocks_of_rows)
        found: dict[int, Tensor] = {}
        for i in reversed(range(count)) if adjoint else range(count):
            rest = blocks[i]
            for j in found:
                block = rows[j][i] if adjoint else rows[i][j]
                rest = rest - block.matmul(found[j], adjoint=adjoint)
            found[i] = rows[i][i].solve(rest, adjoint=adjoint)
        return [found[i] for i in range(count)]

    def _to_dense(self) -> Tensor:
        diagonal = self._diagonal()
        return concat(
            [self._row([], [each.to_dense() for each in row], diagonal[len(row) :]) for row in self._blocks_of_rows],
            -2,
        )

    def _determinant(self) -> Tensor:
        return self._spread_to_batch(multiplied(each.determinant() for each in self._diagonal()), 0)

    def _log_abs_determinant(self) -> Tensor:
        return self._spread_to_batch(total(each.log_abs_determinant() for each in self._diagonal()), 0)

    def _trace(self) -> Tensor:
        return self._spread_to_batch(total(each.trace() for each in self._diagonal()), 0)

    def _diag_part(self) -> Tensor:
        return self._spread_to_batch(self._joined([each.diag_part() for each in self._diagonal()], -1, 1), 1)


def _non_singular(diagonal: Sequence[LinearOperator]) -> bool | None:
    """Whether an operator with these on its diagonal has an inverse; None if that is unknown."""
    hints = [each.is_non_singular for each in diagonal]
    return False if False in hints else all(hints) or None


def _check_sizes(rows: Rows) -> None:
    for i, row in enumerate(rows):
        if len(row) != i + 1:
            raise ValueError(f"row {i} of operators has {i + 1} operators, not {len(row)}")
        if row[-1].is_square is False:
            raise ValueError(f"operators on the diagonal are square, the shape of that in row {i} is {row[-1].shape}")
    for i, row in enumerate(rows):
        for j, each in enumerate(row):
            height, width = rows[i][i].range_dimension, rows[j][j].domain_dimension
            if not (
                each.range_dimension.is_compatible_with(height) and each.domain_dimension.is_compatible_with(width)
            ):
                wanted = TensorShape([height, width])
                raise ValueError(f"operator {j} of row {i} has the shape {wanted}, not {each.shape[-2:]}")


@inverse_of.of(LinearOperatorBlockLowerTriangular)
def _inverse(operator: LinearOperatorBlockLowerTriangular) -> LinearOperator:
    """Of blocks, too: those below the diagonal are dense."""
    rows = operator.operators
    found: Rows = []
    for i, row in enumerate(rows):
        inverse = row[i].inverse()
        below: list[LinearOperator] = []
        for j in range(i):
            dense = total(row[k].matmul(found[k][j].to_dense()) for k in range(j, i))
            below.append(LinearOperatorFullMatrix(negative(inverse.matmul(dense))))
        found.append([*below, inverse])
    return LinearOperatorBlockLowerTriangular(found, **hints_of(operator))
