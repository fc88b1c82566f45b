"""Triangular factors of square matrices with exchanged rows, and the operations that use them.

Both factors of a matrix are packed in one: U on and above the diagonal, L below it, whose own diagonal is 1. Row i of
L U is row `p[i]` of the matrix.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from aioflow import errors
from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import eye, identity, ones_like
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.partition import broadcast_dynamic_shape
from aioflow.kernels.array.ranges import range as counting
from aioflow.kernels.array.shapes import broadcast_to, shape
from aioflow.kernels.array.sorting import argsort, sort
from aioflow.kernels.control.assertions import assert_equal
from aioflow.kernels.families import CPU
from aioflow.kernels.linalg.diagonals import matrix_band_part, matrix_diag_part, matrix_set_diag
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.linalg.matrices import adjoint, check_square, cubic, named, product, sides, square
from aioflow.kernels.linalg.solvers import matrix_triangular_solve
from aioflow.tensors.dtypes import Array, DType, Namespace, Spec, int32, int64

_BLOCK: Final = 32
"""The columns that are eliminated together; a matrix product carries them to the columns to their right."""


@op
def lu(input: Spec, output_idx_type: DType = int32) -> tuple[Spec, Spec]:
    """The packed factors of each square matrix, and p: row i of L U is row `p[i]` of the matrix. On the CPU alone.

    InvalidArgumentError names the first matrix that is singular.

    Examples:
        >>> lower_upper, p = af.linalg.lu([[1.0, 3.0], [2.0, 4.0]])
        >>> await session.run(lower_upper)
        array([[2. , 4. ],
               [0.5, 1. ]], dtype=float32)
        >>> await session.run(p)
        array([1, 0], dtype=int32)
    """
    if output_idx_type not in (int32, int64):
        raise TypeError(f"output_idx_type is int32 or int64, not {output_idx_type.name}")
    whole = square(input)
    return whole, Spec(output_idx_type, whole.shape[:-1])


@lu.gradient
def _(op: Operation, dy: Tensor, _: Tensor) -> Tensor:
    packed, p = op.outputs
    lower = _lower(packed)
    below = matrix_band_part(product(lower, _strictly_lower(dy), adjoint_a=True), -1, 0)
    above = product(matrix_band_part(dy, 0, -1), matrix_band_part(packed, 0, -1), adjoint_b=True)
    inner = _strictly_lower(below) + matrix_band_part(above, 0, -1)
    left = matrix_triangular_solve(lower, inner, adjoint=True)
    return _rows(adjoint(matrix_triangular_solve(packed, adjoint(left), lower=False)), argsort(p))


cubic(lu, 2.0)


@lu.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], tuple[Array, Array]]:
    dtype = node.output_specs[1].dtype.np

    def factors(x: Array) -> tuple[Array, Array]:
        check_square(x)
        size = x.shape[-1]
        a = x.reshape(-1, size, size).copy() if x.size else np.zeros((0, size, size), x.dtype)
        order = np.tile(np.arange(size), (len(a), 1))
        for start in range(0, size, _BLOCK):
            _eliminate(a, order, start, min(start + _BLOCK, size), x.shape[:-2])
        return a.reshape(x.shape), order.reshape(x.shape[:-1]).astype(dtype)

    return factors


def _eliminate(a: Array, order: Array, start: int, end: int, batch: tuple[int, ...]) -> None:
    """Factor the columns from `start` to `end` in place, and subtract their products from those to the right."""
    for column in range(start, end):
        _exchange(a, order, column)
        pivots = a[:, column, column]
        if not pivots.all():
            place = np.unravel_index(int(np.argmin(pivots != 0)), batch)
            raise errors.InvalidArgumentError(f"{named(place)} is singular: it has no factors with a full diagonal")
        a[:, column + 1 :, column] /= pivots[:, None]
        a[:, column + 1 :, column + 1 : end] -= a[:, column + 1 :, column, None] * a[:, None, column, column + 1 : end]
    if end < a.shape[-1]:
        triangle = np.tril(a[:, start:end, start:end], -1) + np.eye(end - start, dtype=a.dtype)
        a[:, start:end, end:] = np.linalg.solve(triangle, a[:, start:end, end:])
        a[:, end:, end:] -= a[:, end:, start:end] @ a[:, start:end, end:]


def _exchange(a: Array, order: Array, column: int) -> None:
    """Put the row with the greatest element of the column on the diagonal, in each matrix."""
    each = np.arange(len(a))
    best = column + np.abs(a[:, column:, column]).argmax(-1)
    for rows in (a, order):
        found = rows[each, best]
        rows[each, best] = rows[:, column]
        rows[:, column] = found


def _lower(packed: Tensor) -> Tensor:
    below = matrix_band_part(packed, -1, 0)
    return matrix_set_diag(below, ones_like(matrix_diag_part(packed)))


def _strictly_lower(x: Tensor) -> Tensor:
    return x - matrix_band_part(x, 0, -1)


def _rows(x: Tensor, order: Tensor) -> Tensor:
    """The rows of each matrix in their order."""
    if order.spec.rank is None:
        raise ValueError("the rank of the matrices must be known")
    return gather(x, order, batch_dims=order.spec.rank - 1)


def _checked(lower_upper: NumberLike, perm: NumberLike, validate_args: bool) -> tuple[Tensor, Tensor]:
    """Both as tensors. ValueError if their shapes cannot be those of factors and of an order of their rows."""
    packed, order = convert_to_tensor(lower_upper), convert_to_tensor(perm)
    rows = square(packed.spec).shape[:-1]
    if not order.spec.shape.is_compatible_with(rows):
        raise ValueError(f"perm has the shape {rows} of the rows of lower_upper, not {order.spec.shape}")
    if validate_args:
        numbers = broadcast_to(counting(shape(order)[-1]), shape(order))
        ordered = assert_equal(sort(order), numbers, message="perm must hold each number of a row once")
        with get_default_graph().control_dependencies([ordered]):
            order = identity(order)
    return packed, order


@transactional
def lu_reconstruct(
    lower_upper: NumberLike, perm: NumberLike, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """The matrices whose factors and orders of rows `lu` gave.

    Args:
        lower_upper: [..., n, n], the packed factors.
        perm: [..., n], the order of the rows.
        validate_args: whether the run raises InvalidArgumentError if `perm` lacks a row.
        name: the name of the result.

    Examples:
        >>> await session.run(af.linalg.lu_reconstruct(*af.linalg.lu([[1.0, 3.0], [2.0, 4.0]])))
        array([[1., 3.],
               [2., 4.]], dtype=float32)
    """
    packed, order = _checked(lower_upper, perm, validate_args)
    whole = matmul(_lower(packed), matrix_band_part(packed, 0, -1))
    return identity(_rows(whole, argsort(order)), name=name or "lu_reconstruct")


@transactional
def lu_solve(
    lower_upper: NumberLike, perm: NumberLike, rhs: NumberLike, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """The x for which A x = `rhs`, given what `lu` gave of A; batches broadcast.

    Args:
        lower_upper: [..., n, n], the packed factors.
        perm: [..., n], the order of the rows.
        rhs: [..., n, k], right hand sides in columns.
        validate_args: whether the run raises InvalidArgumentError if `perm` lacks a row.
        name: the name of the result.

    Raises:
        ValueError: the shapes do not fit.

    Examples:
        >>> await session.run(af.linalg.lu_solve(*af.linalg.lu([[1.0, 3.0], [2.0, 4.0]]), [[4.0], [6.0]]))
        array([[1.],
               [1.]], dtype=float32)
    """
    packed, order = _checked(lower_upper, perm, validate_args)
    right = convert_to_tensor(rhs, packed.dtype)
    if right.spec.rank is not None and right.spec.rank < 2:
        raise ValueError(f"lu_solve: right hand sides are columns of a matrix, rhs has the shape {right.spec.shape}")
    halfway = matrix_triangular_solve(_lower(packed), _rows(*_together(right, order)))
    return matrix_triangular_solve(packed, halfway, lower=False, name=name or "lu_solve")


def _together(rhs: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
    """Both with the batch axes that they have when these are broadcast together."""
    mine, other = rhs.spec.shape[:-2], order.spec.shape[:-1]
    if mine.is_fully_defined() and mine == other:
        return rhs, order
    sizes, places = shape(rhs), shape(order)
    batch = broadcast_dynamic_shape(sizes[:-2], places[:-1])
    return _spread(rhs, batch, sizes[-2:]), _spread(order, batch, places[-1:])


def _spread(x: Tensor, batch: Tensor, own: Tensor) -> Tensor:
    return broadcast_to(x, concat([batch, own], 0))


@transactional
def lu_matrix_inverse(
    lower_upper: NumberLike, perm: NumberLike, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """The inverse of A, given what `lu` gave of A.

    Args:
        lower_upper: [..., n, n], the packed factors.
        perm: [..., n], the order of the rows.
        validate_args: whether the run raises InvalidArgumentError if `perm` lacks a row.
        name: the name of the result.

    Examples:
        >>> (await session.run(af.linalg.lu_matrix_inverse(*af.linalg.lu([[2.0, 0.0], [0.0, 4.0]])))).round(3)
        array([[0.5 , 0.  ],
               [0.  , 0.25]], dtype=float32)
    """
    packed, order = _checked(lower_upper, perm, validate_args)
    rows, _ = sides(packed)
    one = eye(shape(packed)[-1] if rows is None else rows, dtype=packed.dtype)
    return lu_solve(packed, order, one, name=name or "lu_matrix_inverse")
