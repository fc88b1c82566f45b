"""Peers over channels in memory: requests, what becomes of them, and how a peer is lost."""

import asyncio
import random
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from aioflow import errors
from aioflow.net.peer import serving
from aioflow.net.peer.handshake import Acceptor, connect
from aioflow.net.peer.reconnect import Loss
from aioflow.net.transport.in_memory import MemoryNetwork
from aioflow.net.wire.codec import ProtocolError
from aioflow.net.wire.control_verbs import VERSIONS, Hello, Reply, Welcome
from aioflow.net.wire.identity import Identity, Settings
from aioflow.net.wire.limits import Limits
from aioflow.net.wire.master_verbs import RunStep
from aioflow.net.wire.schema import Request
from aioflow.net.wire.worker_verbs import GetStatus, GraphRan, PushTensors, RecvTensor, RunGraph, TensorSent
from aioflow.resources.buffers import BUFFERS
from aioflow.testing.chaos import describe_frame
from tests.support.net_frames import announced, frame, frames
from tests.support.net_peers import (
    FAILING,
    PS,
    SESSION,
    WAITING,
    WORKER,
    Service,
    feeding,
    idle,
    meeting,
    outcome,
    tensor,
)
from tests.support.scale import some

LATENCY = 0.001
BANDWIDTH = 1e9


@pytest.fixture
def network():
    return MemoryNetwork(LATENCY, BANDWIDTH)


@pytest.fixture
def service():
    return Service()


@pytest.fixture
async def pair(network, service):
    async with meeting(network.at("a"), network.at("b"), "b", service) as pair:
        yield pair


@pytest.fixture
def peer(pair):
    return pair[0]


@pytest.fixture
def other(pair):
    return pair[1]


def now():
    return asyncio.get_running_loop().time()


async def settle(seconds=1.0):
    """What is on its way arrives."""
    await asyncio.sleep(seconds)


# Asking


async def test_both_know_who_the_other_is(peer, other):
    assert (peer.remote.task, peer.local.task) == (WORKER, PS)
    assert (other.remote.task, other.local.task) == (PS, WORKER)
    assert peer.remote.incarnation == other.local.incarnation
    assert peer.channels == other.channels == 2


@pytest.mark.parametrize("nbytes", [0, 100, 20_000, 5 << 20])
async def test_a_request_is_answered(peer, nbytes):
    found = await peer.request(tensor(nbytes, 3))
    assert found.values[0].shape == (nbytes,)
    assert (found.values[0] == 3).all()
    assert (await peer.request(feeding(np.ones(nbytes, np.uint8)))).values == (nbytes,)
    assert idle(peer)


async def test_many_requests_are_under_way_at_a_time(peer):
    began = now()
    found = await asyncio.gather(*[peer.request(tensor(1000 * number, number)) for number in range(50)])
    assert [len(answer.values[0]) for answer in found] == [1000 * number for number in range(50)]
    assert now() - began < 10 * LATENCY


async def test_either_side_may_ask(network, service):
    acceptor = Acceptor(Identity(WORKER), service)
    listener = await network.at("b").listen("b", acceptor.accept)
    peer = await connect(network.at("a"), "b", Identity(PS), handler=Service())
    (other,) = acceptor.peers.values()
    assert len((await other.request(tensor(1 << 20))).values[0]) == 1 << 20
    await peer.close()
    await acceptor.close()
    await listener.close()


async def test_an_error_is_raised_here_as_it_was_there(peer, service):
    with pytest.raises(errors.DataLossError, match="a cause") as caught:
        await peer.request(FAILING)
    assert (caught.value.op, caught.value.task) == ("add", WORKER)
    service.error = ZeroDivisionError("division by zero")
    with pytest.raises(errors.UnknownError, match="ZeroDivisionError: division by zero"):
        await peer.request(FAILING)
    with pytest.raises(errors.UnimplementedError, match="GetStatus is not served"):
        await peer.request(GetStatus())


async def test_a_client_answers_nothing(other):
    with pytest.raises(errors.UnimplementedError, match="GetStatus is not answered here"):
        await other.request(GetStatus())


async def test_what_cannot_be_sent_costs_nothing(peer, service):
    with pytest.raises(errors.InvalidArgumentError, match="cannot leave its process"):
        await peer.request(feeding(object()))
    assert idle(peer)
    assert service.calls == []


async def test_an_answer_that_is_none_is_an_error(peer, service):
    async def answer(call):
        return Reply() if call.message == GetStatus() else GraphRan((object(),))

    service.answer = answer
    with pytest.raises(errors.InternalError, match="GetStatus was answered by Reply, not Status"):
        await peer.request(GetStatus())
    with pytest.raises(errors.InvalidArgumentError, match="cannot leave its process"):
        await peer.request(feeding(1))


