"""`tensor[...]`: whatever NumPy's basic indexing gives, with the shape known before."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, basic_indices

from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.graph import Graph
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.array.slicing import slice as slice_
from aioflow.kernels.array.slicing import strided_slice
from aioflow.tensors.dtypes import bool_, float32, int32, int64
from tests.support.evaluate import evaluate


@pytest.fixture
def x():
    with Graph().as_default():
        yield placeholder(float32, [4, None, 3])


@given(st.data())
def test_any_index_gives_what_numpy_gives(data):
    sizes = data.draw(array_shapes(min_dims=0, min_side=0, max_side=4))
    index = data.draw(basic_indices(sizes, allow_newaxis=True))
    value = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
    expected = value[index]
    for static in (sizes, [data.draw(st.sampled_from([size, None])) for size in sizes], None):
        with Graph().as_default():
            part = placeholder(float32, static)[index]
        found = evaluate(part, {part.op.inputs[0]: value})
        np.testing.assert_array_equal(found, expected)
        assert part.shape.is_compatible_with(expected.shape)
        assert static != sizes or part.shape == expected.shape


@given(st.data())
def test_integers_that_a_run_computes_index_as_constants_do(data):
    sizes = data.draw(array_shapes(min_dims=1, max_dims=3, max_side=4))
    index = data.draw(basic_indices(sizes, allow_newaxis=True).map(lambda i: i if isinstance(i, tuple) else (i,)))
    value = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
    with Graph().as_default():
        feeds = {}

        def dynamic(number):
            if number is None or not data.draw(st.booleans()):
                return number
            scalar = placeholder(data.draw(st.sampled_from([int32, int64])), [])
            feeds[scalar] = scalar.dtype.np.type(number)
            return scalar

        def entry(item):
            if isinstance(item, slice):
                return slice(dynamic(item.start), dynamic(item.stop), dynamic(item.step))
            return dynamic(item) if isinstance(item, int) else item

        tensor = placeholder(float32, sizes)
        part = tensor[tuple(entry(item) for item in index)]
    np.testing.assert_array_equal(evaluate(part, {tensor: value, **feeds}), value[index])
    assert part.shape.is_compatible_with(value[index].shape)


OPEN = {
    "an open axis stays open": (np.s_[:, 1:], [4, None, 3]),
    "an index drops its axis": (np.s_[0, 0], [3]),
    "nothing of an open axis is nothing": (np.s_[:, 2:2], [4, 0, 3]),
    "a reversed axis keeps its size": (np.s_[::-1, ::-1], [4, None, 3]),
    "a new axis has size 1": (np.s_[..., None, 0], [4, None, 1]),
}


@pytest.mark.parametrize("case", OPEN)
def test_the_shape_is_exact_where_it_can_be(case, x):
    index, expected = OPEN[case]
    assert x[index].shape.as_list() == expected


ERRORS = {
    "a mask beside an index": (lambda x: x[placeholder(bool_, [4]), 0], TypeError, r"af\.boolean_mask\(tensor, mask\)"),
    "a mask of an array beside an index": (lambda x: x[0, np.array([True, False])], TypeError, r"af\.boolean_mask"),
    "a mask of a list": (lambda x: x[[True, False, True, True]], TypeError, r"af\.boolean_mask"),
    "a truth value": (lambda x: x[True], TypeError, r"af\.boolean_mask"),
    "a list of indices": (lambda x: x[[0, 2]], TypeError, r"\[0, 2\] is not a valid index.*af\.gather"),
    "a vector of indices": (lambda x: x[constant([0, 2])], TypeError, r"af\.gather takes vectors"),
    "an array of indices": (lambda x: x[np.array([0, 2])], TypeError, r"af\.gather takes vectors"),
    "a fraction": (lambda x: x[1.5], TypeError, "1.5 is not a valid index"),
    "a float tensor": (lambda x: x[constant(1.0)], TypeError, "is not a valid index"),
    "text": (lambda x: x["a"], TypeError, "'a' is not a valid index"),
    "an index too high": (lambda x: x[4], ValueError, "index 4 is out of range for axis 0 of size 4"),
    "an index too low": (lambda x: x[..., -4], ValueError, "index -4 is out of range for axis 2 of size 3"),
    "too many indices": (lambda x: x[0, 0, 0, 0], ValueError, "4 axes are indexed, and the rank is 3"),
    "two ellipses": (lambda x: x[..., ...], ValueError, "only one Ellipsis"),
    "no step": (lambda x: x[::0], ValueError, "step of a slice cannot be 0"),
    "a part too long": (
        lambda x: slice_(x, [2, 0, 0], [3, 1, 1]),
        ValueError,
        "axis 0 has 4 elements, and begin 2 with size 3",
    ),
    "a part of another rank": (
        lambda x: slice_(x, [2], [3]),
        ValueError,
        "rank 3 needs as many begins and sizes, not 1 and 1",
    ),
    "a negative begin": (lambda x: slice_(x, [-1, 0, 0], [1, 1, 1]), ValueError, "begin -1 .* cannot be negative"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_is_no_index_is_refused_when_the_graph_is_built(case, x):
    build, kind, text = ERRORS[case]
    with pytest.raises(kind, match=text):
        build(x)


def test_an_index_that_only_a_run_tells_is_checked_there(x):
    where = placeholder(int32, [])
    value = np.zeros((4, 2, 3), np.float32)
    with pytest.raises(IndexError, match="index 4 is out of bounds for axis 0 with size 4"):
        evaluate(x[where], {x: value, where: np.int32(4)})
    with pytest.raises(IndexError, match="index 2 is out of bounds for axis 1 with size 2"):
        evaluate(x[:, 2], {x: value})
    with pytest.raises(ValueError, match="axis 1 has 2 elements, and begin 1 with size 2 needs 3"):
        evaluate(slice_(x, [0, 1, 0], [4, 2, -1]), {x: value})


def test_constant_tensors_index_as_numbers_do(x):
    assert x[constant(1)].op.type == x[shape(x)[2]].op.type == "strided_slice"
    assert x[shape(x)[1]].op.type == "dynamic_strided_slice"
    assert x[: shape(x)[1], 1].shape.as_list() == [None, 3]


def test_a_constant_index_is_one_call_on_the_array(x):
    class Recorder:
        def __getitem__(self, index):
            return index

    assert evaluate(x[1, ::2, None], {x: Recorder()}) == (1, slice(None, None, 2), None)


def test_text_indexed_to_one_element_stays_an_array():
    with Graph().as_default():
        text = convert_to_tensor([["a", "b"], ["c", "d"]])
        where = placeholder(int32, [])
    for part in (text[1, 0], text[1, where], text[..., 1, 0]):
        found = evaluate(part, {where: np.int32(0)})
        assert isinstance(found, np.ndarray)
        assert found[()] == b"c"


def test_strided_slice_takes_masks_as_bits():
    value = np.arange(60.0).reshape(3, 4, 5)
    with Graph().as_default():
        x, begin = placeholder(float32, [3, 4, 5]), placeholder(int32, [3])
        first = strided_slice(x, begin, [3, 1, 0], begin_mask=2, shrink_axis_mask=4, end_mask=1)
        second = strided_slice(x, stack([1, begin[1]]), [0, 4], [1, -1], shrink_axis_mask=1, end_mask=2)
    assert first.shape.as_list() == [None, 1]
    feeds = {x: value, begin: np.array([1, 3, 2], np.int32)}
    np.testing.assert_array_equal(evaluate(first, feeds), value[1:, :1, 2])
    np.testing.assert_array_equal(evaluate(second, feeds), value[1, 3::-1])
