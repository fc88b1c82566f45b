"""Servers of one MLP over HTTP, each in a process of its own: `python -m benchmarks.serving_sides NAME`.

A process prints its port, and serves on uvloop until its input ends. aioflow serves a saved model by the Open Inference
Protocol. The others are handlers of aiohttp that know where the image lies in such a request, and answer with the same
bytes: what one would write by hand around a library. One of them is a route of FastAPI, on uvicorn.
"""

import asyncio
import importlib
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import numpy as np
import uvloop
from aiohttp import web

from benchmarks import batching, inference, peers
from benchmarks.batching import MOST, PROBLEM
from benchmarks.harness import Side
from benchmarks.mlp import with_aioflow

NAME, LENGTH = "mlp", "inference-header-content-length"
HEAD = (
    b'{"model_name":"mlp","model_version":"1","outputs":[{"name":"logits","datatype":"FP32","shape":[1,10],'
    b'"parameters":{"binary_data_size":40}}]}'
)


@asynccontextmanager
async def aioflow() -> AsyncIterator[int]:
    """Serve a saved model, as `aioflow serve` does. Yields the port."""
    af = peers.aioflow()
    from aioflow.cli.serve import collect_seldom
    from aioflow.serving.server import HttpServer, bind
    from aioflow.serving.service import Service

    with tempfile.TemporaryDirectory() as folder:
        async with with_aioflow.session(PROBLEM) as (session, images, logits):
            signature = af.saved_model.Signature(inputs={"images": images}, outputs={"logits": logits})
            await af.saved_model.save(session, folder, {"serving_default": signature}, version=1)
        async with af.serving.Models() as models:
            await models.add(NAME, folder, batching=af.serving.Batching(max_rows=MOST))
            with bind("127.0.0.1", 0) as listening:
                server = HttpServer(Service(models), listening)
                await server.start()
                collect_seldom()
                yield int(server.url.rpartition(":")[2])
                await server.close()


@asynccontextmanager
async def by_hand(side: Side) -> AsyncIterator[int]:
    """Serve a coroutine function from an image to logits by a handler of aiohttp. Yields the port."""
    async with side as infer:
        headers = {LENGTH: str(len(HEAD)), "content-type": "application/octet-stream"}
        size = 4 * PROBLEM.sizes[0]

        async def handle(request: web.Request) -> web.Response:
            body = await request.read()
            image = np.frombuffer(body[-size:], np.float32).reshape(1, -1)
            return web.Response(body=HEAD + (await infer(image)).tobytes(), headers=headers)

        app = web.Application()
        app.router.add_post(f"/v2/models/{NAME}/infer", handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        yield runner.addresses[0][1]
        await runner.cleanup()


@asynccontextmanager
async def on_fastapi(side: Side) -> AsyncIterator[int]:
    """Serve the same function by a route of FastAPI on uvicorn. Yields the port."""
    fastapi, uvicorn = (importlib.import_module(name) for name in ("fastapi", "uvicorn"))
    async with side as infer:
        app, size = fastapi.FastAPI(), 4 * PROBLEM.sizes[0]

        @app.post(f"/v2/models/{NAME}/infer")  # type: ignore[untyped-decorator]
        async def handle(request: fastapi.Request) -> Any:
            image = np.frombuffer((await request.body())[-size:], np.float32).reshape(1, -1)
            body = HEAD + (await infer(image)).tobytes()
            return fastapi.Response(body, headers={LENGTH: str(len(HEAD))}, media_type="application/octet-stream")

        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", access_log=False))
        serving = asyncio.ensure_future(server.serve())
        while not server.started:  # noqa: ASYNC110 - it tells nobody else
            await asyncio.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
        server.should_exit = True
        await serving


@asynccontextmanager
async def constant() -> AsyncIterator[Any]:
    """Yield a function that computes nothing."""
    logits = np.zeros((1, PROBLEM.sizes[-1]), np.float32)

    async def infer(image: Any) -> Any:
        return logits

    yield infer


@asynccontextmanager
async def torch() -> AsyncIterator[Any]:
    """Yield PyTorch's net, run in a pool of threads and awaited."""
    from benchmarks.mlp import with_torch

    module = peers.torch()
    net = with_torch.model(PROBLEM)

    def answer(image: Any) -> Any:
        with module.inference_mode():
            return net(module.from_numpy(image.copy())).numpy()

    async with inference.in_pool(answer, inference.CORES) as infer:
        yield infer


SIDES: Mapping[str, Callable[[], AbstractAsyncContextManager[int]]] = {
    "aioflow": aioflow,
    "bytes": lambda: by_hand(constant()),
    "batched": lambda: by_hand(batching.batched()),
    "tensorflow": lambda: by_hand(inference.behind_pool(PROBLEM, inference.CORES)),
    "onnxruntime": lambda: by_hand(batching.onnxruntime()),
    "fastapi": lambda: on_fastapi(batching.onnxruntime()),
    "torch": lambda: by_hand(torch()),
}


async def serve(name: str) -> None:
    """Serve one side until the input ends."""
    async with SIDES[name]() as port:
        print(port, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
