"""The names of TensorFlow's `math`: library/math.py."""

import numpy as np
import pytest

import aioflow as af
from aioflow.library import math
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def test_each_name_is_an_operation_with_a_docstring():
    ops = [name for name in math.__all__ if name != "special"]  # a module
    assert [name for name in ops if not callable(getattr(math, name)) or not getattr(math, name).__doc__] == []
    assert sorted(set(math.__all__)) == math.__all__
    assert math.realdiv is math.truediv


def test_a_tensor_is_multiplied_by_a_number_in_its_own_dtype():
    product = math.scalar_mul(2, af.constant([1.0, 2.0], af.float64), name="twice")
    assert (product.op.name, product.dtype) == ("twice", af.float64)
    np.testing.assert_array_equal(evaluate(product), [2, 4])
    slices = math.scalar_mul(2.0, af.IndexedSlices(af.constant([[1.0]]), af.constant([3])))
    assert isinstance(slices, af.IndexedSlices)
    assert [value.tolist() for value in evaluate([slices.values, slices.indices])] == [[[2]], [3]]
    with pytest.raises(ValueError, match=r"a scalar is needed, its shape is \[1\]"):
        math.scalar_mul([2.0], [1.0])
