import numpy as np
import pytest

import aioflow as af
from aioflow.testing import check_gradients
from tests.support.evaluate import evaluate

X = np.random.default_rng(1).permutation(24).reshape(2, 4, 3).astype(float)


async def test_elements_along_any_axis_are_found_in_order_with_their_places():
    for axis in (0, 1, -1):
        for name, order in (("approx_max_k", -1), ("approx_min_k", 1)):
            with af.Graph().as_default():
                values, places = evaluate(list(getattr(af.nn, name)(X, 2, reduction_dimension=axis)))
            expected = np.argsort(order * X, axis).take([0, 1], axis)
            np.testing.assert_array_equal(places, expected)
            np.testing.assert_array_equal(values, np.take_along_axis(X, expected, axis))
    await check_gradients(lambda x: af.nn.approx_min_k(x, 2, 1)[0], [X], compute=evaluate)


def test_wrong_arguments_are_named():
    with af.Graph().as_default():
        with pytest.raises(ValueError, match="recall_target is above 0 and up to 1"):
            af.approx_top_k(X, 2, recall_target=1.5)
        with pytest.raises(ValueError, match="rank of the input must be known to reduce axis 1"):
            af.approx_top_k(af.placeholder(af.float32), 2, 1)
