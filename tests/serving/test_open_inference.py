"""The Open Inference Protocol: health, metadata, inference by JSON and by binary tensors, and requests that lie."""

import asyncio
import gzip
import json
import struct

import ml_dtypes
import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.saved_model.signature import SERVING_DEFAULT, Signature
from aioflow.serving import json_body, open_inference
from aioflow.serving.limits import Limits
from aioflow.serving.service import Service
from aioflow.testing import Gate
from tests.serving.doubles import Models, Version, affine, answer, counter, received, request

INFER = "/v2/models/affine/infer"
JSON_LENGTH = "inference-header-content-length"
ROWS = np.array([[1, 2], [3, 4]], np.float32)


def binary_body(header, *arrays):
    """A body with binary tensors, and its headers."""
    text = json.dumps(header).encode()
    return text + b"".join(bytes(array) for array in arrays), {JSON_LENGTH: str(len(text))}


def tensor(name="x", shape=(2, 2), datatype="FP32", **more):
    return {"name": name, "shape": list(shape), "datatype": datatype, **more}


def in_json(data, **more):
    return json.dumps({"inputs": [tensor(data=data, **more)]}).encode()


def parse_binary(headers, body):
    """The JSON of a response, and what follows it."""
    size = int(headers[JSON_LENGTH])
    return json.loads(body[:size]), body[size:]


async def test_health_and_metadata_are_those_of_the_protocol():
    service = Service(Models(affine(1), affine(3)))
    for path, expected in [
        ("/v2/health/live", {"live": True}),
        ("/v2/health/ready", {"ready": True}),
        ("/v2/models/affine/ready", {"name": "affine", "ready": True}),
        ("/v2/models/affine/versions/1/ready", {"name": "affine", "ready": True}),
    ]:
        status, _, body = await answer(service, "GET", path)
        assert (status, json.loads(body)) == (200, expected)
    _, _, body = await answer(service, "GET", "/v2/models/affine/versions/3")
    assert json.loads(body) == {
        "name": "affine",
        "versions": ["1", "3"],
        "platform": "aioflow",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 2]}],
    }
    assert json.loads((await answer(service, "GET", "/v2"))[2])["name"] == "aioflow"
    service.ready = False
    assert [(await answer(service, "GET", f"/v2/{what}"))[0] for what in ("health/live", "health/ready")] == [200, 503]
    assert (await answer(service, "GET", "/v2/models/affine/ready"))[0] == 503


@pytest.mark.parametrize("data", [[[1, 2], [3, 4]], [1, 2, 3, 4.0]], ids=["nested", "flat"])
async def test_numbers_in_json_are_answered_in_json(data):
    body = json.dumps({"id": "7", "inputs": [tensor(data=data)], "outputs": [{"name": "y"}]}).encode()
    status, headers, body = await answer(Service(Models(affine(4))), "POST", INFER, body)
    assert (status, headers["content-type"]) == (200, "application/json")
    assert json.loads(body) == {
        "model_name": "affine",
        "model_version": "4",
        "id": "7",
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [2, 2], "data": [3.0, 5.0, 7.0, 9.0]}],
    }


@pytest.mark.parametrize("packing", [None, "gzip"])
@pytest.mark.parametrize("chunk", [None, 7])
async def test_binary_tensors_lie_in_the_body_itself(packing, chunk):
    header = {
        "inputs": [tensor(parameters={"binary_data_size": ROWS.nbytes})],
        "parameters": {"binary_data_output": True},
    }
    version = affine()
    body, headers = binary_body(header, ROWS)
    if packing:
        body, headers = gzip.compress(body), headers | {"content-encoding": packing}
    status, headers, body = await answer(Service(Models(version)), "POST", INFER, body, headers, chunk)
    assert (status, headers["content-type"]) == (200, "application/octet-stream")
    head, rest = parse_binary(headers, body)
    assert head["outputs"] == [tensor("y", parameters={"binary_data_size": 16})]
    np.testing.assert_array_equal(np.frombuffer(rest, np.float32).reshape(2, 2), 2 * ROWS + 1)
    (seen,) = version.seen
    assert seen["x"].flags.aligned
    assert not seen["x"].flags.owndata


