"""Convolutions of the pieces of a split become one in groups, where nothing else reads them."""

import numpy as np
import pytest

import aioflow as af
from aioflow.devices import onednn
from aioflow.plan.passes.flow import verify
from aioflow.plan.passes.optimise import optimise
from aioflow.plan.passes.prune import prune

pytestmark = pytest.mark.skipif(not onednn.available(), reason="oneDNN is not installed, or is switched off")


def grouped(x, weights, groups, order=1):
    """The convolution in groups, as a model of ONNX is built, and its parts."""
    pieces = zip(af.split(x, groups, 3)[::order], af.split(weights, groups, 0), strict=True)
    parts = [af.nn.conv2d(piece, af.transpose(w, [2, 3, 1, 0]), 1, "SAME") for piece, w in pieces]
    return af.concat(parts, 3), parts


async def test_a_split_convolutions_and_their_concatenation_become_one_node():
    draw = np.random.default_rng(0)
    with af.Graph().as_default():
        x = af.placeholder(af.float32, [2, 16, 16, 8])
        weights = af.Variable(draw.standard_normal((16, 4, 3, 3)).astype(np.float32))
        y, parts = grouped(x, weights, 2)
        z = af.nn.relu(af.nn.bias_add(y, af.Variable(np.ones(16, np.float32))))
        init = af.global_variables_initializer()
        other = grouped(x, weights, 2, order=-1)[0]
    flow = verify(optimise(prune((), (z,), ())))
    (node,) = [node for node in flow.nodes if "conv" in node.definition.name]
    assert (node.definition.name, node.attrs["groups"], node.attrs["steps"]) == ("fused_conv2d", 2, ("add", "relu"))
    for fetches in ((y, parts[0]), (other,)):  # others read a part; the pieces are in another order
        nodes = verify(optimise(prune((), fetches, ()))).nodes
        assert [node.attrs["groups"] for node in nodes if node.definition.name == "fused_conv2d"] == [1, 1]
    fed, values = draw.standard_normal((2, 16, 16, 8)), []
    for optimize in (True, False):
        async with af.Session(graph=x.graph, config=af.Config(optimize=optimize)) as session:
            await session.run(init)
            values.append(await session.run(z, {x: fed}))
    np.testing.assert_allclose(*values, rtol=1e-4, atol=1e-4)


async def test_fed_weights_that_change_in_place_are_read_anew():
    draw = np.random.default_rng(0)
    with af.Graph().as_default():
        x, weights = af.placeholder(af.float32, [2, 16, 16, 32]), af.placeholder(af.float32, [32, 16, 3, 3])
        y, _ = grouped(x, weights, 2)
    images, filters = draw.standard_normal((2, 16, 16, 32)), draw.standard_normal((32, 16, 3, 3)).astype(np.float32)
    async with af.Session(graph=x.graph) as session:
        before = await session.run(y, {x: images, weights: filters})
        filters *= 2
        after = await session.run(y, {x: images, weights: filters})
    np.testing.assert_allclose(after, 2 * before, rtol=1e-4, atol=1e-4)