async def test_a_small_value_overtakes_a_huge_one(peer):
    huge = asyncio.create_task(peer.request(tensor(100 << 20)))
    await asyncio.sleep(0.01)
    began = now()
    await peer.request(tensor(1 << 20))
    assert now() - began < 0.02
    await peer.request(tensor(1))
    assert not huge.done()
    assert len((await huge).values[0]) == 100 << 20


async def test_control_does_not_wait_for_bulk(peer):
    bulk = [asyncio.create_task(peer.request(tensor(30 << 20))) for _ in range(8)]
    await asyncio.sleep(0.02)
    for _ in range(20):
        began = now()
        await peer.request(tensor(4))
        assert now() - began == pytest.approx(2 * LATENCY, rel=0.1)
    assert not any(task.done() for task in bulk[4:])
    await asyncio.gather(*bulk)


async def test_no_more_is_on_its_way_than_the_window_allows(network, service):
    settings = Settings(Limits(window=256 << 10))
    async with meeting(network.at("a"), network.at("b"), "b", service, settings) as (peer, other):
        tasks = [asyncio.create_task(peer.request(feeding(np.ones(100_000, np.uint8)))) for _ in range(20)]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(LATENCY / 10)
            assert all(0 <= credit <= 256 << 10 for credit in peer.statistics.credit)
            assert other.statistics.arriving <= 2
        assert {task.result().values[0] for task in tasks} == {100_000}
        assert idle(peer)
        assert idle(other)


# Asking without an asyncio task


async def test_a_request_at_once_gives_the_answer_to_a_function(peer, other):
    found = []
    assert peer.ask_at_once(feeding(np.ones(3, np.uint8)), found.append) is not None
    assert peer.statistics.asked == 1
    await settle()
    assert [answer.values for answer in found] == [(3,)]
    assert idle(peer)


async def test_a_request_at_once_gives_the_error_to_the_function(peer):
    found = []
    peer.ask_at_once(FAILING, found.append)
    await settle()
    assert [type(error) for error in found] == [errors.DataLossError]
    assert idle(peer)


async def test_a_request_at_once_that_is_cancelled_is_cancelled_there(peer, service):
    found = []
    cancel = peer.ask_at_once(WAITING, found.append)
    await settle()
    assert (len(service.calls), service.ended) == (1, [])
    cancel()
    cancel()
    await settle()
    assert len(service.ended) == 1
    assert not found
    assert idle(peer)


async def test_a_request_at_once_to_a_peer_that_is_lost_fails(peer):
    found = []
    peer.ask_at_once(WAITING, found.append)
    await peer.close()
    assert [type(error) for error in found] == [errors.CancelledError]
    assert peer.ask_at_once(WAITING, found.append) is None


async def test_a_request_that_must_wait_or_cannot_be_sent_is_not_sent_at_once(network, service):
    settings = Settings(Limits(requests=1))
    async with meeting(network.at("a"), network.at("b"), "b", service, settings) as (peer, _):
        found = []
        assert peer.ask_at_once(feeding(object()), found.append) is None
        cancel = peer.ask_at_once(WAITING, found.append)
        assert peer.ask_at_once(WAITING, found.append) is None
        cancel()
        await settle()
        assert not found
        assert idle(peer)
        assert len((await peer.request(tensor(8))).values[0]) == 8


class Later:
    """An answer that the test gives."""

    def __init__(self):
        self.on_answer = None
        self.cancelled = False
        self.ended = None

    def cancel(self):
        self.cancelled = True
        return None if self.ended is None else asyncio.create_task(self.ended.wait())


@pytest.fixture
def later(service):
    """The answers that are begun, without an asyncio task, to `WAITING`."""
    begun = []

    def quick(call):
        begun.append(Later())
        return begun[-1]

    service.quick = {type(WAITING): quick}
    return begun


async def test_a_quick_handler_may_answer_later(later, peer, other):
    answers = [asyncio.create_task(peer.request(WAITING)) for _ in range(2)]
    await settle()
    assert other.statistics.serving == len(later) == 2
    later[1].on_answer(Reply())
    later[0].on_answer(errors.DataLossError("lost"))
    assert await answers[1] == Reply()
    with pytest.raises(errors.DataLossError, match="lost"):
        await answers[0]
    assert idle(other)


@pytest.mark.parametrize("nbytes", [0, 1 << 20])
async def test_a_later_answer_is_cancelled_with_its_request(later, service, peer, other, nbytes):
    request = feeding(np.ones(nbytes, np.uint8))
    service.quick[type(request)] = service.quick[type(WAITING)]
    answer = asyncio.create_task(peer.request(request))
    await settle()
    assert other.statistics.held == nbytes
    answer.cancel()
    await settle()
    assert later[0].cancelled
    assert idle(other)


