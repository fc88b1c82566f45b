import numpy as np
import scipy.linalg

from aioflow.kernels.linalg import (
    decompositions,
    determinants,
    diagonals,
    least_squares,
    lu,
    products,
    roots,
    solvers,
    tridiagonal,
)
from aioflow.kernels.linalg.matrices import adjoint as adjoint_of
from aioflow.kernels.linalg.matrices import product
from tests.kernels.samples import sample

random = np.random.default_rng(17)


def normal(*shape, complex=False):
    x = random.standard_normal(shape)
    return x + 1j * random.standard_normal(shape) if complex else x


def flip(x):
    return np.swapaxes(x, -1, -2).conj()


def near_one(*shape, complex=False):
    return normal(*shape, complex=complex) * 0.3 + np.eye(shape[-1])


# Inverses and equations

for complex in (False, True):
    one, batch = near_one(3, 3, complex=complex), near_one(2, 3, 3, complex=complex)
    right, rights = normal(3, 2, complex=complex), normal(2, 3, 1, complex=complex)
    sample("matrix_exponential", solvers.expm, 2 * batch, reference=scipy.linalg.expm)
    for adjoint in (False, True):
        for x in (one, batch):
            sample(
                "matrix_inverse", lambda x, a=adjoint: solvers.matrix_inverse(x, a), x,
                reference=lambda x, a=adjoint: np.linalg.inv(flip(x) if a else x),
            )  # fmt: skip
        for pair in [(one, right), (batch, rights), (one, rights), (batch, right), (batch[:, None], rights)]:
            sample(
                "matrix_solve", lambda x, b, a=adjoint: solvers.matrix_solve(x, b, a), *pair,
                reference=lambda x, b, a=adjoint: np.linalg.solve(flip(x) if a else x, b),
            )  # fmt: skip
            for lower in (False, True):
                sample(
                    "matrix_triangular_solve",
                    lambda x, b, low=lower, a=adjoint: solvers.matrix_triangular_solve(x, b, low, a), *pair,
                    reference=lambda x, b, low=lower, a=adjoint: np.linalg.solve(
                        flip((np.triu, np.tril)[low](x)) if a else (np.triu, np.tril)[low](x), b),
                )  # fmt: skip
    for x in (one, batch, batch[:1] * 0.1):
        sample("matrix_determinant", determinants.matrix_determinant, x, reference=np.linalg.det)
        sample(
            "log_matrix_determinant", determinants.log_matrix_determinant, x,
            reference=lambda x: [np.asarray(part, x.dtype) for part in np.linalg.slogdet(x)],
        )  # fmt: skip

for name, function in [("matrix_inverse", solvers.matrix_inverse), ("matrix_exponential", solvers.expm)]:
    for shape in [(0, 0), (0, 2, 2), (2, 0, 0)]:
        sample(name, function, np.zeros(shape), reference=lambda x: x)
sample("matrix_solve", solvers.matrix_solve, np.zeros((0, 0)), np.zeros((0, 2)), reference=lambda x, b: b)
sample("matrix_triangular_solve", solvers.matrix_triangular_solve, np.zeros((2, 0, 0)), np.zeros((0, 2)),
       reference=lambda x, b: np.zeros((2, 0, 2)))  # fmt: skip
sample("matrix_determinant", determinants.matrix_determinant, np.zeros((2, 0, 0)), reference=np.linalg.det)
sample("matrix_determinant", determinants.matrix_determinant, np.zeros((2, 2)), reference=np.linalg.det, gradient=False)
sample("matrix_exponential", solvers.expm, normal(4, 4) * 40, reference=scipy.linalg.expm, gradient=False)

# Least squares

for complex in (False, True):
    for x in (normal(4, 2, complex=complex), normal(2, 2, 3, complex=complex), normal(3, 3, complex=complex)):
        sample("pinv", least_squares.pinv, x, reference=np.linalg.pinv)
flat = np.outer([1.0, 2, 3], [2.0, 1])
sample("pinv", least_squares.pinv, flat, reference=np.linalg.pinv, gradient=False)
sample("pinv", lambda x: least_squares.pinv(x, 0.9), np.diag([3.0, 1.0]),
       reference=lambda x: np.diag([1 / 3, 0]), gradient=False)  # fmt: skip
sample("pinv", least_squares.pinv, np.zeros((2, 0, 3)), reference=np.linalg.pinv)

# Factors: what is compared does not depend on signs and phases


def gram(x):
    return x @ flip(x) + np.eye(x.shape[-1])


def hermitian(x):
    return x + flip(x)


def own_gram(x):
    return product(x, x, adjoint_b=True) + np.eye(3)


for complex in (False, True):
    for x in (normal(3, 3, complex=complex), normal(2, 3, 3, complex=complex)):
        sample("cholesky", lambda x: decompositions.cholesky(own_gram(x)), x,
               reference=lambda x: np.linalg.cholesky(gram(x)))  # fmt: skip
sample("cholesky", decompositions.cholesky, np.zeros((2, 0, 0)), reference=np.linalg.cholesky)


