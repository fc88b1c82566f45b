"""The functions of `af.nn` that compose ops."""

import ml_dtypes
import numpy as np
import pytest

import aioflow as af
from aioflow.autodiff.gradients import gradients
from aioflow.library import nn
from aioflow.testing import check_gradients
from tests.support.evaluate import evaluate

x = np.array([[1.5, -0.3, 0.8], [-2.1, 0.4, 1.1]])


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def run(fetches, feeds=None):
    async with af.Session(graph=af.get_default_graph()) as session:
        return await session.run(fetches, feeds)


# Dropout


async def test_dropout_drops_a_share_and_keeps_the_mean():
    ones = np.ones((200, 300), np.float32)
    for tensor in (
        nn.dropout(ones, rate=0.3, seed=1),
        nn.dropout(ones, 0.7, seed=1),
        nn.dropout(ones, rate=af.constant(0.3), seed=1),
    ):
        kept = await run(tensor)
        np.testing.assert_allclose(np.unique(kept), [0, 1 / 0.7], rtol=1e-6)
        assert abs((kept == 0).mean() - 0.3) < 0.01
        assert kept.dtype == np.float32


async def test_each_step_drops_others_and_the_gradient_drops_the_same():
    value = af.constant(np.ones(100, np.float32))
    y = nn.dropout(value, rate=0.5, seed=1, name="drop")
    assert y.op.name == "drop"
    (dx,) = gradients(y, value)
    async with af.Session(graph=af.get_default_graph()) as session:
        (first, slope), (second, _) = [await session.run([y, dx]) for _ in range(2)]
    np.testing.assert_array_equal(first, slope)
    assert first.tolist() != second.tolist()


async def test_a_noise_shape_drops_elements_together():
    image = af.placeholder("float32", [None, 4, 5, 3])
    ones = np.ones((40, 4, 5, 3), np.float32)
    kept = await run(nn.dropout(image, rate=0.5, noise_shape=[None, 1, 1, 3], seed=1), {image: ones})
    assert kept.shape == ones.shape
    np.testing.assert_array_equal(kept, np.broadcast_to(kept[:, :1, :1], ones.shape))
    assert 0 < (kept[:, 0, 0] == 0).mean() < 1
    with pytest.raises(ValueError, match=r"noise_shape \[1, 1\] does not fit x of shape \[\?, 4, 5, 3\]"):
        nn.dropout(image, rate=0.5, noise_shape=[1, 1])


async def test_narrow_floats_are_dropped_by_the_share_asked_for():
    kept = await run(nn.dropout(np.ones(100_000, ml_dtypes.bfloat16), rate=0.001, seed=1))
    assert kept.dtype == ml_dtypes.bfloat16
    assert 50 < (kept == 0).sum() < 150


def test_dropout_keeps_the_shape_and_nothing_is_built_for_nothing():
    value = af.placeholder("float32", [None, 3])
    y = nn.dropout(value, rate=0.5)
    assert y.shape is value.shape
    (dx,) = gradients(y, value)
    assert dx.op.type == "multiply"
    assert nn.dropout(value, rate=0) is nn.dropout(value, keep_prob=1.0) is value


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give either rate or keep_prob"),
        ({"rate": 0.5, "keep_prob": 0.5}, "give either rate or keep_prob"),
        ({"rate": 1}, "rate must be from 0 up to but not 1, not 1"),
        ({"keep_prob": 1.5}, "not -0.5"),
        ({"x": [1, 2], "rate": 0.5}, "x must be floating to be scaled, not int32"),
    ],
)
def test_what_cannot_be_dropped_is_refused(graph, given, message):
    with pytest.raises(ValueError, match=message):
        nn.dropout(**{"x": x, **given})
    assert graph.get_operations() == []


# Normalisation


