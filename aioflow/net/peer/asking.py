"""The requests to a peer that it has not answered yet. Each ends in an answer, an error, or the loss of the peer."""

import asyncio
import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from aioflow import errors
from aioflow.net.peer.asked import Answered, Asked, Reaction
from aioflow.net.peer.credits import Credits
from aioflow.net.peer.link import Link, link_for
from aioflow.net.peer.reconnect import End
from aioflow.net.transport.channel import ClosedError
from aioflow.net.wire.codec import Envelope, ProtocolError
from aioflow.net.wire.control_verbs import Cancel, Failure
from aioflow.net.wire.failures import error_of
from aioflow.net.wire.framing import Outgoing
from aioflow.net.wire.identity import Identity
from aioflow.net.wire.limits import Limits
from aioflow.net.wire.schema import ANSWERS, Answer, Message, Request

A = TypeVar("A", bound=Answer)


class Asking:
    """The open requests to one peer.

    Attributes:
        late: answers that came after the request was cancelled.
    """

    def __init__(self, local: Identity, remote: Identity, limits: Limits, links: Sequence[Link]) -> None:
        self.late: int = 0
        self._local: Final = local
        self._remote: Final = remote
        self._limits: Final = limits
        self._links: Final = links
        self._end: End | None = None
        self._asked: Final[dict[int, Asked]] = {}
        self._slots: Final = Credits(limits.requests)

    def __len__(self) -> int:
        return len(self._asked)

    def expects(self, number: int) -> bool:
        """Whether the request of that number waits for its answer."""
        return number in self._asked

    # Awaited requests

    def request(
        self, message: Request[A], deadline: float | None, trace: str, number: int | None
    ) -> Coroutine[Any, Any, A]:
        """A coroutine that sends a request, and returns the answer; see `Peer.request`."""
        envelope = Envelope(next(self._local.numbers) if number is None else number, message, None, trace)
        return self._request(envelope) if deadline is None else self._request_until(envelope, deadline)

    async def _request_until(self, envelope: Envelope, deadline: float) -> Any:
        limit, begin = asyncio.timeout_at(deadline), asyncio.get_running_loop().time()
        try:
            async with limit:
                return await self._request(envelope, deadline)
        except TimeoutError as error:
            if not limit.expired() or isinstance(error, errors.OpError):
                raise
            request = type(envelope.message).__name__
            text = f"{self._remote.label} has not answered {request} within {deadline - begin:.3g} s"
            raise errors.DeadlineExceededError(text, task=self._remote.task or None) from None

    async def _request(self, message: Envelope, deadline: float | None = None) -> Any:
        if not self._slots.take_at_once(1):
            await self._slots.take(1)
        try:
            return await self._answer_to(message, deadline)
        finally:
            self._slots.give(1)

    async def _answer_to(self, message: Envelope, deadline: float | None) -> Any:
        self._check(message)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        asked = Asked(type(message.message), future)
        outgoing = Outgoing(message, self._limits)
        link = link_for(self._links, outgoing)
        self._asked[message.number] = asked
        sent = False
        try:
            if not link.send_at_once(outgoing, deadline):
                await link.send(outgoing, deadline, lambda: not asked.future.done())
            sent = True
            return await future
        except ClosedError:  # the peer is lost
            raise self._error(asked.name) from None
        except asyncio.CancelledError:
            if sent and (future.cancelled() or not future.done()):
                link.post(Envelope(message.number, Cancel()))
            raise
        finally:
            self._forget(message.number, future)
            del future, asked.future  # its error refers to this frame

    def _check(self, message: Envelope) -> None:
        if self._end is not None:
            raise self._error(type(message.message).__name__)
        if message.number in self._asked:
            raise errors.AlreadyExistsError(f"request {message.number} is not answered yet")

    def _forget(self, number: int, future: "asyncio.Future[Any]") -> None:
        del self._asked[number]
        if not future.done() or future.cancelled() or future.exception() is not None:
            self._abandon(number)

    def _abandon(self, number: int) -> None:
        """Discard the bytes of an answer that nobody awaits any more."""
        for link in self._links:
            link.abandon((number, True))

    # Requests without a coroutine

    def ask_at_once(self, message: Request[A], answered: Answered) -> Callable[[], None] | None:
        """Send a request now, and call `answered` with its answer or error; see `Peer.ask_at_once`."""
        if self._end is not None or not self._slots.take_at_once(1):
            return None
        number = next(self._local.numbers)
        try:
            outgoing = Outgoing(Envelope(number, message), self._limits)
            sent = link_for(self._links, outgoing).send_at_once(outgoing)
        except (errors.OpError, ClosedError):
            sent = False
        if not sent:
            self._slots.give(1)
            return None

        def finish(answer: Any) -> None:
            del self._asked[number]
            self._slots.give(1)
            answered(answer)

        reaction = Reaction(finish)
        self._asked[number] = Asked(type(message), reaction)
        return functools.partial(self._give_up, number, reaction)

    def _give_up(self, number: int, reaction: Reaction) -> None:
        """Cancel a request that was sent at once, if it is not answered yet."""
        if reaction.done():
            return
        reaction.cancel()
        del self._asked[number]
        self._slots.give(1)
        self._abandon(number)
        self._links[0].post(Envelope(number, Cancel()))

    # What ends them

    def answered(self, number: int, answer: Message) -> None:
        """End a request with its answer. ProtocolError if the answer is of another class than the request's."""
        asked = self._asked.get(number)
        if asked is None or asked.future.done():
            self.late += 1
        elif isinstance(answer, Failure):
            asked.future.set_exception(error_of(answer))
        elif isinstance(answer, ANSWERS[asked.kind]):
            asked.future.set_result(answer)
        else:
            raise ProtocolError(f"{type(answer).__name__} answers no {asked.name}")

    def refuse_answer(self, number: int, text: str) -> None:
        """End a request whose answer cannot be received with ResourceExhaustedError."""
        asked = self._asked.get(number)
        if asked is not None and not asked.future.done():
            asked.future.set_exception(errors.ResourceExhaustedError(text))

    def fail(self, end: End) -> None:
        """End all present and later requests with the error of the loss of the peer."""
        self._end = end
        for asked in list(self._asked.values()):
            if not asked.future.done():
                asked.future.set_exception(self._error(asked.name))

    def _error(self, asked: str) -> errors.OpError:
        assert self._end is not None
        return self._end.error(self._remote.label, self._remote.task or None, asked)
