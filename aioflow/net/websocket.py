"""Channels over websockets: the one that dials, and what both ends have in common.

aiohttp writes an uncompressed frame before it waits for anything. So a frame is sent by starting its coroutine, and
what that would wait for is waited for in `room`, where cancelling has nothing to undo.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import aiohttp
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import StreamWriter
from aiohttp.web import WebSocketResponse

from aioflow import errors
from aioflow.net.addresses import split_address
from aioflow.net.channel import DONE, LONGEST_REASON, LOST, NORMAL, SILENT, VIOLATION, Channel, ClosedError, Reason
from aioflow.net.credentials import Token
from aioflow.net.framing import Frame
from aioflow.net.limits import Limits

PATH: Final = "/aioflow"
HEADER: Final = "X-Aioflow"
"""A header that every upgrade request has to have: a page in a browser cannot set it."""
CLOSING: Final = 0.5
"""Seconds that the other end has to take what was sent and to close, too."""


class WebSocketChannel:
    """A websocket as a channel."""

    def __init__(
        self,
        socket: "aiohttp.ClientWebSocketResponse | WebSocketResponse",
        protocol: BaseProtocol,
        release: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """A websocket that writes to that protocol; `release` gives back what else it needs."""
        self._socket: Final = socket
        self._protocol: Final = protocol
        self._release: Final = release
        self._transport: Final = protocol.transport
        self._writer: Final = StreamWriter(protocol, asyncio.get_running_loop())
        self._closed: Reason | None = None

    @property
    def congested(self) -> bool:
        """Whether the transport has enough to do."""
        return self._protocol.writing_paused and self._protocol.connected

    async def room(self) -> None:
        """Return as soon as it has less."""
        while self.congested and self._closed is None:
            drained = _begin(self._writer.drain())
            if drained is not None:
                await asyncio.wait((drained,))
        if self._closed is not None or not self._protocol.connected:
            raise ClosedError(self._closed or Reason(LOST))

    def send(self, *frames: Frame) -> None:
        """The frames are in the transport's buffer, or in the kernel's."""
        if self._closed is not None:
            raise ClosedError(self._closed)
        try:
            for frame in frames:
                _begin(self._socket.send_bytes(frame))  # type: ignore[arg-type]
        except (OSError, RuntimeError, aiohttp.ClientError):
            raise ClosedError(self._closed or Reason(LOST)) from None

    async def receive(self) -> bytes:
        """The next frame."""
        if self._closed is not None:
            raise ClosedError(self._closed)
        message = await self._socket.receive()
        if message.type is aiohttp.WSMsgType.BINARY:
            frame: bytes = message.data
            return frame
        raise ClosedError(self._closed or self._reason_of(message))

    def _reason_of(self, message: Any) -> Reason:
        """Why there is a message of another kind."""
        if message.type is aiohttp.WSMsgType.CLOSE:
            code = message.data or NORMAL
            return Reason(code if code in (NORMAL, *range(VIOLATION, 5000)) else LOST, message.extra or "")
        if message.type is aiohttp.WSMsgType.ERROR:
            return Reason(VIOLATION, str(message.data))
        if message.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.PING, aiohttp.WSMsgType.PONG):
            return Reason(VIOLATION, "a text came, and all messages are binary")
        return Reason(LOST)

    async def close(self, reason: Reason = DONE) -> None:
        """Say why, if anybody can still hear it, and be gone."""
        if self._closed is None:
            self._closed = reason
            try:
                if reason.code not in (LOST, SILENT) and self._protocol.connected:
                    await self._say(reason)
            finally:
                await self._drop()

    async def _say(self, reason: Reason) -> None:
        text = reason.text.encode(errors="backslashreplace")[:LONGEST_REASON].decode(errors="ignore").encode()
        with contextlib.suppress(TimeoutError, OSError, RuntimeError, aiohttp.ClientError):
            async with asyncio.timeout(CLOSING):
                await self._socket.close(code=reason.code, message=text)

    async def _drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        if self._release is not None:
            await self._release()


def _begin(work: Coroutine[Any, Any, Any]) -> "asyncio.Future[Any] | None":
    """Run it up to where it would wait, and no further. Returns what it would wait for."""
    try:
        future: asyncio.Future[Any] = work.send(None)
    except StopIteration:
        return None
    future._asyncio_future_blocking = False  # as a Task does with what it is given to wait for
    work.close()
    future.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody else may look at it
    return future


# Dialling


class _Socket(aiohttp.ClientWebSocketResponse):
    """A websocket that knows what it writes to, and the response that holds its connection."""

    def __init__(self, reader: Any, writer: Any, protocol: Any, response: Any, *rest: Any, **options: Any) -> None:
        super().__init__(reader, writer, protocol, response, *rest, **options)
        self.wire: Final[BaseProtocol] = writer.protocol
        self.response: Final[aiohttp.ClientResponse] = response


async def dial(address: str, token: Token | None, tls: ssl.SSLContext | None, limits: Limits) -> Channel:
    """A channel to the task that listens at `host:port`.

    Raises:
        InvalidArgumentError: that is no address.
        UnauthenticatedError: it does not accept the token, or one end does not accept the other's certificate.
        UnavailableError: it cannot be reached.
    """
    split_address(address)
    session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None), ws_response_class=_Socket)
    try:
        found = await _upgraded(session, address, token, tls, limits)
    except BaseException:
        await session.close()
        raise
    if isinstance(found, errors.OpError):
        await session.close()
        raise found
    socket = found

    async def release() -> None:
        socket.response.close()
        await session.close()

    return WebSocketChannel(socket, socket.wire, release)


async def _upgraded(
    session: aiohttp.ClientSession, address: str, token: Token | None, tls: ssl.SSLContext | None, limits: Limits
) -> "_Socket | errors.OpError":
    """The websocket, or what went wrong, without aiohttp's error: that one knows the token."""
    headers = {HEADER: "1"} | ({} if token is None else {"Authorization": token.header()})
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
        return errors.UnavailableError(f"{address} cannot be reached: {_brief(error)}")
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
    return errors.UnavailableError(f"{address} answers with HTTP status {status}: it is no task of a cluster")


def _brief(error: BaseException) -> str:
    text = getattr(error, "os_error", error)
    return str(text) or type(error).__name__


__all__ = ["CLOSING", "HEADER", "PATH", "WebSocketChannel", "dial"]
