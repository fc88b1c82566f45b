"""A connected task, over two channels: one for short messages, one for large ones.

Both sides send requests, many at a time. A request ends in an answer, in the error of its handler, or in an error that
says how the peer was lost. `reconnect` replaces a lost channel; the peer is lost only if that fails until the time
limit. A cancelled request frees its resources at once on this side, and on the other side when the cancel arrives.
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from aioflow import errors
from aioflow.net.peer.asked import Answered
from aioflow.net.peer.asking import Asking
from aioflow.net.peer.heartbeat import Heartbeat
from aioflow.net.peer.link import Link, link_for
from aioflow.net.peer.peer_statistics import PeerStatistics
from aioflow.net.peer.reconnect import End, HasEnded, Loss, Reconnect, Redial, end_of
from aioflow.net.peer.serving import NEW, UNKNOWN, Handler, RecentRequests, Serving
from aioflow.net.transport.channel import LOST, NORMAL, Channel, ClosedError
from aioflow.net.transport.liveness import MonitorMessage, State, Watch
from aioflow.net.wire.codec import Announcement, Envelope, ProtocolError
from aioflow.net.wire.control_verbs import Cancel, Credit, Goodbye, Ping, Pong
from aioflow.net.wire.failures import failure_of
from aioflow.net.wire.framing import Outgoing, StreamKey, message_in
from aioflow.net.wire.identity import Identity
from aioflow.net.wire.limits import Limits
from aioflow.net.wire.schema import RECORDS, Answer, Message, Note, Request
from aioflow.runtime.activity import Connection

A = TypeVar("A", bound=Answer)
_log: Final = logging.getLogger("aioflow.net")
_GRACE: Final = 0.25
"""Seconds to receive messages that a process sent before it ended."""


class Peer:
    """Another task, or a client.

    Attributes:
        local: the identity of this task.
        remote: the identity of the peer.
        limits: the smaller limits of both.
        end: the loss of the peer; None while it is connected.
        on_end: called when the peer is lost.
    """

    def __init__(
        self, local: Identity, remote: Identity, limits: Limits, handler: Handler, recent: RecentRequests,
        silence: float, *, redial: Redial | None = None, has_ended: HasEnded | None = None,
    ) -> None:  # fmt: skip
        self.local: Final = local
        self.remote: Final = remote
        self.limits: Final = limits
        self.end: End | None = None
        self.on_end: Callable[[errors.OpError], None] | None = None
        self._monitor: Watch | None = None
        self._grace: asyncio.TimerHandle | None = None
        self._recent: Final = recent
        self._serving: Final = Serving(self, handler, limits, self._reply, self._reply_now)
        self._links: Final[list[Link]] = []
        self._heartbeat: Final = Heartbeat(self._links, silence, functools.partial(self._finish, Loss.SILENT))
        self._reconnect: Final = Reconnect(
            silence, self._finish, lambda: bool(self.busy), redial=redial, has_ended=has_ended
        )  # fmt: skip
        self._asking: Final = Asking(local, remote, limits, self._links)
        self._watching: asyncio.Task[None] | None = None
        self._over: Final = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        self._last_note = 0

    @property
    def statistics(self) -> PeerStatistics:
        """How it is."""
        arriving = sum([link.arriving for link in self._links])
        credit = tuple([link.credit for link in self._links])
        return PeerStatistics(
            len(self._asking), len(self._serving), self._serving.held, arriving, credit, self._asking.late,
            self._heartbeat.clocks.round_trip, self._heartbeat.clocks.offset,
        )  # fmt: skip

    @property
    def connection(self) -> Connection:
        """What has gone over it."""
        sent, received = sum([link.sent for link in self._links]), sum([link.received for link in self._links])
        trip = self._heartbeat.clocks.round_trip
        return Connection(self.remote.task, sent, received, -1.0 if trip is None else trip, self.interrupted)

    def __repr__(self) -> str:
        state = f"{len(self._links)} channels" if self.end is None else f"lost: {self.end}"
        return f"<Peer {self.remote.label}, {state}, {len(self._asking)} asked, {len(self._serving)} serving>"

    # From beginning to end

    def attach(self, channel: Channel) -> Link:
        """Use this channel, too: the first one for short messages, the second one for large ones."""
        link = Link(channel, self.limits, self)
        self._links.append(link)
        if len(self._links) == 1:
            loop = asyncio.get_running_loop()
            self._watching = loop.create_task(self._heartbeat.watch(), name=f"{self.remote.label} watches")
            self._closing = loop.create_task(self._close_when_over(), name=f"{self.remote.label} closes")
        return link

    def link_at(self, place: int) -> Link:
        """The link for short messages, 0, or for large ones, 1."""
        return self._links[place]

    def detach(self, place: int) -> Channel:
        """Remove the channel of a link, until `resume` or the time limit, and return it. The caller closes it."""
        self._reconnect.lost(place, self._links[place])
        return self._links[place].detach()

    def resume(self, place: int, channel: Channel, received: int) -> None:
        """Continue over a new channel, to a peer that has received that many bytes. Call `Link.resend` next.

        Raises ValueError if frames that the peer lacks are not kept.
        """
        self._reconnect.resume(self._links[place], channel, received)

    @property
    def clock_offset(self) -> float:
        """By how many seconds its clock is ahead of this one's, as far as is known."""
        return self._heartbeat.clocks.offset

    @property
    def channels(self) -> int:
        """How many it has."""
        return len(self._links)

    @property
    def interrupted(self) -> bool:
        """Whether a connection to it is lost, and may still come back."""
        return not self._reconnect.settled.is_set()

    async def settled(self) -> None:
        """Return when all connections are restored, or the peer is lost."""
        await self._reconnect.settled.wait()

    async def closed(self) -> None:
        """Return when the peer is lost or closed, and nothing of it is left."""
        if self._closing is not None:
            await asyncio.wait((self._closing,))

    async def close(self, text: str = "") -> None:
        """Say goodbye, and end all waiting requests with CancelledError. Leaves no task. May be called again."""
        if self.end is None:
            self._post(Envelope(0, Goodbye(text)))
        self._finish(Loss.LEFT, text)
        await self.closed()

    def lose(self, loss: Loss, text: str = "") -> None:
        """Count the peer as lost: all waiting requests end at once with the error of the loss."""
        self._finish(loss, text)

    def _finish(self, loss: Loss, text: str) -> None:
        self._end(End(loss, text, asyncio.get_running_loop().time()))

    def _end(self, end: End) -> None:
        if self.end is not None:
            return
        self.end = end
        for link in self._links:
            link.ignore()
        if self.on_end is not None:
            self.on_end(self._error(""))
        self._asking.fail(end)
        self._over.set()

    def _error(self, asked: str) -> errors.OpError:
        assert self.end is not None
        return self.end.error(self.remote.label, self.remote.task or None, asked)

    async def _close_when_over(self) -> None:
        """Once the peer is lost: end all tasks, and close all channels."""
        try:
            await self._over.wait()
        finally:
            self._stop_listening()
        assert self.end is not None
        assert self._watching is not None
        self._watching.cancel()
        await asyncio.gather(self._watching, self._reconnect.stop(), return_exceptions=True)
        await asyncio.gather(*[link.close(self.end.reason) for link in self._links], return_exceptions=True)
        await self._serving.stop()

    def failed(self, link: Link, error: Exception) -> None:
        """No more will come over one of its channels."""
        if isinstance(error, ClosedError):
            if error.reason.code == NORMAL and link is not self._links[0]:
                return  # the goodbye comes on the first channel, after its answers
            if error.reason.code == LOST and len(self._links) > 1 and self.end is None:
                self._reconnect.lost(self._links.index(link), link)
                return
            self._end(end_of(error.reason, asyncio.get_running_loop().time()))
        elif isinstance(error, ProtocolError):
            self._finish(Loss.VIOLATION, str(error))
        else:
            _log.error("reading from %s", self.remote.label, exc_info=error)
            self._finish(Loss.VIOLATION, f"an internal error: {type(error).__name__}")

    # Is it there?

    def listen_to(self, monitor: Watch | None) -> None:
        """Use the reports of the peer's monitor. This object ends the subscription when the peer is lost."""
        self._monitor = monitor
        if monitor is not None:
            monitor.on_message = self._on_monitor_message

    def _on_monitor_message(self, word: MonitorMessage) -> None:
        loop = asyncio.get_running_loop()
        self._heartbeat.liveness.record(word, loop.time())
        if word.state is State.ENDED and self._grace is None:
            self._grace = loop.call_later(_GRACE, self._finish, Loss.ENDED, "")

    def _stop_listening(self) -> None:
        """End the subscription to the monitor, and the time left after its report of the end."""
        if self._grace is not None:
            self._grace.cancel()
        if self._monitor is not None:
            self._monitor.close()

    @property
    def task(self) -> str:
        """The name of the task; for a client, its label."""
        return self.remote.label

    @property
    def busy(self) -> str:
        """A text with how long its loop has been busy, and with which kernels; empty if it turns, or is unknown."""
        heard = max([link.heard for link in self._links], default=0.0)
        return "" if self.end is not None else self._heartbeat.liveness.busy(asyncio.get_running_loop().time(), heard)

    # Asking

    def request(
        self, message: Request[A], *, deadline: float | None = None, trace: str = "", number: int | None = None
    ) -> Coroutine[Any, Any, A]:
        """A coroutine that sends a request, and returns the answer.

        Args:
            message: the request.
            deadline: the time limit on the loop's clock, after which it raises DeadlineExceededError. The peer knows
                the seconds left.
            trace: the trace of the request.
            number: the number of the same request when it was sent before, so that the peer does not do it twice.

        Raises:
            OpError: the error of the peer's handler, or UnavailableError if the peer is lost.
        """
        return self._asking.request(message, deadline, trace, number)

    def notify(self, message: Note) -> None:
        """Say something that is not answered, and has no large values: at once. UnavailableError if it is lost."""
        self._links[0].send_now(self._note(message))

    def push(self, message: Note) -> Callable[[], Coroutine[Any, Any, None]] | None:
        """Say something that is not answered, and may have large values. UnavailableError if the peer is lost.

        Returns None if it was sent at once. Else it has to wait for room: the caller awaits the returned function.
        Cancelling that takes the message back.
        """
        outgoing = self._note(message)
        if outgoing.nbytes:
            sent = self._links[-1].send_at_once(outgoing)
            return None if sent else functools.partial(self._send_note, outgoing)
        self._links[0].send_now(outgoing)
        return None

    async def _send_note(self, outgoing: Outgoing) -> None:
        try:
            await self._links[-1].send(outgoing)
        except ClosedError:
            raise self._error("a pushed value") from None

    def _note(self, message: Note) -> Outgoing:
        if self.end is not None:
            raise self._error(type(message).__name__)
        return Outgoing(Envelope(next(self.local.numbers), message), self.limits)

    def ask_at_once(self, message: Request[A], answered: Answered) -> Callable[[], None] | None:
        """Send a request now, and call `answered` with its answer or error, as soon as that arrives.

        Returns a function that cancels the request. Returns None, and sends nothing, if the request has to wait or
        cannot be sent: then `request` does the rest.
        """
        return self._asking.ask_at_once(message, answered)

    def _post(self, message: Envelope) -> None:
        self._links[0].post(message)

    # What arrives

    def arrived(self, link: Link, message: Envelope) -> None:
        """A message has come over one of its channels."""
        handle = _HANDLERS.get(type(message.message))
        if handle is None:
            raise ProtocolError(f"{type(message.message).__name__} came where it cannot")
        handle(self, link, message)

    def _answered(self, link: Link, message: Envelope) -> None:
        self._asking.answered(message.number, message.message)

    def _heard(self, link: Link, message: Envelope) -> None:
        if link is self._links[0]:
            if message.number <= self._last_note:  # it has come before
                return
            self._last_note = message.number
        self._serving.hear(message)

    def _begin(self, link: Link, message: Envelope) -> None:
        """Begin a new request. A repeated request gets the earlier answer, and is not done again."""
        number = message.number
        if self._serving.awaits(number) and any(link.is_incomplete((number, False)) for link in self._links):
            raise ProtocolError(f"request {number} came while it was announced")
        known = self._recent.begin((self.remote.incarnation, number))
        if known is NEW:
            self._serving.begin(message)
        elif isinstance(known, bytes):
            answer: Any = message_in(known)
            self._serving.answer(number, answer)
        elif known is UNKNOWN or not self._serving.answers(number):
            self._serving.answer_unknown(number)

    async def _reply(self, number: int, answer: Answer) -> None:
        """Send the answer to a request of the peer's."""
        try:
            await self._send_answer(number, answer)
        except Exception as error:
            await self._send_answer(number, failure_of(error, self.local.task))

    def _reply_now(self, number: int, answer: Answer) -> bool:
        """Likewise, at once. False, and nothing is sent, if the answer cannot be sent, or has to wait."""
        try:
            outgoing = Outgoing(Envelope(number, answer), self.limits)
            if not link_for(self._links, outgoing).send_at_once(outgoing):
                return False
        except ClosedError:
            pass  # the peer is lost
        except Exception:  # the answer that may wait meets it again, and tells the other end
            return False
        self._recent.end((self.remote.incarnation, number), outgoing)
        return True

    async def _send_answer(self, number: int, answer: Answer) -> None:
        outgoing = Outgoing(Envelope(number, answer), self.limits)
        self._recent.end((self.remote.incarnation, number), outgoing)
        with contextlib.suppress(ClosedError):
            await link_for(self._links, outgoing).send(outgoing)

    def _cancel(self, link: Link, message: Envelope) -> None:
        self._serving.cancel(message.number)

    def _credit(self, link: Link, message: Envelope) -> None:
        credit: Any = message.message
        link.give(credit.nbytes)
        link.reported(credit.received)

    def _ping(self, link: Link, message: Envelope) -> None:
        self._heartbeat.ping(link, message)

    def _pong(self, link: Link, message: Envelope) -> None:
        self._heartbeat.pong(link, message)

    def _goodbye(self, link: Link, message: Envelope) -> None:
        goodbye: Any = message.message
        self._finish(Loss.GOODBYE, goodbye.reason)

    # What needs memory

    def admits(self, announced: Announcement, key: StreamKey) -> bool:
        """Whether to receive an announced message: it is expected, and there is room for it."""
        number, answer = key
        if answer:
            return self._asking.expects(number)
        if issubclass(announced.record.cls, Note) and not self._serving.has_room(announced.nbytes):
            self._serving.refuse_note(announced, "room")
            return False
        return self._serving.holds(number, announced.nbytes)

    def out_of_memory(self, announced: Announcement, key: StreamKey) -> None:
        """Refuse a message, since there is no memory for it."""
        number, answer = key
        text = f"there is no memory for the {announced.nbytes} bytes of {announced.record.name}"
        if issubclass(announced.record.cls, Note):
            self._serving.refuse_note(announced, "memory")
        elif answer:
            self._asking.refuse_answer(number, text)
        else:
            self._serving.refuse(number, text)

    def dropped(self, key: StreamKey) -> None:
        """A message will not come."""
        if not key[1]:
            self._serving.dropped(key[0])


_Handle = Callable[[Peer, Link, Envelope], None]
_KINDS: Final[dict[type[Message], _Handle]] = {Answer: Peer._answered, Request: Peer._begin, Note: Peer._heard}
_HANDLERS: Final[dict[type[Message], _Handle]] = {
    Cancel: Peer._cancel, Credit: Peer._credit, Ping: Peer._ping, Pong: Peer._pong, Goodbye: Peer._goodbye,
    **{cls: handle for kind, handle in _KINDS.items() for cls in RECORDS if issubclass(cls, kind)},
}  # fmt: skip
"""The method for each class of messages that may come."""
