"""The protocol of channels, which carry frames between two tasks.

A channel is ordered, loses nothing while it is open, and buffers a bounded number of bytes. There are three kinds: over
a websocket, between processes of one host by a Unix socket and shared memory, and in memory for simulated clusters. A
channel for other hardware needs only these six members.
"""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from aioflow import errors
from aioflow.net.transport.liveness import MonitorMessage, Offer, Watch
from aioflow.net.transport.segments import Piece, SegmentPool
from aioflow.net.wire.framing import Frame
from aioflow.tensors.as_array import AnyArray

# Why a channel was closed, as the codes of websockets that applications may use
NORMAL: Final = 1000
LOST: Final = 1006
VIOLATION: Final = 4000
REFUSED: Final = 4001
SILENT: Final = 4002

LONGEST_REASON: Final = 120
"""So many bytes of a reason are sent."""


@dataclasses.dataclass(frozen=True, slots=True)
class Reason:
    """Why a channel was closed: a code for programs, and a text for people."""

    code: int = NORMAL
    text: str = ""

    def __str__(self) -> str:
        return self.text or {NORMAL: "it was closed", LOST: "the connection was lost"}.get(self.code, str(self.code))


DONE: Final = Reason()
"""It was no longer needed."""


class ClosedError(Exception):
    """The channel is closed, at this end or the other; `reason` says why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason: Final = reason


class NotListeningError(errors.UnavailableError):
    """The host reports that no process listens at the address: the task there has ended."""


class FrameReceiver(Protocol):
    """The receiver of a channel's frames.

    Attributes:
        received: bytes of all received frames. A simulated network that repeats a frame subtracts its bytes.
    """

    received: int

    @property
    def raw_expected(self) -> int:
        """The raw bytes that follow in frames, which may be handed over in parts; 0 if the next frame must be whole."""

    def get_buffer(self, most: int) -> memoryview | None:
        """Where the next raw bytes belong, `most` at most, if a channel can write them there itself."""

    def buffer_updated(self, nbytes: int) -> None:
        """So many have been written there."""

    def frame_received(self, frame: Frame) -> None:
        """A frame has come, or the next raw bytes. Their memory is the channel's again afterwards."""

    def shared_received(self, frame: Frame, memory: AnyArray) -> None:
        """A frame has come, and in shared memory all raw bytes that follow it, each value at a multiple of 64 bytes.

        The peer's memory is lent as long as an array uses it.
        """

    def lost(self, reason: Reason) -> None:
        """No more will come, for it was closed, here or there. Told once."""


class Sharing(Protocol):
    """A channel between processes of one host, which can lend each other memory."""

    @property
    def pool(self) -> SegmentPool:
        """The memory that can be lent."""

    def send_shared(self, head: Frame, piece: Piece) -> None:
        """Send a frame, and instead of the frames that follow it the values in lent memory. The loan is the channel's.

        ClosedError if the channel is closed; then the loan is still the caller's.
        """


class Channel(Protocol):
    """Frames to and from one other task."""

    @property
    def sharing(self) -> Sharing | None:
        """Sends large values in shared memory, if the channel can do that."""

    @property
    def congested(self) -> bool:
        """Whether so much waits to be sent that no more should be given to it for now."""

    async def room(self) -> None:
        """Return as soon as it is not congested. ClosedError if it is closed. Only one may wait at a time."""

    def send(self, *frames: Frame) -> None:
        """Send frames one after the other, without frames of other calls between them. Never waits.

        The memory of a memoryview must not change until the frame has left. ClosedError if the channel is closed.
        """

    def listen(self, receiver: FrameReceiver | None) -> None:
        """Hand all received frames to `receiver` in order, from the next turn of the loop on.

        With None, received frames stay in the channel, and hold back the sender.
        """

    async def close(self, reason: Reason = DONE) -> None:
        """Close both directions. Frames that were sent still arrive if the other end receives them at once.

        Waiting calls raise ClosedError. This takes a moment at most, whatever the other end does. May be called again.
        """


async def receive(channel: Channel) -> bytes:
    """The next frame of a channel. ClosedError if no more will come. Cancelled as it comes, it is lost."""
    receiver = _One(channel)
    channel.listen(receiver)
    try:
        return await receiver.frame
    finally:
        channel.listen(None)


class _One:
    """Listens for one frame."""

    raw_expected = received = 0

    def __init__(self, channel: Channel) -> None:
        self.frame: Final[asyncio.Future[bytes]] = asyncio.get_running_loop().create_future()
        self._channel: Final = channel

    def get_buffer(self, most: int) -> None:
        """It takes frames that are whole."""

    def buffer_updated(self, nbytes: int) -> None:
        """Nothing is."""

    def shared_received(self, frame: Frame, memory: AnyArray) -> None:
        """Its frame is no head of values."""

    def frame_received(self, frame: Frame) -> None:
        """Receive one frame. The next one comes after this call has returned."""
        self._channel.listen(None)
        if not self.frame.done():
            self.frame.set_result(bytes(frame))

    def lost(self, reason: Reason) -> None:
        """There is none."""
        if not self.frame.done():
            self.frame.set_exception(ClosedError(reason))


class Listener(Protocol):
    """A task that can be dialled."""

    @property
    def address(self) -> str:
        """Where."""

    async def close(self) -> None:
        """Stop listening, and close all accepted channels."""


Accept = Callable[[Channel], Awaitable[None]]
"""Serves an accepted channel, which is closed when this returns."""


class Network(Protocol):
    """How tasks reach each other."""

    async def dial(self, address: str) -> Channel:
        """A channel to the listener at that address; this end sends first.

        Raises UnavailableError if it cannot be reached, and NotListeningError if no process listens there.
        """

    async def listen(self, address: str, accept: Accept) -> Listener:
        """Serve connections to that address."""

    def offer(self, channel: Channel, connection: str, heartbeat: float) -> Offer | None:
        """Offer this process's monitor to the peer that dialled the channel; None if no monitor is possible."""

    def watch(self, channel: Channel, connection: str, port: int, key: str, heartbeat: float) -> Watch | None:
        """Watch a dialled task through the monitor that it has offered; None if no monitor is possible.

        Args:
            channel: the control channel to that task.
            connection: the number of the connection.
            port: the port of the monitor.
            key: the key by which both monitors authenticate.
            heartbeat: the shorter of the heartbeat timeouts of both ends.
        """

    async def ask(self, address: str, heartbeat: float, on_message: Callable[[MonitorMessage], None]) -> None:
        """Ask the monitor of the task that listens at an address for its state, until cancelled.

        Calls `on_message` with each answer. Nothing is raised if no answer comes.
        """