def every_dtype():
    """A model that returns one input of each dtype, and the values."""
    values = {
        "BOOL": np.array([True, False]), "BF16": np.array([1.5, -2], ml_dtypes.bfloat16),
        "FP16": np.array([1.5, -2], np.float16), "FP32": np.array([0.1, np.inf], np.float32),
        "FP64": np.array([0.1, -np.inf]), "BYTES": np.array([b"\xc3\xa4", b""], object),
        **{f"INT{bits}": np.array([-(2 ** (bits - 1)), 5], f"int{bits}") for bits in (8, 16, 32, 64)},
        **{f"UINT{bits}": np.array([2**bits - 1, 5], f"uint{bits}") for bits in (8, 16, 32, 64)},
    }  # fmt: skip
    with af.Graph().as_default():
        tensors = {name: af.placeholder(af.as_dtype(value.dtype), [None]) for name, value in values.items()}
    signature = Signature(tensors, tensors)
    return Version("affine", 1, {SERVING_DEFAULT: (signature, lambda **inputs: inputs)}), values


def to_bytes(value):
    if value.dtype != object:
        return value.tobytes()
    return b"".join(struct.pack("<I", len(text)) + text for text in value)


async def test_every_dtype_goes_through_json_and_through_bytes():
    version, values = every_dtype()
    service = Service(Models(version))
    parts = [to_bytes(value) for value in values.values()]
    items = [
        tensor(name, [2], name, parameters={"binary_data_size": len(part)})
        for name, part in zip(values, parts, strict=True)
    ]
    body, headers = binary_body({"inputs": items, "parameters": {"binary_data_output": True}}, *parts)
    _, headers, body = await answer(service, "POST", INFER, body, headers)
    head, rest = parse_binary(headers, body)
    assert head["outputs"] == items
    assert rest == b"".join(parts)
    body, headers = binary_body({"inputs": items}, *parts)
    _, _, body = await answer(service, "POST", INFER, body, headers)
    outputs = json.loads(body)["outputs"]
    assert {item["name"]: item["data"] for item in outputs} == {
        name: [text.decode() for text in value] if value.dtype == object else value.tolist()
        for name, value in values.items()
    }
    status, _, again = await answer(service, "POST", INFER, json.dumps({"inputs": outputs}).encode())
    assert (status, again) == (200, body)


async def test_nan_and_infinity_are_numbers_of_json():
    _, _, body = await answer(
        Service(Models(affine())), "POST", INFER, in_json([[float("nan"), float("inf")]], shape=[1, 2])
    )
    assert b'"data":[NaN,Infinity]' in body


