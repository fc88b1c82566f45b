"""`af.linalg`: functions of matrices, under TensorFlow's and NumPy's names."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.kernels.array.arrays": (
        "matrix_transpose tensor_diag=diag tensor_diag_part=diag_part transpose=matrix_transpose"
    ),
    "aioflow.kernels.array.constants": "eye",
    "aioflow.kernels.linalg.decompositions": "cholesky eigh=self_adjoint_eig eigvalsh=self_adjoint_eigvals qr svd",
    "aioflow.kernels.linalg.determinants": "det=matrix_determinant log_matrix_determinant logdet slogdet",
    "aioflow.kernels.linalg.diagonals": (
        "band_part=matrix_band_part diag=matrix_diag diag_part=matrix_diag_part set_diag=matrix_set_diag"
    ),
    "aioflow.kernels.linalg.least_squares": "lstsq=matrix_solve_ls pinv",
    "aioflow.kernels.linalg.lu": "lu lu_matrix_inverse lu_reconstruct lu_solve",
    "aioflow.kernels.linalg.matmul": "matmul",
    "aioflow.kernels.linalg.norms": "matrix_rank norm normalize trace",
    "aioflow.kernels.linalg.products": "adjoint cross einsum matvec tensordot",
    "aioflow.kernels.linalg.roots": "logm=matrix_logarithm sqrtm=matrix_square_root",
    "aioflow.kernels.linalg.solvers": (
        "cholesky_solve expm inv=matrix_inverse solve=matrix_solve triangular_solve=matrix_triangular_solve"
    ),
    "aioflow.kernels.linalg.tridiagonal": "tridiagonal_matmul tridiagonal_solve",
    "aioflow.library": "experimental=linalg_experimental",
    "aioflow.library.clip": "global_norm",
    "aioflow.library.eigh_tridiagonal": "eigh_tridiagonal",
    "aioflow.library.linear_operators.adjoint": "LinearOperatorAdjoint",
    "aioflow.library.linear_operators.block_diag": "LinearOperatorBlockDiag",
    "aioflow.library.linear_operators.block_triangular": "LinearOperatorBlockLowerTriangular",
    "aioflow.library.linear_operators.circulant": (
        "LinearOperatorCirculant LinearOperatorCirculant2D LinearOperatorCirculant3D"
    ),
    "aioflow.library.linear_operators.composition": "LinearOperatorComposition",
    "aioflow.library.linear_operators.diag": "LinearOperatorDiag",
    "aioflow.library.linear_operators.full_matrix": "LinearOperatorFullMatrix",
    "aioflow.library.linear_operators.householder": "LinearOperatorHouseholder",
    "aioflow.library.linear_operators.identity": "LinearOperatorIdentity LinearOperatorScaledIdentity",
    "aioflow.library.linear_operators.inversion": "LinearOperatorInversion",
    "aioflow.library.linear_operators.kronecker": "LinearOperatorKronecker",
    "aioflow.library.linear_operators.low_rank_update": "LinearOperatorLowRankUpdate",
    "aioflow.library.linear_operators.operator": "LinearOperator",
    "aioflow.library.linear_operators.permutation": "LinearOperatorPermutation",
    "aioflow.library.linear_operators.toeplitz": "LinearOperatorToeplitz",
    "aioflow.library.linear_operators.triangular": "LinearOperatorLowerTriangular",
    "aioflow.library.linear_operators.tridiagonal": "LinearOperatorTridiag",
    "aioflow.library.linear_operators.zeros": "LinearOperatorZeros",
    "aioflow.library.nn_functions": "l2_normalize",
})  # fmt: skip
