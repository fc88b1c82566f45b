"""64 and 512 clients query one MLP over HTTP, one image per request, in the binary form of the Open Inference Protocol.

Each server and the clients have a process of their own, so that with two cores neither takes the other's. The servers
by hand are handlers of aiohttp; one of them computes nothing, and shows what HTTP alone takes. LitServe, BentoML and
MLServer take JSON alone, in environments of their own: see `serving_peers`.
"""

import asyncio
import base64
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from benchmarks import peers
from benchmarks.batching import IMAGES, median
from benchmarks.clients import Load
from benchmarks.harness import SETTLE, excuse, rotated
from benchmarks.inference import CORES
from benchmarks.report import Claim, Row

CLIENTS, ROUNDS, SECONDS = (64, 512), 5, 0.5
BYTES, BY_HAND = "aiohttp, same bytes", "aiohttp, batched by hand"
TENSORFLOW, ONNX, TORCH = (f"{name}, {CORES} threads" for name in (peers.TENSORFLOW, "ONNX Runtime", peers.TORCH))
FASTAPI = "ONNX Runtime, FastAPI"
LITSERVE, BENTOML, MLSERVER = "LitServe, JSON", "BentoML, JSON", "MLServer, JSON"
SIDES = {
    peers.AIOFLOW: "aioflow", BYTES: "bytes", BY_HAND: "batched",
    TENSORFLOW: "tensorflow", ONNX: "onnxruntime", FASTAPI: "fastapi", TORCH: "torch",
}  # fmt: skip
PEERS = {LITSERVE: "litserve", BENTOML: "bentoml", MLSERVER: "mlserver"}
_LINE = 1 << 24


async def rows() -> AsyncIterator[Row]:
    """Measure each number of clients."""
    missing: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        clients = await stack.enter_async_context(process("benchmarks.serving_load"))
        ports: dict[str, int] = {}
        for name in (*SIDES, *PEERS):
            server = await stack.enter_async_context(serving(name))
            try:
                ports[name] = int(await said(server))
            except RuntimeError as error:
                missing[name] = excuse(error)
        for count in CLIENTS:
            loads = await measure(clients, ports, IMAGES[:count])
            title = f"{count} clients of an MLP 784-256-128-10 over HTTP, one image per request"
            yield Row(title, {name: str(load) for name, load in loads.items()} | missing, claims(loads))


def claims(loads: Mapping[str, Load]) -> list[Claim]:
    """Compare rates and latencies."""
    found = [
        Claim("time a request, aioflow / aiohttp, same bytes", median(loads, BYTES, peers.AIOFLOW, "rates"), 1.3),
        Claim("time a request, aioflow / aiohttp by hand", median(loads, BY_HAND, peers.AIOFLOW, "rates"), 1.3),
    ]
    for peer in (TENSORFLOW, ONNX, FASTAPI, TORCH, *PEERS):
        rate = median(loads, peers.AIOFLOW, peer, "rates")
        found.append(Claim(f"requests/s, aioflow / {peer}", rate, 2, at_least=True))
        found.append(Claim(f"p99, aioflow / {peer}", median(loads, peers.AIOFLOW, peer, "tails"), 1))
    return found


def request(image: Any) -> bytes:
    """Return the bytes of a request with an image."""
    tensor = {
        "name": "images", "shape": [*image.shape], "datatype": "FP32",
        "parameters": {"binary_data_size": image.nbytes},
    }  # fmt: skip
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    lines = [
        "POST /v2/models/mlp/infer HTTP/1.1", "Host: localhost", "Content-Type: application/octet-stream",
        f"Inference-Header-Content-Length: {len(head)}", f"Content-Length: {len(head) + image.nbytes}", "", "",
    ]  # fmt: skip
    return bytes("\r\n".join(lines).encode() + head + image.tobytes())


def json_request(name: str, image: Any) -> bytes:
    """Return the bytes of a request of a peer with an image."""
    pixels, path = image[0].tolist(), "/v2/models/mlp/infer" if name == MLSERVER else "/predict"
    tensor = {"name": "images", "shape": [*image.shape], "datatype": "FP32", "data": pixels}
    asked = {LITSERVE: {"image": pixels}, BENTOML: {"images": [pixels]}, MLSERVER: {"inputs": [tensor]}}
    body = json.dumps(asked[name])
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", body]).encode()


async def measure(clients: Any, ports: Mapping[str, int], images: Sequence[Any]) -> dict[str, Load]:
    """Measure every server's load, in alternating rounds, after one round that does not count."""
    loads = {name: Load() for name in ports}
    sent = {
        name: [
            base64.b64encode(json_request(name, image) if name in PEERS else request(image)).decode()
            for image in images
        ]
        for name in ports
    }
    for turn in range(-1, ROUNDS):
        for name in rotated(list(ports), turn):
            await asyncio.sleep(SETTLE)
            command = {"port": ports[name], "requests": sent[name], "seconds": SECONDS}
            clients.stdin.write(json.dumps(command).encode() + b"\n")
            found = json.loads(await said(clients))
            if turn >= 0:
                loads[name].rates.append(found["rate"])
                loads[name].medians.append(found["median"])
                loads[name].tails.append(found["tail"])
    return loads


def serving(name: str) -> AbstractAsyncContextManager[Any]:
    """Return the process of a server."""
    if name in PEERS:
        python = os.path.join(os.environ.get("SERVING_PEERS", ""), PEERS[name], "bin", "python")
        python = python if os.path.exists(python) else sys.executable
        return process("benchmarks.serving_peers", PEERS[name], python=python)
    return process("benchmarks.serving_sides", SIDES[name])


@asynccontextmanager
async def process(module: str, *arguments: str, python: str = sys.executable) -> AsyncIterator[Any]:
    """Yield a process that runs a module, and ends when its input ends."""
    pipe = asyncio.subprocess.PIPE
    found = await asyncio.create_subprocess_exec(python, "-m", module, *arguments, stdin=pipe, stdout=pipe, limit=_LINE)
    try:
        yield found
    finally:
        assert found.stdin is not None
        found.stdin.close()
        await found.wait()


async def said(process: Any) -> bytes:
    """Return the next line of a process. RuntimeError if it ends instead."""
    line: bytes = await process.stdout.readline()
    if not line:
        raise RuntimeError("the process ended; its reason stands above")
    return line
