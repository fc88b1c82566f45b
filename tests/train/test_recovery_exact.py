"""Recoveries during which more is lost: which variables go back, and what hooks are told of them."""

import asyncio
from unittest import mock

import pytest

import aioflow as af
from aioflow import errors
from aioflow.testing.simulated_cluster import SimulatedCluster
from aioflow.train.session_manager import SessionManager

STEPS = 4


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def cluster(tmp_path):
    spec, config = {"ps": 2, "worker": 2}, af.Config(file_roots=[str(tmp_path)])
    async with SimulatedCluster(spec, latency=1e-3, config=config) as cluster:
        yield cluster


def counters():
    """A variable on each parameter server, and what adds to both on behalf of a worker."""
    with af.device("/job:ps/task:0"):
        step = af.train.get_or_create_global_step()
    with af.device("/job:ps/task:1"):
        far = af.Variable(0, name="far")
    with af.device("/job:worker/task:1"):
        below = af.placeholder(af.int64, [])
        by = below + 1
    return step, far, below, af.group(step.assign_add(by), far.assign_add(af.cast(by, af.int32)))


def training(cluster, tmp_path, restore, hooks=()):
    return af.train.MonitoredTrainingSession(
        cluster.target("worker", 0), checkpoint_dir=str(tmp_path), save_checkpoint_steps=3, save_checkpoint_secs=None,
        hooks=list(hooks), max_wait_secs=60.0, restore=restore,
    )  # fmt: skip


async def replace(cluster, *tasks):
    """These tasks restart."""
    for task in tasks:
        await cluster.crash(*task)
        await cluster.start(*task)


async def recovers(cluster, run, *task):
    """The run begins while that task is gone, and ends when it is back."""
    await cluster.crash(*task)
    running = asyncio.create_task(run)
    await asyncio.sleep(0.01)
    await cluster.start(*task)
    await running


class Losing(af.train.SessionRunHook):
    """Loses the master and a parameter server while it is told of the first recovery."""

    def __init__(self, cluster):
        self.cluster, self.told = cluster, []

    async def after_recovery(self, session, recovery):
        self.told.append(recovery)
        if len(self.told) == 1:
            await replace(self.cluster, ("ps", 0), ("worker", 0))
            raise errors.UnavailableError("/job:worker/task:0 is gone")


async def test_a_recovery_that_fails_is_told_with_the_next_one_also_if_the_session_is_opened_anew(cluster, tmp_path):
    _, _, below, train = counters()
    hook = Losing(cluster)
    prepare, tries = SessionManager.prepare, []

    async def preparing(manager, *args):
        """The first one finds that a task has restarted, so that another session is opened."""
        tries.append(args)
        if len(tries) == 1:
            raise errors.AbortedError("/job:ps/task:1 has restarted")
        return await prepare(manager, *args)

    async with training(cluster, tmp_path, "lost", [hook]) as session:
        for _ in range(STEPS):
            await session.run(train, {below: 0})
        with mock.patch.object(SessionManager, "prepare", preparing):
            await recovers(cluster, session.run(train, {below: 0}), "ps", 1)
        assert [recovery.restored for recovery in hook.told] == [("far",), ("global_step", "far")]
        assert session.recoveries == hook.told[1:]


async def test_everything_goes_back_if_a_variable_is_lost_after_all_were_found_to_have_values(cluster, tmp_path):
    step, far, below, train = counters()
    is_ready, looks = SessionManager.is_ready, []

    async def looking(manager, session):
        found = await is_ready(manager, session)
        if not looks:
            await replace(cluster, ("ps", 1))
        looks.append(found)
        return found

    async with training(cluster, tmp_path, "all") as session:
        for _ in range(STEPS):
            await session.run(train, {below: 0})
        with mock.patch.object(SessionManager, "is_ready", looking):
            await recovers(cluster, session.run(train, {below: 0}), "worker", 1)
        assert looks[0]
        found = await session.run([step, far])
        assert found[0] == found[1], f"{session.recoveries[0]}"
        assert sorted(session.recoveries[0].restored) == ["far", "global_step"]
