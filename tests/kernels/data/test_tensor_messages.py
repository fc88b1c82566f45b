"""Tensors as TensorFlow's TensorProto."""

import numpy as np
import pytest

import aioflow as af
from aioflow.kernels.data.tensor_wire import CARRIED
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default():
        yield


def test_the_bytes_are_those_of_tensorflow():
    for value, expected in (
        (np.int32([[1, 2]]), b'\x08\x03\x12\x08\x12\x02\x08\x01\x12\x02\x08\x02"\x08\x01\x00\x00\x00\x02\x00\x00\x00'),
        (np.array([b"a", b"bc"], object), b"\x08\x07\x12\x04\x12\x02\x08\x02B\x01aB\x02bc"),
        (np.array([True]), b'\x08\n\x12\x04\x12\x02\x08\x01"\x01\x01'),
        (np.float32(1.5), b'\x08\x01\x12\x00"\x04\x00\x00\xc0?'),
        (np.zeros((0, 3), object), b"\x08\x07\x12\x06\x12\x00\x12\x02\x08\x03"),
        (np.complex128([1 + 1j]), b'\x08\x12\x12\x04\x12\x02\x08\x01"\x10' + 2 * b"\0\0\0\0\0\0\xf0?"),
    ):
        assert evaluate(af.serialize_tensor(value)).item() == expected


def test_every_dtype_goes_there_and_back():
    for dtype in CARRIED:
        value = np.array([b"", b"\xff"], object) if dtype is af.string else np.array([0, 1]).astype(dtype.np)
        tensor = af.constant(value.reshape(1, 2))
        back = evaluate(af.parse_tensor(af.serialize_tensor(tensor), dtype))
        assert (back.dtype, back.tolist()) == (value.dtype, value.reshape(1, 2).tolist())
        assert af.make_ndarray(af.make_tensor_proto(value)).tolist() == value.tolist()


def test_messages_with_a_field_for_each_kind_of_value_are_read():
    for message, expected in (
        (b"\x08\x01\x12\x08\x12\x02\x08\x02\x12\x02\x08\x02*\x04\x00\x00\xa0@", np.full((2, 2), np.float32(5))),
        (b"\x08\x02\x12\x04\x12\x02\x08\x01\x31\0\0\0\0\0\0\xf0?", np.array([1.0])),
        (b"\x08\x03\x12\x04\x12\x02\x08\x03:\x02\x01\x07", np.int32([1, 7, 7])),
        (b"\x08\x09\x12\x00\x50\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", np.int64(-1)),
        (b"\x08\x0a\x12\x04\x12\x02\x08\x02\x5a\x02\x01\x00", np.array([True, False])),
        (b"\x08\x13\x12\x04\x12\x02\x08\x01\x6a\x02\x80\x78", np.float16([1.0])),
        (b"\x08\x08\x12\x04\x12\x02\x08\x01\x4a\x08\0\0\x80?\0\0\0@", np.complex64([1 + 2j])),
        (b"\x08\x04\x12\x04\x12\x02\x08\x02", np.uint8([0, 0])),
    ):
        found = af.make_ndarray(message)
        assert (found.dtype, found.tolist()) == (expected.dtype, expected.tolist())


def test_a_shape_repeats_the_last_value():
    assert af.make_ndarray(af.make_tensor_proto([1, 2], af.int64, [2, 2])).tolist() == [[1, 2], [2, 2]]
    with pytest.raises(ValueError, match="does not have shape"):
        af.make_tensor_proto([1, 2], shape=[3], verify_shape=True)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "0 is not the number of a dtype"),
        (b"\x08\x14\x12\x00", "20 is not the number of a dtype"),
        (b"\x08\x03\x12\x02\x18\x01", "the shape is unknown"),
        (b'\x08\x03\x12\x00"\x03abc', "3 bytes are not"),
        (b"\x08\x03\x12\x00:\x02\x01\x02", "2 values do not make"),
        (b"\x08\x03\x12\x08\x12\x06\x08\x80\x80\x80\x80\x10:\x01\x01", "1 values do not make"),
        (b"\x08\x03\x12\x00B\x01a", "the values are not of dtype int32"),
        (b"\x08\x07\x12\x00:\x01\x01", "the values are not of dtype string"),
        (b"\x08\x03\x12\xff", "cut off"),
    ],
)
def test_bytes_that_are_no_tensor_fail(message, reason):
    with pytest.raises(af.errors.InvalidArgumentError, match=f"the bytes are not a tensor: .*{reason}"):
        evaluate(af.parse_tensor(message, af.int32))


def test_another_dtype_fails():
    with pytest.raises(af.errors.InvalidArgumentError, match="the tensor is of dtype int32, not float32"):
        evaluate(af.parse_tensor(af.serialize_tensor(af.constant(1)), af.float32))
