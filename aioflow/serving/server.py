"""A server of its own on a port: it refuses slow connections, and ends without a failed request."""

import asyncio
import contextlib
import errno
import os
import socket
import ssl
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from aiohttp.http import HttpVersion11
from aiohttp.web_protocol import RequestHandler

from aioflow import errors
from aioflow.net.transport.addresses import join_address
from aioflow.serving.connection import Connection
from aioflow.serving.failures import RequestRefusedError
from aioflow.serving.on_aiohttp import answer
from aioflow.serving.request import JSON, to_json
from aioflow.serving.service import Service

_FIRST_REQUEST: Final = 20.0
"""Seconds in which a connection must have sent the head of a request, since it opened or began with it."""
_IDLE: Final = 3600.0
"""Seconds after which a connection without requests is closed."""
_IDLE_OF_OTHERS: Final = 75.0
"""The same for a connection that aiohttp has. The head of its next request must have arrived by then, too, since
aiohttp does not tell whether one has begun."""
_LOOK_EVERY: Final = 1.0
_NEW: Final = 0.2
"""Seconds within which the first request of a connection is on its way, when the server ends."""
_AT_ONCE: Final = 0.01
"""Seconds that aiohttp leaves a request before it cancels it; for aiohttp 0 is for ever."""


class HttpServer:
    """A service on a port.

    Attributes:
        service: the service.
        url: where it listens, such as `http://127.0.0.1:8500`.

    Args:
        service: the service.
        listening: a bound socket. It is closed with the server.
        tls: the TLS of the port; None for none.
    """

    def __init__(self, service: Service, listening: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        self.service: Final = service
        host, port = listening.getsockname()[:2]
        self.url: Final = f"{'http' if tls is None else 'https'}://{join_address(host, port)}"
        # No web.Application: its router and middlewares take longer than the service for a path that it knows.
        self._others: Final = web.Server(self._handle, handler_cancellation=True)
        self._unasked: Final[dict[RequestHandler, float]] = {}
        """Since when aiohttp has connections without a whole head."""
        self._answering: Final[set[RequestHandler]] = set()
        """Those of aiohttp whose requests are being answered."""
        self._connections: Final[set[Connection]] = set()
        self._socket: Final = listening
        self._tls: Final = tls
        self._server: asyncio.Server | None = None

    async def serve(self, stopped: asyncio.Event, delay: float = 0.0, limit: float = 60.0) -> None:
        """Serve, once it listens, until the event is set. Then end: readiness turns first, and running requests finish.

        Args:
            stopped: ends the server.
            delay: the seconds between the turn of readiness and the end of listening, in which balancers notice.
            limit: the most seconds for requests that run; then they are cancelled.
        """
        watching = asyncio.ensure_future(self._watch())
        try:
            await stopped.wait()
            await self._end(delay, limit)
        finally:
            watching.cancel()
            await self.close()

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.get_running_loop().create_server(
            self._connect, sock=self._socket, ssl=self._tls, backlog=1024
        )

    async def close(self) -> None:
        """Listen no longer, and cancel the requests that run. Closing twice is allowed."""
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*[connection.close() for connection in self._connections])
        await self._others.shutdown(_AT_ONCE)
        self._socket.close()

    def _connect(self) -> Connection:
        """Return the protocol of a new connection."""
        return Connection(self.service, self._other, self._connections)

    def _other(self) -> RequestHandler:
        """Return the protocol that takes over a connection."""
        loop = asyncio.get_running_loop()
        settings: dict[str, Any] = {
            "access_log": None, "keepalive_timeout": _IDLE_OF_OTHERS, "auto_decompress": False,
        }  # fmt: skip
        protocol = _Handler(self._others, loop=loop, **settings)
        self._unasked[protocol] = loop.time()
        return protocol

    async def _watch(self) -> None:
        """Close connections that do not send a request, as a slow attacker's."""
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            for connection in [*self._connections]:
                connection.look(_FIRST_REQUEST, _IDLE)
            since = asyncio.get_running_loop().time() - _FIRST_REQUEST
            for protocol in [each for each, opened in self._unasked.items() if opened <= since]:
                del self._unasked[protocol]
                protocol.force_close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request that is not plain."""
        protocol = request.protocol
        self._unasked.pop(protocol, None)
        self._answering.add(protocol)
        response: web.StreamResponse
        try:
            if "expect" in request.headers:
                await _expect(request)
            response = await answer(self.service, request, request.path, unpacked=False)
        except RequestRefusedError as error:
            response = _refusal(error.status, error.text)
        finally:
            self._answering.discard(protocol)
        if not self.service.ready:
            response.force_close()
        return response

    async def _end(self, delay: float, limit: float) -> None:
        self.service.ready = False
        await asyncio.sleep(delay)
        await self._stop_listening()
        with contextlib.suppress(TimeoutError):  # the end of the server cancels requests that still run
            async with asyncio.timeout(limit):
                await self._leave_idle()
                await self.service.drain()
                await asyncio.gather(*[connection.flush() for connection in self._connections])

    async def _stop_listening(self) -> None:
        """Listen no longer. The connections that the system has accepted for the server are taken before."""
        if self._server is None:
            return
        loop = asyncio.get_running_loop()
        with self._socket.dup() as listening:  # which goes on until the end of the block
            with contextlib.suppress(NotImplementedError):
                loop.remove_reader(self._socket)
            await asyncio.sleep(0)  # asyncio loses a connection that it takes while its server is closed
            listening.setblocking(False)
            self._server.close()
            waiting = [*_accepted(listening)]
        taken = [loop.connect_accepted_socket(self._connect, each, ssl=self._tls) for each in waiting]
        await asyncio.gather(*taken, return_exceptions=True)  # one may be gone

    async def _leave_idle(self) -> None:
        """Close the connections without a request. The others close after their responses."""
        for connection in [*self._connections]:
            connection.leave(_NEW)
        for protocol in self._others.connections:
            if protocol not in self._answering:
                protocol.close()
        if any(connection.is_new for connection in self._connections):
            await asyncio.sleep(_NEW)
            for connection in [*self._connections]:
                connection.leave()


class _Handler(RequestHandler):
    """A connection that aiohttp has. It refuses what is no request in the words of the protocols, and logs no error."""

    __slots__ = ()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Return the response for an error that aiohttp has found, behind which the connection is closed."""
        if status >= 500:
            return super().handle_error(request, status, exc, message)
        response = _refusal(status, message or HTTPStatus(status).phrase)
        response.force_close()
        return response


