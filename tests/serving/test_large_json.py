"""Large JSON: threads read and write it, in slices, with the same results as at once."""

import json
import threading

import numpy as np
import pytest

import aioflow as af
from aioflow.saved_model.signature import SERVING_DEFAULT, Signature
from aioflow.serving.large_json import beside_loop, json_size, to_json_in_slices, write_json
from aioflow.serving.request import to_json
from aioflow.serving.service import Service
from aioflow.tensors.as_array import as_array
from tests.serving.doubles import Models, Version, answer

COUNT = 5000
NUMBERS = np.arange(2 * COUNT, dtype=np.float32).reshape(COUNT, 2)


@pytest.mark.parametrize(
    "value",
    [
        {"predictions": NUMBERS.tolist()},
        {"predictions": [{"a": row, "b": "ä\ud800,"} for row in NUMBERS.tolist()]},
        {"outputs": [{"shape": (1, COUNT), "data": [*range(COUNT)]}, {"data": []}], "id": None},
        [[[*range(COUNT)], [0.5] * COUNT]],
        {"small": [1]},
        [],
    ],
)
def test_slices_are_the_same_text(value):
    assert to_json_in_slices(value) == to_json(value)


@pytest.mark.real
async def test_a_thread_works_on_many_bytes_alone():
    assert await beside_loop(1000, threading.get_ident) == threading.get_ident()
    assert await beside_loop(10**6, threading.get_ident) != threading.get_ident()
    assert await write_json(1000, threading.get_ident) == b"%d" % threading.get_ident()
    assert await write_json(json_size([NUMBERS]), threading.get_ident) != b"%d" % threading.get_ident()


REQUESTS = {
    "rows": ("/v1/models/m:predict", {"instances": NUMBERS.tolist()}, "predictions"),
    "columns": ("/v1/models/m:predict", {"inputs": NUMBERS.tolist()}, "outputs"),
    "tensors": (
        "/v2/models/m/infer",
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [COUNT, 2], "data": NUMBERS.ravel().tolist()}]},
        "outputs",
    ),
    "keys": ("/v2/models/m/generate", {"x": NUMBERS.tolist()}, "y"),
}


@pytest.mark.real
@pytest.mark.parametrize("kind", REQUESTS)
async def test_large_requests_are_read_and_answered_on_threads(kind, monkeypatch):
    path, body, key = REQUESTS[kind]
    threads = []

    def noted(real):
        def convert(*args, **kwargs):
            threads.append(threading.get_ident())
            return real(*args, **kwargs)

        return convert

    monkeypatch.setattr("json.JSONDecoder.decode", noted(json.JSONDecoder.decode))
    monkeypatch.setattr("json.JSONEncoder.encode", noted(json.JSONEncoder.encode))
    monkeypatch.setattr("aioflow.serving.tensorflow_values.as_array", noted(as_array))
    text = json.dumps(body).encode()
    threads.clear()
    with af.Graph().as_default():
        x, y = (af.placeholder(af.float32, [None, 2], name=name) for name in "xy")
    model = Version("m", 1, {SERVING_DEFAULT: (Signature({"x": x}, {"y": y}), lambda x: {"y": 2 * x})})
    status, _, found = await answer(Service(Models(model)), "POST", path, text)
    assert status == 200
    assert len(threads) > 3
    assert threading.get_ident() not in threads
    outputs = json.loads(found)[key]
    data = outputs[0]["data"] if kind == "tensors" else outputs
    np.testing.assert_array_equal(np.reshape(data, NUMBERS.shape), 2 * NUMBERS)
