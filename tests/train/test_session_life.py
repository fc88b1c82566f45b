"""The hooks of a session: how long they may take until they know it."""

import asyncio

import pytest

import aioflow as af
from aioflow import errors


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


class Hanging(af.train.SessionRunHook):
    """Waits for what never comes, when it is told of the session for the n-th time."""

    def __init__(self, at):
        self.told, self.at, self.lost = 0, at, False
        self.never = af.FIFOQueue(1, [af.int32]).dequeue(name="never")

    async def after_create_session(self, session, coord):
        self.told += 1
        if self.told == self.at:
            await session.run(self.never)

    def before_run(self, run_context):
        if self.told == 1 and not self.lost:
            self.lost = True
            raise errors.UnavailableError("gone")


@pytest.mark.parametrize("at", [1, 2], ids=["at first", "after a loss"])
async def test_a_hook_that_hangs_ends_with_the_time_of_the_session_and_is_named(at):
    hook, now = Hanging(at), asyncio.get_running_loop().time
    began = now()

    async def train():
        async with af.train.MonitoredSession(af.train.ChiefSessionCreator(max_wait_secs=5), [hook]) as session:
            await session.run(af.get_default_graph().get_operation_by_name("x"))

    af.no_op(name="x")
    with pytest.raises(errors.DeadlineExceededError, match="after_create_session of Hanging was not done") as caught:
        await train()
    assert 5 <= now() - began < 6.1
    assert hook.told == at
    assert "'never'" in str(caught.value)
    assert "test_session_life.py" in str(caught.value)


async def test_who_gives_up_waiting_for_a_hook_leaves_nothing_open():
    async def enter():
        async with af.train.MonitoredSession(hooks=[Hanging(1)]):
            pass

    entering = asyncio.create_task(enter())
    await asyncio.sleep(1)
    entering.cancel()
    await asyncio.wait([entering])
    assert entering.cancelled()