async def test_a_cancelled_later_answer_counts_until_its_work_has_ended(later, peer, other):
    answer = asyncio.create_task(peer.request(WAITING))
    await settle()
    later[0].ended = asyncio.Event()
    answer.cancel()
    await settle()
    assert later[0].cancelled
    assert other.statistics.serving == 1
    later[0].ended.set()
    await settle()
    assert idle(other)


async def test_a_later_answer_that_cannot_be_sent_loses_the_peer_and_raises_nothing(later, peer, other, monkeypatch):
    answer = asyncio.create_task(peer.request(WAITING))
    await settle()

    def refuse(*given):
        raise ProtocolError("far too many requests are open")

    monkeypatch.setattr(type(other._serving), "_finish", refuse)
    later[0].on_answer(Reply())  # within a message of another peer
    with pytest.raises(errors.UnavailableError, match="far too many requests are open"):
        await answer
    assert other.end is not None


@pytest.mark.parametrize("value", [object(), np.datetime64("2026-11-27")], ids=["no tensor", "no dtype of aioflow"])
async def test_a_later_answer_whose_values_cannot_be_sent_is_an_error(later, service, peer, other, value):
    request = feeding(np.ones(8, np.uint8))
    service.quick[type(request)] = service.quick[type(WAITING)]
    answer = asyncio.create_task(peer.request(request))
    await settle()
    later[0].on_answer(GraphRan((value,)))
    with pytest.raises(errors.InvalidArgumentError, match=r"cannot leave its process|not a dtype of aioflow"):
        await answer
    assert idle(other)


@pytest.mark.parametrize("quick", [False, True])
async def test_an_answer_whose_header_is_too_long_is_an_error_and_takes_no_credit(network, service, quick):
    answer, limits = GraphRan((np.ones(1, np.float32),) * 5000), Limits(header=64 << 10)

    async def answered(call):
        return answer

    service.answer, service.quick = answered, {RunGraph: lambda call: answer} if quick else {}
    async with meeting(network.at("a"), network.at("b"), "b", service, Settings(limits)) as (peer, other):
        with pytest.raises(errors.ResourceExhaustedError, match=r"the header of GraphRan has \d+ bytes, 65536 are"):
            await peer.request(feeding(1))
        assert other.statistics.credit == (limits.window, limits.window)
        assert idle(other)


async def test_later_answers_are_cancelled_when_the_peer_is_lost(later, peer, other):
    answer = asyncio.create_task(peer.request(WAITING))
    await settle()
    await other.close()
    assert later[0].cancelled
    with pytest.raises(errors.OpError):
        await answer


async def test_a_request_that_is_answered_later_is_not_begun_again(later, peer, other):
    answers = [asyncio.create_task(peer.request(WAITING, number=9))]
    await settle()
    peer._asking._asked.clear()
    answers.append(asyncio.create_task(peer.request(WAITING, number=9)))
    await settle()
    assert len(later) == 1
    later[0].on_answer(Reply())
    assert await answers[1] == Reply()
    for answer in answers:
        answer.cancel()
    await asyncio.gather(*answers, return_exceptions=True)


# Notes with values


def pushing(nbytes, step=1):
    """A note with one value of the given size."""
    return PushTensors(step, 1, ((1,),), (np.full(nbytes, step, np.uint8),))


@pytest.fixture
def heard(service):
    """The notes that the task has heard, by step, with the bytes of their values."""
    found = {}
    service.notes = {PushTensors: lambda call: found.update({call.message.step: call.message.values[0].nbytes})}
    return found


@pytest.mark.parametrize("nbytes", [1, 20_000, 1 << 20])
async def test_a_note_of_up_to_a_burst_is_sent_at_once(heard, peer, other, nbytes):
    assert peer.push(pushing(nbytes)) is None
    await settle()
    assert heard == {1: nbytes}
    assert idle(other)


async def test_a_large_note_waits_for_room_and_small_ones_overtake_it(heard, peer, other):
    waits = peer.push(pushing(100 << 20, 1))
    large = asyncio.create_task(waits())
    await asyncio.sleep(0.02)
    assert peer.push(pushing(8, 2)) is None
    await asyncio.sleep(0.02)
    assert heard == {2: 8}
    await large
    await settle()
    assert heard == {1: 100 << 20, 2: 8}
    assert idle(other)


async def test_a_large_note_that_is_taken_back_is_not_heard(heard, peer, other):
    waits = peer.push(pushing(100 << 20))
    large = asyncio.create_task(waits())
    await asyncio.sleep(0.02)
    assert other.statistics.held == 100 << 20
    large.cancel()
    await settle()
    assert large.cancelled()
    assert not heard
    assert idle(other)
    assert peer.statistics.credit[-1] == peer.limits.window


async def test_without_credit_a_note_of_a_burst_waits(heard, network, service):
    settings = Settings(Limits(window=128 << 10))
    async with meeting(network.at("a"), network.at("b"), "b", service, settings) as (peer, other):
        assert peer.push(pushing(50_000, 1)) is None
        assert peer.push(pushing(50_000, 2)) is None
        waits = peer.push(pushing(50_000, 3))
        assert waits is not None
        await waits()
        await settle()
        assert heard == {1: 50_000, 2: 50_000, 3: 50_000}
        assert idle(other)


