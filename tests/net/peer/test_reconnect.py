"""Connections lost between live processes: no message is lost or handled twice, and no state is left."""

import asyncio
import weakref

import numpy as np
import pytest

from aioflow import errors
from aioflow.net.peer.handshake import Acceptor, connect
from aioflow.net.peer.link import Link
from aioflow.net.peer.reconnect import Loss
from aioflow.net.transport.channel import ClosedError, receive
from aioflow.net.transport.in_memory import MemoryNetwork
from aioflow.net.wire.codec import Envelope, ProtocolError
from aioflow.net.wire.control_verbs import VERSIONS, Cancel, Hello, Reply
from aioflow.net.wire.framing import Outgoing
from aioflow.net.wire.identity import Identity, Settings
from aioflow.net.wire.limits import Limits
from aioflow.net.wire.worker_verbs import CleanupGraph
from tests.support.net_frames import frames
from tests.support.net_peers import PS, WAITING, WORKER, Service, feeding, idle, meeting, outcome, tensor
from tests.support.scale import amount

LATENCY = 0.001
SMALL = Settings(Limits(chunk=4096, window=256 << 10))
"""Small, so that large values have many frames."""


def now():
    return asyncio.get_running_loop().time()


class Notes(Service):
    """Also hears notes."""

    def __init__(self):
        super().__init__()
        self.heard = []
        self.notes = {CleanupGraph: lambda call: self.heard.extend(call.message.steps)}


def lose(network, which):
    """Cut the connections from a to b: that for short messages, that for large ones, or both."""
    channels = network.channels("a", "b")
    for place, channel in enumerate(channels):
        if which == "both" or place == ("control", "bulk").index(which):
            channel.lose()


async def exchange(peer, other, service):
    """Send small and large requests in both directions, and notes; return the results."""

    async def note():
        for step in range(1, 6):
            peer.notify(CleanupGraph((step,)))
            await asyncio.sleep(LATENCY / 3)

    _, *answers = await asyncio.gather(
        note(),
        *[peer.request(tensor(size, step)) for step, size in enumerate((1, 20_000, 90_000, 7, 150_000))],
        *[peer.request(feeding(np.full(size, 3, np.uint8))) for size in (5, 40_000, 100_000)],
        other.request(tensor(30_000, 9)),
    )
    values = [answer.values[0] for answer in answers]
    return [int(found) if not found.ndim else (found.size, set(found)) for found in values]


EXPECTED = [
    (1, {0}), (20_000, {1}), (90_000, {2}), (7, {3}), (150_000, {4}),
    15, 120_000, 300_000, (30_000, {9}),
]  # fmt: skip


@pytest.mark.slow
async def test_messages_are_exchanged_exactly_once_wherever_a_connection_is_lost():
    """The connection is lost at the n-th frame, for each n, and again some frames later."""
    sent, tried = 1, 0
    for which in ("control", "bulk", "both"):
        for delay in (0.0, LATENCY * 0.6, LATENCY * 1.5):
            first = 0
            while first < sent:
                sent = await exchanged_with_a_cut(which, delay, first, every=29)
                first += amount(59, 3)
                tried += 1
    assert tried > amount(6, 100)


async def exchanged_with_a_cut(which, delay, first, every):
    """The number of all sent frames."""
    network, frames = MemoryNetwork(LATENCY, 1e8), 0
    service, mine = Notes(), Notes()

    def count(_):
        nonlocal frames
        frames += 1
        if armed and frames >= first and (frames - first) % every == 0 and frames < first + 4 * every:
            asyncio.get_running_loop().call_later(delay, lose, network, which)

    armed = False
    async with meeting(network.at("a"), network.at("b"), "b", service, SMALL, SMALL, mine) as (peer, other):
        armed = True
        network.path("a", "b").sent = network.path("b", "a").sent = count
        assert await exchange(peer, other, service) == EXPECTED, (which, delay, first)
        armed = False
        await asyncio.sleep(1)
        assert service.heard == [1, 2, 3, 4, 5]
        assert (len(service.calls), len(mine.calls)) == (8, 1)
        assert (peer.end, other.end) == (None, None)
        assert idle(peer)
        assert idle(other)
        for one, far in zip(peer._links + other._links, other._links + peer._links, strict=True):
            assert one.credit + far._assembler.received == SMALL.limits.window
            assert one._sent.end == far.received
    return frames


# Connections that are not restored


