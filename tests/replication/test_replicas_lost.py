"""Replicas whose process is lost while the line holds steps of theirs."""

import asyncio
import contextlib
from types import SimpleNamespace

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.replication.quorum import Quorum
from aioflow.replication.staleness import StalenessBound
from aioflow.replication.waitable import WaitableQuorum, WaitableStalenessBound
from aioflow.testing import no_pending_tasks
from aioflow.testing.simulated_cluster import SimulatedCluster
from tests.support.waiting_tasks import waits


class Steps:
    """Steps of one session, which are all ended at once."""

    ended = False

    def check(self):
        if self.ended:
            raise errors.CancelledError("the step has ended")


async def test_a_step_that_is_being_ended_does_not_lead():
    live, steps = WaitableQuorum("tested", Quorum(None, 2)), Steps()
    with live.changing():
        live.quorum.open(0)
    await asyncio.gather(live.admit(0), live.admit(1))
    present = await waits(live.present(0))
    with live.changing():
        live.quorum.announce(live.quorum.begin(1, 10))
    ending, leads = await waits(live.lead(0, check=steps.check)), await waits(live.lead(1))
    steps.ended = True
    present.cancel()
    assert [ticket.replica for ticket in (await leads).tickets] == [1]
    with pytest.raises(errors.CancelledError, match="the step has ended"):
        await ending


async def test_a_step_that_is_being_ended_reads_no_variables():
    live, steps = WaitableStalenessBound("tested", StalenessBound(0)), Steps()
    presence = [await waits(live.present(replica)) for replica in (0, 1)]
    await live.read(0)
    ending = await waits(live.read(1, check=steps.check))
    steps.ended = True
    for present in presence[::-1]:
        present.cancel()
    with pytest.raises(errors.CancelledError, match="the step has ended"):
        await ending
    assert await live.read(2) == 0


def replica(index):
    with af.Graph().as_default() as graph, af.device("/job:ps"):
        step, weight = af.train.get_or_create_global_step(), af.Variable(np.float32(1.0), name="weight")
        opt = af.train.SyncReplicasOptimizer(af.train.GradientDescentOptimizer(0.5), None, 2, task_index=index)
        train = opt.minimize(weight * 1.0, global_step=step)
        init = af.global_variables_initializer()
        return SimpleNamespace(graph=graph, init=init, opt=opt, train=train, weight=weight)


@contextlib.asynccontextmanager
async def part(cluster, replica, index):
    """The replica takes part; 0 is the chief."""
    async with (
        af.Session(cluster.target("worker", index), graph=replica.graph) as session,
        af.train.Coordinator() as coord,
    ):
        if index == 0:
            await session.run(replica.init)
        await replica.opt.start(session, coord, is_chief=index == 0)
        yield session


async def takes_part(cluster, replica):
    """The chief is there until its process is lost."""
    with contextlib.suppress(errors.OpError):
        async with part(cluster, replica, 0):
            await asyncio.Event().wait()


async def test_another_replica_leads_as_soon_as_a_process_that_died_without_a_word_is_replaced():
    """The chief is next in line to lead, and its replica does not come back."""
    with no_pending_tasks():
        async with SimulatedCluster({"ps": 1, "worker": 2}, latency=1e-3) as cluster:
            chief, other = replica(0), replica(1)
            leading = asyncio.create_task(takes_part(cluster, chief))
            async with part(cluster, other, 1) as session:
                training = asyncio.create_task(session.run(other.train))
                await asyncio.sleep(0.1)
                await cluster.crash("worker", 0, silent=True)
                await cluster.start("worker", 0)
                async with af.Session(cluster.target("worker", 0), graph=other.graph) as anew:
                    await anew.run(other.weight)
                async with asyncio.timeout(1.0):
                    await training
                assert await session.run(other.weight) == 0.5
            leading.cancel()
            await asyncio.wait((leading,))
