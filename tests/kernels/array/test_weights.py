"""Weights and the values that they weigh: which shapes fit."""

import itertools

import numpy as np
import pytest

import aioflow as af
from aioflow.kernels.array.weights import fitting_weights, same_shape
from tests.support.evaluate import evaluate

SHAPES = [(), (1,), (3,), (2, 3), (1, 3), (2, 1), (1, 1), (2, 3, 1), (0,), (0, 3)]


def fits(weights, values):
    return weights == () or (
        len(weights) == len(values) and all(mine in (1, theirs) for mine, theirs in zip(weights, values, strict=True))
    )


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def test_weights_fit_by_their_shapes_known_when_built_or_in_the_run():
    for mine, theirs in itertools.product(SHAPES, repeat=2):
        weights, values = np.ones(mine, np.float32), np.ones(theirs, np.float32)
        named = rf"weights of shape \[{', '.join(map(str, mine))}\] do not fit values of shape"
        opened = af.placeholder("float32"), af.placeholder("float32", [None] * len(theirs))
        feeds = dict(zip(opened, (weights, values), strict=True))
        if fits(mine, theirs):
            np.testing.assert_array_equal(evaluate(fitting_weights(weights, values)), weights)
            np.testing.assert_array_equal(evaluate(fitting_weights(*opened), feeds), weights)
        else:
            with pytest.raises(ValueError, match=named):
                fitting_weights(weights, values)
            checked = fitting_weights(*opened)
            with pytest.raises(ValueError, match=named):
                evaluate(checked, feeds)


def test_weights_are_numbers():
    with pytest.raises(TypeError, match="fitting_weights"):
        fitting_weights(True, 1.0)


def test_labels_have_the_shape_of_predictions_known_when_built_or_in_the_run():
    opened = af.placeholder("float32", [None, 3]), af.placeholder("float32", [None, 3])
    one, many = np.ones((1, 3), np.float32), np.ones((4, 3), np.float32)
    np.testing.assert_array_equal(evaluate(same_shape(*opened), dict(zip(opened, (many, many), strict=True))), many)
    named = r"labels of shape \[1, 3\] do not fit predictions of shape \[4, 3\]"
    with pytest.raises(ValueError, match=named):
        evaluate(same_shape(*opened), dict(zip(opened, (one, many), strict=True)))
    with pytest.raises(ValueError, match=named):
        same_shape(one, many)