async def waits(peer, service, count=1):
    """Requests under way."""
    tasks = [asyncio.create_task(peer.request(WAITING)) for _ in range(count)]
    await service.gate.arrived(count)
    return tasks


@pytest.mark.parametrize("silence", [5.0, 0.5])
async def test_a_connection_that_is_not_restored_in_time_ends_the_peer_at_both_ends(silence):
    """Every new connection is lost as soon as it is made."""
    network, service = MemoryNetwork(LATENCY), Service()
    settings = Settings(silence=silence)
    async with meeting(network.at("a"), network.at("b"), "b", service, settings, settings) as (peer, other):
        (waiting,) = await waits(peer, service)
        began = now()
        network.path("a", "b").sent = lambda _: asyncio.get_running_loop().call_soon(network.cut, "a", "b")
        network.cut("a", "b")
        found = await outcome(waiting)
        assert now() - began == pytest.approx(silence, abs=0.01)
        text = f"is gone: its connection was lost: it was not made again within {silence:g} s"
        assert found.message == f"{WORKER}, asked for DeregisterGraph, {text}"
        await other.closed()
        assert now() - began == pytest.approx(silence, abs=0.1 * silence)
        assert other.end.loss is Loss.GONE
        assert (idle(peer), idle(other)) == (True, True)


async def test_a_connection_restored_within_the_limit_continues():
    network, service = MemoryNetwork(LATENCY), Service()
    async with meeting(network.at("a"), network.at("b"), "b", service) as (peer, other):
        waiting = await waits(peer, service, 3)
        network.path("a", "b").sent = lambda _: asyncio.get_running_loop().call_soon(network.cut, "a", "b")
        network.cut("a", "b")
        await asyncio.sleep(4)
        late = asyncio.create_task(peer.request(tensor(5)))
        assert peer.interrupted
        network.path("a", "b").sent = lambda _: None
        service.gate.open()
        assert await asyncio.gather(*waiting) == [Reply()] * 3
        assert (await late).values[0].size == 5
        assert (peer.end, other.end, peer.interrupted) == (None, None, False)
        await asyncio.sleep(100)
        assert (peer.end, other.end) == (None, None)


@pytest.mark.parametrize("anew", [False, True])
async def test_an_ended_process_is_lost_at_once_with_or_without_a_successor(anew):
    network, service = MemoryNetwork(LATENCY), Service()
    async with meeting(network.at("a"), network.at("b"), "b", service) as (peer, _):
        (waiting,) = await waits(peer, service)
        network.crash("b")
        acceptor = Acceptor(Identity(WORKER), Service())
        listener = await network.at("b").listen("b", acceptor.accept) if anew else None
        began = now()
        found = await outcome(waiting)
        assert isinstance(found, errors.UnavailableError)
        assert ("the task has forgotten the connection" if anew else "its process has ended") in found.message
        assert now() - began < 0.1
        if listener is not None:
            await listener.close()


async def test_a_client_whose_process_has_ended_is_lost_within_a_second():
    """The monitor reports the end; without this report the connection might be restored."""
    network, service = MemoryNetwork(LATENCY), Service()
    async with meeting(network.at("a"), network.at("b"), "b", service) as (peer, other):
        await waits(peer, service)
        network.crash("a")
        await asyncio.sleep(1)
        await other.closed()
        assert service.ended == [1]
        assert "is gone: its process has ended" in str(other.end.error(PS, PS))


@pytest.mark.parametrize("ended", [False, True])
async def test_a_task_checks_a_lost_peer_that_had_dialled_it(ended):
    """A task can be dialled, unlike a client, so its end is known at once."""
    network, service, asked = MemoryNetwork(LATENCY), Service(), []

    async def has_ended(it):
        asked.append(it.task)
        return ended

    acceptor = Acceptor(Identity(WORKER), service, has_ended=has_ended)
    listener = await network.at("b").listen("b", acceptor.accept)
    peer = await connect(network.at("a"), "b", Identity(PS))
    (other,) = acceptor.peers.values()
    await waits(peer, service)
    network.crash("a")
    await asyncio.sleep(1)
    assert set(asked) == {PS}
    assert (other.end is not None) is ended
    for closing in (peer, acceptor, listener):
        await closing.close()


