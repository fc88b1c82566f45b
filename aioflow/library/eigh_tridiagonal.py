"""Eigenvalues of Hermitian matrices with three diagonals."""

from typing import Any, Final

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import zeros_like
from aioflow.kernels.array.select import boolean_mask
from aioflow.kernels.control.assertions import assert_less, assert_less_equal
from aioflow.kernels.linalg.decompositions import self_adjoint_eig, self_adjoint_eigvals
from aioflow.kernels.linalg.diagonals import matrix_diag
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import logical_and
from aioflow.kernels.math.complex import conj, real
from aioflow.library.control import name_scope, with_dependencies
from aioflow.tensors.dtypes import int32

_SELECTIONS: Final = ("a", "i", "v")


@transactional
def eigh_tridiagonal(
    alpha: NumberLike,
    beta: NumberLike,
    eigvals_only: bool = True,
    select: str = "a",
    select_range: Any = None,
    tol: float | None = None,
    name: str | None = None,
) -> Any:
    """The eigenvalues of a Hermitian matrix with three diagonals, real numbers, least first.

    They are those of the dense matrix, in time N^3, as exact as the dtype allows.

    Args:
        alpha: the diagonal, N floating or complex numbers, of which only the real parts count.
        beta: the diagonal above, N - 1 numbers of the same dtype; that below has their conjugates.
        eigvals_only: whether the eigenvectors are not wanted.
        select: "a" for all eigenvalues, "i" for those from one place to another, "v" for those in an interval.
        select_range: the first and the last place, counted from 0; or the ends of the interval, of which the lower one
            does not belong to it.
        tol: has no effect: no eigenvalue is searched for.
        name: the name of the operations.

    Returns:
        The eigenvalues, or the pair of them and of the eigenvectors, which are columns.

    Raises:
        TypeError: the numbers are integers.
        ValueError: the shapes do not fit, the dtypes differ, or `select` is unknown or has no range.
        InvalidArgumentError: the range is empty.

    Examples:
        >>> await session.run(af.linalg.eigh_tridiagonal([2.0, 2.0], [1.0]))
        array([1., 3.], dtype=float32)
    """
    if select not in _SELECTIONS:
        raise ValueError(f"select is one of {', '.join(_SELECTIONS)}, not {select!r}")
    with name_scope(name, "eigh_tridiagonal", [alpha, beta]):
        middle, above = convert_to_tensor(alpha, name="alpha"), convert_to_tensor(beta, name="beta")
        _check(middle, above)
        matrix = matrix_diag(_compact(cast(real(middle), middle.dtype), above), k=(-1, 1))
        values, vectors = (self_adjoint_eigvals(matrix), None) if eigvals_only else self_adjoint_eig(matrix)
        chosen, columns = _selected(real(values), vectors, select, select_range)
        return chosen if eigvals_only else (chosen, columns)


def _check(middle: Tensor, above: Tensor) -> None:
    if middle.dtype is not above.dtype:
        raise ValueError(f"alpha and beta have one dtype, not {middle.dtype.name} and {above.dtype.name}")
    if not (middle.dtype.is_floating or middle.dtype.is_complex):
        raise TypeError(f"alpha has a floating or complex dtype, not {middle.dtype.name}")
    for what, tensor in (("alpha", middle), ("beta", above)):
        if tensor.shape.ndims not in (1, None):
            raise ValueError(f"{what} is a vector, its shape is {tensor.shape}")
    size, between = middle.shape.num_elements(), above.shape.num_elements()
    if size is not None and between is not None and between != size - 1:
        raise ValueError(f"beta has {size - 1} elements for {size} of alpha, not {between}")


def _compact(middle: Tensor, above: Tensor) -> Tensor:
    """The three diagonals, each filled up at its end."""
    filled = concat([above, zeros_like(middle[:1])], 0)
    return concat([filled[None], middle[None], conj(filled)[None]], 0)


def _selected(values: Tensor, vectors: Tensor | None, select: str, wanted: Any) -> tuple[Tensor, Tensor | None]:
    if select == "a":
        return values, vectors
    if wanted is None:
        raise ValueError(f"select={select!r} needs select_range, a pair of numbers")
    ends = convert_to_tensor(wanted, int32 if select == "i" else values.dtype, name="select_range")
    if ends.shape.num_elements() not in (2, None):
        raise ValueError(f"select_range is a pair of numbers, its shape is {ends.shape}")
    least, most = ends[0], ends[1]
    if select == "i":
        checks = [assert_less_equal(least, most, message="select_range is empty")]
        least = with_dependencies(checks, least)
        columns = None if vectors is None else vectors[:, least : most + 1]
        return values[least : most + 1], columns
    values = with_dependencies([assert_less(least, most, message="select_range is empty")], values)
    inside = logical_and(values > least, values <= most)
    return boolean_mask(values, inside), None if vectors is None else boolean_mask(vectors, inside, axis=1)
