"""`af.linalg`: matrices, under the names TensorFlow and NumPy have for them."""

from aioflow.kernels.array.arrays import diag as tensor_diag
from aioflow.kernels.array.arrays import diag_part as tensor_diag_part
from aioflow.kernels.array.arrays import matrix_transpose
from aioflow.kernels.array.fill import eye
from aioflow.kernels.linalg.decompositions import cholesky, qr
from aioflow.kernels.linalg.determinants import log_matrix_determinant, logdet, slogdet
from aioflow.kernels.linalg.determinants import matrix_determinant as det
from aioflow.kernels.linalg.diagonals import matrix_band_part as band_part
from aioflow.kernels.linalg.diagonals import matrix_diag as diag
from aioflow.kernels.linalg.diagonals import matrix_diag_part as diag_part
from aioflow.kernels.linalg.diagonals import matrix_set_diag as set_diag
from aioflow.kernels.linalg.eig_svd import self_adjoint_eig as eigh
from aioflow.kernels.linalg.eig_svd import self_adjoint_eigvals as eigvalsh
from aioflow.kernels.linalg.eig_svd import svd
from aioflow.kernels.linalg.einsum import einsum
from aioflow.kernels.linalg.least_squares import matrix_solve_ls as lstsq
from aioflow.kernels.linalg.least_squares import pinv
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.linalg.matrix_exponential import expm
from aioflow.kernels.linalg.norms import norm, trace
from aioflow.kernels.linalg.products import adjoint, cross, matvec
from aioflow.kernels.linalg.solvers import cholesky_solve
from aioflow.kernels.linalg.solvers import matrix_inverse as inv
from aioflow.kernels.linalg.solvers import matrix_solve as solve
from aioflow.kernels.linalg.solvers import matrix_triangular_solve as triangular_solve
from aioflow.kernels.linalg.tensordot import tensordot
from aioflow.library.clip import global_norm
from aioflow.library.nn_functions import l2_normalize

transpose = matrix_transpose

__all__ = [
    "adjoint", "band_part", "cholesky", "cholesky_solve", "cross", "det", "diag", "diag_part", "eigh", "eigvalsh",
    "einsum", "expm", "eye", "global_norm", "inv", "l2_normalize", "log_matrix_determinant", "logdet", "lstsq",
    "matmul", "matrix_transpose", "matvec", "norm", "pinv", "qr", "set_diag", "slogdet", "solve", "svd", "tensor_diag",
    "tensor_diag_part", "tensordot", "trace", "transpose", "triangular_solve",
]  # fmt: skip
