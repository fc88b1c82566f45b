"""All-reduces of processes of one host, which read large values in each other's memory."""

import numpy as np
import pytest

import aioflow as af
from tests.support.cluster_processes import FIRST, PS, SECOND

pytest_plugins = ["tests.support.three_processes"]
pytestmark = [pytest.mark.sockets, pytest.mark.slow]
TASKS = (FIRST, PS, SECOND)


@pytest.mark.parametrize(
    ("groups", "size"),
    [
        (None, 200_000),
        ([[0, 2], [1]], 3_000_001),
        pytest.param([[0, 1, 2]], 200_000, marks=pytest.mark.long),
        pytest.param([[0, 2], [1]], 200_000, marks=pytest.mark.long),
        pytest.param(None, 3_000_001, marks=pytest.mark.long),
        pytest.param([[0, 1, 2]], 3_000_001, marks=pytest.mark.long),
    ],
)
async def test_the_sums_of_many_steps_are_right_though_each_uses_the_memory_of_the_step_before(cluster, groups, size):
    rest = np.arange(size, dtype=np.float32) % 1000
    with af.Graph().as_default() as graph:
        scale, tensors, kept, held = af.placeholder(af.float32, []), [], [], []
        for number, task in enumerate(TASKS):
            with af.device(task):
                tensors.append((af.cast(af.range(size), af.float32) % 1000.0) * scale + float(number))
        sums = af.collectives.all_reduce(tensors, groups=groups)
        for task, total in zip(TASKS, sums, strict=True):
            with af.device(task):
                held.append(af.Variable(np.zeros(size, np.float32), name=f"of_{size}"))
                kept.append(held[-1].assign(total).op)
        async with af.Session(cluster.target(), graph=graph) as session:
            await session.run(kept, {scale: 7.0})
            found = [await session.run(sums, {scale: number}) for number in range(5)]
            found.append(await session.run(held))
    for number, values in zip((*range(5), 7), found, strict=True):
        for value in values:
            np.testing.assert_array_equal(value, rest * (3 * number) + 3)
    await cluster.nothing_left()
