import asyncio

import numpy as np
import pytest

from aioflow import errors
from aioflow.net.wire.limits import INLINE
from aioflow.net.worker.remote_rendezvous import RemoteRendezvous, batches, keys_of, numbers_of
from aioflow.rendezvous import LocalRendezvous
from aioflow.resources.lendable import MOVED
from tests.support.edges import edge_key
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


async def test_what_is_wanted_in_one_turn_of_the_loop_is_asked_for_together_until_all_is_there():
    questions, sent = [], LocalRendezvous()

    async def ask(task, keys):
        questions.append((task, [each.edge.number for each in keys]))
        return dict(await sent.recv_any(keys, lambda value: value != "large"))

    keys = [edge_key(number, f"{HERE}/device:CPU:0", f"{THERE}/device:CPU:0", way="&") for number in range(20)]
    receiver = RemoteRendezvous(THERE, ask)
    received = [asyncio.ensure_future(receiver.recv(each)) for each in keys]
    await asyncio.sleep(0.01)
    assert questions == [(HERE, list(range(16))), (HERE, list(range(16, 20)))]
    values = ["large" if number == 3 else number for number in range(20)]
    for each, value in zip(keys, values, strict=True):
        sent.send(each, value)
    assert await asyncio.gather(*received) == values
    assert questions[2:] == [(HERE, [3])]
    receiver.close()
    await receiver.settled()


async def test_what_was_to_be_asked_for_is_not_when_the_step_ends_first():
    async def never(task, keys):
        raise AssertionError("the step is over")

    receiver = RemoteRendezvous(THERE, never)
    devices = f"{HERE}/device:CPU:0", f"{THERE}/device:CPU:0"
    together, alone = edge_key(0, *devices, way="&"), edge_key(1, *devices)
    received = asyncio.ensure_future(receiver.recv(together))
    asyncio.get_running_loop().call_soon(receiver.close)
    await asyncio.sleep(0.01)
    with pytest.raises(errors.CancelledError):
        await received
    for late in (together, alone):
        with pytest.raises(errors.CancelledError):
            await receiver.recv(late)
    receiver.arrive([together], [1])
    await receiver.settled()


def test_pushed_values_are_cut_into_messages_by_device_number_and_size():
    devices = f"{HERE}/device:CPU:0", f"{THERE}/device:CPU:0"
    small, large = np.zeros(1), np.zeros(100)
    one, other = [[(edge_key(n, *devices, source), small) for n in range(20)] for source in (1, 2)]
    assert batches(one[:1], 1) == [one[:1]]
    assert batches(one, 1 << 20) == [one[:16], one[16:]]
    assert batches(one[:2] + other[:2] + one[2:3], 1 << 20) == [one[:3], other[:2]]
    sizes = [(key, value) for (key, _), value in zip(one, [small, large, small, large, large], strict=False)]
    assert batches(sizes, 816) == [sizes[:3], sizes[3:4], sizes[4:]]


def test_a_pushed_value_that_may_lie_in_shared_memory_comes_last_in_a_message_after_small_values():
    devices = f"{HERE}/device:CPU:0", f"{THERE}/device:CPU:0"
    small, large = np.zeros(1, np.uint8), np.zeros(MOVED, np.uint8)
    values = [small, large, large, small, small]
    items = [(edge_key(number, *devices), value) for number, value in enumerate(values)]
    assert batches(items, 4 * MOVED) == [[items[0], items[3], items[4], items[1]], items[2:3]]
    items[3] = items[3][0], np.zeros(INLINE, np.uint8)
    assert batches(items, 4 * MOVED) == [[items[0], items[3], items[4]], items[1:2], items[2:3]]
    items[3] = items[3][0], np.zeros(MOVED - 1, np.uint8)
    assert batches(items, MOVED) == [[items[0], items[3]], [items[4], items[1]], items[2:3]]


def test_a_key_is_found_by_the_numbers_that_another_task_sends():
    key = edge_key(7, f"{HERE}/device:CPU:0", f"{THERE}/device:CPU:0", 1 << 63, (3, 1))
    assert keys_of(1 << 63, [numbers_of(key), (7,)]) == [key, key._replace(iteration=())]
    assert keys_of(1, [numbers_of(key)]) != [key]


async def test_the_waiters_of_a_task_are_not_those_of_the_requests_of_other_tasks():
    rendezvous = RemoteRendezvous(HERE, lambda task, keys: asyncio.sleep(3600))
    own, others = [edge_key(n, f"{HERE}/device:CPU:0", f"{task}/device:CPU:1") for n, task in ((1, HERE), (2, THERE))]
    tasks = [
        asyncio.ensure_future(rendezvous.recv(own)),
        asyncio.ensure_future(rendezvous.here.recv_any(keys_of(1, [numbers_of(others)]))),
    ]
    await asyncio.sleep(0)
    assert [waiting.key for waiting in rendezvous.waiting] == [own]
    rendezvous.close()
    await asyncio.gather(*tasks, return_exceptions=True)
