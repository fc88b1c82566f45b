"""Random programs with every partition in another process give what they give in one."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import aioflow as af
from aioflow.cli.worker import loop_factory
from aioflow.net.transport.segments import MANY
from tests.net.test_cluster_programs import CHOICES, scattered, travelling, values_of
from tests.support.cluster_processes import FIRST, SECOND, on_one_loop
from tests.support.programs import blocks, built
from tests.support.scale import amount

pytest_plugins = ["tests.support.three_processes"]
pytestmark = [pytest.mark.sockets, pytest.mark.slow]


def check_program(processes, block, order, choices):
    """A program, scattered over the processes, against the same in this one. Nothing of it is left."""
    over, alone = built(block, order, scattered(choices)), built(block, order)

    async def both():
        async with af.Session(processes.target(FIRST), graph=over.graph) as session:
            found = await values_of(over, session)
            await processes.nothing_runs()
        async with af.Session(graph=alone.graph) as session:
            return found, await values_of(alone, session)

    with asyncio.Runner(loop_factory=loop_factory("uvloop")) as runner:
        found, expected = runner.run(both())
    rounding = 1e-10 if order else 0.0  # gradients may be added up in another order
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=rounding, atol=rounding, strict=True)


@settings(max_examples=amount(3, 15))
@given(block=blocks().map(travelling), choices=CHOICES)
def test_branches_loops_and_state_are_the_same_over_processes(processes, block, choices):
    check_program(processes, block, 0, choices)


@settings(max_examples=amount(2, 6))
@given(block=blocks(depth=2).map(travelling), choices=CHOICES)
def test_gradients_are_the_same_over_processes(processes, block, choices):
    check_program(processes, block, 1, choices)


@on_one_loop
async def test_a_large_value_that_goes_to_and_fro_in_a_loop_takes_no_more_memory_with_each_iteration(processes):
    def there_and_back(i, x):
        with af.device(SECOND):
            there = af.reshape(x, [256, 1024])
        with af.device(FIRST):
            return i + 1, af.reshape(there, [1 << 18])

    with af.Graph().as_default() as graph, af.device(FIRST):
        x = af.placeholder(af.float32, [1 << 18])
        _, result = af.while_loop(lambda i, x: i < 1000, there_and_back, [0, x + 1.0])
    value = np.arange(1 << 18, dtype=np.float32)
    async with af.Session(processes.target(FIRST), graph=graph) as session:
        assert np.array_equal(await session.run(result, {x: value}), value + 1.0)
        for task in (FIRST, SECOND):
            mapped = Path(f"/proc/{processes.pid(task)}/maps").read_text().count("memfd:aioflow")
            assert mapped <= 4 * MANY  # of the other task, twice as many, and as many of its own and the client's
