"""Training that goes on whatever happens, on a cluster whose tasks crash, stop, and hear nothing of each other."""

import asyncio
import contextlib
import functools
import itertools
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.testing import Chaos
from tests.support.cluster_runs import every_fourth_seed, survives
from tests.support.scale import some

STEPS = 9
WEATHER = Chaos(seconds=6.0, lasting=(0.05, 4.0), crashes=2.0, spared=("client",))
DATA = np.random.default_rng(7).normal(size=(STEPS, 4, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def files():
    with tempfile.TemporaryDirectory(prefix="aioflow-") as folder:
        yield folder


def regression(weights_on="", bias_on="", work_on=""):
    """A model whose batch is that of its step."""
    with af.device(bias_on):
        step = af.train.get_or_create_global_step()
        bias = af.Variable(np.zeros(2, np.float32), name="bias")
    with af.device(weights_on):
        weights = af.Variable(np.ones((3, 2), np.float32), name="weights")
    with af.device(work_on):
        number = af.identity(step)
        batch = af.constant(DATA)[number]
        loss = af.reduce_mean(af.square(af.tanh(af.matmul(batch, weights) + bias) - 0.5))
    train = af.train.MomentumOptimizer(0.3, 0.9).minimize(loss, global_step=step)
    return SimpleNamespace(step=step, number=number, loss=loss, train=train, weights=weights, bias=bias)


def on_cluster():
    return regression("/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0")


@functools.cache
def curve():
    """The loss at each step of a training that nothing happens to."""

    async def train():
        with af.Graph().as_default():
            model = regression()
            async with af.Session() as session:
                await session.run(af.global_variables_initializer())
                return [(await session.run([model.loss, model.train]))[0] for _ in range(STEPS)]

    return asyncio.run(train())


class KilledError(Exception):
    """The process of the training ends here."""


class Beginnings(af.train.SessionRunHook):
    """The steps that training began with, or went on from."""

    def __init__(self, step, seen):
        self.step, self.seen = step, seen

    async def after_create_session(self, session, coord):
        self.seen.add(int(await session.run(self.step)))


MORTAL = 3
"""So many processes may be killed."""


async def trains(run, files):
    """Each step, taken once or again after a loss or by another process, has the loss that it has to have.

    The caller sees all of them, but those that were saved before their run could end, and whose checkpoint was restored
    then.
    """
    expected, seen, begun, lives = curve(), set(), set(), itertools.count()
    with tempfile.TemporaryDirectory(dir=files) as folder:
        while not await train_once(run, folder, expected, seen, begun, mortal=next(lives) < MORTAL):
            pass
    unseen = set(range(STEPS)) - seen
    assert unseen <= {step - 1 for step in begun}, f"training went on from {begun}, and yet nobody saw {unseen}"


async def train_once(run, folder, expected, seen, begun, mortal):
    """Whether training comes to its end before its process does."""
    with contextlib.suppress(KilledError, errors.FailedPreconditionError), af.Graph().as_default():
        await train_until(run, folder, expected, seen, begun, run.random.choice([3, 10, 100]) if mortal else math.inf)
        return True
    return False


async def train_until(run, folder, expected, seen, begun, life):
    model = on_cluster()
    async with af.train.MonitoredTrainingSession(
        run.cluster.target("worker", 0), checkpoint_dir=folder, save_checkpoint_steps=3, save_checkpoint_secs=None,
        hooks=[af.train.StopAtStepHook(last_step=STEPS), Beginnings(model.step, begun)],
        max_wait_secs=60.0, examples_per_step=4,
    ) as session:  # fmt: skip
        while not session.should_stop():
            number, loss, _ = await session.run([model.number, model.loss, model.train])
            assert loss == expected[number], f"step {number} after {session.recoveries}"
            seen.add(int(number))
            await run.at_random(0.5)
            life -= 1
            if not life:
                raise KilledError


@every_fourth_seed
def test_the_loss_of_each_step_is_that_of_a_training_to_which_nothing_happens(seeds, files):
    curve()
    options = {
        "spec": {"ps": 2, "worker": 1},
        "chaos": WEATHER,
        "config": af.Config(file_roots=[files], executor="tokens"),
    }
    survives(seeds, functools.partial(trains, files=files), **options)


# Processes that are killed

PROGRAM = """
import sys
sys.path.insert(0, {root!r})
import asyncio
import aioflow as af
from tests.train.test_monitored_session_faults import STEPS, regression

async def main():
    model = regression()
    async with af.train.MonitoredTrainingSession(
        checkpoint_dir={folder!r}, save_checkpoint_steps=1, save_checkpoint_secs=None,
        hooks=[af.train.StopAtStepHook(last_step=STEPS)],
    ) as session:
        while not session.should_stop():
            number, loss, _ = await session.run([model.number, model.loss, model.train])
            print(int(number), float(loss), flush=True)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.long
def test_a_training_whose_process_is_killed_goes_on_in_the_next(tmp_path):
    """Killed after each of some steps, and at any time while it saves, it has in the end the loss it has to have."""
    program = PROGRAM.format(root=str(Path(__file__).parents[2]), folder=str(tmp_path))
    expected, ends = curve(), some([2, 3, 4], 2)
    for lines in [*ends, STEPS + 1]:
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
            for line in itertools.islice(process.stdout, lines):
                number, loss = line.split()
                assert float(loss) == expected[int(number)]
            process.kill()
    assert int(number) == STEPS - 1


# Only what is lost


class Watch(af.train.SessionRunHook):
    """Looks, after each recovery, at what variables hold."""

    def __init__(self, variables):
        self.variables, self.seen, self.checked = variables, {}, 0

    def after_run(self, run_context, run_values):
        self.seen = {name: max(self.seen.get(name, 0), int(value)) for name, value in run_values.results.items()}

    def before_run(self, run_context):
        return af.train.SessionRunArgs(self.variables)

    async def after_recovery(self, session, recovery):
        values = await session.run(self.variables)
        given = {*recovery.restored, *recovery.initialized}
        for name, value in values.items():
            if name not in given:
                assert value >= self.seen.get(name, 0), f"{name} was not lost and went back: {recovery}"
            else:
                assert value == (af.train.load_variable(recovery.checkpoint, name) if name in recovery.restored else 0)
            self.seen[name] = int(value)
        self.checked += 1


async def counts(run, files):
    """Who was not lost never goes back, who was has what the checkpoint says."""
    with tempfile.TemporaryDirectory(dir=files) as folder, af.Graph().as_default():
        with af.device("/job:ps/task:0"):
            step, near = af.train.get_or_create_global_step(), af.Variable(0, name="near")
        with af.device("/job:ps/task:1"):
            far = af.Variable(0, name="far")
        train = af.group(step.assign_add(1), near.assign_add(1), far.assign_add(1))
        watch = Watch({"near": near, "far": far})
        async with af.train.MonitoredTrainingSession(
            run.cluster.target("worker", 0), checkpoint_dir=folder, save_checkpoint_steps=3, save_checkpoint_secs=None,
            hooks=[watch], max_wait_secs=60.0, restore="lost",
        ) as session:  # fmt: skip
            for _ in range(STEPS):
                await session.run(train)
                await run.at_random(0.5)
            await run.calm()
            await session.run(train)
            assert watch.checked == len(session.recoveries)


@pytest.mark.long
@every_fourth_seed
def test_only_what_is_lost_goes_back_if_that_is_asked_for(seeds, files):
    options = {
        "spec": {"ps": 2, "worker": 1},
        "chaos": WEATHER,
        "config": af.Config(file_roots=[files], executor="tokens"),
    }
    survives(seeds, functools.partial(counts, files=files), **options)
