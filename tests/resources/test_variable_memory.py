import numpy as np
import pytest

from aioflow.resources.containers import VariableState
from aioflow.tensors.dtypes import Spec, TensorShape, float32


def begins_between_vectors(value):
    return value.ctypes.data % 32 == 16


@pytest.mark.parametrize("rows", [3, 500])
def test_weights_of_long_rows_begin_between_vectors_and_their_views_never_change(rows):
    state = VariableState("w", Spec(float32, TensorShape([rows, 1024])))
    given = np.arange(rows * 1024, dtype=np.float32).reshape(rows, 1024)
    assert begins_between_vectors(state.assign(given))
    np.testing.assert_array_equal(state.read(), given)
    row = state.read()[1]
    changed = state.change(lambda array: np.negative(array, array))
    assert begins_between_vectors(changed)
    np.testing.assert_array_equal(changed, -given)
    np.testing.assert_array_equal(row, given[1])
    state.begin_change()
    try:
        array, old = state.draft(np)
    finally:
        state.end_change()
    assert begins_between_vectors(array)
    assert old is changed


def test_weights_are_changed_in_place_where_no_view_of_them_lives():
    state = VariableState("w", Spec(float32, TensorShape([4, 512])))
    place = state.assign(np.ones((4, 512), np.float32)).ctypes.data
    assert state.change(lambda array: np.negative(array, array)).ctypes.data == place
    row = state.read()[0]
    assert state.change(lambda array: np.negative(array, array)).ctypes.data != place
    assert (row == -1).all()
