"""Streams over websockets, whatever carries them: a client sends one message, and gets one for each iteration.

The message of the client is the body that it could as well POST. A request that is refused before its message is read,
as for a wrong token or an unknown model, gets a response of HTTP and no websocket. A later error is the last message,
`{"error": "..."}`. A client that leaves stops its loop; one that reads slowly holds back its own loop alone.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Generic, Protocol, TypeVar

from aioflow.serving.failures import RequestRefusedError
from aioflow.serving.request import Request, Response
from aioflow.serving.service import Service

T = TypeVar("T")
_NORMAL, _BAD_REQUEST, _TOO_LARGE, _FAULT, _LATER = 1000, 1008, 1009, 1011, 1013
"""Codes with which a websocket closes."""
_OWN_CODES: Final = {413: _TOO_LARGE, 503: _LATER}
"""Statuses of HTTP with a code of their own."""


class Socket(Protocol):
    """A websocket that a client asks for."""

    async def accept(self) -> None:
        """Open it."""

    async def receive(self) -> bytes | None:
        """Return the next message; None if the client has left."""

    async def send(self, message: bytes) -> None:
        """Send a message of text, once the client has taken most of those before."""

    async def close(self, code: int) -> None:
        """Close it."""


async def converse(
    service: Service, request: Request, socket: Socket, refuse: Callable[[Response], Awaitable[T]]
) -> T | None:
    """Answer a client that asks for a websocket.

    Args:
        service: the service.
        request: its request, whose method is `WEBSOCKET`; the body is read from the websocket.
        socket: the websocket.
        refuse: sends a response instead of opening the websocket.

    Returns:
        What `refuse` returns; None if the websocket was opened.
    """
    talk = _Conversation(socket, refuse, service.limits.message_seconds)
    asked = request._replace(body=talk.first_message())
    return await answer_until(service.answer(asked, talk.send), talk.client_gone())


async def answer_until(answer: Awaitable[T], gone: Awaitable[None]) -> T | None:
    """Return what an answer returns. It is cancelled as soon as its client is gone; then None."""
    answering, watching = asyncio.ensure_future(answer), asyncio.ensure_future(gone)
    try:
        await asyncio.wait({answering, watching}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (answering, watching):
            task.cancel()
        await asyncio.gather(answering, watching, return_exceptions=True)
    return None if answering.cancelled() else answering.result()


class _Conversation(Generic[T]):
    """One websocket: it is opened for the first message, and closed behind the last one."""

    def __init__(self, socket: Socket, refuse: Callable[[Response], Awaitable[T]], patience: float) -> None:
        self._socket: Final = socket
        self._refuse: Final = refuse
        self._patience: Final = patience
        self._is_open = False
        self._has_message: Final = asyncio.Event()

    async def first_message(self) -> AsyncIterator[bytes]:
        """The body of the request. RequestRefusedError if the client leaves before, or sends nothing for too long."""
        await self._socket.accept()
        self._is_open = True
        try:
            async with asyncio.timeout(self._patience):
                message = await self._socket.receive()
        except TimeoutError:
            raise RequestRefusedError(408, f"the message did not arrive within {self._patience:g} s") from None
        self._has_message.set()
        if message is None:
            raise RequestRefusedError(400, "the client has left before its message")
        yield message

    async def client_gone(self) -> None:
        """Wait until the client has left. Further messages are thrown away."""
        await self._has_message.wait()
        while await self._socket.receive() is not None:
            pass

    async def send(self, response: Response) -> T | None:
        """Send the messages of a response, and close the websocket."""
        if not self._is_open:
            return await self._refuse(response)
        for message in response.body:
            await self._socket.send(bytes(message))
        if response.stream is not None:
            async for message in response.stream:
                await self._socket.send(message)
        await self._socket.close(_code(response.status))
        return None


def _code(status: int) -> int:
    """Return the code with which a websocket closes, for a status of HTTP."""
    if status in _OWN_CODES:
        return _OWN_CODES[status]
    return _NORMAL if status < 400 else _BAD_REQUEST if status < 500 else _FAULT