async def test_a_restarted_task_ends_its_former_requests_as_soon_as_it_dials():
    network, service = MemoryNetwork(LATENCY), Service()
    async with meeting(network.at("a"), network.at("b"), "b", service) as (peer, other):
        await waits(peer, service)
        network.crash("a", silent=True)
        anew = await connect(network.at("a"), "b", Identity(PS))
        await other.closed()
        assert other.end.loss is Loss.ENDED
        assert service.ended == [1]
        assert anew.end is None
        await anew.close()


async def test_closing_while_the_connection_is_lost_leaves_nothing():
    network, service = MemoryNetwork(LATENCY), Service()
    async with meeting(network.at("a"), network.at("b"), "b", service) as (peer, other):
        waiting = await waits(peer, service)
        waiting += [asyncio.create_task(peer.request(feeding(np.ones(1 << 20, np.uint8)))) for _ in range(3)]
        network.part("a", "b")
        network.cut("a", "b")
        network.heal("a", "b")
        await asyncio.sleep(0)
        await peer.close()
        assert {type(await outcome(task)) for task in waiting} == {errors.CancelledError}
        await other.closed()
        assert (idle(peer), idle(other)) == (True, True)


async def test_a_cancel_during_a_lost_connection_reaches_the_peer_after_it_is_restored():
    network, service = MemoryNetwork(LATENCY), Service()
    async with meeting(network.at("a"), network.at("b"), "b", service) as (peer, other):
        (waiting,) = await waits(peer, service)
        network.cut("a", "b")
        await asyncio.sleep(LATENCY / 2)
        waiting.cancel()
        await asyncio.sleep(1)
        assert service.ended == [1]
        assert (idle(peer), idle(other)) == (True, True)


async def test_requests_wait_during_a_lost_connection_and_none_is_lost():
    """While the connection is lost, requests wait for their turn; only notes and answers are buffered."""
    network, service = MemoryNetwork(LATENCY), Notes()
    async with meeting(network.at("a"), network.at("b"), "b", service, SMALL, SMALL) as (peer, _):
        network.path("a", "b").sent = lambda _: asyncio.get_running_loop().call_soon(network.cut, "a", "b")
        network.cut("a", "b")
        await asyncio.sleep(0.1)
        asking = [asyncio.create_task(peer.request(feeding(np.ones(16_000, np.uint8)))) for _ in range(200)]
        for step in range(1, 1001):
            peer.notify(CleanupGraph((step,)))
        await asyncio.sleep(1)
        assert peer._links[0]._sent.nbytes < 100_000
        network.path("a", "b").sent = lambda _: None
        assert [(await task).values[0] for task in asking] == [16_000] * 200
        assert service.heard == list(range(1, 1001))
        assert len(service.calls) == 200


@pytest.mark.parametrize("which", range(4))
async def test_a_connection_lost_during_the_handshake_is_dialled_again(which):
    """The connection is lost after the n-th frame of the handshake."""
    network, service, frames = MemoryNetwork(LATENCY), Service(), []

    def count(frame):
        frames.append(frame)
        if len(frames) == which + 1:
            asyncio.get_running_loop().call_soon(network.cut, "a", "b")

    network.path("a", "b").sent = network.path("b", "a").sent = count
    async with meeting(network.at("a"), network.at("b"), "b", service) as (peer, _):
        assert (await peer.request(tensor(5))).values[0].size == 5
        await asyncio.sleep(6)
        assert peer.end is None


# Resuming a connection


async def resuming(network, peer, **changed):
    """The answer to a Hello that resumes the connection of that peer."""
    (connection,) = changed.pop("acceptor").peers
    hello = {"role": "control", "versions": VERSIONS, "incarnation": peer.local.incarnation, "task": PS, "received": 0}
    channel = await network.at("c").dial("b")
    channel.send(*frames(Hello(**(hello | {"connection": connection} | changed))))
    try:
        return await receive(channel)
    except ClosedError as closed:
        return closed.reason.text
    finally:
        await channel.close()


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"incarnation": 1}, "the task has forgotten the connection"),
        ({"task": WORKER}, "the task has forgotten the connection"),
        ({"connection": "ab" * 16}, "the task has forgotten the connection"),
        ({"connection": ""}, "the task has forgotten the connection"),
    ],
)
async def test_only_its_own_peer_resumes_a_connection(changed, text):
    network, service = MemoryNetwork(LATENCY), Service()
    acceptor = Acceptor(Identity(WORKER), service)
    listener = await network.at("b").listen("b", acceptor.accept)
    peer = await connect(network.at("a"), "b", Identity(PS))
    assert await resuming(network, peer, acceptor=acceptor, **changed) == text
    assert (await peer.request(tensor(5))).values[0].size == 5
    for closing in (peer, acceptor, listener):
        await closing.close()


