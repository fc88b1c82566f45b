"""A chain of nodes on images gives the bits of its nodes one by one."""

import numpy as np
import pytest

import aioflow as af
from aioflow.devices import onednn
from aioflow.devices.onednn_primitive import Builder
from aioflow.devices.onednn_routines import ROUTINES
from aioflow.kernels.context import Context, Stop
from aioflow.kernels.nn import onednn_image_chain
from aioflow.kernels.nn.channel_shuffle import channel_shuffle
from aioflow.program import image_chains
from aioflow.resources.containers import Resources
from aioflow.testing import faulty_kernel

pytestmark = pytest.mark.skipif(not onednn.available(), reason="oneDNN is not installed, or is switched off")


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def runs(monkeypatch):
    """For each call of a chain, the names of its ops, and whether they were computed one by one."""
    found = []

    class Watched(image_chains.ImageFunction):
        def __call__(self, ctx, *arrays):
            found.append(([node.definition.name for node in self._nodes.values()], False))
            return super().__call__(ctx, *arrays)

        def _one_by_one(self, stop, arrays):
            found[-1] = (found[-1][0], True)
            return super()._one_by_one(stop, arrays)

    monkeypatch.setattr(image_chains, "ImageFunction", Watched)
    return found


def kept(*shape):
    values = np.random.default_rng(len(shape)).uniform(-0.3, 0.5, shape)
    return af.Variable(values.astype(np.float32))


def convolved(x, channels, size=3, stride=1, relu=True):
    own = x.shape.as_list()[-1]
    y = af.nn.bias_add(af.nn.conv2d(x, kept(size, size, own, channels), stride, "SAME"), kept(channels))
    return af.nn.relu(y) if relu else y


def normalised(x):
    scale = af.constant(np.full(x.shape.as_list()[-1], 0.5, np.float32))
    return af.nn.relu(af.nn.fused_batch_norm(x, scale, scale, scale, scale, 1e-3, is_training=False)[0])


def squeezed(x):
    y = convolved(x, 16, 1)
    return af.concat([convolved(y, 32, 1), convolved(y, 32)], -1)


def dense(x):
    for _ in range(3):
        x = af.concat([x, convolved(normalised(x), 16)], -1)
    return x


def all_kinds(x):
    """A stem, a block of concatenations, one of pools, one that grows, a sum with earlier images, depthwise, a mean."""
    x = af.nn.max_pool(squeezed(convolved(x, 32, stride=2)), 3, 2, "SAME")
    pools = af.nn.max_pool(x, 3, 1, "SAME"), af.nn.avg_pool(x, 3, 1, "SAME")
    x = dense(af.concat([*pools, convolved(x, 16)], -1))
    y = af.nn.depthwise_conv2d_native(convolved(x, 32), kept(3, 3, 32, 1), [1] * 4, "SAME")
    return af.nn.relu(convolved(y, 32, relu=False) + convolved(x, 32, relu=False))


