"""The Open Inference Protocol v2 over REST, with its extension for binary tensors: what lies below `/v2`.

A request names inputs by a list of tensors. The parameter `signature_name` chooses another signature than
`serving_default`, `priority` the level of priority, `timeout` the most microseconds until the answer.
"""

from collections.abc import Awaitable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

import numpy as np

from aioflow import errors
from aioflow.graph.operation import Tensor
from aioflow.saved_model.signature import SERVING_DEFAULT
from aioflow.serving import generation
from aioflow.serving.body import read_body, whole_body
from aioflow.serving.exchange import Exchange, Handlers, ModelAddress, version_number
from aioflow.serving.inference_tensors import (
    BinaryTensor,
    GivenTensor,
    datatype_of,
    read_given,
    read_name,
    read_numbers,
    read_parameters,
    read_tensors,
    write_binary,
    write_list,
    write_numbers,
)
from aioflow.serving.json_body import parse_object
from aioflow.serving.large_json import beside_loop, json_size, write_json, write_response
from aioflow.serving.limits import Limits
from aioflow.serving.request import BINARY, WEBSOCKET, Response, json_response, to_json
from aioflow.serving.request_options import RequestOptions, in_time, read_option
from aioflow.serving.served_version import ServedVersion
from aioflow.tensors.dtypes import Array
from aioflow.tensors.recursion import short_repr
from aioflow.version import __version__

JSON_LENGTH: Final = "inference-header-content-length"
"""The header with the length of the JSON before binary tensors."""
_SHORT: Final = 1024
"""Bytes of JSON before binary tensors that are remembered: a client's requests have the same, again and again."""
_REMEMBERED: Final = 256


def find_handlers(path: Sequence[str]) -> Handlers | None:
    """Return the handlers of a path below `/v2`; None if there is no such path. NotFoundError for a bad version."""
    match path:
        case []:
            return {"GET": _server_metadata}
        case ["health", "live"]:
            return {"GET": _live}
        case ["health", "ready"]:
            return {"GET": _ready}
        case ["models", name, "versions", version, *rest]:
            return _of_model(ModelAddress(name, version_number(version)), rest)
        case ["models", name, *rest]:
            return _of_model(ModelAddress(name), rest)
    return None


def _of_model(address: ModelAddress, rest: Sequence[str]) -> Handlers | None:
    match rest:
        case []:
            return {"GET": partial(_metadata, address)}
        case ["ready"]:
            return {"GET": partial(_model_ready, address)}
        case ["infer"]:
            return {"POST": partial(_infer, address)}
        case ["generate"]:
            return {"POST": partial(generation.generate, address)}
        case ["generate_stream"]:
            return dict.fromkeys(("POST", WEBSOCKET), partial(generation.generate_stream, address))
    return None


# Health and metadata


def describe_server() -> dict[str, Any]:
    """Return the metadata of the server."""
    return {"name": "aioflow", "version": __version__, "extensions": ["binary_tensor_data", "generate"]}


def describe_model(address: ModelAddress, exchange: Exchange) -> dict[str, Any]:
    """Return the metadata of a model: the tensors of the default signature, or of the only one, and its replicas."""
    served = exchange.find(address)
    signature = served.signatures.get(SERVING_DEFAULT) or next(iter(served.signatures.values()))
    replicas = [
        {"name": each.name, "state": each.state, "rows": each.rows, "losses": each.losses} for each in served.replicas
    ]
    return {
        **({"replicas": replicas} if replicas else {}),
        "name": served.name, "versions": [*map(str, exchange.models.versions(served.name))], "platform": "aioflow",
        "inputs": _describe(signature.inputs), "outputs": _describe(signature.outputs),
    }  # fmt: skip


def is_ready(exchange: Exchange) -> bool:
    """Whether the server takes requests, and every model can be asked."""
    return exchange.ready and exchange.models.ready


def is_model_ready(address: ModelAddress, exchange: Exchange) -> bool:
    """Whether a model can be asked. NotFoundError if there is no such model or version."""
    return exchange.ready and exchange.find(address).ready


async def _server_metadata(exchange: Exchange) -> Response:
    return json_response(describe_server())


async def _live(exchange: Exchange) -> Response:
    return json_response({"live": True})


async def _ready(exchange: Exchange) -> Response:
    ready = is_ready(exchange)
    return json_response({"ready": ready}, 200 if ready else 503)


async def _model_ready(address: ModelAddress, exchange: Exchange) -> Response:
    ready = is_model_ready(address, exchange)
    return json_response({"name": address.name, "ready": ready}, 200 if ready else 503)


async def _metadata(address: ModelAddress, exchange: Exchange) -> Response:
    return json_response(describe_model(address, exchange))


def _describe(tensors: Mapping[str, Tensor]) -> list[dict[str, Any]]:
    return [
        {"name": name, "datatype": datatype_of(tensor.dtype), "shape": _open_sizes(tensor)}
        for name, tensor in tensors.items()
    ]


def _open_sizes(tensor: Tensor) -> list[int]:
    """Return the sizes of a tensor, -1 for each that is open; [-1] if even the rank is."""
    sizes = tensor.shape.sizes
    return [-1] if sizes is None else [-1 if size is None else size for size in sizes]


# Inference


