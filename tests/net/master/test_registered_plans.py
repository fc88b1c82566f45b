"""Plans that a master makes and registers, and what is left of those that it cannot register."""

import weakref

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.net.master.master import Master
from aioflow.net.wire.master_verbs import RunCallable
from aioflow.testing.simulated_cluster import SimulatedCluster


async def test_the_error_of_a_plan_that_cannot_be_made_keeps_no_feed():
    feeds = []
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [100_000])
        with af.device("/job:worker/task:7"):
            y = af.reduce_sum(x)
    async with SimulatedCluster({"worker": 1}) as cluster:
        server = cluster.servers["worker0"]

        async def noted(call):
            feeds.append(weakref.ref(call.message.feeds[0]))
            return await Master.run_callable(server._master, call)

        server._service._handlers[RunCallable] = noted
        async with af.Session(cluster.target("worker", 0), graph=graph) as session:
            for _ in range(2):
                with pytest.raises(errors.InvalidArgumentError, match="there is no device /job:worker/task:7"):
                    await session.run(y, {x: np.ones(100_000, np.float32)})
                assert feeds.pop()() is None
