"""A task as its own peer: its requests to itself use no channel."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from aioflow import errors
from aioflow.net.peer.asked import Answered
from aioflow.net.peer.serving import Call, LaterAnswer, Service
from aioflow.net.wire.schema import Answer, Note, Request

A = TypeVar("A", bound=Answer)


class LocalPeer:
    """The task itself. It answers requests as its peers answer them: at once, later, or in a coroutine."""

    task = "this task"

    def __init__(self, handler: Service) -> None:
        self._handler: Final = handler

    @property
    def clock_offset(self) -> float:
        """It has this clock."""
        return 0.0

    @property
    def busy(self) -> str:
        """Empty: this code runs only while the loop turns."""
        return ""

    async def request(self, message: Request[A], *, deadline: float | None = None, trace: str = "") -> A:
        """The answer."""
        call = Call(message, None, 0, deadline, trace)
        answer = self._quick_answer(call)
        if isinstance(answer, Answer):
            return cast(A, answer)
        limit, begin = asyncio.timeout_at(deadline), asyncio.get_running_loop().time()
        try:
            async with limit:
                return cast(A, await (self._handler(call) if answer is None else _come(answer)))
        except TimeoutError as error:
            if deadline is None or not limit.expired() or isinstance(error, errors.OpError):
                raise
            seconds = max(0.0, deadline - begin)
            text = f"{type(message).__name__} has not ended within {seconds:.3g} s"
            raise errors.DeadlineExceededError(text) from None

    def ask_at_once(self, message: Request[A], answered: Answered) -> Callable[[], object] | None:
        """Call `answered` before this returns, or as a later answer comes. Returns None if that takes a coroutine."""
        try:
            answer = self._quick_answer(Call(message, None, 0, None, ""))
        except Exception as error:
            answered(error)
            return _nothing
        if answer is None:
            return None
        if isinstance(answer, Answer):
            answered(answer)
            return _nothing
        answer.on_answer = answered
        return answer.cancel

    def _quick_answer(self, call: Call) -> Answer | LaterAnswer | None:
        quick = self._handler.quick.get(type(call.message))
        return None if quick is None else quick(call)

    def notify(self, message: Note) -> None:
        """It is heard at once."""
        self._handler.notes[type(message)](Call(message, None, 0, None, ""))


async def _come(later: LaterAnswer) -> Answer:
    """The later answer, or its error. A cancelled call returns when the cancelled work has ended."""
    came: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    later.on_answer = lambda answer: None if came.done() else came.set_result(answer)
    try:
        found = await came
    except asyncio.CancelledError:
        end = later.cancel()
        if end is not None:
            await asyncio.wait([end])
        raise
    if isinstance(found, BaseException):
        raise found
    return cast(Answer, found)


def _nothing() -> None:
    """Cancel a request that is answered."""