def own_projections(u, v, count):
    """The projections on the columns, weighted: what a change of their phases leaves."""
    weights = np.arange(1.0, count + 1)
    return product(u[..., :count] * weights, v[..., :count], adjoint_b=True)


def projections(u, v, count):
    return u[..., :count] * np.arange(1.0, count + 1) @ flip(v[..., :count])


def factors(function, reference, full, count):
    """The samples' build and reference for matrices whose lesser side is `count`."""
    return (lambda x: function(x, full, count)), (lambda x: reference(x, full, count))


def own_qr_parts(x, full, count):
    q, r = decompositions.qr(x, full)
    rest = q[..., count:]
    return (own_projections(q, q, count), product(r, r, adjoint_a=True),
            product(q, r), product(rest, rest, adjoint_b=True))  # fmt: skip


def qr_parts(x, full, count):
    q, r = np.linalg.qr(x, "complete" if full else "reduced")
    return projections(q, q, count), flip(r) @ r, x, q[..., count:] @ flip(q[..., count:])


def own_svd_parts(x, full, count):
    s, u, v = decompositions.svd(x, full)
    rest = [product(y[..., count:], y[..., count:], adjoint_b=True) for y in (u, v)]
    return s, own_projections(u, u, count), own_projections(v, v, count), own_projections(u, v, count), *rest


def svd_parts(x, full, count):
    u, s, vh = np.linalg.svd(x, full)
    v = flip(vh)
    rest = [y[..., count:] @ flip(y[..., count:]) for y in (u, v)]
    return s, projections(u, u, count), projections(v, v, count), projections(u, v, count), *rest


def own_eig_parts(x):
    e, v = decompositions.self_adjoint_eig(x + adjoint_of(x))
    return e, own_projections(v, v, 3)


def eig_parts(x):
    e, v = np.linalg.eigh(hermitian(x))
    return e.astype(x.dtype), projections(v, v, 3)


for complex in (False, True):
    for shape in [(3, 3), (4, 2), (2, 4), (2, 3, 2), (2, 2, 3), (0, 3, 2)]:
        x, count = normal(*shape, complex=complex), min(shape[-2:])
        for full in (False, True):
            build, reference = factors(own_qr_parts, qr_parts, full, count)
            sample("qr", build, x, reference=reference)
            build, reference = factors(own_svd_parts, svd_parts, full, count)
            sample("svd", build, x, reference=reference)
        sample("singular_values", lambda x: decompositions.svd(x, compute_uv=False), x,
               reference=lambda x: np.linalg.svd(x, compute_uv=False))  # fmt: skip
    for x in (normal(3, 3, complex=complex), normal(2, 3, 3, complex=complex)):
        sample("self_adjoint_eig", own_eig_parts, x, reference=eig_parts)
        sample(
            "self_adjoint_eigvals", lambda x: decompositions.self_adjoint_eigvals(x + adjoint_of(x)), x,
            reference=lambda x: np.linalg.eigvalsh(hermitian(x)).astype(x.dtype),
        )  # fmt: skip
sample("qr", decompositions.qr, np.zeros((3, 0)), reference=lambda x: tuple(np.linalg.qr(x)))
sample("self_adjoint_eigvals", decompositions.self_adjoint_eigvals, np.zeros((0, 0)), reference=np.linalg.eigvalsh)

# Diagonals and bands

banded = normal(2, 3, 4)
for band in [(1, 1), (-1, 0), (0, -1), (0, 0), (3, 4), (0, 2)]:
    sample(
        "matrix_band_part", lambda x, b=band: diagonals.matrix_band_part(x, *b), banded,
        reference=lambda x, b=band: np.triu(np.tril(x, 9 if b[1] < 0 else b[1]), -9 if b[0] < 0 else -b[0]),
    )  # fmt: skip
sample("matrix_band_part", lambda x, n: diagonals.matrix_band_part(x, n, 0), banded, np.int64(1),
       reference=lambda x, n: np.triu(np.tril(x), -1))  # fmt: skip
sample("lower_half", diagonals.lower_half, normal(2, 3, 3), reference=lambda x: (np.tril(x) + np.tril(x, -1)) / 2)

for k in (0, 1, -2, 3):
    sample("matrix_diag_part", lambda x, k=k: diagonals.matrix_diag_part(x, k=k), banded,
           reference=lambda x, k=k: np.diagonal(x, k, 1, 2))  # fmt: skip
    line = normal(2, np.diagonal(banded[0], k).size)
    sample("matrix_diag", lambda d, k=k: diagonals.matrix_diag(d, k=k), line,
           reference=lambda d, k=k: np.stack([np.diag(row, k) for row in d]))  # fmt: skip
    sample(
        "matrix_set_diag", lambda x, d, k=k: diagonals.matrix_set_diag(x, d, k=k), banded, line,
        reference=lambda x, d, k=k: np.stack([
            np.where(np.eye(3, 4, k, dtype=bool), np.eye(3, 4, k) * np.resize(np.pad(row, (max(-k, 0), 0)), (3, 1)), m)
            for m, row in zip(x, d, strict=True)
        ]),
    )  # fmt: skip


