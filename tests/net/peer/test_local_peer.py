"""A task that is its own peer: it answers itself as it answers others."""

import asyncio

import pytest

from aioflow import errors
from aioflow.net.peer.local_peer import LocalPeer
from aioflow.net.wire.control_verbs import Reply
from tests.support.net_peers import FAILING, WAITING, Service


class Later:
    """An answer that the test gives. Its cancelled work lasts until the test ends it."""

    def __init__(self):
        self.on_answer = None
        self.ended = asyncio.Event()

    def cancel(self):
        self.on_answer = None
        return asyncio.create_task(self.ended.wait())


class Quick(Service):
    """Begins the answers to `WAITING` without an asyncio task, and has no quick handler for other requests."""

    def __init__(self):
        super().__init__()
        self.begun = []
        self.quick = {type(WAITING): self.begin}

    def begin(self, call):
        self.begun.append(Later())
        return self.begun[-1]


@pytest.fixture
def service():
    return Quick()


@pytest.fixture
def peer(service):
    return LocalPeer(service)


async def test_a_later_answer_to_itself_ends_the_request(service, peer):
    answers = [asyncio.create_task(peer.request(WAITING)) for _ in range(2)]
    await asyncio.sleep(1)
    service.begun[0].on_answer(Reply())
    service.begun[1].on_answer(errors.DataLossError("lost"))
    assert await answers[0] == Reply()
    with pytest.raises(errors.DataLossError, match="lost"):
        await answers[1]
    assert not service.calls  # the handler does not begin the work a second time


async def test_a_later_answer_to_itself_comes_by_the_function_or_is_cancelled(service, peer):
    found = []
    assert peer.ask_at_once(WAITING, found.append) is not None
    assert not found
    service.begun[0].on_answer(Reply())
    assert found == [Reply()]
    cancel = peer.ask_at_once(WAITING, found.append)
    end = cancel()
    assert service.begun[1].on_answer is None
    service.begun[1].ended.set()
    await end
    assert peer.ask_at_once(FAILING, found.append) is None
    assert found == [Reply()]


@pytest.mark.parametrize("deadline", [None, 2.0])
async def test_a_cancelled_request_to_itself_ends_with_the_work_for_its_answer(service, peer, deadline):
    now = asyncio.get_running_loop().time
    answer = asyncio.create_task(peer.request(WAITING, deadline=None if deadline is None else now() + deadline))
    await asyncio.sleep(1)
    if deadline is None:
        answer.cancel()
    await asyncio.sleep(5)
    assert not answer.done()
    service.begun[0].ended.set()
    with pytest.raises(asyncio.CancelledError if deadline is None else errors.DeadlineExceededError):
        await answer
    assert not service.calls
