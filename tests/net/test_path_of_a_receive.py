"""How many files of the package a receive from another task passes through, in the sender's task and the receiver's."""

import numpy as np

from aioflow.devices.transfer import Transfer
from aioflow.testing.simulated_cluster import SimulatedCluster
from tests.support.called_files import called_files
from tests.support.edges import edge_key


async def test_a_receive_from_another_task_passes_through_at_most_seventeen_files():
    async with SimulatedCluster({"worker": 2}) as cluster:
        receiver, sender = (cluster.servers[f"worker{index}"].worker.step_table for index in range(2))
        (incarnation,) = sender._sources
        edge = edge_key(1, f"{sender.task}/device:CPU:0", f"{receiver.task}/device:CPU:0", incarnation)
        for step in range(1, 4):
            sender.at(step).rendezvous.here.send(edge, Transfer(np.full(4, step, np.float32)))
            rendezvous = receiver.at(step).rendezvous
            with called_files() as files:
                received = await rendezvous.recv(edge)
            np.testing.assert_array_equal(received.value, np.full(4, step, np.float32))
            for table in (sender, receiver):
                table.end(step, None)
    assert {"rendezvous.py", "net/worker/step_table.py"} <= files
    assert len(files) <= 17, sorted(files)