@pytest.fixture
def refused(service):
    """The steps of the notes that the task has refused, with the errors."""
    found = {}
    service.refused = {PushTensors: lambda call, error: found.update({call.message.step: error})}
    return found


async def test_a_note_for_which_there_is_no_room_is_refused_alone(heard, refused, network, service):
    settings = Settings(Limits(held=1 << 20))
    async with meeting(network.at("a"), network.at("b"), "b", service, settings) as (peer, other):
        for step, nbytes in enumerate((2_000_000, 1_000_000), 1):
            await (peer.push(pushing(nbytes, step)) or settle)()
        await settle()
        assert heard == {2: 1_000_000}
        assert list(refused) == [1]
        assert isinstance(refused[1], errors.ResourceExhaustedError)
        assert "there is no room for the 2000000 bytes of PushTensors" in str(refused[1])
        assert other.end is None
        assert idle(other)


async def test_a_note_for_which_there_is_no_memory_is_refused_alone(heard, refused, peer, other, monkeypatch):
    def none(*_):
        raise MemoryError

    assert peer.push(pushing(700_000, 1)) is None
    with monkeypatch.context() as patch:
        patch.setattr(np, "empty", none)
        patch.setattr(BUFFERS, "_fitting", lambda nbytes: None)
        await settle()
    assert peer.push(pushing(700_000, 2)) is None
    await settle()
    assert "there is no memory for the 700000 bytes of PushTensors" in str(refused[1])
    assert heard == {2: 700_000}
    assert idle(other)


async def test_a_note_that_no_handler_refuses_ends_the_connection(heard, network, service):
    settings = Settings(Limits(held=1 << 20))
    async with meeting(network.at("a"), network.at("b"), "b", service, settings) as (peer, other):
        waits = asyncio.create_task(peer.push(pushing(2_000_000))())
        await settle()
        assert waits.done()
        with pytest.raises(errors.UnavailableError):
            await peer.request(GetStatus())
        await asyncio.gather(waits, return_exceptions=True)
        assert "there is no room for the 2000000 bytes of PushTensors" in other.end.text
        assert not heard


async def test_to_a_lost_peer_no_note_is_sent(peer):
    peer.lose(Loss.LEFT)
    with pytest.raises(errors.CancelledError, match="PushTensors"):
        peer.push(pushing(1 << 20))


# Time


async def test_the_peer_is_told_how_much_time_is_left(peer, service):
    await peer.request(tensor(1), deadline=now() + 5, trace="00-" + "ab" * 16 + "-" + "cd" * 8 + "-01")
    (call,) = service.calls
    assert call.deadline == pytest.approx(now() + 5 - LATENCY, abs=LATENCY)
    assert call.trace.endswith("-01")


async def test_a_request_that_is_not_answered_in_time_ends_here_and_there(peer, service):
    began = now()
    with pytest.raises(
        errors.DeadlineExceededError, match="/task:1 has not answered DeregisterGraph within 2 s"
    ) as caught:
        await peer.request(WAITING, deadline=now() + 2)
    assert (now() - began, caught.value.task) == (2, WORKER)
    await settle()
    assert len(service.ended) == 1
    assert idle(peer)


async def test_what_has_no_time_left_is_not_begun(peer, service):
    with pytest.raises(errors.DeadlineExceededError):
        await peer.request(WAITING, deadline=now())
    await settle()
    assert service.calls == []


async def test_a_deadline_of_the_handlers_own_is_passed_on(peer, service):
    service.error = errors.DeadlineExceededError("a queue was empty for 1 s")
    with pytest.raises(errors.DeadlineExceededError, match="a queue was empty"):
        await peer.request(FAILING, deadline=now() + 100)


# Cancelling


async def test_cancelling_a_request_cancels_what_answers_it(peer, other, service):
    task = asyncio.create_task(peer.request(WAITING))
    await service.gate.arrived()
    task.cancel()
    assert isinstance(await outcome(task), asyncio.CancelledError)
    assert idle(peer)
    await settle()
    assert len(service.ended) == 1
    assert idle(other)


@pytest.mark.parametrize("after", [0, LATENCY / 2, LATENCY * 1.5, 0.005, 0.02, 0.05])
@pytest.mark.parametrize("request_", [tensor(40 << 20), feeding(np.ones(40 << 20, np.uint8))], ids=["pull", "push"])
async def test_cancelling_while_values_are_on_their_way_leaves_nothing(peer, other, request_, after):
    task = asyncio.create_task(peer.request(request_))
    await asyncio.sleep(after)
    task.cancel()
    await outcome(task)
    await settle()
    assert idle(peer)
    assert idle(other)
    assert (await peer.request(feeding(np.ones(40 << 20, np.uint8)))).values == (40 << 20,)
    assert len((await peer.request(tensor(40 << 20))).values[0]) == 40 << 20
    await settle()
    assert min(peer.statistics.credit + other.statistics.credit) > 7 * (64 << 20) // 8 - 1


