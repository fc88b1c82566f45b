"""NVIDIA's clients of the Open Inference Protocol, before servers of aiohttp, uvicorn and hypercorn.

schemathesis makes requests of all kinds by the interface of the protocol.
"""

import asyncio
import contextlib
import gc
import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import hypercorn.asyncio
import numpy as np
import pytest
import schemathesis
import yaml
from aiohttp import web
from hypothesis import settings
from schemathesis.specs.openapi import checks
from tritonclient.grpc import aio as triton_grpc
from tritonclient.http import InferRequestedOutput
from tritonclient.http.aio import InferenceServerClient, InferInput
from tritonclient.utils import InferenceServerException

import aioflow as af
from tests.serving.uvicorn_server import on_uvicorn

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(120), pytest.mark.real]
INTERFACE = schemathesis.openapi.from_dict(
    yaml.safe_load((Path(__file__).parent / "open_inference.yaml").read_text(encoding="utf-8"))
)
ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)


async def save(directory):
    """Save a model that doubles numbers and gives texts back."""
    with af.Graph().as_default() as graph:
        x, text = af.placeholder(af.float32, [None, 2], name="x"), af.placeholder(af.string, [None], name="text")
        signature = af.saved_model.Signature({"x": x, "text": text}, {"y": 2 * x, "same": af.identity(text)})
        async with af.Session(graph=graph) as session:
            await af.saved_model.save(session, directory, {"serving_default": signature}, version=1)


@pytest.fixture
async def directory(tmp_path):
    """The directory of the saved model."""
    await save(tmp_path / "double")
    return tmp_path / "double"


@contextlib.asynccontextmanager
async def on_aiohttp(directory):
    """The address of a server of aiohttp."""
    async with af.serving.Models() as models:
        await models.add("double", directory)
        runner = web.AppRunner(af.serving.aiohttp_app(models))
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


@contextlib.asynccontextmanager
async def on_asgi(directory, run):
    """The address of a server of ASGI."""
    async with af.serving.Models() as models:
        await models.add("double", directory)
        async with run(af.serving.asgi_app(models)) as port:
            yield f"127.0.0.1:{port}"


@contextlib.asynccontextmanager
async def on_hypercorn(app):
    """The port of hypercorn in this event loop."""
    stopped = asyncio.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = hypercorn.Config.from_mapping(
            bind=[f"fd://{os.dup(listening.fileno())}"], accesslog=None, errorlog=None
        )
        serving = asyncio.ensure_future(hypercorn.asyncio.serve(app, config, shutdown_trigger=stopped.wait))
        try:
            yield listening.getsockname()[1]
        finally:
            stopped.set()
            await serving


def given(binary):
    x, text = InferInput("x", [3, 2], "FP32"), InferInput("text", [3], "BYTES")
    x.set_data_from_numpy(ROWS, binary_data=binary)
    text.set_data_from_numpy(np.array(["a", "ä", ""], object), binary_data=binary)
    return [x, text]


SERVERS = [on_aiohttp, partial(on_asgi, run=on_uvicorn), partial(on_asgi, run=on_hypercorn)]


@pytest.mark.parametrize("serve", SERVERS, ids=["aiohttp", "uvicorn", "hypercorn"])
async def test_nvidias_client_is_answered(serve, directory):
    async with serve(directory) as address, InferenceServerClient(address) as client:
        assert await client.is_server_live()
        assert await client.is_server_ready()
        assert await client.is_model_ready("double", "1")
        assert not await client.is_model_ready("other")
        metadata = await client.get_model_metadata("double")
        assert metadata["inputs"][0] == {"name": "x", "datatype": "FP32", "shape": [-1, 2]}
        for binary in (True, False):
            wanted = [InferRequestedOutput(name, binary_data=binary) for name in ("y", "same")]
            for outputs in (None, wanted):
                for packing in (None, "gzip", "deflate"):
                    result = await client.infer(
                        "double", given(binary), outputs=outputs, request_id="7", request_compression_algorithm=packing
                    )
                    np.testing.assert_array_equal(result.as_numpy("y"), 2 * ROWS)
                    texts = [text if isinstance(text, bytes) else text.encode() for text in result.as_numpy("same")]
                    assert texts == [b"a", "ä".encode(), b""]
                    assert result.get_response()["id"] == "7"
        with pytest.raises(InferenceServerException, match="lacks text"):
            await client.infer("double", given(True)[:1])


@pytest.fixture
def grpc_ends():
    """gRPC's thread ends with the last server and channel."""
    yield
    gc.collect()


async def test_nvidias_client_is_answered_by_grpc(directory, grpc_ends):
    token = "a-secret-of-16-letters-or-more"
    shown = {"headers": {"authorization": f"Bearer {token}"}}
    async with af.serving.Models() as models:
        await models.add("double", directory)
        server = af.serving.grpc_server(models, token=token)
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        async with triton_grpc.InferenceServerClient(address) as client:
            assert await client.is_server_live()
            assert await client.is_server_ready()
            assert await client.is_model_ready("double", "1", **shown)
            assert not await client.is_model_ready("other", **shown)
            metadata = await client.get_model_metadata("double", as_json=True, **shown)
            assert metadata["inputs"][0] == {"name": "x", "datatype": "FP32", "shape": ["-1", "2"]}
            assert (await client.get_server_metadata(**shown)).name == "aioflow"
            for wanted in (None, [triton_grpc.InferRequestedOutput(name) for name in ("y", "same")]):
                for packing in (None, "gzip", "deflate"):
                    result = await client.infer(
                        "double", given_by_grpc(), outputs=wanted, request_id="7", priority=0,
                        client_timeout=60, compression_algorithm=packing, **shown,
                    )  # fmt: skip
                    np.testing.assert_array_equal(result.as_numpy("y"), 2 * ROWS)
                    assert result.as_numpy("same").tolist() == [b"a", "ä".encode(), b""]
                    assert result.get_response().id == "7"
            with pytest.raises(InferenceServerException, match="lacks text") as caught:
                await client.infer("double", given_by_grpc()[:1], **shown)
            assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"
        await server.stop(None)


def given_by_grpc():
    x, text = triton_grpc.InferInput("x", [3, 2], "FP32"), triton_grpc.InferInput("text", [3], "BYTES")
    x.set_data_from_numpy(ROWS)
    text.set_data_from_numpy(np.array(["a", "ä", ""], object))
    return [x, text]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """The address of `aioflow serve`."""
    directory = tmp_path_factory.mktemp("models") / "double"
    asyncio.run(save(directory))
    command = [sys.executable, "-m", "aioflow", "serve", "--model", f"double={directory}", "--port", "0"]
    with subprocess.Popen([*command, "--drain-delay", "0"], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


@INTERFACE.parametrize()
@settings(max_examples=50)
def test_generated_requests_are_answered_as_the_interface_says(case, url):
    conforms = [
        schemathesis.checks.not_a_server_error, checks.status_code_conformance, checks.content_type_conformance,
        checks.response_schema_conformance, checks.unsupported_method,
    ]  # fmt: skip
    case.call_and_validate(base_url=url, checks=conforms)
