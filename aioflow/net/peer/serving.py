"""Answers the requests of a peer, and each of them once, also if the peer sends it again."""

import asyncio
import contextvars
import functools
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, NamedTuple, Protocol

from aioflow import errors
from aioflow.net.peer.reconnect import End, Loss
from aioflow.net.wire.codec import Announcement, Envelope, ProtocolError
from aioflow.net.wire.failures import failure_of
from aioflow.net.wire.framing import Outgoing
from aioflow.net.wire.identity import Identity
from aioflow.net.wire.limits import Limits
from aioflow.net.wire.schema import ANSWERS, Answer, Message

_log: Final = logging.getLogger("aioflow.net")


class Requester(Protocol):
    """A connected task that sends requests to this one: a `Peer`."""

    @property
    def local(self) -> Identity:
        """The identity of this task."""

    @property
    def remote(self) -> Identity:
        """The identity of the connected task."""

    @property
    def limits(self) -> Limits:
        """The limits that both tasks have agreed on."""

    @property
    def end(self) -> End | None:
        """The loss of the connected task; None while it is connected."""

    def lose(self, loss: Loss, text: str) -> None:
        """End the connection for a reason."""


class Call(NamedTuple):
    """A received request with its circumstances.

    Attributes:
        message: the request.
        peer: the requesting peer; None for the task itself.
        number: the number of the request.
        deadline: the time limit of the answer on the loop's clock; None for no limit.
        trace: the trace of the request.
    """

    message: Message
    peer: Requester | None
    number: int
    deadline: float | None
    trace: str


Reply = Callable[[int, Answer], Coroutine[Any, Any, None]]
"""Sends the answer to the request of that number."""
ReplyNow = Callable[[int, Answer], bool]
"""Likewise, at once. False, and nothing is sent, if the answer has to wait."""
Handler = Callable[[Call], Awaitable[Answer]]
"""Answers a request, or raises the error that the requesting side shall raise. It is cancelled when the request is
cancelled, when its time limit expires, and when the peer is lost."""


class LaterAnswer(Protocol):
    """An answer that comes later, without an asyncio task.

    Attributes:
        on_answer: a function that the handler calls with the answer, or with the error, once.
    """

    on_answer: "Callable[[Any], None] | None"

    def cancel(self) -> "asyncio.Task[None] | None":
        """Cancel the work for the answer. `on_answer` is not called any more. A task that is returned ends the work."""


QuickHandler = Callable[[Call], "Answer | LaterAnswer | None"]
"""Answers a request at once, or begins to. Returns None, and does nothing, if its `Handler` must answer it: because
that may take long at once, or because it needs an asyncio task."""
Hears = Callable[[Call], None]
"""Handles a note, which has no answer."""
Refuses = Callable[[Call, errors.OpError], None]
"""Handles a note whose values cannot be received, for lack of room or memory. The message has no values."""


_NONE: Final[Mapping[type, Any]] = {}


class Service:
    """The handlers of a task by class of message. Called with a request, it gives the answer.

    Attributes:
        notes: the handlers of notes, which have no answer.
        quick: the quick handlers of requests.
        refused: the handlers of notes whose values cannot be received.
    """

    def __init__(self, name: str) -> None:
        self.notes: Final[dict[type[Message], Hears]] = {}
        self.quick: Final[dict[type[Message], QuickHandler]] = {}
        self.refused: Final[dict[type[Message], Refuses]] = {}
        self._name: Final = name
        self._handlers: dict[type[Message], Handler] = {}
        self._is_stopping = False

    def add(
        self, target: object, handlers: Mapping[type, Any], notes: Mapping[type, Any] = _NONE,
        quick: Mapping[type, Any] = _NONE, refused: Mapping[type, Any] = _NONE,
    ) -> None:  # fmt: skip
        """Add handlers, which are methods of the class of `target`."""
        every: tuple[tuple[dict[type[Message], Any], Mapping[type, Any]], ...] = (
            (self._handlers, handlers), (self.notes, notes), (self.quick, quick), (self.refused, refused),
        )  # fmt: skip
        for found, added in every:
            found.update({kind: functools.partial(handler, target) for kind, handler in added.items()})

    def stop(self, *still: type[Message]) -> None:
        """From now on refuse requests of all other classes with UnavailableError."""
        self._is_stopping = True
        self.quick.clear()
        self._handlers = {kind: self._handlers[kind] for kind in still}

    async def __call__(self, call: Call) -> Answer:
        """Answer a request."""
        handler = self._handlers.get(type(call.message))
        if handler is not None:
            return await handler(call)
        if self._is_stopping:
            raise errors.UnavailableError(f"{self._name} is stopping", task=self._name)
        raise errors.UnimplementedError(f"{self._name} does not answer {type(call.message).__name__}")


