"""The tasks that a task has dialled."""

import asyncio

import pytest

from aioflow import errors
from aioflow.net.wire.worker_verbs import GetStatus
from aioflow.testing.simulated_cluster import SimulatedCluster


async def test_requests_that_wait_for_a_task_to_be_dialled_end_with_an_error_when_the_dialling_task_stops():
    async with SimulatedCluster({"worker": 3}, latency=1.0) as cluster:
        peers = cluster.servers["worker0"]._master._peers
        tasks = [f"/job:worker/replica:0/task:{number}" for number in (1, 2)]
        asked = [peers.ask(tasks[0], GetStatus()), peers.ask_all(dict.fromkeys(tasks, GetStatus()))]
        waiting = [asyncio.create_task(each) for each in asked]
        await asyncio.sleep(0.5)
        await peers.close()
        for each in waiting:
            with pytest.raises(errors.CancelledError, match="/job:worker/replica:0/task:0 is closing"):
                await each
