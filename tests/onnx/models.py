"""Small models, made by hand, and what a session computes of them."""

import numpy as np
import pytest

import aioflow as af

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
helper, arrays = onnx.helper, onnx.numpy_helper


def value(name, shape=None, dtype=np.float32):
    """The declaration of an input or output; a size that is text is open."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def initial(**values):
    """Initial values, by name."""
    return [arrays.from_array(np.asarray(array), name) for name, array in values.items()]


def sparse(name, values, indices, sizes):
    """A sparse tensor message."""
    parts = [arrays.from_array(np.asarray(part), name) for part in (values, indices)]
    return helper.make_sparse_tensor(*parts, sizes)


def with_sparse(data, *tensors):
    """The bytes of a model with more initial values, which are sparse."""
    message = onnx.ModelProto.FromString(data)
    message.graph.sparse_initializer.extend(tensors)
    return message.SerializeToString()


def graph(nodes, inputs, outputs, **initials):
    """A graph message."""
    return helper.make_graph(nodes, "graph", inputs, outputs, initial(**initials))


def model(nodes, inputs, outputs, opset=21, functions=(), domains=(), **initials):
    """The bytes of a model."""
    opsets = [helper.make_opsetid("", opset), *[helper.make_opsetid(domain, 1) for domain in domains]]
    made = helper.make_model(
        graph(nodes, inputs, outputs, **initials), opset_imports=opsets, functions=functions, ir_version=10
    )
    return made.SerializeToString()


node = helper.make_node


async def run(data, *feeds, fetches=None):
    """The outputs of a model for these inputs, in their order."""
    imported = af.onnx.load(data, af.Graph())
    async with af.Session(graph=imported.graph) as session:
        await session.run(imported.initializer)
        feed = dict(zip(imported.inputs.values(), feeds, strict=True))
        return list((await session.run(imported.outputs, feed)).values())


async def assert_loads_alike(saved):
    """A loaded model computes what the graph computed that it was saved from."""
    path, batch, expected = saved
    onnx.checker.check_model(str(path), full_check=True)
    imported = af.onnx.load(path, af.Graph())
    async with af.Session(graph=imported.graph) as session:
        await session.run(imported.initializer)
        results = await session.run(imported.outputs, {imported.inputs["batch"]: batch})
    assert results.keys() == expected.keys()
    for name, wanted in expected.items():
        _assert_close(results[name], wanted, 1e-5, 1e-6, name)


def assert_runs_alike(saved):
    """ONNX Runtime computes the same."""
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    path, batch, expected = saved
    results = runtime.InferenceSession(path).run([*expected], {"batch": batch})
    for result, (name, wanted) in zip(results, expected.items(), strict=True):
        _assert_close(result, wanted, 1e-4, 1e-5, name)


def _assert_close(found, wanted, rtol, atol, name):
    wanted = np.asarray(wanted)
    assert np.shape(found) == wanted.shape
    if wanted.dtype == object:
        assert [str(each) if isinstance(each, str) else each.decode() for each in np.ravel(found)] == [
            each.decode() for each in np.ravel(wanted)
        ]
    else:
        np.testing.assert_allclose(found, wanted, rtol, atol, err_msg=name)
