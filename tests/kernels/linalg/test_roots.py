import numpy as np
import pytest
import scipy.linalg

import aioflow as af
from aioflow import errors
from tests.support.evaluate import evaluate

random = np.random.default_rng(8)


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def test_roots_and_logarithms_of_easy_and_of_hard_matrices():
    jordan = np.array([[1.0, 1], [0, 1]])
    np.testing.assert_allclose(evaluate(af.linalg.sqrtm(jordan)), [[1, 0.5], [0, 1]], atol=1e-14)
    np.testing.assert_allclose(evaluate(af.linalg.logm(jordan)), [[0, 1], [0, 0]], atol=1e-14)
    np.testing.assert_allclose(evaluate(af.linalg.sqrtm(np.diag([1e-8, 1e8]))), np.diag([1e-4, 1e4]), rtol=1e-10)
    turn = scipy.linalg.expm(np.array([[0.0, 3], [-3, 0]]))
    np.testing.assert_allclose(evaluate(af.linalg.logm(turn)), [[0, 3], [-3, 0]], atol=1e-12)
    x = scipy.linalg.expm(random.normal(size=(2, 20, 20)) / 4)
    root, logarithm = evaluate([af.matrix_square_root(x), af.linalg.logm(x)])
    np.testing.assert_allclose(root @ root, x, atol=1e-12)
    np.testing.assert_allclose(scipy.linalg.expm(logarithm), x, atol=1e-11)
    assert evaluate(af.linalg.sqrtm(x.astype(np.complex64))).dtype == np.complex64


@pytest.mark.parametrize("function", [af.linalg.sqrtm, af.linalg.logm])
def test_matrices_with_an_eigenvalue_that_is_0_or_negative_are_named(function):
    for wrong in ([[-1.0, 0], [0, 1]], [[0.0, 1], [0, 0]], [[np.nan, 0], [0, 1]], [[np.inf, 0], [0, 1]]):
        with pytest.raises(errors.InvalidArgumentError, match=r"matrix \[1\] of the batch has an eigenvalue"):
            evaluate(function(np.stack([np.eye(2), wrong])))
