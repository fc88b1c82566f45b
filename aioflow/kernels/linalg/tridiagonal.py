"""Matrices with three diagonals: products, and linear equations solved row by row."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import T, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.arrays import matrix_transpose
from aioflow.kernels.array.concat import concat, stack
from aioflow.kernels.array.constants import identity, zeros_like
from aioflow.kernels.array.shapes import expand_dims, shape, squeeze
from aioflow.kernels.families import CPU, costs
from aioflow.kernels.linalg.diagonals import matrix_diag_part
from aioflow.kernels.linalg.matrices import matrices, named, square
from aioflow.kernels.math.arithmetic import add
from aioflow.kernels.math.complex import conj
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.tensors.dtypes import Array, Namespace, Spec, merge_sizes
from aioflow.tensors.recursion import safe_repr

_FORMATS: Final = ("compact", "matrix", "sequence")


@op(name="tridiagonal_solve")
def _solve(diagonals: T, rhs: T, partial_pivoting: bool = True, perturb_singular: bool = False) -> Spec:
    """The x for which A x = `rhs`; the rows of `diagonals` are the diagonals above, on and below that of A."""
    matrices(diagonals).same_dtype(matrices(rhs))
    if perturb_singular and not partial_pivoting:
        raise ValueError("perturb_singular needs partial_pivoting")
    if diagonals.sizes is None or rhs.sizes is None:
        return rhs
    *batch, count, size = diagonals.sizes
    *others, rows, columns = rhs.sizes
    if count not in (3, None):
        raise ValueError(f"a matrix has three diagonals, the shape of diagonals is {diagonals.shape}")
    if None not in (size, rows) and size != rows:
        raise ValueError(f"{size} equations have right hand sides of {size} rows, not {rows}")
    if len(batch) != len(others) or any(None not in (a, b) and a != b for a, b in zip(batch, others, strict=True)):
        raise ValueError(f"the batches of diagonals and rhs are equal, not {batch} and {others}")
    merged = [merge_sizes(a, b) for a, b in zip(batch, others, strict=True)]
    whole = (*merged, merge_sizes(size, rows), columns)
    return rhs if whole == tuple(rhs.sizes) else rhs.with_shape(whole)


costs(_solve, 30.0)


@_solve.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, Tensor]:
    (above, middle, below), x = _three(op.inputs[0]), op.outputs[0]
    turned = stack([conj(_up(below)), conj(middle), conj(_down(above))], -2)
    back = _solve(turned, dy, **op.attrs)
    kept = conj(x)
    parts = [reduce_sum(back * moved, -1) for moved in (_up(kept, -2), kept, _down(kept, -2))]
    return -stack(parts, -2), back


@_solve.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array, Array], Array]:
    pivoting, perturbed = node.attrs["partial_pivoting"], node.attrs["perturb_singular"]

    def solve(diagonals: Array, rhs: Array) -> Array:
        if diagonals.shape[-2] != 3 or (*diagonals.shape[:-2], diagonals.shape[-1]) != rhs.shape[:-1]:
            raise errors.InvalidArgumentError(
                f"diagonals of shape {list(diagonals.shape)} do not go with right hand sides of {list(rhs.shape)}"
            )
        if not rhs.size:
            return rhs.copy()
        above, middle, below = np.moveaxis(diagonals, (-2, -1), (0, 1))[..., None].copy()
        above[-1], below[0] = 0, 0  # they are no elements of the matrix
        x = np.moveaxis(rhs, -2, 0).copy()
        least = _least(above, middle, below) if perturbed else None
        beyond = _reduce(above, middle, below, x, pivoting, least)
        return np.moveaxis(_back(above, middle, beyond, x), 0, -2)

    return solve


def _least(*diagonals: Array) -> Array:
    """What takes the place of lesser pivots, for each matrix."""
    info = np.finfo(diagonals[0].dtype)
    greatest = np.abs(np.stack(diagonals)).max((0, 1))
    return np.maximum(greatest * info.eps, info.tiny / info.eps)


def _reduce(above: Array, middle: Array, below: Array, x: Array, pivoting: bool, least: Array | None) -> Array:
    """Eliminates the diagonal below, in place; gives the second diagonal above, which exchanged rows fill."""
    beyond = np.zeros_like(above)
    last = len(middle) - 1
    for row in range(last + 1):
        rest = row < last
        if rest and pivoting:
            _exchange(above, middle, below, beyond, x, row)
        _check_pivot(middle, row, least)
        if rest:
            factor = below[row + 1] / middle[row]
            middle[row + 1] -= factor * above[row]
            above[row + 1] -= factor * beyond[row]
            x[row + 1] -= factor * x[row]
    return beyond


def _exchange(above: Array, middle: Array, below: Array, beyond: Array, x: Array, row: int) -> None:
    """Put the row with the greater element of the column first, in each matrix."""
    swap = np.abs(below[row + 1]) > np.abs(middle[row])
    if swap.any():
        following = row + 1
        for upper, lower in [
            (middle[row], below[following]),
            (above[row], middle[following]),
            (beyond[row], above[following]),
            (x[row], x[following]),
        ]:
            upper[...], lower[...] = np.where(swap, lower, upper), np.where(swap, upper, lower)


def _check_pivot(middle: Array, row: int, least: Array | None) -> None:
    if least is not None:
        middle[row] = np.where(np.abs(middle[row]) < least, least, middle[row])
    elif not middle[row].all():
        pivots = middle[row, ..., 0]
        place = np.unravel_index(int(np.argmin(pivots != 0)), pivots.shape)
        raise errors.InvalidArgumentError(f"{named(place)} is singular, or needs partial_pivoting: a pivot is 0")


def _back(above: Array, middle: Array, beyond: Array, x: Array) -> Array:
    """Solves the equations of three diagonals on and above the main one, from the last row, in place."""
    last = len(middle) - 1
    for row in range(last, -1, -1):
        if row < last:
            x[row] -= above[row] * x[row + 1]
        if row < last - 1:
            x[row] -= beyond[row] * x[row + 2]
        x[row] /= middle[row]
    return x


def _three(diagonals: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return diagonals[..., 0, :], diagonals[..., 1, :], diagonals[..., 2, :]


def _part(x: Tensor, axis: int, start: int | None, stop: int | None) -> Tensor:
    return x[..., start:stop] if axis == -1 else x[..., start:stop, :]


def _up(x: Tensor, axis: int = -1) -> Tensor:
    """Each element in the place of the one before it, and a 0 in the last place."""
    return concat([_part(x, axis, 1, None), zeros_like(_part(x, axis, 0, 1))], axis)


def _down(x: Tensor, axis: int = -1) -> Tensor:
    """Each element in the place of the one after it, and a 0 in the first place."""
    return concat([zeros_like(_part(x, axis, 0, 1)), _part(x, axis, 0, -1)], axis)


def three_diagonals(given: Any, form: str, rhs: NumberLike | None) -> tuple[Tensor, Tensor, Tensor]:
    """The diagonals above, on and below the main one, all of its length; of the dtype of `rhs` if that is a tensor."""
    dtype = rhs.dtype if isinstance(rhs, Tensor) else None
    if form == "compact":
        whole = convert_to_tensor(given, dtype)
        if whole.spec.sizes is not None and (len(whole.spec.sizes) < 2 or whole.spec.sizes[-2] not in (3, None)):
            raise ValueError(f"compact diagonals have the shape [..., 3, n], not {whole.spec.shape}")
        return _three(whole)
    if form == "matrix":
        whole = convert_to_tensor(given, dtype)
        square(whole.spec)
        middle = matrix_diag_part(whole)
        above, below = matrix_diag_part(whole[..., :-1, 1:]), matrix_diag_part(whole[..., 1:, :-1])
        return _filled(above, middle, False), middle, _filled(below, middle, True)
    if form != "sequence":
        raise ValueError(f"diagonals_format is one of {', '.join(_FORMATS)}, not {safe_repr(form)}")
    if len(given) != 3:
        raise ValueError(f"a sequence of diagonals has those above, on and below the main one, not {len(given)}")
    middle = convert_to_tensor(given[1], dtype)
    above, below = (convert_to_tensor(given[index], middle.dtype) for index in (0, 2))
    return _padded(above, middle, False), middle, _padded(below, middle, True)


def _padded(x: Tensor, middle: Tensor, first: bool) -> Tensor:
    """`x` with the length of `middle`: an element that is no part of the matrix is put first, or last."""
    if x.spec.sizes is not None and middle.spec.sizes is not None and x.spec.sizes[-1:] == middle.spec.sizes[-1:]:
        return x
    return _filled(x, middle, first)


def _filled(x: Tensor, middle: Tensor, first: bool) -> Tensor:
    """`x`, filled up to the length of `middle`."""
    none = zeros_like(middle[..., :1])
    size = shape(middle)[-1]
    return concat([none, x], -1)[..., -size:] if first else concat([x, none], -1)[..., :size]


@transactional
def tridiagonal_matmul(
    diagonals: Any, rhs: NumberLike, diagonals_format: str = "compact", name: str | None = None
) -> Tensor:
    """The products of matrices with three diagonals and the matrices `rhs`.

    Args:
        diagonals: as `tridiagonal_solve` takes them.
        rhs: [..., n, k].
        diagonals_format: "compact", "sequence" or "matrix".
        name: the name of the result.

    Examples:
        >>> product = af.linalg.tridiagonal_matmul([[1.0, 0.0], [2.0, 2.0], [0.0, 1.0]], [[1.0], [10.0]])
        >>> await session.run(product)
        array([[12.],
               [21.]], dtype=float32)
    """
    parts = three_diagonals(diagonals, diagonals_format, rhs)
    right = convert_to_tensor(rhs, parts[1].dtype)
    if right.spec.rank == 1:
        raise ValueError(f"tridiagonal_matmul: rhs is a matrix [..., n, k], its shape is {right.spec.shape}")
    above, middle, below = [expand_dims(x, -1) for x in parts]
    none = zeros_like(right[..., :1, :])
    upper = concat([above[..., :-1, :] * right[..., 1:, :], none], -2)
    lower = concat([none, below[..., 1:, :] * right[..., :-1, :]], -2)
    return add(upper + middle * right, lower, name=name or "tridiagonal_matmul")


@transactional
def tridiagonal_solve(
    diagonals: Any,
    rhs: NumberLike,
    diagonals_format: str = "compact",
    transpose_rhs: bool = False,
    conjugate_rhs: bool = False,
    name: str | None = None,
    partial_pivoting: bool = True,
    perturb_singular: bool = False,
) -> Tensor:
    """The x for which A x = `rhs`, for matrices A of which only three diagonals are not 0. On the CPU alone.

    Args:
        diagonals: "compact": [..., 3, n], the diagonals above, on and below the main one; the last element above and
            the first one below count for nothing. "sequence": three tensors [..., n], of which the first and the last
            may be shorter by that element. "matrix": [..., n, n].
        rhs: right hand sides in the columns of [..., n, k], or one, [..., n].
        diagonals_format: "compact", "sequence" or "matrix".
        transpose_rhs: whether the right hand sides are the rows of `rhs`, [..., k, n].
        conjugate_rhs: whether their conjugates are meant.
        name: the name of the result.
        partial_pivoting: whether rows are exchanged for accuracy; without, a matrix needs a dominant diagonal.
        perturb_singular: whether pivots near 0 are replaced by small ones, so that all results are finite.

    Raises:
        ValueError: the shapes do not fit, or the format is unknown.
        InvalidArgumentError: a matrix is singular.

    Examples:
        >>> x = af.linalg.tridiagonal_solve([[1.0, 0.0], [2.0, 2.0], [0.0, 1.0]], [3.0, 3.0])
        >>> (await session.run(x)).round(3)
        array([1., 1.], dtype=float32)
    """
    parts = three_diagonals(diagonals, diagonals_format, rhs)
    right = convert_to_tensor(rhs, parts[1].dtype)
    rank = parts[1].spec.rank
    if rank is None or right.spec.rank not in (rank, rank + 1):
        raise ValueError(
            f"tridiagonal_solve: rhs has the rank of {parts[1].spec.shape} or one more, its shape is {right.spec.shape}"
        )
    vector = right.spec.rank == rank
    right = expand_dims(right, -1) if vector else matrix_transpose(right) if transpose_rhs else right
    right = conj(right) if conjugate_rhs else right
    x = _solve(stack(parts, -2), right, partial_pivoting, perturb_singular)
    return squeeze(x, -1, name=name) if vector else identity(x, name=name)