def in_groups(x, outputs, groups):
    pieces = zip(
        af.split(x, groups, 3), af.split(kept(outputs, x.shape.as_list()[-1] // groups, 1, 1), groups, 0), strict=True
    )
    return af.concat([af.nn.conv2d(piece, af.transpose(w, [2, 3, 1, 0]), 1, "SAME") for piece, w in pieces], 3)


def by_channel(x, stride):
    return af.nn.depthwise_conv2d_native(x, kept(3, 3, x.shape.as_list()[-1], 1), [1, stride, stride, 1], "SAME")


def no_whole_blocks(x):
    """A stem, and blocks of convolutions in groups with a shuffle: one beside a pool, one beside its input."""
    x = af.nn.max_pool(convolved(x, 24, stride=2), 3, 2, "SAME")
    y = in_groups(by_channel(channel_shuffle(af.nn.relu(in_groups(x, 36, 2)), 2), 2), 16, 2)
    x = af.nn.relu(af.concat([af.nn.avg_pool(x, 3, 2, "SAME"), y], -1))
    y = in_groups(by_channel(channel_shuffle(af.nn.relu(in_groups(x, 36, 2)), 2), 1), 40, 2)
    return af.nn.avg_pool(af.nn.relu(y + x), 24, 1, "VALID")


async def both(fetches, x, array, **config):
    """The values by chains, and those of the nodes one by one."""
    async with (
        af.Session(graph=x.graph, config=af.Config(**config)) as chains,
        af.Session(graph=x.graph, config=af.Config(executor="tokens", **config)) as alone,
    ):
        for session in (chains, alone):
            await session.run(af.global_variables_initializer())
        return [await session.run(fetches, {x: array}) for session in (chains, alone)]


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("batch", [1, 3, 4])
async def test_a_network_is_one_chain_with_the_bits_of_its_nodes(runs, batch, first):
    x = af.placeholder(np.float32, [None, 3, 80, 80] if first else [None, 80, 80, 3])
    y = all_kinds(af.transpose(x, [0, 2, 3, 1]) if first else x)
    array = np.random.default_rng(0).standard_normal([batch, *x.shape.as_list()[1:]]).astype(np.float32)
    (ours, alone), (plain, _) = await both(y, x, array), await both(y, x, array, optimize=False)
    np.testing.assert_array_equal(ours, alone)
    np.testing.assert_allclose(ours, plain, rtol=1e-3, atol=1e-3)
    (names, one_by_one), *others = runs
    assert not others
    assert not one_by_one
    assert {"fused_conv2d", "max_pool", "avg_pool", "concat", "channel_steps"} == set(names)


@pytest.mark.parametrize("batch", [1, 3])
async def test_a_network_without_whole_blocks_is_one_chain_with_the_bits_of_its_nodes(runs, batch):
    x = af.placeholder(np.float32, [None, 192, 192, 3])
    y = no_whole_blocks(x)
    array = np.random.default_rng(0).standard_normal([batch, 192, 192, 3]).astype(np.float32)
    (ours, alone), (plain, _) = await both(y, x, array), await both(y, x, array, optimize=False)
    np.testing.assert_array_equal(ours, alone)
    np.testing.assert_allclose(ours, plain, rtol=1e-3, atol=1e-3)
    ((names, one_by_one),) = runs
    assert not one_by_one
    assert {"fused_conv2d", "max_pool", "avg_pool", "concat", "relu", "channel_shuffle"} == set(names)


async def test_a_chain_without_whole_blocks_leaves_out_small_convolutions_and_large_batches(monkeypatch, runs):
    monkeypatch.setattr(onednn_image_chain, "_LARGEST", 3 * 4 * 32 * 32 * 24)
    x = af.placeholder(np.float32, [None, 32, 32, 3])
    y = convolved(af.nn.max_pool(convolved(x, 24), 2, 2, "SAME"), 8, 1, stride=16)
    array = np.random.default_rng(0).standard_normal([4, 32, 32, 3]).astype(np.float32)
    for batch in (3, 4):
        np.testing.assert_array_equal(*await both(y, x, array[:batch]))
    assert runs == [(["fused_conv2d", "max_pool"], False), (["fused_conv2d", "max_pool"], True)]


@pytest.mark.parametrize("batch", [2, 5, 8])
async def test_images_computed_together_have_the_bits_of_each_alone(runs, batch):
    x = af.placeholder(np.float32, [None, 28, 28, 256])
    first = convolved(convolved(x, 64, 1), 64)
    y = convolved(af.nn.relu(convolved(first, 256, 1, relu=False) + x), 512, 1, stride=2)
    array = np.random.default_rng(0).standard_normal([batch, 28, 28, 256]).astype(np.float32)
    ours, alone = await both(y, x, array)
    np.testing.assert_array_equal(ours, alone)
    assert [one_by_one for _, one_by_one in runs] == [False]


@pytest.mark.parametrize(("network", "size"), [(all_kinds, 80), (no_whole_blocks, 192)])
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 3e38])
async def test_what_is_not_finite_has_the_values_of_the_nodes_one_by_one(runs, odd, network, size):
    x = af.placeholder(np.float32, [None, size, size, 3])
    array = np.ones([2, size, size, 3], np.float32)
    array[1, size // 2, size // 2] = odd
    ours, alone = await both(network(x), x, array)
    np.testing.assert_array_equal(ours, alone)
    assert [one_by_one for _, one_by_one in runs] == [True]


async def test_values_between_are_results_where_others_read_them(runs):
    x = af.placeholder(np.float32, [None, 32, 32, 3])
    first = convolved(x, 16)
    second = convolved(first, 16)
    fetches = [af.concat([first, second], -1), af.concat([second, first], -1), first, af.tanh(second)]
    array = np.random.default_rng(0).standard_normal([2, 32, 32, 3]).astype(np.float32)
    ours, alone = await both(fetches, x, array)
    for a, b in zip(ours, alone, strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(runs) == 1


async def test_a_concatenation_of_results_copies_nothing(monkeypatch, runs):
    ROUTINES.clear()
    copies = []
    reorder = Builder.reorder
    monkeypatch.setattr(Builder, "reorder", lambda self, *args: copies.append(args) or reorder(self, *args))
    x = af.placeholder(np.float32, [1, 32, 32, 32])
    y = dense(squeezed(x))
    async with af.Session(graph=x.graph) as session:
        await session.run(af.global_variables_initializer())
        await session.run(y, {x: np.ones([1, 32, 32, 32])})
    filters = len([name for name in runs[0][0] if name == "fused_conv2d"])
    assert len(copies) == filters + len(["the images", "the result", "the means"])


async def test_new_weights_and_other_batches_are_used_in_the_next_run(runs):
    x = af.placeholder(np.float32, [None, 32, 32, 3])
    weights = kept(3, 3, 16, 16)
    y = af.nn.conv2d(convolved(x, 16), weights, 1, "SAME")
    array = np.random.default_rng(0).standard_normal([3, 32, 32, 3]).astype(np.float32)
    async with af.Session(graph=x.graph) as session:
        await session.run(af.global_variables_initializer())
        before = await session.run(y, {x: array})
        np.testing.assert_array_equal(await session.run(y, {x: array[1:]}), before[1:])
        assert (await session.run(y, {x: array[:0]})).shape == (0, 32, 32, 16)
        await session.run(weights.assign_add(weights))
        np.testing.assert_array_equal(await session.run(y, {x: array}), 2 * before)


async def test_an_error_names_the_node_that_raised_it():
    x = af.placeholder(np.float32, [None, 32, 32, 3])
    y = af.nn.max_pool(convolved(x, 16), 2, 2, "SAME", name="pooled")
    array = np.full([1, 32, 32, 3], np.nan, np.float32)
    with faulty_kernel("max_pool", error=af.errors.DataLossError("no")):
        async with af.Session(graph=x.graph) as session:
            await session.run(af.global_variables_initializer())
            with pytest.raises(af.errors.DataLossError, match=r"pooled[\s\S]*\[1, 32, 32, 16\]"):
                await session.run(y, {x: array})


async def test_a_stop_ends_a_chain_between_two_primitives(monkeypatch):
    called = []

    def stopped(self, ctx, *arrays):
        ctx = Context(np, Resources(), None)
        ctx.stop = Stop()
        ctx.stop.asked = True
        called.append(self)
        return original(self, ctx, *arrays)

    original = image_chains.ImageFunction.__call__
    monkeypatch.setattr(image_chains.ImageFunction, "__call__", stopped)
    x = af.placeholder(np.float32, [None, 32, 32, 3])
    y = convolved(convolved(x, 16), 16)
    async with af.Session(graph=x.graph) as session:
        await session.run(af.global_variables_initializer())
        with pytest.raises(af.errors.CancelledError):
            await session.run(y, {x: np.ones([1, 32, 32, 3])})
    assert called
