"""A server of its own: how it ends, and which connections it gives up."""

import asyncio
import contextlib
import re
import socket
from types import SimpleNamespace

import aiohttp
import pytest

from aioflow import errors
from aioflow.serving import server
from aioflow.serving.server import HttpServer, bind
from aioflow.serving.service import Service
from aioflow.testing import Gate
from tests.serving.doubles import Models, affine

PREDICT = "/v1/models/affine:predict"
BODY = b'{"instances": [[1, 2]]}'


@contextlib.asynccontextmanager
async def serving(version, **times):
    """A server that serves, the event that stops it, and a client."""
    listening = bind("127.0.0.1", 0)
    found = HttpServer(Service(Models(version)), listening)
    await found.start()
    stopped = asyncio.Event()
    task = asyncio.ensure_future(found.serve(stopped, **times))
    try:
        async with aiohttp.ClientSession(found.url) as client:
            yield SimpleNamespace(server=found, stopped=stopped, task=task, client=client)
    finally:
        stopped.set()
        await task


@pytest.mark.sockets
async def test_readiness_turns_first_and_requests_that_run_are_answered():
    version = affine()
    version.gate = Gate()
    async with serving(version, delay=0.3) as served:
        running = asyncio.ensure_future(served.client.post(PREDICT, data=BODY))
        await version.gate.arrived(1)
        served.stopped.set()
        await asyncio.sleep(0)
        async with served.client.get("/v2/health/ready") as response:  # it still listens
            assert response.status == 503
        async with served.client.get("/v2/health/live") as response:
            assert response.status == 200
        version.gate.open()
        async with await running as response:
            assert (response.status, await response.json()) == (200, {"predictions": [[3.0, 5.0]]})
        await served.task
        with pytest.raises(aiohttp.ClientConnectorError):
            await served.client.get("/v2/health/live")


@pytest.mark.sockets
async def test_a_connection_that_opens_just_before_the_end_gets_its_answer(monkeypatch):
    monkeypatch.setattr(server, "_NEW", 1.0)
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
    async with serving(affine()) as served:
        host, port = served.server.url.removeprefix("http://").split(":")
        taken, silent = [await asyncio.open_connection(host, port) for _ in range(2)]
        while len(served.server._connections) < 2:  # noqa: ASYNC110 - it is about what the server has seen
            await asyncio.sleep(0.001)
        waiting = socket.create_connection((host, int(port)))  # which the event loop has had no turn to take
        served.stopped.set()
        while served.server._server.is_serving():  # noqa: ASYNC110
            await asyncio.sleep(0)
        for reader, writer in (taken, await asyncio.open_connection(sock=waiting)):
            writer.write(head + BODY)
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 200")
            assert b"connection: close" in answer
            writer.close()
        assert await silent[0].read() == b""
        silent[1].close()


@pytest.mark.sockets
@pytest.mark.parametrize("query", ["", "?a=b"], ids=["plain", "of aiohttp"])
async def test_a_server_that_ends_tells_clients_so_and_answers_what_they_send_before(query):
    head = f"POST {PREDICT}{query} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
    async with serving(affine(), delay=0.2) as served:
        host, port = served.server.url.removeprefix("http://").split(":")

        async def ask_until_told():
            reader, writer = await asyncio.open_connection(host, port)
            answer = b""
            while b"connection: close" not in answer.lower():
                writer.write(head + BODY)
                answer = await reader.readuntil(b"]}")
                assert answer.startswith(b"HTTP/1.1 200")
                served.stopped.set()
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()

        await asyncio.gather(*[ask_until_told() for _ in range(8)])


@pytest.mark.sockets
async def test_a_server_that_ends_reads_the_bodies_that_have_begun_and_leaves_idle_clients():
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    async with serving(affine()) as served:
        host, port = served.server.url.removeprefix("http://").split(":")
        idle, idle_writer = await asyncio.open_connection(host, port)
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(head + b"5\r\n" + BODY[:5] + b"\r\n")
        while not served.server._answering:  # noqa: ASYNC110 - likewise
            await asyncio.sleep(0.001)
        served.stopped.set()
        assert await idle.read() == b""
        writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY[5:]), BODY[5:]))
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        for each in (idle_writer, writer):
            each.close()
            await each.wait_closed()


