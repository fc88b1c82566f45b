"""Operators whose matrices have the same number along each diagonal."""

from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import reverse
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import ones, zeros, zeros_like
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.ranges import range
from aioflow.kernels.array.shapes import broadcast_to, expand_dims, reshape, shape
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.fourier import fourier_transform
from aioflow.library.control import name_scope
from aioflow.library.linear_operators.batches import (
    common_batch,
    common_batch_tensor,
    complex_of,
    conjugate,
    elements,
    matrices,
    merged,
    size_at,
)
from aioflow.library.linear_operators.description import require
from aioflow.library.linear_operators.operator import LinearOperator
from aioflow.tensors.shape import TensorShape


class LinearOperatorToeplitz(LinearOperator):
    """The operator of a matrix that has the same number along each diagonal, or of a batch of them, [*batch, N, N].

    A product takes time in N log N for each column, by Fourier transforms; a solution and a determinant are those of
    the dense matrix. The hints are those of `LinearOperator`.

    Args:
        col: floating or complex numbers, [*batch, N], the first column.
        row: the same for the first row, whose first element does not count: it is that of `col`. The batches broadcast.
        is_non_singular: whether it has an inverse.
        is_self_adjoint: whether it is its own adjoint.
        is_positive_definite: whether x^H A x has a positive real part for each x but 0.
        is_square: not False.
        name: a scope for all operations.

    Raises:
        TypeError: `col` has another dtype, or `row` not that of `col`.
        ValueError: one of them is a scalar, their sizes differ, or hints contradict each other.

    Examples:
        >>> operator = af.linalg.LinearOperatorToeplitz(col=[1.0, 2.0, 3.0], row=[1.0, 4.0, 5.0])
        >>> await session.run(operator.to_dense())
        array([[1., 4., 5.],
               [2., 1., 4.],
               [3., 2., 1.]], dtype=float32)
    """

    def __init__(
        self,
        col: NumberLike,
        row: NumberLike,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorToeplitz",
    ) -> None:
        arguments = dict(locals())
        require("is_square", is_square, True, "a Toeplitz operator is always square")
        with name_scope(name, values=[col, row]):
            self._row = elements(row, "row", 1)
            self._col = elements(convert_to_tensor(col, self._row.dtype, name="col"), "col", 1)
        down, across = size_at(self._col.shape, -1), size_at(self._row.shape, -1)
        if None not in (down, across) and down != across:
            raise ValueError(f"a column of {down} elements and a row of {across} make no square matrix")
        self._known = merged(down, across)
        self._known_batch = common_batch([self._col.shape[:-1], self._row.shape[:-1]])
        hints = is_non_singular, is_self_adjoint, is_positive_definite, True
        super().__init__(self._row.dtype, [self._col, self._row], *hints, name, arguments)

    @property
    def col(self) -> Tensor:
        """The first columns, [*batch, N]."""
        return self._col

    @property
    def row(self) -> Tensor:
        """The first rows, [*batch, N]."""
        return self._row

    def _shape(self) -> TensorShape:
        return matrices(self._known_batch, self._known, self._known)

    def _shape_tensor(self) -> Tensor:
        down = shape(self._col)
        return concat([common_batch_tensor([down[:-1], shape(self._row)[:-1]]), down[-1:], down[-1:]], 0)

    def _around(self, adjoint: bool, between: bool) -> Tensor:
        """The first column, a 0 if wanted, and the first row from its end to its second element."""
        pieces = self._col[..., :1], self._col[..., 1:], self._row[..., 1:]
        first, down, across = [conjugate(each, adjoint) for each in pieces]
        if adjoint:
            down, across = across, down
        batch = self._batch_sizes()
        parts = [first, down, *([zeros_like(first)] if between else []), reverse(across, [-1])]
        return concat([broadcast_to(part, concat([batch, shape(part)[-1:]], 0)) for part in parts], -1)

    def _matmul(self, x: Tensor, adjoint: bool = False) -> Tensor:
        """Part of the product of a circulant matrix of twice the size, for which x is filled up with zeros."""
        kind = complex_of(self.dtype)
        given = shape(x)
        filled = concat([cast(x, kind), zeros(given, kind)], -2)
        kernel = fourier_transform(cast(expand_dims(self._around(adjoint, True), -1), kind), (-2,))
        whole = fourier_transform(kernel * fourier_transform(filled, (-2,)), (-2,), inverse=True)
        return cast(whole[..., : given[-2], :], self.dtype)

    def _to_dense(self) -> Tensor:
        rows = self._rows()
        places = range(rows)
        around = self._around(False, False)
        steps = (expand_dims(places, 1) - expand_dims(places, 0)) % (2 * rows - 1)
        return gather(around, steps, axis=-1)

    def _diag_part(self) -> Tensor:
        first = self._col[..., :1] * ones(reshape(self._rows(), [1]), self.dtype)
        return broadcast_to(first, concat([self._batch_sizes(), shape(first)[-1:]], 0))

    def _trace(self) -> Tensor:
        return broadcast_to(cast(self._rows(), self.dtype) * self._col[..., 0], self._batch_sizes())
