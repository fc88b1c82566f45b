"""Matrices: products, solutions, decompositions."""

from typing import Any

import numpy as np

from oracle.draw import COMPLEX, FLOAT, FLOATS, NUMBERS, SIGNED, Call, Draw, call
from oracle.table import compare, differs

WIDE = (*FLOAT, *COMPLEX)


def product(d: Draw) -> Call:
    dtype, (n, m, k) = d.dtype(*FLOATS, *COMPLEX, *SIGNED), d.shape(3, 3)
    batch_a, batch_b = d.broadcast(2, 2, (0, 2))
    flip_a, flip_b, how = d.pick(False, True), d.pick(False, True), d.pick("transpose", "adjoint")
    a, b = (m, n) if flip_a else (n, m), (k, m) if flip_b else (m, k)
    return call(
        d.array(dtype, (*batch_a, *a), -3, 3),
        d.array(dtype, (*batch_b, *b), -3, 3),
        **{f"{how}_a": flip_a, f"{how}_b": flip_b},
    )


compare("matmul", product, rtol=64)
SUMS = (
    "ij,jk->ik",
    "ij,ij->",
    "ij->ji",
    "ij,kj->ik",
    "i,j->ij",
    "bij,bjk->bik",
    "ij->i",
    "...ij,...jk->...ik",
    "ij,j->i",
)


def summed(d: Draw) -> Call:
    equation, dtype = d.pick(*SUMS), d.dtype(*FLOAT, *COMPLEX)
    sizes = {letter: d.integer(0, 3) for letter in "bijk"}
    inputs = equation.split("->")[0].replace("...", "b").split(",")
    return call(*[d.array(dtype, [sizes[letter] for letter in term], -3, 3) for term in inputs], equation=equation)


compare("einsum", summed, lambda lib, *xs, equation: lib.einsum(equation, *xs), rtol=64, ops=())


def contracted(d: Draw) -> Call:
    dtype, shared = d.dtype(*FLOAT), d.shape(0, 2)
    return call(
        d.array(dtype, (*d.shape(0, 2), *shared), -3, 3),
        d.array(dtype, (*shared, *d.shape(0, 2)), -3, 3),
        axes=len(shared),
    )


compare("tensordot", contracted, rtol=64, ops=())


def crossed(d: Draw) -> Call:
    dtype, shape = d.dtype(*NUMBERS), (*d.shape(0, 2), 3)
    return call(d.array(dtype, shape, -4, 4), d.array(dtype, shape, -4, 4))


compare("linalg.cross", crossed)


def regular(d: Draw, dtype: str, shape: tuple[int, ...]) -> Any:
    """Matrices far from singular ones."""
    return (d.array(dtype, shape, -1, 1) + 3 * np.eye(*shape[-2:])).astype(dtype)


def positive(d: Draw, dtype: str, shape: tuple[int, ...]) -> Any:
    """Positive definite matrices whose eigenvalues are apart."""
    x = d.array(dtype, shape, -0.4, 0.4)
    return (x @ np.swapaxes(x.conj(), -1, -2) + np.diag(2.0 * np.arange(1, shape[-1] + 1))).astype(dtype)


def square(d: Draw) -> tuple[str, tuple[int, ...]]:
    n = d.integer(0, 4)
    return d.dtype(*WIDE), (*d.shape(0, 2, (0, 2)), n, n)


CONJUGATE = differs("TensorFlow forgets to conjugate the determinant", lambda x: x.dtype.kind == "c")


def inverted(d: Draw) -> Call:
    return call(regular(d, *square(d)), adjoint=d.pick(False, True))


compare("matrix_inverse", inverted, rtol=512)
compare("matrix_determinant", lambda d: call(regular(d, *square(d))), rtol=512, differs=CONJUGATE)
compare(
    "linalg.slogdet",
    lambda d: call(regular(d, *square(d))),
    rtol=512,
    ops="log_matrix_determinant",
    differs=differs("the sign of a complex determinant moves too", lambda x: x.dtype.kind == "c"),
)
compare("matrix_exponential", lambda d: call(regular(d, *square(d)) / np.float32(2)), theirs="linalg.expm", rtol=2048)
compare("cholesky", lambda d: call(positive(d, *square(d))), rtol=512, ops=("cholesky", "lower_half"))


def equations(d: Draw, dtype: str, shape: tuple[int, ...]) -> Any:
    return d.array(dtype, (*shape[:-1], d.integer(0, 3)), -2, 2)


def solved(d: Draw) -> Call:
    kind = square(d)
    return call(regular(d, *kind), equations(d, *kind), adjoint=d.pick(False, True))


def triangular(d: Draw) -> Call:
    found = solved(d)
    return call(*found.arrays, lower=d.pick(False, True), **found.attrs)


compare("matrix_solve", solved, rtol=512)
compare("matrix_triangular_solve", triangular, rtol=512)


def solved_by_factor(d: Draw) -> Call:
    kind = square(d)
    return call(np.tril(regular(d, *kind)), equations(d, *kind))


compare("cholesky_solve", solved_by_factor, rtol=512, ops=())


def overdetermined(d: Draw) -> Call:
    n, m = d.integer(1, 4), d.integer(1, 4)
    dtype, batch = d.dtype(*FLOAT), d.shape(0, 1, (0, 2))
    a = (d.array(dtype, (*batch, n, m), -0.5, 0.5) + 2 * np.eye(n, m)).astype(dtype)
    return call(a, d.array(dtype, (*batch, n, d.integer(0, 3)), -2, 2), l2_regularizer=d.pick(0.0, 0.5), fast=True)