class Serving:
    """Answers the requests of one peer, each at once, or as its quick handler goes on, or in its own asyncio task."""

    def __init__(
        self, peer: Requester, handler: Handler, limits: Limits, reply: Reply, reply_now: ReplyNow
    ) -> None:  # fmt: skip
        self._peer: Final = peer
        self._handler: Final = handler
        self._notes: Final[Mapping[type[Message], Hears]] = getattr(handler, "notes", {})
        self._quick: Final[Mapping[type[Message], QuickHandler]] = getattr(handler, "quick", _NONE)
        self._refused: Final[Mapping[type[Message], Refuses]] = getattr(handler, "refused", _NONE)
        self._limits: Final = limits
        self._reply: Final = reply
        self._reply_now: Final = reply_now
        self._tasks: Final[dict[int, asyncio.Task[None]]] = {}
        self._later: Final[dict[int, LaterAnswer]] = {}
        self._held: Final[dict[int, int]] = {}
        self._context: Final = contextvars.copy_context()
        """The context in which the peer was made. Requests are answered in it."""

    def __len__(self) -> int:
        return len(self._tasks) + len(self._later)

    @property
    def held(self) -> int:
        """The bytes of values of unanswered requests, also those that are still arriving."""
        return sum(self._held.values())

    def answers(self, number: int) -> bool:
        """Whether the request of that number is being answered."""
        return number in self._tasks or number in self._later

    def awaits(self, number: int) -> bool:
        """Whether the request of that number is announced, but has not begun."""
        return number in self._held and not self.answers(number)

    def holds(self, number: int, nbytes: int) -> bool:
        """Reserve bytes for an announced request. If there is no room, refuse it, and return False.

        Also returns False for a repeated request that is being answered.
        """
        if self.answers(number) or number in self._held:
            return False
        if not self.has_room(nbytes):
            self.refuse(number, f"requests with {self.held} bytes are not answered yet, and {nbytes} more come")
            return False
        self._held[number] = nbytes
        return True

    def has_room(self, nbytes: int) -> bool:
        """Whether values of `nbytes` more may come."""
        return self.held + nbytes <= self._limits.held

    def refuse(self, number: int, text: str) -> None:
        """Refuse the request of that number, since there is no room for it."""
        self._held.pop(number, None)
        self.answer(number, self._failure(errors.ResourceExhaustedError(text)))

    def dropped(self, number: int) -> None:
        """Forget an announced request that will not come."""
        self._held.pop(number, None)

    def begin(self, message: Envelope) -> None:
        """Answer a request, unless it is being answered. ProtocolError if far too many are open."""
        count, most = len(self._tasks) + len(self._later), self._limits.requests
        quick = self._quick.get(type(message.message))
        if quick is not None and message.left != 0 and count < most and self._answered_at_once(quick, message):
            return
        if count < most:
            self._start(message.number, lambda: self._serve(message))
        else:
            self.refuse(message.number, f"{count} requests are not answered yet")

    def _answered_at_once(self, quick: QuickHandler, message: Envelope) -> bool:
        """Answer a request without an asyncio task. False if its quick handler does not."""
        number = message.number
        deadline = None if message.left is None else asyncio.get_running_loop().time() + message.left
        try:
            answer = self._context.copy().run(quick, Call(message.message, self._peer, number, deadline, message.trace))
        except (Exception, asyncio.CancelledError) as error:
            answer = self._failure(errors.from_exception(error))
        if isinstance(answer, Answer):
            self._finish(number, answer)
        elif answer is not None:
            self._later[number] = answer
            answer.on_answer = functools.partial(self._came_later, number)
        return answer is not None

    def _came_later(self, number: int, answer: "Answer | BaseException") -> None:
        del self._later[number]
        try:
            self._finish(number, self._failure(answer) if isinstance(answer, BaseException) else answer)
        except ProtocolError as error:  # this may run while a message of another peer is handled
            self._peer.lose(Loss.VIOLATION, str(error))

    def _finish(self, number: int, answer: Answer) -> None:
        """Send the answer of a quick handler."""
        self._held.pop(number, None)
        if not self._reply_now(number, answer):
            self.answer(number, answer)

    def hear(self, message: Envelope) -> None:
        """Hand a note to its handler. ProtocolError if there is no handler for it."""
        self._held.pop(message.number, None)
        heard = self._notes.get(type(message.message))
        if heard is None:
            raise ProtocolError(f"{type(message.message).__name__} came where it cannot")
        try:
            heard(Call(message.message, self._peer, message.number, None, message.trace))
        except (errors.OpError, ValueError) as error:
            raise ProtocolError(f"{type(message.message).__name__}: {error}") from None

    def refuse_note(self, announced: Announcement, lack: str) -> None:
        """Tell the handler of refused notes that there is no room or memory. Without one, the peer is lost."""
        note, text = announced.envelope(announced.values), f"there is no {lack} for the {announced.nbytes} bytes"
        text = f"{text} of {announced.record.name} from {self._peer.remote.label}"
        self._held.pop(note.number, None)
        refused = self._refused.get(type(note.message))
        if refused is None:
            self._peer.lose(Loss.VIOLATION, text)
            return
        error = errors.ResourceExhaustedError(text, task=self._peer.local.task or None)
        refused(Call(note.message, self._peer, note.number, None, note.trace), error)

    def answer(self, number: int, answer: Answer) -> None:
        """Send the known answer to a request. ProtocolError if far too many are open."""
        self._start(number, lambda: self._reply(number, answer))

    def answer_unknown(self, number: int) -> None:
        """Answer a repeated request whose answer is not known any more."""
        where = self._peer.local.task or "this task"
        text = f"the request came to {where} before, and its answer is not known any more: ask under a new number"
        self.answer(number, self._failure(errors.AbortedError(text)))

    def cancel(self, number: int) -> None:
        """Cancel the handler of a request."""
        task, later = self._tasks.get(number), self._later.pop(number, None)
        if task is not None:
            task.cancel()
        end = None if later is None else later.cancel()
        if end is not None:  # the request counts until its work has ended
            self._tasks[number] = end
            end.add_done_callback(lambda done: self._ended(number, done))
        elif later is not None:
            self._held.pop(number, None)

    async def stop(self) -> None:
        """Cancel all, and return when all have ended."""
        for task in self._tasks.values():
            task.cancel()
        for number in list(self._later):
            self.cancel(number)
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _start(self, number: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start one asyncio task that answers a request. A repeated request gets the answer of the first one."""
        if self.answers(number):
            return
        if len(self._tasks) >= 2 * self._limits.requests:
            raise ProtocolError(f"{len(self._tasks)} requests were open, and more came")
        task = asyncio.get_running_loop().create_task(work(), name=f"answer {number}", context=self._context.copy())
        self._tasks[number] = task
        task.add_done_callback(lambda done: self._ended(number, done))

    def _ended(self, number: int, task: "asyncio.Task[None]") -> None:
        del self._tasks[number]
        self._held.pop(number, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _log.error("answering %s", self._peer.remote.label, exc_info=error)
            self._peer.lose(Loss.VIOLATION, f"an answer could not be sent: {type(error).__name__}")

    async def _serve(self, message: Envelope) -> None:
        await self._reply(message.number, await self._answer(message))

    async def _answer(self, message: Envelope) -> Answer:
        loop = asyncio.get_running_loop()
        deadline = None if message.left is None else loop.time() + message.left
        call = Call(message.message, self._peer, message.number, deadline, message.trace)
        limit = None if deadline is None else asyncio.timeout_at(deadline)
        try:
            if limit is None:
                return _checked(message.message, await self._handler(call))
            async with limit:
                if message.left == 0:
                    await asyncio.sleep(0)  # where the limit is noticed
                return _checked(message.message, await self._handler(call))
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            return self._failure(errors.CancelledError("the handler of the request was cancelled"))
        except Exception as error:
            if isinstance(error, TimeoutError) and limit is not None and limit.expired():
                name = type(message.message).__name__
                error = errors.DeadlineExceededError(f"the {message.left:g} s for {name} are over")
            return self._failure(error)

    def _failure(self, error: BaseException) -> Answer:
        return failure_of(error, self._peer.local.task)


def _checked(request: Message, answer: Answer) -> Answer:
    """Return the answer of a handler, if its class fits the request."""
    name = type(request).__name__
    if not isinstance(answer, ANSWERS[type(request)]):
        raise errors.InternalError(
            f"{name} was answered by {type(answer).__name__}, not {ANSWERS[type(request)].__name__}"
        )
    return answer


def _is_cancelled() -> bool:
    """Whether it is the running task that was cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


# Repeated requests

RequestKey = tuple[int, int]
"""The incarnation of the requesting task, and the number of the request."""


KEPT: Final = 16 << 20
"""Bytes of all answers that a task keeps."""


class RecentRequests:
    """The latest requests of all peers, so that a repeated request is not done twice.

    A request that was sent again under its number, for example after a lost connection, gets the first answer, if that
    is still kept: the oldest go first, and answers with large values at once. A request whose answer is not known any
    more ends in AbortedError. Answers are kept as bytes, since a value may be a small part of a large array, which the
    value would keep alive.
    """

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._seen: Final[OrderedDict[RequestKey, Known | None]] = OrderedDict()
        self._frames: Final[OrderedDict[RequestKey, bytes]] = OrderedDict()
        self._nbytes = 0
        """The bytes of the frames."""

    def begin(self, key: RequestKey) -> "bytes | Known | None":
        """Begin a request.

        Returns NEW for the first time. For a repeated request, returns the frame of its answer, UNKNOWN if that was not
        kept, or None while there is none.
        """
        found = self._seen.get(key, NEW)
        if found is NEW:
            self._seen[key] = None
            if len(self._seen) > self._most:
                oldest, _ = self._seen.popitem(last=False)
                self._nbytes -= len(self._frames.pop(oldest, b""))
        return self._frames.get(key, UNKNOWN) if found is UNKNOWN else found

    def end(self, key: RequestKey, answer: Outgoing) -> None:
        """Record the answer. Only the first answer counts."""
        if self._seen.get(key, NEW) is not None:
            return
        self._seen[key] = UNKNOWN
        if not answer.nbytes:
            frame = self._frames[key] = answer.frame()
            self._nbytes += len(frame)
            while self._nbytes > KEPT:
                self._nbytes -= len(self._frames.popitem(last=False)[1])

    def __len__(self) -> int:
        return len(self._seen)


class Known:
    """Stands for a request that is new, or for an answer that was not kept."""


NEW: Final = Known()
UNKNOWN: Final = Known()
