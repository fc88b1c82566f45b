"""A connection of HTTP whose requests are plain, as those of nearly all clients that ask models are.

A plain request has a body of a known length behind a head without surprises (`plain_heads`). The connection answers
such requests itself, one after another, and writes each response at once, in less time than a framework takes. It hands
itself over to aiohttp, for good, with the first request of another kind: chunked and large bodies, slow ones,
websockets, and malformed heads.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, cast

from aioflow.serving.half_closed import Probes
from aioflow.serving.plain_heads import LONGEST, PlainHead, read_head, response_head
from aioflow.serving.request import JOINED, Request, Response
from aioflow.serving.service import Service

_log: Final = logging.getLogger("aioflow.serving")
_AHEAD: Final = 128 * 1024
"""Bytes of further requests that are read while one is answered."""
_SLOW: Final = 1.0
"""Seconds after which the rest of a body is left to aiohttp."""
_HEAD_END: Final = b"\r\n\r\n"


class Connection(asyncio.Protocol):
    """One connection.

    Args:
        service: answers the requests.
        others: makes the protocol of aiohttp that takes the connection over.
        opened: has all connections of the server.
    """

    def __init__(self, service: Service, others: Callable[[], asyncio.BaseProtocol], opened: "set[Connection]") -> None:
        self._service: Final = service
        self._others: Final = others
        self._opened: Final = opened
        self._loop: Final = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._arrived = b""
        self._needed = 0
        """The bytes of the request that is arriving, once its head is there."""
        self._is_first = True
        self._is_paused = False
        self._writable: asyncio.Future[None] | None = None
        """Pending while the client reads too slowly."""
        self._since = self._loop.time()
        """Since when it waits for a request, or for the rest of one."""
        self._gone: asyncio.Future[None] | None = None
        """Pending while `flush` waits."""
        self._probes: Probes | None = None
        """Once the client has ended its half while a request is answered."""

    # What the loop tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request."""
        self._transport = cast(asyncio.Transport, transport)
        self._client = str((transport.get_extra_info("peername") or ("",))[0])
        self._opened.add(self)

    def data_received(self, data: bytes) -> None:
        """Answer the request if it is whole."""
        if not self._arrived:
            self._since = self._loop.time()
        self._arrived = self._arrived + data if self._arrived else data
        if self._task is None:
            if len(self._arrived) >= self._needed:
                self._begin()
        elif len(self._arrived) > _AHEAD and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Go on with the requests of a client that sends no more, unless it has left. TLS has no such half."""
        if self._task is None or self._transport.get_extra_info("sslcontext") is not None:
            return False
        self._probes = Probes(self._transport)
        return True

    def connection_lost(self, error: Exception | None) -> None:
        """Cancel the request whose client is gone."""
        self._opened.discard(self)
        self._stop_probes()
        if self._task is not None:
            self._task.cancel()
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    def pause_writing(self) -> None:
        """Let responses wait for the client."""
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        """Go on with a response."""
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    # What the server asks

    def look(self, first: float, idle: float) -> None:
        """Give up a connection that waits for too long, and let aiohttp wait for a body that arrives slowly.

        Args:
            first: the most seconds until a head has arrived.
            idle: the most seconds between two requests.
        """
        waited = self._loop.time() - self._since
        if self._task is not None:
            return
        if self._needed and waited >= _SLOW:
            self._hand_over()
        elif waited >= (first if self._arrived or self._is_first else idle):
            self._transport.abort()

    @property
    def is_new(self) -> bool:
        """Whether no request has begun to arrive since it was opened."""
        return self._is_first and not self._arrived and self._task is None

    def leave(self, young: float = 0.0) -> None:
        """Close the connection, unless a request has begun to arrive or is being answered.

        A new connection stays open if it is younger than `young` seconds.
        """
        if self.is_new and self._loop.time() - self._since < young:
            return
        if self._task is None and not self._arrived:
            if not self._transport.get_write_buffer_size():
                self._opened.discard(self)  # an idle client answers the end of TLS late: nothing waits for that
            self._transport.close()

    async def flush(self) -> None:
        """Close the connection, and wait until its client has taken all responses, or is gone."""
        self._transport.close()
        self._gone = self._loop.create_future()
        await self._gone

    async def close(self) -> None:
        """Cancel the request that runs, and close the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._transport.close()

    # Requests

    def _begin(self) -> None:
        """Answer the requests that have arrived, if there is one."""
        head = self._next_head()
        if head is not None:
            self._task = self._loop.create_task(self._answer_all(head))

    def _next_head(self) -> PlainHead | None:
        """Return the head of a request that has arrived whole. A request that is not plain goes to aiohttp."""
        end = self._arrived.find(_HEAD_END, 0, LONGEST) + len(_HEAD_END)
        if end < len(_HEAD_END):
            if len(self._arrived) >= LONGEST:
                self._hand_over()
            return None
        head = read_head(self._arrived[:end])
        if head is None:
            self._hand_over()
            return None
        self._needed = end + head.length
        return head if len(self._arrived) >= self._needed else None

    async def _answer_all(self, head: PlainHead | None) -> None:
        """Answer one request after another, until none is there."""
        try:
            while head is not None:
                await self._answer(head)
                self._go_on_reading()
                if not self._arrived:
                    break
                await asyncio.sleep(0)  # a client that sends ahead shares the event loop with the others
                head = None if self._transport.is_closing() else self._next_head()
            if self._probes is not None:
                self._transport.close()
        except ConnectionError:  # a client that reads too slowly
            self._transport.abort()
        except Exception as error:
            _log.error("a response could not be sent: %s", error, exc_info=error)
            self._transport.abort()
        finally:
            self._task = None

    async def _answer(self, head: PlainHead) -> None:
        body = self._arrived[self._needed - head.length : self._needed]
        self._arrived = self._arrived[self._needed :]
        self._needed, self._is_first = 0, False
        request = Request(head.method, head.path, head.headers, body, self._client)
        await self._service.answer(request, self._send_head if head.method == "HEAD" else self._send)
        self._since = self._loop.time()

    def _go_on_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    def _hand_over(self) -> None:
        """Let aiohttp answer the request that has begun, and all further ones."""
        if self._probes is not None:  # aiohttp takes a client that sends no more for one that has left
            self._transport.close()
            return
        self._opened.discard(self)
        protocol = cast(asyncio.Protocol, self._others())
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(self._arrived)

    # Responses

    async def _send_head(self, response: Response) -> None:
        self._stop_probes()
        response = self._last_if_ending(response)
        self._transport.write(response_head(response.status, response.headers, response.size))
        await self._sent(response)

    async def _send(self, response: Response) -> None:
        """Write a response: at once, unless it is large."""
        self._stop_probes()
        response = self._last_if_ending(response)
        if response.stream is not None:
            await self._send_stream(response)
            return
        size = response.size
        head = response_head(response.status, response.headers, size)
        if size <= JOINED:
            self._transport.write(b"".join((head, *response.body)))
        else:
            self._transport.write(head)
            for piece in response.body:
                await self._taken()
                self._transport.write(piece)
        await self._sent(response)

    async def _send_stream(self, response: Response) -> None:
        self._transport.write(response_head(response.status, response.headers, None))
        await response.write_to(self._write_chunk)
        self._transport.write(b"0\r\n\r\n")
        await self._sent(response)

    async def _write_chunk(self, chunk: bytes | memoryview) -> None:
        self._transport.write(b"".join((b"%x\r\n" % len(chunk), chunk, b"\r\n")))
        await self._taken()

    def _stop_probes(self) -> None:
        """The response has begun, or the client has left."""
        if self._probes is not None:
            self._probes.stop()

    def _last_if_ending(self, response: Response) -> Response:
        """Return the response. If the server is about to end, it says that no other follows on this connection."""
        return response if self._service.ready else response.with_headers({"connection": "close"})

    async def _sent(self, response: Response) -> None:
        """Close the connection behind its last response. ConnectionError if the client does not take a response."""
        seconds = self._service.limits.answer_seconds
        try:
            if self._writable is not None:
                async with asyncio.timeout(seconds):
                    await self._writable
        except TimeoutError:
            raise ConnectionAbortedError(f"the client did not read its responses within {seconds:g} s") from None
        if "connection" in response.headers:
            self._transport.close()

    async def _taken(self) -> None:
        """Wait until the client has taken most of what was written."""
        if self._writable is not None:
            await self._writable
