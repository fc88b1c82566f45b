"""Processes of one host: how they find each other, and what they lend each other."""

import asyncio
import contextlib
import gc
import os
import socket
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from aioflow.net.peer.handshake import Acceptor
from aioflow.net.transport import same_host, segments, shared_channel, websocket_server
from aioflow.net.transport import websocket_frames as frames
from aioflow.net.transport.channel import LOST, VIOLATION, ClosedError, receive
from aioflow.net.transport.descriptors import UnixPair, offer_pair
from aioflow.net.transport.mapped_segments import Mapped
from aioflow.net.transport.segments import MANY, Piece, Segment, SegmentPool, SharedMemoryError, pool
from aioflow.net.transport.shared_channel import SharedMemoryChannel, _Lent
from aioflow.net.transport.websocket_server import ChannelOptions, WebSocketNetwork, dial
from aioflow.net.wire.identity import Identity, Settings
from aioflow.net.wire.limits import STANDARD
from aioflow.net.wire.worker_verbs import GraphRan, RunGraph, TensorSent
from aioflow.resources import containers
from aioflow.resources.containers import VariableState
from aioflow.resources.lendable import LendableMemory
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Spec, TensorShape
from aioflow.tensors.tensor_list import TensorList
from tests.support.net_channel_contract import a_pair
from tests.support.net_peers import SESSION, WORKER, Service, feeding, idle, meeting, tensor
from tests.support.scale import amount

pytestmark = [pytest.mark.skipif(pool() is None, reason="the system has no sealed memory"), pytest.mark.sockets]
ANYWHERE = "127.0.0.1:0"
MIB = 1 << 20


class Echo(Service):
    """Answers with what it is given."""

    async def answer(self, call):
        return GraphRan(call.message.feeds) if isinstance(call.message, RunGraph) else await super().answer(call)


def echo(*values):
    return RunGraph(SESSION, 1, 1, values)


def network(memory=True, **options):
    return WebSocketNetwork(shared_memory=memory, **options)


def maps():
    return Path("/proc/self/maps").read_text()


def is_shared(array):
    """Whether the memory of an array is a segment of another process, or of a pool."""
    at = array.__array_interface__["data"][0]
    for line in maps().splitlines():
        start, end = (int(number, 16) for number in line.split()[0].split("-"))
        if start <= at < end:
            return "memfd:aioflow" in line
    return False


# Agreeing on it


@pytest.mark.parametrize(("near", "far"), [(True, False), (False, True), (False, False)])
async def test_unless_both_ends_want_it_all_bytes_go_through_the_websocket(near, far):
    async with meeting(network(near), network(far), ANYWHERE, Service()) as (peer, _):
        value = (await peer.request(tensor(MIB, 3))).values[0]
        assert not is_shared(value)
        assert value.tobytes() == b"\x03" * MIB


async def test_processes_of_different_hosts_do_not_try(monkeypatch):
    ends = iter(["one host", "another host"] * 10)
    monkeypatch.setattr(websocket_server, "this_host", lambda: next(ends))
    async with a_pair(network(), ANYWHERE) as (near, far):
        assert near.sharing is None
        assert far.sharing is None


async def test_a_unix_socket_that_cannot_be_reached_is_done_without(monkeypatch):
    monkeypatch.setattr(websocket_server, "enter", lambda door: None)
    async with meeting(network(), network(), ANYWHERE, Service()) as (peer, _):
        assert (await peer.request(tensor(MIB, 3))).values[0].tobytes() == b"\x03" * MIB


async def test_another_user_is_turned_away(monkeypatch):
    async with unix_listener() as (listener, door, _):
        monkeypatch.setattr(same_host, "_is_ours", lambda sock: False)
        assert same_host.enter(door) is None
        assert await is_turned_away(door)
        assert not listener._arriving


async def test_a_key_opens_once_and_for_a_while_only():
    async with unix_listener(0.2) as (_, door, connected):
        name, _, key = door.partition(" ")
        for wrong in ("0" * 32, "x", key[:-1]):
            assert await is_turned_away(f"{name} {wrong}")
        with a_client(door):
            (await connected()).close()
        assert await is_turned_away(door)
    async with unix_listener(0.01) as (_, door, connected):
        with pytest.raises(TimeoutError):
            await connected()