async def test_an_impossible_position_is_refused_and_the_true_peer_resumes():
    network, service = MemoryNetwork(LATENCY), Service()
    acceptor = Acceptor(Identity(WORKER), service)
    listener = await network.at("b").listen("b", acceptor.accept)
    peer = await connect(network.at("a"), "b", Identity(PS))
    await peer.request(tensor(5))
    text = f"the connection cannot continue after {1 << 60} bytes"
    assert await resuming(network, peer, acceptor=acceptor, received=1 << 60) == text
    await asyncio.sleep(1)
    assert (await peer.request(tensor(5))).values[0].size == 5
    assert len(acceptor.peers) == 1
    for closing in (peer, acceptor, listener):
        await closing.close()


async def test_a_half_open_connection_is_replaced_by_the_new_one():
    """Only one end knows that the connection is lost."""
    network, service = MemoryNetwork(LATENCY), Service()
    async with meeting(network.at("a"), network.at("b"), "b", service) as (peer, other):
        waiting = await waits(peer, service, 2)
        old = list(network.channels("b", "a"))
        for channel in network.channels("a", "b"):
            channel.hang()
            channel.lose()
        await asyncio.sleep(0.5)
        assert not any(channel.open for channel in old)
        service.gate.open()
        assert await asyncio.gather(*waiting) == [Reply()] * 2
        assert (peer.end, other.end) == (None, None)


# Kept frames


class Wire:
    """A channel that the test drives by hand."""

    congested = False

    def __init__(self):
        self.sent = b""

    def send(self, *frames):
        self.sent += b"".join(map(bytes, frames))

    def listen(self, receiver):
        """Nothing comes."""

    async def room(self):
        """There always is."""

    async def close(self, reason=None):
        """Nothing is open."""


@pytest.mark.parametrize("received", range(0, 30_000, 499))
async def test_missing_bytes_are_sent_again_from_any_position(received):
    first, second = Wire(), Wire()
    link = Link(first, SMALL.limits, None)
    await link.send(Outgoing(Envelope(1, feeding(np.arange(15_000, dtype=np.uint16))), SMALL.limits))
    whole = first.sent
    link.detach()
    link.resume(second, received)
    link.post(Envelope(2, Cancel()))
    assert not link.flowing
    await link.resend()
    link.post(Envelope(3, Cancel()))
    cancels = b"".join(frames(Cancel(), 2) + frames(Cancel(), 3))
    assert second.sent == whole[received:] + cancels
    with pytest.raises(ProtocolError, match=f"the peer has received {len(whole) + 1000} bytes"):
        link.reported(len(whole) + 1000)
    link.reported(link._sent.end)
    assert link._sent.nbytes == 0
    with pytest.raises(ValueError, match="those from"):
        link.resume(first, 1)


async def test_an_array_that_was_sent_is_not_kept_alive():
    """The receiver reports a large value at once, and small ones with the next check of the heartbeat."""
    network, service = MemoryNetwork(LATENCY, 1e9), Service()
    async with meeting(network.at("a"), network.at("b"), "b", service) as (peer, _):
        large, small = np.ones(4 << 20, np.uint8), np.ones(100_000, np.uint8)
        gone = [weakref.ref(large), weakref.ref(small)]
        await peer.request(feeding(large))
        await peer.request(feeding(small))
        service.calls.clear()
        del large, small
        await asyncio.sleep(3 * LATENCY)
        assert gone[0]() is None
        await asyncio.sleep(2.0)
        assert gone[1]() is None


async def test_sent_bytes_are_bounded_for_a_peer_that_reports_no_position():
    network, service = MemoryNetwork(LATENCY), Service()
    async with meeting(network.at("a"), network.at("b"), "b", service, SMALL, SMALL) as (peer, other):
        for link in other._links:
            link.tell_credit = lambda: None
            link.position = lambda: 0
        asking = [asyncio.create_task(peer.request(feeding(np.ones(16_000, np.uint8)))) for _ in range(100)]
        await asyncio.sleep(3)
        assert 0 < peer._links[0]._sent.nbytes < 2 * SMALL.limits.window + (1 << 15)
        assert 0 < sum(task.done() for task in asking) < 100
        await peer.close()
        await asyncio.wait(asking)
        assert {type(task.exception()) for task in asking} == {type(None), errors.CancelledError}
