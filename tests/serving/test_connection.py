"""Connections of a server of its own: plain requests, and those that are left to aiohttp."""

import asyncio
import contextlib
import gzip
import json

import pytest

from aioflow.serving import connection as connection_module
from aioflow.serving import server as server_module
from aioflow.serving.limits import Limits
from aioflow.serving.plain_heads import read_head, response_head
from aioflow.serving.server import HttpServer, bind
from aioflow.serving.service import Service
from aioflow.testing import Gate
from tests.serving.doubles import Models, affine, counter
from tests.support.scale import amount

PREDICT = "/v1/models/affine:predict"
ANSWER = {"predictions": [[3.0, 5.0]]}
BODY = b'{"instances": [[1, 2]]}'
PACKED = gzip.compress(BODY)
ANSWER_END = b"]}"
CHUNKED_HEAD = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()


@contextlib.asynccontextmanager
async def connected(version, limits=None):
    """A server, and a connection to it."""
    server = HttpServer(Service(Models(version), limits), bind("127.0.0.1", 0))
    await server.start()
    serving = asyncio.ensure_future(server.serve(asyncio.Event()))
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    try:
        yield server, reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        serving.cancel()
        await asyncio.wait([serving])


async def until(condition):
    """Return when it holds."""
    while not condition():  # noqa: ASYNC110 - it is about what another end has seen
        await asyncio.sleep(0.001)


def head(*lines, method="POST", path=PREDICT, length=23):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {length}", *lines, "", ""]).encode()