BIG = 10**400
WRONG = {
    "an input twice": (json.dumps({"inputs": [tensor(data=[1] * 4)] * 2}), "'x' is given twice"),
    "a key twice": ('{"inputs": [], "inputs": []}', "'inputs' twice"),
    "no JSON": ("{", "not JSON"),
    "no UTF-8": (b'{"a": "\xff"}', "not JSON"),
    "no object": ("[1]", "must be an object"),
    "too deep": ("[" * 100_000, "nested too deep"),
    "a number without end": ('{"inputs": 1' + "0" * 5000 + "}", "not JSON"),
    "no text as id": ('{"id": 5, "inputs": []}', '"id" must be a string, not 5'),
    "no inputs": ("{}", '"inputs" must be a list'),
    "no name": ('{"inputs": [{}]}', 'an object with a "name"'),
    "another name": (json.dumps({"inputs": [tensor("z", data=[1] * 4)]}), "the inputs are ['x'], not ['z']"),
    "an unknown dtype": (in_json([1] * 4, datatype="FP31"), "must be one of BF16, BOOL"),
    "another dtype": (in_json([1] * 4, datatype="INT32"), "input 'x' is float32[?, 2], not int32[2, 2]"),
    "another shape": (in_json([1] * 4, shape=[4, 1]), "input 'x' is float32[?, 2], not float32[4, 1]"),
    "another rank": (in_json([1] * 4, shape=[4]), "not float32[4]"),
    "too few": (in_json([1, 2, 3]), "3 elements, and shape [2, 2] needs 4"),
    "ragged": (in_json([[1, 2], [3]]), "input 'x': "),
    "text": (in_json(["a"] * 4), "input 'x': "),
    "a fraction": (in_json([0.5] * 4, datatype="INT32"), "input 'x': "),
    "out of range": (in_json([300] * 4, datatype="UINT8"), "input 'x': "),
    "huge": (in_json([BIG] * 4), "input 'x': "),
    "NaN as an integer": (in_json([float("nan")] * 4, datatype="INT32"), "input 'x': "),
    "a negative size": (in_json([1], shape=[-1]), '"shape" must be a list of sizes'),
    "a true size": (in_json([1], shape=[True]), '"shape" must be a list of sizes'),
    "many axes": (in_json([1], shape=[1] * 65), "at most 64"),
    "a huge shape": (in_json([], shape=[0, 2**62, 2**62]), "input 'x': "),
    "neither data nor bytes": (json.dumps({"inputs": [tensor()]}), 'either "data" or'),
    "a bad parameter": (
        json.dumps({"inputs": [tensor(data=[1] * 4)], "parameters": {"priority": "high"}}), "'priority'",
    ),
    "a huge parameter": (
        json.dumps({"inputs": [tensor(data=[1] * 4)], "parameters": {"timeout": BIG}}), "'timeout' must fit into 64",
    ),
    "an unknown signature": (
        json.dumps({"inputs": [tensor(data=[1] * 4)], "parameters": {"signature_name": "z"}}), "no signature 'z'",
    ),
    "an output twice": (
        json.dumps({"inputs": [tensor(data=[1] * 4)], "outputs": [{"name": "y"}] * 2}), "asked for twice",
    ),
}  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize("case", WRONG)
async def test_wrong_json_is_refused_by_the_protocols_error(case):
    body, text = WRONG[case]
    status, headers, body = await answer(
        Service(Models(affine())), "POST", INFER, body if isinstance(body, bytes) else body.encode()
    )
    assert (status, headers["content-type"]) == (400, "application/json")
    (error,) = json.loads(body).items()
    assert error[0] == "error"
    assert text in error[1]


