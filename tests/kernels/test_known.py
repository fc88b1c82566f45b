"""What a shape rule says of values that a kernel could not take."""

import numpy as np
import pytest

from aioflow.graph.op import REGISTRY
from aioflow.kernels import known


@pytest.mark.parametrize(
    ("op", "attrs", "inputs", "text"),
    [
        ("add", {}, [np.ones((2, 3)), np.ones((4, 3))], "shapes [2, 3] and [4, 3] cannot be broadcast together"),
        ("reshape", {}, [np.ones(3), np.array([2, -1])], "3 elements do not fit shape [2, -1]"),
        ("fill", {}, [np.array([2, -3]), np.float32(1)], "dims cannot have a negative size: [2, -3]"),
        ("strided_slice", {"index": (5,)}, [np.ones(3)], "index 5 is out of range for axis 0 of size 3"),
        ("concat", {"axis": 1}, [np.ones(4), np.ones(2)], "axis 1 is out of range for rank 1"),
        ("add", {}, [np.ones((2, 3)), np.ones(3)], None),
    ],
)
def test_a_rule_names_the_sizes_that_do_not_fit(op, attrs, inputs, text):
    assert known.refusal(REGISTRY[op], attrs, [known.of(value) for value in inputs]) == text
