"""Clients and servers of others: NVIDIA's clients of the Open Inference Protocol, Starlette, FastAPI and uvicorn.

schemathesis makes requests of all kinds by the interface of the protocol.
"""

import asyncio
import contextlib
import gc
import subprocess
import sys
from pathlib import Path

import fastapi
import numpy as np
import pytest
import schemathesis
import uvicorn
import yaml
from aiohttp import web
from hypothesis import settings
from schemathesis.specs.openapi import checks
from starlette.applications import Starlette
from starlette.testclient import TestClient
from tritonclient.grpc import aio as triton_grpc
from tritonclient.http import InferRequestedOutput
from tritonclient.http.aio import InferenceServerClient, InferInput
from tritonclient.utils import InferenceServerException

import aioflow as af

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import fastapi_digits
from train_digits import load_digits

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
async def on_uvicorn(directory):
    """The address of uvicorn."""
    async with af.serving.Models() as models:
        await models.add("double", directory)
        config = uvicorn.Config(af.serving.asgi_app(models), port=0, log_level="warning")
        server = uvicorn.Server(config)
        server.config.load()
        server.lifespan = config.lifespan_class(config)
        await server.startup()
        serving = asyncio.ensure_future(server.main_loop())
        try:
            yield f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving
            await server.shutdown()


def given(binary):
    x, text = InferInput("x", [3, 2], "FP32"), InferInput("text", [3], "BYTES")
    x.set_data_from_numpy(ROWS, binary_data=binary)
    text.set_data_from_numpy(np.array(["a", "ä", ""], object), binary_data=binary)
    return [x, text]


@pytest.mark.parametrize("serve", [on_aiohttp, on_uvicorn])
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


@pytest.mark.parametrize("framework", ["starlette", "fastapi"])
def test_a_framework_mounts_the_models(framework, directory):
    @contextlib.asynccontextmanager
    async def lifespan(app):
        async with af.serving.Models() as models:
            await models.add("double", directory)
            app.mount("/models", af.serving.asgi_app(models))
            yield

    app = Starlette(lifespan=lifespan) if framework == "starlette" else fastapi.FastAPI(lifespan=lifespan)
    with TestClient(app) as client:
        assert client.get("/models/v2/health/ready").json() == {"ready": True}
        body = {"instances": [{"x": [1, 2], "text": "a"}]}
        answer = client.post("/models/v1/models/double:predict", json=body)
        assert (answer.status_code, answer.json()) == (200, {"predictions": [{"y": [2.0, 4.0], "same": "a"}]})
        assert client.post("/models/v1/models/double:predict", json={}).status_code == 400


def test_the_example_reads_digits_by_its_own_route_and_by_a_protocol(tmp_path):
    asyncio.run(fastapi_digits.save_net(tmp_path / "digits", epochs=3))
    images, labels = load_digits()[1]
    with TestClient(fastapi_digits.application(tmp_path / "digits")) as client:
        answers = [client.post("/predict", json={"image": image}).json() for image in images[:30].tolist()]
        assert np.mean([answer["digit"] for answer in answers] == labels[:30]) > 0.7
        body = {"instances": images[:30].tolist()}
        rows = client.post("/models/v1/models/digits:predict", json=body).json()["predictions"]
        assert [int(np.argmax(row)) for row in rows] == [answer["digit"] for answer in answers]
        refused = client.post("/predict", json={"image": [1.0]})
        assert (refused.status_code, "float32[?, 64]" in refused.json()["detail"]) == (400, True)
        assert client.post("/predict", json={"image": "7"}).status_code == 422
        assert "/predict" in client.get("/openapi.json").json()["paths"]
