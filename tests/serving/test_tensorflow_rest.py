"""TensorFlow Serving's REST: rows and columns, bytes in base 64, examples, status, metadata, labels, errors."""

import json

import numpy as np
import pytest

import aioflow as af
from aioflow.saved_model.signature import SERVING_DEFAULT, Signature
from aioflow.serving.service import Service
from tests.serving.doubles import Models, Version, affine, answer


def pair():
    """A model of two inputs and two outputs, beside signatures to classify and to regress and one of text."""
    with af.Graph().as_default():
        a = af.placeholder(af.float32, [None, 2], name="a")
        n = af.placeholder(af.int64, [None], name="n")
        classes = af.placeholder(af.string, [None, 2], name="classes")
        scores = af.placeholder(af.float32, [None, 2], name="scores")
        text = af.placeholder(af.string, [None], name="text")
        number = af.placeholder(af.float32, [], name="number")
    functions = {
        SERVING_DEFAULT: (
            Signature({"a": a, "n": n}, {"total": a, "twice": n}),
            lambda a, n: {"total": a.sum(1), "twice": 2 * n},
        ),
        "classify": (
            Signature({"a": a}, {"classes": classes, "scores": scores}, method="classify"),
            lambda a: {"classes": np.full(a.shape, b"even", object), "scores": a},
        ),
        "scores": (Signature({"a": a}, {"scores": scores}, method="classify"), lambda a: {"scores": a}),
        "one class a row": (
            Signature({"a": a}, {"classes": n, "scores": scores}, method="classify"),
            lambda a: {"classes": a.argmax(1), "scores": a},
        ),
        "regress": (
            Signature({"a": a, "n": n}, {"outputs": scores}, method="regress"),
            lambda a, n: {"outputs": (a.sum(1) + n)[:, np.newaxis].astype(np.float32)},
        ),
        "text": (
            Signature({"text": text}, {"text": text, "text_bytes": text}),
            lambda text: {"text": text, "text_bytes": text},
        ),
        "number": (Signature({"number": number}, {"number": number}), lambda number: {"number": number}),
    }
    return Version("pair", 2, functions)


@pytest.fixture(scope="module")
def service():
    return Service(Models(affine(1), affine(3), pair(), labels={("affine", "stable"): 1}))


async def ask(service, path, value=None, method="POST"):
    """The status and the JSON of an answer."""
    body = b"" if value is None else json.dumps(value).encode()
    status, headers, body = await answer(service, method, f"/v1/models/{path}", body)
    assert headers["content-type"] == "application/json"
    return status, json.loads(body)


ROWS = [{"a": [1, 2], "n": 3}, {"a": [4, 5], "n": 6}]
CASES = {
    "rows of one input": ("affine:predict", {"instances": [[1, 2], [3, 4]]}, {"predictions": [[3, 5], [7, 9]]}),
    "rows by name": ("affine:predict", {"instances": [{"x": [1, 2]}]}, {"predictions": [[3, 5]]}),
    "a column": ("affine:predict", {"inputs": [[1, 2]]}, {"outputs": [[3, 5]]}),
    "a column by name": ("affine:predict", {"inputs": {"x": [[1, 2]]}}, {"outputs": [[3, 5]]}),
    "a version": ("affine/versions/1:predict", {"inputs": [[1, 2]]}, {"outputs": [[3, 5]]}),
    "a label": ("affine/labels/stable:predict", {"inputs": [[1, 2]]}, {"outputs": [[3, 5]]}),
    "rows of two": (
        "pair:predict",
        {"instances": ROWS},
        {"predictions": [{"total": 3, "twice": 6}, {"total": 9, "twice": 12}]},
    ),
    "columns of two": (
        "pair:predict",
        {"signature_name": SERVING_DEFAULT, "inputs": {"a": [[1, 2]], "n": [3]}},
        {"outputs": {"total": [3], "twice": [6]}},
    ),
    "text, and bytes": (
        "pair:predict",
        {"signature_name": "text", "instances": ["ä", {"b64": "/w=="}]},
        {
            "predictions": [
                {"text": "ä", "text_bytes": {"b64": "w6Q="}},
                {"text": {"b64": "/w=="}, "text_bytes": {"b64": "/w=="}},
            ]
        },
    ),
    "no rows": ("pair:predict", {"signature_name": "number", "inputs": 1.5}, {"outputs": 1.5}),
    "classes": (
        "pair:classify",
        {"signature_name": "classify", "examples": [{"a": [0.25, 0.75]}]},
        {"result": [[["even", 0.25], ["even", 0.75]]]},
    ),
    "scores alone": (
        "pair:classify",
        {"signature_name": "scores", "context": {"a": [1, 0]}, "examples": [{}, {"a": [0, 1]}]},
        {"result": [[["", 1], ["", 0]], [["", 0], ["", 1]]]},
    ),
    "numbers": (
        "pair:regress",
        {"signature_name": "regress", "context": {"n": 10}, "examples": [{"a": [1, 2]}, {"a": [3, 4], "n": [20]}]},
        {"result": [13, 27]},
    ),
}


@pytest.mark.whole
@pytest.mark.parametrize("case", CASES)
async def test_a_request_is_answered_in_its_own_form(service, case):
    path, value, expected = CASES[case]
    assert await ask(service, path, value) == (200, expected)


