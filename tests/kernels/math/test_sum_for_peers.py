"""Sums that peers get."""

import ml_dtypes
import numpy as np
import pytest

from aioflow.graph.graph import Graph
from aioflow.kernels.array.constants import constant
from aioflow.kernels.math.sum_for_peers import sum_for_peers
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize("size", [1, 65_535, 65_536, 200_001])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_sum_has_the_bits_of_additions_one_after_the_other(size, count):
    arrays = np.random.default_rng(size).normal(size=(count, size)).astype(np.float32)
    total = arrays[0].copy()
    for array in arrays[1:]:
        total += array
    np.testing.assert_array_equal(evaluate(sum_for_peers(list(arrays))), total)
    np.testing.assert_array_equal(evaluate(sum_for_peers(list(arrays), divisor=3)), total / np.float32(3))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_a_quotient_of_narrow_floats_is_rounded_once(dtype):
    arrays = (np.random.default_rng(0).normal(size=(3, 100_000)) * 100).astype(dtype)
    wide = [array.astype(np.float32) for array in arrays]
    expected = ((wide[0] + wide[1] + wide[2]) / np.float32(3)).astype(dtype)
    found = evaluate(sum_for_peers(list(arrays), divisor=3))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, expected)


def test_only_a_result_that_peers_read_is_read_only():
    assert not evaluate(sum_for_peers([np.ones(3), np.ones(3)])).flags.writeable
    assert evaluate(sum_for_peers([np.ones(3), np.ones(3)], lend=False)).flags.writeable


@pytest.mark.parametrize(
    ("inputs", "divisor", "error", "said"),
    [
        ([], 1, ValueError, "at least one"),
        ([np.zeros(2)], 0, ValueError, "at least 1, not 0"),
        ([np.zeros(2), np.zeros(3)], 1, ValueError, "2.*3"),
        ([np.zeros(2, np.int32)], 2, TypeError, "int32"),
        ([np.zeros(2), np.zeros(2, np.float32)], 1, TypeError, "float"),
    ],
)
def test_what_cannot_be_added_is_refused(inputs, divisor, error, said):
    tensors = [constant(array) for array in inputs]
    with pytest.raises(error, match=said):
        sum_for_peers(tensors, divisor)
