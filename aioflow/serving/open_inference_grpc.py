"""The Open Inference Protocol v2 over gRPC: the calls of `inference.GRPCInferenceService`.

A call of gRPC is a request of HTTP: a POST to a path that names the service and the call, with the message as body. Its
response has the code in the header `grpc-status`, and the text of an error in `grpc-message`. Tensors go out as raw
bytes; they come in as raw bytes or as typed contents. Parameters are those over REST.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from aioflow import errors
from aioflow.serving.exchange import Exchange, ModelAddress, Route, Routes, version_number
from aioflow.serving.failures import describe_failure
from aioflow.serving.inference_messages import (
    inference_response,
    model_response,
    read_inference,
    read_model,
    server_response,
    yes_or_no,
)
from aioflow.serving.inference_tensors import read_numbers, read_tensors
from aioflow.serving.open_inference import (
    Query,
    describe_model,
    describe_server,
    is_model_ready,
    is_ready,
)
from aioflow.serving.request import Response

SERVICE: Final = "inference.GRPCInferenceService"
STATUS: Final = "grpc-status"
MESSAGE: Final = "grpc-message"
_LONGEST: Final = 2000
"""Characters of a text. gRPC sends it as a header, and a client refuses more than 8 KiB of these."""


async def _server_live(exchange: Exchange) -> Response:
    return _response([yes_or_no(True)])


async def _server_ready(exchange: Exchange) -> Response:
    return _response([yes_or_no(is_ready(exchange))])


async def _model_ready(exchange: Exchange) -> Response:
    """A model that does not exist is not ready: clients wait in this way for one that is being loaded."""
    address = _address(*read_model(_message(exchange)))
    try:
        return _response([yes_or_no(is_model_ready(address, exchange))])
    except errors.NotFoundError:
        return _response([yes_or_no(False)])


async def _server_metadata(exchange: Exchange) -> Response:
    return _response([server_response(describe_server())])


async def _model_metadata(exchange: Exchange) -> Response:
    address = _address(*read_model(_message(exchange)))
    return _response([model_response(describe_model(address, exchange))])


async def _model_infer(exchange: Exchange) -> Response:
    header, raw = read_inference(_message(exchange), exchange.limits)
    address = _address(header.get("model_name", ""), header.get("model_version", ""))
    with exchange.hold(address) as served:
        asked = Query.read(header)
        inputs = await read_tensors(asked.inputs, raw) if asked.has_strings else read_numbers(asked.inputs, raw)
        exchange.count(inputs)
        outputs = await asked.run(served, inputs)
        return _response(await inference_response(served.name, served.version, asked.id or "", outputs))


_ROUTES: Final[Mapping[str, Route]] = {
    f"/{SERVICE}/ServerLive": Route(_server_live, infers=False),
    f"/{SERVICE}/ServerReady": Route(_server_ready, infers=False),
    f"/{SERVICE}/ModelReady": Route(_model_ready, infers=False),
    f"/{SERVICE}/ServerMetadata": Route(_server_metadata, infers=False),
    f"/{SERVICE}/ModelMetadata": Route(_model_metadata, infers=False),
    f"/{SERVICE}/ModelInfer": Route(_model_infer, infers=True),
}
PATHS: Final = tuple(_ROUTES)
"""The paths of the calls."""


def _message(exchange: Exchange) -> bytes:
    """Return the message. It is there when a call begins."""
    message = exchange.request.body
    assert isinstance(message, bytes)
    return message


def _address(name: str, version: str) -> ModelAddress:
    return ModelAddress(name, version_number(version) if version else None)


def _response(body: Sequence[bytes | memoryview]) -> Response:
    return Response(200, {STATUS: str(errors.OK)}, body)


def _find(method: str, path: str) -> Route:
    return _ROUTES[path]


def _fail(error: Exception) -> Response:
    failure = describe_failure(error)
    text = failure.text if len(failure.text) <= _LONGEST else f"{failure.text[:_LONGEST]}..."
    return Response(failure.status, {**failure.headers, STATUS: str(failure.code), MESSAGE: text})


ROUTES: Final = Routes(_find, _fail)
