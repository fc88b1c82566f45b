"""What every rendezvous must do. An implementation inherits `RendezvousTests` and gives it two ends to meet at."""

import asyncio
import contextlib
import random
from typing import NamedTuple

import numpy as np
import pytest

from aioflow import errors
from aioflow.kernels.control.control_flow import DEAD
from aioflow.rendezvous import Rendezvous
from tests.support.edges import edge, edge_key

CPU_0, CPU_1 = (f"/job:localhost/replica:0/task:0/device:CPU:{index}" for index in (0, 1))
KEY = edge_key(1, CPU_0, CPU_1, 0x1F, (3, 1), name="add:0")
OTHERS = {
    "edge": KEY._replace(edge=edge(2, CPU_0, CPU_1, 0x1F, name="add:1")),
    "incarnation": KEY._replace(edge=edge(1, CPU_0, CPU_1, 0x20, name="add:0")),
    "iteration": KEY._replace(iteration=(3, 2)),
    "depth": KEY._replace(iteration=(3,)),
}
CAUSE = errors.DataLossError("a cause").at("op", "add", line="model.py:1 in f", device=CPU_0, shapes=["float32[2]"])


class Ends(NamedTuple):
    """The two sides of a rendezvous: what is sent at one is received at the other. They may be one object."""

    sender: Rendezvous
    receiver: Rendezvous


async def outcome(task):
    return (await asyncio.gather(task, return_exceptions=True))[0]


def numbers(values):
    return [int(value) for value in values]