def unix_listener(seconds=5.0):
    @contextlib.asynccontextmanager
    async def made():
        listener = same_host.UnixListener(seconds)
        try:
            async with listener.expected() as (door, connected):
                yield listener, door, connected
        finally:
            await listener.close()

    return made()


async def is_turned_away(door):
    """Whether the listener hangs up."""
    with a_client(door) as sock:
        sock.shutdown(socket.SHUT_WR)
        try:
            return await asyncio.get_running_loop().sock_recv(sock, 10) == b""
        except ConnectionError:
            return True


def a_client(door):
    name, _, key = door.partition(" ")
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(f"\0{name}")
    sock.setblocking(False)
    offer_pair(sock, key.encode()).descriptors.close()
    return sock


async def test_a_dialled_task_waits_a_moment_for_the_socket(monkeypatch):
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(websocket_server, "enter", lambda door: offer_pair(ours, b"key"))
    listener = await network(settings=Settings(handshake=0.05)).listen(ANYWHERE, refuse)
    channel = await dial(listener.address, None, None, STANDARD, ChannelOptions(pool(), private=False))
    for _ in range(1000):
        if not listener.connections:
            break
        await asyncio.sleep(0.01)
    assert not listener.connections
    theirs.close()
    await channel.close()
    await listener.close()


async def refuse(channel):
    raise AssertionError("nobody connects")


# What is lent


VALUES = [
    np.arange(100_000, dtype=np.float64).reshape(100, 1000),
    np.zeros((3, 0, 5), np.int32),
    np.arange(200_001, dtype=np.int8)[::2],
    np.array([b"a" * 100_000, b"", b"b" * 70_000], object).reshape(1, 3),
    np.float32(7),
    np.arange(300_000) % 3 == 0,
    TensorList.of([np.arange(50_000), np.ones((200, 300)), np.float64(3)]),
    b"bytes" * 50_000,
    None,
    "text",
]


def plain(value):
    if isinstance(value, TensorList):
        return [plain(one) for one in value.elements()]
    return (value.dtype, value.shape, value.tolist()) if isinstance(value, (np.ndarray, np.generic)) else value


async def test_values_are_the_same_as_through_a_websocket():
    found = {}
    for memory in (False, True):
        async with meeting(network(memory), network(memory), ANYWHERE, Echo()) as (peer, other):
            answer = await peer.request(echo(*VALUES))
            found[memory] = [plain(answer.values[place]) for place in range(len(VALUES))]
            assert is_shared(answer.values[0]) is memory
            assert idle(peer)
            assert idle(other)
            del answer
    assert found[True] == found[False] == [plain(value) for value in VALUES]


async def test_a_client_may_write_to_its_values_and_a_task_may_not():
    async with meeting(network(private=True), network(), ANYWHERE, Echo()) as (peer, _):
        value = (await peer.request(echo(np.ones(MIB, np.uint8)))).values[0]
        value += 1
        assert value.tolist() == [2] * MIB
    async with meeting(network(), network(), ANYWHERE, Echo()) as (peer, _):
        assert not (await peer.request(echo(np.ones(MIB, np.uint8)))).values[0].flags.writeable


async def test_what_a_client_writes_to_a_value_is_in_no_other_value():
    async with meeting(network(private=True), network(), ANYWHERE, Echo()) as (peer, _):
        kept = []
        for number in range(20):
            value, other = (await peer.request(echo(np.full(MIB, number, np.uint8), np.ones(MIB + 1, np.uint8)))).values
            assert is_shared(value)
            assert value.tolist() == [number] * MIB
            assert other.tolist() == [1] * (MIB + 1)
            value += 100
            other[::5000] = 0
            if number >= 9:
                kept.append(value)
            del value, other
        assert [int(value[-1]) for value in kept] == [number + 100 for number in range(9, 20)]


async def test_values_outlive_the_connection():
    async with meeting(network(), network(), ANYWHERE, Echo()) as (peer, _):
        value = (await peer.request(echo(np.arange(MIB)))).values[0]
    assert is_shared(value)
    async with meeting(network(), network(), ANYWHERE, Echo()) as (peer, _):
        for number in range(5):
            await peer.request(echo(np.full(MIB, number)))
        assert np.array_equal(value, np.arange(MIB))


