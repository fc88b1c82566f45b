"""The loss of differences between the elements of one example."""

import itertools

import numpy as np
import pytest

import aioflow as af
from tests.support.evaluate import evaluate

RANDOM = np.random.default_rng(2)


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def by_pairs(labels, predictions):
    """The sum over examples of the mean squared error of all differences between two of their elements."""
    total = 0.0
    for truth, guess in zip(labels, predictions, strict=True):
        pairs = list(itertools.combinations(range(truth.size), 2))
        truth, guess = truth.ravel(), guess.ravel()
        total += np.mean([((guess[i] - guess[j]) - (truth[i] - truth[j])) ** 2 for i, j in pairs])
    return total


@pytest.mark.parametrize("shape", [(4, 3), (2, 2, 2), (1, 5)])
def test_it_is_the_mean_over_pairs(shape):
    labels, predictions = RANDOM.standard_normal((2, *shape)).astype(np.float32)
    inputs = [af.placeholder("float32", [None] * len(shape)) for _ in range(2)]
    loss = af.losses.mean_pairwise_squared_error(*inputs)
    value = evaluate(loss, dict(zip(inputs, (labels, predictions), strict=True)))
    np.testing.assert_allclose(value, by_pairs(labels, predictions), rtol=1e-5)


def test_weights_weigh_examples():
    labels, predictions = RANDOM.standard_normal((2, 3, 4)).astype(np.float32)
    loss = af.losses.mean_pairwise_squared_error(labels, predictions, weights=[[1.0], [0.0], [2.0]])
    expected = by_pairs(labels[:1], predictions[:1]) + 2 * by_pairs(labels[2:], predictions[2:])
    np.testing.assert_allclose(evaluate(loss), expected, rtol=1e-5)


def test_an_element_alone_and_examples_without_weight_have_no_loss(graph):
    losses = [
        af.losses.mean_pairwise_squared_error([[1.0], [2.0]], [[3.0], [7.0]]),
        af.losses.mean_pairwise_squared_error([[1.0, 2.0]], [[3.0, 7.0]], weights=0.0),
        af.losses.mean_pairwise_squared_error([1.0, 2.0], [3.0, 7.0], loss_collection=None),
    ]
    assert evaluate(losses) == [0, 0, 0]
    assert graph.get_collection(af.GraphKeys.LOSSES) == losses[:2]


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"labels have shape \[2, 2\], predictions \[2, 3\]"):
        af.losses.mean_pairwise_squared_error(np.zeros((2, 2)), np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"weights of shape \[2\] do not fit values of shape \[2, 2\]"):
        af.losses.mean_pairwise_squared_error(np.zeros((2, 2)), np.zeros((2, 2)), weights=[1.0, 2.0])
    with pytest.raises(ValueError, match="weights must not be None"):
        af.losses.mean_pairwise_squared_error(np.zeros((2, 2)), np.zeros((2, 2)), weights=None)
    with pytest.raises(ValueError, match="unknown rank"):
        af.losses.mean_pairwise_squared_error(af.placeholder("float32"), af.placeholder("float32"))
