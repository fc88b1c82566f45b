"""An embedding that leads back to scores of ids."""

import numpy as np
import pytest

import aioflow as af
from aioflow import layers
from aioflow.layers.masks import mask_of


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def test_a_reversible_embedding_leads_from_ids_to_rows_and_back_to_scores():
    ids = np.array([[1, 0, 4]])
    tied = layers.ReversibleEmbedding(5, 3, mask_zero=True, logit_soft_cap=0.01)
    untied = layers.ReversibleEmbedding(5, 3, tie_weights=False, reverse_dtype=af.float64)
    rows = tied(ids)
    scores, others = tied(rows, reverse=True), untied(untied(ids), reverse=True)
    assert mask_of(scores) is None
    assert [weight.shape.as_list() for weight in untied.weights] == [[5, 3], [3, 5]]
    async with af.Session() as session:
        await session.run(af.global_variables_initializer())
        table, one, other = await session.run([tied.embeddings, *untied.weights])
        np.testing.assert_array_equal(await session.run(mask_of(rows)), ids != 0)
        np.testing.assert_allclose(await session.run(scores), 0.01 * np.tanh(table[ids] @ table.T / 0.01), rtol=1e-4)
        np.testing.assert_allclose(await session.run(others), one[ids].astype("d") @ other.astype("d"), rtol=1e-6)