async def test_a_value_goes_on_to_a_third_process_without_a_copy(monkeypatch):
    few = SegmentPool(1 << 30)
    monkeypatch.setattr(websocket_server, "pool", lambda: few)
    service = Echo()
    async with (
        meeting(network(), network(), ANYWHERE, Service()) as (owner, _),
        meeting(network(), network(), ANYWHERE, service) as (third, _),
    ):
        value = (await owner.request(tensor(2 * MIB, 3))).values[0]
        (segment,) = few._segments.values()
        returned = (await third.request(echo(value))).values[0]
        assert list(few._segments.values()) == [segment]
        del value
        await a_while()
        assert segment.loans == 1
        assert returned.tobytes() == b"\3" * (2 * MIB)
        del returned
        service.calls.clear()
        await a_while()
        assert not segment.loans


async def test_the_owner_drops_memory_that_was_lent_on_to_a_lost_process(monkeypatch):
    few, taker = SegmentPool(1 << 30), Taker(keeps=True)
    monkeypatch.setattr(websocket_server, "pool", lambda: few)
    async with a_pair(network(), ANYWHERE) as (owner, near), a_pair(network(), ANYWHERE) as (far, third):
        owner.listen(Taker())
        near.listen(taker)
        third.listen(Taker(keeps=True))
        segment = few.create(MIB)
        owner.send_shared(b"head", piece_of(few, segment))
        await a_while()
        far.send_shared(b"head", few.lend(taker.kept.pop()[:].data))
        await a_while()
        assert (segment.loans, segment.is_dropped) == (1, False)
        far._transport.abort()
        await a_while()
        assert (segment.loans, segment.is_dropped) == (0, True)
        assert not near._mapped


async def test_the_peer_unmaps_segments_that_were_lent_once_when_there_are_many(monkeypatch):
    few, lent = SegmentPool(1 << 30), [Segment(1 << 16) for _ in range(2 * MANY + 9)]
    monkeypatch.setattr(websocket_server, "pool", lambda: few)
    async with a_pair(network(), ANYWHERE) as (near, far):
        near.listen(Taker())
        taker = Taker(keeps=True)
        far.listen(taker)
        for number, segment in enumerate([*lent, *lent[:9]]):
            segment.memory[:] = number % 251
            segment.begin_loan()
            near.send_shared(b"head", piece_of(few, segment))
            while segment.loans:
                await asyncio.sleep(0.0001)
                assert {*map(int, [kept[0] for kept in taker.kept])} <= {number % 251}
                taker.kept.clear()
            assert len(far._mapped) <= 2 * MANY
        assert taker.shared == len(lent) + 9


async def test_the_same_memory_serves_one_value_after_the_other():
    async with meeting(network(), network(), ANYWHERE, Service()) as (peer, _):
        for number in range(40):
            value = (await peer.request(tensor(2 * MIB, number))).values[0]
            assert value[0] == value[-1] == number
            del value
            if number == 10:
                before = pool().nbytes, len(os.listdir("/proc/self/fd"))
        assert pool().nbytes <= before[0] + 2 * MIB
        assert len(os.listdir("/proc/self/fd")) <= before[1] + 6


async def test_values_that_are_kept_keep_their_memory_and_beyond_the_limit_the_socket_carries_them(monkeypatch):
    few = SegmentPool(4 * MIB)
    monkeypatch.setattr(websocket_server, "pool", lambda: few)
    async with meeting(network(), network(), ANYWHERE, Service()) as (peer, other):
        kept = [(await peer.request(tensor(MIB, number))).values[0] for number in range(10)]
        assert [is_shared(value) for value in kept].count(True) == 4
        assert all((value == number).all() for number, value in enumerate(kept))
        kept.clear()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert idle(peer)
        assert idle(other)


async def test_a_cancelled_request_gives_its_memory_back(monkeypatch):
    few = SegmentPool(1 << 30)
    monkeypatch.setattr(websocket_server, "pool", lambda: few)
    service = Service()
    async with meeting(network(), network(), ANYWHERE, service) as (peer, _):
        for turns in range(0, 60, amount(3, 1)):
            asking = asyncio.ensure_future(peer.request(feeding(np.ones(6 * MIB, np.uint8))))
            for _ in range(turns):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait([asking])
        del asking
        assert (await peer.request(feeding(np.ones(6 * MIB, np.uint8)))).values == (6 * MIB,)
        service.calls.clear()
        for _ in range(20):
            gc.collect()
            await asyncio.sleep(0.001)
        assert not [one for one in few._segments.values() if one.loans]


