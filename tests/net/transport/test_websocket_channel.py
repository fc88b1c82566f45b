"""Frames of websockets, and the channel that takes them from a transport, however they are cut."""

import asyncio
import itertools
import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aioflow.net.transport import websocket_frames as frames
from aioflow.net.transport.channel import LOST, NORMAL, VIOLATION, ClosedError, Reason, receive
from aioflow.net.transport.masking import masked
from aioflow.net.transport.websocket_channel import WebSocketChannel

LONGEST = 5000
SIZES = st.sampled_from([0, 1, 125, 126, 256, 257, 3001, LONGEST])


def packed(opcode, payload, *, mask, final=True):
    key = os.urandom(4) if mask else b""
    head = frames.frame_head(opcode, len(payload), key)
    return bytes([head[0] & (0xFF if final else 0x7F)]) + head[1:] + bytes(masked(payload, key))


def content(nbytes, start=0):
    return bytes((start + number) % 251 for number in range(nbytes))


class Before(asyncio.Protocol):
    """What talked to the transport before."""

    told = False

    def connection_lost(self, exc):
        self.told = True


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self):
        super().__init__({"sockname": ("10.0.0.7", 1), "peername": ("10.0.0.8", 2)})
        self.written = b""
        self.writes = 0
        self.paused = False
        self.closing = False
        self.before = self._protocol = Before()

    def get_protocol(self):
        return self._protocol

    def set_protocol(self, protocol):
        self._protocol = protocol

    def pause_reading(self):
        assert not self.paused
        self.paused = True

    def resume_reading(self):
        assert self.paused
        self.paused = False

    def is_closing(self):
        return self.closing

    def write(self, data):
        self.written += bytes(data)
        self.writes += 1

    def abort(self):
        if not self.closing:
            self.closing = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    def comes(self, data):
        """Hand over what has come, as a transport does, as far as it is let."""
        while data and not self.paused and not self.closing:
            space = self._protocol.get_buffer(-1)
            count = min(len(space), len(data))
            assert count
            space[:count] = data[:count]
            self._protocol.buffer_updated(count)
            data = data[count:]
        return data


class FrameReceiver:
    """Notes what it hears. `wants` raw bytes are to follow after the first frame, into memory of its own."""

    def __init__(self, wants=0, own_memory=True):
        self.frames = []
        self.reason = None
        self.memory = bytearray(wants)
        self.at = None
        self._own = own_memory

    @property
    def raw_expected(self):
        return 0 if self.at is None else len(self.memory) - self.at

    def get_buffer(self, most):
        return memoryview(self.memory)[self.at : self.at + most] if self._own else None

    def buffer_updated(self, nbytes):
        self.at += nbytes
        if self.at == len(self.memory):
            self.at = None

    def frame_received(self, frame):
        if self.at is None:
            self.frames.append(bytes(frame))
            self.at = 0 if len(self.frames) == 1 and self.memory else None
        else:
            self.memory[self.at : self.at + len(frame)] = frame
            self.buffer_updated(len(frame))

    def lost(self, reason):
        assert self.reason is None
        self.reason = reason


async def nothing():
    """What is given back."""


def on(transport, dialled, poll=None):
    return WebSocketChannel(transport, LONGEST, dialled=dialled, release=nothing, poll=poll)


async def heard(data, cuts=(), *, dialled=True, receiver=None):
    """What is heard of these bytes, which come in pieces."""
    receiver, transport = receiver or FrameReceiver(), Transport()
    channel = on(transport, dialled)
    channel.listen(receiver)
    await asyncio.sleep(0)
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in itertools.pairwise(edges):
        assert not transport.comes(data[start:end]) or transport.paused
    return receiver, transport, channel


def head_of(written):
    """The head of the first frame that a dialler has written."""
    return frames.head_at(memoryview(written), 0, len(written), LONGEST, masked=True)


