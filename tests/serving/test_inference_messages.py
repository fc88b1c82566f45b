"""Messages of gRPC as objects of JSON, checked by messages that Google's package protobuf writes and reads."""

import json

import ml_dtypes
import numpy as np
import pytest

from aioflow import errors
from aioflow.serving.failures import RequestRefusedError
from aioflow.serving.inference_messages import (
    inference_response,
    model_response,
    read_inference,
    read_model,
    server_response,
    yes_or_no,
)
from aioflow.serving.inference_tensors import read_given, read_tensors
from aioflow.serving.limits import Limits
from tests.serving.inference_proto import message, parameters

TYPED = [
    ("BOOL", "bool_contents", [True, False, True], np.bool_),
    ("INT8", "int_contents", [-128, 0, 127], np.int8),
    ("INT16", "int_contents", [-(2**15), 1, 2], np.int16),
    ("INT32", "int_contents", [-(2**31), 1, 2**31 - 1], np.int32),
    ("INT64", "int64_contents", [-(2**63), -1, 2**63 - 1, *range(40)], np.int64),
    ("UINT8", "uint_contents", [0, 1, 255], np.uint8),
    ("UINT32", "uint_contents", [0, 1, 2**32 - 1], np.uint32),
    ("UINT64", "uint64_contents", [0, 1, 2**64 - 1], np.uint64),
    ("FP32", "fp32_contents", [0.5, -np.inf, np.nan], np.float32),
    ("FP64", "fp64_contents", [0.1, np.inf, -0.0], np.float64),
    ("BYTES", "bytes_contents", [b"a", b"\xff\x00", b""], object),
]


def inference(inputs, packed=True, **fields):
    return message("ModelInferRequest", packed)(model_name="m", inputs=inputs, **fields).SerializeToString()


async def tensors(data, limits=None):
    found, raw = read_inference(data, limits or Limits())
    return await read_tensors(read_given(found["inputs"]), raw)


@pytest.mark.parametrize("packed", [True, False])
async def test_typed_contents_become_arrays_of_their_datatypes(packed):
    given = [
        {"name": datatype, "datatype": datatype, "shape": [1, len(values)], "contents": {field: values}}
        for datatype, field, values, _ in TYPED
    ]
    found = await tensors(inference(given, packed))
    for datatype, _, values, dtype in TYPED:
        assert found[datatype].dtype == dtype
        np.testing.assert_array_equal(found[datatype], np.array([values], dtype))


async def test_raw_contents_become_arrays_of_their_datatypes():
    arrays = {
        "FP32": np.array([[1, 2]], np.float32), "BF16": np.array([1, -2], ml_dtypes.bfloat16),
        "BOOL": np.array([], np.bool_), "INT64": np.array(5),
    }  # fmt: skip
    given = [{"name": name, "datatype": name, "shape": array.shape} for name, array in arrays.items()]
    for names in (arrays, ["FP32"], ["BOOL"]):
        items = [item for item in given if item["name"] in names]
        found = await tensors(inference(items, raw_input_contents=[arrays[item["name"]].tobytes() for item in items]))
        assert {name: array.tolist() for name, array in found.items()} == {
            name: arrays[name].tolist() for name in names
        }


def test_a_request_says_the_same_as_its_json():
    given = [{"name": "x", "datatype": "FP32", "shape": [0], "parameters": parameters(a=True)}]
    wanted = [{"name": "y", "parameters": parameters(classification=2)}, {"name": "z"}]
    data = inference(
        given, model_version="3", id="é", outputs=wanted, unknown=b"skipped",
        parameters=parameters(signature_name="s", timeout=-5, fraction=0.5),
    )  # fmt: skip
    found, raw = read_inference(data, Limits())
    assert bytes(raw) == b""
    assert found == {
        "model_name": "m", "model_version": "3", "id": "é",
        "parameters": {"signature_name": "s", "timeout": -5, "fraction": 0.5},
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [0], "parameters": {"a": True}, "data": []}],
        "outputs": [{"name": "y", "parameters": {"classification": 2}}, {"name": "z", "parameters": {}}],
    }  # fmt: skip
    assert json.dumps(found)
    assert read_model(message("ModelRequest")(name="m", version="7").SerializeToString()) == ("m", "7")


