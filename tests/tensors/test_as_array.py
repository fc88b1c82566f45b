"""Python values to arrays and to tensors."""

import datetime
import warnings

import ml_dtypes
import numpy as np
import pytest

from aioflow.graph.convert import CONVERTERS, constant_value, convert_to_tensor
from aioflow.graph.graph import Graph
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.constants import constant, placeholder
from aioflow.tensors import dtypes
from aioflow.tensors.as_array import as_array
from aioflow.tensors.dtypes import Dimension, TensorShape


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1.5, "float32", 1.5),
        (1, "int32", 1),
        (1 << 40, "int64", 1 << 40),
        ([-(1 << 31), (1 << 31) - 1], "int32", [-(1 << 31), (1 << 31) - 1]),
        ((1 << 63) + 1, "uint64", (1 << 63) + 1),
        (True, "bool", True),
        (1j, "complex128", 1j),
        ([], "float32", []),
        ([[1], [2.5]], "float32", [[1], [2.5]]),
        ([True, 2], "int32", [1, 2]),
        (1e300, "float32", np.inf),
        (np.float64(1), "float64", 1),
        (np.arange(3, dtype=np.uint8), "uint8", [0, 1, 2]),
        ([np.float64(1), 2.0], "float32", [1, 2]),
        ([np.float32(1), 2.0], "float32", [1, 2]),
        ([[np.int64(1)], [2]], "int32", [[1], [2]]),
        ([np.int64(1 << 40)], "int64", [1 << 40]),
        ([np.float16(1)], "float16", [1]),
        ([np.arange(2.0)], "float64", [[0, 1]]),
        ([ml_dtypes.bfloat16(1)], "bfloat16", [1]),
        (np.array([1, 2], ">i4"), "int32", [1, 2]),
        (range(3), "int32", [0, 1, 2]),
        (np.ma.array([1, 2]), "int64", [1, 2]),
    ],
)
def test_values_have_the_dtype_of_convention(value, dtype, expected):
    array = as_array(value)
    assert type(array) is np.ndarray
    assert dtypes.as_dtype(array.dtype).name == dtype
    assert array.dtype.isnative
    np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("héllo", "héllo".encode()),
        (b"a\0", b"a\0"),
        (["a", b"b"], [b"a", b"b"]),
        ([["a"], ["bc"]], [[b"a"], [b"bc"]]),
        (np.array(["x", "yy"]), [b"x", b"yy"]),
        (np.array([b"x"]), [b"x"]),
        (np.str_("x"), b"x"),
        ([np.bytes_(b"x")], [b"x"]),
        (["a", b"\xff", "é"], [b"a", b"\xff", "é".encode()]),
    ],
)
def test_text_becomes_bytes_objects(value, expected):
    array = as_array(value)
    assert array.dtype == object
    assert array.tolist() == expected
    assert all(type(item) is bytes for item in array.flat)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1, "float16", 1),
        ([1, 2.5], "float64", [1, 2.5]),
        (255, "uint8", 255),
        (1, "complex64", 1),
        ([], "string", []),
        ([], "int8", []),
        (np.array([1.0, -2.0]), "int8", [1, -2]),
        (np.array([0.0, 1.0]), "bool", [False, True]),
        (np.array([True]), "int32", [1]),
        (np.float64(1e300), "float16", np.inf),
        ([ml_dtypes.bfloat16(1.5)], "float32", [1.5]),
        (1e300, "float8_e5m2", np.inf),
        (1.0, "int32", 1),
        ([True, False], "float32", [1, 0]),
        ([1, 0], "bool", [True, False]),
        (np.array([[1, 2.5]], object), "float32", [[1, 2.5]]),
        (np.zeros((0, 2), object), "int32", np.zeros((0, 2))),
        (TensorShape([2, 3]), "int64", [2, 3]),
        ([Dimension(2), 3], "float32", [2, 3]),
    ],
)
def test_values_take_a_dtype_that_can_hold_them(value, dtype, expected):
    array = as_array(value, dtypes.as_dtype(dtype))
    assert dtypes.as_dtype(array.dtype).name == dtype
    np.testing.assert_array_equal(array.astype(object if dtype == "string" else np.complex128), expected)


