"""Dropout whose random numbers a function makes."""

import numpy as np
import pytest

import aioflow as af


async def test_a_function_makes_the_numbers_of_a_dropout():
    asked = []

    def rising(shape, dtype):
        asked.append((shape, dtype))
        return af.constant([[0.0], [0.5], [0.75]], dtype)

    with af.Graph().as_default() as graph:
        y = af.nn.experimental.general_dropout(af.ones([3, 2]), 0.5, rising, noise_shape=[None, 1], name="drop")
        with pytest.raises(ValueError, match="x must be floating"):
            af.nn.experimental.general_dropout([1, 2], 0.5, rising)
    async with af.Session(graph=graph) as session:
        np.testing.assert_array_equal(await session.run(y), [[0, 0], [2, 2], [2, 2]])
    assert (y.op.name, asked) == ("drop", [([3, 1], af.float32)])


async def test_a_rate_of_0_asks_for_no_random_numbers():
    with af.Graph().as_default() as graph:
        kept = af.nn.experimental.general_dropout([1.0, 2.0], 0.0, lambda shape, dtype: 1 / 0)
    async with af.Session(graph=graph) as session:
        assert (await session.run(kept)).tolist() == [1, 2]
