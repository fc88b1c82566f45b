"""Training of which a process is killed at any time goes on as a run that is restored from the same checkpoint."""

import asyncio
import functools
import tempfile
from types import SimpleNamespace

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.testing import Chaos, VirtualTimeLoop, cluster
from tests.support.cluster_runs import every_fourth_seed, survives

SPEC = {"ps": 2, "worker": 2}
PROCESSES = [("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1), ("client", 0)]
STEPS, EVERY, BATCH = 9, 3, 4
LASTS = 0.8
"""Virtual seconds that a training takes, about."""
CALM = Chaos(drop=0.0, resets=0.0, half_open=0.0, partitions=0.0, pauses=0.0, crashes=0.0, blocks=0.0)
"""Frames are late, and some come twice: nobody dies but who is killed here."""
DATA = np.random.default_rng(5).normal(size=(16, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def files():
    with tempfile.TemporaryDirectory(prefix="aioflow-") as folder:
        yield folder


# In step, with the contents of queues and the counts of random operations


def model():
    """A net on two workers, which see what a shuffling queue gives, with noise, and put it back.

    Each worker has a variable, by which a step notices that a worker has restarted since the last: that a queue or
    the counts of random operations are new ones nothing tells.
    """
    af.set_random_seed(3)
    with af.device("/job:ps/task:0"):
        step = af.train.get_or_create_global_step()
        bias = af.Variable(np.zeros(2, np.float32), name="bias")
    with af.device("/job:ps/task:1"):
        weights = af.Variable(np.ones((3, 2), np.float32), name="weights")
    with af.device("/job:worker/task:1"):
        queue = af.RandomShuffleQueue(100, 0, [af.int32], shapes=[[]], seed=4, name="examples")
        numbers = queue.dequeue_many(2 * BATCH)
    optimizer, losses, gradients, turns = af.train.MomentumOptimizer(0.1, 0.9), [], [], []
    for task in range(2):
        with af.device(f"/job:worker/task:{task}"):
            rows = af.gather(af.constant(DATA), numbers[task * BATCH : (task + 1) * BATCH])
            found = af.tanh(af.matmul(af.nn.dropout(rows, rate=0.3), weights) + bias)
            losses.append(af.reduce_mean(af.square(found - 0.5)))
            gradients.append(optimizer.compute_gradients(losses[-1], [weights, bias]))
            turns.append(af.Variable(0, trainable=False, name=f"turns{task}").assign_add(1))
    number = af.identity(step)
    applied = optimizer.apply_gradients(af.train.average_gradients(gradients), step)
    with af.control_dependencies([applied]):
        train = af.group(queue.enqueue_many(numbers), *turns)
    return SimpleNamespace(
        number=number, losses=losses, train=train, all=queue.dequeue_many(queue.size()),
        fill=queue.enqueue_many(np.arange(len(DATA), dtype=np.int32)), init=af.global_variables_initializer(),
        saver=af.train.Saver(state=True, max_to_keep=None),
    )  # fmt: skip


async def fill(built, scaffold, session):
    """The queue holds each number once, whatever it held before."""
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


@functools.cache
def one_graph():
    with af.Graph().as_default() as graph:
        return graph, model()


async def restored_by_hand(target, path, config=None):
    """The losses, by step, of a run that begins with what the checkpoint holds."""
    (graph, built), curve = one_graph(), {}
    async with af.Session(target, graph=graph, config=config) as session:
        await built.saver.restore(session, path)
        number = -1
        while number < STEPS - 1:
            number, losses, _ = await session.run([built.number, built.losses, built.train])
            curve[int(number)] = list(map(float, losses))
    return curve


async def kill(run, process, training):
    """Some time, and then the process is killed, and some time later there is another."""
    job, index = process
    await run.at_random(LASTS)
    if job == "client":
        training.cancel()
    elif not training.done():
        await run.cluster.crash(job, index, silent=run.random.random() < 0.2)
        await run.at_random(0.2)
        await run.cluster.start(job, index)


async def killed(run, files, seen):
    """A training of which one process is killed. If that was the client, or values were lost at the end, it is anew."""
    lives, process = [], run.random.choice(PROCESSES)
    folder, killing = tempfile.mkdtemp(dir=files), None
    for _ in range(2):
        with af.Graph().as_default():
            work = train(run.cluster.target("worker", 0), folder, lives, lambda: run.at_random(0.02))
            training = asyncio.create_task(work, name="training")
        killing = killing or asyncio.create_task(kill(run, process, training), name="killing")
        await asyncio.wait((training,))
        if not training.cancelled() and not isinstance(training.exception(), errors.FailedPreconditionError):
            break
    await killing
    training.result()
    assert {number for _, _, losses in lives for number, _ in losses} == set(range(STEPS))
    seen.append((process, [(path or f"{folder}/model.ckpt-0", *life) for path, *life in begun_from(lives)]))


def begun_from(lives):
    """Those of which a checkpoint tells where they began: all but those that ended before the first was written."""
    saved = [path is not None for path, *_ in lives]
    return lives[saved.index(True) - 1 if True in saved else len(lives) - 1 :]


def by_hand(path, files):
    async def again():
        config = af.Config(file_roots=[files], executor="tokens")
        async with cluster(SPEC, latency=1e-3, config=config) as simulated:
            return await restored_by_hand(simulated.target("worker", 0), path)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(again())


@every_fourth_seed
def test_the_losses_after_a_kill_are_those_of_a_run_restored_by_hand_from_the_same_checkpoint(seeds, files):
    seen = []
    config = af.Config(file_roots=[files], executor="tokens")
    survives(seeds, functools.partial(killed, files=files, seen=seen), spec=SPEC, chaos=CALM, config=config)
    for seed, (process, lives) in zip(seeds, seen, strict=True):
        curves = {path: by_hand(path, files) for path, *_ in lives}
        for path, step, losses in lives:
            assert [number for number, _ in losses] == list(range(step, step + len(losses)))
            for number, found in losses:
                assert found == curves[path][number], f"seed {seed}, {process} killed, step {number} after {path}"


# Each for itself


class Free:
    """A replica that applies its gradients when it has them, and has a client of its own."""

    def __init__(self, index, cluster, folder):
        setter = af.train.replica_device_setter(
            cluster=cluster.spec, worker_device=f"/job:worker/task:{index}/device:CPU:0"
        )
        with af.Graph().as_default() as self.graph:
            with af.device(setter):
                self.step = af.train.get_or_create_global_step()
                self.weights = af.Variable(np.ones((3, 2), np.float32), name="weights")
                self.bias = af.Variable(np.zeros(2, np.float32), name="bias")
                rows = af.gather(af.constant(DATA), af.range(index, 16, 2))
                loss = af.reduce_mean(af.square(af.tanh(af.matmul(rows, self.weights) + self.bias) - 0.5))
                inner = af.train.MomentumOptimizer(0.1, 0.5)
                opt = af.train.AsyncReplicasOptimizer(inner, 2, task_index=index)
                self.train = opt.minimize(loss, self.step)
            self.state = {each.op.name: each for each in af.global_variables()}
            self.looked = Look(self.state)
            self.session = af.train.MonitoredTrainingSession(
                cluster.target("worker", index, f"client{index}"), is_chief=index == 0, checkpoint_dir=folder,
                save_checkpoint_steps=EVERY, save_checkpoint_secs=None, max_wait_secs=60.0, restore="lost",
                log_step_count_steps=None, hooks=[self.looked, opt.make_session_run_hook()],
            )  # fmt: skip

    async def work(self, until):
        """Train until there are so many steps."""
        async with self.session as session:
            while await session.run(self.step) < until:
                await session.run(self.train)


class Look(af.train.SessionRunHook):
    """What the variables hold when a session begins."""

    def __init__(self, variables):
        self.variables, self.found, self.done = variables, None, asyncio.Event()

    async def after_create_session(self, session, coord):
        self.found = self.found or await session.run(self.variables)
        self.done.set()


async def held(run, replica):
    """What each variable holds; None if it was lost."""
    found = {}
    async with af.Session(run.cluster.target("worker", 0, "client0"), graph=replica.graph) as session:
        for name, variable in replica.state.items():
            try:
                found[name] = await session.run(variable)
            except errors.FailedPreconditionError:
                found[name] = None
    return found


async def free(run, files):
    """Replicas that are killed, and parameter servers with them; others begin with what is left, and what was saved."""
    folder = tempfile.mkdtemp(dir=files)
    replicas = [Free(index, run.cluster, folder) for index in range(2)]
    working = [asyncio.create_task(each.work(10**6), name="working") for each in replicas]
    await run.at_random(2.0)
    victims = run.random.choice([[0], [1], [0, 1]])
    if run.random.random() < 0.5:  # before, or after the clients
        await asyncio.gather(*[run.cluster.crash("ps", index) for index in victims])
    for each in working:
        each.cancel()
    await asyncio.wait(working)
    if run.cluster.servers.keys() >= {"ps0", "ps1"}:
        await asyncio.gather(*[run.cluster.crash("ps", index) for index in victims])
    await asyncio.gather(*[run.cluster.start("ps", index) for index in victims])
    again = [Free(index, run.cluster, folder) for index in range(2)]
    left, path = await held(run, again[0]), af.train.latest_checkpoint(folder)
    saved = {} if path is None else {name: af.train.load_variable(path, name) for name in left}
    until = 10 + int(left["global_step"] if left["global_step"] is not None else 0)
    chief = asyncio.create_task(again[0].work(until), name="working")
    await again[0].looked.done.wait()
    await asyncio.gather(chief, again[1].work(until))
    for name, value in again[0].looked.found.items():
        if left[name] is not None or saved:
            expected = saved[name] if left[name] is None else left[name]
            np.testing.assert_array_equal(value, expected, f"{name} of {path} after the loss of {victims}")
    assert all(np.isfinite(value).all() for value in (await held(run, again[0])).values())


@every_fourth_seed
def test_free_replicas_begin_again_with_what_was_not_lost_and_for_the_rest_with_the_checkpoint(seeds, files):
    program, config = functools.partial(free, files=files), af.Config(file_roots=[files], executor="tokens")
    survives(seeds, program, spec=SPEC, chaos=CALM, config=config, clients=["client0", "client1"])
