"""Channels over websockets: how a task is dialled."""

import asyncio
import errno
import ssl
from typing import Any, Final

import aiohttp

from aioflow import errors
from aioflow.net.transport.addresses import split_address
from aioflow.net.transport.channel import Channel, NotListeningError
from aioflow.net.transport.credentials import Token
from aioflow.net.transport.websocket_channel import CLOSING, WebSocketChannel
from aioflow.net.wire.limits import Limits

PATH: Final = "/aioflow"
HEADER: Final = "X-Aioflow"
"""A header that every upgrade request must have: a page in a browser cannot set it."""


class _Socket(aiohttp.ClientWebSocketResponse):
    """A websocket that knows its transport, and the response that holds its connection."""

    def __init__(self, reader: Any, writer: Any, protocol: Any, response: Any, *rest: Any, **options: Any) -> None:
        super().__init__(reader, writer, protocol, response, *rest, **options)
        self.transport: Final[asyncio.Transport] = writer.transport
        self.response: Final[aiohttp.ClientResponse] = response


async def dial(address: str, token: Token | None, tls: ssl.SSLContext | None, limits: Limits) -> Channel:
    """Return a channel to the task that listens at `host:port`.

    Raises:
        InvalidArgumentError: the text is not an address.
        UnauthenticatedError: it does not accept the token, or one end does not accept the other's certificate.
        UnavailableError: it cannot be reached; NotListeningError if its host reports that no process listens there.
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

    return WebSocketChannel(socket.transport, limits.frame, dialled=True, release=release)


async def _upgraded(
    session: aiohttp.ClientSession, address: str, token: Token | None, tls: ssl.SSLContext | None, limits: Limits
) -> "_Socket | errors.OpError":
    """Return the websocket, or raise an error without aiohttp's as its cause, which would show the token."""
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
