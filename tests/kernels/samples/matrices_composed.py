"""Functions that are no ops of their own but composed of some: sums of products, and what solvers are used for."""

import numpy as np

from aioflow.kernels.linalg import determinants, least_squares, products, solvers
from aioflow.kernels.linalg.matrices import product
from aioflow.kernels.linalg.products import einsum
from tests.kernels.samples import sample

random = np.random.default_rng(23)


def normal(*shape, complex=False):
    x = random.standard_normal(shape)
    return x + 1j * random.standard_normal(shape) if complex else x


def flip(x):
    return np.swapaxes(x, -1, -2).conj()


SIZES = dict(zip("abcdefgijkl", (2, 3, 2, 3, 2, 1, 2, 2, 3, 2, 3), strict=True))
EQUATIONS = [
    "ij,jk->ik", "ij,jk->ki", "ij,kj", "ji", "ij", "ij->", "ij->j", "bij,bjk->bik", "bij,bkj->bki", "bij,bkj",
    "i,j->ji", "i,i", "bi,bi->b", "bi,bi->", "ij,ij->ji", "ij,jk,kl->il", "ab,cd->cadb", "abc,bcd->ad",
    "abcd,cdbi->ai", "abc,abd->cd", "abc,dbe->ace", "ij,kl->", ",ij->ji", ",->", "bi,ij,bj->b", "ab,bc,ca->",
    "abi,bi->ab", "ab,cb,db,eb->aced", "ab,cd,de,ea,bc->", "iab,ibc,cd->iad", "ab,ab,ab->a",
]  # fmt: skip
REPEATED = [("ii->", (3, 3)), ("ii->i", (3, 3)), ("iji->j", (2, 3, 2)), ("iii", (2, 2, 2)), ("iijj->ij", (2, 2, 3, 3))]
DOTS = [
    ("...ij,...jk->...ik", (2, 1, 2, 3), (3, 3, 2)), ("...ij->...ji", (2, 3, 1)), ("...ii->...i", (2, 2, 2)),
    ("i...,i...->...", (2, 1, 2), (2, 3, 1)), ("...,...", (3, 1), (2,)), ("...i,ij", (2, 1, 3), (3, 2)),
    ("b...i,b...i->b...", (2, 3), (2, 3)), ("i...j,jk->i...k", (2, 1, 3, 2), (2, 3)),
    ("a...b,b...c->...ac", (2, 1, 3, 2), (2, 2, 1, 3)), ("a...,b...->ab...", (2, 1, 3), (3, 2, 1)), ("...->...", ()),
]  # fmt: skip


def einsum_sample(equation, *inputs):
    sample("einsum", lambda *inputs: einsum(equation, *inputs), *inputs,
           reference=lambda *inputs: np.einsum(equation, *inputs))  # fmt: skip


for equation in EQUATIONS:
    einsum_sample(equation, *[normal(*[SIZES[i] for i in part]) for part in equation.split("->")[0].split(",")])
for equation, *shapes in REPEATED + DOTS:
    einsum_sample(equation, *[normal(*shape) for shape in shapes])
einsum_sample("ij,kj,ik->k", normal(2, 3, complex=True), normal(4, 3, complex=True), normal(2, 4, complex=True))
einsum_sample("bij,bjk->bik", np.zeros((2, 3, 0)), np.zeros((2, 0, 1)))
einsum_sample("ij,jk->ik", np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4))

for complex in (False, True):
    for shape in [(4, 2), (2, 3), (2, 3, 2), (2, 2, 3), (3, 3)]:
        a, b = normal(*shape, complex=complex), normal(shape[-2], 2, complex=complex)
        for weight, fast in [(0.0, True), (0.5, True), (0.0, False)]:
            sample(
                "matrix_solve_ls",
                lambda a, b, w=weight, fast=fast: least_squares.matrix_solve_ls(a, b, w, fast), a, b,
                reference=lambda a, b, w=weight: np.linalg.pinv(a) @ b if not w else np.linalg.solve(
                    flip(a) @ a + w * np.eye(a.shape[-1]), flip(a) @ b),
            )  # fmt: skip
    lower, right = normal(2, 3, 3, complex=complex) + 2 * np.eye(3), normal(3, 2, complex=complex)
    sample("cholesky_solve", solvers.cholesky_solve, lower, right,
           reference=lambda c, b: np.linalg.solve(np.tril(c) @ flip(np.tril(c)), b))  # fmt: skip
    sample(
        "logdet", lambda x: determinants.logdet(product(x, x, adjoint_a=True)), lower,
        reference=lambda x: np.linalg.slogdet(flip(x) @ x)[1],
    )  # fmt: skip
    sample("matvec", products.matvec, lower, normal(3, complex=complex), reference=lambda a, b: a @ b)
    sample("matvec", lambda a, b: products.matvec(a, b, adjoint_a=True), lower, normal(2, 3, complex=complex),
           reference=lambda a, b: (flip(a) @ b[..., None])[..., 0])  # fmt: skip