class CountedName(str):
    """A name that counts how often any of them is compared."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        CountedName.compared += 1
        return str.__eq__(self, other)


def test_a_name_that_is_given_twice_is_found_without_comparing_all_pairs():
    names = [CountedName(index) for index in [*range(1000), 999]]
    with pytest.raises(errors.InvalidArgumentError, match="'999' twice"):
        json_body._unique([(name, 1) for name in names])
    with pytest.raises(errors.InvalidArgumentError, match="'999' is asked for twice"):
        open_inference._read_outputs([{"name": name} for name in names])
    assert CountedName.compared < 10_000


def sized(size, shape=(2, 2), **more):
    return {"inputs": [tensor(shape=shape, parameters={"binary_data_size": size}, **more)]}


LIES = {
    "fewer bytes than said": (sized(16), b"1" * 15, None, "it has 16 bytes, and 15 are left"),
    "more bytes than said": (sized(16), b"1" * 17, None, "need 16 bytes, and 17 bytes follow"),
    "a size for another shape": (sized(12), b"1" * 12, None, "it has 12 bytes, and FP32[2, 2] needs 16"),
    "a huge shape": (sized(16, [2**62, 2**62]), b"1" * 16, None, "needs"),
    "a negative size": (sized(-1), b"", None, "must be a number of bytes"),
    "a text as size": (sized("16"), b"1" * 16, None, "must be a number of bytes"),
    "JSON that is cut": (sized(16), b"1" * 16, "20", "not JSON"),
    "JSON beyond the end": (sized(16), b"1" * 16, "9999", "should have 9999 bytes"),
    "a length that is no number": (sized(16), b"1" * 16, "-1", "must be a number of bytes"),
    "text beyond its end": (sized(8, [1], datatype="BYTES"), struct.pack("<I", 5) + b"1234", None, "goes on behind"),
    "text before its end": (sized(9, [1], datatype="BYTES"), struct.pack("<I", 4) + b"12345", None, "1 bytes follow"),
    "many texts": (sized(4, [2**40], datatype="BYTES"), b"\0" * 4, None, "or more, not 4"),
    "a bool of 2": (sized(1, [1], datatype="BOOL"), b"\2", None, "neither 0 nor 1"),
}


@pytest.mark.whole
@pytest.mark.parametrize("case", LIES)
async def test_lengths_that_do_not_add_up_are_refused(case):
    header, rest, size, text = LIES[case]
    body, headers = binary_body(header, rest)
    status, _, body = await answer(
        Service(Models(affine())), "POST", INFER, body, headers if size is None else {JSON_LENGTH: size}
    )
    assert status == 400
    assert text in json.loads(body)["error"]


async def test_models_versions_and_paths_that_do_not_exist_are_404_and_methods_405():
    service = Service(Models(affine(2)))
    for path in ("models/other/infer", "models/affine/versions/1/infer", "models/affine/versions/x/infer"):
        status, _, body = await answer(service, "POST", f"/v2/{path}", in_json([1] * 4))
        assert (status, list(json.loads(body))) == (404, ["error"])
    assert [(await answer(service, "GET", path))[0] for path in ("/", "/v3", "/v2/models", "/v2/models/affine/x")] == [
        404
    ] * 4
    status, headers, _ = await answer(service, "GET", INFER)
    assert (status, headers["allow"]) == (405, "POST")


async def test_a_request_says_its_priority_and_its_time():
    version = affine()
    version.gate = Gate()
    parameters = {"priority": 3, "timeout": 50_000}
    body = json.dumps({"inputs": [tensor(data=[1] * 4)], "parameters": parameters}).encode()
    start = asyncio.get_running_loop().time()
    status, _, body = await answer(Service(Models(version)), "POST", INFER, body)
    assert (status, json.loads(body)) == (504, {"error": "the request was not answered within its timeout"})
    assert asyncio.get_running_loop().time() - start == pytest.approx(0.05)
    assert (version.most_priority, version.cancelled, version.holders) == (3, 1, 0)


async def test_a_dtype_without_a_name_cannot_be_sent():
    with af.Graph().as_default():
        z = af.placeholder(af.complex64, [None])
    version = Version(
        "affine", 1, {SERVING_DEFAULT: (Signature({}, {"z": z}), lambda: {"z": np.ones(2, np.complex64)})}
    )
    status, _, body = await answer(Service(Models(version)), "POST", INFER, b'{"inputs": []}')
    assert (status, json.loads(body)["error"]) == (
        501,
        "output 'z' is complex64, for which the protocol has no name: cast it",
    )


async def test_long_json_is_refused_and_long_binary_tensors_are_taken():
    service = Service(Models(affine()), Limits(json=300))
    status, _, body = await answer(service, "POST", INFER, in_json([1] * 100, shape=[50, 2]))
    assert (status, "send the tensors as binary ones" in json.loads(body)["error"]) == (413, True)
    rows = np.ones([100, 2], np.float32)
    body, headers = binary_body(sized(rows.nbytes, [100, 2]), rows)
    assert (await answer(service, "POST", INFER, body, headers))[0] == 200


async def test_iterations_of_a_loop_are_server_sent_events():
    service = Service(Models(counter()))
    status, headers, body = await answer(service, "POST", "/v2/models/counter/generate_stream", b'{"n": [3]}')
    assert (status, headers["content-type"]) == (200, "text/event-stream")
    events = [json.loads(line.removeprefix("data: ")) for line in body.decode().split("\n\n")[:-1]]
    assert [event["n"] for event in events] == [[2], [1], [0]]
    assert events[0] == {"model_name": "counter", "model_version": "1", "n": [2], "more": [True]}
    _, _, body = await answer(service, "POST", "/v2/models/counter/generate", b'{"n": [3], "id": "1"}')
    assert json.loads(body)["n"] == [2]
    status, _, body = await answer(service, "POST", "/v2/models/counter/generate_stream", b'{"n": ["a"]}')
    assert (status, "input 'n'" in json.loads(body)["error"]) == (400, True)


async def test_what_is_generated_has_the_priority_and_the_timeout_of_an_inference():
    version = counter()
    service = Service(Models(version))
    for priority, path in ((2, "generate"), (3, "generate_stream")):
        body = b'{"n": [1], "parameters": {"priority": %d, "timeout": 5000000}}' % priority
        assert (await answer(service, "POST", f"/v2/models/counter/{path}", body))[0] == 200
        assert version.most_priority == priority
        wrong = b'{"n": [1], "parameters": {"timeout": "1"}}'
        status, _, body = await answer(service, "POST", f"/v2/models/counter/{path}", wrong)
        assert (status, "'timeout' must be of type int" in json.loads(body)["error"]) == (400, True)
    version.gate = Gate()
    late = b'{"n": [3], "parameters": {"timeout": 2000000}}'
    for path in ("generate", "generate_stream"):
        start = asyncio.get_running_loop().time()
        assert (await answer(service, "POST", f"/v2/models/counter/{path}", late))[0] == 504
        assert asyncio.get_running_loop().time() - start == pytest.approx(2)
    version.gate.open()

    async def hold(response):
        version.gate = Gate()
        return [json.loads(message) async for message in response.stream]

    (message,) = await service.answer(request("POST", "/v2/models/counter/generate_stream", late), hold)
    assert "was not answered within its timeout" in message["error"]
    assert (version.holders, version.cancelled, service.running) == (0, 3, 0)


async def test_a_stream_that_is_left_stops_and_one_that_fails_says_so_in_a_message():
    version = counter()
    service = Service(Models(version))
    body = b'{"n": [1000000]}'

    async def leave(response):
        await anext(response.stream)
        assert (version.holders, service.running) == (1, 1)

    await service.answer(request("POST", "/v2/models/counter/generate_stream", body), leave)
    assert (version.holders, service.running) == (0, 0)
    assert len(version.seen) == 2

    async def fail(response):
        version.error = errors.AbortedError("another version")
        return [message async for message in response.stream]

    messages = await service.answer(request("POST", "/v2/models/counter/generate_stream", body), fail)
    assert messages == [b'{"error":"another version"}']


async def test_requests_with_the_same_json_are_read_alike_wherever_their_bytes_lie():
    service = Service(Models(affine(), affine(2)))
    header = {"inputs": [tensor(parameters={"binary_data_size": 16})], "parameters": {"binary_data_output": True}}
    for spaces in (0, 1, 2, 3, 0):
        for rows in (ROWS, -ROWS):
            text = json.dumps(header).encode() + b" " * spaces
            asked = request("POST", INFER, headers={JSON_LENGTH: str(len(text))})._replace(body=text + rows.tobytes())
            status, headers, body = await service.answer(asked, received)
            said, after = parse_binary(headers, body)
            assert (status, said["model_version"]) == (200, "2")
            np.testing.assert_array_equal(np.frombuffer(after, np.float32).reshape(2, 2), 2 * rows + 1)
    short = asked._replace(body=asked.body[:-1])
    assert (await service.answer(short, received))[0] == 400
    few = Service(Models(affine()), Limits(json=10))
    assert (await few.answer(asked, received))[0] == 413
    body, headers = binary_body(header | {"id": "mine"}, ROWS)
    _, headers, body = await answer(service, "POST", INFER.replace("/infer", "/versions/1/infer"), body, headers)
    said, _ = parse_binary(headers, body)
    assert (said["model_version"], said["id"]) == ("1", "mine")
