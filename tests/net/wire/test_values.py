"""Values as bytes: what arrives is what was sent, and nothing is believed of what announces it."""

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from aioflow import errors
from aioflow.net.wire import values
from aioflow.net.wire.values import Budget, describe, incoming, scalars_of, scalars_sent
from aioflow.tensors import dtypes
from aioflow.tensors.tensor_list import TensorList
from tests.support.net_samples import VALUES, X, plain, tensor_list


def sent(value):
    """What is sent of a value: its descriptor as it arrives, and its bytes."""
    found = describe(value)
    return msgpack.unpackb(msgpack.packb(found.descriptor)), b"".join(found.buffers)


def received(descriptor, data):
    coming = incoming(descriptor, Budget(1 << 20))
    assert coming.nbytes == len(data)
    coming.allocate()[:] = data
    return coming.value()


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_value_arrives_as_it_was_sent(value):
    assert plain(received(*sent(value))) == plain(value)


SCALARS = [dtype.np.type(1) for dtype in dtypes.EVERY if not dtype.np.hasobject] + [np.bool_(False), np.float32("nan")]


def test_scalars_that_are_read_at_once_are_those_that_are_read_one_by_one():
    descriptors, data = zip(*map(sent, SCALARS), strict=True)
    found = scalars_of([*descriptors], memoryview(b"".join(data)))
    assert [*map(plain, found)] == [*map(plain, SCALARS)] == [*map(plain, map(received, descriptors, data))]
    assert [*map(type, found)] == [*map(type, SCALARS)]


def test_scalars_that_are_written_at_once_are_those_that_are_written_one_by_one():
    descriptors, data = zip(*map(sent, SCALARS), strict=True)
    assert scalars_sent(SCALARS) == ([*descriptors], b"".join(data))
    assert scalars_sent([]) == ([], b"")
    assert scalars_sent([np.float32(1), np.ones(1)]) is None
    assert scalars_sent([np.float32(1)] * (values.MOST_SCALARS + 1)) is None


def test_arrays_without_dimensions_travel_as_scalars():
    arrays = [np.array(1.5, np.float32), np.array(True), np.array(2.0, dtypes.bfloat16.np)]
    names, data = scalars_sent(arrays)
    assert names == ["float32", "bool", "bfloat16"]
    found = scalars_of(names, memoryview(data))
    assert [(type(one), one.tobytes()) for one in found] == [(one.dtype.type, one.tobytes()) for one in arrays]
    assert scalars_sent([np.array(-7, ">i4")]) is None
    assert scalars_sent([np.array(b"text", object)]) is None


@pytest.mark.whole
@pytest.mark.parametrize(
    ("descriptor", "data"),
    [
        (["array", "int8", [1], 1], b"x"), ("int8", b"xy"), ("int8", b""), ("string", bytes(8)), (["int8"], b"x"),
        ("bool", b"\2"), ("int", b"x"), (7, b"x"), (["dead"], b""),
    ],
)  # fmt: skip
def test_other_values_and_damaged_scalars_are_not_read_at_once(descriptor, data):
    assert scalars_of(["int8", descriptor], memoryview(b"z" + data)) is None


@given(
    hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, min_side=0)).filter(lambda x: x.dtype.kind in "biufc")
)
def test_any_array_arrives_as_it_was_sent(value):
    if value.dtype.name not in ("float128", "complex256"):
        assert plain(received(*sent(value))) == plain(value)


@given(st.dictionaries(st.integers(0, 40), st.sampled_from([X, X + 1, np.int8(3), np.zeros(0), TensorList(2)])))
def test_any_list_arrives_as_it_was_sent(items):
    value = tensor_list(41, items, list(items)[::3])
    assert plain(received(*sent(value))) == plain(value)


def test_an_array_is_sent_from_where_it_lies():
    large = np.zeros((50, 50), np.float32)
    (buffer,) = describe(large).buffers
    assert np.shares_memory(np.frombuffer(buffer, np.uint8), large)


def test_neighbours_that_are_alike_are_sent_as_one():
    descriptor, data = sent(tensor_list(1000, {index: np.float32(index) for index in range(1000)}))
    assert descriptor[2] == 4032
    assert len(data) - descriptor[2] == descriptor[1] < 40


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (object(), "of type object cannot leave its process"),
        (np.array([b"x", "y"], object), "'y' of type str cannot leave its process"),
        (np.array(["text"]), "texts are bytes objects"),
        (1 << 64, "more than 64 bits"),
        ("x" * 5000, "a text of 5000 characters"),
        (TensorList(values.MOST_ELEMENTS + 1), "a list of 1048577 slots cannot be sent"),
        (tensor_list(1, {0: object()}), "cannot leave its process"),
    ],
)
def test_what_cannot_be_sent_is_named(value, text):
    with pytest.raises(errors.InvalidArgumentError, match=text):
        describe(value)