@pytest.mark.parametrize("seed", some(range(40), 4))
async def test_cancelling_at_random_leaves_nothing(network, service, seed):
    rng = random.Random(seed)
    settings = Settings(Limits(window=1 << 20, requests=8))
    network.path("b", "a").delay = lambda: rng.random() * LATENCY
    async with meeting(network.at("a"), network.at("b"), "b", service, settings) as (peer, other):

        async def ask():
            size = rng.choice([1, 1000, 20_000, 300_000, 2 << 20])
            request = rng.choice([tensor(size), feeding(np.ones(size, np.uint8)), WAITING, FAILING])
            limit = rng.choice([None, rng.random() * 0.02])
            try:
                async with asyncio.timeout(rng.random() * 0.02):
                    answer = await peer.request(request, deadline=limit and now() + limit)
            except (TimeoutError, errors.OpError):
                return
            assert len(answer.values[0]) == size if isinstance(request, RecvTensor) else answer.values == (size,)

        await asyncio.gather(*[ask() for _ in range(60)])
        await settle()
        assert idle(peer)
        assert idle(other)
        assert len((await peer.request(tensor(3 << 20))).values[0]) == 3 << 20
        assert (await peer.request(feeding(np.ones(3 << 20, np.uint8)))).values == (3 << 20,)


async def test_dialling_that_is_cancelled_in_any_turn_leaves_no_connection(service):
    """Also in the turns after both channels are agreed on, in which the watch over the dialled task ends."""
    network = MemoryNetwork(0.0, BANDWIDTH)
    acceptor = Acceptor(Identity(WORKER), service, network=network.at("b"))
    listener = await network.at("b").listen("b", acceptor.accept)
    turns, done = 0, False
    while not done:
        dialling = asyncio.create_task(connect(network.at("a"), "b", Identity(PS), target=WORKER))
        for _ in range(turns):
            await asyncio.sleep(0)
        done = not dialling.cancel()
        result = await outcome(dialling)
        if done:
            await result.close()
        await settle()
        assert not acceptor.peers, f"cancelled after {turns} turns"
        turns += 1
    await acceptor.close()
    await listener.close()


# Too much


async def test_whoever_asks_waits_when_too_many_requests_are_under_way(network, service):
    settings = Settings(Limits(requests=3))
    async with meeting(network.at("a"), network.at("b"), "b", service, settings) as (peer, other):
        tasks = [asyncio.create_task(peer.request(WAITING)) for _ in range(5)]
        await settle()
        assert (peer.statistics.asked, other.statistics.serving) == (3, 3)
        service.gate.open()
        assert await asyncio.gather(*tasks) == [Reply()] * 5


async def test_requests_that_hold_too_much_are_refused_and_others_are_not(network, service):
    async def answer(call):
        await service.gate.wait()
        return await Service.answer(service, call)

    service.answer = answer
    settings = Settings(Limits(held=1 << 20))
    async with meeting(network.at("a"), network.at("b"), "b", service, settings) as (peer, other):
        first = asyncio.create_task(peer.request(feeding(np.ones(900_000, np.uint8))))
        await settle()
        with pytest.raises(errors.ResourceExhaustedError, match="900000 bytes are not answered yet, and 200000 more"):
            await peer.request(feeding(np.ones(200_000, np.uint8)))
        assert other.statistics.held == 900_000
        second = asyncio.create_task(peer.request(feeding(np.ones(100_000, np.uint8))))
        await settle()
        service.gate.open()
        assert [(await task).values[0] for task in (first, second)] == [900_000, 100_000]
        assert idle(other)