@pytest.mark.sockets
async def test_a_server_ends_when_clients_have_taken_their_responses_or_after_the_limit():
    large = b'{"instances": [%b]}' % b",".join([b"[1,2]"] * 30_000)
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(large)}\r\n\r\n".encode()
    for limit in (60.0, 0.1):
        async with serving(affine(), limit=limit) as served:
            with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.connect(listening.getsockname())
                accepted, _ = listening.accept()
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
                loop = asyncio.get_running_loop()
                await loop.connect_accepted_socket(served.server._connect, accepted)
                reader, writer = await asyncio.open_connection(sock=client.dup(), limit=4096)
                writer.write(head + large)
                answer = await reader.readuntil(b"\r\n\r\n")
                served.stopped.set()
                if limit < 1:
                    await served.task
                else:
                    size = int(re.search(rb"content-length: (\d+)", answer)[1])
                    taken = 0
                    while taken < size - 4096:
                        taken += len(await reader.read(1024))
                    assert not served.task.done()
                    await reader.readexactly(size - taken)
                writer.transport.abort()


@pytest.mark.sockets
async def test_requests_that_do_not_end_are_cancelled_after_the_limit():
    version = affine()
    version.gate = Gate()
    async with serving(version, limit=0.01) as served:
        running = asyncio.ensure_future(served.client.post(PREDICT, data=BODY))
        await version.gate.arrived(1)
        served.stopped.set()
        with pytest.raises(aiohttp.ClientError):
            await running
        await served.task
    assert (version.cancelled, version.holders) == (1, 0)


@pytest.mark.sockets
@pytest.mark.parametrize("begun", [b"A: ", (b"A: " + 100 * b"b" + b"\r\n") * 90], ids=["plain", "of aiohttp"])
async def test_a_connection_without_a_request_is_closed_and_others_are_kept(begun, monkeypatch):
    monkeypatch.setattr(server, "_FIRST_REQUEST", 0.0)
    monkeypatch.setattr(server, "_LOOK_EVERY", 0.01)
    version = affine()
    version.gate = Gate()
    async with serving(version) as served:
        running = asyncio.ensure_future(served.client.post(PREDICT, data=BODY))
        await version.gate.arrived(1)
        host, port = served.server.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\n" + begun)
        with contextlib.suppress(ConnectionResetError):  # if the server had not read the bytes yet
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()
        assert not served.server._unasked
        version.gate.open()
        async with await running as response:
            assert response.status == 200


@pytest.mark.sockets
async def test_an_idle_connection_of_aiohttp_is_closed_also_if_a_head_has_begun(monkeypatch):
    monkeypatch.setattr(server, "_IDLE_OF_OTHERS", 0.05)
    async with serving(affine()) as served:
        host, port = served.server.url.removeprefix("http://").split(":")
        for begun in (b"", b"GET /v2 HT"):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET /v2?a=b HTTP/1.1\r\nHost: x\r\n\r\n" + begun)
            assert (await reader.read()).startswith(b"HTTP/1.1 200")
            writer.close()
            await writer.wait_closed()


@pytest.mark.sockets
async def test_a_client_that_waits_before_it_sends_the_body_is_told_to_go_on():
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}\r\n"
    async with serving(affine()) as served:
        host, port = served.server.url.removeprefix("http://").split(":")
        for expected, lines in [("100-continue", [b"100", b"200"]), ("a miracle", [b"417"])]:
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(f"{head}Expect: {expected}\r\n\r\n".encode())
            for line in lines:
                assert (await reader.readline()).split()[1] == line
                if line == b"100":
                    await reader.readline()
                    writer.write(BODY)
            writer.close()
            await writer.wait_closed()


def test_a_port_that_is_taken_is_named():
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(errors.UnavailableError, match=f"127.0.0.1:{port} cannot be bound: Address already in use"):
            bind("127.0.0.1", port)
    with bind("127.0.0.1", 0, shared=True) as first, bind("127.0.0.1", first.getsockname()[1], shared=True) as second:
        assert first.getsockname() == second.getsockname()
