"""Dials and listens for websockets. A listener accepts or refuses a connection before the websocket handshake ends."""

import asyncio
import contextlib
import errno
import logging
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, cast

import aiohttp
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from aioflow import errors
from aioflow.net.transport import monitor
from aioflow.net.transport.addresses import split_address
from aioflow.net.transport.busy_poll import BusyPoll, busy_poll_of
from aioflow.net.transport.channel import Accept, Channel, NotListeningError
from aioflow.net.transport.credentials import Token, check_binding
from aioflow.net.transport.descriptors import DescriptorSocket, UnixPair, transport_of
from aioflow.net.transport.liveness import MonitorMessage, Offer, Watch
from aioflow.net.transport.monitor import QuestionAnswerer
from aioflow.net.transport.same_host import DOOR, HOST, UnixListener, enter, this_host
from aioflow.net.transport.segments import SegmentPool, pool
from aioflow.net.transport.shared_channel import SharedMemoryChannel
from aioflow.net.transport.websocket_channel import CLOSING, WebSocketChannel
from aioflow.net.wire.identity import USUAL, Settings
from aioflow.net.wire.limits import Limits

_log: Final = logging.getLogger("aioflow.net")


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether the record reports a fault of ours. Other records could fill the log, and show what peers sent."""
    return record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError)


_log.addFilter(_is_ours)


class WebSocketNetwork:
    """Tasks that reach each other over websockets, at addresses `host:port`.

    Attributes:
        token: the token that a dialling task must show; None for no token.
    """

    def __init__(
        self,
        token: Token | None = None,
        *,
        server_tls: ssl.SSLContext | None = None,
        client_tls: ssl.SSLContext | None = None,
        origins: tuple[str, ...] = (),
        settings: Settings = USUAL,
        shared_memory: bool = False,
        private: bool = False,
        busy_poll: bool = False,
    ) -> None:
        """A network without connections.

        Args:
            token: the token that a dialling task must show; None for no token.
            server_tls: the TLS of listeners; None for none.
            client_tls: the TLS of dialling; None for none.
            origins: the pages of which browsers may connect.
            settings: how it treats its peers.
            shared_memory: whether processes of one user on one host send large values in shared memory.
            private: whether values that come so may be written to, as users of a session may do.
            busy_poll: whether loops poll for messages that follow each other fast.
        """
        self.token: Final = token
        self._server_tls: Final = server_tls
        self._client_tls: Final = client_tls
        self._origins: Final = origins
        self._settings: Final = settings
        self._options: Final = ChannelOptions(pool() if shared_memory and this_host() else None, private, busy_poll)

    async def dial(self, address: str) -> Channel:
        """A channel to the task that listens there."""
        return await dial(address, self.token, self._client_tls, self._settings.limits, self._options)

    async def listen(self, address: str, accept: Accept) -> "WebSocketListener":
        """Serve connections to that address. Port 0 chooses a free port.

        Raises:
            FailedPreconditionError: other machines can reach the address, and there is neither a token nor mutual TLS.
            UnavailableError: the address cannot be bound.
        """
        host, port = split_address(address)
        check_binding(host, self.token, self._server_tls)
        listener = WebSocketListener(accept, self.token, self._origins, self._settings, self._options)
        try:
            await listener.begin(host, port, self._server_tls)
        except OSError as error:
            raise errors.UnavailableError(f"{address} cannot be bound: {error.strerror or error}") from None
        return listener

    def offer(self, channel: Channel, connection: str, heartbeat: float) -> Offer | None:
        """Offer this process's monitor to the peer that dialled the channel."""
        return monitor.offer(cast(WebSocketChannel, channel).transport, connection, heartbeat)

    def watch(self, channel: Channel, connection: str, port: int, key: str, heartbeat: float) -> Watch | None:
        """Watch a dialled task through the monitor that it has offered."""
        return monitor.watch(cast(WebSocketChannel, channel).transport, connection, port, key, heartbeat)

    async def ask(self, address: str, heartbeat: float, on_message: Callable[[MonitorMessage], None]) -> None:
        """Ask the monitor of the task that listens at an address for its state, until cancelled."""
        await monitor.ask(address, self.token, heartbeat, on_message)


