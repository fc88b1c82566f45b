"""Convolution and bias become one node where there is a kernel for both, and nowhere else."""

import numpy as np
import pytest

import aioflow as af
from aioflow.devices import onednn
from aioflow.plan.passes.flow import verify
from aioflow.plan.passes.optimise import optimise
from aioflow.plan.passes.prune import prune

pytestmark = pytest.mark.skipif(not onednn.available(), reason="oneDNN is not installed, or is switched off")


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def types(*fetches, dtype=np.float32):
    """The ops of the optimised flow that have to do with convolution."""
    flow = verify(optimise(prune((), fetches, ())))
    return [
        node.definition.name
        for node in flow.nodes
        if node.definition.name in ("conv2d", "bias_add", "add", "conv2d_with_bias")
    ]


def layer(add=af.nn.bias_add, dtype=np.float32, **attrs):
    x = af.placeholder(dtype, [None, 8, 8, 3])
    w, b = (af.placeholder(dtype, shape) for shape in ([3, 3, 3, 3], [3]))
    y = af.nn.conv2d(x, w, 1, "SAME", **attrs)
    return y, add(y, b)


@pytest.mark.parametrize("add", [af.nn.bias_add, af.add])
def test_convolution_and_bias_become_one_node(add):
    assert types(layer(add)[1]) == ["conv2d_with_bias"]


def test_in_a_training_step_too():
    y = layer()[1]
    assert types(*af.gradients(af.nn.relu(y), list(y.op.inputs[0].op.inputs))).count("conv2d_with_bias") == 1


def test_not_where_others_read_what_is_between():
    y, z = layer()
    assert types(z, y) == ["conv2d", "bias_add"]
    assert types(z, af.nn.relu(y)) == ["conv2d", "bias_add"]


def test_not_where_nodes_must_wait_or_lie_on_other_devices():
    y, _ = layer()
    b = af.placeholder(np.float32, [3])
    with af.control_dependencies([af.Variable(0.0).initializer]):
        z = af.nn.bias_add(y, b)
    assert types(z) == ["conv2d", "bias_add"]
    with af.device("/device:CPU:1"):
        z = af.nn.bias_add(y, b)
    assert types(z) == ["conv2d", "bias_add"]


def test_not_for_other_dtypes_and_other_sums():
    assert types(layer(dtype=np.float64)[1]) == ["conv2d", "bias_add"]
    assert types(layer(lambda y, b: af.add(y, af.reshape(b, [1, 3])))[1]) == ["conv2d", "add"]


def test_not_without_the_library(monkeypatch):
    monkeypatch.setenv(onednn.SWITCH, "off")
    onednn.library.cache_clear()
    try:
        assert types(layer()[1]) == ["conv2d", "bias_add"]
    finally:
        onednn.library.cache_clear()


async def test_values_are_the_same():
    y, z = layer()
    x, w = y.op.inputs
    random = np.random.default_rng(0)
    feeds = {
        tensor: random.standard_normal([size or 2 for size in tensor.shape.as_list()])
        for tensor in (x, w, z.op.inputs[1])
    }
    values = []
    for optimize in (True, False):
        async with af.Session(graph=z.graph, config=af.Config(optimize=optimize)) as session:
            values.append(await session.run(z, feeds))
    np.testing.assert_allclose(*values, rtol=1e-4, atol=1e-5)
