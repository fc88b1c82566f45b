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