async def test_no_memory_for_an_answer_is_an_error_of_that_request_alone(peer, monkeypatch):
    def none(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(np, "empty", none)
        patch.setattr(BUFFERS, "_fitting", lambda nbytes: None)
        with pytest.raises(errors.ResourceExhaustedError, match="no memory for the 1234567 bytes of TensorSent"):
            await peer.request(tensor(1_234_567))
    assert len((await peer.request(tensor(1_234_567))).values[0]) == 1_234_567


# How a peer is lost


async def waiting_tasks(peer, service):
    tasks = [asyncio.create_task(peer.request(WAITING)) for _ in range(3)]
    tasks.append(asyncio.create_task(peer.request(tensor(100 << 20))))
    await service.gate.arrived(3)
    await asyncio.sleep(0.05)
    return tasks


async def test_a_peer_that_dies_fails_all_that_wait_at_once(network, pair, service):
    peer, other = pair
    tasks = await waiting_tasks(peer, service)
    began = now()
    network.crash("b")
    found = [await outcome(task) for task in tasks]
    assert now() - began == pytest.approx(2 * LATENCY)  # to dial it in vain
    assert {type(error) for error in found} == {errors.UnavailableError}
    assert {error.task for error in found} == {WORKER}
    text = f"{WORKER}, asked for DeregisterGraph, is gone: its process has ended: no server listens at b"
    assert found[0].message == text
    assert peer.end.loss is Loss.ENDED
    with pytest.raises(errors.UnavailableError, match="is gone"):
        await peer.request(tensor(1))
    await peer.closed()
    await other.closed()
    assert len(service.ended) == 4
    assert idle(peer)
    assert idle(other)


@pytest.mark.parametrize("silence", [5.0, 0.5])
async def test_a_peer_that_is_silent_is_lost_after_so_long(network, service, silence):
    settings = Settings(silence=silence)
    async with meeting(network.at("a"), network.at("b"), "b", service, settings, settings) as (peer, other):
        tasks = await waiting_tasks(peer, service)
        await asyncio.sleep(100)
        assert peer.end is None
        began = now()
        network.part("a", "b")
        found = [await outcome(task) for task in tasks[:3]]
        assert 0.7 * silence <= now() - began <= silence
        assert {type(error) for error in found} == {errors.UnavailableError}
        assert f"is silent: no message arrived from it for {silence:g} s" in found[0].message
        assert peer.end.loss is Loss.SILENT
        await settle(silence)
        assert other.end.loss is Loss.SILENT
        assert idle(other)
        network.heal("a", "b")


@pytest.fixture
def virtual_clock(monkeypatch):
    """The peers measure round trips and offsets in virtual time, whatever the machine takes."""
    monkeypatch.setattr("aioflow.net.peer.clock_comparison.time", SimpleNamespace(perf_counter=now))


async def test_a_peer_that_has_nothing_to_say_is_not_silent(virtual_clock, pair):
    peer, other = pair
    await asyncio.sleep(200)
    assert (peer.end, other.end) == (None, None)
    assert peer.statistics.round_trip == pytest.approx(2 * LATENCY, rel=0.01)
    assert peer.statistics.clock_offset == pytest.approx(0, abs=LATENCY / 100)


async def test_whoever_did_not_listen_itself_does_not_call_others_silent(network, pair, monkeypatch):
    peer, _ = pair
    loop = asyncio.get_running_loop()
    await asyncio.sleep(10)
    loop.call_soon(lambda: setattr(loop._clock, "now", loop._clock.now + 60))
    await asyncio.sleep(20)
    assert peer.end is None


async def test_whoever_says_goodbye_says_why(peer, other, service):
    tasks = await waiting_tasks(peer, service)
    await other.close("maintenance")
    found = await outcome(tasks[0])
    assert isinstance(found, errors.UnavailableError)
    assert found.message == f"{WORKER}, asked for DeregisterGraph, has left: it said goodbye: maintenance"
    assert peer.end.loss is Loss.GOODBYE
    await peer.closed()


async def test_closing_fails_what_waits_here_and_ends_what_answers_there(peer, other, service):
    tasks = await waiting_tasks(peer, service)
    await peer.close()
    assert {type(await outcome(task)) for task in tasks} == {errors.CancelledError}
    with pytest.raises(errors.CancelledError, match="was closed here"):
        await peer.request(tensor(1))
    await other.closed()
    assert other.end.loss is Loss.GOODBYE
    assert len(service.ended) == 4
    await peer.close()


async def test_a_peer_may_be_told_to_be_lost(peer, service):
    tasks = await waiting_tasks(peer, service)
    peer.lose(Loss.GONE, "it has restarted")
    assert "is gone: its connection was lost: it has restarted" in (await outcome(tasks[0])).message
    await peer.closed()


async def test_peers_say_how_they_are(peer, other, service):
    task = asyncio.create_task(peer.request(WAITING))
    await service.gate.arrived()
    assert repr(peer) == f"<Peer {WORKER}, 2 channels, 1 asked, 0 serving>"
    assert repr(other) == f"<Peer {PS}, 2 channels, 0 asked, 1 serving>"
    await peer.close()
    await outcome(task)
    assert repr(peer) == f"<Peer {WORKER}, lost: it was closed here, 0 asked, 0 serving>"


# Breaking the protocol


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        ([b"nonsense"], "a header of"),
        ([frame({"verb": 127})], "unknown message 127"),
        (frames(Hello("client", VERSIONS, 1)), "Hello came where it cannot"),
        (frames(Welcome(1, 1)), "Welcome came where it cannot"),
        ([announced(1, 100, 50), b"x" * 60], "a frame of 60 bytes"),
    ],
)
async def test_whoever_breaks_the_protocol_is_told_and_others_are_not_disturbed(network, service, sent, text):
    acceptor = Acceptor(Identity(WORKER), service)
    listener = await network.at("b").listen("b", acceptor.accept)
    good = await connect(network.at("a"), "b", Identity(PS))
    bad = await connect(network.at("c"), "b", Identity(""))
    bad._links[0]._channel.send(*sent)
    await bad.closed()
    assert bad.end.loss is Loss.REFUSED
    assert text in bad.end.text
    assert len((await good.request(tensor(10))).values[0]) == 10
    await bad.close()
    await good.close()
    await acceptor.close()
    await listener.close()


