"""Conjugate gradients end where the solution is, and flow back."""

import numpy as np
import pytest

import aioflow as af

MATRIX = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 2.0]])
HINTS = {"is_self_adjoint": True, "is_positive_definite": True}
solve = af.linalg.experimental.conjugate_gradient


async def test_as_many_steps_as_there_are_rows_solve_each_equation():
    right = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [-1.0, 0.5, 2.0]])
    with af.Graph().as_default() as graph:
        b = af.constant(right)
        operator = af.linalg.LinearOperatorFullMatrix(MATRIX, **HINTS)
        exact = af.linalg.LinearOperatorFullMatrix(np.linalg.inv(MATRIX), **HINTS)
        states = solve(operator, b, tol=1e-12), solve(operator, b, preconditioner=exact), solve(operator, b, max_iter=1)
        (slope,) = af.gradients(af.reduce_sum(states[0].x), b)
    async with af.Session(graph=graph) as session:
        (plain, near, short), slopes = await session.run((states, slope))
    np.testing.assert_allclose(plain.x, np.linalg.solve(MATRIX, right.T).T, 1e-10, 1e-12)
    np.testing.assert_allclose(near.x, plain.x, 1e-10, 1e-12)
    assert (int(plain.i), int(near.i), int(short.i)) == (3, 1, 1)
    np.testing.assert_allclose(short.r, right - short.x @ MATRIX, 1e-10, 1e-12)
    np.testing.assert_allclose(slopes[0], np.linalg.inv(MATRIX).sum(0), 1e-8)


def test_operators_need_their_hints():
    with af.Graph().as_default():
        plain, hinted = (af.linalg.LinearOperatorFullMatrix(MATRIX, **hints) for hints in ({}, HINTS))
        with pytest.raises(ValueError, match="operator is self-adjoint"):
            solve(plain, np.ones(3))
        with pytest.raises(ValueError, match="preconditioner is self-adjoint"):
            solve(hinted, np.ones(3), preconditioner=plain)
