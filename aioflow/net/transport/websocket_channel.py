"""One end of a websocket as a channel, after aiohttp's handshake.

The channel takes over the transport. Received bytes go from the socket into one buffer, and from there to the receiver
in the same turn of the loop. The bytes of a large value go straight to their final place. With a queue and a task that
reads it, a small message takes half as long again, and a large one is copied three times.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Container
from typing import Final

from aioflow.net.transport import websocket_frames as frames
from aioflow.net.transport.busy_poll import BusyPoll
from aioflow.net.transport.channel import (
    DONE,
    LONGEST_REASON,
    LOST,
    NORMAL,
    SILENT,
    VIOLATION,
    ClosedError,
    FrameReceiver,
    Reason,
    Sharing,
)
from aioflow.net.transport.masking import key_maker, masked, masked_blocks
from aioflow.net.wire.framing import Frame
from aioflow.net.wire.limits import FRAME_SLICE

CLOSING: Final = 0.5
"""Seconds that the other end has to receive the sent frames and to close."""
_JOINED: Final = 1 << 13
"""A payload of no more bytes is joined with its head: to copy it takes less than another call of the system."""
_QUICK: Final = 1 << 12
"""The messages in no more bytes take less than a slice of time."""


class WebSocketChannel(asyncio.BufferedProtocol):
    """A websocket as a channel."""

    def __init__(
        self, transport: asyncio.Transport, longest: int, *, dialled: bool, release: Callable[[], Awaitable[None]],
        masks: bool = True, opcodes: Container[int] = frames.STANDARD, poll: BusyPoll | None = None,
    ) -> None:  # fmt: skip
        """Take over the transport of a websocket after its handshake.

        Args:
            transport: its present protocol is still told when the connection is lost.
            longest: the most bytes of a frame.
            dialled: whether this end dialled.
            release: releases the other resources of the connection.
            masks: whether the end that dialled masks its frames.
            opcodes: the kinds of frames that may come.
            poll: how its loop polls for messages; None if it sleeps until they come.
        """
        self._transport: Final = transport
        self._before: Final = transport.get_protocol()
        self._arrivals: Final = frames.FrameReader(longest, masks and not dialled, opcodes)
        self._new_key: Final = key_maker(transport) if masks and dialled else bytes
        self._release: Final = release
        self._poll: Final = poll
        self._receiver: FrameReceiver | None = None
        self._direct: memoryview | None = None
        """The memory of their value, to which received bytes go straight, if they do."""
        self._late: float | None = None
        """When others should run; None if nothing has come since they did."""
        self._behind = False
        """Whether they run before more is read."""
        self._reading = True
        self._room: asyncio.Future[None] | None = None
        self._full = False
        self._unsent: list[Frame] = []
        """Parts of frames that wait for the next frame."""
        self._leaving: asyncio.TimerHandle | None = None
        """Sends them at the latest."""
        self._closed: Reason | None = None
        """Why it was closed here."""
        self._ended: Reason | None = None
        """Why no more comes."""
        self._deaf = False
        """Whether frames that still arrive are ignored."""
        self._over: Final = asyncio.Event()
        transport.pause_reading()
        transport.set_protocol(self)
        transport.resume_reading()

    @property
    def transport(self) -> asyncio.Transport:
        """The transport of the channel."""
        return self._transport

    # Sending

    @property
    def sharing(self) -> Sharing | None:
        """A websocket carries all bytes itself."""
        return None

    @property
    def congested(self) -> bool:
        """Whether the transport has enough to do."""
        return self._full and self._ended is None

    async def room(self) -> None:
        """Return as soon as it has less."""
        while self.congested and self._closed is None:
            self._room = asyncio.get_running_loop().create_future()
            try:
                await self._room
            finally:
                self._room = None
        self._check()

    def send(self, *some: Frame) -> None:
        """The frames are in the transport's buffer, or in the kernel's."""
        self._check()
        for frame in some:
            self._add(frames.BINARY, frame)
        self._leave()

    def _check(self) -> None:
        reason = self._closed or self._ended
        if reason is not None or self._transport.is_closing():
            raise ClosedError(reason or Reason(LOST))

    def _add(self, opcode: int, payload: Frame) -> None:
        """Let a short frame wait for `_leave`. A long one is written, after those that wait."""
        key = self._new_key()
        self._unsent.append(frames.frame_head(opcode, len(payload), key))
        if len(payload) > _JOINED:
            self._leave()
            for block in masked_blocks(payload, key):
                self._give(block)
        else:
            self._unsent.append(bytes(masked(payload, key)))

    def _leave(self) -> None:
        """Write the waiting frames at once: each write is a call of the system, and may wake the peer."""
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        if self._unsent:
            data, self._unsent = b"".join(self._unsent), []
            self._give(data)

    def _leave_within(self, seconds: float) -> None:
        """Write the waiting frames with the next one, or after `seconds`."""
        if self._leaving is None:
            self._leaving = asyncio.get_running_loop().call_later(seconds, self._leave_late)

    def _leave_late(self) -> None:
        """The same, since no other frame has followed."""
        self._leaving = None
        if not self._transport.is_closing():
            with contextlib.suppress(ClosedError):  # `lost` follows
                self._leave()

    def _give(self, data: Frame) -> None:
        if self._poll is not None:
            self._poll.sent()
        try:
            self._transport.write(data)
        except RuntimeError:  # uvloop knows of the loss of a connection before it reports it
            raise ClosedError(Reason(LOST)) from None

    def _control(self, opcode: int, payload: bytes) -> None:
        if not self._transport.is_closing():
            with contextlib.suppress(ClosedError):
                self._add(opcode, payload)
                self._leave()

    def _tell_why(self, reason: Reason) -> None:
        text = reason.text.encode(errors="backslashreplace")[:LONGEST_REASON].decode(errors="ignore").encode()
        self._control(frames.CLOSE, reason.code.to_bytes(2, "big") + text)

    def pause_writing(self) -> None:
        """The transport has enough to do."""
        self._full = True

    def resume_writing(self) -> None:
        """It has less."""
        self._full = False
        self._wake()

    def _wake(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    # Receiving

    def listen(self, receiver: FrameReceiver | None) -> None:
        """From the next turn of the loop on, what comes is told to `receiver`."""
        self._receiver = receiver
        if receiver is not None:
            asyncio.get_running_loop().call_soon(self._tell)

    def add_early(self, data: bytes) -> None:
        """These bytes have come before the channel took the transport over."""
        self._arrivals.room()[: len(data)] = data
        self._arrivals.add(len(data))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the memory for the next bytes."""
        self._direct = None
        if self._arrivals.left and self._receiver is not None:
            wants = self._arrivals.wants
            self._direct = self._receiver.get_buffer(wants) if wants else None
        return self._arrivals.room() if self._direct is None else self._direct

    def buffer_updated(self, nbytes: int) -> None:
        """So much has come."""
        if self._poll is not None:
            self._poll.received()
        if nbytes > _QUICK:
            self._begin_turn()
        direct, self._direct = self._direct, None
        if direct is None:
            self._arrivals.add(nbytes)
            self._tell()
        elif self._receiver is not None:
            self._arrivals.add_elsewhere(direct[:nbytes])
            self._receiver.buffer_updated(nbytes)
            self._rest()

    def _begin_turn(self) -> None:
        """Others run after a slice of time: uvloop reads again and again in a turn as long as much is there."""
        if self._late is None:
            loop = asyncio.get_running_loop()
            self._late = loop.time() + FRAME_SLICE
            loop.call_soon(self._turned)

    def _turned(self) -> None:
        self._late = None
        if self._behind:
            self._behind = False
            self._begin_turn()
            self._tell()

    @property
    def _is_late(self) -> bool:
        return self._late is not None and asyncio.get_running_loop().time() > self._late

    def _rest(self) -> None:
        """Read more in this turn, or in the next, or when a receiver listens: until then the sender keeps it."""
        if self._late is not None:
            self._behind = self._behind or self._is_late
        wanted = self._ended is None and self._is_heard and not self._behind
        if wanted is not self._reading:
            self._read(wanted)

    def _tell(self) -> None:
        """Hand the frames to the receiver, and report the end of the channel after the last one."""
        try:
            self._take()
        except frames.FrameError as error:
            self._tell_why(Reason(VIOLATION, str(error)))
            self._end(Reason(VIOLATION, str(error)))
            self._deaf = True
        if self._ended is not None and self._receiver is not None and not self._behind:
            receiver, self._receiver = self._receiver, None
            receiver.lost(self._closed or self._ended)
        self._rest()

    @property
    def _is_heard(self) -> bool:
        """Whether a receiver listens, if only for the end."""
        return not self._deaf and (self._receiver is not None or self._closed is not None)

    def _read(self, wanted: bool) -> None:
        if not self._transport.is_closing():
            self._reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _take(self) -> None:
        arrivals = self._arrivals
        while arrivals.at < arrivals.filled and self._is_heard and not self._behind:
            short = arrivals.take_short()
            if short is not None:
                if self._closed is None and self._receiver is not None:
                    self._receiver.frame_received(short)
            elif (found := arrivals.take(self._raw_expected)) is not None:
                self._came(*found)
            else:
                break
            if self._late is not None:
                self._behind = self._behind or self._is_late

    def _raw_expected(self) -> int:
        return 0 if self._receiver is None else self._receiver.raw_expected

    def _came(self, opcode: int, payload: Frame) -> None:
        if opcode == frames.BINARY:
            self._message(payload)
        elif opcode == frames.CLOSE:
            self._close_came(bytes(payload))
        elif opcode == frames.PING:
            if not self._full:
                self._control(frames.PONG, bytes(payload))
        elif opcode == frames.TEXT:
            raise frames.FrameError("a text came, and all messages are binary")

    def _message(self, message: Frame) -> None:
        if self._closed is None and self._receiver is not None:
            self._receiver.frame_received(message)

    def _close_came(self, payload: bytes) -> None:
        code = int.from_bytes(payload[:2], "big") if len(payload) > 1 else NORMAL
        text = payload[2:].decode(errors="replace")
        known = code in (NORMAL, *range(VIOLATION, 5000))
        self._end(Reason(code if known else LOST, text))
        self._deaf = True
        if self._closed is None:
            self._tell_why(Reason(code if known else NORMAL))

    def eof_received(self) -> None:
        """No more comes: the transport closes itself."""

    def connection_lost(self, exc: Exception | None) -> None:
        """No more comes, and nothing can be sent."""
        if self._ended is None:
            self._end(Reason(LOST))
        self._tell()
        self._before.connection_lost(exc)

    def _end(self, reason: Reason) -> None:
        self._ended = reason
        self._over.set()
        self._wake()

    # Closing

    async def close(self, reason: Reason = DONE) -> None:
        """Say why, if anybody can still hear it, and be gone."""
        if self._closed is not None:
            return
        self._closed = reason
        self._wake()
        receiver, self._receiver = self._receiver, None
        try:
            if receiver is not None:
                receiver.lost(reason)
            if self._ended is None and reason.code not in (LOST, SILENT):
                await self._close_frame(reason)
        finally:
            self._transport.abort()
            await self._release()

    async def _close_frame(self, reason: Reason) -> None:
        """Send a close frame, and wait a moment for that of the other end."""
        self._tell_why(reason)
        self._tell()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING):
                await self._over.wait()
