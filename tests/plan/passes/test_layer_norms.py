"""A layer normalisation of one row by its formula becomes one node, and no other formula does."""

import numpy as np
import pytest

import aioflow as af
from aioflow.plan.passes.flow import verify
from aioflow.plan.passes.optimise import optimise
from aioflow.plan.passes.prune import prune
from aioflow.tensors.dtypes import float32, float64

EPSILON = 1e-5


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def vectors(*sizes, dtype=float32):
    return [af.placeholder(dtype, sizes) for _ in range(2)]


def by_moments(x, gain, shift, axes=(-1,)):
    mean, variance = af.nn.moments(x, axes, keepdims=True)
    return (x - mean) * af.rsqrt(variance + EPSILON) * gain + shift


def by_squares(x, gain, shift):
    centred = x - af.reduce_mean(x, -1, keepdims=True)
    return shift + gain * (af.rsqrt(EPSILON + af.reduce_mean(af.square(centred), -1, keepdims=True)) * centred)


def from_the_middle(x, gain, shift):
    mean, variance = af.nn.moments(x, [-1], keepdims=True)
    return af.rsqrt(variance + EPSILON) * gain * (x - mean) + shift


def of_another(x, gain, shift):
    mean, variance = af.nn.moments(x, [-1], keepdims=True)
    return (x * 2 - mean) * af.rsqrt(variance + EPSILON) * gain + shift


def of_another_variance(x, gain, shift):
    _, variance = af.nn.moments(x * 2, [-1], keepdims=True)
    return (x - af.reduce_mean(x, -1, keepdims=True)) * af.rsqrt(variance + EPSILON) * gain + shift


def merged(*fetches, targets=()):
    """The normalisations of the optimised flow, and the number of its other nodes that compute."""
    flow = verify(optimise(prune((), fetches, targets)))
    names = [node.definition.name for node in flow.nodes if node.definition.name not in ("placeholder", "constant")]
    return names.count("layer_norm"), len(names) - names.count("layer_norm")


@pytest.mark.parametrize("sizes", [(8,), (1, 8), (1, 1, 1, 8)])
@pytest.mark.parametrize("formula", [by_moments, by_squares, from_the_middle])
def test_the_formula_of_one_row_is_one_node(formula, sizes):
    assert merged(formula(af.placeholder(float32, sizes), *vectors(8))) == (1, 0)


def test_rows_of_several_axes_too():
    assert merged(by_moments(af.placeholder(float32, [1, 2, 4]), *vectors(2, 4), axes=[1, 2])) == (1, 0)


def test_in_the_body_of_a_loop_too():
    gain, shift = vectors(8)
    start = [0, af.placeholder(float32, [1, 8])]
    y = af.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, by_moments(x, gain, shift)), start, back_prop=False)[1]
    flow = verify(optimise(prune((), (y,), ())))
    (loop,) = [node for node in flow.nodes if node.definition.name == "while_loop"]
    names = [node.definition.name for node in loop.blocks[-1].flow.nodes]
    assert names.count("layer_norm") == 1
    assert "rsqrt" not in names


@pytest.mark.parametrize(
    ("sizes", "vector"), [((2, 8), (8,)), ((None, 8), (8,)), ((1, 8), (1, 8)), ((1, 8), (1,)), ((1, 5000), (5000,))]
)
def test_not_of_several_rows_of_open_sizes_of_other_vectors_or_of_long_rows(sizes, vector):
    assert merged(by_moments(af.placeholder(float32, sizes), *vectors(*vector)))[0] == 0


@pytest.mark.parametrize("formula", [of_another, of_another_variance])
def test_not_with_the_statistics_of_another_tensor(formula):
    assert merged(formula(af.placeholder(float32, [1, 8]), *vectors(8)))[0] == 0


def test_not_of_doubles_nor_along_the_first_axis():
    assert merged(by_moments(af.placeholder(float64, [1, 8]), *vectors(8, dtype=float64)))[0] == 0
    assert merged(by_moments(af.placeholder(float32, [8, 1]), *vectors(8, 1), axes=[0]))[0] == 0


def test_not_where_others_read_between_or_wait_or_lie_on_other_devices():
    x, (gain, shift) = af.placeholder(float32, [1, 8]), vectors(8)
    y = by_moments(x, gain, shift)
    product = y.op.inputs[0]
    centred = product.op.inputs[0].op.inputs[0]
    for between in (product, centred, centred.op.inputs[1]):
        assert merged(y, between)[0] == 0
    assert merged(y, targets=(centred.op,))[0] == 0
    assert merged(*af.gradients(y, [x]))[0] == 0
    with af.control_dependencies([product]):
        assert merged(y, af.identity(gain))[0] == 0
    with af.control_dependencies([af.Variable(0.0).initializer]):
        assert merged(product + shift)[0] == 0
    with af.device("/device:CPU:1"):
        assert merged(product + shift)[0] == 0


async def test_one_node_computes_what_the_formula_does():
    random = np.random.default_rng(2)
    x, (gain, shift) = af.placeholder(float32, [1, 100]), vectors(100)
    y = by_moments(x, gain, shift)
    between = y.op.inputs[0]
    feeds = {tensor: random.standard_normal(tensor.shape.sizes).astype(np.float32) for tensor in (gain, shift)}
    async with af.Session() as session:
        for mean in (0, 1, 1000):
            feeds[x] = (random.standard_normal((1, 100)) + mean).astype(np.float32)
            exact = feeds[x].astype(np.float64)
            exact = (exact - exact.mean()) / np.sqrt(exact.var() + EPSILON) * feeds[gain] + feeds[shift]
            one, (nodes, _) = await session.run(y, feeds), await session.run([y, between], feeds)
            np.testing.assert_allclose(one, exact, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(nodes, exact, rtol=1e-3, atol=1e-3)
