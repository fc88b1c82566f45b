"""A pair of Unix sockets between two processes of one host: one for bytes, one for file descriptors.

A transport of the event loop moves the bytes at full speed, but no descriptors. A descriptor that is sent before bytes
that mention it is there when these bytes arrive.
"""

import asyncio
import os
import socket
from typing import Final, NamedTuple, Protocol

_CLOSED_ON_EXEC: Final = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class HasFile(Protocol):
    """An open file."""

    def fileno(self) -> int:
        """Its descriptor."""


class DescriptorSocket:
    """Passes file descriptors to and from a process of this host."""

    def __init__(self, sock: socket.socket) -> None:
        """Take over a connected socket, which does not block."""
        self._socket: Final = sock

    def send(self, file: HasFile) -> None:
        """Send the descriptor of a file. OSError if the other process is gone, or does not take what it was sent."""
        socket.send_fds(self._socket, [b"\0"], [file.fileno()])

    def take(self) -> int | None:
        """The next descriptor that came, which the caller closes; None if there is none, or more than one together."""
        return received(self._socket, 1)[1]

    def close(self) -> None:
        """Close it. Descriptors that were not taken are closed, too."""
        self._socket.close()


def received(sock: socket.socket, nbytes: int) -> tuple[bytes, int | None]:
    """The bytes that have come, and the one descriptor with them, which the caller closes. None for any other number.

    No bytes if nothing has come. OSError if the connection is lost.
    """
    try:
        data, found, _, _ = socket.recv_fds(sock, nbytes, 2, _CLOSED_ON_EXEC)
    except (BlockingIOError, InterruptedError):
        return b"", None
    if len(found) == 1:
        return data, found[0]
    for descriptor in found:
        os.close(descriptor)
    return data, None


class UnixPair(NamedTuple):
    """The two connected sockets.

    Attributes:
        data: for the bytes.
        descriptors: for the descriptors.
    """

    data: socket.socket
    descriptors: socket.socket

    def close(self) -> None:
        """Close both."""
        self.data.close()
        self.descriptors.close()


def offer_pair(data: socket.socket, key: bytes) -> UnixPair:
    """Send a key, and one of two new sockets for descriptors, over a connected socket. OSError if that fails."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    with theirs:
        try:
            if socket.send_fds(data, [key], [theirs.fileno()]) != len(key):
                raise ConnectionRefusedError("the key was cut off")
        except BaseException:
            ours.close()
            raise
    return UnixPair(data, ours)


def accepted_socket(descriptor: int) -> socket.socket | None:
    """The socket for descriptors that came; None, and it is closed, if it is none."""
    try:
        sock = socket.socket(fileno=descriptor)
    except OSError:
        os.close(descriptor)
        return None
    if (sock.family, sock.type) != (socket.AF_UNIX, socket.SOCK_STREAM):
        sock.close()
        return None
    sock.setblocking(False)
    return sock


async def transport_of(data: socket.socket) -> tuple[asyncio.Transport, bytes]:
    """A transport for the bytes, which does not read until it is resumed, and the bytes that it has read before."""
    transport, early = await asyncio.get_running_loop().create_unix_connection(_Early, sock=data)
    transport.pause_reading()
    return transport, bytes(early.data)


class _Early(asyncio.Protocol):
    """Keeps the bytes that come before a channel takes the transport over: uvloop begins to read at once."""

    def __init__(self) -> None:
        self.data: Final = bytearray()

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        self.data.extend(data)