async def a_while():
    """What is on its way arrives."""
    for _ in range(50):
        await asyncio.sleep(0.001)


async def test_a_dropped_segment_is_unmapped_by_the_peer(monkeypatch):
    few = SegmentPool(1 << 30, kept=0)
    monkeypatch.setattr(websocket_server, "pool", lambda: few)
    async with a_pair(network(), ANYWHERE) as (near, far):
        near.listen(Taker())
        far.listen(Taker())
        assert len(near._mapped) == 0
        segment = few.create(MIB)
        near.send_shared(b"head", piece_of(few, segment))
        await a_while()
        del segment
        assert few.nbytes == 0
        assert not far._mapped


async def test_a_value_is_lent_in_one_write_and_the_ended_loan_is_told_with_the_next_frame(monkeypatch):
    few, writes, give = SegmentPool(1 << 30), [], SharedMemoryChannel._give

    def count(channel, data):
        writes.append(channel)
        give(channel, data)

    monkeypatch.setattr(websocket_server, "pool", lambda: few)
    monkeypatch.setattr(SharedMemoryChannel, "_give", count)
    monkeypatch.setattr(shared_channel, "_SOON", 3600.0)
    async with a_pair(network(), ANYWHERE) as (near, far):
        near.listen(Taker())
        taker = Taker()
        far.listen(taker)
        segment = few.create(MIB)
        writes.clear()
        near.send_shared(b"head", piece_of(few, segment))
        assert writes == [near]
        await a_while()
        assert taker.shared == segment.loans == 1
        far.send(b"head")
        await a_while()
        assert writes == [near, far]
        assert not segment.loans
        large = few.create(2 * MIB)
        near.send_shared(b"head", piece_of(few, large))
        await a_while()
        assert writes == [near, far, near, far]  # a large loan does not wait
        assert not large.loans


class Taker:
    """Takes values, and lets them go, unless it keeps them."""

    raw_expected = received = 0

    def __init__(self, keeps=False):
        self.kept = [] if keeps else None
        self.shared = 0
        self.end = asyncio.get_running_loop().create_future()

    def get_buffer(self, most):
        return None

    def frame_received(self, frame):
        assert bytes(frame) == b"head"

    def shared_received(self, frame, memory):
        assert bytes(frame) == b"head"
        self.shared += 1
        if self.kept is not None:
            self.kept.append(memory)

    def lost(self, reason):
        self.end.set_result(reason)


def piece_of(few, segment):
    return Piece(few, segment, [1000])


# A peer that breaks the rules


def shared(number, nbytes, new, start=0, head=b"head"):
    return framed(frames.SHARED, struct.pack("<IQQ?", number, start, nbytes, new) + head)


def framed(opcode, payload):
    return frames.frame_head(opcode, len(payload), b"") + payload


HOSTILE = {
    "a segment without a descriptor": ([shared(0, 10, True)], False),
    "a segment that is not known": ([shared(5, 10, False)], False),
    "more bytes than there are": ([shared(0, (64 << 10) + 1, True)], True),
    "bytes after the end": ([shared(0, 10, True, (64 << 10) - 9)], True),
    "bytes far after the end": ([shared(0, 10, True, (1 << 64) - 1)], True),
    "no bytes": ([shared(0, 0, True)], True),
    "a number twice": ([shared(0, 10, True), shared(0, 10, True)], True),
    "a short record": ([framed(frames.SHARED, b"123")], False),
    "a record without a frame": ([shared(0, 10, True, head=b"")], True),
    "a return of nothing": ([framed(frames.RETURNED, bytes(4))], False),
    "a list that is cut": ([framed(frames.RETURNED, bytes(5))], False),
    "a list of forgotten ones that is cut": ([framed(frames.FORGOTTEN, bytes(3))], False),
    "a discard of nothing": ([framed(frames.DISCARDED, bytes(4))], False),
    "a text": ([framed(frames.TEXT, b"hello")], False),
    "a ping": ([framed(frames.PING, b"")], False),
    "a part of a message": ([framed(frames.CONTINUATION, b"")], False),
}