def unmasked(written):
    head = head_of(written)
    return bytes(masked(written[head.start : head.end], head.mask))


CUTS = st.lists(st.integers(0, 1 << 20), max_size=8)


@pytest.mark.parametrize("dialled", [False, True])
@given(sizes=st.lists(SIZES, max_size=5), cuts=CUTS)
async def test_frames_arrive_whole_however_they_are_cut(dialled, sizes, cuts):
    sent = [content(size, index) for index, size in enumerate(sizes)]
    data = b"".join([packed(frames.BINARY, one, mask=not dialled) for one in sent])
    receiver, transport, _ = await heard(data, cuts, dialled=dialled)
    assert receiver.frames == sent
    assert receiver.reason is None
    assert not transport.written


@pytest.mark.parametrize("dialled", [False, True])
@pytest.mark.parametrize("own_memory", [False, True])
@given(sizes=st.lists(SIZES.filter(bool), min_size=1, max_size=4), cuts=CUTS)
@example(sizes=[LONGEST, LONGEST], cuts=[3, 5, 4000, 5011])
async def test_raw_bytes_arrive_in_order_however_they_are_cut(dialled, own_memory, sizes, cuts):
    value = content(sum(sizes))
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    pieces = [value[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    data = b"".join([packed(frames.BINARY, one, mask=not dialled) for one in (b"head", *pieces, b"tail")])
    receiver, _, _ = await heard(data, cuts, dialled=dialled, receiver=FrameReceiver(len(value), own_memory))
    assert bytes(receiver.memory) == value
    assert receiver.frames == [b"head", b"tail"]


@given(parts=st.lists(st.binary(max_size=300), min_size=2, max_size=5), cuts=CUTS)
async def test_a_message_that_somebody_between_has_cut_arrives_whole(parts, cuts):
    opcodes = [frames.BINARY] + [frames.CONTINUATION] * (len(parts) - 1)
    cut = [
        packed(opcode, part, mask=False, final=index == len(parts) - 1)
        for index, (opcode, part) in enumerate(zip(opcodes, parts, strict=True))
    ]
    cut.insert(1, packed(frames.PING, b"there?", mask=False))
    receiver, transport, _ = await heard(b"".join(cut) + packed(frames.BINARY, b"next", mask=False), cuts)
    assert receiver.frames == [b"".join(parts), b"next"]
    assert (head_of(transport.written).opcode, unmasked(transport.written)) == (frames.PONG, b"there?")


WRONG = {
    "that is masked": packed(frames.BINARY, b"x", mask=True),
    "all messages are binary": packed(frames.TEXT, b"x", mask=False),
    "a text came": packed(frames.TEXT, b"x", mask=False, final=False) + packed(frames.CONTINUATION, b"y", mask=False),
    "a continuation frame came without a fragmented message": packed(frames.CONTINUATION, b"x", mask=False),
    "message within one": packed(frames.BINARY, b"x", mask=False, final=False)
    + packed(frames.BINARY, b"x", mask=False),
    "or in parts": packed(frames.PING, b"x", mask=False, final=False),
    "too long": packed(frames.PING, bytes(126), mask=False),
    "of 5001 bytes came, 5000 are the most": packed(frames.BINARY, bytes(LONGEST + 1), mask=False),
    "6000 bytes came in parts": packed(frames.BINARY, bytes(3000), mask=False, final=False)
    + packed(frames.CONTINUATION, bytes(3000), mask=False),
    "a kind came that is not agreed on": b"\xc2\x00",
    "not agreed on": b"\x83\x00",
    "18446744073709551615 bytes": b"\x82\x7f" + b"\xff" * 8,
}


@pytest.mark.parametrize("text", WRONG)
async def test_what_may_not_come_ends_it(text):
    receiver, transport, channel = await heard(WRONG[text] + packed(frames.BINARY, b"later", mask=False))
    assert receiver.reason.code == VIOLATION
    assert text in receiver.reason.text
    assert b"later" not in receiver.frames
    assert head_of(transport.written).opcode == frames.CLOSE
    assert unmasked(transport.written)[:2] == VIOLATION.to_bytes(2, "big")
    with pytest.raises(ClosedError, match=text):
        channel.send(b"x")
    assert transport.paused


async def test_who_does_not_mask_is_not_heard():
    receiver, _, _ = await heard(packed(frames.BINARY, b"x", mask=False), dialled=False)
    assert receiver.reason == Reason(VIOLATION, "a frame came that is not masked")


async def test_who_sends_much_does_not_hold_the_loop(monkeypatch):
    sent = [b"%d" % number * 500 for number in range(9)]
    receiver, transport, _ = await heard(b"")
    await asyncio.sleep(0)
    monkeypatch.setattr("aioflow.net.transport.websocket_channel.FRAME_SLICE", -1.0)  # each frame takes too long
    assert not transport.comes(b"".join([packed(frames.BINARY, one, mask=False) for one in sent]))
    for count in range(1, 10):
        assert receiver.frames == sent[:count]
        assert transport.paused
        await asyncio.sleep(0)
    monkeypatch.undo()
    await asyncio.sleep(0)
    assert not transport.paused


async def test_whoever_only_asks_for_signs_of_life_fills_no_buffer():
    receiver, transport, channel = await heard(b"")
    channel.pause_writing()
    transport.comes(packed(frames.PING, b"there?", mask=False) * 1000)
    assert not transport.written
    channel.resume_writing()
    transport.comes(packed(frames.PING, b"there?", mask=False))
    assert transport.written
    assert receiver.reason is None


async def test_a_transport_that_is_closed_before_it_says_so():
    _, transport, channel = await heard(b"")

    def closed(data):
        raise RuntimeError("the handler is closed")

    transport.write = closed
    with pytest.raises(ClosedError):
        channel.send(b"x")
    transport.comes(packed(frames.PING, b"", mask=False))
    closing = asyncio.create_task(channel.close())
    await asyncio.sleep(0)
    transport.abort()
    await closing


async def test_what_nobody_listens_to_waits_in_the_kernel():
    transport = Transport()
    channel = on(transport, dialled=True)
    assert transport.comes(b"".join([packed(frames.BINARY, b"%d" % number, mask=False) for number in range(9)])) == b""
    assert transport.paused
    assert [await receive(channel) for _ in range(9)] == [b"%d" % number for number in range(9)]
    assert transport.paused


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", Reason(NORMAL)),
        ((4001).to_bytes(2, "big") + b"no", Reason(4001, "no")),
        ((1011).to_bytes(2, "big") + b"\xff", Reason(LOST, "\N{REPLACEMENT CHARACTER}")),
        (b"\x03", Reason(NORMAL)),
    ],
)
async def test_a_close_is_told_and_answered_once(payload, reason):
    receiver, transport, channel = await heard(packed(frames.CLOSE, payload, mask=False) * 2)
    assert receiver.reason == reason
    answered = transport.written
    assert head_of(answered).opcode == frames.CLOSE
    assert unmasked(answered) == (reason.code if reason.code != LOST else NORMAL).to_bytes(2, "big")
    await channel.close()
    await asyncio.sleep(0)
    assert transport.written == answered
    assert transport.before.told


