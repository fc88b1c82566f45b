"""Replicas in monitored sessions over a cluster: their hook begins and ends them, and nobody waits for who is lost."""

import asyncio
import logging

import numpy as np
import pytest

import aioflow as af
from aioflow.replication.quorum import Dropped, Reason
from aioflow.testing import Gate, cluster
from aioflow.train.replicas import ReplicasHook

REPLICAS = 3
SPEC = {"ps": 1, "worker": REPLICAS}
CLUSTER = {job: [f"{job}{index}" for index in range(count)] for job, count in SPEC.items()}


class Replica:
    """A replica that has so many batches."""

    def __init__(self, index, make):
        worker = f"/job:worker/task:{index}/device:CPU:0"
        setter = af.train.replica_device_setter(cluster=CLUSTER, worker_device=worker)
        with af.Graph().as_default() as self.graph, af.device(setter):
            self.step = af.train.get_or_create_global_step()
            weights = af.Variable(np.zeros(2, np.float32), name="weights")
            x = af.placeholder(af.float32, [2])
            loss = af.reduce_sum(af.square(weights - x))
            self.opt = make(index)
            self.train = self.opt.minimize(loss, self.step)
        self.index, self.x = index, x

    def session(self, simulated, **options):
        hook = self.opt.make_session_run_hook(self.index == 0, **options)
        with self.graph.as_default():
            return af.train.MonitoredTrainingSession(
                simulated.target("worker", self.index, f"client{self.index}"),
                is_chief=self.index == 0,
                hooks=[hook],
                log_step_count_steps=None,
                max_wait_secs=30,
            )

    async def work(self, simulated, steps, **options):
        """Run so many steps. The global step at the last."""
        async with self.session(simulated, **options) as session:
            for number in range(steps):
                _, step = await session.run([self.train, self.step], {self.x: [number, self.index]})
        return int(step)


def in_step(required):
    def make(index):
        sgd = af.train.GradientDescentOptimizer(0.1)
        return af.train.SyncReplicasOptimizer(sgd, required, REPLICAS, task_index=index)

    return make


def free(index):
    return af.train.AsyncReplicasOptimizer(af.train.GradientDescentOptimizer(0.1), 2, task_index=index)


def simulated_cluster():
    return cluster(SPEC, latency=1e-3, clients=[f"client{index}" for index in range(REPLICAS)])


@pytest.mark.parametrize(
    "make", [in_step(REPLICAS), pytest.param(free, marks=pytest.mark.long)], ids=["in step", "free"]
)
async def test_replicas_with_more_and_less_data_train_to_the_end_of_theirs(make):
    replicas = [Replica(index, make) for index in range(REPLICAS)]
    async with simulated_cluster() as simulated:
        seen = await asyncio.gather(*[each.work(simulated, 2 + 2 * each.index) for each in replicas])
    assert seen[-1] >= 5


class Scripted:
    """A replica of which there is a list of drops."""

    task_index, next_step = 0, None

    def __init__(self, *drops):
        self.drops = list(drops)
        self.number = af.placeholder(af.int64, [])
        self.asked = self.number * 1

    async def start(self, session, coord, is_chief):
        return None

    def dropped_args(self, since):
        return af.train.SessionRunArgs(self.asked, {self.number: since})

    def dropped_of(self, found):
        return [drop for drop in self.drops if drop.number > int(found)]


async def test_a_drop_is_reported_once_however_often_training_recovers_and_of_this_training_alone():
    def drop(number, step):
        return Dropped(number, 0, step, 1, Reason.LATE)

    lost = []

    class Losing(af.train.SessionRunHook):
        def before_run(self, run_context):
            if lost:
                raise lost.pop()

    with af.Graph().as_default():
        train = af.no_op()
        told, replica = [], Scripted(drop(1, 5))
        hook = ReplicasHook(replica, is_chief=True, on_dropped=told.append)
        async with af.train.MonitoredSession(hooks=[hook, Losing()]) as session:
            await session.run(train)
            assert told == [], "it was dropped before"
            replica.drops.append(drop(2, 9))
            await session.run(train)
            lost.append(af.errors.UnavailableError("gone"))
            replica.drops.append(drop(3, 11))
            await session.run(train)
            assert told == [drop(2, 9), drop(3, 11)]
            lost.append(af.errors.UnavailableError("gone, and with it who counts"))
            replica.drops = [drop(1, 6), drop(2, 7), drop(3, 8)]
            await session.run(train)
        assert told == [drop(2, 9), drop(3, 11), drop(1, 6), drop(2, 7), drop(3, 8)]
        assert len(session.recoveries) == 2


