"""Cuts messages into the frames of a channel, and assembles messages from frames.

A message is sent in bursts of frames. Bursts of other messages may come between them, so a small message does not wait
for a large one, and a sender can give a message up.

The Assembler checks all bounds on the first frame of a message, before it takes memory. Then it copies each frame to
its final place.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

import numpy as np

from aioflow import errors
from aioflow.net.wire.codec import Announcement, Envelope, ProtocolError, head_of, received
from aioflow.net.wire.control_verbs import Drop, Part
from aioflow.net.wire.limits import INLINE, STANDARD, Limits
from aioflow.net.wire.schema import RECORDS, Answer, Message
from aioflow.net.wire.values import ALIGNED, Buffer, Incoming, describe, scalars_sent
from aioflow.tensors.as_array import AnyArray

Frame = bytes | memoryview
Burst = list[Frame]
StreamKey = tuple[int, bool]
"""The message that a stream of bytes belongs to: its number, and whether it is an answer."""

BURST: Final = 1 << 20
"""Bytes of raw frames in a burst, at most; there is at least one frame."""
_SMALL: Final = 4096
_PART: Final = 4
"""A small part of an array has at most `BURST` bytes, and the array more than this many times as many."""


class Outgoing:
    """A message that is being sent.

    Attributes:
        nbytes: the bytes of its values after the first frame.
        key: the key of their stream.
    """

    __slots__ = (
        "_buffers", "_descriptors", "_fields", "_first", "_frame", "_limits", "_message", "_values", "key", "nbytes",
    )  # fmt: skip

    def __init__(self, message: Envelope, limits: Limits) -> None:
        """InvalidArgumentError if the message cannot be sent, ResourceExhaustedError if it is too large."""
        number, content, _, _ = message
        values: list[Any] = []
        try:
            self._fields: Final = RECORDS[type(content)].writer(content, values)
        except ValueError as error:
            raise errors.InvalidArgumentError(str(error)) from None
        self._message: Final = message
        self._limits: Final = limits
        self.key: Final[StreamKey] = number, isinstance(content, Answer)
        self.nbytes: int = 0
        self._values: list[Sequence[Buffer]] = []
        self._first = b""
        """The bytes of values in the first frame, if others follow."""
        self._frame = b""
        scalars = scalars_sent(values)
        if scalars is None:
            self._describe(values)
        else:
            self._descriptors: list[Any] = scalars[0]
            self._buffers: list[Buffer] = [scalars[1]] if scalars[1] else []

    def _describe(self, values: list[Any]) -> None:
        sent = [describe(value) for value in values]
        total = sum([one.nbytes for one in sent])
        if total > self._limits.tensor or total > self._limits.message:
            _check_sizes(max([one.nbytes for one in sent]), total, self._limits)
        self._descriptors = [one.descriptor for one in sent]
        self._buffers = [buffer for one in sent for buffer in one.buffers if len(buffer)]
        self._values = [one.buffers for one in sent if one.nbytes]
        self.nbytes = total if total > INLINE else 0

    def bursts(self, left: float | None = None) -> Iterator[Burst]:
        """Yield the frames in bursts. `left` is the number of seconds left for the answer."""
        if not self.nbytes:
            yield [self.frame(left)]
            return
        bursts = _bursts(self._buffers, self._limits.chunk)
        first = next(bursts)
        yield [self.head(left, _size(first)), *first]
        number, answer = self.key
        for burst in bursts:
            part = Envelope(number, Part(answer))
            yield [head_of(part, [], [answer], _size(burst), self._limits, None), *burst]

    def frame(self, left: float | None = None) -> bytes:
        """The only frame, if no bytes come after it. It is made once, with the `left` of the first call."""
        if not self._frame:
            head = head_of(self._message, self._descriptors, self._fields, 0, self._limits, left)
            self._frame = b"".join([head, *self._buffers])
        return self._frame

    @property
    def shared(self) -> Sequence[Sequence[Buffer]]:
        """The buffers of each value that has bytes, but for the first values, if these are small."""
        return self._values[self._small_ones() :]

    def move(self, buffers: Sequence[Buffer]) -> None:
        """Send these buffers, which have the bytes of the `shared` values, one for each; those before go first."""
        before = self._values[: self._small_ones()]
        self._first += b"".join([each for value in before for each in value])
        self._buffers = list(buffers)
        self._values = [[buffer] for buffer in buffers]

    def _small_ones(self) -> int:
        """How many values, from the first on, fit in the first frame, though all together do not."""
        totals = itertools.accumulate([_size(buffers) for buffers in self._values])
        return sum(1 for _ in itertools.takewhile(lambda total: total <= INLINE, totals))

    def whole(self, left: float | None) -> Burst:
        """All frames, of which the first announces all bytes of the others."""
        chunks = list(_chunks(self._buffers, self._limits.chunk))
        return [self.head(left, _size(chunks)), *chunks]

    def head(self, left: float | None, follows: int) -> bytes:
        """The first frame, after which so many bytes follow in frames."""
        head = head_of(self._message, self._descriptors, self._fields, follows, self._limits, left)
        return head + self._first


def _check_sizes(largest: int, total: int, limits: Limits) -> None:
    if largest > limits.tensor:
        raise errors.ResourceExhaustedError(
            f"a value of {largest} bytes is more than the {limits.tensor} that were agreed on with the peer"
        )
    if total > limits.message:
        raise errors.ResourceExhaustedError(
            f"values of {total} bytes are more than the {limits.message} of a message that were agreed on with the peer"
        )


def frame_of(message: Envelope, limits: Limits) -> bytes:
    """The frame of a message that carries no values."""
    return Outgoing(message, limits).frame()


def _size(burst: Iterable[Frame]) -> int:
    return sum(map(len, burst))


def _bursts(buffers: Sequence[Buffer], chunk: int) -> Iterator[Burst]:
    burst: Burst = []
    for frame in _chunks(buffers, chunk):
        burst.append(bytes(frame) if _keeps_more(frame) else frame)
        if len(burst) * chunk >= BURST:
            yield burst
            burst = []
    if burst:
        yield burst


def _keeps_more(frame: Frame) -> bool:
    """Whether a frame is a view of a small part of an array, which it would keep until the peer has received it."""
    value = frame.obj if isinstance(frame, memoryview) else None
    if not isinstance(value, np.ndarray) or value.nbytes > BURST:
        return False
    whole = value
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    return whole.nbytes > _PART * value.nbytes


def _chunks(buffers: Sequence[Buffer], chunk: int) -> Iterator[Frame]:
    """The bytes in frames: views of the large buffers, and the small ones joined."""
    few: list[Buffer] = []
    nbytes = 0
    for buffer in buffers:
        if len(buffer) <= _SMALL and nbytes + len(buffer) <= chunk:
            few.append(buffer)
            nbytes += len(buffer)
            continue
        if few:
            yield b"".join(few)
            few, nbytes = [], 0
        for start in range(0, len(buffer), chunk):
            yield buffer[start : start + chunk]
    if few:
        yield b"".join(few)


def offsets(sizes: Iterable[int]) -> tuple[list[int], int]:
    """Where values of these sizes begin in shared memory, and the bytes up to the end of the last one."""
    found, at = [], 0
    for size in sizes:
        at += -at % ALIGNED if size else 0
        found.append(at)
        at += size
    return found, at


# Assembling


class Receiver(Protocol):
    """Decides on announced messages that need memory."""

    def admits(self, announced: Announcement, key: StreamKey) -> bool:
        """Whether to receive the message. Otherwise its bytes are discarded."""

    def out_of_memory(self, announced: Announcement, key: StreamKey) -> None:
        """Handle a message for which there is no memory. Its bytes are discarded."""

    def dropped(self, key: StreamKey) -> None:
        """Handle a message whose remaining bytes will not come."""


class Assembler:
    """Assembles messages from the frames of one channel in order. ProtocolError for a violation of the protocol.

    Attributes:
        received: bytes of the window that are free again and not yet reported to the sender.
    """

    def __init__(self, limits: Limits, receiver: Receiver) -> None:
        self.received: int = 0
        self._limits: Final = limits
        self._receiver: Final = receiver
        self._streams: Final[dict[StreamKey, _Stream]] = {}
        self._current: _Stream | None = None
        self._follows = 0
        self._charged = 0

    def feed(self, frame: Frame) -> Envelope | None:
        """Add a frame. Returns the message that it completes, if the receiver wants it; otherwise None."""
        stream = self._current
        if stream is None:
            found = received(frame, self._limits)
            return found if isinstance(found, Envelope) else self._head(found)
        if not 0 < len(frame) <= min(self._follows, self._limits.chunk):
            raise ProtocolError(f"a frame of {len(frame)} bytes came where up to {self._follows} were to follow")
        stream.fill(frame)
        return self._came(stream, len(frame))

    @property
    def raw_expected(self) -> int:
        """The raw bytes that follow; they may be added in parts."""
        return self._follows

    def get_buffer(self, most: int) -> memoryview | None:
        """Where the next raw bytes belong, `most` at most; None if nowhere."""
        return None if self._current is None else self._current.get_buffer(min(most, self._follows))

    def buffer_updated(self, nbytes: int) -> Envelope | None:
        """Count raw bytes that were written to their place. Returns a message as `feed` does."""
        assert self._current is not None
        self._current.buffer_updated(nbytes)
        return self._came(self._current, nbytes)

    def adopt(self, frame: Frame, memory: AnyArray) -> tuple[Envelope | None, int]:
        """Add a frame, and all bytes that follow it, each value at a multiple of 64 bytes in this memory.

        The frame may have the first values whole. Returns the message as `feed` does, and how many bytes follow.
        """
        announced = None if self._current is not None else received(frame, self._limits)
        if not isinstance(announced, Announcement):
            raise ProtocolError(f"{len(memory)} bytes of shared memory came where they do not belong")
        key = announced.header.id, announced.is_answer
        self.received += self._charge(announced, key)
        _place(announced, memory)
        message = _envelope(announced)
        return message if self._receiver.admits(announced, key) else None, announced.header.follows

    def _came(self, stream: "_Stream", nbytes: int) -> Envelope | None:
        self._follows -= nbytes
        if self._follows:
            return None
        self._current = None
        return None if stream.left else self._end(stream)

    def is_incomplete(self, key: StreamKey) -> bool:
        """Whether that message is announced, but not complete."""
        return key in self._streams

    def abandon(self, key: StreamKey) -> None:
        """Discard the bytes of a message that still come, since the receiver does not want it any more."""
        stream = self._streams.get(key)
        if stream is not None:
            stream.abandon()

    def clear(self) -> None:
        """Drop all unfinished messages, since no more frames will come."""
        for stream in self._streams.values():
            self._drop(stream)
        self._streams.clear()

    def _drop(self, stream: "_Stream") -> None:
        if (
            stream.announced is not None
        ):  # an unannounced message is unknown to the receiver, which may expect another one of this number
            stream.abandon()
            self._receiver.dropped(stream.key)

    @property
    def pending(self) -> int:
        """The number of unfinished messages."""
        return len(self._streams)

    def _head(self, announced: Announcement) -> Envelope | None:
        cls, header = announced.record.cls, announced.header
        if cls is Part or cls is Drop:
            announced.check()
            stream = self._stream_of((header.id, bool(header.fields[0])))
            if cls is Drop:
                self._drop(stream)
                return self._end(stream)
        elif len(announced.inline) == announced.nbytes:
            return _whole(announced)
        else:
            stream = self._begin(announced)
        if header.follows > stream.left:
            raise ProtocolError(f"{header.follows} bytes are to follow where {stream.left} are missing")
        if header.follows:
            self._current, self._follows = stream, header.follows
        return None

    def _stream_of(self, key: StreamKey) -> "_Stream":
        stream = self._streams.get(key)
        if stream is None:
            raise ProtocolError(f"message {key[0]} was not announced, and bytes of it come")
        return stream

    def _begin(self, announced: Announcement) -> "_Stream":
        key = announced.header.id, announced.is_answer
        charge = self._charge(announced, key)
        announced.check()
        self._charged += charge
        stream = self._streams[key] = _Stream(key, announced.nbytes, charge, self._receiver)
        stream.begin(announced.inline, announced if self._receiver.admits(announced, key) else None)
        return stream

    def _charge(self, announced: Announcement, key: StreamKey) -> int:
        """The bytes of the window that a new message takes. ProtocolError if it may not come now."""
        charge = self._limits.charge(announced.nbytes)
        if key in self._streams:
            raise ProtocolError(f"message {key[0]} was announced twice")
        if self._charged + self.received + charge > self._limits.window:
            raise ProtocolError(
                f"{announced.nbytes} bytes were announced with {self._limits.window - self._charged - self.received} "
                "of credit left"
            )
        if len(self._streams) >= self._limits.requests:
            raise ProtocolError(f"more than {self._limits.requests} messages were announced at a time")
        return charge

    def _end(self, stream: "_Stream") -> Envelope | None:
        del self._streams[stream.key]
        self._charged -= stream.charge
        self.received += stream.charge
        return None if stream.announced is None else _envelope(stream.announced)


class _Stream:
    """A message whose values are arriving. Without memory, their bytes are discarded.

    Attributes:
        left: the missing bytes.
        charge: the bytes of the window that it takes.
        announced: its decoded first frame; None if the receiver does not want it.
    """

    __slots__ = ("_at", "_memory", "_receiver", "_values", "announced", "charge", "key", "left")

    def __init__(self, key: StreamKey, nbytes: int, charge: int, receiver: Receiver) -> None:
        self.key: Final = key
        self.left = nbytes
        self.charge: Final = charge
        self.announced: Announcement | None = None
        self._receiver: Final = receiver
        self._values: Sequence[Incoming] = ()
        """The values that did not come whole in the first frame."""
        self._memory: list[memoryview] | None = None
        """The memory of those of them that miss bytes, the last value first; None until the first byte comes."""
        self._at = 0

    def begin(self, inline: Frame, announced: Announcement | None) -> None:
        """Take the bytes of the first frame, whose message the receiver wants if it is given."""
        self.announced = announced
        if announced is not None:
            count, nbytes = _fill(announced.values, inline)
            self._values = announced.values[count:]
            self.left -= nbytes
            inline = inline[nbytes:]
        self.fill(inline)

    def _allocate(self) -> list[memoryview]:
        """Take the memory for the values, if they are wanted, and there is memory."""
        memory: list[memoryview] = []
        if self.announced is not None:
            try:
                memory = [value.allocate() for value in self._values]
            except MemoryError:
                self._receiver.out_of_memory(self.announced, self.key)
                self.announced = None
                memory = []
        return [one for one in reversed(memory) if len(one)]

    def fill(self, data: Frame) -> None:
        """The next bytes."""
        start = 0
        while start < len(data) and (space := self.get_buffer(len(data) - start)) is not None:
            space[:] = data[start : start + len(space)]
            self.buffer_updated(len(space))
            start += len(space)
        self.left -= len(data) - start

    def get_buffer(self, most: int) -> memoryview | None:
        """Where the next bytes belong, `most` at most; None if they are thrown away."""
        if self._memory is None:
            self._memory = self._allocate()
        return self._memory[-1][self._at : self._at + most] if self._memory else None

    def buffer_updated(self, nbytes: int) -> None:
        """Count bytes that were written to that place."""
        assert self._memory is not None
        self.left -= nbytes
        self._at += nbytes
        if self._at == len(self._memory[-1]):
            self._memory.pop()
            self._at = 0

    def abandon(self) -> None:
        """Release the memory."""
        self.announced = None
        self._memory = []


def message_in(frame: bytes) -> Message:
    """The message of a frame that this process has made, and after which no bytes come."""
    found = received(frame, STANDARD)
    return (found if isinstance(found, Envelope) else _whole(found)).message


def _whole(announced: Announcement) -> Envelope:
    """A message whose values came in its first frame."""
    _fill(announced.values, announced.inline)
    return _envelope(announced)


def _fill(values: Sequence[Incoming], data: Frame) -> tuple[int, int]:
    """Fill the first values, as far as they are whole in these bytes. Returns how many they are, and their bytes."""
    at = count = 0
    for value in values:
        if at + value.nbytes > len(data):
            break
        value.fill(memoryview(data)[at : at + value.nbytes])
        at, count = at + value.nbytes, count + 1
    return count, at


def _place(announced: Announcement, memory: AnyArray) -> None:
    """Let the values that are not in the first frame lie in this memory. ProtocolError if they do not fit there."""
    count, inline = _fill(announced.values, announced.inline)
    values = announced.values[count:]
    starts, nbytes = offsets([value.nbytes for value in values])
    if (inline, announced.nbytes - inline, nbytes) != (len(announced.inline), announced.header.follows, len(memory)):
        raise ProtocolError(f"{len(memory)} bytes of shared memory came for values that take {nbytes}")
    for value, start in zip(values, starts, strict=True):
        value.place(memory[start : start + value.nbytes])


def _envelope(announced: Announcement) -> Envelope:
    """The message, whose values have their bytes."""
    try:
        return announced.envelope([value.value() for value in announced.values])
    except ValueError as error:
        raise ProtocolError(f"{announced.record.name}: {error}") from None