@pytest.mark.parametrize("strict", [False, True])
def test_integers_above_int64_stay_exact_among_smaller_ones(strict):
    array = as_array([(1 << 64) - 1, (1 << 63) + 1, 5], dtypes.uint64, strict)
    assert array.tolist() == [(1 << 64) - 1, (1 << 63) + 1, 5]


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (1.5, "int32", "1.5 does not fit dtype int32 without loss"),
        (2, "bool", "2 does not fit dtype bool without loss"),
        (1j, "float32", "1j is complex, and dtype float32 is not"),
        (np.array([1.5], object), "int32", "does not fit dtype int32 without loss"),
        (np.array([1, None], object), "int32", "None of type NoneType at [1] is not a value of dtype int32"),
        (1 << 80, "int32", "does not fit any integer dtype"),
        (["a", b"\xff"], "float32", "['a', b'\\xff'] is not a value of dtype float32"),
        (300, "uint8", "300 does not fit dtype uint8 without loss"),
        (-1, "uint64", "-1 does not fit dtype uint64 without loss"),
        ([1 << 63, -1], "uint64", "does not fit dtype uint64 without loss"),
        (np.uint64(1 << 63), "int64", "does not fit dtype int64 without loss"),
        (np.array([0.5]), "int32", "does not fit dtype int32 without loss"),
        (np.array([0.5]), "bool", "does not fit dtype bool without loss"),
        (np.array([np.nan]), "int32", "does not fit dtype int32 without loss"),
        (np.array([1 + 2j]), "float32", "is complex, and dtype float32 is not"),
        (1 << 64, None, "18446744073709551616 does not fit any integer dtype"),
        (None, None, "None of type NoneType has no dtype; text is str or bytes"),
        ([1, None], None, "None of type NoneType at [1] has no dtype"),
        ([1, "a"], None, "'a' of type str at [1] stands among numbers; a tensor holds either"),
        (["a", "b", 3], None, "3 of type int at [2] stands among text; a tensor holds either"),
        ([[1.0, 2.0], [3.0, "a"]], "float32", "'a' of type str at [1, 1] is not a value of dtype float32"),
        (["a", 3], "string", "3 of type int at [1] is not a value of dtype string"),
        (object(), None, "of type object has no dtype"),
        ({"a": 1}, None, "{'a': 1} of type dict has no dtype"),
        (np.array([b"a", None], object), None, "None of type NoneType at [1] has no dtype"),
        (3, "string", "3 of type int is not a value of dtype string"),
        ("x", "float32", "'x' is not a value of dtype float32"),
        (np.array(["x"]), "float32", "an array of <U1 is not a value of dtype float32"),
        (np.array([1.0]), "resource", "an array of float64 is not a value of dtype resource"),
        (np.datetime64("2020-01-01"), None, "is not a dtype of aioflow"),
        ([datetime.date(2020, 1, 1)], None, "of type date at [0] has no dtype"),
    ],
)
def test_what_a_dtype_cannot_hold_is_a_type_error(value, dtype, text):
    with pytest.raises(TypeError) as caught:
        as_array(value, None if dtype is None else dtypes.as_dtype(dtype))
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (1.0, "int32", "1.0 is not a value of dtype int32"),
        (True, "int32", "True is not a value of dtype int32"),
        (True, "float32", "True is not a value of dtype float32"),
        (1, "bool", "1 is not a value of dtype bool"),
        (1j, "float32", "1j is not a value of dtype float32"),
    ],
)
def test_a_constant_is_not_given_another_kind_of_number(value, dtype, text):
    for make in (lambda: as_array(value, dtypes.as_dtype(dtype), strict=True), lambda: constant(value, dtype)):
        with pytest.raises(TypeError, match=text):
            make()


