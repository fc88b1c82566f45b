"""What hooks see of replicas that train in step, or each for itself: how many there are, and which step it is."""

import asyncio

import numpy as np
import pytest

import aioflow as af
from aioflow.testing import Gate, cluster

REPLICAS, STEPS = 3, 6
SPEC = {"ps": 1, "worker": REPLICAS}
CLUSTER = {job: [f"{job}{index}" for index in range(count)] for job, count in SPEC.items()}


def sync(task):
    return af.train.SyncReplicasOptimizer(af.train.GradientDescentOptimizer(0.1), None, REPLICAS, task_index=task)


def free(task):
    return af.train.AsyncReplicasOptimizer(af.train.GradientDescentOptimizer(0.1), task_index=task)


class Replica:
    def __init__(self, task, make, simulated, *hooks):
        setter = af.train.replica_device_setter(cluster=CLUSTER, worker_device=f"/job:worker/task:{task}/device:CPU:0")
        with af.Graph().as_default(), af.device(setter):
            self.step = af.train.get_or_create_global_step()
            weights = af.Variable(np.zeros(2, np.float32), name="weights")
            self.opt = make(task)
            self.train = self.opt.minimize(af.reduce_sum(af.square(weights - 1.0)), self.step)
            self.session = af.train.MonitoredTrainingSession(
                simulated.target("worker", task, f"client{task}"), is_chief=task == 0, log_step_count_steps=None,
                hooks=[self.opt.make_session_run_hook(is_chief=task == 0), *hooks], max_wait_secs=30,
            )  # fmt: skip


class Steps(af.train.SessionRunHook):
    """The global step as hooks see it at the end of each run."""

    def begin(self):
        self.read, self.seen = af.train.get_global_step().value(), []

    def before_run(self, run_context):
        return af.train.SessionRunArgs(self.read)

    def after_run(self, run_context, run_values):
        self.seen.append(int(run_values.results))


def simulated_cluster():
    return cluster(SPEC, latency=1e-3, clients=[f"client{task}" for task in range(REPLICAS)])


@pytest.mark.long
async def test_replicas_in_step_stop_at_the_last_step_and_hooks_see_the_step_that_a_run_has_led_to():
    async with simulated_cluster() as simulated:
        steps = [Steps() for _ in range(REPLICAS)]
        made = [
            Replica(task, sync, simulated, steps[task], af.train.StopAtStepHook(last_step=STEPS))
            for task in range(REPLICAS)
        ]

        async def work(replica):
            async with replica.session as session:
                while not session.should_stop():
                    await session.run(replica.train)

        await asyncio.gather(*map(work, made))
    assert [each.seen for each in steps] == [list(range(1, STEPS + 1))] * REPLICAS


@pytest.mark.parametrize("make", [sync, pytest.param(free, marks=pytest.mark.long)], ids=["in step", "free"])
async def test_there_are_as_many_replicas_as_have_come_and_are_not_lost(make):
    async with simulated_cluster() as simulated:
        made, gate, counts = [Replica(task, make, simulated) for task in range(REPLICAS)], Gate(), []

        async def present(replica):
            async with replica.session:
                await gate.wait()

        async with made[0].session as session:
            counts.append(await session.run(made[0].opt.num_replicas))
            others = [asyncio.create_task(present(each)) for each in made[1:]]
            while (count := await session.run(made[0].opt.num_replicas)) < REPLICAS:
                assert count >= counts[-1]
            await simulated.crash("worker", 2)
            while await session.run(made[0].opt.num_replicas) > REPLICAS - 1:
                pass
            gate.open()
            await asyncio.wait(others)
            while await session.run(made[0].opt.num_replicas) > 1:
                pass
    assert counts == [1]
    assert isinstance(others[1].exception(), af.errors.OpError)