async def read(reader, has_body=True):
    """The status, headers and body of the next response."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")[:-2]
    headers = dict(line.split(": ") for line in lines)
    body = await reader.readexactly(int(headers["content-length"])) if has_body else b""
    return int(first.split()[1]), headers, body


@pytest.mark.sockets
async def test_plain_requests_on_one_connection_are_answered_in_their_order():
    async with connected(affine()) as (server, reader, writer):
        writer.write((head() + BODY) * 3 + head(method="GET", path="/v2/health/live", length=0) + head(path="/v3")[:20])
        for _ in range(3):
            status, headers, body = await read(reader)
            assert (status, json.loads(body)) == (200, ANSWER)
            assert headers.keys() == {"content-type", "content-length", "date"}
        assert await read(reader) == (200, {**headers, "content-length": "13"}, b'{"live":true}')
        for piece in (head(path="/v3")[20:], BODY[:5], BODY[5:]):  # the rest of a request in pieces
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        assert (await read(reader))[0] == 404
        writer.write(head(method="HEAD", path="/v2/health/live", length=0) + head() + BODY)
        assert (await read(reader, has_body=False))[1]["content-length"] == "13"
        assert json.loads((await read(reader))[2]) == ANSWER
        assert (len(server._connections), len(server._others.connections)) == (1, 0)


@pytest.mark.sockets
@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (CHUNKED_HEAD + b"17\r\n%b\r\n0\r\n\r\n" % BODY, 200),
        (head(path=PREDICT.replace("a", "%61", 1)) + BODY, 200),
        (head("Connection: close") + BODY, 200),
        (head("Content-Encoding: gzip", length=len(PACKED)) + PACKED, 200),
        (head("Content-Length: 5") + BODY, 400),
        (head("A : b") + BODY, 400),
        (head("A: b\rc") + BODY, 400),
        (head(length="+23") + BODY, 400),
        (b"nonsense\r\n\r\n", 400),
        (head(*["A: " + 100 * "b"] * 90) + BODY, 200),
    ],
)  # fmt: skip
async def test_a_request_that_is_not_plain_is_left_to_aiohttp(request_bytes, status):
    async with connected(affine()) as (server, reader, writer):
        writer.write(head() + BODY + request_bytes)
        assert (await read(reader))[0] == 200
        assert (await read(reader))[0] == status
        assert not server._connections


@pytest.mark.sockets
@pytest.mark.parametrize(
    ("request_bytes", "status", "text"),
    [
        (head(length="-1"), 400, "Content-Length"),
        (head().replace(b"Host: x\r\n", b"") + BODY, 400, "Host"),
        (b"nonsense\r\n\r\n", 400, "nonsense"),
        (head("Expect: wonders") + BODY, 417, "100-continue"),
        (head("Content-Encoding: br", length=3) + b"abc", 415, "'br' is none of gzip, deflate"),
        (head("Content-Encoding: deflate", length=3) + b"abc", 400, "the body is damaged"),
        (head("Content-Encoding: gzip", length=len(PACKED) - 9) + PACKED[:-9], 400, "ends too early"),
    ],
)
async def test_what_is_no_request_is_refused_in_the_words_of_the_protocols(request_bytes, status, text, caplog):
    async with connected(affine()) as (_, reader, writer):
        writer.write(request_bytes)
        found, headers, body = await read(reader)
        assert (found, headers["content-type"]) == (status, "application/json")
        assert text in json.loads(body)["error"]
    assert not caplog.records


@pytest.mark.sockets
async def test_a_slow_body_is_left_to_aiohttp_and_a_slow_head_given_up(monkeypatch):
    monkeypatch.setattr(connection_module, "_SLOW", 0.0)
    monkeypatch.setattr(server_module, "_LOOK_EVERY", 0.01)
    async with connected(affine()) as (server, reader, writer):
        writer.write(head() + BODY[:5])
        await until(lambda: server._others.connections)
        writer.write(BODY[5:])
        assert json.loads((await read(reader))[2]) == ANSWER
    monkeypatch.setattr(server_module, "_FIRST_REQUEST", 0.0)
    async with connected(affine()) as (server, reader, writer):
        with contextlib.suppress(ConnectionError):
            writer.write(head()[:20])
            assert await reader.read() == b""


@pytest.mark.sockets
async def test_the_request_of_a_client_that_leaves_is_cancelled_and_a_flood_of_requests_waits():
    version = affine()
    version.gate = Gate()
    async with connected(version) as (server, reader, writer):
        flood = 500
        writer.write((head(f"A: {'b' * 4000}") + BODY) * flood)
        await version.gate.arrived(1)
        (connection,) = server._connections
        await until(lambda: connection._is_paused)
        assert len(connection._arrived) <= connection_module._AHEAD + 2**18  # and what one read brings
        version.gate.open()
        for _ in range(flood):
            assert (await reader.readuntil(ANSWER_END))[-2:] == ANSWER_END
        version.gate = Gate()
        writer.write(head() + BODY)
        await version.gate.arrived(1)
        writer.close()
        await version.left.acquire()
        assert (version.cancelled, version.holders) == (1, 0)


@pytest.mark.sockets
async def test_a_client_that_ends_its_half_of_the_connection_gets_all_responses():
    version = affine()
    version.gate = Gate()
    async with connected(version) as (server, reader, writer):
        writer.write((head() + BODY) * 2 + head()[:20])
        writer.write_eof()
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        version.gate.open()
        for _ in range(2):
            status, _, body = await read(reader)
            assert (status, json.loads(body)) == (200, ANSWER)
        assert await reader.read() == b""
        await until(lambda: not server._connections)
    assert version.cancelled == 0
    async with connected(version) as (server, reader, writer):
        writer.write(head() + BODY[:5])
        writer.write_eof()
        assert await reader.read() == b""


@pytest.mark.sockets
@pytest.mark.slow
async def test_clients_that_leave_at_each_stage_leave_nothing_and_harm_no_other():
    version, count, at_once = affine(), amount(1_000, 10_000), 250
    version.gate = Gate()
    stages = [b"", head()[:20], head(), head() + BODY[:5], head() + BODY]
    async with connected(version) as (server, reader, writer):
        writer.write(head() + BODY)
        for begun in range(1, count, at_once):
            pairs = [await asyncio.open_connection(*writer.get_extra_info("peername")) for _ in range(at_once)]
            for number, (_, leaving) in enumerate(pairs):
                leaving.write(stages[number % len(stages)])
            await version.gate.arrived(1 + (begun - 1 + at_once) // len(stages))
            for _, leaving in pairs:
                leaving.close()
            for _ in range(at_once // len(stages)):
                await version.left.acquire()
        await until(lambda: len(server._connections) == 1)
        assert (version.cancelled, version.holders, server.service.running) == (count // len(stages), 1, 1)
        version.gate.open()
        assert json.loads((await read(reader))[2]) == ANSWER


@pytest.mark.sockets
async def test_a_stream_comes_in_chunks_and_its_slow_reader_holds_back_its_loop():
    version = counter()
    generate = head(path="/v2/models/counter/generate_stream", length=12)
    async with connected(version) as (server, reader, writer):
        writer.write(generate + b'{"n":   [3]}')
        assert b"transfer-encoding: chunked" in await reader.readuntil(b"\r\n\r\n")
        chunks = await reader.readuntil(b"0\r\n\r\n")
        assert [json.loads(line[6:])["n"] for line in chunks.split(b"\r\n") if line[:5] == b"data:"] == [[2], [1], [0]]
        (connection,) = server._connections
        connection.pause_writing()
        writer.write(generate + b'{"n":  [99]}')
        await until(lambda: len(version.seen) > 3)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(version.seen) == 3 + 1
        connection.resume_writing()
        await until(lambda: len(version.seen) == 3 + 99)


@pytest.mark.sockets
async def test_a_client_that_sends_ahead_shares_the_event_loop():
    async with connected(affine()) as (server, _, writer):
        ended = []
        server.service.observers = (ended.append,)
        (connection,) = server._connections
        connection.data_received(head(method="GET", path="/v2/health/live", length=0) * 100)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert 0 < len(ended) < 5
        await until(lambda: len(ended) == 100)
        writer.close()


@pytest.mark.sockets
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_client_that_sends_ahead_and_reads_nothing_is_given_up(method):
    ended = []
    async with connected(affine(), Limits(answer_seconds=0.05)) as (server, reader, writer):
        server.service.observers = (ended.append,)
        (connection,) = server._connections
        connection.pause_writing()
        writer.write(head(method=method, path="/v2/health/live", length=0) * 100)
        with contextlib.suppress(ConnectionError):  # if not all that it sent has been read
            await reader.read()
        await until(lambda: not server._connections)
        assert len(ended) == 1


@pytest.mark.parametrize("unsent", [0, 1])
async def test_only_an_idle_connection_with_unsent_bytes_is_waited_for(unsent):
    class Slow(asyncio.Transport):
        def close(self):
            """As with TLS, the end comes when the client answers."""

        def get_write_buffer_size(self):
            return unsent

    opened = set()
    connection = connection_module.Connection(Service(Models(affine())), asyncio.Protocol, opened)
    connection.connection_made(Slow())
    connection.leave()
    assert len(opened) == unsent


@pytest.mark.sockets
async def test_a_refusal_that_ends_the_connection_does_so():
    records = []
    async with connected(affine(), Limits(body=10)) as (server, reader, writer):
        server.service.observers = (records.append,)
        writer.write((head() + BODY) * 2)
        status, headers, _ = await read(reader)
        assert (status, headers["connection"]) == (413, "close")
        assert await reader.read() == b""
    assert len(records) == 1


def test_what_is_in_plain_heads_and_in_those_of_responses():
    found = read_head(head("A:  b c "))
    assert found is not None
    assert found == ("POST", PREDICT, {"host": "x", "content-length": "23", "a": "b c"}, 23)
    assert read_head(head(length=2**40)) is None
    assert read_head(head("A:" + 8000 * " " + "\x01")) is None  # at once
    assert response_head(503, {"retry-after": "1"}, None).startswith(
        b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ndate: "
    )
    with pytest.raises(ValueError, match="line break"):
        response_head(200, {"a": "b\r\nc: d"}, 0)