class ChannelOptions(NamedTuple):
    """How the channels of a network carry messages.

    Attributes:
        pool: the shared memory of processes of one host; None to send all bytes through websockets.
        private: whether values that come in shared memory may be written to.
        busy_poll: whether the loop polls for messages that follow each other fast.
    """

    pool: SegmentPool | None
    private: bool
    busy_poll: bool = False

    @property
    def poll(self) -> BusyPoll | None:
        """How the running loop polls for messages."""
        return busy_poll_of(asyncio.get_running_loop()) if self.busy_poll else None

    def over_websocket(
        self, transport: asyncio.Transport, limits: Limits, *, dialled: bool, release: Callable[[], Awaitable[None]]
    ) -> WebSocketChannel:
        """A channel over a websocket after its handshake."""
        return WebSocketChannel(transport, limits.frame, dialled=dialled, release=release, poll=self.poll)

    async def over_unix_sockets(
        self, pair: UnixPair, tcp: asyncio.Transport, limits: Limits, *, dialled: bool,
        release: Callable[[], Awaitable[None]],
    ) -> SharedMemoryChannel:  # fmt: skip
        """A channel over Unix sockets, on which both ends of a websocket have agreed. It closes them, and releases."""
        assert self.pool is not None
        try:
            transport, early = await transport_of(pair.data)
        except BaseException:
            pair.close()
            await release()
            raise
        descriptors = DescriptorSocket(pair.descriptors)

        async def end() -> None:
            descriptors.close()
            tcp.abort()
            await release()

        channel = SharedMemoryChannel(
            transport, descriptors, tcp, limits.frame, self.pool, dialled=dialled, private=self.private, release=end,
            poll=self.poll,
        )  # fmt: skip
        channel.add_early(early)
        return channel


TCP_ALONE: Final = ChannelOptions(None, private=False)
"""All values are sent through websockets, and loops sleep until messages come."""


