"""Replicas that train over a cluster whose hosts crash, stop, and hear nothing of each other, one run for each seed."""

import asyncio
import contextlib
import functools
from types import SimpleNamespace
from unittest import mock

import numpy as np

import aioflow as af
from aioflow import errors
from aioflow.replication.quorum import REPEATED, Quorum
from aioflow.testing import Chaos
from tests.support.cluster_runs import every_fourth_seed, survives, together

REPLICAS = 3
CLIENTS = tuple(f"client{index}" for index in range(REPLICAS))
SPEC = {"ps": 2, "worker": REPLICAS}
CLUSTER = {job: [f"{job}{index}" for index in range(count)] for job, count in SPEC.items()}
WEATHER = Chaos(seconds=1.0, lasting=(0.05, 1.0), spared=("ps0", "ps1", *CLIENTS))
STEPS = 1
"""So many steps each replica takes after all is well again."""
PAUSE = 0.5
"""Seconds after which a replica that lost its session opens another."""


class Model:
    """A net with a layer on each parameter server."""

    def __init__(self):
        self.step = af.train.get_or_create_global_step()
        draw = np.random.default_rng(7)
        self.hidden = af.Variable(draw.normal(size=(3, 4)).astype(np.float32), name="hidden")
        self.out = af.Variable(draw.normal(size=(4, 1)).astype(np.float32), name="out")

    def tower(self):
        x, y = af.placeholder(af.float32, [5, 3]), af.placeholder(af.float32, [5, 1])
        found = af.matmul(af.tanh(af.matmul(x, self.hidden)), self.out)
        return af.reduce_sum(af.square(found - y)), (x, y)

    @property
    def variables(self):
        return [self.hidden, self.out]


def examples_of(number):
    draw = np.random.default_rng(number)
    return draw.normal(size=(5, 3)).astype(np.float32), draw.normal(size=(5, 1)).astype(np.float32)


def momentum():
    return af.train.MomentumOptimizer(0.01, 0.9)


def on_worker(index):
    return af.device(
        af.train.replica_device_setter(cluster=CLUSTER, worker_device=f"/job:worker/task:{index}/device:CPU:0")
    )


@functools.cache
def replica_in_step(index, required):
    with af.Graph().as_default() as graph, on_worker(index):
        model, number = Model(), af.placeholder(af.int64, [])
        loss, feeds = model.tower()
        opt = af.train.SyncReplicasOptimizer(momentum(), required, REPLICAS, task_index=index)
        train = opt.apply_gradients(opt.compute_gradients(loss), model.step, examples=number)
        init = af.global_variables_initializer()
    return SimpleNamespace(
        graph=graph, model=model, number=number, feeds=feeds, opt=opt, train=train, init=init, index=index
    )


@functools.cache
def onlooker():
    """Who only looks at the variables."""
    with af.Graph().as_default() as graph, on_worker(0):
        return graph, Model()


@functools.cache
def one_process():
    """A process that can take the shards of one replica, of two, and so on, in a step."""
    with af.Graph().as_default() as graph:
        model = Model()
        losses, feeds = zip(*[model.tower() for _ in range(REPLICAS)], strict=True)
        opt = momentum()
        pairs = list(map(opt.compute_gradients, losses))
        means = [af.train.average_gradients(pairs[: count + 1]) for count in range(REPLICAS)]
        train = [opt.apply_gradients(each, model.step) for each in means]
        init = af.global_variables_initializer()
    return SimpleNamespace(graph=graph, model=model, feeds=feeds, train=train, init=init)


async def alone(steps):
    """The variables after one process has taken these steps, each of the examples of these numbers."""
    whole = one_process()
    async with af.Session(graph=whole.graph) as session:
        await session.run(whole.init)
        for numbers in steps:
            feeds = [(tensor, value) for pair, number in zip(whole.feeds, numbers, strict=False)
                     for tensor, value in zip(pair, examples_of(number), strict=True)]  # fmt: skip
            await session.run(whole.train[len(numbers) - 1], dict(feeds))
        return await session.run(whole.model.variables)