async def test_closing_waits_for_the_answer_and_hears_nothing_else():
    transport, receiver = Transport(), FrameReceiver()
    channel = on(transport, dialled=True)
    channel.listen(receiver)
    closing = asyncio.create_task(channel.close(Reason(VIOLATION, "enough")))
    await asyncio.sleep(0)
    assert receiver.reason == Reason(VIOLATION, "enough")
    assert not transport.comes(packed(frames.BINARY, b"late", mask=False))
    await asyncio.sleep(0)
    assert not closing.done()
    transport.comes(packed(frames.CLOSE, b"", mask=False))
    await closing
    assert transport.closing
    assert receiver.frames == []


async def test_the_connection_is_lost_amid_a_frame():
    receiver, transport, channel = await heard(packed(frames.BINARY, bytes(100), mask=False)[:50])
    transport.abort()
    await asyncio.sleep(0)
    assert receiver.reason == Reason(LOST)
    assert transport.before.told
    with pytest.raises(ClosedError):
        await channel.room()
    await channel.close()


@pytest.mark.parametrize("dialled", [False, True])
async def test_raw_bytes_are_told_of_before_their_frame_is_whole(dialled):
    value = content(3000)
    data = packed(frames.BINARY, b"head", mask=not dialled) + packed(frames.BINARY, value, mask=not dialled)
    receiver, _, _ = await heard(data[:1017], dialled=dialled, receiver=FrameReceiver(len(value)))
    assert receiver.at > 990
    assert receiver.memory[: receiver.at] == value[: receiver.at]


