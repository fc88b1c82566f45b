"""Training of which any process is killed at any time goes on as a run does that is restored from the same checkpoint."""

import asyncio
import contextlib
import functools
import os
import tempfile
from types import SimpleNamespace

import numpy as np
import pytest
from cluster_runs import COUNT, FIRST, survives

import aioflow as af
from aioflow import errors
from aioflow.testing import VirtualTimeLoop, cluster

SPEC = {"ps": 2, "worker": 2}
PROCESSES = [("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1), ("client", 0)]
STEPS, EVERY, BATCH = 12, 3, 4
LASTS = 1.0
"""Virtual seconds that a training takes, about."""
DATA = np.random.default_rng(5).normal(size=(16, 3)).astype(np.float32)


def some_seeds(test):
    """Run the test with a quarter of the seeds that others get, for each of its runs is a whole training."""
    blocks = [range(FIRST + start, FIRST + min(start + 10, COUNT)) for start in range(0, COUNT, 40)]
    each = pytest.mark.parametrize("seeds", blocks, ids=[f"block{index}" for index in range(len(blocks))])
    return pytest.mark.slow(pytest.mark.timeout(120)(each(test)))


@pytest.fixture(scope="module")
def files():
    with tempfile.TemporaryDirectory(prefix="aioflow-") as folder:
        yield folder


# In step, with the contents of queues and the counts of random operations


def model():
    """A net on two workers, which see what a shuffling queue gives, with noise, and put it back."""
    af.set_random_seed(3)
    with af.device("/job:ps/task:0"):
        step = af.train.get_or_create_global_step()
        bias = af.Variable(np.zeros(2, np.float32), name="bias")
    with af.device("/job:ps/task:1"):
        weights = af.Variable(np.ones((3, 2), np.float32), name="weights")
    with af.device("/job:worker/task:1"):
        queue = af.RandomShuffleQueue(100, 0, [af.int32], shapes=[[]], seed=4, name="examples")
        numbers = queue.dequeue_many(2 * BATCH)
    optimizer, losses, gradients = af.train.MomentumOptimizer(0.1, 0.9), [], []
    for task in range(2):
        with af.device(f"/job:worker/task:{task}"):
            rows = af.gather(af.constant(DATA), numbers[task * BATCH : (task + 1) * BATCH])
            found = af.tanh(af.matmul(af.nn.dropout(rows, rate=0.3), weights) + bias)
            losses.append(af.reduce_mean(af.square(found - 0.5)))
            gradients.append(optimizer.compute_gradients(losses[-1], [weights, bias]))
    number = af.identity(step)
    applied = optimizer.apply_gradients(af.train.average_gradients(gradients), step)
    with af.control_dependencies([applied]):
        train = queue.enqueue_many(numbers)
    return SimpleNamespace(
        number=number, losses=losses, train=train, queue=queue, size=queue.size(), all=queue.dequeue_many(len(DATA)),
        fill=queue.enqueue_many(np.arange(len(DATA), dtype=np.int32)), init=af.global_variables_initializer(),
        saver=af.train.Saver(state=True, max_to_keep=None),
    )  # fmt: skip


async def fill(built, scaffold, session):
    """The queue holds each number once, whatever it held before."""
    if await session.run(built.size):
        await session.run(built.all)
    await session.run(built.fill)


class Lives(af.train.SessionRunHook):
    """Notes where each life of a session begins, and what was seen in it."""

    def __init__(self, saver, folder):
        self.saver, self.folder, self.found = saver, folder, []

    async def after_create_session(self, session, coord):
        path = await self.saver.latest_checkpoint(session, self.folder)
        step = int(await session.run(af.train.get_global_step(session.graph)))
        assert step == (0 if path is None else af.train.load_variable(path, "global_step"))
        self.found.append((path, step, []))


async def train(target, folder, lives, between, config=None):
    """Train to the end of the training, from the last checkpoint on."""
    built = model()
    noted = Lives(built.saver, folder)
    scaffold = af.train.Scaffold(init_op=built.init, init_fn=functools.partial(fill, built), saver=built.saver)
    monitored = af.train.MonitoredTrainingSession(
        target, checkpoint_dir=folder, save_checkpoint_steps=EVERY, save_checkpoint_secs=None, scaffold=scaffold,
        hooks=[noted, af.train.StopAtStepHook(last_step=STEPS)], max_wait_secs=60.0, config=config,
    )  # fmt: skip
    try:
        async with monitored as session:
            while not session.should_stop():
                number, losses, _ = await session.run([built.number, built.losses, built.train])
                noted.found[-1][2].append((int(number), list(map(float, losses))))
                await between()
    finally:
        lives += noted.found


async def restored_by_hand(target, path, config=None):
    """The losses, by step, of a run that begins with what the checkpoint holds; without one, at the beginning."""
    with af.Graph().as_default() as graph:
        built = model()
    curve = {}
    async with af.Session(target, graph=graph, config=config) as session:
        if path is None:
            await session.run(built.init)
            await fill(built, None, session)
        else:
            await built.saver.restore(session, path)
        while (step := len(curve) + (0 if path is None else int(path.rpartition("-")[2]))) < STEPS:
            number, losses, _ = await session.run([built.number, built.losses, built.train])
            assert number == step
            curve[step] = list(map(float, losses))
    return curve


async def kill(run, process, training):
    """Some time, and then the process is killed, and some time later there is another."""
    job, index = process
    await run.at_random(LASTS)
    if job == "client":
        training.cancel()
    elif not training.done():
        await run.cluster.crash(job, index)
        await run.at_random(0.2)
        await run.cluster.start(job, index)


async def killed(run, files, seen):
    """A training of which one process is killed, and whose client is started anew if it was that."""
    lives, process = [], run.random.choice(PROCESSES)
    folder = tempfile.mkdtemp(dir=files)
    killing = None
    for _ in range(2):
        with af.Graph().as_default():
            target = run.cluster.target("worker", 0)
            training = asyncio.create_task(train(target, folder, lives, lambda: run.at_random(0.02)))
        killing = killing or asyncio.create_task(kill(run, process, training))
        await asyncio.wait((training,))
        if not training.cancelled():
            training.result()
            break
    await killing
    assert {number for _, _, losses in lives for number, _ in losses} == set(range(STEPS))
    seen.append((process, lives))


def by_hand(path, files):
    async def again():
        config = af.Config(file_roots=[files], executor="tokens")
        async with cluster(SPEC, latency=1e-3, config=config) as simulated:
            return await restored_by_hand(simulated.target("worker", 0), path)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(again())


@some_seeds
def test_the_losses_after_a_kill_are_those_of_a_run_restored_by_hand_from_the_same_checkpoint(seeds, files):
    seen = []
    config = af.Config(file_roots=[files], executor="tokens")
    survives(seeds, functools.partial(killed, files=files, seen=seen), spec=SPEC, config=config)
    for seed, (process, lives) in zip(seeds, seen, strict=True):
        for path, step, losses in lives:
            expected = by_hand(path, files)
            assert [number for number, _ in losses] == list(range(step, step + len(losses)))
            for number, found in losses:
                assert found == expected[number], f"seed {seed}, {process} killed, step {number} after {path}"
