"""Eigenvalues of Hermitian matrices with three diagonals are those of the dense matrix, or some of them."""

import numpy as np
import pytest

import aioflow as af

ALPHA = np.array([2.0, -1.0, 0.5, 3.0])
BETA = np.array([1.0 + 2.0j, 0.5, -1.0j])


@pytest.mark.parametrize("beta", [BETA.real + 0.25, BETA], ids=["real", "complex"])
async def test_eigenvalues_and_vectors_are_those_of_the_dense_matrix(beta):
    alpha = ALPHA.astype(beta.dtype)
    matrix = np.diag(alpha) + np.diag(beta, 1) + np.diag(beta.conj(), -1)
    values = np.linalg.eigvalsh(matrix)
    middle = (float(values[0]), float(values[2]))
    with af.Graph().as_default() as graph:
        both = af.linalg.eigh_tridiagonal(alpha, beta, eigvals_only=False)
        some = [
            af.linalg.eigh_tridiagonal(alpha, beta),
            af.linalg.eigh_tridiagonal(alpha, beta, select="i", select_range=(1, 2)),
            af.linalg.eigh_tridiagonal(alpha, beta, select="v", select_range=middle),
        ]
        _, columns = af.linalg.eigh_tridiagonal(alpha, beta, False, "v", (middle[0] + 0.01, 100.0))
    async with af.Session(graph=graph) as session:
        (found, vectors), selected, rest = await session.run((both, some, columns))
    np.testing.assert_allclose(matrix @ vectors, vectors * found, atol=1e-12)
    assert (found.dtype, rest.shape) == (np.float64, (4, 3))
    for mine, expected in zip(selected, (values, values[1:3], values[1:3]), strict=True):
        np.testing.assert_allclose(mine[: len(expected)], expected, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (([1.0, 2.0], [1.0], True, "x"), ValueError, "select"),
        (([1.0, 2.0], [1.0], True, "i"), ValueError, "select_range"),
        (([1.0, 2.0], [1.0, 2.0]), ValueError, "beta has 1 elements for 2 of alpha, not 2"),
        (([1.0, 2.0], np.ones(1)), ValueError, "one dtype, not float32 and float64"),
        (([[1.0]], [[1.0]]), ValueError, "vector"),
        (([1, 2], [1]), TypeError, "int32"),
        (([1.0, 2.0], [1.0], True, "i", (1, 0)), af.errors.InvalidArgumentError, "select_range is empty"),
    ],
)
def test_wrong_arguments_are_refused(arguments, error, text):
    with af.Graph().as_default(), pytest.raises(error, match=text):
        af.linalg.eigh_tridiagonal(*arguments)
