"""Sends and receives whole messages over one channel: messages take turns burst by burst.

Another channel can replace a lost one. Each end counts the bytes of all received frames. The other end keeps sent
frames until the peer has counted them. Over the new channel it sends the missing frames again in order, even from the
middle of a large value. So every message arrives exactly once, and senders and receivers of messages do not notice the
change.

Credits bound the bytes in flight, so that a slow or lost receiver holds up little memory.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from aioflow.net.peer.credits import Credits
from aioflow.net.transport.channel import Channel, ClosedError, Reason, Sharing
from aioflow.net.transport.segments import Piece, copied, copied_at_once
from aioflow.net.wire.codec import Envelope, ProtocolError
from aioflow.net.wire.control_verbs import Credit, Drop, Ping, Pong
from aioflow.net.wire.framing import BURST, Assembler, Burst, Frame, Outgoing, Receiver, StreamKey, frame_of
from aioflow.net.wire.limits import FRAME_SLICE, MIB, Limits
from aioflow.tensors.as_array import AnyArray

T = TypeVar("T")
_UPKEEP: Final = (Ping, Pong, Credit)
"""The messages whose reception is not reported by itself: the report would have to be reported, too."""
_SHARED: Final = MIB // 8
"""So many bytes of values, or more, are sent in shared memory, where there is some."""
_MUCH: Final = 4 * MIB
"""After this many received bytes, the end of a message reports the position to the peer; else the next check does."""


class LinkOwner(Receiver, Protocol):
    """The owner of a link: a `Peer`."""

    def arrived(self, link: "Link", message: Envelope) -> None:
        """Handle a whole message."""

    def failed(self, link: "Link", error: Exception) -> None:
        """Handle the end of the link: a ClosedError, or the error of a received frame."""


class Link:
    """One channel to a peer, or a sequence of channels that replace each other.

    Attributes:
        heard: the time of the last received frame, on the loop's clock.
        received: bytes of all received frames.
        flowing: whether a sent frame goes to the channel at once.
        released: set when the link no longer uses its present channel.
    """

    def __init__(self, channel: Channel, limits: Limits, owner: LinkOwner) -> None:
        """From the next turn of the loop on, the owner receives the messages."""
        self._clock: Final = asyncio.get_running_loop().time
        self.heard: float = self._clock()
        self.received: int = 0
        self.flowing: bool = True
        self._channel = channel
        self._limits: Final = limits
        self._most_kept: Final = 2 * limits.window
        self._owner: Final = owner
        self._assembler: Final = Assembler(limits, owner)
        self._credits: Final = Credits(limits.window)
        self._turn: Final = asyncio.Lock()
        self._sent: Final = SentLog()
        self._missing: deque[Frame] | None = None
        """While frames are sent again, the remaining frames for this channel; otherwise None."""
        self._acknowledged = 0
        """The received bytes that were reported to the peer."""
        self.owes_position: bool = False
        """Whether other messages than pings and the like were received since."""
        self._closed: Reason | None = None
        self._changed: Final = asyncio.Event()
        self.released: asyncio.Event = asyncio.Event()
        channel.listen(self)

    @property
    def congested(self) -> bool:
        """Whether only necessary messages should be sent."""
        return not self.flowing or self._channel.congested or self._sent.nbytes > self._most_kept

    @property
    def sent(self) -> int:
        """Bytes of all sent frames."""
        return self._sent.end

    @property
    def credit(self) -> int:
        """Bytes of values that may be sent."""
        return self._credits.left

    @property
    def arriving(self) -> int:
        """The number of unfinished incoming messages."""
        return self._assembler.pending

    # Sending

    async def send(
        self, message: Outgoing, deadline: float | None = None, wanted: Callable[[], bool] = lambda: True
    ) -> None:
        """Give the whole message to the channel, unless it is not `wanted` any more.

        Waits for credit, for its turn, and for room in the channel. A cancelled call takes the message back.
        """
        if self.send_at_once(message, deadline):
            return
        charge = self._limits.charge(message.nbytes)
        if charge:
            await self._credits.take(charge)
        begun = whole = False
        try:
            if message.nbytes >= _SHARED and await self._share(message, deadline):
                whole = True
                return
            clock = asyncio.get_running_loop().time
            since = clock()
            for burst in message.bursts(_left(deadline)):
                if clock() - since > FRAME_SLICE:
                    await asyncio.sleep(0)
                    since = clock()
                async with self._turn:
                    await self._room()
                    if begun and not wanted():
                        return
                    self._give(*burst)
                begun = True
            whole = True
        finally:
            if charge and not whole:
                self._take_back(message.key, charge, begun)

    def send_at_once(self, message: Outgoing, deadline: float | None = None) -> bool:
        """Give the whole message to the channel now. False, and nothing is sent, if it has to wait, or takes long."""
        if self.congested:
            return False
        if not message.nbytes:  # one frame, which may go between the frames of other messages
            self._give(message.frame(None if deadline is None else _left(deadline)))
            return True
        charge = self._limits.charge(message.nbytes)
        if self._turn.locked() or not self._credits.take_at_once(charge):
            return False
        sent = False
        try:
            sent = self._share_at_once(message, deadline)
            return sent
        finally:
            if not sent:
                self._credits.give(charge)

    def _share_at_once(self, message: Outgoing, deadline: float | None) -> bool:
        """Send the values in shared memory, or in one burst where there is none."""
        sharing = self._channel.sharing if message.nbytes >= _SHARED else None
        if sharing is None:
            if message.nbytes > BURST:
                return False
            for burst in message.bursts(_left(deadline)):
                self._give(*burst)
            return True
        piece = copied_at_once(sharing.pool, message.shared)
        if piece is None:
            return False
        lent = False
        try:
            message.move(piece.views())
            lent = self._lend(message.whole(_left(deadline)), piece, sharing)
            return lent
        finally:
            if not lent:
                piece.release()

    async def _share(self, message: Outgoing, deadline: float | None) -> bool:
        """Send the values in shared memory. Returns false if there is none for them, and sends nothing."""
        sharing = self._channel.sharing
        piece = None if sharing is None else await copied(sharing.pool, message.shared)
        if piece is None:
            return False
        lent = False
        try:
            message.move(piece.views())
            async with self._turn:
                await self._room()
                sharing = self._channel.sharing
                if sharing is not None and self.flowing:
                    lent = self._lend(message.whole(_left(deadline)), piece, sharing)
            return lent
        finally:
            if not lent:
                piece.release()

    def _lend(self, whole: Burst, piece: Piece, sharing: Sharing) -> bool:
        """Send the first frame, and the memory instead of the others, which are kept for another channel."""
        try:
            sharing.send_shared(whole[0], piece, self._sent.end + sum(map(len, whole)))
        except ClosedError:  # `lost` follows
            self.flowing = False
            return False
        for frame in whole:
            self._sent.append(frame)
        return True

    def send_now(self, message: Outgoing) -> None:
        """Send a message of one frame at once, before waiting ones. ClosedError if the link is closed."""
        assert not message.nbytes
        self._give(message.frame())

    def _give(self, *frames: Frame) -> None:
        """Send frames over this channel or the next one. ClosedError if the link is closed."""
        if self._closed is not None:
            raise ClosedError(self._closed)
        for frame in frames:
            self._sent.append(frame)
        if self.flowing:
            try:
                self._channel.send(*frames)
            except ClosedError:
                self.flowing = False  # `lost` follows
        elif self._missing is not None:
            self._missing.extend(frames)

    async def _room(self) -> None:
        """Returns as soon as the link is not congested. ClosedError if it is closed."""
        while self._closed is None and self.congested:
            channel = self._channel
            if self.flowing and channel.congested:
                try:
                    await channel.room()
                except ClosedError:
                    self.flowing = self.flowing and channel is not self._channel
            else:
                self._changed.clear()
                await self._changed.wait()

    def _take_back(self, key: StreamKey, charge: int, begun: bool) -> None:
        if begun:
            self.post(Envelope(key[0], Drop(key[1])))
        else:
            self._credits.give(charge)

    def post(self, message: Envelope) -> None:
        """Send a short message at once, before waiting ones; do nothing if the link is closed."""
        with contextlib.suppress(ClosedError):
            self._give(frame_of(message, self._limits))

    def give(self, nbytes: int) -> None:
        """The other end lets so much more come."""
        self._credits.give(nbytes)

    def reported(self, position: int) -> None:
        """Drop the frames that the peer has received. ProtocolError if it reports more bytes than were sent."""
        try:
            self._sent.forget(position)
        except ValueError as error:
            raise ProtocolError(str(error)) from None
        self._changed.set()

    # From one channel to the next

    def keeps(self, position: int) -> bool:
        """Whether the link keeps all frames after that position."""
        return self._sent.keeps(position)

    def detach(self) -> Channel:
        """Stop using the channel, and return it. The caller closes it."""
        self._channel.listen(None)
        self.flowing = False
        self._missing = None
        self.released.set()
        return self._channel

    def resume(self, channel: Channel, position: int) -> None:
        """Continue over another channel, to a peer that has received `position` bytes. The caller must `resend` next.

        Raises ValueError if frames that the peer lacks are not kept.
        """
        missing = self._sent.after(position)
        self._channel, self._missing, self.released = channel, missing, asyncio.Event()
        self.heard = self._clock()
        channel.listen(self)

    async def resend(self) -> None:
        """Send the missing frames again. Returns when all are sent, or the channel is lost, too."""
        channel, missing, since = self._channel, self._missing, self._clock()
        if missing is None:
            return
        with contextlib.suppress(ClosedError):
            while missing:
                await channel.room()
                if self._clock() - since > FRAME_SLICE:
                    await asyncio.sleep(0)
                    since = self._clock()
                if missing is not self._missing:
                    return
                channel.send(missing.popleft())
            if missing is self._missing:
                self.flowing, self._missing = True, None
                self._changed.set()

    # Receiving

    @property
    def raw_expected(self) -> int:
        """So many raw bytes are to follow."""
        return self._assembler.raw_expected

    def get_buffer(self, most: int) -> memoryview | None:
        """Where they belong."""
        return self._assembler.get_buffer(most)

    def buffer_updated(self, nbytes: int) -> None:
        """So many are there."""
        self.received += nbytes
        self._take(self._assembler.buffer_updated, nbytes)

    def frame_received(self, frame: Frame) -> None:
        """A frame has come."""
        self.received += len(frame)
        self._take(self._assembler.feed, frame)

    def shared_received(self, frame: Frame, memory: AnyArray) -> None:
        """A frame has come, and all bytes that follow it are in shared memory."""
        self._take(self._adopt, (frame, memory))

    def _adopt(self, came: tuple[Frame, AnyArray]) -> Envelope | None:
        message, nbytes = self._assembler.adopt(*came)
        self.received += len(came[0]) + nbytes
        return message

    def loans_ended(self, position: int) -> None:
        """Drop the frames up to that position, so that their memory can be used again."""
        self.reported(position)

    def _take(self, assemble: Callable[[T], Envelope | None], what: T) -> None:
        """Hand the owner the message that is whole now, if there is one."""
        self.heard = self._clock()
        try:
            message = assemble(what)
            is_much = self.received - self._acknowledged >= _MUCH
            if self._assembler.received * 8 >= self._limits.window or (is_much and self._needs_position(message)):
                self.tell_credit()
            if message is not None:
                self.owes_position = self.owes_position or not isinstance(message.message, _UPKEEP)
                self._owner.arrived(self, message)
        except Exception as error:
            self.ignore()
            self._owner.failed(self, error)

    def _needs_position(self, message: Envelope | None) -> bool:
        """Whether the peer, which keeps much that is received, needs its position now: normally after a message."""
        return message is not None or (self.received - self._acknowledged) * 8 >= self._limits.window

    def position(self) -> int:
        """The received bytes, which the caller now reports to the peer."""
        self._acknowledged, self.owes_position = self.received, False
        return self._acknowledged

    def lost(self, reason: Reason) -> None:
        """Record that the channel is lost, and tell the owner."""
        self.flowing = False
        self._missing = None
        self.released.set()
        self._owner.failed(self, ClosedError(reason))

    def ignore(self) -> None:
        """Hand no more messages to the owner."""
        self._channel.listen(None)

    def tell_credit(self) -> None:
        """Send the peer more credit, an eighth of the window at a time: no waiting sender needs the last eighth."""
        nbytes, self._assembler.received = self._assembler.received, 0
        self.post(Envelope(0, Credit(nbytes, self.position())))

    def is_incomplete(self, key: StreamKey) -> bool:
        """Whether that message is announced, but not complete."""
        return self._assembler.is_incomplete(key)

    def abandon(self, key: StreamKey) -> None:
        """Nobody wants that message any more."""
        self._assembler.abandon(key)

    async def close(self, reason: Reason) -> None:
        """Close the channel. Waiting senders raise ClosedError."""
        self._closed = reason
        self._credits.close(reason)
        self._assembler.clear()
        self._changed.set()
        self.released.set()
        await self._channel.close(reason)


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())


def link_for(links: Sequence[Link], message: Outgoing) -> Link:
    """The link of a peer for a message: the second one for a large message, if it is open."""
    return links[-1] if message.nbytes else links[0]


class SentLog:
    """The sent frames of a link that the peer may not have received, to send them again over a new channel.

    A position counts the bytes of all frames in one direction since the connection was made. The peer reports its
    position now and then, and the log drops the frames before it. A frame that is a view of an array keeps the array
    alive.

    Attributes:
        end: the position after the last frame.
        nbytes: the bytes of the kept frames.
    """

    __slots__ = ("_frames", "end", "nbytes")

    def __init__(self) -> None:
        self.end: int = 0
        self.nbytes: int = 0
        self._frames: Final[deque[Frame]] = deque()

    @property
    def _start(self) -> int:
        """The position before the first kept frame."""
        return self.end - self.nbytes

    def append(self, frame: Frame) -> None:
        """Add a frame."""
        self._frames.append(frame)
        self.end += len(frame)
        self.nbytes += len(frame)

    def forget(self, position: int) -> None:
        """Drop the frames that the peer has received whole. ValueError if the position lies beyond the sent bytes."""
        if position > self.end:
            raise ValueError(f"the peer has received {position} bytes, but only {self.end} were sent")
        while self._frames and self._start + len(self._frames[0]) <= position:
            self.nbytes -= len(self._frames.popleft())

    def keeps(self, position: int) -> bool:
        """Whether all frames after that position are kept, and the position was reached."""
        return self._start <= position <= self.end

    def after(self, position: int) -> deque[Frame]:
        """The frames that the peer lacks, the first one without its part before the position.

        Raises ValueError if they are not kept.
        """
        if not self.keeps(position):
            raise ValueError(
                f"the peer needs the bytes from {position} on, but only those from {self._start} on are kept"
            )
        self.forget(position)
        frames = self._frames.copy()
        if position > self._start:
            frames[0] = frames[0][position - self._start :]
        return frames
