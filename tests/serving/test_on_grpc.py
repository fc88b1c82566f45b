"""Models behind gRPC: each call, its errors, clients that leave, tokens, limits, ports."""

import contextlib
import gc
import sys

import grpc
import grpc.aio
import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.serving.on_grpc import client_address, make_server
from aioflow.serving.service import Service
from aioflow.testing import Gate
from tests.serving.doubles import Models, affine
from tests.serving.inference_proto import message, parameters

pytestmark = pytest.mark.sockets
ROWS = np.array([[1, 2], [3, 4]], np.float32)
SECRET = "a-secret-of-16-letters-or-more"


@pytest.fixture(autouse=True)
def grpc_ends():
    """gRPC's thread ends with the last server and channel; the end of one may set others free."""
    yield
    for _ in range(3):
        gc.collect()


class Client:
    def __init__(self, address, channel):
        self.address, self.channel = address, channel

    def call(self, method, request=b"", answer=None, **options):
        data = request if isinstance(request, bytes) else request.SerializeToString()
        read = None if answer is None else message(answer).FromString
        ask = self.channel.unary_unary(f"/inference.GRPCInferenceService/{method}", response_deserializer=read)
        return ask(data, **options)

    def infer(self, rows=ROWS, options=None, **fields):
        tensor = {"name": "x", "datatype": "FP32", "shape": rows.shape}
        given = {"model_name": "affine", "inputs": [tensor], "raw_input_contents": [rows.tobytes()]}
        request = message("ModelInferRequest")(**{**given, **fields})
        return self.call("ModelInfer", request, "ModelInferResponse", **(options or {}))

    async def flag(self, method, **fields):
        return (await self.call(method, message("ModelRequest")(**fields), "Flag")).value


@contextlib.asynccontextmanager
async def serving(*versions, models=None, server=None, **options):
    """A client of a server."""
    server = server or af.serving.grpc_server(models or Models(*versions), **options)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            yield Client(address, channel)
    finally:
        await server.stop(None)


@contextlib.contextmanager
def refused(code, text):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        yield caught
    assert (caught.value.code(), caught.value.details()) == (code, text)


async def test_each_call_is_answered():
    models = Models(affine(), affine(2))
    async with serving(models=models) as client:
        assert [await client.flag(name) for name in ("ServerLive", "ServerReady")] == [True, True]
        wanted = [{"name": "affine"}, {"name": "affine", "version": "2"}, {"name": "affine", "version": "3"}]
        assert [await client.flag("ModelReady", **each) for each in wanted] == [True, True, False]
        assert not await client.flag("ModelReady", name="other")
        models.ready = False
        assert not await client.flag("ServerReady")
        server = await client.call("ServerMetadata", b"", "ServerMetadataResponse")
        assert (server.name, "binary_tensor_data" in server.extensions) == ("aioflow", True)
        asked = message("ModelRequest")(name="affine")
        model = await client.call("ModelMetadata", asked, "ModelMetadataResponse")
        assert (model.name, [*model.versions], [*model.inputs[0].shape]) == ("affine", ["1", "2"], [-1, 2])
        for version, rows in (("", ROWS), ("1", np.tile(ROWS, (50_000, 1)))):
            found = await client.infer(rows, model_version=version, id="é")
            assert (found.model_version, found.id) == (version or "2", "é")
            (raw,) = found.raw_output_contents
            np.testing.assert_array_equal(np.frombuffer(raw, np.float32).reshape(-1, 2), 2 * rows + 1)


async def test_errors_have_the_codes_of_grpc_and_the_texts_of_rest(caplog):
    version = affine()
    async with serving(version) as client:
        with refused(grpc.StatusCode.NOT_FOUND, "there is no model 'other'"):
            await client.infer(model_name="other")
        with refused(grpc.StatusCode.NOT_FOUND, "a version is a number, not 'new'"):
            await client.infer(model_version="new")
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "input 'x': it has 12 bytes, and FP32[2, 2] needs 16"):
            await client.infer(raw_input_contents=[bytes(12)])
        with refused(grpc.StatusCode.UNIMPLEMENTED, "Method not found!"):
            await client.call("RepositoryIndex")
        with refused(grpc.StatusCode.NOT_FOUND, f"there is no model {'x' * 3000!r}"[:2000] + "..."):
            await client.infer(model_name="x" * 3000)
        version.error = errors.ResourceExhaustedError("4096 rows wait")
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "4096 rows wait") as caught:
            await client.infer()
        assert ("retry-after", "1") in [*caught.value.trailing_metadata()]
        version.error = errors.CancelledError("the session is closed")
        with refused(grpc.StatusCode.UNAVAILABLE, "the session is closed"):
            await client.infer()
        version.error = errors.InternalError("secret")
        with refused(grpc.StatusCode.INTERNAL, "the server failed to compute the answer; its log has the reason"):
            await client.infer()
        assert "secret" in caplog.text
        caplog.clear()  # the record of the error holds the call, and so the thread of gRPC
        version.error = None
        version.gate = Gate()
        with refused(grpc.StatusCode.DEADLINE_EXCEEDED, "the request was not answered within its timeout"):
            await client.infer(parameters=parameters(timeout=1))