async def test_an_answer_to_something_else_breaks_the_protocol(peer, other, service):
    task = asyncio.create_task(peer.request(WAITING))
    await service.gate.arrived()
    from aioflow.net.wire.codec import Envelope
    from aioflow.net.wire.worker_verbs import Traced

    other._links[0].post(Envelope(1, Traced()))
    assert "Traced answers no DeregisterGraph" in (await outcome(task)).message
    assert peer.end.loss is Loss.VIOLATION


async def test_an_answer_nobody_waits_for_is_counted(peer, other):
    from aioflow.net.wire.codec import Envelope

    other._links[0].post(Envelope(77, Reply()))
    await settle()
    assert peer.statistics.late == 1


# Requests that come again


async def test_a_request_that_arrives_twice_is_done_once(network, pair, service):
    peer, _ = pair
    network.path("a", "b").twice = lambda frame: describe_frame(frame).startswith("RecvTensor")
    assert len((await peer.request(tensor(10))).values[0]) == 10
    await settle()
    assert len(service.calls) == 1


async def ask_again(network, peer, request, number):
    """The same request, by the same task, over another connection."""
    again = await connect(network.at("a"), "b", peer.local)
    try:
        return await again.request(request, number=number)
    finally:
        await again.close()


async def test_a_request_that_is_asked_again_gets_the_same_answer(network, peer, service):
    assert len((await peer.request(tensor(10), number=501)).values[0]) == 10
    peer.lose(Loss.GONE)
    assert len((await ask_again(network, peer, tensor(10), 501)).values[0]) == 10
    assert len(service.calls) == 1
    with pytest.raises(errors.DataLossError):
        await ask_again(network, peer, FAILING, 502)
    with pytest.raises(errors.DataLossError):
        await ask_again(network, peer, FAILING, 502)
    assert len(service.calls) == 2


async def test_a_request_whose_answer_is_not_known_any_more_is_not_done_again(network, peer, service, monkeypatch):
    monkeypatch.setattr(serving, "KEPT", 4000)
    sizes = {501: 1 << 20, 503: 2000, 504: 2000}  # one with large values, and two that are not kept together
    for number, nbytes in sizes.items():
        await peer.request(tensor(nbytes), number=number)
    task = asyncio.create_task(peer.request(WAITING, number=502))
    await service.gate.arrived()
    peer.lose(Loss.GONE)
    await outcome(task)
    for number, request in ((501, tensor(1 << 20)), (502, WAITING), (503, tensor(2000))):
        with pytest.raises(errors.AbortedError, match=r"the request came to .* before"):
            await ask_again(network, peer, request, number)
    assert len((await ask_again(network, peer, tensor(2000), 504)).values[0]) == 2000
    assert len(service.calls) == 4


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("length", [1, 1000, 20_000, 200_000])
async def test_an_answer_with_a_part_of_an_array_does_not_keep_the_array(network, service, length, quick):
    arrays = []

    def part(call):
        array = np.zeros(1 << 20, np.uint8)
        arrays.append(weakref.ref(array))
        return TensorSent((0,), (array[:length],))

    async def answer(call):
        return part(call)

    service.answer, service.quick = answer, {RecvTensor: part} if quick else {}
    async with meeting(network.at("a"), network.at("b"), "b", service) as (peer, _):
        for _ in range(5):
            assert len((await peer.request(tensor(length))).values[0]) == length
        assert [array() for array in arrays] == [None] * 5


async def test_a_request_that_never_arrived_is_done_when_it_is_asked_again(network, peer, service):
    network.part("a", "b")
    task = asyncio.create_task(peer.request(tensor(10), number=501))
    await outcome(task)
    network.heal("a", "b")
    await settle()
    assert len((await ask_again(network, peer, tensor(10), 501)).values[0]) == 10


async def test_a_number_that_is_under_way_cannot_be_used_again(peer, service):
    task = asyncio.create_task(peer.request(WAITING, number=7))
    await service.gate.arrived()
    with pytest.raises(errors.AlreadyExistsError, match="request 7"):
        await peer.request(WAITING, number=7)
    service.gate.open()
    assert await task == Reply()


# Meeting


