"""The names of TensorFlow's `random`, and parts at a random place: library/random.py."""

import numpy as np
import pytest

import aioflow as af
from aioflow.library import random


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def test_the_names_are_those_of_the_ops():
    names = ("normal", "random_normal"), ("uniform", "random_uniform"), ("shuffle", "random_shuffle")
    assert all(getattr(random, short) is getattr(af, whole) for short, whole in names)


@pytest.mark.parametrize(("dtype", "expected"), [(None, np.int64), ("int32", np.int32)])
async def test_classes_are_drawn(graph, dtype, expected):
    drawn = random.categorical([[0.0, 50.0], [50.0, 0.0]], 3, dtype, seed=1)
    async with af.Session(graph=graph) as session:
        found = await session.run(drawn)
    assert found.dtype == expected
    np.testing.assert_array_equal(found, [[1, 1, 1], [0, 0, 0]])


async def test_a_part_lies_anywhere_and_has_the_sizes(graph):
    whole = np.arange(20).reshape(4, 5)
    x, part = af.placeholder(af.int64, [None, None]), random.random_crop(whole, [2, 5], seed=1, name="crop")
    anywhere = random.random_crop(x, [2, 3], seed=1)
    assert (part.op.name, part.shape, anywhere.shape) == ("crop", [2, 5], [2, 3])
    starts = set()
    async with af.Session(graph=graph) as session:
        for _ in range(60):
            found, other = await session.run([part, anywhere], {x: whole})
            np.testing.assert_array_equal(found, whole[found[0, 0] // 5 :][:2])
            row, column = divmod(int(other[0, 0]), 5)
            np.testing.assert_array_equal(other, whole[row : row + 2, column : column + 3])
            starts.add((row, column))
        with pytest.raises(af.errors.InvalidArgumentError, match="must not be larger than those of the value"):
            await session.run(anywhere, {x: whole[:1]})
    assert starts == {(row, column) for row in range(3) for column in range(3)}


def test_a_part_larger_than_the_whole_is_refused_and_leaves_nothing(graph):
    with pytest.raises(af.errors.InvalidArgumentError, match=r"for 1 of 2 elements: x = \[3\], y = \[2\]"):
        random.random_crop([[1, 2]], [1, 3])
    assert graph.get_operations() == []
