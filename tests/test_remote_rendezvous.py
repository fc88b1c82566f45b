import asyncio

import pytest
from rendezvous_contract import Ends, RendezvousTests

from aioflow.net.remote_rendezvous import RemoteRendezvous, task_of

HERE, THERE = "/job:localhost/replica:0/task:0", "/job:worker/replica:0/task:1"


class TestRemoteRendezvous(RendezvousTests):
    """What is sent in one task is asked for by another, and takes a while to come."""

    async def arrive(self):
        await asyncio.sleep(0.01)

    @pytest.fixture
    async def ends(self):
        async def ask(key):
            await asyncio.sleep(1e-3)
            value = await sender.here.recv(key)
            await asyncio.sleep(1e-3)
            return value

        async def never(key):
            raise AssertionError("the sender asks for nothing")

        sender, receiver = RemoteRendezvous(HERE, never), RemoteRendezvous(THERE, ask)
        yield Ends(sender, receiver)
        receiver.close()
        sender.close()
        await receiver.settled()


@pytest.mark.parametrize(
    ("device", "task"),
    [
        ("/job:worker/replica:0/task:1/device:CPU:0", "/job:worker/replica:0/task:1"),
        ("/job:ps/task:2/cpu:0", "/job:ps/replica:0/task:2"),
    ],
)
def test_the_task_of_a_device_is_its_name_without_the_device(device, task):
    assert task_of(device) == task