def test_a_list_that_is_nested_too_deep_is_not_sent():
    value = TensorList(1)
    for _ in range(values.DEEPEST):
        value = tensor_list(1, {0: value})
    with pytest.raises(errors.InvalidArgumentError, match="nested more than 8 deep"):
        describe(value)


@pytest.mark.parametrize(
    ("descriptor", "text"),
    [
        (7, "describes no value"),
        ([], "describes no value"),
        (["tensor", 1], "there are array, strings"),
        ("float33", "'float33' is not a dtype whose bytes can be sent"),
        ("string", "'string' is not a dtype whose bytes can be sent"),
        (["array", "float32", [2]], "describes no value"),
        (["array", "string", [2], 16], "'string' is not a dtype whose bytes can be sent"),
        (["array", "resource", [], 8], "not a dtype whose bytes can be sent"),
        (["array", "object", [2], 16], "not a dtype whose bytes can be sent"),
        (["array", "float32", [2], 9], "has 8 bytes, not 9"),
        (["array", "float32", [1 << 62, 1 << 62], 0], "bytes, not 0"),
        (["array", "float32", [-1], 0], "is not a shape"),
        (["array", "float32", [True], 4], "is not a shape"),
        (["array", "float32", [1] * 65, 4], "is not a shape"),
        (["bytes", -1], "is not a number of bytes"),
        (["bytes", 1.0], "is not a number of bytes"),
        (["strings", [2], 15], "15 bytes are too few"),
        (["plain", []], "is not a plain value"),
        (["plain", b"x"], "is not a plain value"),
        (["list", 1 << 63, 0], "is not a number of bytes"),
    ],
)
def test_descriptors_that_make_no_sense_are_refused(descriptor, text):
    with pytest.raises(ValueError, match=text):
        incoming(descriptor, Budget(1 << 20))


def a_list(structure, data=b""):
    packed = msgpack.packb(structure)
    return ["list", len(packed), len(data)], packed + data


BYTE = ["array", "int8", [1], 1]


@pytest.mark.parametrize(
    ("descriptor", "data", "text"),
    [
        (["array", "bool", [2], 2], b"\x01\x02", "a byte of 0 or 1"),
        (["strings", [2], 20], bytes([3] + [0] * 7 + [2] + [0] * 7) + b"four", "strings of 5 bytes in all came in 4"),
        (*a_list(7), "not the structure of a list"),
        (*a_list([1]), "not the structure of a list"),
        (*a_list([-1, []]), "not the structure of a list"),
        (*a_list([1, [[0, 1]]]), "not a run of a list"),
        (*a_list([1, [[0, 0, BYTE]]]), "not a run of a list"),
        (*a_list([1, [[1, 1, BYTE]]], b"x"), "a list of 1 cannot have 1 tensors from 1 on"),
        (*a_list([1 << 40, []]), "not the structure of a list"),
        (*a_list([1 << 20, [[0, 1 << 30, ["cleared"]]]]), "cannot have 1073741824 tensors"),
        (*a_list([2, [[0, 2, BYTE]]], b"x"), "2 tensors of a list are rows of one array"),
        (*a_list([1, [[0, 1, BYTE]]]), "more than its 0 bytes"),
        (*a_list([1, [[0, 1, ["list", 1, 0]]]], b"\xc1"), "not valid msgpack"),
        (*a_list([2, [[0, 1, BYTE], [0, 1, BYTE]]], b"x" * 65), "a list of 2 cannot have 1 tensors from 0 on"),
        (["list", 1, 0], b"\xc1", "not valid msgpack"),
    ],
)
def test_bytes_that_make_no_sense_are_refused(descriptor, data, text):
    coming = incoming(descriptor, Budget(1 << 20))
    coming.allocate()[:] = data
    with pytest.raises(ValueError, match=text):
        coming.value()


def test_an_array_that_cannot_be_is_refused_with_a_value_error():
    with pytest.raises(ValueError, match="array"):
        incoming(["array", "float32", [0, 1 << 62, 1 << 62], 0], Budget(0)).allocate()
