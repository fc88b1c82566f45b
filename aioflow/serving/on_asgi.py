"""Models as a callable of ASGI, as for Starlette: `app.mount("/models", af.serving.asgi_app(models))`."""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, MutableMapping
from typing import Any, Final, TypeAlias

from aioflow.serving.conversation import answer_until, converse
from aioflow.serving.failures import RequestRefusedError
from aioflow.serving.limits import Limits
from aioflow.serving.models import Models
from aioflow.serving.request import WEBSOCKET, Request, Response
from aioflow.serving.service import Service
from aioflow.serving.tokens import Tokens

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Asgi: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
_DENIAL: Final = "websocket.http.response"
"""The extension by which a request for a websocket gets a response of HTTP instead."""


def asgi_app(
    models: Models,
    limits: Limits | None = None,
    *,
    token: str | Collection[str] | None = None,
    origins: Collection[str] | None = None,
) -> Asgi:
    """Return a callable that serves models by the Open Inference Protocol and TensorFlow Serving's REST.

    A request whose client is gone is cancelled. The models stay the caller's, who closes them after the server.

    Args:
        models: the models.
        limits: the bounds of requests.
        token: what each request must show as `Authorization: Bearer ...`, except those for health; None for nothing.
            Of several, each request must show one, and a quota of `limits` is that of a token.
        origins: the web pages that may send requests, such as `https://example.org`; None for any.

    Examples:
        >>> async with af.serving.Models() as models:
        ...     application = af.serving.asgi_app(models)
    """
    service = Service(models, limits, tokens=Tokens.of(token), origins=origins)

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await _serve(service, scope, receive, send)
        elif scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "websocket":
            await _converse(service, scope, receive, send)

    return app


async def _live(receive: Receive, send: Send) -> None:
    """Answer the events of a server's life, for which there is nothing to do."""
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return


async def _serve(service: Service, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
    """Answer a request. As soon as its client is gone, the answer is cancelled."""
    arrived = asyncio.Event()
    request = Request(scope["method"], _path(scope), _headers(scope), _chunks(receive, arrived), _client(scope))
    await answer_until(service.answer(request, functools.partial(_send, send)), _client_gone(receive, arrived))


async def _client_gone(receive: Receive, arrived: asyncio.Event) -> None:
    """Wait until the client has left. Only one reads at a time: first the body, then this."""
    await arrived.wait()
    while (await receive())["type"] != "http.disconnect":
        pass


async def _chunks(receive: Receive, arrived: asyncio.Event) -> AsyncIterator[bytes]:
    """The body as it arrives. RequestRefusedError if the client leaves before its end."""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestRefusedError(400, "the body did not arrive whole: the client has left")
        more = message.get("more_body", False)
        if not more:
            arrived.set()
        yield message.get("body", b"")


def _path(scope: Mapping[str, Any]) -> str:
    """The path below the place where the callable is mounted. Servers differ in whether `path` has that place, too."""
    path: str = scope["path"]
    root = scope.get("root_path", "").rstrip("/")
    return path.removeprefix(root) if root and path.startswith(f"{root}/") else path


def _headers(scope: Mapping[str, Any]) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def _client(scope: Mapping[str, Any]) -> str:
    return str((scope.get("client") or ("",))[0])


async def _send(send: Send, response: Response, kind: str = "http.response") -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.headers.items()]
    if response.stream is None:
        headers.append((b"content-length", str(response.size).encode()))
    await send({"type": f"{kind}.start", "status": response.status, "headers": headers})
    if response.stream is None and len(response.pieces) == 1:
        await send({"type": f"{kind}.body", "body": response.pieces[0], "more_body": False})
        return

    async def write(piece: bytes | memoryview) -> None:
        await send({"type": f"{kind}.body", "body": bytes(piece), "more_body": True})

    await response.write_to(write)
    await send({"type": f"{kind}.body", "body": b"", "more_body": False})


# Websockets


async def _converse(service: Service, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
    """Answer a client that asks for a websocket."""

    async def refuse(response: Response) -> None:
        if _DENIAL in (scope.get("extensions") or {}):
            await _send(send, response, _DENIAL)
        else:
            await send({"type": "websocket.close"})

    await receive()  # that the client connects
    asked = Request(WEBSOCKET, _path(scope), _headers(scope), b"", _client(scope))
    await converse(service, asked, _Socket(receive, send), refuse)


class _Socket:
    """A websocket of ASGI."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive: Final = receive
        self._send: Final = send

    async def accept(self) -> None:
        """Open it."""
        await self._send({"type": "websocket.accept"})

    async def receive(self) -> bytes | None:
        """Return the next message; None if the client has left."""
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            return None
        text = message.get("text")
        return bytes(message["bytes"]) if text is None else str(text).encode()

    async def send(self, message: bytes) -> None:
        """Send a message of text, once the client has taken most of those before."""
        await self._send({"type": "websocket.send", "text": message.decode()})

    async def close(self, code: int) -> None:
        """Close it."""
        await self._send({"type": "websocket.close", "code": code})
