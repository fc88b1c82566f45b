"""Digests of graphs and the arrays that go with them."""

import ml_dtypes
import numpy as np
import pytest

from aioflow.net.wire.digests import digest, size
from aioflow.tensors.tensor_list import TensorList

X = np.arange(6, dtype=np.int32).reshape(2, 3)


def strings(content):
    return np.array(content, dtype=object)


def listed(content):
    return TensorList.of([strings([text]) for text in content])


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


@pytest.mark.parametrize("make", [strings, listed])
def test_strings_and_lists_have_the_digest_of_their_content(make):
    contents = [[b"a", b"bc"], [b"ab", b"c"], [b"a", b"bd"], [b"a", b"b", b"c"], [b"abc"], [b"", b"abc"], []]
    found = [digest(b"", {"a": make(content)}) for content in contents]
    assert found == [digest(b"", {"a": make(content)}) for content in contents]
    assert len(set(found)) == len(contents)


def test_each_of_many_strings_changes_the_digest_and_so_does_their_shape():
    many = [b"%d" % number for number in range(2049)]
    others = [[b"other", *many[1:]], [*many[:1024], b"other", *many[1025:]], [*many[:-1], b"other"]]
    arrays = [strings(many), *map(strings, others), strings(many).reshape(3, 683), strings(many).reshape(683, 3)]
    assert len({digest(b"", {"a": array}) for array in arrays}) == len(arrays)
    assert digest(b"", {"a": strings(many)}) == digest(b"", {"a": strings(many)[::-1].copy()[::-1]})


@pytest.mark.parametrize("make", [strings, listed])
def test_the_bytes_of_strings_and_lists_count(make):
    assert 2000 < size(b"graph", {"a": make([bytes(1000), bytes(1000)])}) < 2200


def test_counting_ends_soon_after_the_most():
    many = strings([bytes(1000)] * 100_000)
    assert size(b"", {"a": many}) > 100_000_000
    assert 5_000 < size(b"", {"a": many}, 5_000) < 2_000_000
