"""One end of a Unix socket as a channel between two processes of one user on one host, which lend each other memory.

The frames are those of a websocket, unmasked, and four more:

    SHARED      the number of a segment, where values begin in it, their bytes, whether the segment is new, and the
                frame that announces the values
    RETURNED    numbers of segments: one loan of each has ended
    FORGOTTEN   numbers of segments that the owner has dropped
    DISCARDED   numbers of segments that the owner must drop: a lost process, to which the peer has lent them on, may
                still read them

A segment has its number from the frame that names it first until it is forgotten; its descriptor is passed before.
"""

import asyncio
import contextlib
import functools
import itertools
import struct
import threading
import weakref
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Final

from aioflow.net.transport import websocket_frames as frames
from aioflow.net.transport.busy_poll import BusyPoll
from aioflow.net.transport.channel import ClosedError
from aioflow.net.transport.descriptors import DescriptorSocket
from aioflow.net.transport.mapped_segments import Mapped
from aioflow.net.transport.segments import MANY, LendableSegment, Piece, SegmentPool, SharedMemoryError
from aioflow.net.transport.websocket_channel import WebSocketChannel
from aioflow.net.wire.framing import Frame

_RECORD: Final = struct.Struct("<IQQ?")
_NUMBER: Final = struct.Struct("<I")
_SOON: Final = 0.001
"""Seconds that an ended loan waits for a frame to the peer, so that it does not wake the peer by itself."""
_LARGE: Final = 1 << 20
"""Loans of larger segments do not wait: other memory for the next value would cost the peer more than a wake."""
_MOST: Final = 1 << 10
"""Segments of the peer that are mapped at most."""