class RendezvousTests:
    """The contract. Values are arrays, for those that send bytes.

    A subclass has a fixture `ends` that gives new ones and closes them, and overrides `arrive` if what was sent or
    asked for needs more than a few turns of the loop to get to the other end.
    """

    async def arrive(self):
        for _ in range(4):
            await asyncio.sleep(0)

    @contextlib.asynccontextmanager
    async def receiving(self, ends, *keys):
        """Tasks that wait for these keys, and are gone in the end."""
        tasks = []
        for key in keys:
            tasks.append(asyncio.create_task(ends.receiver.recv(key)))
            await self.arrive()
        yield tasks
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def test_what_is_sent_first_is_received_once(self, ends):
        ends.sender.send(KEY, np.arange(3))
        await self.arrive()
        assert (await ends.receiver.recv(KEY)).tolist() == [0, 1, 2]
        async with self.receiving(ends, KEY) as (again,):
            assert not again.done()

    async def test_whoever_receives_first_gets_what_is_sent_then(self, ends):
        async with self.receiving(ends, KEY) as (task,):
            assert not task.done()
            ends.sender.send(KEY, np.float32(2))
            assert await task == 2

    async def test_values_of_one_key_are_received_in_the_order_they_were_sent(self, ends):
        for number in range(5):
            ends.sender.send(KEY, np.int64(number))
        assert numbers([await ends.receiver.recv(KEY) for _ in range(5)]) == [0, 1, 2, 3, 4]

    async def test_receivers_of_one_key_are_served_in_the_order_they_came(self, ends):
        async with self.receiving(ends, KEY, KEY, KEY) as tasks:
            for number in range(3):
                ends.sender.send(KEY, np.int64(number))
            assert numbers(await asyncio.gather(*tasks)) == [0, 1, 2]

    async def test_who_comes_while_others_are_being_served_comes_after_them(self, ends):
        async with self.receiving(ends, KEY) as (first,):
            for number in range(2):
                ends.sender.send(KEY, np.int64(number))
            second = await ends.receiver.recv(KEY)
            assert numbers([await first, second]) == [0, 1]

    @pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
    async def test_keys_that_differ_in_one_part_do_not_meet(self, ends, other):
        async with self.receiving(ends, KEY, other) as (mine, others):
            ends.sender.send(other, np.int64(1))
            assert await others == 1
            assert not mine.done()

    async def test_the_dead_mark_arrives_as_itself(self, ends):
        async with self.receiving(ends, KEY) as (task,):
            ends.sender.send(KEY, DEAD)
            assert await task is DEAD

    async def test_many_keys_meet_in_any_order(self, ends):
        keys = [edge_key(number, CPU_0, CPU_1, iteration=(number % 7,)) for number in range(200)]
        order = random.Random(1).sample(range(200), 200)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ends.receiver.recv(key)) for key in keys[:100]]
            await self.arrive()
            for number in order:
                ends.sender.send(keys[number], np.int64(number))
            tasks += [group.create_task(ends.receiver.recv(key)) for key in keys[100:]]
        assert numbers(task.result() for task in tasks) == list(range(200))

    # Cancelling

    async def test_whoever_is_cancelled_gives_up_the_place_and_takes_nothing(self, ends):
        async with self.receiving(ends, KEY, KEY) as (first, second):
            first.cancel()
            await self.arrive()
            ends.sender.send(KEY, np.int64(1))
            assert await second == 1
            assert first.cancelled()

    async def test_a_value_on_its_way_to_one_who_is_cancelled_is_the_next_ones(self, ends):
        async with self.receiving(ends, KEY, KEY) as (first, second):
            ends.sender.send(KEY, np.int64(1))
            first.cancel()
            ends.sender.send(KEY, np.int64(2))
            assert await second == 1
            assert await ends.receiver.recv(KEY) == 2

    async def test_a_value_on_its_way_to_one_who_is_cancelled_stays_for_whoever_comes(self, ends):
        async with self.receiving(ends, KEY) as (task,):
            ends.sender.send(KEY, np.int64(1))
            task.cancel()
            assert isinstance(await outcome(task), asyncio.CancelledError)
            assert await ends.receiver.recv(KEY) == 1

    async def test_a_wait_may_have_a_limit(self, ends):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await ends.receiver.recv(KEY)
        assert ends.receiver.waiting == []

    # Ending

    @pytest.mark.parametrize("end", Ends._fields)
    async def test_an_abort_fails_all_who_wait_with_its_error(self, ends, end):
        async with self.receiving(ends, KEY, KEY, OTHERS["edge"]) as tasks:
            getattr(ends, end).abort(CAUSE)
            found = [await outcome(task) for task in tasks]
        assert [type(error) for error in found] == [errors.DataLossError] * 3
        assert [str(error) for error in found] == [str(CAUSE)] * 3
        assert [error.shapes for error in found] == [CAUSE.shapes] * 3
        assert len({id(error) for error in found}) == 3  # each with a traceback of its own

    @pytest.mark.parametrize("end", Ends._fields)
    async def test_an_abort_fails_all_who_come_and_drops_what_was_sent(self, ends, end):
        ends.sender.send(KEY, np.int64(1))
        getattr(ends, end).abort(CAUSE)
        await self.arrive()
        for _ in range(2):
            with pytest.raises(errors.DataLossError, match="a cause"):
                await ends.receiver.recv(KEY)
        with pytest.raises(errors.DataLossError, match="a cause"):
            getattr(ends, end).send(KEY, np.int64(2))
        assert getattr(ends, end).unreceived == 0

    async def test_of_several_aborts_the_first_counts(self, ends):
        async with self.receiving(ends, KEY) as (task,):
            ends.receiver.abort(CAUSE)
            ends.receiver.abort(errors.AbortedError("another"))
            ends.receiver.close()
            assert isinstance(await outcome(task), errors.DataLossError)
        with pytest.raises(errors.DataLossError, match="a cause"):
            await ends.receiver.recv(KEY)

    async def test_an_abort_in_the_turn_in_which_a_value_was_sent_ends_in_one_of_both(self, ends):
        async with self.receiving(ends, KEY) as (task,):
            ends.sender.send(KEY, np.int64(1))
            ends.sender.abort(CAUSE)
            found = await outcome(task)
        assert isinstance(found, errors.DataLossError) or found == 1

    async def test_closing_fails_all_who_wait_and_all_who_come(self, ends):
        async with self.receiving(ends, KEY) as (task,):
            ends.receiver.close()
            assert isinstance(await outcome(task), errors.CancelledError)
        with pytest.raises(errors.CancelledError):
            await ends.receiver.recv(KEY)
        with pytest.raises(errors.CancelledError):
            ends.receiver.send(KEY, np.int64(1))

    async def test_closing_tells_what_was_sent_and_never_received(self, ends):
        ends.sender.send(KEY, np.int64(1))
        ends.sender.send(KEY, np.int64(2))
        ends.sender.send(OTHERS["edge"], DEAD)
        assert ends.sender.unreceived == 3
        assert ends.sender.close() == (KEY, OTHERS["edge"])
        assert ends.sender.unreceived == 0
        assert ends.sender.close() == ()
        with pytest.raises(errors.CancelledError, match=r"never received: .*add:0;3:1, .*add:1;3:1"):
            ends.sender.send(KEY, np.int64(1))

    # Asking

    async def test_those_who_wait_are_listed_with_the_time_they_came(self, ends):
        before = asyncio.get_running_loop().time()
        async with self.receiving(ends, KEY, OTHERS["edge"]) as (first, _):
            await asyncio.sleep(0.01)
            waiting = ends.receiver.waiting
            assert [key for key, _ in waiting] == [KEY, OTHERS["edge"]]
            assert all(before <= since < asyncio.get_running_loop().time() for _, since in waiting)
            first.cancel()
            await self.arrive()
            assert [key for key, _ in ends.receiver.waiting] == [OTHERS["edge"]]
        assert ends.receiver.waiting == []

    async def test_what_was_received_is_not_kept(self, ends):
        async with self.receiving(ends, KEY) as (task,):
            ends.sender.send(KEY, np.int64(1))
            await task
        assert (ends.sender.unreceived, ends.receiver.unreceived, ends.receiver.waiting) == (0, 0, [])
        assert ends.sender.close() == ()