async def test_status_metadata_and_labels_are_those_of_tensorflow_serving(service):
    good = {"state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    bad = {"version": "9", "state": "END", "status": {"error_code": "DATA_LOSS", "error_message": "half of it"}}
    every = [bad, {"version": "3", **good}, {"version": "1", **good}]
    assert await ask(service, "affine", method="GET") == (200, {"model_version_status": every})
    assert await ask(service, "affine/labels/stable", method="GET") == (200, {"model_version_status": every[2:]})
    status, found = await ask(service, "affine/versions/3/metadata", method="GET")
    assert status == 200
    assert found["model_spec"] == {"name": "affine", "signature_name": "", "version": "3"}
    signature = found["metadata"]["signature_def"]["signature_def"][SERVING_DEFAULT]
    assert signature["method_name"] == "tensorflow/serving/predict"
    shape = {"dim": [{"size": "-1", "name": ""}, {"size": "2", "name": ""}], "unknown_rank": False}
    assert signature["inputs"] == {"x": {"dtype": "DT_FLOAT", "tensor_shape": shape, "name": "x:0"}}


async def test_nan_and_infinity_are_numbers(service):
    _, found = await ask(service, "affine:predict", {"instances": [[float("nan"), float("-inf")]]})
    np.testing.assert_array_equal(found["predictions"], [[np.nan, -np.inf]])


WRONG = {
    "an unknown model": ("other:predict", {"inputs": []}, 404, "there is no model 'other'"),
    "an unknown version": ("affine/versions/2:predict", {"inputs": []}, 404, "has the versions [1, 3]"),
    "a version that is no number": ("affine/versions/x:predict", {"inputs": []}, 404, "a version is a number"),
    "an unknown label": ("affine/labels/x:predict", {"inputs": []}, 404, "not x"),
    "an unknown verb": ("affine:guess", {"inputs": []}, 405, "takes GET"),
    "an unknown signature": ("affine:predict", {"signature_name": "z", "inputs": []}, 400, "there is no signature 'z'"),
    "a signature that is no text": (
        "affine:predict",
        {"signature_name": [], "inputs": []},
        400,
        "there is no signature",
    ),
    "another method": ("affine:classify", {"examples": [{"x": 1}]}, 400, "is for :predict, not for :classify"),
    "neither rows nor columns": ("affine:predict", {}, 400, 'either "instances" or "inputs"'),
    "rows and columns": ("affine:predict", {"instances": [], "inputs": []}, 400, 'either "instances" or "inputs"'),
    "no rows": ("affine:predict", {"instances": []}, 400, "at least one"),
    "an unknown input": ("affine:predict", {"instances": [{"z": 1}]}, 400, "there is no input 'z'; there is x"),
    "an input that lacks": ("pair:predict", {"instances": [{"n": 1}]}, 400, "the inputs are ['a', 'n'], not ['n']"),
    "rows without names": ("pair:predict", {"instances": [1]}, 400, 'the inputs a, n: "instances" must name them'),
    "rows that differ": (
        "pair:predict",
        {"instances": [*ROWS, {"a": [1, 2]}]},
        400,
        "instance 2 has a, and the first has a, n",
    ),
    "rows with and without names": ("pair:predict", {"instances": [*ROWS, 1]}, 400, "must have values by name"),
    "ragged": ("affine:predict", {"instances": [[1, 2], [3]]}, 400, "input 'x': "),
    "a fraction": ("pair:predict", {"inputs": {"a": [[1, 2]], "n": [0.5]}}, 400, "input 'n': [0.5]"),
    "text": ("affine:predict", {"instances": [["a", "b"]]}, 400, "input 'x': "),
    "another shape": (
        "affine:predict",
        {"instances": [[1, 2, 3]]},
        400,
        "input 'x' is float32[?, 2], not float32[1, 3]",
    ),
    "bad base 64": ("pair:predict", {"signature_name": "text", "instances": [{"b64": "/"}]}, 400, "is not base 64"),
    "deep": (
        "pair:predict",
        {"signature_name": "text", "inputs": json.loads("[" * 500 + "]" * 500)},
        400,
        "input 'text': ",
    ),
    "outputs without rows": (
        "pair:predict",
        {"signature_name": "number", "instances": [{"number": 1}]},
        400,
        "input 'number'",
    ),
    "classes that are no lists": (
        "pair:classify",
        {"signature_name": "one class a row", "examples": [{"a": [1, 2]}]},
        400,
        "its outputs: classes [1], scores [1, 2]",
    ),
    "no examples": ("pair:regress", {"signature_name": "regress"}, 400, '"examples" must be a list'),
    "an example without names": ("pair:regress", {"signature_name": "regress", "examples": [1]}, 400, "values by name"),
    "a feature that lacks": (
        "pair:regress",
        {"signature_name": "regress", "examples": [{"n": 1}]},
        400,
        "example 0 and the context lack the feature 'a'",
    ),
    "an unknown feature": (
        "pair:regress",
        {"signature_name": "regress", "examples": [{"z": 1}]},
        400,
        "there is no feature z; there is a, n",
    ),
}


@pytest.mark.whole
@pytest.mark.parametrize("case", WRONG)
async def test_a_wrong_request_is_refused_by_a_text_that_says_what_was_expected(service, case):
    path, value, wanted, text = WRONG[case]
    status, found = await ask(service, path, value)
    assert (status, list(found)) == (wanted, ["error"])
    assert text in found["error"]
