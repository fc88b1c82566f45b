import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from tests.support.evaluate import evaluate

random = np.random.default_rng(6)
solve, multiply = af.linalg.tridiagonal_solve, af.linalg.tridiagonal_matmul


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def given(*shape):
    """Diagonals whose outer elements count for nothing, and the matrices with them."""
    diagonals = random.normal(size=shape)
    matrices = sum(diagonals[..., row, :, None] * np.eye(shape[-1], k=1 - row) for row in range(3))
    diagonals[..., 0, -1] = diagonals[..., 2, 0] = np.nan
    return diagonals, matrices


def test_all_formats_of_diagonals_give_the_same():
    for batch, size in [((), 1), ((2, 3), 2), ((2,), 9)]:
        d, m = given(*batch, 3, size)
        b = random.normal(size=(*batch, size, 2))
        forms = {
            "compact": [d],
            "sequence": [(d[..., 0, :], d[..., 1, :], d[..., 2, :]), (d[..., 0, :-1], d[..., 1, :], d[..., 2, 1:])],
            "matrix": [m],
        }
        for form, several in forms.items():
            for each in several:
                np.testing.assert_allclose(evaluate(solve(each, b, form)), np.linalg.solve(m, b), rtol=1e-7)
                np.testing.assert_allclose(evaluate(multiply(each, b, form)), m @ b, rtol=1e-9)


def test_right_hand_sides_are_vectors_or_turned_and_conjugated():
    d, m = given(3, 4)
    b = random.normal(size=(4, 4)) + 1j * random.normal(size=(4, 4))
    d, m = d.astype(complex), m.astype(complex)
    expected = np.linalg.solve(m, np.stack([b[:, 0], b.T[:, 0], b.conj()[:, 0], b.conj().T[:, 0]], -1)).T
    made = [
        solve(d, b[:, 0]),
        *(solve(d, b, transpose_rhs=t, conjugate_rhs=c) for t, c in [(True, False), (False, True), (True, True)]),
    ]
    first, *others = evaluate(made)
    np.testing.assert_allclose([first, *[x[:, 0] for x in others]], expected, rtol=1e-9)


def test_rows_are_exchanged_and_singular_matrices_refused_or_perturbed():
    swapped = np.array([[1.0, 0], [0, 0], [0, 1]])
    assert evaluate(solve(swapped, [2.0, 3.0])).tolist() == [3, 2]
    with pytest.raises(errors.InvalidArgumentError, match="partial_pivoting"):
        evaluate(solve(swapped, [2.0, 3.0], partial_pivoting=False))
    singular = np.stack([swapped, np.zeros((3, 2))])
    with pytest.raises(errors.InvalidArgumentError, match=r"matrix \[1\] of the batch is singular"):
        evaluate(solve(singular, np.ones((2, 2))))
    assert np.isfinite(evaluate(solve(singular, np.ones((2, 2)), perturb_singular=True))).all()


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((np.zeros((2, 3)), np.zeros(3)), r"\[\.\.\., 3, n\], not \[2, 3\]"),
        ((np.zeros((3, 3)), np.zeros(2)), "3 equations have right hand sides of 3 rows, not 2"),
        ((np.zeros((3, 3)), np.zeros(3), "dense"), "compact, matrix, sequence, not 'dense'"),
        ((np.zeros((3, 3)), np.zeros((2, 3, 3))), "one more, its shape is"),
        (([np.zeros(3)] * 2, np.zeros(3), "sequence"), "not 2"),
        ((np.zeros((2, 3, 3)), np.zeros((4, 3, 1))), r"batches of diagonals and rhs are equal, not \[2\] and \[4\]"),
    ],
)
def test_bad_arguments_are_refused(arguments, match):
    with pytest.raises(ValueError, match=match):
        solve(*arguments)


def test_norms_and_ranks():
    whole, size = evaluate(af.linalg.normalize([[3.0 + 4j, 0]], axis=1))
    np.testing.assert_allclose(whole, [[0.6 + 0.8j, 0]])
    assert (size.dtype, size.tolist()) == (whole.dtype, [[5]])
    x = np.stack([np.eye(3), np.ones((3, 3)), np.zeros((3, 3))])
    assert evaluate(af.linalg.matrix_rank(x)).tolist() == [3, 1, 0]
    assert evaluate(af.linalg.matrix_rank(np.diag([1.0, 0.1]), tol=0.5)) == 1
