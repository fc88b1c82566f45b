import asyncio

import pytest

from aioflow import errors
from aioflow.net.worker.remote_rendezvous import RemoteRendezvous, task_of
from aioflow.rendezvous import Key, LocalRendezvous
from tests.support.rendezvous_contract import Ends, RendezvousTests

HERE, THERE = "/job:localhost/replica:0/task:0", "/job:worker/replica:0/task:1"


class TestRemoteRendezvous(RendezvousTests):
    """What is sent in one task is asked for by another, and takes a while to come."""

    async def arrive(self):
        await asyncio.sleep(0.01)

    @pytest.fixture
    async def ends(self):
        async def ask(task, keys):
            await asyncio.sleep(1e-3)
            found = await sender.here.recv_any(keys)
            await asyncio.sleep(1e-3)
            return dict(found)

        async def never(task, keys):
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


async def test_what_is_wanted_in_one_turn_of_the_loop_is_asked_for_together_until_all_is_there():
    questions, sent = [], LocalRendezvous()

    async def ask(task, keys):
        questions.append((task, [key.edge for key in keys]))
        return dict(await sent.recv_any(keys, lambda value: value != "large"))

    keys = [Key(f"&{number}", f"{HERE}/device:CPU:0", 1, f"{THERE}/device:CPU:0") for number in range(20)]
    receiver = RemoteRendezvous(THERE, ask)
    received = [asyncio.ensure_future(receiver.recv(key)) for key in keys]
    await asyncio.sleep(0.01)
    assert questions == [(HERE, [f"&{n}" for n in range(16)]), (HERE, [f"&{n}" for n in range(16, 20)])]
    values = ["large" if number == 3 else number for number in range(20)]
    for key, value in zip(keys, values, strict=True):
        sent.send(key, value)
    assert await asyncio.gather(*received) == values
    assert questions[2:] == [(HERE, ["&3"])]
    receiver.close()
    await receiver.settled()


async def test_what_was_to_be_asked_for_is_not_when_the_step_ends_first():
    async def never(task, keys):
        raise AssertionError("the step is over")

    receiver = RemoteRendezvous(THERE, never)
    key = Key("&0", f"{HERE}/device:CPU:0", 1, f"{THERE}/device:CPU:0")
    received = asyncio.ensure_future(receiver.recv(key))
    asyncio.get_running_loop().call_soon(receiver.close)
    await asyncio.sleep(0.01)
    with pytest.raises(errors.CancelledError):
        await received
    for late in (key, key._replace(edge="0")):
        with pytest.raises(errors.CancelledError):
            await receiver.recv(late)
    receiver.arrive(key, 1)
    await receiver.settled()
