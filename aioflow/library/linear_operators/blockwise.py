"""Operators made of blocks, whose arguments may come in blocks, too."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat, split, stack
from aioflow.kernels.array.constants import zeros
from aioflow.kernels.array.shapes import expand_dims, shape, squeeze
from aioflow.library.linear_operators.batches import common_batch, common_batch_tensor, spread, turned
from aioflow.library.linear_operators.operator import LinearOperator
from aioflow.library.linear_operators.sizes import matrix_sizes
from aioflow.tensors.shape import TensorShape


class BlockOperator(LinearOperator, ABC):
    """An operator made of blocks, of which some lie on the diagonal.

    An argument is one tensor, or a list of as many tensors or arrays as there are blocks on the diagonal, each with the
    rows of one block; the result is then such a list, too. A list of numbers is one tensor.
    """

    @abstractmethod
    def _diagonal(self) -> Sequence[LinearOperator]:
        """The blocks on the diagonal."""

    @abstractmethod
    def _matmul_blocks(self, blocks: list[Tensor], adjoint: bool) -> list[Tensor]:
        """The rows of a product, from those of its argument."""

    @abstractmethod
    def _solve_blocks(self, blocks: list[Tensor], adjoint: bool) -> list[Tensor]:
        """The rows of a solution, from those of the right hand side."""

    @transactional
    def matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul") -> Any:
        """The product of A and `x`, as `LinearOperator.matmul` returns it; a list of blocks for a list of blocks."""
        if not self._is_blocks(x, 2):
            return super().matmul(x, adjoint, adjoint_arg, name)
        with self._scope(name):
            return self._matmul_blocks(self._blocks(x, adjoint, adjoint_arg, False), adjoint)

    @transactional
    def matvec(self, x: Any, adjoint: bool = False, name: str = "matvec") -> Any:
        """The product of A and vectors, as `LinearOperator.matvec` returns it; blocks for a list of blocks."""
        if not self._is_blocks(x, 1):
            return super().matvec(x, adjoint, name)
        return [squeeze(each, -1) for each in self.matmul([expand_dims(part, -1) for part in x], adjoint, name=name)]

    @transactional
    def solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve") -> Any:
        """The X for which A X = `rhs`, as `LinearOperator.solve` returns it; a list of blocks for a list of blocks."""
        if not self._is_blocks(rhs, 2):
            return super().solve(rhs, adjoint, adjoint_arg, name)
        self._check_solvable()
        with self._scope(name):
            return self._solve_blocks(self._blocks(rhs, adjoint, adjoint_arg, True), adjoint)

    @transactional
    def solvevec(self, rhs: Any, adjoint: bool = False, name: str = "solve") -> Any:
        """The x for which A x = `rhs`, as `LinearOperator.solvevec` returns it; blocks for a list of blocks."""
        if not self._is_blocks(rhs, 1):
            return super().solvevec(rhs, adjoint, name)
        return [squeeze(each, -1) for each in self.solve([expand_dims(part, -1) for part in rhs], adjoint, name=name)]

    def _is_blocks(self, x: Any, rank: int) -> bool:
        """Whether `x` is a list of tensors or arrays of that rank or more."""
        return isinstance(x, (list, tuple)) and all(_has_rank(part, rank) for part in x)

    def _blocks(self, x: Any, adjoint: bool, adjoint_arg: bool, solve: bool) -> list[Tensor]:
        blocks = self._diagonal()
        if len(x) != len(blocks):
            raise ValueError(f"{self.name} has {len(blocks)} blocks on its diagonal, the argument has {len(x)}")
        mine = -1 if adjoint is solve else -2
        parts = [
            each._fitting(part, -1 if adjoint_arg else -2, mine, "block") for each, part in zip(blocks, x, strict=True)
        ]
        return [turned(part) if adjoint_arg else part for part in parts]

    def _cut(self, x: Tensor, by_rows: bool) -> list[Tensor]:
        """The rows of `x` for each block."""
        blocks = self._diagonal()
        known = [(each.range_dimension if by_rows else each.domain_dimension).value for each in blocks]
        if None not in known:
            return split(x, known, -2)
        return split(x, stack([each._rows() if by_rows else each._columns() for each in blocks]), -2, num=len(blocks))

    def _joined(self, parts: Sequence[Tensor], axis: int = -2, rank: int = 2) -> Tensor:
        """The tensors, spread to one batch, one after the other along an axis."""
        known = common_batch(part.shape[:-rank] for part in parts)
        batch = common_batch_tensor([shape(part)[:-rank] for part in parts])
        return concat([spread(part, batch, known, rank) for part in parts], axis)

    def _matmul(self, x: Tensor, adjoint: bool = False) -> Tensor:
        return self._joined(self._matmul_blocks(self._cut(x, adjoint), adjoint))

    def _solve(self, rhs: Tensor, adjoint: bool = False) -> Tensor:
        return self._joined(self._solve_blocks(self._cut(rhs, not adjoint), adjoint))

    def _row(
        self, before: Sequence[LinearOperator], dense: Sequence[Tensor], after: Sequence[LinearOperator]
    ) -> Tensor:
        """Rows of the dense matrix: zeros for the first operators, then matrices, then zeros for the last."""
        batch, rows = self._batch_sizes(), shape(dense[-1])[-2]
        none = [
            [zeros(matrix_sizes(batch, rows, each._columns()), self.dtype) for each in part] for part in (before, after)
        ]
        parts = [*none[0], *(spread(each, batch, self.batch_shape, 2) for each in dense), *none[1]]
        return concat(parts, -1)


def _has_rank(part: Any, rank: int) -> bool:
    """Whether that is a tensor or an array of that rank or more, or of unknown rank."""
    if isinstance(part, LinearOperator) or not hasattr(part, "shape"):
        return False
    count = part.shape.ndims if isinstance(part.shape, TensorShape) else len(part.shape)
    return count is None or count >= rank
