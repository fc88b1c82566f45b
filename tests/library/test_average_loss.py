"""Losses of examples as one number."""

import numpy as np
import pytest

import aioflow as af
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def test_the_sum_is_divided_by_the_number_of_examples():
    losses = np.array([[1.0, 2.0], [3.0, 6.0]])
    assert evaluate(af.nn.compute_average_loss(losses)) == 6
    assert evaluate(af.nn.compute_average_loss(losses, [[1], [2]], global_batch_size=3)) == 7
    assert evaluate(af.nn.compute_average_loss(losses[:0])) == 0
    assert evaluate(af.nn.scale_regularization_loss(losses)) == 12


def test_weights_may_lack_the_last_axis_or_have_one_more():
    for shape, weights, expected in [
        ([2, 3], [2.0, 1.0], 4.5),
        ([2, 1], [2.0, 1.0], 1.5),
        ([2], [[2.0], [1.0]], 1.5),
        ([2, 3], 2.0, 6.0),
    ]:
        assert evaluate(af.nn.compute_average_loss(np.ones(shape), weights)) == expected


def test_integers_count_as_float64():
    assert evaluate(af.nn.compute_average_loss(np.array([1, 3]))).dtype == np.float64


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ((1.0,), ValueError, "has an axis of examples"),
        (([1.0], None, 2.0), TypeError, "must be an integer, not float32"),
        (([1.0], None, [2]), ValueError, "must be one number, its shape is"),
        (([1.0], None, -2), af.errors.InvalidArgumentError, "must not be negative"),
    ],
)
def test_what_has_no_average_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        evaluate(af.nn.compute_average_loss(*given))
