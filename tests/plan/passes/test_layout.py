"""Networks with channels first are computed with channels last, and their results stay as the graph has them."""

import numpy as np
import pytest

import aioflow as af
from aioflow.plan.passes.flow import verify
from aioflow.plan.passes.layout import TO_FIRST, TO_LAST, channels_last
from aioflow.plan.passes.optimise import optimise
from aioflow.plan.passes.prune import prune

DRAW = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def numbers(*shape):
    return DRAW.standard_normal(shape).astype(np.float32)


def images(channels=4, batch=None):
    return af.placeholder(np.float32, [batch, channels, 12, 12])


def convolved(x, outputs, size=3):
    w = af.Variable(numbers(size, size, x.shape[1], outputs))
    return af.nn.conv2d(x, w, 1, "SAME", data_format="NCHW")


def laid(*fetches):
    """The flow with channels last, without the nodes that nothing needs."""
    return verify(channels_last(prune((), fetches, ())))


def transposes(flow):
    return [tuple(node.attrs["perm"]) for node in flow.nodes if node.definition.name == "transpose"]


async def agree(fetches, x):
    """Optimised and not, the values agree; return the optimised ones."""
    fed, found = numbers(*[size or 2 for size in x.shape.as_list()]), []
    for optimize in (True, False):
        async with af.Session(config=af.Config(optimize=optimize)) as session:
            await session.run(af.global_variables_initializer())
            found.append(await session.run(fetches, {x: fed}))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    return found[0]


def network(x):
    """All kinds of nodes that images pass with their twins."""
    vector = af.Variable(numbers(6) + 3)
    a = af.nn.bias_add(convolved(x, 6), vector, "NCHW")
    b = af.nn.relu(af.nn.fused_batch_norm(a, vector, vector, vector, vector, 1e-3, "NCHW", is_training=False)[0])
    c = b * af.reshape(vector, [6, 1, 1]) + 1.0
    parts = af.split(af.concat([c, b], 1), 2, 1)
    d = af.nn.max_pool(parts[0] - parts[1], 2, [1, 1, 2, 2], "VALID", data_format="NCHW")
    e = af.nn.avg_pool(d, 2, [1, 1, 1, 1], [(0, 0), (0, 0), (1, 0), (0, 1)], data_format="NCHW")
    return e, af.reduce_mean(e, [-1, 2]), af.reduce_max(e, [2, 3], keepdims=True)


async def test_only_the_first_and_the_last_transpose_are_left():
    x = images()
    e, mean, highest = network(x)
    assert transposes(laid(mean)) == [TO_LAST, (1, 2, 0)]
    flow = laid(e, mean, highest)
    assert transposes(flow) == [TO_LAST, (1, 2, 0), TO_FIRST, TO_FIRST]
    assert {node.attrs.get("data_format", "NHWC") for node in flow.nodes} == {"NHWC"}
    assert [value.spec.shape for value in flow.fetches] == [e.shape, mean.shape, highest.shape]
    values = await agree([e, mean, highest], x)
    assert [value.shape for value in values] == [(2, 6, 6, 6), (2, 6), (2, 6, 1, 1)]


async def test_a_shuffle_of_channels_keeps_them_last():
    x = images(batch=2)
    y = convolved(x, 6)
    seen = af.transpose(af.reshape(y, [2, 3, 2, 12, 12]), [0, 2, 1, 3, 4])
    z = convolved(af.reshape(seen, [2, 6, 12, 12]), 4)
    other = convolved(af.reshape(seen, [2, 6, 9, 16]), 4)
    mixed = af.transpose(af.reshape(y, [1, 4, 3, 12, 12]), [0, 2, 1, 3, 4])
    across = convolved(af.reshape(mixed, [2, 6, 12, 12]), 4)
    assert transposes(laid(z)) == [TO_LAST, TO_FIRST]
    assert [node.attrs["groups"] for node in laid(z).nodes if node.definition.name == "channel_shuffle"] == [3]
    for not_shuffled in (other, across):
        assert (0, 2, 1, 3, 4) in transposes(laid(not_shuffled))
    await agree([z, other, across], x)


async def test_other_results_of_what_is_combined_with_images_keep_their_layout():
    x = images(batch=2)
    plane = af.Variable(numbers(6, 12, 12)).value()
    turned = af.transpose(af.complex(x, x), [0, 3, 1, 2], conjugate=True)
    values = await agree([convolved(x, 6) + plane, af.reduce_mean(plane, [-2, -1]), turned + turned], x)
    assert [value.shape for value in values] == [(2, 6, 12, 12), (6,), (2, 12, 4, 12)]


def test_what_mixes_the_axes_gets_channels_first():
    y = convolved(images(), 6)
    for z in (af.reshape(y, [-1, 864]), af.reduce_sum(y, [1, 2]), y + af.constant(numbers(12, 12))):
        flow = laid(z)
        assert transposes(flow) == [TO_LAST, TO_FIRST], z.name
        assert flow.fetches[0].node.inputs[0].spec.shape == y.shape


async def test_gradients_too():
    x = images(batch=2)
    y = af.nn.max_pool(af.nn.relu(convolved(x, 6)), 2, 2, "SAME", data_format="NCHW")
    y = af.nn.avg_pool(convolved(y, 4), 2, 2, "SAME", data_format="NCHW")
    slopes = af.gradients(
        af.reduce_sum(af.square(y)), [x, *[variable.value() for variable in af.trainable_variables()]]
    )
    fetches = [slope for slope in slopes if slope is not None]
    flow = verify(optimise(prune((), fetches, ())))
    assert {node.attrs.get("data_format", "NHWC") for node in flow.nodes} == {"NHWC"}
    await agree(fetches, x)


async def test_in_branches_and_loops_too():
    x = images(batch=2)
    weights = af.Variable(numbers(3, 3, 4, 4))
    step = lambda y: af.nn.relu(af.nn.conv2d(y, weights, 1, "SAME", data_format="NCHW"))  # noqa: E731
    y = af.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, step(y)), (0, x))[1]
    nodes = [inner for node in laid(y).nodes for inner in node.everything()]
    assert [node.attrs["data_format"] for node in nodes if node.definition.name == "conv2d"] == ["NHWC"]
    await agree([y], x)


async def test_only_images_of_four_axes_are_turned():
    x, bias = images(), af.constant(numbers(6))
    line, unknown = af.placeholder(np.float32, [2, 6, 5]), af.placeholder(np.float32, None)
    y = convolved(x, 6)
    sums = [af.nn.bias_add(z, bias, "NCHW") for z in (line, unknown)]
    flow = laid(y, *sums)
    assert transposes(flow) == [TO_LAST, TO_FIRST]
    async with af.Session() as session:
        found = await session.run(sums, {line: numbers(2, 6, 5), unknown: np.zeros((1, 6), np.float32)})
    np.testing.assert_array_equal(found[1], [bias.op.attrs["value"]])


def test_networks_with_channels_last_stay_as_they_are():
    x = af.placeholder(np.float32, [None, 12, 12, 4])
    flow = prune((), (af.nn.conv2d(x, af.Variable(numbers(3, 3, 4, 4)), 1, "SAME"),), ())
    assert channels_last(flow) is flow