@pytest.fixture
async def hostile():
    """A channel, and the raw socket at its other end."""
    ours, theirs = (UnixPair(*pair) for pair in zip(socket.socketpair(), socket.socketpair(), strict=True))
    ours.descriptors.setblocking(False)
    tcp, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=listening())
    options = ChannelOptions(pool(), private=False)
    made = await options.over_unix_sockets(ours, tcp, STANDARD, dialled=False, release=nothing)
    yield made, theirs
    await made.close()
    theirs.close()
    await asyncio.sleep(0)


def listening():
    one, other = socket.socketpair()
    other.close()
    return one


async def nothing():
    pass


@pytest.mark.parametrize("case", HOSTILE)
async def test_a_peer_that_breaks_the_rules_is_cut_off(case, hostile):
    channel, theirs = hostile
    sent, with_memory = HOSTILE[case]
    before = len(os.listdir("/proc/self/fd"))
    segment = Segment(64 << 10)
    taker = Taker()
    channel.listen(taker)
    for record in sent:
        if with_memory:
            socket.send_fds(theirs.descriptors, [b"\0"], [segment.fileno()])
        theirs.data.send(record)
    del segment
    assert (await taker.end).code == VIOLATION
    await channel.close()
    await asyncio.sleep(0)
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize(
    "sent",
    [
        (frames.RETURNED, frames.RETURNED),
        (frames.RETURNED, frames.DISCARDED),
        (frames.DISCARDED, frames.DISCARDED, frames.RETURNED, frames.RETURNED),
        (frames.DISCARDED, frames.RETURNED, frames.DISCARDED),
    ],
)
@pytest.mark.parametrize("lent_on", [False, True], ids=["own memory", "memory of another peer"])
async def test_a_peer_that_gives_back_more_than_it_was_lent_is_cut_off(sent, lent_on, hostile):
    channel, theirs = hostile
    taker, owned, ended = Taker(), Segment(64 << 10), []
    channel.listen(taker)
    mapped = Mapped(os.dup(owned.fileno()), False, lambda: ended.append("discarded"))
    channel.pool.add_foreign(mapped)
    value = mapped.view(0, 1000, lambda: ended.append("returned"))
    piece = channel.pool.lend(value[:].data) if lent_on else piece_of(channel.pool, channel.pool.create(64 << 10))
    del value
    channel.send_shared(b"head", piece)
    for opcode in sent:
        theirs.data.send(framed(opcode, bytes(4)))
    assert (await taker.end).code == VIOLATION
    assert piece.segment.loans == 0
    assert ended == (["discarded"] * (sent[0] == frames.DISCARDED) + ["returned"] if lent_on else ["returned"])


async def test_descriptors_that_a_peer_sends_without_end_stay_in_the_socket(hostile):
    channel, theirs = hostile
    taker = Taker()
    channel.listen(taker)
    with socket.socket() as file:
        before = len(os.listdir("/proc/self/fd"))
        theirs.descriptors.setblocking(False)
        with contextlib.suppress(OSError):
            while True:
                socket.send_fds(theirs.descriptors, [b"\0"], [file.fileno()] * 10)
        assert len(os.listdir("/proc/self/fd")) == before
        theirs.data.send(shared(0, 10, True))
        assert (await taker.end).code == VIOLATION
        await channel.close()
        await asyncio.sleep(0)
        assert len(os.listdir("/proc/self/fd")) < before


async def test_a_peer_that_takes_no_descriptors_is_lost(hostile):
    channel, theirs = hostile
    taker = Taker()
    channel.listen(taker)
    theirs.descriptors.close()
    segment = channel.pool.create(1000)
    channel.send_shared(b"head", piece_of(channel.pool, segment))
    assert (await taker.end).code == LOST


async def test_a_channel_that_nobody_hears_shares_nothing():
    async with a_pair(network(), ANYWHERE) as (near, far):
        near.send(b"head")
        assert await receive(far) == b"head"
        segment = near.pool.create(1000)
        await near.close()
        with pytest.raises(ClosedError):
            near.send_shared(b"head", piece_of(near.pool, segment))
        near.pool.give_back(segment)


# A peer that is killed

