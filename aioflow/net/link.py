"""Whole messages over one channel: sent a burst at a time, in turn with others, and put together of what comes."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from aioflow.net.assembler import Assembler, Receiver
from aioflow.net.channel import Channel, ClosedError, Reason
from aioflow.net.codec import Envelope
from aioflow.net.control_verbs import Credit, Drop
from aioflow.net.credits import Credits
from aioflow.net.framing import Frame, Outgoing, StreamKey, frame_of
from aioflow.net.limits import SLICE, Limits

T = TypeVar("T")


class Owner(Receiver, Protocol):
    """Who has a link."""

    def arrived(self, link: "Link", message: Envelope) -> None:
        """A message has come, whole."""

    def failed(self, link: "Link", error: Exception) -> None:
        """No more will come: a ClosedError, or what went wrong with what came."""


class Link:
    """One channel to a peer.

    Attributes:
        heard: when the last frame came, on the loop's clock.
    """

    def __init__(self, channel: Channel, limits: Limits, owner: Owner) -> None:
        """From the next turn of the loop on, the owner is told what comes."""
        self._clock: Final = asyncio.get_running_loop().time
        self.heard = self._clock()
        self._channel: Final = channel
        self._limits: Final = limits
        self._owner: Final = owner
        self._assembler: Final = Assembler(limits, owner)
        self._credits: Final = Credits(limits.window)
        self._turn: Final = asyncio.Lock()
        channel.listen(self)

    @property
    def congested(self) -> bool:
        """Whether nothing should be sent that is not needed."""
        return self._channel.congested

    @property
    def credit(self) -> int:
        """Bytes of values that may be sent."""
        return self._credits.left

    @property
    def arriving(self) -> int:
        """How many messages are on their way in."""
        return self._assembler.pending

    # Sending

    async def send(
        self, message: Outgoing, deadline: float | None = None, wanted: Callable[[], bool] = lambda: True
    ) -> None:
        """The message has been given to the channel, whole, unless it is not `wanted` any more by then.

        Waits for credit, for its turn, and for room. Cancelled before its end the message is taken back.
        """
        if not message.nbytes and not self._channel.congested:  # one frame, which may go between those of others
            self._channel.send(message.frame(_left(deadline)))
            return
        charge = self._limits.charge(message.nbytes)
        if charge:
            await self._credits.take(charge)
        begun = whole = False
        try:
            clock = asyncio.get_running_loop().time
            since = clock()
            for burst in message.bursts(_left(deadline)):
                if clock() - since > SLICE:
                    await asyncio.sleep(0)
                    since = clock()
                async with self._turn:
                    await self._channel.room()
                    if begun and not wanted():
                        return
                    self._channel.send(*burst)
                begun = True
            whole = True
        finally:
            if charge and not whole:
                self._take_back(message.key, charge, begun)

    def tell(self, message: Outgoing) -> None:
        """A message of one frame is on its way, before any that wait. ClosedError if the channel is closed."""
        assert not message.nbytes
        self._channel.send(message.frame())

    def _take_back(self, key: StreamKey, charge: int, begun: bool) -> None:
        if begun:
            self.post(Envelope(key[0], Drop(key[1])))
        else:
            self._credits.give(charge)

    def post(self, message: Envelope) -> None:
        """A short message is on its way, before any that wait; if the channel is still open."""
        with contextlib.suppress(ClosedError):
            self._channel.send(frame_of(message, self._limits))

    def give(self, nbytes: int) -> None:
        """The other end lets so much more come."""
        self._credits.give(nbytes)

    # Receiving

    @property
    def raw(self) -> int:
        """So many raw bytes are to follow."""
        return self._assembler.raw

    def space(self, most: int) -> memoryview | None:
        """Where they belong."""
        return self._assembler.space(most)

    def filled(self, nbytes: int) -> None:
        """So many are there."""
        self._take(self._assembler.filled, nbytes)

    def hear(self, frame: Frame) -> None:
        """A frame has come."""
        self._take(self._assembler.feed, frame)

    def _take(self, assemble: Callable[[T], Envelope | None], what: T) -> None:
        """The owner is told of the message that is whole now, if one is."""
        self.heard = self._clock()
        try:
            message = assemble(what)
            if self._assembler.received * 8 >= self._limits.window:
                self._tell_credit()
            if message is not None:
                self._owner.arrived(self, message)
        except Exception as error:
            self.ignore()
            self._owner.failed(self, error)

    def lost(self, reason: Reason) -> None:
        """No more will come."""
        self._owner.failed(self, ClosedError(reason))

    def ignore(self) -> None:
        """Nobody is told any more of what comes."""
        self._channel.listen(None)

    def _tell_credit(self) -> None:
        """More may come. It is told an eighth of the window at a time: nobody who waits needs the last eighth."""
        nbytes, self._assembler.received = self._assembler.received, 0
        self.post(Envelope(0, Credit(nbytes)))

    def abandon(self, key: StreamKey) -> None:
        """Nobody wants that message any more."""
        self._assembler.abandon(key)

    async def close(self, reason: Reason) -> None:
        """Neither end sends or receives any more; whoever waits to send gets a ClosedError."""
        self._credits.close(reason)
        self._assembler.clear()
        await self._channel.close(reason)


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())


__all__ = ["Link", "Owner"]
