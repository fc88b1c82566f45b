"""Square roots and logarithms of matrices, for batches in the last two axes.

The root is the limit of Denman and Beavers' iteration in its product form [Cheng, Higham, Kenney and Laub 2001]: M and
X start as the matrix A; each step makes X the mean of X and X inverse(M) and so brings M nearer to 1. The logarithm
takes roots until little is left to 1, and then the integral of (A - 1) inverse(1 + t (A - 1)) for t from 0 to 1.
Both need no eigenvalue to be 0 or negative.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from aioflow import errors
from aioflow.graph.op import Op, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.families import CPU
from aioflow.kernels.linalg.matrices import check_square, cubic, derivative, named, square
from aioflow.tensors.dtypes import Array, Namespace, Spec

_STEPS: Final = 60
_ROOTS: Final = 100
_NEAR: Final = 0.25
"""The distance to 1 up to which Gauss and Legendre's rule is exact in float64."""
_PLACES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


@op
def matrix_square_root(input: Spec) -> Spec:
    """The X with X X = `input` whose eigenvalues have positive real parts, of each square matrix. On the CPU alone.

    InvalidArgumentError names the first matrix that has an eigenvalue which is 0 or negative.

    Examples:
        >>> (await session.run(af.linalg.sqrtm([[4.0, 0.0], [0.0, 9.0]]))).round(3)
        array([[2., 0.],
               [0., 3.]], dtype=float32)
    """
    return square(input)


@op
def matrix_logarithm(input: Spec) -> Spec:
    """The X whose exponential is `input`, of each square matrix; eigenvalues are within pi of the real axis.

    On the CPU alone. InvalidArgumentError names the first matrix that has an eigenvalue which is 0 or negative.

    Examples:
        >>> (await session.run(af.linalg.logm([[1.0, 0.0], [0.0, 1.0]]))).round(3)
        array([[0., 0.],
               [0., 0.]], dtype=float32)
    """
    return square(input)


def _by_derivative(made: Op[Tensor]) -> None:
    @made.gradient
    def _(op: Operation, dy: Tensor) -> Tensor:
        return derivative(made, op.inputs[0], dy)


def _each(function: Callable[[Array], Array]) -> Callable[[Namespace, Array], Array]:
    """`function` of single matrices, in the wider dtype of its kind, for all matrices of a batch."""

    def compute(xp: Namespace, x: Array) -> Array:
        check_square(x)
        result = np.empty_like(x)
        for place in np.ndindex(x.shape[:-2]):
            matrix = x[place].astype(np.complex128 if x.dtype.kind == "c" else np.float64)
            found = function(matrix) if x.shape[-1] else matrix
            if found is None or not np.isfinite(found).all():
                raise errors.InvalidArgumentError(
                    f"{named(place)} has an eigenvalue that is 0, or negative, or not finite: it has no such result"
                )
            result[place] = found
        return result

    return compute


def _root(a: Array) -> Array | None:
    """None if the iteration does not converge."""
    one, m, x = np.eye(len(a), dtype=a.dtype), a, a
    tolerance = len(a) * np.finfo(a.dtype).eps
    for _ in range(_STEPS):
        sign, log = np.linalg.slogdet(m)
        if sign == 0 or not np.isfinite(log):
            return None
        scale = np.exp(-log / (2 * len(a))) if np.abs(m - one).max() > 0.1 else 1.0
        inverse = np.linalg.inv(m)
        x = scale / 2 * (x + x @ inverse / scale**2)
        m = (one + (scale**2 * m + inverse / scale**2) / 2) / 2
        if np.abs(m - one).max() <= tolerance:
            return x
    return None if np.abs(m - one).max() > 1e-8 else x


def _logarithm(a: Array) -> Array | None:
    one, doublings = np.eye(len(a), dtype=a.dtype), 0
    while np.abs(a - one).sum(0).max() > _NEAR:
        root = _root(a)
        if root is None or doublings == _ROOTS:
            return None
        a, doublings = root, doublings + 1
    off = a - one
    parts = [w / 2 * np.linalg.solve(one + (t + 1) / 2 * off, off) for t, w in zip(_PLACES, _WEIGHTS, strict=True)]
    return np.sum(parts, 0) * 2.0**doublings


for _made, _function, _factor in [(matrix_square_root, _root, 60.0), (matrix_logarithm, _logarithm, 200.0)]:
    _by_derivative(_made)
    cubic(_made, _factor)
    _made.kernel(CPU, fresh=True)(_each(_function))