class WebSocketListener:
    """One address at which a task is dialled."""

    def __init__(
        self,
        accept: Accept,
        token: Token | None,
        origins: tuple[str, ...],
        settings: Settings,
        options: ChannelOptions,
    ) -> None:
        self._accept: Final = accept
        self._token: Final = token
        self._origins: Final = origins
        self._settings: Final = settings
        self._web: Final = web.Server(self._serve)
        self._arriving: Final[dict[_HandshakeProtocol, asyncio.TimerHandle]] = {}
        self._slow: Final[dict[asyncio.BaseProtocol, asyncio.TimerHandle]] = {}
        self._serving: Final[set[asyncio.Task[None]]] = set()
        self._options: Final = options
        self._unix: UnixListener | None = None
        self._server: asyncio.Server | None = None
        self._answers: Sequence[QuestionAnswerer] = ()
        self._address = ""

    async def begin(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        """Listen there. OSError if that cannot be."""
        limit = None if tls is None else self._settings.handshake
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._protocol, host, port, ssl=tls, ssl_handshake_timeout=limit, backlog=1024
        )
        if self._options.pool is not None:
            with contextlib.suppress(OSError):
                self._unix = UnixListener(self._settings.handshake)
        names = [socket.getsockname() for socket in self._server.sockets]
        self._answers = monitor.answer(names, self._token, self._settings.silence)
        self._address = f"{f'[{host}]' if ':' in host else host}:{self._server.sockets[0].getsockname()[1]}"

    @property
    def address(self) -> str:
        """Where it listens, as `host:port`."""
        return self._address

    @property
    def connections(self) -> int:
        """How many are open, and how many were opened in the last moment whose TLS is not agreed, or never will be."""
        return len(self._arriving) + len(self._web.connections)

    def _protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol of a new connection, which must send its request within a moment."""
        if self.connections >= self._settings.connections:
            return _RefusingProtocol()
        arriving = _HandshakeProtocol(self._arrived)
        loop = asyncio.get_running_loop()
        self._arriving[arriving] = loop.call_later(self._settings.handshake, self._arriving.pop, arriving)
        return arriving

    def _arrived(self, arriving: "_HandshakeProtocol", transport: asyncio.Transport) -> None:
        """Read the request of a connection after its TLS handshake."""
        timer = self._arriving.pop(arriving, None)
        if timer is None:
            transport.abort()  # too late
            return
        timer.cancel()
        # None, which aiohttp's annotation does not allow, turns off its log of requests
        protocol = _Handler(self._web, loop=asyncio.get_running_loop(), access_log=None, logger=_log)  # type: ignore[arg-type]
        self._slow[protocol] = asyncio.get_running_loop().call_at(timer.when(), self._too_slow, protocol)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)

    def _too_slow(self, protocol: web.RequestHandler) -> None:
        del self._slow[protocol]
        if protocol.transport is not None:
            protocol.transport.abort()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._serving.add(task)
        try:
            return await self._accepted(request)
        except (ConnectionError, ValueError):
            return _response(400, "the peer has left, or its request is not for a websocket")
        finally:
            self._serving.discard(task)

    async def _accepted(self, request: web.BaseRequest) -> web.StreamResponse:
        """Serve the channel that a request opens, until its end."""
        socket = web.WebSocketResponse(compress=False, timeout=CLOSING)
        if self._unix is not None and request.headers.get(HOST) == this_host():
            channel = await self._agree_on_host(self._unix, socket, request)
        else:
            channel = await self._agree(socket, request)
        if channel is not None:
            try:
                await self._accept(channel)
            finally:
                await channel.close()
        return socket

    async def _agree(self, socket: web.WebSocketResponse, request: web.BaseRequest) -> Channel | None:
        """End the handshake of a websocket, and return its channel; None if the peer has left."""
        transport = await self._upgrade(socket, request)
        if transport is None:
            return None
        return self._options.over_websocket(transport, self._settings.limits, dialled=False, release=_nothing)

    async def _agree_on_host(
        self, unix: UnixListener, socket: web.WebSocketResponse, request: web.BaseRequest
    ) -> Channel | None:
        """Likewise, with a process of this host: over a Unix socket."""
        async with unix.expected() as (door, connected):
            socket.headers[DOOR] = door
            transport = await self._upgrade(socket, request)
            if transport is None:
                return None
            try:
                return await self._options.over_unix_sockets(
                    await connected(), transport, self._settings.limits, dialled=False, release=_nothing
                )
            except TimeoutError:
                transport.abort()
                return None

    async def _upgrade(self, socket: web.WebSocketResponse, request: web.BaseRequest) -> asyncio.Transport | None:
        await socket.prepare(request)
        timer = self._slow.pop(request.protocol, None)
        if timer is not None:
            timer.cancel()
        return request.transport

    def _refusal(self, request: web.BaseRequest) -> web.Response | None:
        """Return the response that refuses a request; None if the request is accepted."""
        if request.path != PATH or request.method != "GET":
            return _response(404, "not found")
        origin = request.headers.get("Origin")
        if origin is not None and origin not in self._origins:
            return _response(403, "pages of that origin are not let in")
        if HEADER not in request.headers:
            return _response(400, f"the header {HEADER} is missing")
        if self._token is not None and not self._token.matches(request.headers.get("Authorization", "")):
            return _response(401, "the token is missing, or is another")
        return None

    async def close(self) -> None:
        """Stop listening, and close all accepted channels."""
        if self._server is None:
            return
        for answers in self._answers:
            answers.close()
        self._server.close()
        if self._unix is not None:
            await self._unix.close()
        for timer in (*self._arriving.values(), *self._slow.values()):
            timer.cancel()
        self._arriving.clear()
        self._slow.clear()
        tasks = list(self._serving)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._web.shutdown(CLOSING)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING):
                await self._server.wait_closed()


async def _nothing() -> None:
    """There is nothing to give back."""


class _HandshakeProtocol(asyncio.Protocol):
    """The protocol of a new connection until its TLS handshake ends, if it has one.

    The loop does not report a failed handshake, so an unfinished one counts as a connection for a while.
    """

    def __init__(self, arrived: "Callable[[_HandshakeProtocol, asyncio.Transport], None]") -> None:
        self._arrived: Final = arrived

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hand the connection to the protocol of HTTP."""
        self._arrived(self, cast(asyncio.Transport, transport))


