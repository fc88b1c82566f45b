"""Pooling by windows whose sizes differ. `oracle/ops/picked.py` compares whole ratios with TensorFlow."""

from itertools import pairwise

import numpy as np
import pytest

import aioflow as af
from aioflow.testing import check_gradients
from tests.support.evaluate import evaluate

IMAGES = np.random.default_rng(0).standard_normal((2, 7, 9, 2))
RATIOS = [1.0, 1.44, 1.73, 1.0]
POOLS = {"max": (af.nn.fractional_max_pool, np.max), "avg": (af.nn.fractional_avg_pool, np.mean)}


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.mark.whole
@pytest.mark.parametrize("kind", POOLS)
async def test_each_element_is_that_of_its_window_and_windows_differ_by_one(graph, kind):
    pool, of = POOLS[kind]
    found = {
        (overlapping, even): pool(IMAGES, RATIOS, even, overlapping, deterministic=True, seed=3)
        for overlapping in (False, True)
        for even in (False, True)
    }
    assert found[True, True].output.shape.as_list() == [2, 4, 5, 2]
    async with af.Session(graph=graph) as session:
        values = await session.run(found)
        again = await session.run(found)
    for (overlapping, even), (output, rows, columns) in values.items():
        for ends, size in ((rows, 7), (columns, 9)):
            assert (ends[0], ends[-1]) == (0, size)
            assert {*np.diff(ends).tolist()} <= {1, 2}
        windows = [[(first, last + overlapping) for first, last in pairwise(ends)] for ends in (rows, columns)]
        expected = [[of(IMAGES[:, a:b, c:d], axis=(1, 2)) for c, d in windows[1]] for a, b in windows[0]]
        np.testing.assert_allclose(output, np.transpose(expected, (2, 0, 1, 3)), rtol=1e-12)
        assert again[overlapping, even].row_pooling_sequence.tolist() == rows.tolist()


@pytest.mark.parametrize("kind", POOLS)
async def test_gradients_are_those_of_differences(kind):
    def pooled(x):
        return POOLS[kind][0](x, RATIOS, overlapping=True, deterministic=True, seed=1).output

    await check_gradients(pooled, [IMAGES[:1, :4, :5, :1]], compute=evaluate)


async def test_windows_differ_between_steps_unless_they_are_deterministic(graph):
    rows = af.nn.fractional_max_pool(np.zeros((1, 300, 2, 1)), [1, 1.5, 1, 1], seed=5).row_pooling_sequence
    async with af.Session(graph=graph) as session:
        first, other = await session.run(rows), await session.run(rows)
    assert first.tolist() != other.tolist()


def test_wrong_arguments_are_named():
    for ratios, text in (
        ([1, 2], r"pooling_ratio is \[1, ratio of rows, ratio of columns, 1\], not \[1, 2\]"),
        ([1, 0.5, 1, 1], "a pooling ratio is 1 or more, not 0.5"),
        ([1, 8, 1, 1], "7 elements are too few for windows of 8.0 elements"),
    ):
        with pytest.raises(ValueError, match=text):
            af.nn.fractional_max_pool(IMAGES, ratios)
