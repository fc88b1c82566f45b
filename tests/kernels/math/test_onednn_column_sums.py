"""Sums along the first axes by oneDNN are as exact as NumPy's, for all elements."""

import numpy as np
import pytest

from aioflow.graph.graph import Graph
from aioflow.kernels.array.constants import placeholder
from aioflow.kernels.math import onednn_column_sums
from aioflow.kernels.math.reduction import reduce_sum
from tests.support.evaluate import evaluate
from tests.support.onednn import needs_library


@needs_library
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, (0, 1, 2), (2, 0, 1), (-3, 0), -1, (1, 2), None])
def test_sums_are_those_of_numpy(monkeypatch, axis, keepdims):
    by_product = []
    product = onednn_column_sums._ones
    monkeypatch.setattr(onednn_column_sums, "_ones", lambda count: by_product.append(count) or product(count))
    x = np.random.default_rng(0).standard_normal((16, 24, 40, 24), np.float32)
    for values in (x, x.swapaxes(1, 2), x[:1]):
        with Graph().as_default():
            given = placeholder(np.float32, [None, *values.shape[1:]])
            found = evaluate(reduce_sum(given, axis, keepdims), {given: values})
        expected = values.sum(axis, np.float64, keepdims=keepdims)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-3)
    leading = axis is not None and axis not in (-1, (1, 2))
    assert len(by_product) == leading


@needs_library
def test_sums_with_nan_and_infinity_are_those_of_numpy():
    x = np.ones((4096, 64), np.float32)
    x[5, 0], x[6, 1], x[[7, 8], [2, 2]] = np.nan, np.inf, [np.inf, -np.inf]
    with Graph().as_default():
        given = placeholder(np.float32, x.shape)
        found = evaluate(reduce_sum(given, 0), {given: x})
    np.testing.assert_array_equal(found, [np.nan, np.inf, np.nan, *[4096] * 61])
