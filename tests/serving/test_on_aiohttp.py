"""Models inside an application of aiohttp: mounted beside other routes, left by clients at each stage."""

import asyncio
import contextlib
import gzip
import io
import json
from types import SimpleNamespace

import aiohttp
import numpy as np
import pytest
from aiohttp import web

import aioflow as af
from aioflow.serving import on_aiohttp
from aioflow.testing import Gate
from tests.serving.doubles import Models, affine

pytestmark = pytest.mark.sockets
PREDICT = "/models/v1/models/affine:predict"
BODY = b'{"instances": [[1, 2]]}'


@contextlib.asynccontextmanager
async def mounted(version, limits=None):
    """An application that has the models at `/models`, as a user would write it, and a client of it."""

    async def hello(request):
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_get("/", hello)
    app.add_subapp("/models", af.serving.aiohttp_app(Models(version), limits))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
            yield SimpleNamespace(client=client, port=port)
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def connection(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def raw(body, length=None):
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body) if length is None else length}\r\n\r\n"
    return head.encode() + body


async def test_models_are_served_beside_other_routes():
    version = affine()
    async with mounted(version) as served:
        client = served.client
        async with client.get("/") as response:
            assert await response.text() == "hello"
        async with client.post(PREDICT, data=BODY) as response:
            assert (response.status, await response.json()) == (200, {"predictions": [[3.0, 5.0]]})
        packed = {"data": gzip.compress(BODY), "headers": {"content-encoding": "gzip"}}
        async with client.post(PREDICT, **packed) as response:
            assert (response.status, await response.json()) == (200, {"predictions": [[3.0, 5.0]]})
        async with client.post(PREDICT, data=b"{") as response:
            assert (response.status, [*await response.json()]) == (400, ["error"])
        for path in ("affine%2Fx", "affine%0Ax"):
            async with client.get(f"/models/v2/models/{path}") as response:
                assert (response.status, [*await response.json()]) == (404, ["error"])
        rows = np.arange(400_000, dtype=np.float32).reshape(-1, 2)
        parameters = {"binary_data_size": rows.nbytes}
        inputs = [{"name": "x", "shape": rows.shape, "datatype": "FP32", "parameters": parameters}]
        head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
        headers = {"inference-header-content-length": str(len(head))}
        async with client.post(
            "/models/v2/models/affine/infer", data=io.BytesIO(head + rows.tobytes()), headers=headers
        ) as response:
            body = await response.read()
            start = int(response.headers["inference-header-content-length"])
            assert response.content_length == len(body) == start + rows.nbytes
    np.testing.assert_array_equal(np.frombuffer(body[start:], np.float32).reshape(-1, 2), 2 * rows + 1)


async def test_a_body_that_is_too_large_is_refused_while_its_client_still_sends(monkeypatch):
    monkeypatch.setattr(on_aiohttp, "_READ_ON", 0.05)
    async with mounted(affine(), af.serving.Limits(body=1000)) as served, connection(served.port) as (reader, writer):
        writer.write(raw(b"x" * 10, length=10**9))
        assert (await reader.readline()).split()[1] == b"413"
        assert b"at most 1000 are taken" in await reader.read()  # up to the end of the connection


async def test_a_client_that_leaves_at_any_stage_leaves_nothing_and_harms_no_other():
    version = affine()
    async with mounted(version) as served:
        for sent in (b"POST /mod", raw(b"", length=10), raw(BODY[:5], length=len(BODY))):
            async with connection(served.port) as (_, writer):
                writer.write(sent)
                await writer.drain()
        version.gate = Gate()
        other = asyncio.ensure_future(served.client.post(PREDICT, data=BODY))
        await version.gate.arrived(1)
        for count in range(2, 22):
            async with connection(served.port) as (_, writer):
                writer.write(raw(BODY))
                await version.gate.arrived(count)
        for _ in range(20):
            await version.left.acquire()
        version.gate.open()
        async with await other as response:
            assert response.status == 200
        assert (version.holders, version.cancelled, len(version.seen)) == (0, 20, 21)


async def test_damaged_chunks_and_damaged_packings_are_refused():
    async with mounted(affine()) as served:
        head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\n".encode()
        for lines, body in [
            (b"Transfer-Encoding: chunked\r\n", b"zz\r\nabc"),
            (b"Content-Length: 5\r\nContent-Encoding: gzip\r\n", b"hello"),
        ]:
            async with connection(served.port) as (reader, writer):
                writer.write(head + lines + b"\r\n" + body)
                assert (await reader.readline()).split()[1] == b"400"
        async with served.client.post(PREDICT, data=BODY) as response:
            assert response.status == 200
