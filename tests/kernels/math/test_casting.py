import numpy as np
import pytest

from aioflow.autodiff.gradients import gradients
from aioflow.graph.graph import Graph
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.kernels.array.shapes import reshape
from aioflow.kernels.math import casting
from aioflow.kernels.math.arithmetic import add
from aioflow.tensors import dtypes
from tests.support.evaluate import evaluate

EVERY = [dtype.name for dtype in dtypes.ALL if dtype.family not in ("string", "resource")]


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


def value(tensor):
    return evaluate(tensor)


@pytest.mark.parametrize("source", EVERY)
def test_every_dtype_becomes_every_other(source):
    x = placeholder(source, None)
    cast = [casting.cast(x, target) for target in EVERY]
    for array in (np.array([0, 1, 3]), np.array(1), np.zeros((0, 2))):
        for y, result in zip(cast, evaluate(cast, {x: array.astype(x.dtype.np)}), strict=True):
            assert result.dtype == y.dtype.np
            expected = array.astype(bool) if "bool" in (source, y.dtype.name) else array
            np.testing.assert_array_equal(result.astype(complex), expected.astype(complex), err_msg=y.dtype.name)


@pytest.mark.parametrize("narrow", sorted(dtypes.NARROW, key=str), ids=str)
def test_narrow_dtypes_are_cast_and_moved_and_nothing_computes_with_them(narrow):
    x = placeholder("float32", None)
    y = casting.cast(x, narrow)
    for array in (np.array([1, 1.6]), np.array(1), np.ones((0, 2))):
        given = array.astype(np.float32)
        stored = evaluate(y, {x: given})
        assert stored.dtype == narrow.np
        np.testing.assert_array_equal(stored.astype(np.float32), given.astype(narrow.np).astype(np.float32))
        np.testing.assert_array_equal(value(casting.cast(constant(stored), "float32")), stored.astype(np.float32))
    assert value(reshape(constant(stored), [2, 0])).dtype == narrow.np
    with pytest.raises(TypeError, match=f"add: dtype {narrow.name} is not supported"):
        add(y, y)
    assert float(narrow.min) < 1 <= float(narrow.max)


def test_fractions_are_cut_off_towards_zero():
    assert value(casting.to_int32([-2.9, -0.5, 0.5, 2.9])).tolist() == [-2, 0, 0, 2]


def test_the_imaginary_part_is_dropped_without_a_warning():
    assert value(casting.to_double(constant([1 + 2j]))).tolist() == [1]


def test_casting_to_the_same_dtype_is_nothing(graph):
    x = constant([1.0])
    assert casting.cast(x, "float32") is x
    assert casting.to_float(x) is x
    assert casting.to_int64(x).dtype is dtypes.int64


def test_text_is_not_cast():
    with pytest.raises(TypeError, match="cast: dtype string is not supported"):
        casting.cast(["1"], "int32")


def test_gradients_pass_between_floats_and_stop_at_integers():
    x = placeholder("float32", [2])
    (dx,) = gradients(casting.cast(x, "float64") * 2, x)
    assert evaluate(dx, {x: np.ones(2, np.float32)}).dtype == np.float32
    assert gradients(casting.to_float(casting.to_int32(x)), x) == [None]


def test_bits_are_read_as_another_dtype():
    x = constant([[1, 2], [3, 4]], "int32")
    assert casting.bitcast(x, "float32").shape is x.shape
    assert casting.bitcast(x, "int16").shape == [2, 2, 2]
    assert value(casting.bitcast(casting.bitcast(x, "int16"), "int32")).tolist() == [[1, 2], [3, 4]]
    assert value(casting.bitcast(constant(1.0), "int32")) == 0x3F800000
    with pytest.raises(ValueError, match=r"the last axis must have size 4 to become int64, the shape is \[2, 3\]"):
        casting.bitcast(constant(np.zeros((2, 3), np.int16)), "int64")
    anything = placeholder("int16", None)
    with pytest.raises(ValueError, match=r"the last axis of \[3\] must have size 4"):
        evaluate(casting.bitcast(anything, "int64"), {anything: np.zeros(3, np.int16)})


@pytest.mark.parametrize("target", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64"])
def test_floats_beyond_the_limits_of_integers_become_the_limits(source, target):
    low, high = dtypes.as_dtype(target).min, dtypes.as_dtype(target).max
    x = constant([-np.inf, np.inf, np.nan, -1.5, 1.5], source)
    result = value(casting.saturate_cast(x, target))
    assert result.tolist() == [low, high, 0, max(low, -1), 1]
    assert result.dtype == dtypes.as_dtype(target).np


def test_integers_and_floats_saturate_in_narrower_dtypes():
    assert value(casting.saturate_cast(constant([-300, 5, 300]), "int8")).tolist() == [-128, 5, 127]
    assert value(casting.saturate_cast(constant([-300, 300]), "uint8")).tolist() == [0, 255]
    assert value(casting.saturate_cast(constant([2**64 - 1], "uint64"), "int64")).tolist() == [2**63 - 1]
    assert value(casting.saturate_cast(constant([1e6, -1e6]), "float16")).tolist() == [65504, -65504]
    assert value(casting.saturate_cast(constant([1e6, -1e6]), "float64")).tolist() == [1e6, -1e6]
