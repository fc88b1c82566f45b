"""Pooling by oneDNN and its gradients: the same as by NumPy."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from aioflow.graph.graph import Graph
from aioflow.kernels.array.constants import constant
from aioflow.kernels.nn.pooling import avg_pool, avg_pool3d, max_pool, max_pool3d
from tests.support.onednn import agree, needs_library, numbers
from tests.support.scale import amount

pytest_plugins = ["tests.support.onednn_small"]
pytestmark = pytest.mark.usefixtures("even_for_small_arrays")


@needs_library
@settings(max_examples=amount(20, 60))
@given(st.data())
def test_pooling_and_its_gradients(data):
    pool = data.draw(st.sampled_from([max_pool, avg_pool]))
    layout = data.draw(st.sampled_from(["NHWC", "NCHW"]))
    shape = [data.draw(st.integers(0, 2)), *data.draw(st.tuples(*[st.integers(1, 9)] * 3))]
    window, strides = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    padding = data.draw(st.sampled_from(["SAME", "VALID"]))
    tied = np.round(numbers(*shape) * data.draw(st.sampled_from([1, 1000])))

    def build(x):
        return pool(x, window, strides, padding, layout)

    try:
        with Graph().as_default():
            build(constant(tied))
    except ValueError:
        assume(False)
    agree(build, tied)


@needs_library
@pytest.mark.parametrize("pool", [max_pool3d, avg_pool3d])
def test_pooling_along_three_axes(pool):
    agree(lambda x: pool(x, 2, 2, "SAME"), numbers(2, 5, 4, 6, 3))


@needs_library
@pytest.mark.parametrize("odd", [np.nan, -np.inf, np.inf, np.finfo(np.float32).min])
def test_the_highest_of_what_is_not_finite_is_numpys(odd):
    x = numbers(2, 4, 4, 3)
    x[0, :2, :2] = odd
    x[1, 0, 0, 0] = odd
    agree(lambda x: max_pool(x, 2, 2, "SAME"), x)
    agree(lambda x: max_pool(x, 3, 1, "SAME"), x)  # the first window sees nothing but padding and these
