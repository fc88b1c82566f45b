"""A server of its own on a port: it refuses slow connections, and ends without a failed request."""

import asyncio
import contextlib
import errno
import os
import socket
import ssl
from typing import Final

from aiohttp import web
from aiohttp.http import HttpVersion11

from aioflow import errors
from aioflow.net.transport.addresses import join_address
from aioflow.serving.on_aiohttp import answer
from aioflow.serving.service import Service

_FIRST_REQUEST: Final = 20.0
"""Seconds in which a connection must have sent the headers of its first request. aiohttp bounds those of the next."""
_LOOK_EVERY: Final = 1.0


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
        self._first_requests: Final = _FirstRequests()
        # No web.Application: its router and middlewares take longer than the service for a path that it knows.
        self._runner: Final = web.ServerRunner(web.Server(self._handle, access_log=None, handler_cancellation=True))
        self._socket: Final = listening
        self._tls: Final = tls
        self._site: web.SockSite | None = None

    async def serve(self, stopped: asyncio.Event, delay: float = 0.0, limit: float = 60.0) -> None:
        """Serve, once it listens, until the event is set. Then end: readiness turns first, and running requests finish.

        Args:
            stopped: ends the server.
            delay: the seconds between the turn of readiness and the end of listening, in which balancers notice.
            limit: the most seconds for requests that run; then they are cancelled.
        """
        watching = asyncio.ensure_future(self._first_requests.watch(self._runner))
        try:
            await stopped.wait()
            await self._end(delay, limit)
        finally:
            watching.cancel()
            await self.close()

    async def start(self) -> None:
        """Listen."""
        await self._runner.setup()
        self._site = web.SockSite(self._runner, self._socket, ssl_context=self._tls, backlog=1024)
        await self._site.start()

    async def close(self) -> None:
        """Listen no longer, and cancel the requests that run. Closing twice is allowed."""
        await self._runner.cleanup()
        self._socket.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        self._first_requests.note(request)
        if "expect" in request.headers:
            await _expect(request)
        return await answer(self.service, request, request.path)

    async def _end(self, delay: float, limit: float) -> None:
        self.service.ready = False
        await asyncio.sleep(delay)
        if self._site is not None:
            await self._site.stop()
        with contextlib.suppress(TimeoutError):  # the end of the runner cancels requests that still run
            async with asyncio.timeout(limit):
                await self.service.drain()


async def _expect(request: web.BaseRequest) -> None:
    """Tell a client that waits before it sends the body to go on. HTTPExpectationFailed if it expects anything else."""
    if request.headers["expect"].lower() != "100-continue":
        raise web.HTTPExpectationFailed
    if request.version >= HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the response has not begun


class _FirstRequests:
    """Closes connections that do not send a first request, as a slow attacker's."""

    def __init__(self) -> None:
        self._since: dict[web.RequestHandler, float] = {}
        self._known: set[web.RequestHandler] = set()

    def note(self, request: web.BaseRequest) -> None:
        """Note that a request has arrived."""
        self._known.add(request.protocol)

    async def watch(self, runner: web.ServerRunner) -> None:
        """Look at all connections every second."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            connections = [] if runner.server is None else runner.server.connections
            now = loop.time()
            self._since = {connection: self._since.get(connection, now) for connection in connections}
            self._known &= self._since.keys()
            for connection, since in self._since.items():
                if connection not in self._known and now - since >= _FIRST_REQUEST:
                    connection.force_close()


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