async def _infer(address: ModelAddress, exchange: Exchange) -> Response:
    with exchange.hold(address) as served:
        header_size = _json_size(exchange)
        body = whole_body(exchange.request, exchange.limits)
        if body is None:
            body = await read_body(exchange.request, exchange.limits, header_size)
        if header_size is not None and header_size > len(body):
            raise errors.InvalidArgumentError(f"the JSON should have {header_size} bytes, and the body has {len(body)}")
        size = len(body) if header_size is None else header_size
        asked = await beside_loop(size, _read_query, body, header_size, exchange.limits)
        binary = body[size:]
        if asked.has_strings:
            inputs = await read_tensors(asked.inputs, binary, size)
        else:
            inputs = await beside_loop(size, read_numbers, asked.inputs, binary)
        exchange.count(inputs)
        outputs = await asked.run(served, inputs)
        return await _respond(outputs, asked, served.name, served.version)


def _read_query(body: memoryview, header_size: int | None, limits: Limits) -> "Query":
    """Return what the JSON of a request asks for. Nobody may change it, for other requests may have the same."""
    if header_size is None or header_size > min(_SHORT, limits.json):
        return Query.read(parse_object(body[:header_size], limits))
    return _read_short(bytes(body[:header_size]))


@lru_cache(_REMEMBERED)
def _read_short(text: bytes) -> "Query":
    return Query.read(parse_object(memoryview(text), Limits()))


def _json_size(exchange: Exchange) -> int | None:
    """Return the length of the JSON before binary tensors; None if the whole body is JSON."""
    text = exchange.request.headers.get(JSON_LENGTH)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise errors.InvalidArgumentError(f"{JSON_LENGTH} must be a number of bytes, not {short_repr(text)}")
    return int(text)


class Query(NamedTuple):
    """What a request asks for.

    Attributes:
        inputs: the description of its tensors.
        id: what it calls itself, if it does.
        options: how it is run.
        names: the outputs that it wants; None for all.
        binary: whether each output is sent as bytes, by name.
        binary_default: the same for those that say nothing.
        has_strings: whether there is text among the bytes that follow the JSON.
    """

    inputs: Sequence[GivenTensor]
    id: str | None
    options: RequestOptions
    names: Sequence[str] | None
    binary: Mapping[str, bool]
    binary_default: bool
    has_strings: bool

    @classmethod
    def read(cls, header: Mapping[str, Any]) -> "Query":
        """Return what the JSON of a request asks for. InvalidArgumentError names a wrong input or option."""
        request_id = header.get("id")
        if not isinstance(request_id, str | None):
            raise errors.InvalidArgumentError(f'"id" must be a string, not {short_repr(request_id)}')
        parameters = read_parameters(header)
        names, binary = _read_outputs(header.get("outputs"))
        inputs = read_given(header.get("inputs"))
        return cls(
            inputs, request_id, RequestOptions.read(parameters), names, binary,
            read_option(parameters, "binary_data_output", False), any(tensor.has_binary_strings for tensor in inputs),
        )  # fmt: skip

    def run(self, served: ServedVersion, inputs: Mapping[str, Array]) -> Awaitable[dict[str, Array]]:
        """The outputs of a version. TimeoutError when the time is over; OpError as `ServedVersion.infer`."""
        signature, priority, timeout = self.options
        answer = served.infer(inputs, signature, self.names, priority)
        return answer if timeout is None else in_time(answer, timeout)


def _read_outputs(given: Any) -> tuple[list[str] | None, dict[str, bool]]:
    """Return the names of the wanted outputs, None for all, and whether each is sent as bytes."""
    if given is None or given == []:
        return None, {}
    if not isinstance(given, list):
        raise errors.InvalidArgumentError('"outputs" must be a list')
    names: dict[str, None] = {}
    binary = {}
    for item in given:
        name = read_name(item, "outputs")
        if name in names:
            raise errors.InvalidArgumentError(f"output {name!r} is asked for twice")
        names[name] = None
        parameters = read_parameters(item)
        if parameters.get("classification"):
            raise errors.UnimplementedError('the extension "classification" is not served')
        if "binary_data" in parameters:
            binary[name] = read_option(parameters, "binary_data", False)
    return [*names], binary


async def _respond(outputs: Mapping[str, Array], asked: Query, name: str, version: int) -> Response:
    items: list[Mapping[str, Any] | BinaryTensor] = []
    parts: list[bytes | memoryview] = []
    size = 0
    for output, array in outputs.items():
        if not asked.binary.get(output, asked.binary_default):
            items.append(await beside_loop(json_size([array]), write_list, output, array))
            size += json_size([array])
            continue
        has_numbers = isinstance(array, np.ndarray) and not array.dtype.hasobject
        item, after = write_numbers(output, array) if has_numbers else await write_binary(output, array)
        items.append(item)
        parts += after
    if not parts:
        return await write_response(size, _head, name, version, asked.id, items)
    if asked.id is None and all(isinstance(item, BinaryTensor) for item in items):
        text, headers = _write_again(name, version, tuple(items))
    else:
        text = await write_json(size, _head, name, version, asked.id, items)
        headers = _headers(text)
    return Response(200, headers, [text, *parts])


def _headers(text: bytes) -> Mapping[str, str]:
    return {"content-type": BINARY, JSON_LENGTH: str(len(text))}


def _head(
    name: str, version: int, id: str | None, outputs: Sequence[Mapping[str, Any] | BinaryTensor]
) -> dict[str, Any]:
    """Return what the JSON of a response says."""
    head: dict[str, Any] = {"model_name": name, "model_version": str(version)}
    if id is not None:
        head["id"] = id
    return head | {"outputs": [item.describe() if isinstance(item, BinaryTensor) else item for item in outputs]}


@lru_cache(_REMEMBERED)
def _write_again(name: str, version: int, outputs: Sequence[BinaryTensor]) -> tuple[bytes, Mapping[str, str]]:
    """Return the JSON for binary tensors alone, and its headers: a model has the same again and again."""
    text = to_json(_head(name, version, None, outputs))
    return text, _headers(text)
