import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.kernels.linalg import lu
from tests.support.evaluate import evaluate

random = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def test_factors_give_the_matrix_its_inverse_and_solutions_back_in_blocks_and_batches():
    for shape in [(2, 3, 70, 70), (1, 1), (0, 3, 3)]:
        x, b = random.normal(size=shape), random.normal(size=(*shape[:-1], 2))
        packed, p = lu.lu(x, af.int64)
        made = [lu.lu_reconstruct(packed, p), lu.lu_matrix_inverse(packed, p), lu.lu_solve(packed, p, b)]
        order, whole, inverse, solution = evaluate([p, *made])
        assert order.dtype == np.int64
        np.testing.assert_allclose(whole, x, atol=1e-12)
        np.testing.assert_allclose(inverse, np.linalg.inv(x), rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(solution, np.linalg.solve(x, b), rtol=1e-7, atol=1e-10)
    assert (np.abs(np.tril(evaluate(lu.lu(random.normal(size=(50, 50)))[0]), -1)) <= 1).all()


def test_right_hand_sides_and_factors_broadcast():
    x, b = random.normal(size=(4, 1, 3, 3)), random.normal(size=(5, 3, 2))
    np.testing.assert_allclose(evaluate(lu.lu_solve(*lu.lu(x), b)), np.linalg.solve(x, b), rtol=1e-9)
    one = lu.lu_solve(*lu.lu(x[0, 0]), b)
    np.testing.assert_allclose(evaluate(one), np.linalg.solve(x[0, 0], b), rtol=1e-9)


def test_bad_factors_are_refused():
    singular = np.stack([np.eye(2), np.ones((2, 2))])
    with pytest.raises(errors.InvalidArgumentError, match=r"matrix \[1\] of the batch is singular"):
        evaluate(lu.lu(singular)[0])
    with pytest.raises(errors.InvalidArgumentError, match="the matrix is singular"):
        evaluate(lu.lu(np.zeros((2, 2)))[0])
    with pytest.raises(ValueError, match=r"perm has the shape \[3\].*not \[2\]"):
        lu.lu_reconstruct(np.eye(3), [0, 1])
    with pytest.raises(ValueError, match=r"rhs has the shape \[3\]"):
        lu.lu_solve(np.eye(3), [0, 1, 2], np.ones(3))
    with pytest.raises(TypeError, match="int32 or int64"):
        lu.lu(np.eye(3), af.uint8)


async def test_arguments_are_validated_on_demand():
    for function in (lu.lu_reconstruct, lu.lu_matrix_inverse):
        async with af.Session() as session:
            whole = function(np.eye(3), [1, 2, 0], validate_args=True)
            assert np.shape(await session.run(whole)) == (3, 3)
            with pytest.raises(errors.InvalidArgumentError, match="each number of a row once"):
                await session.run(function(np.eye(3), [1, 1, 0], validate_args=True))
