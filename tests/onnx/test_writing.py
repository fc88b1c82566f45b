"""Saved models as files: weights inside or in a second file, and nothing half done."""

import threading

import ml_dtypes
import numpy as np
import pytest

import aioflow as af
from aioflow.onnx import writing
from aioflow.onnx.tensors import data_length
from tests.onnx.models import arrays, node, onnx, value

LARGE = np.random.default_rng(0).normal(size=(50, 50)).astype(np.float32)
WEIGHTS = {
    "large": LARGE,
    "turned": LARGE[:, ::-1].T,
    "flags": LARGE.repeat(2)[:4999] > 0,
    "narrow": (LARGE.repeat(4) * 2).astype(ml_dtypes.int4)[:8193],
    "bfloat": LARGE.astype(ml_dtypes.bfloat16),
    "complex": LARGE * 1j,
    "small": LARGE[:1],
    "none": LARGE[:0],
    "text": np.full(2000, "text", object),
}


def content(external_data):
    """The content of a model that gives weights."""
    nodes = [node("Identity", [name], [f"{name} out"]) for name in WEIGHTS]
    outputs = [value(f"{name} out", array.shape, array.dtype) for name, array in WEIGHTS.items()]
    return writing.Content(nodes, [], outputs, WEIGHTS, 21, 10, external_data)


def written(path, external_data=False):
    """The names of the files beside a model that is written now."""
    writing.write(path, content(external_data), threading.Event())
    onnx.checker.check_model(str(path), full_check=True)
    for tensor in onnx.load(path).graph.initializer:
        np.testing.assert_array_equal(arrays.to_array(tensor), WEIGHTS[tensor.name].astype(object), err_msg=tensor.name)
    return sorted(each.name for each in path.parent.iterdir())


def test_weights_go_in_a_second_file_where_a_file_would_be_too_large_or_on_request(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    assert written(path) == ["model.onnx"]
    alone = path.stat().st_size
    assert written(path, external_data=True) == ["model.onnx", "model.onnx_data"]
    path.with_name("model.onnx_data").unlink()
    monkeypatch.setattr(writing, "_LARGEST", alone + 1000)
    assert written(path) == ["model.onnx"]
    monkeypatch.setattr(writing, "_LARGEST", alone // 2)
    assert written(path) == ["model.onnx", "model.onnx_data"]
    stored = onnx.load(path, load_external_data=False).graph.initializer
    places = [{each.key: each.value for each in tensor.external_data} for tensor in stored]
    assert [each.name for each in stored if each.external_data] == [
        "large",
        "turned",
        "flags",
        "narrow",
        "bfloat",
        "complex",
    ]
    assert all(each["location"] == "model.onnx_data" and int(each["offset"]) % 4096 == 0 for each in places if each)


@pytest.mark.parametrize("external_data", [False, True])
def test_a_write_that_fails_or_is_given_up_leaves_the_former_files(tmp_path, monkeypatch, external_data):
    path, given_up = tmp_path / "model.onnx", threading.Event()
    names = written(path, external_data)
    before = [(tmp_path / name).read_bytes() for name in names]

    def length(array):
        given_up.set()
        return data_length(array)

    def fail(event):
        raise OSError(28, "disk full")

    monkeypatch.setattr(writing, "data_length", length)
    with pytest.raises(af.errors.CancelledError, match="given up"):
        writing.write(path, content(external_data), given_up)
    monkeypatch.setattr(writing, "_check_going", fail)
    with pytest.raises(af.errors.ResourceExhaustedError, match="disk full"):
        writing.write(path, content(external_data), threading.Event())
    assert sorted(each.name for each in tmp_path.iterdir()) == names
    assert [(tmp_path / name).read_bytes() for name in names] == before


def test_a_model_never_takes_the_place_of_a_folder(tmp_path):
    with pytest.raises(af.errors.FailedPreconditionError, match="is a folder"):
        writing.write(tmp_path, content(False), threading.Event())


async def test_another_runtime_reads_a_saved_model_with_its_weights_in_a_second_file(tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    with af.Graph().as_default() as graph:
        x, w = af.placeholder(af.float32, [None, 50], name="x"), af.Variable(LARGE)
        y = af.matmul(x, w)
    async with af.Session(graph=graph) as session:
        await session.run(w.initializer)
        await af.onnx.save(tmp_path / "model.onnx", {"x": x}, {"y": y}, session, external_data=True)
    assert (tmp_path / "model.onnx_data").stat().st_size == 3 * 4096
    (found,) = runtime.InferenceSession(tmp_path / "model.onnx").run(None, {"x": LARGE[:2]})
    np.testing.assert_allclose(found, LARGE[:2] @ LARGE, rtol=1e-4, atol=1e-5)
