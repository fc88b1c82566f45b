"""Models in the frameworks and the server of others: Starlette, FastAPI and uvicorn."""

import asyncio
import contextlib
from pathlib import Path

import aiohttp
import fastapi
import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient, WebSocketDenialResponse

import aioflow as af
from aioflow.testing import Gate
from tests.serving.doubles import Models, affine, counter
from tests.serving.uvicorn_server import on_uvicorn

PREDICT = "/v1/models/affine:predict"


@pytest.mark.parametrize("framework", [Starlette, fastapi.FastAPI])
def test_a_framework_mounts_the_models(framework, tmp_path):
    async def save():
        with af.Graph().as_default() as graph:
            x = af.placeholder(af.float32, [None, 2], name="x")
            signature = af.saved_model.Signature({"x": x}, {"y": 2 * x + 1})
            async with af.Session(graph=graph) as session:
                await af.saved_model.save(session, tmp_path, {"serving_default": signature}, version=1)

    @contextlib.asynccontextmanager
    async def lifespan(app):
        async with af.serving.Models() as models:
            await models.add("affine", tmp_path)
            app.mount("/models", af.serving.asgi_app(models))
            yield

    asyncio.run(save())
    with TestClient(framework(lifespan=lifespan)) as client:
        assert client.get("/models/v2/health/ready").json() == {"ready": True}
        answer = client.post(f"/models{PREDICT}", json={"instances": [[1, 2]]})
        assert (answer.status_code, answer.json()) == (200, {"predictions": [[3.0, 5.0]]})
        assert client.post(f"/models{PREDICT}", json={}).status_code == 400


def test_a_websocket_of_starlette_streams_iterations_and_refuses_as_http_does():
    app = Starlette()
    app.mount("/models", af.serving.asgi_app(Models(counter())))
    client = TestClient(app)
    with client.websocket_connect("/models/v2/models/counter/generate_stream") as socket:
        socket.send_json({"n": [3]})
        assert [socket.receive_json()["n"] for _ in range(3)] == [[2], [1], [0]]
    with (
        pytest.raises(WebSocketDenialResponse) as refused,
        client.websocket_connect("/models/v2/models/x/generate_stream"),
    ):
        pass
    assert (refused.value.status_code, [*refused.value.json()]) == (404, ["error"])


@pytest.mark.sockets
async def test_uvicorn_answers_and_cancels_the_requests_of_clients_that_leave():
    version = affine()
    body = {"instances": [[1, 2]]}
    app = af.serving.asgi_app(Models(version), af.serving.Limits(body=1000))
    async with on_uvicorn(app) as port, aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
        async with client.post(PREDICT, json=body) as response:
            assert (response.status, await response.json()) == (200, {"predictions": [[3.0, 5.0]]})
        async with client.post(PREDICT, data=b"x" * 1001) as response:
            assert response.status == 413
        version.gate = Gate()
        leaving, staying = (asyncio.ensure_future(client.post(PREDICT, json=body)) for _ in range(2))
        await version.gate.arrived(2)
        leaving.cancel()
        await version.left.acquire()
        version.gate.open()
        async with await staying as response:
            assert response.status == 200
    assert (version.cancelled, version.holders) == (1, 0)


@pytest.mark.slow
def test_the_example_reads_digits_by_its_own_route_and_by_a_protocol(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples")
    import fastapi_digits
    from train_digits import load_digits

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
