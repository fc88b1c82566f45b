"""What the benchmark of stragglers measures, on a virtual clock: there the target holds to the millisecond."""

import asyncio

import pytest

from aioflow.testing import VirtualTimeLoop
from benchmarks import stragglers
from benchmarks.replica import SLOWER, WORKERS, Plan
from benchmarks.stragglers import DRAWN, ONE


def step(required, drawn=0):
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return stragglers.step(runner.run(stragglers.simulate(Plan(required, steps=31, drawn=drawn))))


@pytest.mark.long
@pytest.mark.slow
def test_with_a_backup_worker_a_step_takes_as_long_as_without_the_one_that_is_slow():
    backed = step(WORKERS - 1)
    assert step(WORKERS - 1, DRAWN[ONE]) <= 1.2 * backed
    assert step(WORKERS, DRAWN[ONE]) >= 1.4 * backed
    assert step(WORKERS, 1) >= 0.9 * SLOWER * backed