def _accepted(listening: socket.socket) -> Iterator[socket.socket]:
    """The connections that wait to be taken."""
    with contextlib.suppress(OSError):  # there is no further one
        while True:
            connection, _ = listening.accept()
            connection.setblocking(False)
            yield connection


def _refusal(status: int, text: str) -> web.Response:
    return web.Response(status=status, body=to_json({"error": text}), content_type=JSON)


async def _expect(request: web.BaseRequest) -> None:
    """Tell a client that waits before it sends the body to go on. RequestRefusedError if it expects anything else."""
    if request.headers["expect"].lower() != "100-continue":
        raise RequestRefusedError(417, "a client may expect 100-continue, and nothing else")
    if request.version >= HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the response has not begun


def bind(host: str, port: int, shared: bool = False) -> socket.socket:
    """Return a socket bound to an address; port 0 chooses a free one.

    Args:
        host: the address, or a name of it.
        port: the port.
        shared: whether other processes of this user may bind the same, and share the connections.

    Raises:
        UnimplementedError: this system cannot share a port.
        UnavailableError: the address cannot be bound.
    """
    if shared and not hasattr(socket, "SO_REUSEPORT"):
        raise errors.UnimplementedError("processes cannot share a port on this system: use --workers 1")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, where = min(found, key=lambda each: each[0] != socket.AF_INET)  # IPv6 only if there is no IPv4
        bound = socket.socket(family)
        try:
            if os.name == "posix":
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shared:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            bound.bind(where)
        except BaseException:
            bound.close()
            raise
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno == errno.EADDRINUSE else error.strerror or error
        raise errors.UnavailableError(f"{host}:{port} cannot be bound: {reason}") from None
    return bound