class History:
    """What a quorum has decided, seen from outside: gradients are known by the number of their examples."""

    def __init__(self):
        self.numbers, self.steps, self.announced, self.decided = {}, [], [], []

    @contextlib.contextmanager
    def written(self):
        """All quorums that are asked inside write it."""
        begin, announce, finish, open_ = Quorum.begin, Quorum.announce, Quorum.finish, Quorum.open

        def beginning(quorum, replica, examples):
            ticket = begin(quorum, replica, examples)
            if ticket.serial != REPEATED:
                self.numbers[ticket.serial] = examples
            return ticket

        def announcing(quorum, ticket):
            live = quorum._begun.get(ticket.replica, (None,))[0] == ticket and ticket.serial != REPEATED
            if live and ticket.step == quorum.step:
                self.announced.append(ticket)
            announce(quorum, ticket)

        def finishing(quorum, step):
            decision = quorum._decision
            finish(quorum, step)
            first = self.announced[: len(decision.tickets)]
            self.decided.append((list(decision.tickets), sorted(first, key=lambda ticket: ticket.replica)))
            self.steps.append((step, [self.numbers[ticket.serial] for ticket in decision.tickets]))
            self.announced.clear()

        def opening(quorum, step):
            open_(quorum, step)
            del self.steps[step:]
            self.announced.clear()

        with (
            mock.patch.object(Quorum, "begin", beginning),
            mock.patch.object(Quorum, "announce", announcing),
            mock.patch.object(Quorum, "finish", finishing),
            mock.patch.object(Quorum, "open", opening),
        ):
            yield


class Job:
    """Replicas that train until each has taken some steps after all was well again.

    The first replica of those that still train is the chief. A task that died may be noticed seconds later, when the
    chief before has left, and training still needs a chief that restores the variables.
    """

    def __init__(self, run, required):
        self.run = run
        self.history = History()
        self.replicas = [replica_in_step(index, required) for index in range(REPLICAS)]
        self.training = list(self.replicas)
        self.accepted, self.refused, self.tried = set(), set(), 0
        self.begun = asyncio.Event()
        self.damaged = False

    async def train(self, replica):
        taken = 0
        while taken < STEPS:
            try:
                taken = await self.session(replica, taken)
            except errors.OpError as error:
                self.damaged |= "restore the variables" in str(error)
                await asyncio.sleep(PAUSE)
        self.training.remove(replica)

    async def session(self, replica, taken):
        """One session, as long as nobody is lost."""
        is_chief = replica is self.training[0]
        limit = af.RunOptions(timeout=20.0)
        async with (
            self.run.session(replica.graph, "worker", replica.index, CLIENTS[replica.index]) as session,
            af.train.Coordinator() as coord,
        ):
            if is_chief and (self.damaged or not self.begun.is_set()):
                await session.run(replica.init, options=limit)
                self.damaged = False
            await replica.opt.start(session, coord, is_chief=is_chief)
            self.begun.set()
            while taken < STEPS and not coord.should_stop():
                was_over = asyncio.get_running_loop().time() > self.run.over
                await self.step(replica, session, limit)
                taken += was_over
                await self.run.at_random(0.4)
        return taken

    async def step(self, replica, session, limit):
        self.tried += 1
        number = self.tried * REPLICAS + replica.index
        feeds = dict(zip(replica.feeds, examples_of(number), strict=True))
        fetches = [replica.opt.accepted, replica.train]
        accepted, _ = await session.run(fetches, {**feeds, replica.number: number}, options=limit)
        (self.accepted if accepted else self.refused).add(number)

    async def trained(self):
        """What the variables are when all is over."""
        graph, model = onlooker()
        async with self.run.session(graph, client=CLIENTS[0]) as session:
            return await self.run.until(session, [model.step, model.variables])


async def trains(run, required):
    """No gradient is in two steps, and what was refused is in none; training goes on whoever is lost."""
    job = Job(run, required)
    with job.history.written():
        await together(*map(job.train, job.replicas))
    steps = job.history.steps
    used = [number for _, numbers in steps for number in numbers]
    assert len(set(used)) == len(used), "a gradient is in two steps"
    assert not job.refused & set(used), "a gradient that was refused was applied"
    assert [step for step, _ in steps] == list(range(len(steps)))
    assert all(taken == first for taken, first in job.history.decided), "a step is not of the first gradients"
    assert all(1 <= len(numbers) <= required for _, numbers in steps)
    count, found = await job.trained()
    assert count == len(steps)
    for one, other in zip(found, await alone([numbers for _, numbers in steps]), strict=True):
        np.testing.assert_array_equal(one, other)


