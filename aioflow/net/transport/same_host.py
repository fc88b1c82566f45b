"""How two processes find that they run on one host for one user, and then connect by a Unix socket.

The dialling process names its host in the request for a websocket. A listener of the same host answers with the address
of its Unix socket and a key for one connection. Both the request and the answer are under the protection of the
websocket: its token and its TLS. The system tells the listener which user has connected.
"""

import asyncio
import contextlib
import functools
import hashlib
import os
import secrets
import socket
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

from aioflow.net.transport.descriptors import UnixPair, accepted_socket, offer_pair, received

HOST: Final = "X-Aioflow-Host"
"""The header of a request that names the dialling process's host."""
DOOR: Final = "X-Aioflow-Socket"
"""The header of the answer: the name of the Unix socket, and the key for one connection."""
_KEY: Final = 32
_CREDENTIALS: Final = struct.Struct("3i")
_BACKLOG: Final = 64


@functools.cache
def this_host() -> str:
    """A digest of all that two processes must have in common: the running system, its namespaces, and the user.

    Empty where there are no such sockets.
    """
    if sys.platform != "linux":
        return ""
    try:
        parts = [Path("/proc/sys/kernel/random/boot_id").read_text()]
        parts += [os.readlink(f"/proc/self/ns/{name}") for name in ("net", "user")]
    except OSError:
        return ""
    return hashlib.sha256(f"{parts} {os.geteuid()}".encode()).hexdigest()


class UnixListener:
    """Accepts connections of this user's processes that have a key."""

    def __init__(self, seconds: float) -> None:
        """Listen at a new abstract address. OSError if that cannot be.

        Args:
            seconds: the time in which a connection must come after its key was made, and show it.
        """
        self._seconds: Final = seconds
        self._loop: Final = asyncio.get_running_loop()
        self._name: Final = f"aioflow-{secrets.token_hex(8)}"
        self._expected: Final[dict[bytes, asyncio.Future[UnixPair]]] = {}
        self._arriving: Final[set[asyncio.Task[None]]] = set()
        self._socket: Final = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.bind(f"\0{self._name}")
            self._socket.listen(_BACKLOG)
        except BaseException:
            self._socket.close()
            raise
        self._loop.add_reader(self._socket, self._accept)

    @contextlib.asynccontextmanager
    async def expected(self) -> AsyncIterator["tuple[str, Callable[[], Awaitable[UnixPair]]]"]:
        """Make a key. Gives the value of the header DOOR, and a function that waits for a connection with the key.

        The function raises TimeoutError if the connection does not come in time.
        """
        key = secrets.token_hex(_KEY // 2)
        found: asyncio.Future[UnixPair] = self._loop.create_future()
        self._expected[key.encode()] = found

        async def connected() -> UnixPair:
            async with asyncio.timeout(self._seconds):
                return await found

        try:
            yield f"{self._name} {key}", connected
        except BaseException:
            if found.done() and not found.cancelled():
                found.result().close()
            raise
        finally:
            del self._expected[key.encode()]
            found.cancel()

    def _accept(self) -> None:
        try:
            arrived, _ = self._socket.accept()
        except OSError:
            return
        arrived.setblocking(False)
        if len(self._arriving) >= _BACKLOG or not _is_ours(arrived):
            arrived.close()
            return
        task = self._loop.create_task(self._admit(arrived), name="a process of this host connects")
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)

    async def _admit(self, arrived: socket.socket) -> None:
        """Give a connection to the one who expects it."""
        try:
            async with asyncio.timeout(self._seconds):
                await _readable(self._loop, arrived)
            admitted = self._is_expected(arrived)
        except (TimeoutError, OSError):
            admitted = False
        except BaseException:
            arrived.close()
            raise
        if not admitted:
            arrived.close()

    def _is_expected(self, arrived: socket.socket) -> bool:
        """Whether its key, which has come with a socket for descriptors, is one that somebody expects."""
        key, descriptor = received(arrived, _KEY)
        descriptors = None if descriptor is None else accepted_socket(descriptor)
        found = self._expected.get(key)
        if descriptors is None:
            return False
        if found is None or found.done():
            descriptors.close()
            return False
        found.set_result(UnixPair(arrived, descriptors))
        return True

    async def close(self) -> None:
        """Accept no more."""
        self._loop.remove_reader(self._socket)
        self._socket.close()
        for task in self._arriving:
            task.cancel()
        await asyncio.gather(*self._arriving, return_exceptions=True)


def _is_ours(sock: socket.socket) -> bool:
    """Whether the process at the other end runs for this user."""
    data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(data)[1] == os.geteuid())


async def _readable(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
    """Return when bytes have come, or the end."""
    come = asyncio.Event()
    loop.add_reader(sock, come.set)
    try:
        await come.wait()
    finally:
        loop.remove_reader(sock)


def enter(door: str) -> UnixPair | None:
    """Connect to the Unix socket that an answer names; None if that cannot be."""
    name, _, key = door.partition(" ")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        sock.connect(f"\0{name}")
        if not _is_ours(sock) or len(key) != _KEY:
            raise ConnectionRefusedError(door)
        return offer_pair(sock, key.encode())
    except (OSError, ValueError):
        sock.close()
        return None