def several(x, lowest, highest, padding):
    """The diagonals as rows, element by element."""
    *batch, rows, columns = x.shape
    length = min(rows + min(highest, 0), columns - max(lowest, 0))
    result = np.full((*batch, highest - lowest + 1, length), padding, x.dtype)
    for row, k in enumerate(range(highest, lowest - 1, -1)):
        diagonal = np.diagonal(x, k, -2, -1)
        result[..., row, : diagonal.shape[-1]] = diagonal
    return result


def laid_out(d, lowest, highest, whole):
    for row, k in enumerate(range(highest, lowest - 1, -1)):
        for i in range(whole.shape[-2]):
            if 0 <= i + k < whole.shape[-1]:
                whole[..., i, i + k] = d[..., row, i + min(k, 0)]
    return whole


for lowest, highest in [(-1, 1), (0, 2), (-2, -1)]:
    rows = several(banded, lowest, highest, 0)
    sample("matrix_diag_part", lambda x, k=(lowest, highest): diagonals.matrix_diag_part(x, None, k, 7), banded,
           reference=lambda x, k=(lowest, highest): several(x, *k, 7))  # fmt: skip
    sample("matrix_diag", lambda d, k=(lowest, highest): diagonals.matrix_diag(d, None, k, 3, 4, 9), rows,
           reference=lambda d, k=(lowest, highest): laid_out(d, *k, np.full((2, 3, 4), 9.0)))  # fmt: skip
    sample("matrix_set_diag", lambda x, d, k=(lowest, highest): diagonals.matrix_set_diag(x, d, k=k), banded, rows + 1,
           reference=lambda x, d, k=(lowest, highest): laid_out(d, *k, x.copy()))  # fmt: skip
sample("matrix_diag", diagonals.matrix_diag, np.zeros((2, 0)), reference=lambda d: np.zeros((2, 0, 0)))
sample("matrix_diag_part", diagonals.matrix_diag_part, np.zeros((0, 2, 2)), reference=lambda x: np.zeros((0, 2)))

# Products of vectors

for a, b in [(normal(3), normal(3)), (normal(2, 3), normal(2, 3)), (normal(2, 1, 3), normal(4, 3)),
             (normal(3, complex=True), normal(2, 3, complex=True)), (np.zeros((0, 3)), np.zeros((0, 3)))]:  # fmt: skip
    sample("cross", products.cross, a, b, reference=np.cross)
sample("cross", products.cross, np.arange(3), np.arange(3)[::-1].copy(), reference=np.cross)

# Triangular factors, and three diagonals


def lower_upper(x):
    flat = [scipy.linalg.lu(each) for each in x.reshape(-1, *x.shape[-2:])]
    packed = [np.tril(lower, -1) + upper for _, lower, upper in flat]
    order = [np.argmax(exchanged, 0) for exchanged, _, _ in flat]
    return np.reshape(packed, x.shape), np.reshape(order, x.shape[:-1]).astype(np.int32)


def dense(three):
    """The matrices with these diagonals."""
    size = three.shape[-1]
    above, middle, below = (three[..., row, :, None] * np.eye(size, k=k) for row, k in enumerate((1, 0, -1)))
    return above + middle + below


for complex in (False, True):
    for x in (near_one(3, 3, complex=complex), near_one(2, 3, 3, complex=complex), normal(4, 4, complex=complex)):
        sample("lu", lu.lu, x, reference=lower_upper)
    for batch in ((), (2,)):
        three, sides = normal(*batch, 3, 4, complex=complex), normal(*batch, 4, 2, complex=complex)
        three[..., 1, :] += 4
        for pivoting in (False, True):
            sample(
                "tridiagonal_solve",
                lambda d, b, p=pivoting: tridiagonal.tridiagonal_solve(d, b, partial_pivoting=p), three, sides,
                reference=lambda d, b: np.linalg.solve(dense(d), b),
            )  # fmt: skip
sample("lu", lu.lu, np.zeros((2, 0, 0)), reference=lambda x: (x, np.zeros((2, 0), np.int32)))
sample("tridiagonal_solve", tridiagonal.tridiagonal_solve, np.zeros((2, 3, 0)), np.zeros((2, 0, 2)),
       reference=lambda d, b: b)  # fmt: skip

# Roots and logarithms: those that SciPy computes of each matrix

for complex in (False, True):
    for x in (near_one(3, 3, complex=complex), near_one(2, 3, 3, complex=complex) + np.eye(3)):
        sample("matrix_square_root", roots.matrix_square_root, x, reference=np.vectorize(
            scipy.linalg.sqrtm, signature="(n,n)->(n,n)"))  # fmt: skip
        sample("matrix_logarithm", roots.matrix_logarithm, x, reference=np.vectorize(
            scipy.linalg.logm, signature="(n,n)->(n,n)"))  # fmt: skip
for op in (roots.matrix_square_root, roots.matrix_logarithm):
    sample(op.name, op, np.zeros((2, 0, 0)), reference=lambda x: x)
