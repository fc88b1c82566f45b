"""Products of two operators of kinds that know each other; and the imports of all kinds, which have rules, too."""

from typing import Any

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.partition import broadcast_dynamic_shape
from aioflow.kernels.array.shapes import expand_dims
from aioflow.kernels.linalg.decompositions import cholesky
from aioflow.library.linear_operators import adjoint as adjoint
from aioflow.library.linear_operators import block_diag as block_diag
from aioflow.library.linear_operators import block_triangular as block_triangular
from aioflow.library.linear_operators import composition as composition
from aioflow.library.linear_operators import householder as householder
from aioflow.library.linear_operators import inversion as inversion
from aioflow.library.linear_operators import kronecker as kronecker
from aioflow.library.linear_operators import low_rank_update as low_rank_update
from aioflow.library.linear_operators import permutation as permutation
from aioflow.library.linear_operators import toeplitz as toeplitz
from aioflow.library.linear_operators import tridiagonal as tridiagonal
from aioflow.library.linear_operators.circulant import CirculantOperator
from aioflow.library.linear_operators.diag import LinearOperatorDiag
from aioflow.library.linear_operators.dispatch import cholesky_of, product
from aioflow.library.linear_operators.identity import LinearOperatorIdentity, LinearOperatorScaledIdentity
from aioflow.library.linear_operators.operator import LinearOperator
from aioflow.library.linear_operators.triangular import LinearOperatorLowerTriangular
from aioflow.library.linear_operators.zeros import LinearOperatorZeros


@cholesky_of.of(LinearOperator)
def _cholesky(operator: LinearOperator) -> LinearOperator:
    return LinearOperatorLowerTriangular(
        cholesky(operator.to_dense()), is_non_singular=True, is_self_adjoint=False, is_square=True
    )


def _both(hint: str, left: LinearOperator, right: LinearOperator) -> bool | None:
    """A property of a product of commuting operators that both have; None if one may not have it."""
    return True if getattr(left, hint) and getattr(right, hint) else None


def _commuting(left: LinearOperator, right: LinearOperator) -> dict[str, Any]:
    """The hints of a product of operators that commute: it has each property of both."""
    hints = "is_non_singular", "is_self_adjoint", "is_positive_definite"
    found: dict[str, Any] = {hint: _both(hint, left, right) for hint in hints}
    if not found["is_self_adjoint"]:
        found["is_positive_definite"] = None
    return found


def _same_dtype(left: LinearOperator, right: LinearOperator) -> bool:
    """Whether both have one dtype; a composition complains of others."""
    return left.dtype is right.dtype


@product.of(LinearOperatorDiag, LinearOperatorDiag)
def _diag_diag(left: LinearOperatorDiag, right: LinearOperatorDiag) -> LinearOperator | None:
    if not _same_dtype(left, right):
        return None
    return LinearOperatorDiag(left.diag * right.diag, **_commuting(left, right))


@product.of(LinearOperatorScaledIdentity, LinearOperatorScaledIdentity)
def _scaled_scaled(left: LinearOperatorScaledIdentity, right: LinearOperatorScaledIdentity) -> LinearOperator | None:
    if not _same_dtype(left, right):
        return None
    return LinearOperatorScaledIdentity(left._rows(), left.multiplier * right.multiplier, **_commuting(left, right))


def _scaled(multiple: LinearOperatorScaledIdentity, diag: LinearOperatorDiag) -> Tensor:
    return expand_dims(multiple.multiplier, -1) * diag.diag


@product.of(LinearOperatorScaledIdentity, LinearOperatorDiag)
def _scaled_diag(left: LinearOperatorScaledIdentity, right: LinearOperatorDiag) -> LinearOperator | None:
    if not _same_dtype(left, right):
        return None
    return LinearOperatorDiag(_scaled(left, right), **_commuting(left, right))


@product.of(LinearOperatorDiag, LinearOperatorScaledIdentity)
def _diag_scaled(left: LinearOperatorDiag, right: LinearOperatorScaledIdentity) -> LinearOperator | None:
    return (
        None if left.dtype is not right.dtype else LinearOperatorDiag(_scaled(right, left), **_commuting(left, right))
    )


@product.of(LinearOperatorDiag, LinearOperatorLowerTriangular)
def _diag_triangle(left: LinearOperatorDiag, right: LinearOperatorLowerTriangular) -> LinearOperator | None:
    if not _same_dtype(left, right):
        return None
    whole = expand_dims(left.diag, -1) * right.to_dense()
    return LinearOperatorLowerTriangular(whole, is_non_singular=_both("is_non_singular", left, right))


@product.of(LinearOperatorLowerTriangular, LinearOperatorDiag)
def _triangle_diag(left: LinearOperatorLowerTriangular, right: LinearOperatorDiag) -> LinearOperator | None:
    if not _same_dtype(left, right):
        return None
    whole = left.to_dense() * expand_dims(right.diag, -2)
    return LinearOperatorLowerTriangular(whole, is_non_singular=_both("is_non_singular", left, right))


@product.of(CirculantOperator, CirculantOperator)
def _circulant_circulant(left: CirculantOperator, right: CirculantOperator) -> LinearOperator | None:
    alike = type(left) is type(right) and left.spectrum.dtype is right.spectrum.dtype and _same_dtype(left, right)
    if not alike:
        return None
    return type(left)(left.spectrum * right.spectrum, left.dtype, **_commuting(left, right))


@product.of(LinearOperatorIdentity, LinearOperatorIdentity)
@product.of(LinearOperatorIdentity, LinearOperator)
def _identity_first(left: LinearOperatorIdentity, right: LinearOperator) -> LinearOperator | None:
    """The other operator, unless the identity spreads it to a batch."""
    return right if left.batch_shape.ndims == 0 and _same_dtype(left, right) else None


@product.of(LinearOperator, LinearOperatorIdentity)
def _identity_last(left: LinearOperator, right: LinearOperatorIdentity) -> LinearOperator | None:
    return left if right.batch_shape.ndims == 0 and _same_dtype(left, right) else None


@product.of(LinearOperatorZeros, LinearOperatorZeros)
@product.of(LinearOperatorZeros, LinearOperatorIdentity)
@product.of(LinearOperatorIdentity, LinearOperatorZeros)
@product.of(LinearOperatorZeros, LinearOperator)
@product.of(LinearOperator, LinearOperatorZeros)
def _zeros(left: LinearOperator, right: LinearOperator) -> LinearOperator | None:
    if not _same_dtype(left, right):
        return None
    batch = broadcast_dynamic_shape(left._batch_sizes(), right._batch_sizes())
    rows, columns = left.range_dimension.value, right.domain_dimension.value
    square = rows == columns if None not in (rows, columns) else left is right
    return LinearOperatorZeros(
        left._rows(), right._columns(), batch, left.dtype, is_self_adjoint=square, is_square=square
    )
