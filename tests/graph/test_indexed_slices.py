import numpy as np
import pytest

import aioflow as af
from aioflow import IndexedSlices, IndexedSlicesValue, constant, convert_to_tensor, placeholder
from aioflow.graph.composites import composite_of
from aioflow.graph.indexed_slices import dense
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


ROWS = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def test_it_becomes_dense_by_summing_rows_named_twice():
    slices = IndexedSlices(constant(ROWS), constant([3, 0, 3]), constant([4, 2]))
    whole = convert_to_tensor(slices)
    assert whole.shape == (4, 2)
    np.testing.assert_array_equal(evaluate(whole), [[3, 4], [0, 0], [0, 0], [6, 8]])


def test_it_becomes_dense_where_its_shape_is_known_only_in_a_run():
    sizes = placeholder(af.int32, [2])
    whole = convert_to_tensor(IndexedSlices(constant(ROWS), [1, 1, 1], sizes))
    assert whole.shape.as_list() == [None, 2]
    np.testing.assert_array_equal(evaluate(whole, {sizes: np.array([3, 2], np.int32)}), [[0, 0], [9, 12], [0, 0]])


def test_it_becomes_dense_like_a_tensor_where_it_has_no_shape_of_its_own():
    like = placeholder(af.float32, [None, 2])
    whole = dense(IndexedSlices(constant(ROWS), [0, 1, 1]), like)
    np.testing.assert_array_equal(evaluate(whole, {like: np.zeros((2, 2), np.float32)}), [[1, 2], [8, 10]])


def test_without_a_shape_it_cannot_become_dense():
    with pytest.raises(ValueError, match="dense_shape is not known"):
        convert_to_tensor(IndexedSlices(constant(ROWS), [0, 1, 2]))


def test_it_is_not_cast_on_the_way():
    with pytest.raises(TypeError, match="float32, float64 is needed"):
        convert_to_tensor(IndexedSlices(constant(ROWS), [0, 1, 2], [3, 2]), af.float64)


def test_it_shows_what_its_values_show():
    values = constant(ROWS, name="rows")
    slices = IndexedSlices(values, [0, 1, 2], [7, 2])
    assert (slices.name, slices.op, slices.graph, slices.device) == (values.name, values.op, values.graph, "")
    assert (slices.dtype, slices.shape, slices.get_shape()) == (af.float32, (7, 2), (7, 2))
    assert repr(slices) == "<af.IndexedSlices 'rows:0' float32[7, 2]>"
    assert IndexedSlices(values, [0, 1, 2]).shape.as_list() == [None, 2]


@pytest.mark.parametrize(
    ("values", "indices", "error", "message"),
    [
        (ROWS, [0.0, 1.0, 2.0], TypeError, "integers, not float32"),
        (ROWS, [0, 1], ValueError, r"shape \[3, 2\] need one index per row, not indices of \[2\]"),
        (ROWS, [[0, 1, 2]], ValueError, "one index per row"),
        (1.0, [0], ValueError, "one index per row"),
    ],
)
def test_values_and_indices_must_fit_together(values, indices, error, message):
    with pytest.raises(error, match=message):
        IndexedSlices(values, indices)


def test_it_is_fetched_and_fed_as_one_value():
    slices = IndexedSlices(placeholder(af.float32, [None, 2]), placeholder(af.int32, [None]), [4, 2])
    composite = composite_of(slices)
    tensors = composite.tensors(slices)
    assert tensors == [slices.values, slices.indices, slices.dense_shape]
    fed = composite.split(slices, IndexedSlicesValue(np.float32(ROWS), np.int32([3, 0, 3]), np.int32([4, 2])))
    value = composite.join(slices, evaluate(tensors, dict(zip(tensors, fed, strict=True))))
    assert isinstance(value, IndexedSlicesValue)
    np.testing.assert_array_equal(value.indices, [3, 0, 3])
    assert composite_of(slices.values) is None


def test_a_control_dependency_on_it_is_one_on_its_values(graph):
    slices = IndexedSlices(constant(ROWS), [0, 1, 2])
    with graph.control_dependencies([slices]):
        after = constant(1)
    assert after.op.control_inputs == (slices.op,)
