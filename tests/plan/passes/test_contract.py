"""Neighbours on images become one node where there is a kernel for them together, and nowhere else."""

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


# Weights that stay the same


def kept(*shape):
    return af.Variable(np.random.default_rng(len(shape)).uniform(0.5, 1.5, shape).astype(np.float32))


def normalised(x, scale):
    return af.nn.fused_batch_norm(x, scale, scale, scale, scale, 1e-3, is_training=False)[0]


def steps(*fetches):
    """The names of the merged nodes' ops, and their steps."""
    nodes = verify(optimise(prune((), fetches, ()))).nodes
    names = ("conv2d", "depthwise_conv2d_native", "fused_conv2d", "channel_steps", "fused_batch_norm", "relu")
    return [(node.definition.name, *node.attrs.get("steps", ())) for node in nodes if node.definition.name in names]


async def both_ways(fetches, x):
    """The values with and without optimisation agree, and do so after the variables have changed."""
    values = []
    fed = np.random.default_rng(0).standard_normal([size or 2 for size in x.shape.as_list()])
    change = af.group(*[variable.assign_add(variable) for variable in af.global_variables()])
    for optimize in (True, False):
        async with af.Session(graph=x.graph, config=af.Config(optimize=optimize)) as session:
            await session.run(af.global_variables_initializer())
            before = await session.run(fetches, {x: fed})
            await session.run(change)
            values.append([*before, *await session.run(fetches, {x: fed})])
    for ours, theirs in zip(*values, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)


async def test_the_steps_after_a_convolution_become_one_node_with_it():
    x, vector = af.placeholder(np.float32, [None, 16, 16, 8]), kept(8)
    y = af.nn.relu(normalised(af.nn.conv2d(x, kept(3, 3, 8, 8), 1, "SAME"), vector) * vector + vector)
    z = af.nn.relu(y + af.nn.bias_add(af.nn.depthwise_conv2d_native(y, kept(3, 3, 8, 1), [1] * 4, "SAME"), vector))
    first = ("fused_conv2d", "normalise", "multiply", "add", "relu")
    assert steps(z) == [first, ("fused_conv2d", "add", "sum", "relu")]
    await both_ways([y, z], x)


async def test_kept_weights_are_read_without_the_views_of_them():
    x, vector = af.placeholder(np.float32, [None, 16, 16, 8]), kept(8)
    planes = af.transpose(af.reshape(vector, [8, 1, 1]), [1, 2, 0])
    mixed = af.reshape(af.transpose(af.reshape(vector, [2, 4])), [8])
    filters = af.transpose(kept(8, 8, 3, 3), [2, 3, 1, 0])
    y = af.nn.relu(af.nn.conv2d(x, filters, 1, "SAME") * planes + mixed)
    (node,) = [node for node in optimise(prune((), [y], ())).nodes if node.definition.name == "fused_conv2d"]
    names = [value.node.definition.name for value in node.inputs]
    assert names == ["placeholder", "read_variable", "read_variable", "reshape"]
    assert node.attrs["filter_axes"] == (2, 3, 1, 0)
    await both_ways([y], x)


async def test_steps_without_a_convolution_become_one_node():
    x, vector = af.placeholder(np.float32, [None, 16, 16, 8]), kept(8)
    y = af.nn.relu(normalised(x, vector) * vector + vector)
    assert steps(y) == [("channel_steps", "normalise", "multiply", "add", "relu")]
    await both_ways([y], x)


def test_a_chain_ends_where_others_read_and_at_a_rectifier():
    x, vector = af.placeholder(np.float32, [None, 16, 16, 8]), kept(8)
    y = af.nn.conv2d(x, kept(3, 3, 8, 8), 1, "SAME")
    z = af.nn.relu(y + vector)
    assert steps(z, y) == [("fused_conv2d",), ("relu",)]
    assert steps(af.nn.relu(z + vector)) == [("fused_conv2d", "add", "relu"), ("relu",)]
    mean = af.nn.fused_batch_norm(y, *[vector] * 4, 1e-3, is_training=False)
    assert steps(mean[0], mean[1])[-1] == ("fused_batch_norm",)


def test_weights_that_the_step_changes_or_is_fed_are_not_kept():
    x, w = af.placeholder(np.float32, [None, 16, 16, 8]), kept(3, 3, 8, 8)
    y = af.nn.conv2d(x, w, 1, "SAME")
    assert steps(y) == [("fused_conv2d",)]
    assert steps(y, w.assign_add(w)) == [("conv2d",)]
    assert steps(y, *af.gradients(y, [w])) == [("conv2d",)]
    fed = af.placeholder(np.float32, [3, 3, 8, 8])
    assert steps(af.nn.relu(af.nn.conv2d(x, fed, 1, "SAME"))) == [("conv2d",), ("relu",)]


async def test_sessions_of_one_graph_keep_weights_of_their_own():
    x, w = af.placeholder(np.float32, [2, 24, 24, 8]), kept(3, 3, 8, 16)
    y, halve = af.nn.relu(af.nn.conv2d(x, w, 1, "SAME")), w.assign_sub(w * 0.5)
    fed = np.random.default_rng(0).standard_normal((2, 24, 24, 8))
    async with af.Session() as one, af.Session() as other:
        await one.run(w.initializer)
        await other.run(w.initializer)
        first = await one.run(y, {x: fed})
        for factor in (0.5, 0.25):
            await other.run(halve)
            np.testing.assert_allclose(await other.run(y, {x: fed}), first * factor, rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(await one.run(y, {x: fed}), first)


async def test_a_normalisation_whose_numbers_may_not_fit_the_channels_stays_alone():
    images = af.placeholder(np.float32, [None] * 4)
    numbers = af.Variable(np.ones(1, np.float32)).value()
    y = af.nn.fused_batch_norm(images, *[numbers] * 4, 1e-3, is_training=False)[0]
    async with af.Session() as session:
        await session.run(af.global_variables_initializer())
        assert (await session.run(y, {images: np.ones((1, 2, 2, 1))})).shape == (1, 2, 2, 1)
        with pytest.raises(af.errors.InvalidArgumentError, match="8 channels do not go with a vector of 1"):
            await session.run(y, {images: np.ones((1, 2, 2, 8))})
