"""Models as a sub-application of aiohttp: `app.add_subapp("/models", af.serving.aiohttp_app(models))`."""

import asyncio
import functools
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Final

import aiohttp
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from aioflow.serving.conversation import converse
from aioflow.serving.failures import RequestRefusedError
from aioflow.serving.limits import Limits
from aioflow.serving.models import Models
from aioflow.serving.request import WEBSOCKET, Request, Response
from aioflow.serving.service import Service
from aioflow.serving.tokens import Tokens

_LOOK_EVERY: Final = 0.1
_READ_ON: Final = 2.0
"""Seconds in which a client that still sends a refused body can read why."""
_UNPACKED: Final = frozenset({"gzip", "x-gzip", "deflate", "br", "zstd"})
"""The packings of bodies that aiohttp undoes."""


def aiohttp_app(
    models: Models,
    limits: Limits | None = None,
    *,
    token: str | Collection[str] | None = None,
    origins: Collection[str] | None = None,
) -> web.Application:
    """Return an application that serves models by the Open Inference Protocol and TensorFlow Serving's REST.

    A request whose client is gone is cancelled. The models stay the caller's, who closes them after the application.

    Args:
        models: the models.
        limits: the bounds of requests.
        token: what each request must show as `Authorization: Bearer ...`, except those for health; None for nothing.
            Of several, each request must show one, and a quota of `limits` is that of a token.
        origins: the web pages that may send requests, such as `https://example.org`; None for any.

    Examples:
        >>> async with af.serving.Models() as models:
        ...     application = af.serving.aiohttp_app(models)
    """
    service = Service(models, limits, tokens=Tokens.of(token), origins=origins)
    app = web.Application()
    app.router.add_route("*", r"/{path:[\s\S]*}", _Adapter(service).handle)  # a path may have line breaks
    return app


class _Adapter:
    """Hands requests of aiohttp to a service, and cancels those whose clients are gone.

    aiohttp tells a handler of that only if its runner was made with `handler_cancellation`, which a sub-application
    cannot choose. So the connections of requests that run are looked at ten times a second.
    """

    def __init__(self, service: Service) -> None:
        self._service: Final = service
        self._running: Final[dict[asyncio.Task[object], web.Request]] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request. Its task is cancelled when its client is gone."""
        task = asyncio.current_task()
        assert task is not None
        self._running[task] = request
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_EVERY, self._look)
        try:
            return await answer(self._service, request, f"/{request.match_info['path']}")
        finally:
            del self._running[task]

    def _look(self) -> None:
        self._timer = None
        if self._running:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_EVERY, self._look)
        for task, request in self._running.items():
            if request.transport is None or request.transport.is_closing():
                task.cancel()


async def answer(service: Service, request: web.BaseRequest, path: str, unpacked: bool = True) -> web.StreamResponse:
    """Answer a request.

    Args:
        service: the service.
        request: the request.
        path: its path below the place where the models are mounted.
        unpacked: whether aiohttp unpacks its body.
    """
    if "sec-websocket-key" in request.headers:
        return await _converse(service, request, path)
    sent = await service.answer(_neutral(request, path, unpacked), functools.partial(_send, request))
    if not request.content.at_eof():
        await _refuse_the_rest(request, sent)
    return sent


def _neutral(request: web.BaseRequest, path: str, unpacked: bool) -> Request:
    headers: Mapping[str, str] = request.headers
    if unpacked and headers.get("content-encoding", "").strip().lower() in _UNPACKED:
        headers = {name.lower(): value for name, value in headers.items() if name.lower() != "content-encoding"}
    content = request.content
    is_there = content.is_eof() and content.exception() is None
    body = content.read_nowait() if is_there else _chunks(request)
    return Request(request.method, path, headers, body, request.remote or "")


async def _chunks(request: web.BaseRequest) -> AsyncIterator[bytes]:
    """The body as it arrives. RequestRefusedError if it does not arrive whole."""
    try:
        async for chunk in request.content.iter_any():
            yield chunk
    except (ConnectionError, aiohttp.ClientError, HttpProcessingError, web.RequestPayloadError) as error:
        raise RequestRefusedError(400, f"the body did not arrive whole: {error}") from None


async def _send(request: web.BaseRequest, response: Response) -> web.StreamResponse:
    pieces = response.pieces
    if response.stream is None and len(pieces) == 1:
        return web.Response(body=pieces[0], status=response.status, headers=response.headers)
    sent = web.StreamResponse(status=response.status, headers=response.headers)
    if response.stream is None:
        sent.content_length = response.size
    await sent.prepare(request)
    await response.write_to(sent.write)
    await sent.write_eof()
    return sent


async def _converse(service: Service, request: web.BaseRequest, path: str) -> web.StreamResponse:
    """Answer a client that asks for a websocket."""
    socket = _Socket(request, service.limits.json)
    asked = Request(WEBSOCKET, path, request.headers, b"", request.remote or "")
    refused = await converse(service, asked, socket, functools.partial(_send, request))
    return socket.response if refused is None else refused


class _Socket:
    """A websocket of aiohttp.

    Attributes:
        response: what opens it.
    """

    def __init__(self, request: web.BaseRequest, most: int) -> None:
        self.response: Final = web.WebSocketResponse(max_msg_size=most)
        self._request: Final = request

    async def accept(self) -> None:
        """Open it. RequestRefusedError if the request asks for it wrongly."""
        try:
            await self.response.prepare(self._request)
        except web.HTTPException as error:
            raise RequestRefusedError(error.status, f"this opens no websocket: {error.text}") from None

    async def receive(self) -> bytes | None:
        """Return the next message; None if the client has left."""
        message = await self.response.receive()
        if message.type is aiohttp.WSMsgType.TEXT:
            return str(message.data).encode()
        return message.data if message.type is aiohttp.WSMsgType.BINARY else None

    async def send(self, message: bytes) -> None:
        """Send a message of text, once the client has taken most of those before."""
        await self.response.send_str(message.decode())

    async def close(self, code: int) -> None:
        """Close it."""
        await self.response.close(code=code)


async def _refuse_the_rest(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Send a response before the body has been read, throw the rest of the body away, and soon close the connection.

    A connection that is closed at once breaks while its client sends, who then never sees the response. aiohttp by
    itself would read on for 10 s, even when the client is gone.
    """
    await response.prepare(request)
    await response.write_eof()
    try:
        async with asyncio.timeout(_READ_ON):
            async for _ in _chunks(request):
                pass
    except (TimeoutError, RequestRefusedError):
        request.protocol.force_close()