CHILD = """
import asyncio, sys
from aioflow.net.transport.websocket_server import WebSocketNetwork
from aioflow.net.peer.handshake import connect
from aioflow.net.wire.identity import Identity
from tests.support.net_peers import tensor, feeding
import numpy as np

async def main():
    peer = await connect(WebSocketNetwork(shared_memory=True), sys.argv[1], Identity("/job:ps/replica:0/task:0"))
    print("ready", flush=True)
    while True:
        for number in range(250):
            found, changed, _ = await asyncio.gather(
                peer.request(tensor(1 << 20, number)),
                peer.request(tensor(1 << 21)),
                peer.request(feeding(np.full(1 << 19, number % 100, np.uint8))))
            assert (found.values[0] == number).all()
            (variable,) = changed.values
            assert (variable == variable[0]).all()
            del found

asyncio.run(main())
"""


class Checking(Service):
    """Checks what it is fed, and serves a variable that changes before each of its `reads`.

    `moved` counts the reads at which the variable was in shared memory.
    """

    wrong = reads = moved = 0

    def __init__(self):
        super().__init__()
        self.served = asyncio.Semaphore(0)
        self.variable = VariableState("v", Spec(dtypes.uint8, TensorShape([1 << 21])))
        self.variable.assign(np.zeros(1 << 21, np.uint8))

    async def has_served(self, count):
        """Wait for so many calls more."""
        self.calls.clear()
        while not self.served.locked():
            await self.served.acquire()
        for _ in range(count):
            await self.served.acquire()

    async def answer(self, call):
        self.served.release()
        if isinstance(call.message, RunGraph):
            value = call.message.feeds[0]
            self.wrong += int(value.size != 1 << 19 or (value != value[0]).any())
        elif call.message.keys[0][1] == 1 << 21:
            return TensorSent((0,), (self.changed(),))
        return await super().answer(call)

    def changed(self):
        """The value, after it was changed in place where nobody has it, in one of two ways."""
        self.reads += 1
        self.moved += containers.LENDABLE.has(self.variable.read())
        if self.reads % 2:
            return self.variable.change(lambda present: np.add(present, 1, out=present))
        self.variable.begin_change()
        room, filled_with = self.variable.draft(np)
        np.add(room if filled_with is None else filled_with, 1, out=room)
        self.variable.settle(room)
        self.variable.end_change()
        return self.variable.read()


@pytest.mark.slow
@pytest.mark.parametrize("part", range(amount(1, 4)))  # 200 moments in all: each starts a process
async def test_a_process_that_is_killed_at_any_moment_leaves_no_segment_and_no_wrong_value(monkeypatch, part):
    few = SegmentPool(1 << 30, kept=8 * MIB)
    memory = LendableMemory()
    memory.provide(few)
    monkeypatch.setattr(websocket_server, "pool", lambda: few)
    monkeypatch.setattr(segments, "LENDABLE", memory)
    monkeypatch.setattr(containers, "LENDABLE", memory)
    service = Checking()
    acceptor = Acceptor(Identity(WORKER), service, network=None)
    listener = await network().listen(ANYWHERE, acceptor.accept)
    chance = np.random.default_rng(part)
    others = maps().count("memfd:aioflow") - len(pool()._segments)  # of other tests
    try:
        for _ in range(amount(2, 50)):
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", CHILD, listener.address, stdout=asyncio.subprocess.PIPE
            )
            assert await child.stdout.readline() == b"ready\n"
            await service.has_served(4)
            await asyncio.sleep(chance.uniform(0, 0.03))
            child.kill()
            await child.wait()
            child._transport.close()
            await asyncio.gather(*[peer.close() for peer in acceptor.peers.values()])
        service.calls.clear()
        assert not service.wrong
        value = service.variable.read()
        assert set(value.tolist()) == {service.reads % 256}
        assert service.moved > 0
        del value
        service.variable.release()
        for _ in range(20):
            gc.collect()
            await asyncio.sleep(0.001)
        assert not [one for one in few._segments.values() if one.loans]
        few.give_back(few.reuse(1) or few.create(1))  # free memory is dropped when a loan ends
        assert few.nbytes <= 9 * MIB
        assert maps().count("memfd:aioflow") <= len(few._segments) + len(pool()._segments) + others
    finally:
        await acceptor.close()
        await listener.close()


def test_a_segment_can_be_discarded_only_while_it_is_lent():
    shared_pool = pool()
    segment, lent = shared_pool.create(1 << 16), _Lent(shared_pool)
    number, _ = lent.lend(segment)
    assert lent.segment(number) is segment
    lent.returned(number)
    with pytest.raises(SharedMemoryError, match=f"segment {number} was discarded, which is not lent"):
        lent.segment(number)