class _Handler(web.RequestHandler):
    """Reads the requests of one connection."""

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Do not repeat an unreadable request in the response: it may contain a token."""
        return super().handle_error(request, status, exc, "malformed request")


class _RefusingProtocol(asyncio.Protocol):
    """Refuses a connection when too many are open."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say so, and hang up."""
        wire = cast(asyncio.Transport, transport)
        wire.write(b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        wire.close()


def _response(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text, headers={"Connection": "close"})


PATH: Final = "/aioflow"
HEADER: Final = "X-Aioflow"
"""A header that every upgrade request must have: a page in a browser cannot set it."""


class _Socket(aiohttp.ClientWebSocketResponse):
    """A websocket that knows its transport, and the response that holds its connection."""

    def __init__(self, reader: Any, writer: Any, protocol: Any, response: Any, *rest: Any, **options: Any) -> None:
        super().__init__(reader, writer, protocol, response, *rest, **options)
        self.transport: Final[asyncio.Transport] = writer.transport
        self.response: Final[aiohttp.ClientResponse] = response


async def dial(
    address: str,
    token: Token | None,
    tls: ssl.SSLContext | None,
    limits: Limits,
    options: ChannelOptions = TCP_ALONE,
) -> Channel:
    """Return a channel to the task that listens at `host:port`.

    Raises:
        InvalidArgumentError: the text is not an address.
        UnauthenticatedError: it does not accept the token, or one end does not accept the other's certificate.
        UnavailableError: it cannot be reached; NotListeningError if its host reports that no process listens there.
    """
    split_address(address)
    host = this_host() if options.pool is not None else ""
    channel = await _dial(address, token, tls, limits, options, host)
    return channel or cast(Channel, await _dial(address, token, tls, limits, options, ""))


async def _dial(
    address: str,
    token: Token | None,
    tls: ssl.SSLContext | None,
    limits: Limits,
    options: ChannelOptions,
    host: str,
) -> Channel | None:
    """A channel. None if a Unix socket was agreed on, because both have the same `host`, and cannot be reached."""
    async with contextlib.AsyncExitStack() as stack:
        session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None), ws_response_class=_Socket)
        stack.push_async_callback(session.close)
        found = await _upgraded(session, address, token, tls, limits, host)
        if isinstance(found, errors.OpError):
            raise found
        stack.callback(found.response.close)
        door = found.response.headers.get(DOOR) if host else None
        if door is None:
            release = stack.pop_all().aclose
            return options.over_websocket(found.transport, limits, dialled=True, release=release)
        pair = enter(door)
        if pair is None:
            return None
        release = stack.pop_all().aclose
        return await options.over_unix_sockets(pair, found.transport, limits, dialled=True, release=release)


async def _upgraded(
    session: aiohttp.ClientSession, address: str, token: Token | None, tls: ssl.SSLContext | None, limits: Limits,
    host: str,
) -> "_Socket | errors.OpError":  # fmt: skip
    """Return the websocket, or raise an error without aiohttp's as its cause, which would show the token."""
    headers = {HEADER: "1"} | ({} if token is None else {"Authorization": token.header()})
    headers |= {HOST: host} if host else {}
    try:
        socket = await session.ws_connect(
            f"{'ws' if tls is None else 'wss'}://{address}{PATH}",
            headers=headers,
            ssl=tls or False,
            compress=0,
            max_msg_size=limits.frame,
            timeout=aiohttp.ClientWSTimeout(ws_close=CLOSING),
        )
    except aiohttp.WSServerHandshakeError as error:
        return _refused(address, error.status, token)
    except (aiohttp.ClientSSLError, ssl.SSLError) as error:
        return errors.UnauthenticatedError(f"the TLS of {address} does not come about: {_brief(error)}")
    except (aiohttp.ClientError, OSError) as error:
        is_refused = getattr(getattr(error, "os_error", error), "errno", None) == errno.ECONNREFUSED
        kind = NotListeningError if is_refused else errors.UnavailableError
        return kind(f"{address} cannot be reached: {_brief(error)}")
    assert isinstance(socket, _Socket)
    return socket


def _refused(address: str, status: int, token: Token | None) -> errors.OpError:
    if status == 401 and token is None:
        text = f"{address} asks for a token, and none is set: AIOFLOW_TOKEN or Config(token_file=)"
        return errors.UnauthenticatedError(text)
    if status == 401:
        return errors.UnauthenticatedError(f"{address} does not accept the token")
    if status == 403:
        return errors.PermissionDeniedError(f"{address} does not let this client in")
    if status == 503:
        return errors.UnavailableError(f"{address} has too many connections")
    return errors.UnavailableError(f"{address} answers with HTTP status {status}: it is not a task of a cluster")


def _brief(error: BaseException) -> str:
    text = getattr(error, "os_error", error)
    if isinstance(text, ConnectionRefusedError):
        return "connection refused"
    return str(text) or type(error).__name__
