"""Reconnects a peer whose connection was lost while its process lives. Code above the links does not notice.

The side that dialled dials again, at once and then after short pauses. The other side waits for that. A peer is given
up after the time limit, or as soon as no process or another process listens at its address.

The kinds of loss of a peer, and their errors.
"""

import asyncio
import dataclasses
import enum
from collections.abc import Awaitable, Callable
from typing import Final

from aioflow import errors
from aioflow.net.peer.link import Link
from aioflow.net.transport.channel import LOST, NORMAL, SILENT, VIOLATION, Channel, NotListeningError, Reason
from aioflow.waiting.tasks import OwnedTasks


class Loss(enum.Enum):
    """The reason for the loss of a peer."""

    LEFT = "it was closed here"
    GOODBYE = "it said goodbye"
    GONE = "its connection was lost"
    ENDED = "its process has ended"
    SILENT = "no message arrived from it"
    VIOLATION = "it broke the protocol"
    REFUSED = "it closed the connection"


_CODES = {
    Loss.LEFT: NORMAL, Loss.GOODBYE: NORMAL, Loss.GONE: LOST, Loss.ENDED: LOST, Loss.SILENT: SILENT,
    Loss.VIOLATION: VIOLATION, Loss.REFUSED: NORMAL,
}  # fmt: skip
_WORDS = {Loss.GOODBYE: "has left", Loss.GONE: "is gone", Loss.ENDED: "is gone", Loss.SILENT: "is silent"}


@dataclasses.dataclass(frozen=True, slots=True)
class End:
    """The end of a peer.

    Attributes:
        loss: the kind of loss.
        text: details for people.
        at: the time at which the loss was noticed, on the loop's clock.
    """

    loss: Loss
    text: str
    at: float

    def __str__(self) -> str:
        between = " " if self.loss is Loss.SILENT else ": "
        return self.loss.value + (between + self.text if self.text else "")

    @property
    def reason(self) -> Reason:
        """The reason with which the channel is closed."""
        text = f"no message arrived {self.text}" if self.loss is Loss.SILENT else self.text
        return Reason(_CODES[self.loss], text)

    def error(self, label: str, task: str | None, asked: str = "") -> errors.OpError:
        """Return the error of present and later requests to the peer."""
        what = f", asked for {asked}," if asked else ""
        if self.loss is Loss.LEFT:
            return errors.CancelledError(f"{label}{what} was closed here{self._more}", task=task)
        return errors.UnavailableError(f"{label}{what} {_WORDS.get(self.loss, 'is lost')}: {self}", task=task)

    @property
    def _more(self) -> str:
        return f": {self.text}" if self.text else ""


def end_of(reason: Reason, at: float) -> End:
    """The end of a peer whose channel was closed for that reason, there or on the way."""
    if reason.code in (LOST, SILENT):
        return End(Loss.GONE, reason.text, at)
    return End(Loss.GOODBYE if reason.code == NORMAL else Loss.REFUSED, reason.text, at)


Redial = Callable[[int, int], Awaitable[tuple[Channel, int]]]
"""Dials a new channel for a link, given its number and its received bytes; also returns the peer's received bytes.

After an UnavailableError it may be called again; NotListeningError and any other OpError are final.
"""
HasEnded = Callable[[], Awaitable[bool]]
"""Finds out whether the process of the peer has ended."""

_FIRST: Final = 0.02
_LONGEST: Final = 0.5
"""Seconds between two attempts to dial: at first, and at most."""


class Reconnect:
    """The links of one peer whose channels are lost and may be restored.

    Attributes:
        settled: set unless a lost link may still be restored.
    """

    def __init__(
        self, limit: float, give_up: Callable[[Loss, str], None], is_busy: Callable[[], bool], *,
        redial: Redial | None = None, has_ended: HasEnded | None = None,
    ) -> None:  # fmt: skip
        """A peer without lost links.

        Args:
            limit: seconds after which a lost link, and with it the peer, is given up.
            give_up: called with the kind and the text of the loss when the peer is given up.
            is_busy: whether the monitor of the peer reports that its loop does not turn. Then the limit begins anew.
            redial: how this side dials; None if the peer does.
            has_ended: finds out whether a dialling peer has ended; None if this side cannot.
        """
        self.settled: Final = asyncio.Event()
        self.settled.set()
        self._limit: Final = limit
        self._give_up: Final = give_up
        self._is_busy: Final = is_busy
        self._redial: Final = redial
        self._has_ended: Final = has_ended
        self._waiting: Final[dict[Link, asyncio.TimerHandle]] = {}
        self._tasks: Final = OwnedTasks()

    def lost(self, place: int, link: Link) -> None:
        """Begin to restore a link whose channel is lost. Does not wait."""
        if link in self._waiting:
            return
        self.settled.clear()
        loop = asyncio.get_running_loop()
        self._waiting[link] = loop.call_later(self._limit, self._expire, link)
        work = self._dial_again(place, link) if self._redial is not None else self._look(link)
        self._tasks.start(work, "reconnects")

    def resume(self, link: Link, channel: Channel, position: int) -> None:
        """Continue a link over a new channel, to a peer that has received that many bytes; see `Link.resume`."""
        link.resume(channel, position)
        timer = self._waiting.pop(link, None)
        if timer is not None:
            timer.cancel()
        if not self._waiting:
            self.settled.set()

    def _expire(self, link: Link) -> None:
        if self._is_busy():
            self._waiting[link] = asyncio.get_running_loop().call_later(self._limit, self._expire, link)
            return
        self._give_up(Loss.GONE, f"it was not made again within {self._limit:g} s")

    async def _look(self, link: Link) -> None:
        """Give up the peer if its process has ended."""
        if self._has_ended is not None and link in self._waiting and await self._has_ended():
            self._give_up(Loss.ENDED, "")

    async def _dial_again(self, place: int, link: Link) -> None:
        await link.detach().close(Reason(LOST))
        try:
            channel, position = await self._dialled(place, link.received)
        except NotListeningError as error:
            self._give_up(Loss.ENDED, error.message)
        except errors.OpError as error:
            self._give_up(Loss.GONE, error.message)
        else:
            await self._go_on(link, channel, position)

    async def _go_on(self, link: Link, channel: Channel, position: int) -> None:
        try:
            self.resume(link, channel, position)
        except ValueError as error:
            self._give_up(Loss.VIOLATION, str(error))
            await channel.close(Reason(VIOLATION, str(error)))
        else:
            await link.resend()

    async def _dialled(self, place: int, received: int) -> tuple[Channel, int]:
        """Dial until a channel is open or a final error is raised. The timer of the time limit cancels this."""
        assert self._redial is not None
        pause = _FIRST
        while True:
            try:
                return await self._redial(place, received)
            except NotListeningError:
                raise
            except errors.UnavailableError:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST)

    async def stop(self) -> None:
        """Stop dialling and waiting."""
        for timer in self._waiting.values():
            timer.cancel()
        self._waiting.clear()
        self.settled.set()
        await self._tasks.stop()
