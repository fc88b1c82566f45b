"""An asyncio transport over a Unix socket that passes file descriptors among its bytes."""

import array
import asyncio
import os
import socket
from collections import deque
from typing import Final, Protocol, cast

_HIGH: Final = 1 << 16
"""So many unsent bytes pause the protocol."""
_LOW: Final = 1 << 14
_MOST: Final = 16
"""So many received descriptors may wait for the frames that they belong to."""
_ANCILLARY: Final = socket.CMSG_SPACE(_MOST * array.array("i").itemsize)


class HasFile(Protocol):
    """An open file."""

    def fileno(self) -> int:
        """Its descriptor."""


class UnixTransport(asyncio.Transport):
    """Bytes and descriptors to and from a process of this host."""

    def __init__(self, sock: socket.socket) -> None:
        """Take over a connected socket, which does not block. It begins to read once it is resumed."""
        super().__init__({"socket": sock})
        self._loop: Final = asyncio.get_running_loop()
        self._socket: Final = sock
        self._protocol = asyncio.BufferedProtocol()
        self._unsent: Final[deque[tuple[memoryview, HasFile | None]]] = deque()
        self._waiting = 0
        """The bytes of `_unsent`."""
        self._full = False
        self._reading = False
        self._closing = False
        self._descriptors: Final[deque[int]] = deque()

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Who is told."""
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Tell another one."""
        self._protocol = cast(asyncio.BufferedProtocol, protocol)

    # Sending

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes, the ones that the socket does not take at once later on."""
        self.write_with(data, None)

    def write_with(self, data: bytes | bytearray | memoryview, file: HasFile | None) -> None:
        """Send bytes, and a descriptor with the first of them. The file stays open until it is sent."""
        if self._closing:
            return
        view = memoryview(data)
        if not self._unsent:
            sent = self._send(view, file)
            if sent == len(view):
                return
            view, file = view[sent:], None if sent else file
            self._loop.add_writer(self._socket, self._writable)
        self._unsent.append((view, file))
        self._waiting += len(view)
        if self._waiting > _HIGH and not self._full:
            self._full = True
            self._protocol.pause_writing()

    def _send(self, data: memoryview, file: HasFile | None) -> int:
        """How many bytes the socket took. After an error none will be taken: the loss is reported later."""
        try:
            if file is None:
                return self._socket.send(data)
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file.fileno()]))
            return self._socket.sendmsg([data], [rights])
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self._lose(error)
            return len(data)

    def _writable(self) -> None:
        while self._unsent:
            view, file = self._unsent[0]
            sent = self._send(view, file)
            if self._closing:
                return
            self._waiting -= sent
            if sent < len(view):
                self._unsent[0] = view[sent:], None if sent else file
                break
            self._unsent.popleft()
        if not self._unsent:
            self._loop.remove_writer(self._socket)
        if self._full and self._waiting <= _LOW:
            self._full = False
            self._protocol.resume_writing()

    # Receiving

    def is_reading(self) -> bool:
        """Whether received bytes go to the protocol."""
        return self._reading

    def pause_reading(self) -> None:
        """Let them wait in the socket."""
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._socket)

    def resume_reading(self) -> None:
        """Hand them to the protocol."""
        if not self._reading and not self._closing:
            self._reading = True
            self._loop.add_reader(self._socket, self._readable)

    def _readable(self) -> None:
        try:
            nbytes, ancillary, flags, _ = self._socket.recvmsg_into([self._protocol.get_buffer(-1)], _ANCILLARY)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(error)
            return
        if ancillary:
            self._keep(ancillary)
        if flags & socket.MSG_CTRUNC or len(self._descriptors) > _MOST:
            self._lose(ConnectionAbortedError("too many descriptors came"))
        elif nbytes:
            self._protocol.buffer_updated(nbytes)
        else:
            self._lose(None)

    def _keep(self, ancillary: list[tuple[int, int, bytes]]) -> None:
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                found = array.array("i")
                found.frombytes(data[: len(data) - len(data) % found.itemsize])
                self._descriptors.extend(found)

    def take_descriptor(self) -> int | None:
        """The next descriptor that came, which the caller closes; None if there is none."""
        return self._descriptors.popleft() if self._descriptors else None

    # The end

    def is_closing(self) -> bool:
        """Whether nothing more is sent."""
        return self._closing

    def close(self) -> None:
        """End it. Unsent bytes are lost."""
        self.abort()

    def abort(self) -> None:
        """End it at once."""
        self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if self._closing:
            return
        self.pause_reading()
        self._closing = True
        self._loop.remove_writer(self._socket)
        self._unsent.clear()
        self._loop.call_soon(self._lost, error)

    def _lost(self, error: Exception | None) -> None:
        self._socket.close()
        while self._descriptors:
            os.close(self._descriptors.popleft())
        self._protocol.connection_lost(error)