class SharedMemoryChannel(WebSocketChannel):
    """A Unix socket as a channel. It sends large values in shared memory.

    Attributes:
        pool: the memory that it lends.
    """

    def __init__(
        self, transport: asyncio.Transport, descriptors: DescriptorSocket, tcp: asyncio.Transport, longest: int,
        pool: SegmentPool, *, dialled: bool, private: bool, release: Callable[[], Awaitable[None]],
        poll: BusyPoll | None = None,
    ) -> None:  # fmt: skip
        """Take over a Unix socket.

        Args:
            transport: that socket.
            descriptors: the socket for descriptors beside it.
            tcp: the transport of the websocket by which both ends agreed on it.
            longest: the most bytes of a frame.
            pool: the memory to lend.
            dialled: whether this end dialled.
            private: whether received arrays may be written to, as users of a session may do.
            release: releases the other resources of the connection.
            poll: how its loop polls for messages; None if it sleeps until they come.
        """
        self.pool: Final = pool
        self._descriptors: Final = descriptors
        self._tcp: Final = tcp
        self._private: Final = private
        self._lent: Final = _Lent(pool)
        self._mapped: Final[dict[int, Mapped]] = {}
        self._loans: Final = _Loans(self)
        self._loop: Final = asyncio.get_running_loop()
        super().__init__(
            transport, longest, dialled=dialled, release=release, masks=False, opcodes=frames.OF_ONE_HOST, poll=poll
        )  # fmt: skip

    @property
    def transport(self) -> asyncio.Transport:
        """The transport that has the addresses of both ends."""
        return self._tcp

    @property
    def sharing(self) -> "SharedMemoryChannel":
        """It lends memory."""
        return self

    # Lending

    def send_shared(self, head: Frame, piece: Piece) -> None:
        """Send a frame, and then lend the memory of the values that it announces."""
        self._check()
        number, new = self._lent.lend(piece.segment)
        if new:
            for surplus in self._lent.surplus():
                self._forget(surplus)
            piece.segment.users.add(self)
            try:
                self._descriptors.send(piece.segment)
            except OSError:  # the peer is gone, or does not take what it was sent
                self._transport.abort()
                return
        self._add(frames.SHARED, _RECORD.pack(number, piece.start, piece.nbytes, new) + head)
        with contextlib.suppress(ClosedError):  # `lost` follows, which ends the loan
            self._leave()

    def dropped(self, segment: LendableSegment) -> None:
        """The peer need not map that segment any longer."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._forget, segment)

    def _forget(self, segment: LendableSegment) -> None:
        number = self._lent.forget(segment)
        if number is not None:
            self._control(frames.FORGOTTEN, _NUMBER.pack(number))

    def _returned(self, number: int) -> None:
        segment = self._lent.returned(number)
        if segment.is_dropped:
            self._forget(segment)

    def give_back(self, numbers: list[int]) -> None:
        """Tell the peer, of small ones with the next frame or soon, which of its segments are used no longer."""
        mapped = [self._mapped[number].nbytes for number in numbers if number in self._mapped]
        with contextlib.suppress(ClosedError):
            self._check()
            self._add(frames.RETURNED, b"".join([_NUMBER.pack(number) for number in numbers]))
            if max(mapped, default=0) > _LARGE:
                self._leave()
            else:
                self._leave_within(_SOON)

    # What comes

    def _came(self, opcode: int, payload: Frame) -> None:
        try:
            if opcode == frames.SHARED:
                self._shared(payload)
            elif opcode == frames.RETURNED:
                for number in _numbers(payload):
                    self._returned(number)
            elif opcode == frames.FORGOTTEN:
                for number in _numbers(payload):
                    self._unmap(number)
            elif opcode == frames.DISCARDED:
                for number in _numbers(payload):
                    self._lent.segment(number).discard(self.pool)
            else:
                super()._came(opcode, payload)
        except SharedMemoryError as error:
            raise frames.FrameError(str(error)) from None

    def _shared(self, payload: Frame) -> None:
        if len(payload) <= _RECORD.size:
            raise SharedMemoryError("a malformed record of shared memory came")
        number, start, nbytes, new = _RECORD.unpack_from(payload)
        if new:
            self._map(number)
        mapped = self._mapped.get(number)
        if mapped is None or not 0 < nbytes <= mapped.nbytes - start:
            raise SharedMemoryError(f"{nbytes} bytes at {start} of segment {number} came, which are not there")
        memory = mapped.view(start, nbytes, functools.partial(self._loans.ended, number))
        if self._closed is None and self._receiver is not None:
            self._receiver.shared_received(payload[_RECORD.size :], memory)

    def _map(self, number: int) -> None:
        file = self._taken()
        if file is None:
            raise SharedMemoryError(f"segment {number} came without a descriptor")
        mapped = Mapped(file, self._private, functools.partial(self._control, frames.DISCARDED, _NUMBER.pack(number)))
        if number in self._mapped or len(self._mapped) >= _MOST:
            raise SharedMemoryError(f"segment {number} came twice, or is one of too many")
        self._mapped[number] = mapped
        if not self._private:
            self.pool.add_foreign(mapped)

    def _unmap(self, number: int) -> None:
        mapped = self._mapped.pop(number, None)
        if mapped is not None:
            mapped.drop()

    def _taken(self) -> int | None:
        try:
            return self._descriptors.take()
        except OSError:
            return None

    def connection_lost(self, exc: Exception | None) -> None:
        """What the peer may still read is not used again."""
        super().connection_lost(exc)
        self._lent.discard()
        for number in list(self._mapped):
            self._unmap(number)


def _numbers(payload: Frame) -> list[int]:
    if len(payload) % _NUMBER.size:
        raise SharedMemoryError("a malformed list of segments came")
    return [number for (number,) in _NUMBER.iter_unpack(payload)]


class _Lent:
    """The segments that a peer maps, and their loans."""

    def __init__(self, pool: SegmentPool) -> None:
        self._pool: Final = pool
        self._numbers: Final[dict[LendableSegment, int]] = {}
        self._segments: Final[dict[int, LendableSegment]] = {}
        self._loans: Final[Counter[int]] = Counter()
        self._next = 0

    def lend(self, segment: LendableSegment) -> tuple[int, bool]:
        """The number of a segment of which one loan begins, and whether the number is new."""
        new = segment not in self._numbers
        if new:
            self._numbers[segment] = self._next
            self._segments[self._next] = segment
            self._next = (self._next + 1) % (1 << 32)
        number = self._numbers[segment]
        self._loans[number] += 1
        return number, new

    def segment(self, number: int) -> LendableSegment:
        """The lent segment of that number. SharedMemoryError if there is none."""
        found = self._segments.get(number)
        if found is None or self._loans[number] < 1:
            raise SharedMemoryError(f"segment {number} was discarded, which is not lent")
        return found

    def returned(self, number: int) -> LendableSegment:
        """End one loan of a segment. SharedMemoryError if there is none."""
        if self._loans[number] < 1:
            raise SharedMemoryError(f"segment {number} was returned, which is not lent")
        self._loans[number] -= 1
        segment = self._segments[number]
        self._pool.give_back(segment)
        return segment

    def surplus(self) -> list[LendableSegment]:
        """Segments that are not lent, the oldest first, which the peer need not map: it maps too many."""
        more = len(self._numbers) - 2 * MANY
        idle = (segment for segment, number in self._numbers.items() if not self._loans[number])
        return list(itertools.islice(idle, more)) if more > 0 else []

    def forget(self, segment: LendableSegment) -> int | None:
        """The former number of a segment; None if it has none, or is still lent."""
        number = self._numbers.get(segment)
        if number is None or self._loans[number]:
            return None
        del self._numbers[segment], self._segments[number], self._loans[number]
        return number

    def discard(self) -> None:
        """Lose the memory of all loans."""
        for number, segment in list(self._segments.items()):
            if self._loans[number]:
                segment.discard(self._pool)
        self._numbers.clear()
        self._segments.clear()
        self._loans.clear()


class _Loans:
    """The ended loans of a peer's memory. Arrays end them in any thread, some long after the channel."""

    def __init__(self, channel: SharedMemoryChannel) -> None:
        self._channel: Final = weakref.ref(channel)
        self._loop: Final = asyncio.get_running_loop()
        self._thread: Final = threading.get_ident()
        self._ended: Final[deque[int]] = deque()
        self._due = False
        """Whether the loop will tell the peer. Cleared before the list is read, so that no thread is missed."""

    def ended(self, number: int) -> None:
        """No array uses that loan any more."""
        self._ended.append(number)
        if not self._due:
            self._due = True
            is_here = threading.get_ident() == self._thread
            with contextlib.suppress(RuntimeError):  # the loop is closed
                (self._loop.call_soon if is_here else self._loop.call_soon_threadsafe)(self._tell)

    def _tell(self) -> None:
        self._due = False
        numbers = [self._ended.popleft() for _ in range(len(self._ended))]
        channel = self._channel()
        if channel is not None and numbers:
            channel.give_back(numbers)
