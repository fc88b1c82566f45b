"""A run that goes on exactly where it was: queues, random numbers and all."""

import asyncio

import numpy as np
import pytest

import aioflow as af
from tests.support.scale import some
from tests.train.test_monitored_session import Failing


def noisy_model():
    """Each step takes an element of a queue and adds a random number: all three are state of the run."""
    step, x = af.train.get_or_create_global_step(), af.Variable(0.0, name="x")
    queue, failing = af.FIFOQueue(50, [af.float32], shapes=[[]], name="numbers"), Failing()
    fill = queue.enqueue_many([np.arange(40, dtype=np.float32)])
    with af.control_dependencies([failing.op]):
        noise = queue.dequeue() + af.random_uniform([], seed=5)
        train = af.group(x.assign_add(noise), step.assign_add(1))
    number = af.identity(step._snapshot)
    return failing, fill, [number, noise, train]


async def trained(folder, fails_at, steps=16):
    with af.Graph().as_default():
        failing, fill, fetches = noisy_model()
        failing.at, found = fails_at, {}

        async def init(scaffold, session):
            await session.run(fill)

        scaffold = af.train.Scaffold(init_fn=init, saver=af.train.Saver(state=True))
        async with af.train.MonitoredTrainingSession(
            scaffold=scaffold, checkpoint_dir=folder, save_checkpoint_steps=3, save_checkpoint_secs=None,
            hooks=[af.train.StopAtStepHook(last_step=steps)],
        ) as session:  # fmt: skip
            while not session.should_stop():
                number, noise, _ = await session.run(fetches)
                assert found.setdefault(int(number), noise) == noise, "a step that is taken again is the same"
                await asyncio.sleep(1)
        return found, len(session.recoveries)


@pytest.mark.slow
async def test_a_run_with_queues_and_random_numbers_goes_on_exactly(tmp_path):
    expected, _ = await trained(tmp_path / "undisturbed", ())
    for number in some(range(1, 17, 2), 2):
        found, recoveries = await trained(tmp_path / str(number), (number, 17))
        assert found == expected
        assert recoveries == 2
