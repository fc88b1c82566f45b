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


@pytest.mark.parametrize("loss", [1.0, np.array([1, 2])])
def test_losses_without_examples_or_fractions_are_refused(loss):
    with pytest.raises(ValueError, match="floating tensor with an axis of examples"):
        af.nn.compute_average_loss(loss)