async def meet(network, me=None, target="", its=None, **how):
    acceptor = Acceptor(its or Identity(WORKER), Service(), Settings(**how))
    listener = await network.at("b").listen("b", acceptor.accept)
    try:
        peer = await connect(network.at("a"), "b", me or Identity(PS), target=target)
        await peer.close()
    finally:
        await acceptor.close()
        await listener.close()
    return peer


@pytest.mark.parametrize(
    ("me", "target", "its", "text"),
    [
        (None, "/job:worker/replica:0/task:2", None, f"this is {WORKER}, not /job:worker/replica:0/task:2"),
        (Identity(PS, cluster="aa"), "", Identity(WORKER, cluster="bb"), f"has another cluster spec than {PS}"),
    ],
)  # fmt: skip
async def test_what_does_not_agree_is_refused_by_name(network, me, target, its, text):
    with pytest.raises(errors.FailedPreconditionError, match=text):
        await meet(network, me, target, its)


async def test_a_client_meets_a_task_of_any_cluster(network):
    assert (await meet(network, Identity(), its=Identity(WORKER, cluster="bb"))).remote.task == WORKER


async def dial_and_say(network, *sent):
    """What somebody hears who says that first."""
    from tests.support.net_channel_contract import closed

    acceptor = Acceptor(Identity(WORKER), Service())
    listener = await network.at("b").listen("b", acceptor.accept)
    channel = await network.at("a").dial("b")
    channel.send(*sent)
    reason = await closed(channel)
    assert acceptor.peers == {}
    await channel.close()
    await acceptor.close()
    await listener.close()
    return reason


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        ([], "no Hello came within 5 s"),
        ([b"GET / HTTP/1.1"], "a header of"),
        (frames(RunStep(SESSION)), "a channel begins with Hello, not with RunStep"),
        (frames(Hello("control", (9,), 1, PS)), "versions 3 of the protocol are spoken here, not 9"),
        (frames(Hello("control", VERSIONS, 1)), "control is not a role of a client"),
        (frames(Hello("client", VERSIONS, 1, PS)), f"client is not a role of {PS}"),
        (frames(Hello("client", VERSIONS, 1, connection="ab" * 16)), "a new connection must not have a number"),
        (frames(Hello("bulk", VERSIONS, 1, connection="ab" * 16)), "a bulk channel must name a connection"),
    ],
)
async def test_whoever_begins_wrongly_is_told_why(network, sent, text):
    assert text in (await dial_and_say(network, *sent)).text


async def test_a_task_that_does_not_speak_the_protocol_is_named(network):
    async def accept(channel):
        channel.send(*frames(Reply()))

    listener = await network.at("b").listen("b", accept)
    with pytest.raises(errors.UnavailableError, match="b does not speak the protocol: a channel begins with Welcome"):
        await connect(network.at("a"), "b", Identity(PS))
    await listener.close()


async def test_a_task_that_does_not_answer_is_silent(network):
    async def accept(channel):
        await asyncio.sleep(1000)

    listener = await network.at("b").listen("b", accept)
    began = now()
    with pytest.raises(errors.UnavailableError, match=r"b is silent: it has not answered for 4\.25 s"):
        await connect(network.at("a"), "b", Identity(PS))
    assert now() - began == pytest.approx(4.25)
    await listener.close()


async def dialled(network, turns):
    """A peer at b, where each channel is accepted by the next of these tasks."""
    turns = iter(turns)

    async def accept(channel):
        await next(turns).accept(channel)

    listener = await network.at("b").listen("b", accept)
    try:
        return await connect(network.at("a"), "b", Identity(PS))
    finally:
        await listener.close()


async def test_a_task_that_restarts_between_both_channels_is_dialled_again(network):
    old, new = [Acceptor(Identity(WORKER, number), Service()) for number in (1, 2)]
    peer = await dialled(network, [old, new, new, new])
    assert peer.remote.incarnation == 2
    await asyncio.gather(peer.close(), old.close(), new.close())


async def test_a_task_that_forgets_every_control_channel_is_named(network):
    tasks = [Acceptor(Identity(WORKER, number), Service()) for number in range(1, 7)]
    with pytest.raises(errors.UnavailableError, match="does not know the connection any more"):
        await dialled(network, tasks)
    await asyncio.gather(*[task.close() for task in tasks])


async def test_limits_are_the_smaller_of_both(network, service):
    settings = Settings(Limits(tensor=1 << 20))
    async with meeting(network.at("a"), network.at("b"), "b", service, settings) as (peer, other):
        assert peer.limits == other.limits
        with pytest.raises(errors.ResourceExhaustedError, match="a value of 2000000 bytes is more than the 1048576"):
            await peer.request(feeding(np.ones(2_000_000, np.uint8)))
        with pytest.raises(errors.ResourceExhaustedError, match="a value of 2000000 bytes is more than the 1048576"):
            await peer.request(tensor(2_000_000))


def test_requests_are_typed():
    assert issubclass(RecvTensor, Request)
