"""Whether what was sent unasked has come."""

import asyncio

import pytest

from aioflow import errors
from aioflow.net.receipts import Receipts
from aioflow.net.worker_verbs import Arrived

TASK = "/job:ps/replica:0/task:1"


class Peer:
    """A task to which nothing came of some steps."""

    def __init__(self, lost):
        self.lost, self.asked = lost, []

    async def of(self, task):
        return self

    async def request(self, message):
        self.asked.append(message)
        return Arrived(tuple([step for step in message.steps if step in self.lost]))


async def test_one_question_is_asked_for_several_steps():
    peer, tasks = Peer(()), []
    receipts = Receipts(peer, lambda work: tasks.append(asyncio.ensure_future(work)))
    await asyncio.gather(receipts.of(TASK, 7, 2), receipts.of(TASK, 8, 1))
    assert [(message.steps, message.counts) for message in peer.asked] == [((7, 8), (2, 1))]
    assert all(task.done() for task in tasks)


async def test_what_was_lost_with_a_connection_may_be_sent_again_by_another_step():
    peer, tasks = Peer((7,)), []
    receipts = Receipts(peer, lambda work: tasks.append(asyncio.ensure_future(work)))
    lost, there = await asyncio.gather(receipts.of(TASK, 7, 2), receipts.of(TASK, 8, 1), return_exceptions=True)
    assert there is None
    with pytest.raises(errors.UnavailableError, match=f"of 2 values not all have come to {TASK}"):
        raise lost
