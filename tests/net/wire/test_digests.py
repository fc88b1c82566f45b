"""Digests of graphs and the arrays that go with them."""

import ml_dtypes
import numpy as np
import pytest

from aioflow.net.wire.digests import digest, size
from aioflow.tensors.tensor_list import TensorList

X = np.arange(6, dtype=np.int32).reshape(2, 3)


def test_equal_graphs_have_equal_digests_wherever_their_arrays_lie():
    assert digest(b"graph", {"a": X, "b": X[0]}) == digest(b"graph", {"b": X[0].copy(), "a": np.asfortranarray(X)})
    assert size(b"graph", {"a": X}) == 5 + 24


def test_graphs_that_differ_in_anything_have_other_digests():
    graphs = [
        (b"graph", {"a": X}), (b"grapha", {"a": X}), (b"graph", {"b": X}), (b"graph", {}), (b"graph", {"a": X + 1}),
        (b"graph", {"a": X.T}), (b"graph", {"a": X[:0]}), (b"graph", {"a": X.view(np.float32)}),
        (b"graph", {"a": X.astype(ml_dtypes.bfloat16)}), (b"graph", {"a": X[:1], "b": X[1:]}),
        (b"graph", {"a": X}, b"another before"),
    ]  # fmt: skip
    assert len({digest(*graph) for graph in graphs}) == len(graphs)


@pytest.mark.parametrize("value", [np.array([b"a", b"b"], dtype=object), TensorList.of(X)], ids=["strings", "list"])
def test_an_array_of_strings_or_a_list_is_equal_to_no_other(value):
    assert digest(b"", {"a": value}) != digest(b"", {"a": value})
    assert size(b"", {"a": value}) >= 0
