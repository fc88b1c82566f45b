"""Weights divided by their spectral norm."""

import numpy as np
import pytest

import aioflow as af
from aioflow import layers


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def test_spectral_normalization_gives_a_weight_the_norm_1_in_training_only():
    normalized = layers.SpectralNormalization(layers.Dense(4, use_bias=False), power_iterations=30)
    x = np.random.default_rng(2).standard_normal((5, 3)).astype(np.float32)
    plain, trained = normalized(x), normalized(x, training=True)
    updates = af.get_collection(af.GraphKeys.UPDATE_OPS)
    async with af.Session() as session:
        await session.run(af.global_variables_initializer())
        kernel = await session.run(normalized.layer.kernel)
        np.testing.assert_allclose(await session.run(plain), x @ kernel, rtol=1e-5)
        result, *_ = await session.run([trained, *updates])
        normal = kernel / np.linalg.norm(kernel, 2)
        np.testing.assert_allclose(result, x @ normal, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(await session.run(normalized.layer.kernel), normal, rtol=1e-3, atol=1e-5)
    with pytest.raises(ValueError, match="has neither a kernel nor embeddings"):
        layers.SpectralNormalization(layers.ReLU())(x)
