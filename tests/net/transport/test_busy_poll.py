"""When a loop polls for messages, and when it sleeps."""

import asyncio
import sys

import pytest

from aioflow.net.transport import busy_poll
from aioflow.net.transport.busy_poll import SHORT, BusyPoll, busy_poll_of


class Processor:
    """A clock on which each turn of a polling loop takes a tenth of a short wait."""

    def __init__(self):
        self.now = 0.0
        self.turns = 0

    def leave(self):
        self.turns += 1
        self.now += SHORT / 10


@pytest.fixture
def processor():
    return Processor()


@pytest.fixture
def poll(processor):
    found = BusyPoll(processor.leave)
    found.clock = lambda: processor.now
    return found


async def asleep():
    """Return once the loop has nothing ready: virtual time passes only then."""
    await asyncio.sleep(1)


async def test_a_loop_sleeps_after_a_long_wait_and_polls_after_a_short_one(poll, processor):
    poll.received()
    await asleep()
    assert processor.turns == 0
    processor.now += SHORT / 2
    poll.received()
    await asleep()
    assert processor.turns in (10, 11)  # as the floats are rounded: then it sleeps
    processor.now += 10 * SHORT
    poll.received()
    await asleep()
    assert processor.turns <= 11


async def test_each_message_prolongs_the_polling_by_one_loop(poll, processor):
    poll.received()
    poll.received()
    for _ in range(3):
        await asyncio.sleep(0)
    assert processor.turns == 1
    poll.received()
    poll.sent()
    await asleep()
    assert processor.turns in (11, 12)


async def test_what_a_message_has_started_runs_before_the_processor_is_left(poll, processor):
    poll.received()
    for _ in range(3):
        poll.received()
        turns, done = processor.turns, []
        asyncio.get_running_loop().call_soon(done.append, processor)
        await asyncio.sleep(0)
        assert (done, processor.turns) == ([processor], turns)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def test_what_has_come_meanwhile_is_read_before_the_processor_is_left_again(processor):
    read = []

    def leave():
        processor.leave()
        turns = processor.turns
        asyncio.get_running_loop().call_later(0, lambda: read.append(processor.turns - turns))

    poll = BusyPoll(leave)
    poll.clock = lambda: processor.now
    poll.received()
    poll.received()
    await asleep()
    assert read == [0] * processor.turns


async def test_a_loop_polls_for_the_answer_to_a_late_message_if_the_last_one_came_soon(poll, processor):
    poll.sent()
    processor.now += SHORT / 2
    poll.received()
    await asleep()
    turns = processor.turns
    processor.now += 1000 * SHORT
    poll.sent()
    await asleep()
    assert processor.turns >= turns + 10


@pytest.mark.skipif(sys.platform != "linux", reason="processes poll on Linux alone")
async def test_a_process_polls_if_it_has_several_processors(monkeypatch):
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(busy_poll.os, "sched_getaffinity", lambda process: {0, 1})
    found = busy_poll_of(loop)
    assert found is not None
    assert busy_poll_of(loop) is found
    monkeypatch.setattr(busy_poll.os, "sched_getaffinity", lambda process: {1})
    assert busy_poll_of(loop) is None