@pytest.mark.parametrize("axes", [0, 1, -1, [0, 1], [1, 0]])
def test_moments_are_mean_and_variance(axes):
    mean, variance = nn.moments(x, axes)
    along = tuple(axes) if isinstance(axes, list) else axes
    np.testing.assert_allclose(evaluate(mean), x.mean(along))
    np.testing.assert_allclose(evaluate(variance), x.var(along))
    assert nn.moments(x, axes, keep_dims=True)[1].shape == x.var(along, keepdims=True).shape


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_moments_of_narrow_floats_are_computed_as_float32(dtype):
    ones = np.ones((4099, 1), dtype) * dtype(3)
    mean, variance = evaluate(list(nn.moments(ones, 0)))
    assert (mean.dtype, float(mean[0]), float(variance[0])) == (dtype, 3, 0)


def test_batch_normalization_is_its_formula():
    mean, variance, offset, scale = x.mean(0), x.var(0), np.array([0.1, 0.2, 0.3]), np.array([2.0, 1.0, 0.5])
    standard = (x - mean) / np.sqrt(variance + 1e-3)
    for o in (offset, None):
        for s in (scale, None):
            y = nn.batch_normalization(x, mean, variance, o, s, 1e-3, name="bn")
            expected = standard * (1 if s is None else s) + (0 if o is None else o)
            np.testing.assert_allclose(evaluate(y), expected)


def test_l2_normalize_divides_by_the_norm():
    np.testing.assert_allclose(evaluate(nn.l2_normalize(x, 1)), x / np.linalg.norm(x, axis=1, keepdims=True))
    np.testing.assert_allclose(evaluate(nn.l2_normalize(x, dim=[0, 1])), x / np.linalg.norm(x))
    np.testing.assert_array_equal(evaluate(nn.l2_normalize(np.zeros(3))), [0, 0, 0])
    np.testing.assert_allclose(evaluate(nn.l2_normalize(np.array([3j, 4]))), [0.6j, 0.8])


# Layers and losses


def test_layers():
    weights, bias = np.arange(6.0).reshape(3, 2) - 2, np.array([0.5, -0.5])
    np.testing.assert_allclose(evaluate(nn.xw_plus_b(x, weights, bias)), x @ weights + bias)
    np.testing.assert_allclose(evaluate(nn.relu_layer(x, weights, bias)), np.maximum(x @ weights + bias, 0))
    assert nn.xw_plus_b(x, weights, bias, name="layer").op.name == "layer"


def test_weights_of_positive_labels():
    z = np.array([[1.0, 0.0, 0.25], [0.0, 1.0, 0.5]])
    plain = evaluate(nn.sigmoid_cross_entropy_with_logits(labels=z, logits=x))
    np.testing.assert_allclose(evaluate(nn.weighted_cross_entropy_with_logits(z, x, 1.0)), plain)
    p = 1 / (1 + np.exp(-x))
    expected = -3 * z * np.log(p) - (1 - z) * np.log(1 - p)
    np.testing.assert_allclose(
        evaluate(nn.weighted_cross_entropy_with_logits(targets=z, logits=x, pos_weight=3)), expected
    )
    with pytest.raises(ValueError, match="needs labels, logits and pos_weight"):
        nn.weighted_cross_entropy_with_logits(z, x)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, ml_dtypes.bfloat16])
def test_the_share_of_zeros(dtype):
    share = evaluate(nn.zero_fraction(np.array([0, 1, 0, 1, 0], dtype)))
    assert share == np.float32(0.6)
    assert share.dtype == np.float32


@pytest.mark.parametrize(
    "build",
    [
        lambda x: nn.moments(x, 0),
        lambda x: nn.moments(x, [0, 1], keepdims=True),
        lambda x: nn.batch_normalization(x, *nn.moments(x, 0), None, None, 1e-3),
        lambda x: nn.l2_normalize(x, 1),
        lambda x: nn.weighted_cross_entropy_with_logits(af.sigmoid(x), x, 2.5),
    ],
)
async def test_gradients_are_right_to_second_order(build):
    await check_gradients(build, [x], compute=evaluate)


def test_everything_listed_is_there():
    assert [name for name in nn.__all__ if not hasattr(nn, name)] == []
