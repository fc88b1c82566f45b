"""A port of gRPC: how it ends, and a port that is taken."""

import asyncio
import gc

import grpc
import grpc.aio
import pytest

from aioflow import errors
from aioflow.serving.grpc_listener import GrpcListener
from aioflow.serving.service import Service
from aioflow.testing import Gate
from tests.serving.doubles import Models, affine
from tests.serving.test_on_grpc import Client

pytestmark = pytest.mark.sockets


@pytest.fixture(autouse=True)
def grpc_ends():
    """gRPC's thread ends with the last server and channel."""
    yield
    gc.collect()


@pytest.mark.parametrize("limit", [60.0, 0.0])
async def test_calls_that_run_at_the_end_finish_until_the_limit(limit):
    version = affine()
    version.gate = Gate()
    listener = GrpcListener(Service(Models(version)), "127.0.0.1", 0)
    with pytest.raises(errors.UnavailableError, match="cannot be bound for gRPC"):
        GrpcListener(Service(Models(version)), "127.0.0.1", int(listener.url.rpartition(":")[2]))
    await listener.start()
    stopped = asyncio.Event()
    serving = asyncio.ensure_future(listener.serve(stopped, limit=limit))
    async with grpc.aio.insecure_channel(listener.url.removeprefix("grpc://")) as channel:
        running = Client(None, channel).infer()
        await version.gate.arrived(1)
        stopped.set()
        if not limit:
            await serving
            with pytest.raises(grpc.aio.AioRpcError):
                await running
            assert (version.cancelled, version.holders) == (1, 0)
        version.gate.open()
        if limit:
            assert len((await running).raw_output_contents) == 1
        await serving
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await Client(None, channel).infer()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    await listener.close()
