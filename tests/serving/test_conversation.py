"""Streams over websockets, by aiohttp, by a server of its own, and by ASGI."""

import asyncio
import contextlib
import json

import aiohttp
import pytest
from aiohttp import web

import aioflow as af
from aioflow.serving.server import HttpServer, bind
from aioflow.serving.service import Service
from aioflow.testing import Gate
from tests.serving.doubles import Models, counter

STREAM = "/v2/models/counter/generate_stream"
HOPELESS = "/v2/models/nothing/generate_stream"


@contextlib.asynccontextmanager
async def mounted(version, limits=None):
    """An application of aiohttp with the models."""
    app = web.Application()
    app.add_subapp("/models", af.serving.aiohttp_app(Models(version), limits))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/models"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def alone(version, limits=None):
    """A server of its own."""
    server = HttpServer(Service(Models(version), limits), bind("127.0.0.1", 0))
    await server.start()
    try:
        yield server.url
    finally:
        await server.close()


@pytest.mark.sockets
@pytest.mark.parametrize("serving", [mounted, alone])
async def test_each_iteration_is_a_message_and_a_client_that_leaves_stops_its_loop(serving):
    version = counter()
    async with serving(version) as url, aiohttp.ClientSession() as client:
        async with client.ws_connect(url + STREAM) as socket:
            await socket.send_str('{"n": [3]}')
            assert [json.loads(message.data)["n"] async for message in socket] == [[2], [1], [0]]
            assert socket.close_code == 1000
        for sent, code, text in [('{"n": ["a"]}', 1008, "input 'n'"), ("[]", 1008, "must be an object")]:
            async with client.ws_connect(url + STREAM) as socket:
                await socket.send_str(sent)
                assert text in (await socket.receive_json())["error"]
                await socket.receive()
                assert socket.close_code == code
        with pytest.raises(aiohttp.WSServerHandshakeError, match="404"):
            await client.ws_connect(url + HOPELESS)
        with pytest.raises(aiohttp.WSServerHandshakeError, match="405"):
            await client.ws_connect(url + "/v2/models/counter/infer")
        version.full = True
        with pytest.raises(aiohttp.WSServerHandshakeError, match="503"):
            await client.ws_connect(url + STREAM)
        version.full, version.gate = False, Gate()
        socket = await client.ws_connect(url + STREAM)
        await socket.send_bytes(b'{"n": [1000000]}')
        await version.gate.arrived(1)
        await socket.close()
        await version.left.acquire()
        assert (version.cancelled, version.holders) == (1, 0)
        async with client.ws_connect(url + STREAM) as socket:
            pass  # a client that leaves before its message
        async with client.get(url + STREAM) as response:
            assert (response.status, response.headers["allow"]) == (405, "POST")


@pytest.mark.sockets
@pytest.mark.parametrize("serving", [mounted, alone])
async def test_a_message_that_is_too_large_closes_its_websocket_by_that_code(serving):
    limits = af.serving.Limits(json=20)
    async with serving(counter(), limits) as url, aiohttp.ClientSession() as client:
        socket = await client.ws_connect(url + STREAM)
        await socket.send_str('{"n": [3], "id": "as long as that"}')
        assert [message async for message in socket] == []
        assert socket.close_code == 1009


class Client:
    """A websocket of ASGI, whose messages are given by hand."""

    def __init__(self, path, **scope):
        self.scope = {"type": "websocket", "path": path, "headers": [], **scope}
        self.back, self.taken = [], asyncio.Semaphore(1000)
        self.messages = asyncio.Queue()
        self.messages.put_nowait({"type": "websocket.connect"})

    def ask(self, app):
        async def send(message):
            await self.taken.acquire()
            self.back.append(message)

        return asyncio.ensure_future(app(self.scope, self.messages.get, send))

    def send(self, text):
        self.messages.put_nowait({"type": "websocket.receive", "text": text})


async def test_a_websocket_of_asgi():
    version = counter()
    app = af.serving.asgi_app(Models(version))
    client = Client(STREAM)
    client.send('{"n": [2]}')
    await client.ask(app)
    assert client.back[0] == {"type": "websocket.accept"}
    assert [json.loads(message["text"])["n"] for message in client.back[1:-1]] == [[1], [0]]
    assert client.back[-1] == {"type": "websocket.close", "code": 1000}

    large = Client(STREAM)
    large.send('{"n": [3], "id": "as long as that"}')
    await large.ask(af.serving.asgi_app(Models(version), af.serving.Limits(json=20)))
    assert "at most 20 are taken" in json.loads(large.back[1]["text"])["error"]
    assert large.back[2] == {"type": "websocket.close", "code": 1009}

    refused = Client(HOPELESS)
    await refused.ask(app)
    assert refused.back == [{"type": "websocket.close"}]
    told = Client(HOPELESS, extensions={"websocket.http.response": {}})
    await told.ask(app)
    start, body = told.back
    assert (start["type"], start["status"]) == ("websocket.http.response.start", 404)
    assert "there is no model" in json.loads(body["body"])["error"]


async def test_a_websocket_without_a_message_holds_no_place_for_long():
    client = Client(STREAM)
    start = asyncio.get_running_loop().time()
    await client.ask(af.serving.asgi_app(Models(counter()), af.serving.Limits(message_seconds=5)))
    assert asyncio.get_running_loop().time() - start == pytest.approx(5)
    assert "did not arrive within 5 s" in json.loads(client.back[1]["text"])["error"]
    assert client.back[2] == {"type": "websocket.close", "code": 1008}


async def test_a_slow_reader_holds_back_its_loop_and_no_other():
    version = counter()
    app = af.serving.asgi_app(Models(version))
    slow, quick = Client(STREAM), Client(STREAM)
    slow.taken = asyncio.Semaphore(2)  # the opening, and one message
    slow.send('{"n": [1000]}')
    asking = slow.ask(app)
    quick.send('{"n": [50]}')
    await quick.ask(app)
    assert len(quick.back) == 1 + 50 + 1
    assert len(version.seen) == 50 + 2  # one was taken, and one waits
    slow.messages.put_nowait({"type": "websocket.disconnect"})
    await asking
    assert (len(slow.back), version.holders, len(version.seen)) == (2, 0, 50 + 2)
