"""Gradients of convolutions under their second names: they are those that `gradients` makes."""

import numpy as np
import pytest

import aioflow as af
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize(
    ("padding", "pairs"), [("VALID", None), ("SAME", None), ("EXPLICIT", [[0, 0], [1, 2], [0, 1], [0, 0]])]
)
def test_they_are_the_gradients_of_conv2d(padding, pairs):
    rng = np.random.default_rng(0)
    x, w = (af.constant(rng.normal(size=shape)) for shape in ([2, 5, 6, 2], [2, 3, 2, 3]))
    y = af.nn.conv2d(x, w, [1, 2, 1, 1], pairs or padding)
    dy = af.constant(rng.normal(size=y.shape.as_list()))
    explicit = [] if pairs is None else np.ravel(pairs).tolist()
    made = [
        make(x, w, dy, [1, 2, 1, 1], padding, explicit_paddings=explicit)
        for make in (af.conv2d_backprop_input_v2, af.conv2d_backprop_filter_v2)
    ]
    for found, expected in zip(made, af.gradients(y, [x, w], dy), strict=True):
        np.testing.assert_allclose(evaluate(found), evaluate(expected), rtol=1e-12)


@pytest.mark.parametrize(
    ("padding", "explicit", "said"),
    [
        ("SAME", [0] * 8, "'EXPLICIT' alone"),
        ("EXPLICIT", [], "'EXPLICIT' alone"),
        ("EXPLICIT", [1, 1], "not 2 numbers"),
    ],
)
def test_paddings_that_do_not_fit_are_refused(padding, explicit, said):
    x, w, dy = af.ones([1, 3, 3, 1]), af.ones([2, 2, 1, 1]), af.ones([1, 2, 2, 1])
    with pytest.raises(ValueError, match=said):
        af.conv2d_backprop_filter_v2(x, w, dy, 1, padding, explicit_paddings=explicit)
