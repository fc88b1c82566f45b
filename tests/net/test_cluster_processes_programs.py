"""Random programs with every partition in another process give what they give in one."""

import asyncio

import numpy as np
import pytest
from hypothesis import given, settings

import aioflow as af
from aioflow.cli.worker import loop_factory
from tests.net.test_cluster_programs import CHOICES, scattered, travelling, values_of
from tests.support.cluster_processes import FIRST
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
