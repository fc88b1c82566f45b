"""Clients of HTTP in a process of their own, over connections that are kept: `python -m benchmarks.serving_load`.

Each client sends the next request as soon as it has its answer. The clients are protocols of the event loop, without a
library of HTTP, so that they take less time than any server. The process reads a line of JSON for each measurement,
with the port, a request for each client and the seconds, and answers with a line: requests per second, the median
latency and its 99th percentile.
"""

import asyncio
import base64
import json
import statistics
import sys
import time
from typing import Any

import uvloop

from benchmarks.harness import percentile


class Client(asyncio.Protocol):
    """One connection that asks the same again and again.

    Args:
        request: the bytes of the request.
        latencies: get the seconds of each request.
    """

    def __init__(self, request: bytes, latencies: list[float]) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._request, self._latencies = request, latencies
        self._arrived = bytearray()
        self._transport: Any = None
        self._since = self._end = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport

    def begin(self, end: float) -> None:
        """Send the first request, and others until that time."""
        self._end = end
        self._ask()

    def _ask(self) -> None:
        self._since = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Ask again as soon as the answer is whole."""
        self._arrived += data
        if not is_whole(self._arrived):
            return
        now = time.perf_counter()
        self._latencies.append(now - self._since)
        if not self._arrived.startswith(b"HTTP/1.1 200"):
            self.ended.set_exception(RuntimeError(bytes(self._arrived[:500]).decode()))
        self._arrived.clear()
        if now < self._end:
            self._ask()
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        """End; an error unless the clients wanted it."""
        if not self.ended.done():
            lost = time.perf_counter() < self._end
            self.ended.set_exception(error or ConnectionError("closed")) if lost else self.ended.set_result(None)


def is_whole(arrived: bytearray) -> bool:
    """Whether a response with a length has arrived."""
    head, end, body = bytes(arrived).partition(b"\r\n\r\n")
    if not end:
        return False
    _, _, length = head.lower().partition(b"content-length: ")
    return len(body) >= int(length.partition(b"\r\n")[0])


async def storm(port: int, requests: list[bytes], seconds: float) -> list[float]:
    """Return the latencies of a client for each of the requests, in that time. All connect before one begins."""
    latencies: list[float] = []
    loop = asyncio.get_running_loop()
    made = [
        await loop.create_connection(lambda request=each: Client(request, latencies), "127.0.0.1", port)
        for each in requests
    ]
    end = time.perf_counter() + seconds
    for _, client in made:
        client.begin(end)
    await asyncio.gather(*(client.ended for _, client in made))
    return latencies


def measured(latencies: list[float], seconds: float) -> dict[str, float]:
    """Return what the process answers."""
    return {
        "rate": len(latencies) / seconds,
        "median": statistics.median(latencies),
        "tail": percentile(latencies, 0.99),
    }


def main() -> None:
    """Measure as often as the input asks."""
    for line in sys.stdin:
        command = json.loads(line)
        requests = [base64.b64decode(each) for each in command["requests"]]
        latencies = uvloop.run(storm(command["port"], requests, command["seconds"]))
        print(json.dumps(measured(latencies, command["seconds"])), flush=True)


if __name__ == "__main__":
    main()