@pytest.mark.long
async def test_a_replica_waits_for_its_chief_to_open_training_no_longer_than_for_the_session():
    chief, worker = Replica(0, in_step(2)), Replica(1, in_step(2))
    async with simulated_cluster() as simulated:
        with chief.graph.as_default():
            without_hook = af.train.MonitoredTrainingSession(simulated.target("worker", 0, "client0"))
        async with without_hook:
            began = asyncio.get_running_loop().time()
            with pytest.raises(af.errors.DeadlineExceededError, match="ReplicasHook was not done") as caught:
                await worker.work(simulated, 1)
            assert 30 <= asyncio.get_running_loop().time() - began < 31.5
    assert "waits to admit replica 1" in str(caught.value)


@pytest.mark.long
async def test_a_worker_that_dies_is_not_waited_for_longer_than_it_takes_to_notice():
    replicas = [Replica(index, in_step(REPLICAS)) for index in range(REPLICAS)]
    async with simulated_cluster() as simulated:
        begun = Gate()

        async def doomed():
            async with replicas[2].session(simulated) as session:
                for number in range(100):
                    await session.run(replicas[2].train, {replicas[2].x: [number, 2]})
                    if number == 3:
                        await begun.wait()

        dying = asyncio.create_task(doomed())
        others = [asyncio.create_task(each.work(simulated, 12)) for each in replicas[:2]]
        await begun.arrived()
        at = asyncio.get_running_loop().time()
        await simulated.crash("worker", 2)
        assert [await each for each in others] == [11, 11]
        assert asyncio.get_running_loop().time() - at < 3.0
        begun.open()
        with pytest.raises(af.errors.OpError):
            await dying


@pytest.mark.long
async def test_what_is_dropped_of_a_replica_is_logged_and_reported_by_its_hook(caplog):
    caplog.set_level(logging.INFO, logger="aioflow.train")
    replicas = [Replica(index, in_step(1)) for index in range(2)]
    dropped = [[], []]
    async with simulated_cluster() as simulated:
        seen = await asyncio.gather(
            *[each.work(simulated, 5, on_dropped=dropped[each.index].append) for each in replicas]
        )
    drops = dropped[0] + dropped[1]
    assert drops
    assert len(drops) == 10 - (max(seen) + 1)
    assert {drop.reason for drop in drops} == {Reason.LATE}
    assert [{drop.replica for drop in each} <= {index} for index, each in enumerate(dropped)] == [True, True]
    assert sorted(record.getMessage() for record in caplog.records) == sorted(map(str, drops))


# A replica that replaces another


async def train_in_step(simulated, index, seen, ready, stop):
    """Run one replica; record when its session is ready, and each step that it took part in."""
    place = af.train.replica_device_setter(cluster=CLUSTER, worker_device=f"/job:worker/task:{index}/device:CPU:0")
    with af.Graph().as_default(), af.device(place):
        step, weights = af.train.get_or_create_global_step(), af.Variable(np.zeros(3, np.float32), name="weights")
        optimizer = af.train.SyncReplicasOptimizer(af.train.GradientDescentOptimizer(0.01), None, 3, task_index=index)
        train = optimizer.minimize(af.reduce_sum(af.square(weights - 1.0)), global_step=step)
        number = af.identity(step)
        hook = optimizer.make_session_run_hook(index == 0)
        async with af.train.MonitoredTrainingSession(
            simulated.target("worker", index), is_chief=index == 0, hooks=[hook], max_wait_secs=60.0
        ) as session:
            ready.set()
            while not stop.is_set():
                seen.append(int((await session.run([number, train]))[0]))


async def test_a_replacement_of_a_killed_replica_joins_within_two_steps_of_being_ready():
    ready, stop, seen = asyncio.Event(), asyncio.Event(), [[], [], []]
    async with cluster({"ps": 1, "worker": 3}, latency=5e-3) as simulated:
        replicas = [
            asyncio.create_task(train_in_step(simulated, index, seen[index], ready, stop)) for index in range(REPLICAS)
        ]
        await asyncio.sleep(2.0)
        replicas[2].cancel()
        await asyncio.wait([replicas[2]])
        await simulated.crash("worker", 2)
        await asyncio.sleep(1.0)
        await simulated.start("worker", 2)
        seen[2].clear()
        ready.clear()
        replicas[2] = asyncio.create_task(train_in_step(simulated, 2, seen[2], ready, stop))
        await ready.wait()
        present = seen[0][-1]
        await asyncio.sleep(1.0)
        stop.set()
        await asyncio.gather(*replicas)
    assert seen[2][0] - present <= 2