compare("matrix_solve_ls", overdetermined, rtol=4096, ops=())
compare("linalg.pinv", lambda d: call(overdetermined(d).arrays[0]), rtol=4096)


def factors(d: Draw) -> Call:
    n, m = d.integer(1, 4), d.integer(1, 4)
    dtype = d.dtype(*WIDE)
    return call(
        (d.array(dtype, (*d.shape(0, 1, (0, 2)), n, m), -0.4, 0.4) + np.eye(n, m) * np.arange(1, m + 1) * 2).astype(
            dtype
        )
    )


def whole(lib: Any, q: Any, r: Any) -> Any:
    """Q R and what does not depend on the signs of their columns and rows."""
    return lib.matmul(q, r), lib.abs(q), lib.abs(r)


compare(
    "qr",
    factors,
    lambda lib, x: whole(lib, *(lib.qr(x) if hasattr(lib, "reset") else lib.linalg.qr(x))),
    rtol=2048,
    gradient="signs of columns differ",
)


def spectrum(lib: Any, x: Any) -> Any:
    s, u, v = lib.svd(x)
    return s, lib.abs(u), lib.abs(v), lib.matmul(u * lib.cast(lib.expand_dims(s, -2), u.dtype), v, adjoint_b=True)


compare(
    "svd",
    factors,
    spectrum,
    rtol=2048,
    differs=differs("TensorFlow's second gradient is twice what it should be", lambda x: x.dtype.kind == "c"),
)
compare("svd without vectors", factors, lambda lib, x: lib.svd(x, compute_uv=False), rtol=2048, ops="singular_values")


def hermitian(lib: Any, x: Any) -> Any:
    """The Hermitian part: both read one triangle only, and differ in which elements the gradient is said to be of."""
    return (x + lib.conj(lib.matrix_transpose(x))) / 2


def eigen(lib: Any, x: Any) -> Any:
    e, v = lib.self_adjoint_eig(hermitian(lib, x))
    return e, lib.abs(v)


compare("self_adjoint_eig", lambda d: call(positive(d, *square(d))), eigen, rtol=2048)
compare(
    "self_adjoint_eigvals",
    lambda d: call(positive(d, *square(d))),
    lambda lib, x: lib.self_adjoint_eigvals(hermitian(lib, x)),
    rtol=2048,
)


def whole_factors(lib: Any, x: Any) -> Any:
    """The factors and the order, which is an integer, and so has no gradient."""
    packed, order = lib.linalg.lu(x)
    return packed, order


compare("lu", lambda d: call(regular(d, *square(d))), whole_factors, rtol=2048, gradient="TensorFlow has none")


def from_factors(lib: Any, x: Any, rhs: Any) -> Any:
    """What is computed of factors; the order of rows is that of no exchange, turned by one."""
    shape = x.shape.as_list()[:-1]
    order = lib.constant(np.broadcast_to(np.roll(np.arange(shape[-1], dtype=np.int32), 1), shape))
    inverse = lib.linalg.lu_matrix_inverse(x, order)
    return lib.linalg.lu_reconstruct(x, order), inverse, lib.linalg.lu_solve(x, order, rhs)


def factored(d: Draw) -> Call:
    dtype, n = d.dtype(*WIDE), d.integer(1, 4)
    batch = d.shape(0, 2, (1, 2))
    return call(regular(d, dtype, (*batch, n, n)), d.array(dtype, (*batch, n, d.integer(1, 3)), -2, 2))


compare("lu_solve", factored, from_factors, ops=(), rtol=2048)


def tridiagonal(d: Draw) -> Call:
    n, dtype, batch = d.integer(1, 4), d.dtype(*WIDE), d.shape(0, 2, (1, 2))
    diagonals = d.array(dtype, (*batch, 3, n), -1, 1)
    diagonals[..., 1, :] += 3
    return call(diagonals, d.array(dtype, (*batch, n, d.integer(1, 3)), -2, 2))


compare(
    "linalg.tridiagonal_solve",
    tridiagonal,
    rtol=2048,
    differs=differs("TensorFlow forgets to conjugate the solution", lambda *x: x[0].dtype.kind == "c"),
)
compare("linalg.tridiagonal_matmul", tridiagonal, ops=(), rtol=64)


def two_diagonals(d: Draw) -> Call:
    n, dtype = d.integer(2, 5), d.dtype(*WIDE)
    return call(d.array(dtype, (n,), -3, 3), d.array(dtype, (n - 1,), 1, 2))


compare("linalg.eigh_tridiagonal", two_diagonals, ops=(), rtol=2048, gradient="TensorFlow finds them by bisection")
compare("linalg.normalize", lambda d: call(factors(d).arrays[0]), ops=(), rtol=64)
compare("linalg.matrix_rank", lambda d: call(factors(d).arrays[0]), ops=(), gradient="ranks are integers")
compare(
    "linalg.sqrtm",
    lambda d: call(regular(d, *square(d))),
    ops="matrix_square_root",
    rtol=2048,
    differs=differs("TensorFlow forgets to conjugate the root", lambda x: x.dtype.kind == "c"),
)


def complexes(d: Draw) -> Call:
    _, shape = square(d)
    return call(regular(d, d.pick(*COMPLEX), shape))


compare("linalg.logm", complexes, ops="matrix_logarithm", rtol=2048)
