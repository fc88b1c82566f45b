"""`af.linalg`: functions of matrices, under TensorFlow's and NumPy's names."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow import cholesky as cholesky
from aioflow import cross as cross
from aioflow import diag as tensor_diag
from aioflow import diag_part as tensor_diag_part
from aioflow import log_matrix_determinant as log_matrix_determinant
from aioflow import log_matrix_determinant as slogdet
from aioflow import matmul as matmul
from aioflow import matrix_band_part as band_part
from aioflow import matrix_determinant as det
from aioflow import matrix_diag as diag
from aioflow import matrix_diag_part as diag_part
from aioflow import matrix_exponential as expm
from aioflow import matrix_inverse as inv
from aioflow import matrix_set_diag as set_diag
from aioflow import matrix_solve as solve
from aioflow import matrix_square_root as sqrtm
from aioflow import matrix_transpose as matrix_transpose
from aioflow import matrix_transpose as transpose
from aioflow import matrix_triangular_solve as triangular_solve
from aioflow import qr as qr
from aioflow import self_adjoint_eig as eigh
from aioflow import self_adjoint_eigvals as eigvalsh
from aioflow import trace as trace
from aioflow.kernels.array.constants import eye as eye
from aioflow.kernels.linalg.decompositions import svd as svd
from aioflow.kernels.linalg.determinants import logdet as logdet
from aioflow.kernels.linalg.least_squares import matrix_solve_ls as lstsq
from aioflow.kernels.linalg.lu import lu_matrix_inverse as lu_matrix_inverse
from aioflow.kernels.linalg.lu import lu_reconstruct as lu_reconstruct
from aioflow.kernels.linalg.lu import lu_solve as lu_solve
from aioflow.kernels.linalg.norms import matrix_rank as matrix_rank
from aioflow.kernels.linalg.norms import norm as norm
from aioflow.kernels.linalg.norms import normalize as normalize
from aioflow.kernels.linalg.products import adjoint as adjoint
from aioflow.kernels.linalg.products import einsum as einsum
from aioflow.kernels.linalg.products import matvec as matvec
from aioflow.kernels.linalg.products import tensordot as tensordot
from aioflow.kernels.linalg.solvers import cholesky_solve as cholesky_solve
from aioflow.kernels.linalg.tridiagonal import tridiagonal_matmul as tridiagonal_matmul
from aioflow.kernels.linalg.tridiagonal import tridiagonal_solve as tridiagonal_solve
from aioflow.library import linalg_experimental as experimental
from aioflow.library.clip import global_norm as global_norm
from aioflow.library.eigh_tridiagonal import eigh_tridiagonal as eigh_tridiagonal
from aioflow.library.linear_operators.adjoint import LinearOperatorAdjoint as LinearOperatorAdjoint
from aioflow.library.linear_operators.block_diag import LinearOperatorBlockDiag as LinearOperatorBlockDiag
from aioflow.library.linear_operators.block_triangular import LinearOperatorBlockLowerTriangular as LinearOperatorBlockLowerTriangular
from aioflow.library.linear_operators.circulant import LinearOperatorCirculant as LinearOperatorCirculant
from aioflow.library.linear_operators.circulant import LinearOperatorCirculant2D as LinearOperatorCirculant2D
from aioflow.library.linear_operators.circulant import LinearOperatorCirculant3D as LinearOperatorCirculant3D
from aioflow.library.linear_operators.composition import LinearOperatorComposition as LinearOperatorComposition
from aioflow.library.linear_operators.diag import LinearOperatorDiag as LinearOperatorDiag
from aioflow.library.linear_operators.full_matrix import LinearOperatorFullMatrix as LinearOperatorFullMatrix
from aioflow.library.linear_operators.householder import LinearOperatorHouseholder as LinearOperatorHouseholder
from aioflow.library.linear_operators.identity import LinearOperatorIdentity as LinearOperatorIdentity
from aioflow.library.linear_operators.identity import LinearOperatorScaledIdentity as LinearOperatorScaledIdentity
from aioflow.library.linear_operators.inversion import LinearOperatorInversion as LinearOperatorInversion
from aioflow.library.linear_operators.kronecker import LinearOperatorKronecker as LinearOperatorKronecker
from aioflow.library.linear_operators.low_rank_update import LinearOperatorLowRankUpdate as LinearOperatorLowRankUpdate
from aioflow.library.linear_operators.operator import LinearOperator as LinearOperator
from aioflow.library.linear_operators.permutation import LinearOperatorPermutation as LinearOperatorPermutation
from aioflow.library.linear_operators.toeplitz import LinearOperatorToeplitz as LinearOperatorToeplitz
from aioflow.library.linear_operators.triangular import LinearOperatorLowerTriangular as LinearOperatorLowerTriangular
from aioflow.library.linear_operators.tridiagonal import LinearOperatorTridiag as LinearOperatorTridiag
from aioflow.library.linear_operators.zeros import LinearOperatorZeros as LinearOperatorZeros
from aioflow.library.nn_functions import l2_normalize as l2_normalize

__all__ = ["LinearOperator", "LinearOperatorAdjoint", "LinearOperatorBlockDiag", "LinearOperatorBlockLowerTriangular",
    "LinearOperatorCirculant", "LinearOperatorCirculant2D", "LinearOperatorCirculant3D", "LinearOperatorComposition",
    "LinearOperatorDiag", "LinearOperatorFullMatrix", "LinearOperatorHouseholder", "LinearOperatorIdentity",
    "LinearOperatorInversion", "LinearOperatorKronecker", "LinearOperatorLowRankUpdate",
    "LinearOperatorLowerTriangular", "LinearOperatorPermutation", "LinearOperatorScaledIdentity",
    "LinearOperatorToeplitz", "LinearOperatorTridiag", "LinearOperatorZeros", "adjoint", "band_part", "cholesky",
    "cholesky_solve", "cross", "det", "diag", "diag_part", "eigh", "eigh_tridiagonal", "eigvalsh", "einsum",
    "experimental", "expm", "eye", "global_norm", "inv", "l2_normalize", "log_matrix_determinant", "logdet", "logm",
    "lstsq", "lu", "lu_matrix_inverse", "lu_reconstruct", "lu_solve", "matmul", "matrix_rank", "matrix_transpose",
    "matvec", "norm", "normalize", "pinv", "qr", "set_diag", "slogdet", "solve", "sqrtm", "svd", "tensor_diag",
    "tensor_diag_part", "tensordot", "trace", "transpose", "triangular_solve", "tridiagonal_matmul",
    "tridiagonal_solve"]

def pinv(a: NumberLike, rcond: float | None = None, name: str | None = None) -> Tensor:
    """The pseudo-inverse P of each matrix: of all x for which a x is nearest to b, P b is the shortest.

    Singular values up to `rcond` times the greatest count as 0, by default 10 times the greater side times the
    dtype's precision. The gradient is that at a fixed rank, where those are 0 indeed.

    Examples:
        >>> await session.run(af.linalg.pinv([[2.0, 0.0], [0.0, 4.0]]))
        array([[0.5 , 0.  ],
               [0.  , 0.25]], dtype=float32)
    """


def lu(input: NumberLike, output_idx_type: DTypeLike = ..., name: str | None = None) -> tuple[Tensor, Tensor]:
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


def logm(input: NumberLike, name: str | None = None) -> Tensor:
    """The X whose exponential is `input`, of each square matrix; eigenvalues are within pi of the real axis.

    On the CPU alone. InvalidArgumentError names the first matrix that has an eigenvalue which is 0 or negative.

    Examples:
        >>> (await session.run(af.linalg.logm([[1.0, 0.0], [0.0, 1.0]]))).round(3)
        array([[0., 0.],
               [0., 0.]], dtype=float32)
    """