X = {"name": "x", "datatype": "FP32", "shape": [2]}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x0a\x05ab", "the message is malformed: 5 bytes are said to follow byte 2, and there are 2"),
        (b"\x0a\x01\xff", "the message is malformed: 'utf-8' codec"),
        (b"\x2a\x04\x2a\x02\x32\x01", "the message is malformed"),
        (inference([X], raw_input_contents=[b"", b""]), "there are 1 inputs and 2 raw_input_contents"),
        (inference([X], raw_input_contents=[b"abc"]), "input 'x': it has 3 bytes, and FP32[2] needs 8"),
        (inference([{**X, "contents": {"fp32_contents": [1]}}]), "input 'x': \"data\" has 1 elements"),
        (
            inference([{**X, "contents": {"fp32_contents": [1, 2]}}], raw_input_contents=[bytes(8)]),
            "input 'x' has contents, although the request has raw_input_contents",
        ),
        (
            inference([{**X, "contents": {"fp64_contents": [1, 2]}}]),
            "input 'x' of datatype FP32 needs fp32_contents, and has fp64_contents",
        ),
        (
            inference([{**X, "datatype": "FP16", "contents": {"fp32_contents": [1, 2]}}]),
            "input 'x' of datatype FP16 needs raw_input_contents, and has fp32_contents",
        ),
        (inference([{**X, "datatype": "F", "contents": {"fp32_contents": [1]}}]), '"datatype" must be one of'),
        (inference([{**X, "datatype": "INT8", "contents": {"int_contents": [1, 300]}}]), "300"),
        (inference([{**X, "shape": [-2]}]), '"shape" must be a list of sizes'),
        (inference([X, X], raw_input_contents=[bytes(8)] * 2), "input 'x' is given twice"),
        (inference([{}]), 'an object with a "name"'),
        (b"\x32\x00" * (2**14 + 1), "it has more than 16384 fields; send the tensors as raw_input_contents"),
    ],
    ids=range(15),
)
@pytest.mark.whole
async def test_bad_messages_are_refused_with_the_reason(data, text):
    with pytest.raises(errors.InvalidArgumentError) as caught:
        await tensors(data)
    assert text in str(caught.value)


async def test_what_is_not_raw_is_bounded_as_json_is_before_it_is_read(monkeypatch):
    small = Limits(json=100)
    data = inference([{**X, "shape": [25]}], raw_input_contents=[bytes(100)])
    assert (await tensors(data, small))["x"].shape == (25,)
    monkeypatch.setattr("aioflow.files.message_wire.integers", None)
    with pytest.raises(RequestRefusedError, match="at most 100 are taken: send the tensors as raw_input_contents"):
        await tensors(inference([{**X, "shape": [25], "contents": {"fp32_contents": [1.0] * 25}}]), small)


async def test_responses_are_read_by_protobuf():
    outputs = {"y": np.array([[1, 2]], np.float32).T, "text": np.array([b"a", b""], object), "none": np.zeros((0, 3))}
    found = message("ModelInferResponse").FromString(b"".join(await inference_response("m", 3, "7", outputs)))
    assert (found.model_name, found.model_version, found.id) == ("m", "3", "7")
    described = [(item.name, item.datatype, [*item.shape]) for item in found.outputs]
    assert described == [("y", "FP32", [2, 1]), ("text", "BYTES", [2]), ("none", "FP64", [0, 3])]
    assert [*found.raw_output_contents] == [outputs["y"].tobytes(), b"\1\0\0\0a\0\0\0\0", b""]
    facts = {"name": "m", "versions": ["1", "2"], "platform": "p"}
    tensor = {"name": "x", "datatype": "FP32", "shape": [-1, 200]}
    model = message("ModelMetadataResponse").FromString(
        model_response({**facts, "inputs": [tensor], "outputs": [{**tensor, "shape": []}]})
    )
    assert (model.name, [*model.versions], model.platform) == ("m", ["1", "2"], "p")
    assert ([*model.inputs[0].shape], [*model.outputs[0].shape]) == ([-1, 200], [])
    server = server_response({"name": "a", "version": "1", "extensions": ["b", "c"]})
    assert [*message("ServerMetadataResponse").FromString(server).extensions] == ["b", "c"]
    assert [message("Flag").FromString(yes_or_no(value)).value for value in (True, False)] == [True, False]
