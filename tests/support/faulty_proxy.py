"""A TCP proxy whose connections can be slowed, cut in several ways, and spoiled."""

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import AsyncIterator, Iterable

PIECE = 16 << 10
RESET = struct.pack("ii", 1, 0)
"""For SO_LINGER: to close is to reset."""


class _Flow:
    """One connection: what came in on one side goes out on the other."""

    def __init__(self, proxy: "Proxy", near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self.ends = near, far
        self._proxy = proxy

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(PIECE):
                await self._proxy.passes(len(piece))
                writer.write(self._proxy.spoiled(piece))
                await writer.drain()
            await self._proxy.passes(0)
            if not writer.transport.is_closing():
                writer.write_eof()

    def reset(self) -> None:
        for end in self.ends:
            wire = end.get_extra_info("socket")
            if wire is not None and wire.fileno() >= 0:  # else it is closed
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                end.transport.abort()

    def finish(self) -> None:
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.write_eof()


class Proxy:
    """Connections to one address are passed on to another.

    Attributes:
        address: where it listens.
        delay: seconds that each piece takes.
        rate: bytes a second, of each direction of each connection.
        spoil: how likely it is that one byte of a piece is changed.
        carried: bytes that have passed.
    """

    def __init__(self, target: str, seed: int = 0) -> None:
        self.address = ""
        self.delay = 0.0
        self.rate = float("inf")
        self.spoil = 0.0
        self.carried = 0
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self._random = random.Random(seed)
        self._marks: list[tuple[int, asyncio.Future[None]]] = []
        self._open = asyncio.Event()
        self._open.set()
        self._flows: set[_Flow] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    # Faults

    def hold(self) -> None:
        """Nothing passes any more, though all connections stay open, and new ones are taken: half-open."""
        self._open.clear()

    def let_pass(self) -> None:
        """Everything passes again, what was held up first."""
        self._open.set()

    def reset(self) -> None:
        """All connections are lost, at both ends, with what was on its way."""
        for flow in list(self._flows):
            flow.reset()

    def finish(self) -> None:
        """Both ends of all connections are told that no more will come."""
        for flow in list(self._flows):
            flow.finish()

    # What passes

    async def passes(self, nbytes: int) -> None:
        """Return when so many bytes may go on."""
        if self.delay or nbytes / self.rate:
            await asyncio.sleep(self.delay + nbytes / self.rate)
        await self._open.wait()
        self.carried += nbytes
        for mark, reached in self._marks:
            if mark <= self.carried and not reached.done():
                reached.set_result(None)

    async def has_carried(self, nbytes: int) -> None:
        """Return when so many more bytes have passed."""
        mark = self.carried + nbytes, asyncio.get_running_loop().create_future()
        self._marks.append(mark)
        await mark[1]
        self._marks.remove(mark)

    def spoiled(self, piece: bytes) -> bytes:
        """The piece, maybe with another byte somewhere."""
        if self._random.random() >= self.spoil:
            return piece
        changed = bytearray(piece)
        changed[self._random.randrange(len(changed))] ^= self._random.randrange(1, 256)
        return bytes(changed)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on until both ends have said all, or it is cut."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.transport.abort()
            self._tasks.discard(task)
            return
        flow = _Flow(self, writer, far_writer)
        self._flows.add(flow)
        try:
            await asyncio.gather(flow.pump(reader, far_writer), flow.pump(far_reader, writer))
        except asyncio.CancelledError:
            pass  # the proxy is closed, and asyncio's server would complain of a task that was cancelled
        finally:
            self._flows.discard(flow)
            self._tasks.discard(task)
            await _closed(flow.ends)

    async def close(self) -> None:
        """All connections are gone."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _closed(ends: Iterable[asyncio.StreamWriter]) -> None:
    for end in ends:
        end.transport.abort()
        with contextlib.suppress(OSError):
            await end.wait_closed()


@contextlib.asynccontextmanager
async def proxy(address: str, target: str, seed: int = 0) -> AsyncIterator[Proxy]:
    """A proxy that listens at `address` and passes what comes on to `target`."""
    made = Proxy(target, seed)
    host, _, port = address.rpartition(":")
    server = await asyncio.start_server(made.serve, host, int(port))
    made.address = "{}:{}".format(*server.sockets[0].getsockname())
    try:
        yield made
    finally:
        server.close()
        await made.close()
        await server.wait_closed()
