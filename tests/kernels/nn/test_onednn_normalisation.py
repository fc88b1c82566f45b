"""Normalisation by oneDNN: of batches, layers and neighbouring channels."""

import numpy as np
import pytest

from aioflow.autodiff.gradients import gradients
from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.graph import Graph
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.shapes import reshape
from aioflow.kernels.nn.layer_norm import layer_norm
from aioflow.kernels.nn.local_response import local_response_normalization
from aioflow.kernels.nn.normalisation import fused_batch_norm
from tests.support.evaluate import evaluate
from tests.support.onednn import agree, needs_library, numbers

pytest_plugins = ["tests.support.onednn_small"]
pytestmark = pytest.mark.usefixtures("even_for_small_arrays")


@needs_library
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((4, 9, 8, 33), "NHWC"),
        ((4, 33, 9, 8), "NCHW"),
        ((500, 16), "NHWC"),
        ((8, 4, 5, 6, 7), "NHWC"),
        ((0, 3), "NHWC"),
    ],
)
def test_batch_normalisation(shape, layout, training):
    channels = shape[-1 if layout == "NHWC" else 1]
    vectors = [np.abs(numbers(channels, seed=seed)) + 0.5 for seed in range(4)]
    given = vectors if not training else vectors[:2]

    def build(x, *vectors):
        y, mean, variance = fused_batch_norm(x, *vectors, data_format=layout, is_training=training)
        return concat([reshape(part, [-1]) for part in (y, mean, variance)], 0)

    agree(build, numbers(*shape) * 3 + 2, *given)


@needs_library
@pytest.mark.parametrize("shape", [(64,), (5, 64), (30, 7, 9), (4, 3, 5, 7, 2), (0, 3), (3, 0), (600, 1)])
@pytest.mark.parametrize("axes", [1, 2])
def test_layer_normalisation(shape, axes):
    vectors = [numbers(*shape[-axes:], seed=seed) for seed in (1, 2)]

    def build(x, *vectors):
        return concat([reshape(part, [-1]) for part in layer_norm(x, *vectors)], 0)

    agree(build, numbers(*shape) * 3 + 2, *vectors)
    agree(build, numbers(*shape[::-1]).T, *vectors)


@needs_library
def test_layers_that_are_not_finite_or_far_from_zero_are_normalised_as_by_numpy():
    x = numbers(100, 64)
    x[0, 0], x[1, 0], x[2, 0], x[3], x[4] = np.nan, -np.inf, np.inf, -np.inf, 5
    with np.errstate(invalid="ignore"):
        agree(lambda x, *how: layer_norm(x, *how)[0], x, numbers(64), numbers(64, seed=1))
    far = numbers(100, 64) + 3000
    with Graph().as_default():
        y, mean, variance = evaluate(list(layer_norm(far, numbers(64) * 0 + 1, numbers(64) * 0)))
    exact = far.astype(np.float64)
    np.testing.assert_allclose(mean[:, 0], exact.mean(1), rtol=1e-6)
    np.testing.assert_allclose(variance[:, 0], exact.var(1), rtol=1e-5)
    np.testing.assert_allclose(y, (exact - exact.mean(1)[:, None]) / np.sqrt(exact.var(1) + 1e-3)[:, None], atol=2e-3)


def exact_gradients(dy, x, scale, axis, epsilon):
    """Those of a normalisation along `axis`, by float64."""
    off = x - x.mean(axis, keepdims=True)
    inverse = 1 / np.sqrt((off * off).mean(axis, keepdims=True) + epsilon)
    normal, g = off * inverse, dy * scale
    dx = (g - g.mean(axis, keepdims=True) - normal * (g * normal).mean(axis, keepdims=True)) * inverse
    return dx, (dy * normal).sum(0)


@pytest.mark.parametrize("middle", [3, 2e5])
def test_gradients_keep_their_digits_however_far_the_mean_is(middle):
    """Both with the library and without. The mean has a rounding of 0.01 deviations at 200,000."""
    x, dy, scale = numbers(600, 48, seed=2) + np.float32(middle), numbers(600, 48, seed=3), numbers(48, seed=4) + 1
    for build, axis in (
        (lambda x, scale: layer_norm(x, scale, scale * 0, 0.001)[0], 1),
        (lambda x, scale: fused_batch_norm(x, scale, scale * 0, epsilon=0.001)[0], 0),
    ):
        with Graph().as_default():
            inputs = [convert_to_tensor(value) for value in (x, scale)]
            found = evaluate(gradients(build(*inputs), inputs, convert_to_tensor(dy)))
        expected = exact_gradients(*[value.astype(np.float64) for value in (dy, x, scale)], axis, 0.001)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=2e-6 * np.abs(other).max())


@needs_library
def test_local_response_normalisation():
    build = lambda x: local_response_normalization(x, 2, 1.5, 0.3, 0.75)  # noqa: E731
    agree(build, numbers(2, 5, 4, 16))
    agree(build, numbers(3, 16))


@needs_library
@pytest.mark.parametrize("length", [200, 5000])
def test_constant_rows_and_channels_are_normalised_to_zero_however_long_they_are(length):
    rows = np.repeat(np.array([[3000.1], [-77777.3], [0.3], [1000003]], np.float32), length, 1).repeat(60, 0)
    ones = [np.ones(size, np.float32) for size in (length, 240)]
    with Graph().as_default():
        layer, mean, _ = evaluate(list(layer_norm(rows, ones[0], ones[0] * 0)))
        batch, *_ = evaluate(list(fused_batch_norm(rows.T.reshape(length, 1, 1, 240), ones[1], ones[1] * 0)))
    np.testing.assert_array_equal(mean[:, 0], rows[:, 0])
    assert np.abs(layer).max() < 1e-6
    assert np.abs(batch).max() < 1e-6