async def test_a_raw_frame_that_is_longer_than_announced_is_not_told_of_in_parts():
    data = packed(frames.BINARY, b"head", mask=False) + packed(frames.BINARY, content(3000), mask=False)
    receiver, _, _ = await heard(data[:2000], receiver=FrameReceiver(2999))
    assert receiver.at == 0


async def test_what_came_whole_is_told_though_the_connection_is_lost_before_anybody_listens():
    transport = Transport()
    channel = on(transport, dialled=True)
    transport.comes(b"".join([packed(frames.BINARY, one, mask=False) for one in (b"1", b"2")]) + b"\x82")
    transport.abort()
    await asyncio.sleep(0)
    assert [await receive(channel), await receive(channel)] == [b"1", b"2"]
    with pytest.raises(ClosedError):
        await receive(channel)


@pytest.mark.parametrize("dialled", [False, True])
async def test_short_frames_of_one_call_leave_in_one_write(dialled):
    transport = Transport()
    channel = on(transport, dialled)
    channel.send(b"1", memoryview(b"23"), b"")
    assert transport.writes == 1
    assert (await heard(transport.written, dialled=not dialled))[0].frames == [b"1", b"23", b""]
    channel.send(b"4", content(10_000), b"5")
    assert transport.writes == 4  # those before the long frame with its head, its content, and those after it
    transport.abort()
    await channel.close()


async def test_nothing_is_sent_once_the_transport_closes():
    _, transport, channel = await heard(b"")
    transport.closing = True
    with pytest.raises(ClosedError):
        channel.send(b"x")
    assert not transport.written
    transport.closing = False
    transport.abort()
    await channel.close()


async def test_a_wait_that_is_cancelled_as_its_frame_comes_breaks_nothing():
    transport = Transport()
    channel = on(transport, dialled=True)
    waiting = asyncio.create_task(receive(channel))
    for _ in range(3):
        await asyncio.sleep(0)
    waiting.cancel()
    transport.comes(packed(frames.BINARY, b"lost", mask=False))
    with pytest.raises(asyncio.CancelledError):
        await waiting
    waiting = asyncio.create_task(receive(channel))
    for _ in range(3):
        await asyncio.sleep(0)
    transport.comes(packed(frames.BINARY, b"next", mask=False))
    assert await waiting == b"next"


class Poll:
    """Records the messages of a channel."""

    def __init__(self):
        self.messages = []

    def sent(self):
        self.messages.append("sent")

    def received(self):
        self.messages.append("received")


async def test_a_channel_polls_after_what_it_sends_and_receives():
    poll, transport = Poll(), Transport()
    channel = on(transport, dialled=True, poll=poll)
    channel.listen(FrameReceiver())
    await asyncio.sleep(0)
    channel.send(b"asked")
    transport.comes(packed(frames.BINARY, b"answered", mask=False))
    assert poll.messages == ["sent", "received"]