@pytest.mark.parametrize("value", [[[1, 2], [3]], [["a"], ["b", "c"]], [["a"], [b"\xff", "c"]], [1, [2]]])
def test_ragged_values_are_a_value_error_that_is_short(value):
    with pytest.raises(ValueError, match="cannot be made into one array"):
        as_array(value)


def test_an_error_does_not_repeat_a_long_value():
    with pytest.raises(TypeError) as caught:
        as_array([0.5] * 1000, dtypes.int32)
    assert len(str(caught.value)) < 120


def test_what_fits_already_is_not_copied():
    array = np.ones((2, 2), np.float32)
    assert as_array(array) is array
    assert as_array(array, dtypes.float32) is array


def test_numpy_never_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        as_array(1e300)
        as_array(np.array([1e300, np.nan]), dtypes.float16)


# Tensors


def test_a_tensor_is_itself_if_it_has_the_dtype():
    tensor = constant(1.0)
    assert convert_to_tensor(tensor) is convert_to_tensor(tensor, "float32") is tensor
    with pytest.raises(TypeError, match=r"float32\[\]> has dtype float32, int32 is needed; use af.cast"):
        convert_to_tensor(tensor, dtypes.int32)


def test_a_constant_takes_the_name_that_is_given():
    assert convert_to_tensor(1.0, name="one").name == "one:0"
    assert convert_to_tensor([1, 2], name="few", preferred_dtype=dtypes.int64).name == "few:0"


def test_a_preferred_dtype_holds_for_literals_that_it_can_hold():
    assert convert_to_tensor([], preferred_dtype=dtypes.int32).dtype is dtypes.int32
    assert convert_to_tensor([1, 2], preferred_dtype=dtypes.int64).dtype is dtypes.int64
    assert convert_to_tensor([1.5], preferred_dtype=dtypes.int64).dtype is dtypes.float32
    assert convert_to_tensor(np.int8(1), preferred_dtype=dtypes.int64).dtype is dtypes.int8


def test_a_list_is_stacked_only_if_it_holds_tensors(graph):
    assert convert_to_tensor([[1, 2], [3, 4]]).op.type == "constant"
    mixed = convert_to_tensor([[1, constant(2)], [3, 4]])
    assert mixed.op.type == stack([constant(1)]).op.type
    assert (mixed.dtype, mixed.shape) == (dtypes.int32, [2, 2])


def test_shapes_and_sizes_are_integers():
    for value, shape in ((TensorShape([2, 3]), [2]), (Dimension(2), []), ([Dimension(2), 3], [2])):
        tensor = convert_to_tensor(value)
        assert (tensor.dtype, tensor.shape) == (dtypes.int32, shape)
        assert constant_value(constant(value)).tolist() == constant_value(tensor).tolist()
    assert constant(TensorShape([])).dtype is dtypes.int32
    for value in ([Dimension(None), 3], Dimension(None), TensorShape([None, 3]), TensorShape(None)):
        for make in (constant, convert_to_tensor):
            with pytest.raises(ValueError, match=r"not known when the graph is built: take .* from af\.shape\(x\)"):
                make(value)


def test_a_class_says_how_it_becomes_a_tensor(monkeypatch):
    class Celsius:
        dtype = dtypes.float32

        def __init__(self, degrees):
            self.degrees = degrees

    class Kelvin(Celsius):
        pass

    monkeypatch.setitem(CONVERTERS, Celsius, lambda value, dtype: constant(value.degrees, dtype))
    assert constant_value(convert_to_tensor(Kelvin(3.0), dtypes.float32)) == 3.0
    assert convert_to_tensor([Kelvin(1.0), 2.0]).shape == [2]


def test_what_is_known_of_a_value_before_a_run():
    assert constant_value(constant([1, 2])).tolist() == [1, 2]
    assert constant_value(placeholder(dtypes.int32, [])) is None
    assert constant_value(constant("x")) == b"x"