@every_fourth_seed
def test_replicas_in_step_come_to_the_last_bit_to_what_one_process_does_whoever_is_lost(seeds):
    survives(seeds, functools.partial(trains, required=REPLICAS), spec=SPEC, chaos=WEATHER, clients=CLIENTS)


@every_fourth_seed
def test_with_backup_workers_each_step_is_of_the_first_gradients_and_of_no_others(seeds):
    survives(seeds, functools.partial(trains, required=REPLICAS - 1), spec=SPEC, chaos=WEATHER, clients=CLIENTS)


# Each for itself


class Telling(af.train.GradientDescentOptimizer):
    """Gradient descent that tells when an update is done."""

    def __init__(self, index):
        super().__init__(0.01)
        self._index = index

    def _finish(self, update_ops, name_scope):
        with af.control_dependencies(update_ops), af.device(f"/job:ps/task:{self._index % 2}"):
            told = af.py_func("applied", [np.int64(self._index)], af.int64, stateful=True)
        return af.group(told, name=name_scope)


@functools.cache
def free_replica(index, bound):
    with af.Graph().as_default() as graph, on_worker(index):
        model = Model()
        seen = af.py_func("seen", [np.int64(index)], af.int64, stateful=True)
        with graph.control_dependencies([seen]):
            loss, feeds = model.tower()
        opt = af.train.AsyncReplicasOptimizer(Telling(index), bound, task_index=index)
        train = opt.apply_gradients(opt.compute_gradients(loss), model.step)
        init = af.global_variables_initializer()
    return SimpleNamespace(graph=graph, model=model, feeds=feeds, opt=opt, train=train, init=init, index=index)


class Race:
    """Replicas that apply their gradients when they have them. What is told by the tasks themselves is what counts."""

    def __init__(self, bound):
        self.replicas = [free_replica(index, bound) for index in range(REPLICAS)]
        self.events, self.stale, self.measured = [], [], []
        self.begun = asyncio.Event()

    def seen(self, index):
        self.events.append(("seen", int(index)))
        return np.int64(index)

    def applied(self, index):
        """The updates since this replica has begun to read, but its own."""
        before = [place for place, event in enumerate(self.events) if event == ("seen", int(index))]
        self.stale.append(sum(kind == "applied" for kind, _ in self.events[before[-1] :]))
        self.events.append(("applied", int(index)))
        return np.int64(index)

    async def train(self, run, replica):
        taken = 0
        while taken < STEPS:
            try:
                taken = await self.session(run, replica, taken)
            except errors.OpError:
                await asyncio.sleep(PAUSE)

    async def session(self, run, replica, taken):
        limit = af.RunOptions(timeout=10.0)
        async with (
            run.session(replica.graph, "worker", replica.index, CLIENTS[replica.index]) as session,
            af.train.Coordinator() as coord,
        ):
            if replica.index == 0 and not self.begun.is_set():
                await session.run(replica.init, options=limit)
                self.begun.set()
            await self.begun.wait()
            await replica.opt.start(session, coord)
            while taken < STEPS and not coord.should_stop():
                feeds = dict(zip(replica.feeds, examples_of(taken), strict=True))
                staleness, _ = await session.run([replica.opt.staleness, replica.train], feeds, options=limit)
                self.measured.append(int(staleness))
                taken += asyncio.get_running_loop().time() > run.over
                await run.at_random(0.3 if replica.index else 0.05)
        return taken


async def races(run, bound, race):
    """No gradient is staler than the bound, and nobody waits for who is lost."""
    await together(*[race.train(run, replica) for replica in race.replicas])
    assert max(race.stale) <= bound, race.events
    assert max(race.measured) <= bound


@every_fourth_seed
def test_no_gradient_is_staler_than_the_bound_and_nobody_waits_for_who_is_lost(seeds):
    for seed in seeds:
        bound = seed % 4
        race = Race(bound)
        survives(
            [seed], functools.partial(races, bound=bound, race=race), spec=SPEC, chaos=WEATHER, clients=CLIENTS,
            py_funcs={"seen": race.seen, "applied": race.applied},
        )  # fmt: skip