async def test_a_call_whose_client_is_gone_or_whose_deadline_passes_is_cancelled_and_harms_no_other():
    version = affine()
    version.gate = Gate()
    async with serving(version) as client:
        other = client.infer()
        await version.gate.arrived(1)
        leaving = client.infer()
        await version.gate.arrived(2)
        leaving.cancel()
        async with grpc.aio.insecure_channel(client.address) as channel:
            cut = Client(client.address, channel).infer()
            await version.gate.arrived(3)
        assert cut.cancelled()
        seconds = 0.05
        while len(version.seen) < 4:  # a deadline may pass before the call arrives
            with refused(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"):
                await client.infer(options={"timeout": seconds})
            seconds *= 4
        while version.cancelled < len(version.seen) - 1:
            await version.left.acquire()
        version.gate.open()
        assert len((await other).raw_output_contents) == 1
    assert version.holders == 0


async def test_the_server_is_bounded_and_asks_for_its_token():
    version = affine()
    version.gate = Gate()
    limits = af.serving.Limits(body=10_000, requests=1)
    shown = {"metadata": [("authorization", f"Bearer {SECRET}"), ("trace-bin", b"\xff")]}
    async with serving(version, limits=limits, token=SECRET) as client:
        assert await client.flag("ServerLive")
        with refused(
            grpc.StatusCode.UNAUTHENTICATED, "the request must show the server's token, as Authorization: Bearer TOKEN"
        ):
            await client.flag("ModelReady", name="affine")
        running = client.infer(options=shown)
        await version.gate.arrived(1)
        with refused(
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "1 requests run already, the most that the server takes at a time; try again",
        ):
            await client.infer(options=shown)
        assert await client.flag("ServerReady")
        version.gate.open()
        await running
        for packing in (grpc.Compression.NoCompression, grpc.Compression.Gzip):
            with pytest.raises(grpc.aio.AioRpcError, match="larger than max") as caught:
                await client.infer(np.zeros((100_000, 2), np.float32), {**shown, "compression": packing})
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert len(version.seen) == 1


async def test_each_call_is_recorded_and_a_full_queue_refuses_before_the_tensors_are_read():
    version, records = affine(), []
    service = Service(Models(version), observers=[records.append])
    async with serving(server=make_server(service)) as client:
        await client.infer()
        with refused(grpc.StatusCode.NOT_FOUND, "there is no model 'other'"):
            await client.infer(model_name="other")
        version.full = True
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "4096 rows wait"):
            await client.infer(raw_input_contents=[b"of a wrong length"])
    assert [(each.status, each.model, each.rows) for each in records] == [
        (200, "affine", 2), (404, None, 0), (503, "affine", 0),
    ]  # fmt: skip
    assert {each.path for each in records} == {"/inference.GRPCInferenceService/ModelInfer"}


def test_the_extra_is_named_where_grpcio_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(errors.UnimplementedError, match=r"pip install aioflow-engine\[grpc\]"):
        af.serving.grpc_server(Models())


async def test_a_message_that_does_not_arrive_is_given_up_and_a_call_needs_one():
    async with serving(affine(), limits=af.serving.Limits(body_seconds=0.01)) as client:
        method = "/inference.GRPCInferenceService/ServerLive"
        call = client.channel.stream_unary(method)()
        with refused(grpc.StatusCode.DEADLINE_EXCEEDED, "the message did not arrive within 0.01 s"):
            await call
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "the call has no message"):
            await client.channel.stream_unary(method)(iter([]))


@pytest.mark.parametrize(
    ("peer", "address"),
    [("ipv4:127.0.0.1:5000", "127.0.0.1"), ("ipv6:%5B::1%5D:5000", "::1"), ("ipv6:[::1]:5000", "::1"), ("unix:", "")],
)
def test_a_client_has_the_same_address_as_over_http(peer, address):
    assert client_address(peer) == address


async def test_a_call_is_told_its_time_and_a_client_beyond_its_quota_is_refused():
    async with serving(affine(), limits=af.serving.Limits(client_rate=0.001)) as client:
        call = client.infer(options={"metadata": [("prefer", "server-timing")]})
        await call
        assert dict(await call.trailing_metadata())["server-timing"].endswith('batch;desc="2 rows"')
        with refused(
            grpc.StatusCode.RESOURCE_EXHAUSTED, "this client may send 0.001 requests a second; try again in 1000 s"
        ):
            await client.infer()
